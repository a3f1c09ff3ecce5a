"""Records: what goes in comes out, and nothing else ever does."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequencer.journal.layout import BAD, HEADER_SIZE, ID_FLAG, MORE, RECORD
from sequencer.journal.record import RecordBatch, Walk, record_size

SALT = 0xC0FFEE
Message = tuple[bytes, bytes, bytes, bytes]
SMALL = st.binary(max_size=40)
MESSAGES = st.lists(
    st.tuples(st.binary(min_size=1, max_size=40), SMALL, SMALL, st.binary(max_size=300)),
    min_size=1,
    max_size=12,
)


def batch_of(messages: Sequence[Message], first: int = 1) -> RecordBatch:
    batch = RecordBatch(SALT, 7)
    for at, message in enumerate(messages):
        batch.append_message(first + at, 1000 + at, *message, origin=5, origin_sequence=at)
    return batch


def walked(buffer: bytes, salt: int = SALT) -> tuple[list[tuple[int, Message]], int, int]:
    """Numbers and messages, how it ended, and where."""
    walk = Walk(salt)
    walk.attach(buffer, 0, len(buffer))
    found = []
    while (state := walk.next()) == RECORD:
        parts = (
            (walk.subject, walk.subject_size),
            (walk.reply, walk.reply_size),
            (walk.body, walk.header_size),
            (walk.payload, walk.payload_size),
        )
        subject, reply, headers, payload = (buffer[at : at + size] for at, size in parts)
        message = (subject, reply, headers, payload)
        found.append((walk.number, message))
        assert (walk.time - 1000, walk.origin, walk.epoch) == (walk.origin_sequence, 5, 7)
    return found, state, walk.at


@given(MESSAGES, st.integers(1, (1 << 63) - 20))
def test_given_any_messages_when_walked_then_they_are_the_same(
    messages: list[Message], first: int
) -> None:
    batch = batch_of(messages, first)
    buffer = bytes(batch.view())
    assert (batch.first, batch.last, batch.time) == (first, first + len(messages) - 1, 1000)
    sizes = [record_size(len(m[0]), len(m[1]), len(m[2]) + len(m[3])) for m in messages]
    assert sum(sizes) == len(buffer) == batch.end
    assert walked(buffer) == (list(enumerate(messages, first)), MORE, len(buffer))


@given(MESSAGES, st.data())
def test_given_a_batch_that_is_looked_at_in_between_then_it_is_the_same_in_the_end(
    messages: list[Message], data: st.DataObject
) -> None:
    whole = bytes(batch_of(messages).view())
    batch = RecordBatch(SALT, 7)
    for at, message in enumerate(messages):
        batch.append_message(1 + at, 1000 + at, *message, origin=5, origin_sequence=at)
        if data.draw(st.booleans()):
            batch.view().release()
    assert bytes(batch.view()) == whole


@given(MESSAGES, st.integers(0, 1 << 10), st.lists(st.integers(0, 3), min_size=20, max_size=20))
def test_given_a_place_in_the_journal_then_the_same_records_are_there_and_nothing_else_changes(
    messages: list[Message], words: int, acts: list[int]
) -> None:
    whole = bytes(batch_of(messages).view())
    memory = bytearray(b"\xaa" * (8 * words + len(whole) + 64))
    batch = RecordBatch(SALT, 7)
    batch.set_target(memoryview(memory), 8 * words)
    at = 8 * words
    for number, message in enumerate(messages):
        batch.append_message(1 + number, 1000 + number, *message, origin=5, origin_sequence=number)
        if acts[number % 20] == 0:
            batch.view().release()
        elif acts[number % 20] == 1:  # as after a commit
            at += batch.seal()
            batch.clear()
    assert at + batch.seal() == 8 * words + len(whole)
    assert bytes(batch.view()) == whole[at - 8 * words :]
    assert memory[: 8 * words] == b"\xaa" * 8 * words
    assert memory[8 * words : -64] == whole
    assert memory[-64:] == b"\xaa" * 64


@pytest.mark.parametrize("sizes", [(1 << 16,), (100, 1 << 20, 100), (4096,) * 40, (9, 70_000) * 3])
def test_given_records_longer_than_the_buffer_when_they_have_a_place_then_they_are_there(
    sizes: tuple[int, ...],
) -> None:
    messages = [(b"some.subject", b"", b"", random.Random(size).randbytes(size)) for size in sizes]
    whole = bytes(batch_of(messages).view())
    memory = bytearray(len(whole) + 8)
    batch = RecordBatch(SALT, 7)
    batch.set_target(memoryview(memory), 8)
    for number, message in enumerate(messages):
        batch.append_message(1 + number, 1000 + number, *message, origin=5, origin_sequence=number)
        assert batch.waiting() == sum(record_size(12, 0, size) for size in sizes[: number + 1])
    assert (batch.first, batch.last, batch.time) == (1, len(sizes), 1000)
    assert bytes(batch.view()) == whole == memory[8:]


def test_given_a_batch_that_had_a_place_when_it_has_none_then_it_holds_the_records_itself() -> None:
    memory = bytearray(1 << 10)
    batch = RecordBatch(SALT, 7)
    batch.append_message(1, 1, b"a", b"", b"", b"x" * (1 << 19))
    batch.clear()
    batch.set_target(memoryview(memory), 0)
    batch.append_message(2, 2, b"a", b"", b"", b"in the journal")
    batch.seal()
    batch.clear()
    kept = bytes(memory)
    batch.set_target(None)
    batch.append_message(3, 3, b"a", b"", b"", b"in the batch")
    with batch.view() as view:
        assert b"in the batch" in bytes(view)
    assert memory == kept


@given(MESSAGES)
def test_given_a_cut_anywhere_then_whole_records_come_and_no_other(messages: list[Message]) -> None:
    buffer = bytes(batch_of(messages).view())
    ends, at = [], 0
    for message in messages:
        at += record_size(len(message[0]), len(message[1]), len(message[2]) + len(message[3]))
        ends.append(at)
    for cut in range(len(buffer)):
        found, state, _ = walked(buffer[:cut])
        assert [number for number, _ in found] == list(range(1, 1 + sum(e <= cut for e in ends)))
        assert state == MORE


def test_given_any_bit_flipped_then_no_other_message_comes() -> None:
    messages: list[Message] = [(b"a.b", b"r", b"NATS/1.0\r\n\r\n", b"hello"), (b"c", b"", b"", b"")]
    buffer = bytes(batch_of(messages).view())
    right = list(enumerate(messages, 1))
    for at in range(len(buffer)):
        for bit in range(8):
            spoilt = bytearray(buffer)
            spoilt[at] ^= 1 << bit
            found, state, where = walked(bytes(spoilt))
            assert found == right[: len(found)]
            assert len(found) < 2
            assert state in (BAD, MORE)
            assert where <= at


def test_given_another_salt_then_nothing_is_a_record() -> None:
    buffer = bytes(batch_of([(b"a", b"", b"", b"x")]).view())
    assert walked(buffer, SALT + 1) == ([], BAD, 0)


@pytest.mark.parametrize("buffer", [bytes(HEADER_SIZE), b"\xff" * 200, b"x" * HEADER_SIZE])
def test_given_input_that_is_no_record_then_it_is_bad(buffer: bytes) -> None:
    assert walked(buffer)[1] == BAD


def test_given_a_skim_then_it_hops_over_what_is_spoilt() -> None:
    buffer = bytearray(batch_of([(b"a", b"", b"", b"x" * 100), (b"b", b"", b"", b"y")]).view())
    buffer[HEADER_SIZE + 50] ^= 1
    walk = Walk(SALT)
    walk.attach(buffer, 0, len(buffer))
    assert [walk.skim(), walk.skim(), walk.skim()] == [RECORD, RECORD, MORE]
    assert walk.number == 2


@pytest.mark.parametrize("wanted", range(8))
def test_given_a_number_that_is_sought_then_next_reads_it(wanted: int) -> None:
    buffer = batch_of([(b"a", b"", b"", bytes(10 * at)) for at in range(5)]).view()
    walk = Walk(SALT)
    walk.attach(bytes(buffer), 0, len(buffer))
    walk.seek(wanted)
    assert walk.next() == RECORD
    assert walk.number == min(max(1, wanted), 5)


def test_given_any_bit_flipped_when_a_number_is_sought_then_the_damage_is_found_before_it() -> None:
    buffer = bytes(batch_of([(b"a", b"", b"", bytes(100)) for _ in range(4)]).view())
    size = len(buffer) // 4
    for at in range(size, size + HEADER_SIZE):
        for bit in range(8):
            spoilt = bytearray(buffer)
            spoilt[at] ^= 1 << bit
            walk = Walk(SALT)
            walk.attach(bytes(spoilt), 0, len(buffer))
            walk.seek(4)
            while (outcome := walk.next()) == RECORD and walk.number < 4:
                pass
            if outcome == RECORD:  # passed over unseen, which led to the right place
                assert walk.at == 3 * size
                assert not size + 8 <= at < size + 16
            else:
                assert walk.at == size


STEPS = st.lists(  # to the next number, time, epoch and flags; and whether it is damaged
    st.tuples(
        st.sampled_from((1, 1, 1, 1, 2)),
        st.sampled_from((0, 1, 1, 1, -1)),
        st.sampled_from((0, 0, 0, 0, 1)),
        st.sampled_from((0, 0, 0, 0, ID_FLAG)),
        st.sampled_from((False, False, False, False, True)),
    ),
    min_size=1,
    max_size=30,
)


@given(STEPS, st.integers(0, 40), st.integers(0, 3000))
def test_given_any_records_when_it_advances_then_it_ends_with_the_last_one_like_the_first(
    steps: list[tuple[int, int, int, int, bool]], limit: int, stop: int
) -> None:
    buffer, number, time, epoch = bytearray(), 10, 1000, 1
    like = -1  # how many records after the first are like it
    places = []
    ended = False
    kind = (epoch, 0)
    for step, later, newer, flags, damaged in steps:
        known = (number, time)
        number, time, epoch = number + step, time + later, epoch + newer
        batch = RecordBatch(SALT, epoch)
        batch.append_message(number, time, b"s", b"", b"", bytes(number), flags=flags)
        record = bytearray(batch.view())
        place = len(buffer)
        if like < 0:
            kind = (epoch, flags)
        else:
            follows = number == known[0] + 1 and time >= known[1] and kind == (epoch, flags)
            ended = ended or damaged or not follows or number >= limit or place >= stop
            record[-1] ^= damaged
        if not ended:
            like += 1
        places.append((number, time, place, place + len(record)))
        buffer += record
    walk = Walk(SALT)
    walk.attach(buffer, 0, len(buffer))
    assert walk.next() == RECORD
    walk.advance(limit, stop)
    assert (walk.number, walk.time, walk.at, walk.after) == places[like]
    assert (walk.epoch, walk.flags) == kind


def test_given_no_checksums_then_both_sides_do_without() -> None:
    batch = RecordBatch(SALT, 7, checked=False)
    batch.append_message(1, 1, b"a", b"", b"", b"x")
    buffer = bytes(batch.view())
    walk = Walk(SALT, checked=False)
    walk.attach(buffer, 0, len(buffer))
    assert walk.next() == RECORD
    walk = Walk(SALT)
    walk.attach(buffer, 0, len(buffer))
    assert walk.next() == BAD


def test_given_a_batch_when_cleared_then_it_is_empty_and_small_again() -> None:
    batch = RecordBatch(SALT, 7)
    batch.append_message(9, 1, b"a", b"", b"NATS/1.0\r\n\r\n", b"x" * (2 << 20), flags=ID_FLAG)
    assert batch.ids
    assert batch.size > 2 << 20
    batch.clear()
    assert (batch.first, batch.last, batch.end, batch.time, batch.ids) == (0, 0, 0, 0, False)
    assert batch.size < 1 << 20
    assert bytes(batch.view()) == b""
