"""The ring in memory: the newest messages, with the interface of a journal."""

from sequencer.journal.ring import PIECE_BYTES, Ring, RingSegment
from tests.support.stores import SECOND, messages, payload_of, put, read_from


def test_given_a_new_ring_when_asked_then_it_is_empty_and_its_id_is_its_own() -> None:
    ring = Ring(1 << 20)
    assert (ring.first, ring.last, ring.bytes) == (1, 0, 0)
    assert (ring.oldest_time, ring.newest_time, ring.epoch) == (0, 0, 1)
    assert len(ring.id) == 16
    assert ring.id != Ring(1 << 20).id
    assert messages(ring) == {}


def test_given_messages_when_read_then_they_are_what_was_written() -> None:
    ring = Ring(64 << 20)
    for _ in range(300):
        put(ring, 10, size=900)
    found = messages(ring)
    assert list(found) == list(range(1, 3001))
    assert found[1234] == (SECOND * 1231, payload_of(1234, 900))
    assert len(ring.segments()) > 5
    assert ring.last == 3000
    for number in (1, 2, 1500, 3000):
        there = [one[0] for one in read_from(ring, *ring.locate(number))]
        assert there[0] <= number <= there[-1]
    assert ring.locate(3001) == (ring.segments()[-1], ring.segments()[-1].size)


def test_given_a_time_when_located_then_the_first_of_that_time_is_at_or_after_the_place() -> None:
    ring = Ring(64 << 20)
    for number in range(1, 1000):
        put(ring, size=900, time=number // 100 + 1)
    for time in (0, 1, 2, 5, 10):
        records = read_from(ring, *ring.locate_time(time))
        first = next(number for number, when, _ in records if when >= time)
        assert first == max(1, (time - 1) * 100)
    assert list(read_from(ring, *ring.locate_time(11))) == []


def test_given_more_than_it_holds_when_written_then_the_oldest_are_forgotten() -> None:
    ring = Ring(1 << 20)
    for _ in range(3000):
        put(ring, size=900)
    assert ring.bytes <= 1 << 20
    assert ring.bytes == sum(piece.size for piece in ring.segments())
    assert 500 < ring.last - ring.first < 1200
    assert list(messages(ring)) == list(range(ring.first, 3001))
    assert ring.locate(1) == (ring.segments()[0], 0)


def test_given_a_held_piece_when_it_is_forgotten_then_its_holder_reads_on_from_it() -> None:
    ring = Ring(1 << 20)
    put(ring, 10)
    piece, offset = ring.locate(1)
    piece.hold()
    for _ in range(3000):
        put(ring, size=900)
    assert piece.gone
    assert next(read_from(ring, piece, offset))[2] == payload_of(1)
    piece.release()


def test_given_a_piece_that_nobody_holds_when_it_is_forgotten_then_its_buffer_is_used_again() -> (
    None
):
    ring = Ring(2 * PIECE_BYTES)
    for _ in range(2000):
        put(ring, size=900)
    first, second = ring.segments()[0], ring.segments()[0].following
    buffer = first.buffer
    numbers = range(first.first, first.last + 1)
    while not first.gone:
        put(ring, size=900)
    assert ring.segments()[-1].buffer is buffer
    assert first.read(0, memoryview(bytearray(10)), True) == 0
    found = [one[0] for one in read_from(ring, first, 0)]
    assert found[0] == numbers[-1] + 1 == second.first


def test_given_a_batch_longer_than_the_ring_when_written_then_it_alone_is_kept() -> None:
    ring = Ring(PIECE_BYTES // 2)
    put(ring, 3)
    put(ring, 10, size=PIECE_BYTES)
    assert list(messages(ring)) == list(range(4, 14))
    put(ring)
    assert list(messages(ring)) == [14]


def test_given_a_reader_at_the_end_of_an_empty_ring_when_written_then_it_finds_it() -> None:
    ring = Ring(1 << 20)
    piece, offset = ring.locate(1)
    put(ring)
    assert [one[0] for one in read_from(ring, piece, offset)] == [1]


def test_given_readers_that_hold_more_than_the_ring_then_they_are_asked_to_let_go() -> None:
    ring, held, asked = Ring(4 * PIECE_BYTES), list[RingSegment](), 0

    def let_go() -> None:
        nonlocal asked
        asked += 1
        while held:
            held.pop().release()

    ring.let_go = let_go
    for number in range(1, 41):
        ring.write(memoryview(bytes(PIECE_BYTES)), number, number, number, False)
        held.append(ring.segments()[-1])
        held[-1].hold()
        assert sum(len(piece.buffer) for piece in held) <= 9 * PIECE_BYTES
    assert asked > 2


def test_given_a_dropped_piece_when_its_last_holder_releases_it_then_its_memory_is_free() -> None:
    ring = Ring(2 * PIECE_BYTES)
    ring.write(memoryview(bytes(PIECE_BYTES)), 1, 1, 1, False)
    piece = ring.segments()[0]
    piece.hold()
    piece.hold()
    for number in range(2, 6):
        ring.write(memoryview(bytes(PIECE_BYTES)), number, number, number, False)
    assert piece.gone
    piece.release()
    assert len(piece.buffer) == PIECE_BYTES
    piece.release()
    assert len(piece.buffer) == 0
    assert piece.read(0, memoryview(bytearray(8)), True) == 0
