"""Strangers and mishaps: garbage, forged requests, the wrong plug, another journal."""

import random
import shutil
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from sequencer.feed.codecs import CODECS, codec_named
from sequencer.feed.errors import CodecError
from sequencer.feed.feed_message import FeedMessage
from sequencer.feed.moldudp64 import request
from tests.network.hosts import Host
from tests.network.publisher import payload
from tests.network.scene import Scene
from tests.network.test_lossy_feed import (
    BAD,
    GROUP,
    REREQUESTS,
    feed,
    fill_of,
    is_whole,
    mold,
)

COUNT = 2000
GROUP6 = "[ff15::77:1]:5000"
FEW = 100  # with the garbage between them what any kernel holds unread
DEAF = "idle=600"  # asks nobody what it has not heard: it has read all before what it has heard
AGAIN_S = 0.25


@pytest.fixture
def rng() -> random.Random:
    return random.Random(20)


def sender(host: Host, group: str = GROUP) -> socket.socket:
    """A socket of a host's, to send to the group."""
    with host.inside():
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(host.address()))
    address, _, port = group.rpartition(":")
    made.connect((address, int(port)))
    return made


def journal_of(scene: Scene) -> str:
    line = next(line for line in scene.broker.log if "Journal" in line)
    return line.partition("Journal ")[2].split()[0]


def garbage(codec_name: str, rng: random.Random) -> Iterator[bytes]:
    """Datagrams that are none: random bytes, and good ones that are cut or lengthened."""
    codec = codec_named(codec_name)
    codec.open("00000000deadbeef", 1)
    messages = [FeedMessage(7 + n, payload("evil", n, 60), b"evil") for n in range(3)]
    good = codec.datagram(messages, 6)
    for _ in range(30):
        for bad in (
            rng.randbytes(rng.randrange(1400)),
            good[: rng.randrange(len(good))],
            good + rng.randbytes(rng.randrange(1, 9)),
        ):
            with suppress(CodecError):  # a cut may leave whole frames
                codec.decode(bad)
                continue
            yield bad


def test_given_garbage_on_the_group_then_it_is_counted_and_nothing_else(
    rng: random.Random,
) -> None:
    """A group for each codec."""
    groups = {name: f"239.77.0.{at}:5000" for at, name in enumerate(CODECS, 1)}
    bad = {name: list(garbage(name, rng)) for name in CODECS}
    with Scene(*(feed(name, groups[name]) for name in CODECS)) as scene:
        far, evil, fill = scene.host("far"), scene.network.host("evil"), fill_of(scene, "nats")
        listeners = {
            name: scene.listen(far, name, fill, "1", str(2 * FEW), groups[name], DEAF)
            for name in CODECS
        }
        publisher = scene.publisher()
        publisher.publish(FEW)
        for name in CODECS:
            with sender(evil, groups[name]) as liar:
                for datagram in bad[name]:
                    liar.send(datagram)
        publisher.publish(FEW)
        for name, listener in listeners.items():
            report = listener.report()
            assert is_whole(report, 2 * FEW), name
            assert report["counters"]["malformed"] == len(bad[name]) > 85, name


@pytest.mark.parametrize("size", [3000, 60_000])
def test_given_messages_longer_than_the_network_carries_in_one_then_all_arrive(size: int) -> None:
    count = COUNT // 10
    with Scene(mold(), feed("binary", GROUP6)) as scene:
        far = scene.host("far", BAD)
        # An answer to a re-request is a datagram too: of 42 pieces hardly all arrive.
        fill = fill_of(scene, "mold" if size == 3000 else "nats")
        old = scene.listen(far, "moldudp64", fill, "1", str(count), GROUP)
        new = scene.listen(far, "binary", fill_of(scene, "nats"), "1", str(count), GROUP6)
        scene.publisher(size=size).publish(count)
        assert is_whole(old.report(), count)
        assert is_whole(new.report(), count)


def test_given_a_receiver_on_the_wrong_interface_then_it_lives_on_what_it_asks_for() -> None:
    with Scene(feed("netstring"), lans=2) as scene:
        fill = fill_of(scene, "nats")
        listener = scene.listen(
            scene.host("far"), "netstring", fill, "1", str(COUNT), f"{GROUP},eth1"
        )
        scene.publisher().publish(COUNT)
        report = listener.report()
    assert is_whole(report, COUNT)
    assert report["counters"]["datagrams"] == 0
    assert report["counters"]["filled"] == COUNT


@pytest.mark.parametrize("codec", ["netstring", "binary"])
def test_given_another_journal_when_the_broker_is_back_then_its_stream_is_a_new_one(
    codec: str,
) -> None:
    with Scene(feed(codec)) as scene:
        fill = fill_of(scene, "nats")
        listener = scene.listen(scene.host("far"), codec, fill, "1", "0", GROUP)
        scene.publisher().publish(2000)
        listener.await_number(2000)
        scene.broker.stop()
        shutil.rmtree(scene.broker.store)
        scene.start()
        scene.publisher("q").publish(1000)
        listener.await_number(1000)
        report = listener.stop()
    assert [other for other in report["others"] if "ended" not in other] == ["new stream"]
    assert report["delivered"] == 3000
    assert is_whole({**report, "others": [], "delivered": 1000}, 1000)


def forged(source: str, target: str, port: int, data: bytes) -> bytes:
    """An IP packet that says it comes from another; the kernel fills in the rest of the head."""
    udp = struct.pack("!HHHH", port, REREQUESTS, 8 + len(data), 0) + data
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, socket.IPPROTO_UDP, 0)
    return head + socket.inet_aton(source) + socket.inet_aton(target) + udp


def answer_to(asker: socket.socket, asked: bytes, home: str) -> bytes:
    """What is answered; it is asked again meanwhile: a full socket loses a question."""
    asker.settimeout(AGAIN_S)
    until = time.monotonic() + 60
    while time.monotonic() < until:
        asker.sendto(asked, (home, REREQUESTS))
        with suppress(TimeoutError):
            return asker.recv(65536)
    raise AssertionError("nothing is answered")


def test_given_forged_requests_then_the_victim_gets_no_flood_and_others_are_served() -> None:
    rate = 65536
    options = f",rerequest_port={REREQUESTS},rerequest_rate={rate}"
    with Scene(feed("moldudp64", more=options)) as scene:
        victim, honest, evil = (scene.network.host(name) for name in ("victim", "honest", "evil"))
        scene.publisher().publish(1000)
        codec = codec_named("moldudp64")
        codec.open(journal_of(scene), 1)
        asked = request(codec.session, 1, 1000)  # type: ignore[attr-defined]
        with victim.inside():
            flooded = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with evil.inside():
            liar = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
        with honest.inside():
            asker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with flooded, liar, asker:
            flooded.bind((victim.address(), 0))
            start, home = time.monotonic(), scene.home.address()
            for _ in range(2000):
                port = flooded.getsockname()[1]
                liar.sendto(forged(victim.address(), home, port, asked), (home, 0))
            assert codec.decode(answer_to(asker, asked, home)).messages[0].number == 1
            flooded.setblocking(False)
            got = 0
            try:
                while True:
                    got += len(flooded.recv(65536))
            except BlockingIOError:
                seconds = time.monotonic() - start
    assert 0 < got <= rate / 4 + rate * seconds + 1472
