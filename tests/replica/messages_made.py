"""Messages of simulated clients, as records are: made, and read again."""

import struct
from typing import NamedTuple

from sequencer.journal.record import HEAD, RecordBatch, Walk

ID_FLAG = 1
HEADERS = "NATS/1.0\r\nNats-Msg-Id: {}\r\n\r\n"
ORIGIN_AT = struct.Struct("<QQ")
BATCH = RecordBatch(0, 0, False)
WALK = Walk(0, False)


class Published(NamedTuple):
    """What a client published."""

    origin: int
    nth: int
    id: str
    payload: str


def message_of(origin: int, nth: int, message_id: str, payload: str) -> Walk:
    """A message, until the next call."""
    headers = HEADERS.format(message_id).encode() if message_id else b""
    BATCH.clear()
    flags = ID_FLAG if message_id else 0
    BATCH.append_message(0, 0, b"s", b"", headers, payload.encode(), origin, nth, flags)
    with BATCH.view() as view:
        data = bytes(view)
    WALK.attach(data, 0, len(data))
    WALK.next()
    return WALK


def published_in(record: bytes) -> Published:
    """What a record says."""
    fields = HEAD.unpack_from(record)
    subject, reply, headers = fields[8], fields[9], fields[11]
    body = 56 + subject + reply
    payload = record[body + headers : fields[1]].decode()
    message_id = payload if fields[7] & ID_FLAG else ""
    return Published(fields[4], fields[5], message_id, payload)
