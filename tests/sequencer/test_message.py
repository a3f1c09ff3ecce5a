"""A message as spans: a walk finds what a batch was given, wherever the record lies."""

from hypothesis import given, settings
from hypothesis import strategies as st

from sequencer.journal.layout import MORE, RECORD
from sequencer.journal.record import RecordBatch, Walk
from sequencer.message import Message
from tests.support.depth import examples

many = settings(max_examples=examples(100))
SALT = 7
texts = st.binary(max_size=40)


def test_given_no_message_yet_then_all_its_spans_are_empty() -> None:
    message = Message()
    sizes = (message.subject_size, message.reply_size, message.header_size, message.payload_size)
    assert (sizes, message.size, message.number, message.buffer) == ((0, 0, 0, 0), 0, 0, b"")


@many
@given(texts, texts, texts, texts, st.integers(0, 9), st.booleans())
def test_given_a_record_when_walked_then_the_walk_is_the_message_that_was_put(
    subject: bytes, reply: bytes, headers: bytes, payload: bytes, before: int, mutable: bool
) -> None:
    batch = RecordBatch(SALT, 3)
    batch.append_message(5, 6, subject, reply, headers, payload, 7, 8, 1)
    records = b"\0" * before + bytes(batch.view())
    buffer = bytearray(records) if mutable else records
    walk = Walk(SALT)
    walk.attach(buffer, before, len(buffer))
    assert walk.next() == RECORD
    message: Message = walk
    assert message.buffer is buffer
    spans = [
        (message.subject, message.subject_size),
        (message.reply, message.reply_size),
        (message.body, message.header_size),
        (message.payload, message.payload_size),
    ]
    found = [bytes(buffer[start : start + size]) for start, size in spans]
    assert found == [subject, reply, headers, payload]
    assert bytes(buffer[message.body : message.body + message.size]) == headers + payload
    assert (message.number, message.time, message.flags) == (5, 6, 1)
    assert (message.origin, message.origin_sequence) == (7, 8)
    assert walk.next() == MORE
