"""The lossy wire itself: what it passes, loses, duplicates and reorders, and nothing else."""

import os
import socket
import struct
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from itertools import islice, pairwise

import pytest

from tests.network.hosts import SEED, Host, Network
from tests.network.wire import Counts, Wire, draws, program

PORT = 5000
NUMBER = struct.Struct(">I")
WINDOW = 100  # datagrams on their way at a time: what no buffer between has to drop
UDP_SEGMENT = 103


class Lane:
    """Numbered datagrams from one host to the other; `far` hangs on a wire."""

    def __init__(self, near: Host, far: Host) -> None:
        self.near, self.far = near, far
        self.wire: Wire = far.wires[0]

    def send(self, way: str, amount: int) -> list[int]:
        """Send 0, 1, 2 .. by the wire (right is to `far`); what has arrived, in its order."""
        source, target = (self.near, self.far) if way == "right" else (self.far, self.near)
        with bound(source) as sender, bound(target) as receiver:
            sender.connect((target.address(), PORT))
            arrived: list[int] = []
            for start in range(0, amount, WINDOW):
                numbers = range(start, min(start + WINDOW, amount))
                before = self.wire.count()[way, "udp"]
                for number in numbers:
                    sender.send(NUMBER.pack(number))
                arrived += self.receive(receiver, way, before, len(numbers))
        return arrived

    def receive(self, receiver: socket.socket, way: str, before: Counts, sent: int) -> list[int]:
        while (counts := self.wire.count()[way, "udp"]).seen - before.seen < sent:
            pass
        due = sent - (counts.lost - before.lost) + (counts.duplicated - before.duplicated)
        return [NUMBER.unpack(receiver.recv(100))[0] for _ in range(due)]


def bound(host: Host) -> socket.socket:
    with host.inside():
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind(("", PORT))
    made.settimeout(30)
    return made


@pytest.fixture(autouse=True)
def _one_cpu() -> Iterator[None]:
    """Each CPU queues the frames that it sends: on two of them the kernel itself may reorder."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    yield
    os.sched_setaffinity(0, allowed)


@pytest.fixture
def lane() -> Iterator[Lane]:
    with Network() as network:
        yield Lane(network.host("near"), network.host("far", wired=True))


@pytest.mark.parametrize("way", ["right", "left"])
def test_given_no_rates_when_datagrams_pass_then_all_arrive_in_order(lane: Lane, way: str) -> None:
    assert lane.send(way, 1000) == list(range(1000))
    assert lane.wire.stop()[way, "udp"] == Counts(1000, 0, 0, 0)


@pytest.mark.parametrize("way", ["right", "left"])
def test_given_a_loss_then_exactly_those_of_the_seed_are_lost(lane: Lane, way: str) -> None:
    other = "left" if way == "right" else "right"
    lane.wire.set(f"{way} udp loss 0.05")
    lane.wire.set(f"{other} udp loss 1")
    drawn = islice(draws(SEED, way, "udp"), 2000)
    kept = [number for number, (loss, *_) in enumerate(drawn) if loss >= 0.05]
    assert lane.send(way, 2000) == kept
    assert 60 < 2000 - len(kept) < 140


def test_given_two_hosts_of_two_seeds_then_they_lose_other_datagrams() -> None:
    with Network() as network:
        near = network.host("near")
        fars = [network.host(f"far{n}", wired=True, seed=SEED + n) for n in range(2)]
        arrived = []
        for lane in (Lane(near, far) for far in fars):
            lane.wire.set("right udp loss 0.5")
            arrived.append(lane.send("right", 200))
    assert arrived[0] != arrived[1]


def test_given_duplicates_then_the_drawn_ones_come_twice(lane: Lane) -> None:
    lane.wire.set("both udp duplicate 0.1")
    doubled = [n for n, d in enumerate(islice(draws(SEED, "right", "udp"), 1000)) if d[1] < 0.1]
    arrived = lane.send("right", 1000)
    assert arrived == sorted([*range(1000), *doubled])
    assert lane.wire.stop()["right", "udp"] == Counts(1000, 0, len(doubled), 0)


def test_given_reordering_then_all_arrive_and_the_drawn_ones_later(lane: Lane) -> None:
    lane.wire.set("both udp reorder 0.05")
    delayed = {n for n, d in enumerate(islice(draws(SEED, "right", "udp"), 1000)) if d[2] < 0.05}
    arrived = lane.send("right", 1000)
    assert sorted(arrived) == list(range(1000))
    assert [number for number in arrived if number not in delayed] == [
        number for number in range(1000) if number not in delayed
    ]
    late = {n for at, n in enumerate(arrived) if any(m > n for m in arrived[max(0, at - 17) : at])}
    assert late <= delayed
    # How many depends on the machine: who has nothing behind it for 5 ms goes out all the same.
    assert late


def test_given_bursts_then_so_many_are_lost_in_a_row(lane: Lane) -> None:
    lane.wire.set("both udp burst 0.01 length 20")
    arrived = lane.send("right", 2000)
    gaps = [b - a - 1 for a, b in pairwise(arrived) if b - a > 1]
    assert gaps
    assert all(gap >= 20 for gap in gaps)
    assert set(Counter(gaps)) & {20}, "most bursts end before the next begins"


def test_given_a_datagram_for_segmentation_then_the_wire_sees_every_segment(lane: Lane) -> None:
    with bound(lane.near) as sender, bound(lane.far) as receiver:
        sender.connect((lane.far.address(), PORT))
        sender.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, NUMBER.size)
        sender.send(b"".join(NUMBER.pack(number) for number in range(40)))
        assert lane.receive(receiver, "right", Counts(0, 0, 0, 0), 40) == list(range(40))


@pytest.mark.parametrize("loss", [0.0, 0.01], ids=["unharmed", "with losses"])
def test_given_all_udp_is_lost_then_tcp_comes_through_at_its_own_rate(
    lane: Lane, loss: float
) -> None:
    lane.wire.set("both udp loss 1")
    lane.wire.set(f"both tcp loss {loss}")
    sent = os.urandom(4_000_000)
    with lane.far.inside():
        listener = socket.create_server((lane.far.address(), PORT))
    with lane.near.inside():
        sender = socket.create_connection((lane.far.address(), PORT), timeout=60)
    with listener, sender, listener.accept()[0] as receiver:
        threading.Thread(target=sender.sendall, args=[sent]).start()
        receiver.settimeout(60)
        received = bytearray()
        while len(received) < len(sent):
            received += receiver.recv(1 << 20)
    assert received == sent
    counts = lane.wire.stop()["right", "tcp"]
    assert counts.seen > 2000
    assert (counts.lost > 5) is (loss > 0)


@pytest.mark.parametrize(
    "wrong", ["both udp", "both udp loss", "both udp loss 1.5", "both sctp loss 0", "up udp loss 0"]
)
def test_given_a_command_that_the_wire_does_not_know_then_it_ends(lane: Lane, wrong: str) -> None:
    with lane.near.inside():
        command = [str(program()), "1", "lo", "eth0"]
        done = subprocess.run(command, input=f"{wrong}\n", capture_output=True, text=True)
    assert (done.returncode, done.stderr[:14]) == (2, "not a command:")
