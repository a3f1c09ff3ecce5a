"""Receive buffers: any chunking gives the same operations, and memory is bounded."""

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.clients.inbox import OWN_MIN, Inbox, Intake
from broker.dataplane.connection import SpareBuffers
from parser.machine import Parser
from parser.ops import MORE, PUB
from testkit.stage import QUIET, Stage
from tests.support.depth import examples

KIB, MIB = 1 << 10, 1 << 20


class Reader:
    """A connection that only counts and keeps the payloads it has read."""

    def __init__(self, inbox: Inbox) -> None:
        self.intake = Intake(inbox)
        self.parser = Parser(512, 4 * MIB)
        self.payloads: list[bytes] = []
        self.room: list[int] = []

    def read(self, wire: bytes, most: int) -> None:
        """Read events of at most so many bytes each."""
        at = 0
        while at < len(wire):
            buffer = self.next_buffer()
            self.room.append(len(buffer))
            count = min(len(buffer), most, len(wire) - at)
            assert count > 0, "there is always room for a read"
            buffer[:count] = wire[at : at + count]
            del buffer
            at += count
            self._serve(count)

    def next_buffer(self) -> memoryview:
        """Where the next read goes."""
        target = self.intake.target()
        return memoryview(target)[self.intake.end :][: self.intake.room()]

    def space(self) -> int:
        """The most bytes that the next read may bring."""
        return len(self.next_buffer())

    def _serve(self, count: int) -> None:
        buffer, stop = self.intake.target(), self.intake.filled(count)
        parser = self.parser
        parser.attach(buffer, 0, stop)
        while (op := parser.next()) != MORE:
            assert op == PUB, parser.fault
            self.payloads.append(bytes(buffer[parser.body : parser.body + parser.size]))
        self.intake.keep(buffer, parser.at, stop, parser)


def publish(payload: bytes) -> bytes:
    return b"PUB subject %d\r\n%b\r\n" % (len(payload), payload)


sizes = st.one_of(
    st.integers(0, 40), st.integers(500, 4000), st.sampled_from([OWN_MIN, 100_000, 300_000])
)


@settings(max_examples=examples(150))
@given(
    lengths=st.lists(sizes, min_size=1, max_size=6),
    most=st.sampled_from([7, 64, 1000, 5000, 1 << 20]),
    size=st.sampled_from([64, 1024, 65536]),
)
def test_given_any_messages_and_reads_then_all_payloads_come_out_as_they_were(
    lengths: list[int], most: int, size: int
) -> None:
    reader = Reader(Inbox(size, 512, SpareBuffers()))
    payloads = [bytes([turn + 1]) * length for turn, length in enumerate(lengths)]
    if most < 1000:
        payloads = [payload[:5000] for payload in payloads]
    reader.read(b"".join(publish(payload) for payload in payloads), most)
    assert reader.payloads == payloads


@settings(max_examples=examples(100))
@given(turns=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 700)), min_size=1, max_size=40))
def test_given_connections_that_read_in_turn_then_none_sees_what_another_left(
    turns: list[tuple[int, int]],
) -> None:
    inbox = Inbox(256, 512, SpareBuffers())
    readers = [Reader(inbox) for _ in range(3)]
    wires = [b"".join(publish(bytes([index]) * size) for size in range(400)) for index in range(3)]
    at = [0, 0, 0]
    for index, count in turns:
        readers[index].read(wires[index][at[index] : at[index] + count], 1 << 20)
        at[index] += count
    for index, reader in enumerate(readers):
        assert reader.payloads == [bytes([index]) * size for size in range(len(reader.payloads))]


def test_given_nothing_kept_then_a_read_has_the_whole_inbox() -> None:
    inbox = Inbox(1000, 512, SpareBuffers())
    reader = Reader(inbox)
    reader.read(publish(b"x") * 3, 1 << 20)
    assert reader.space() == len(inbox.buffer) >= 1000


def test_given_a_short_rest_then_it_stands_before_what_comes_next() -> None:
    inbox = Inbox(1000, 512, SpareBuffers())
    reader = Reader(inbox)
    reader.read(b"PUB subj", 1 << 20)
    assert reader.space() == len(inbox.buffer) - len(b"subj")
    reader.read(b"ect 1\r\nx\r\n", 1 << 20)
    assert reader.payloads == [b"x"]
    assert reader.space() == len(inbox.buffer)


@pytest.mark.parametrize("size", [200_000, 1_000_000])
def test_given_a_long_message_then_no_byte_after_its_end_is_read_with_it(size: int) -> None:
    reader = Reader(Inbox(4096, 512, SpareBuffers()))
    wire = publish(b"x" * size)
    reader.read(wire + publish(b"y") * 3, 1 << 20)
    assert [len(payload) for payload in reader.payloads] == [size, 1, 1, 1]


def test_given_long_messages_then_the_next_one_uses_the_buffer_of_the_last() -> None:
    spare = SpareBuffers()
    reader = Reader(Inbox(4096, 512, spare))
    for size in (MIB, MIB - 100, 300_000, MIB):
        reader.read(publish(bytes([size % 7]) * size) + publish(b"y"), 1 << 16)
        assert reader.payloads[-2:] == [bytes([size % 7]) * size, b"y"]
        assert spare.bytes == sum(map(len, spare.buffers))
        assert reader.intake.own is None
    assert len({id(buffer) for buffer in spare.buffers}) == len(spare.buffers)
    assert spare.bytes < 4 * MIB, "those that were outgrown are not kept"


def test_given_a_long_message_in_small_reads_then_it_moves_a_few_times_only() -> None:
    reader = Reader(Inbox(4096, 512, SpareBuffers()))
    reader.read(publish(b"x" * MIB), 4096)
    moves = sum(
        later > earlier for earlier, later in zip(reader.room, reader.room[1:], strict=False)
    )
    assert moves < 12, "a buffer doubles"


def traced(stage: Stage, wires: list[list[bytes]]) -> int:
    """The memory that connections hold after they have said these things and fallen silent."""
    peers = [stage.join(QUIET) for _ in wires]
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for peer, chunks in zip(peers, wires, strict=True):
            peer.send(*chunks)
        after, _ = tracemalloc.get_traced_memory()
        return after - before
    finally:
        tracemalloc.stop()


def test_given_idle_connections_that_sent_a_long_message_then_they_hold_no_buffer() -> None:
    stage = Stage(receive_buffer=64 * KIB)
    wires = [[publish(b"x" * MIB)] for _ in range(10)]
    assert traced(stage, wires) < 2 * MIB, "the last buffer may still be at hand, but only that one"
    assert stage.number == 10


def test_given_connections_that_announce_a_lot_and_send_little_then_they_hold_little() -> None:
    stage = Stage(receive_buffer=64 * KIB)
    announced = b"PUB a 1000000\r\n" + b"x" * 1000
    assert traced(stage, [[announced] for _ in range(100)]) < 100 * (OWN_MIN + 8 * KIB)


def test_given_an_unfinished_long_message_then_twice_what_has_arrived_is_held_at_most() -> None:
    stage = Stage(receive_buffer=64 * KIB)
    part = b"PUB a 1000000\r\n" + b"x" * 200_000
    assert traced(stage, [[part] for _ in range(10)]) < 10 * 2 * 210_000
