"""Encodes the members' messages as frames on a TCP connection, and decodes them.

    size u32   type u8   flags u8 (0)   zero u16   body: `size` bytes

Little-endian, as the journal. Records lie in DATA and FORWARD as they lie in the journal, and are
neither copied nor looked at here: `ForwardTable.inspect` and `Numbering.take_forwarded` check them.

In the place of the member's clock in ACK, and of how far back ids count in PULSE, older members
write 0, and read nothing.

Each message has two functions here, `_put_x` and `_get_x`, and a row in `_KINDS`. They are not made
of a table of fields. Most messages have fields that depend on each other or repeat (the records of
DATA, the epochs of HELLO, notes, takers), stand on the wire in another order than in the message,
or are checked together; a table could say so of four messages of twenty. What several have in
common, sizes and checks included, is in `FrameFields`.

Nothing from a peer is trusted. A frame has at most 1 MiB; one with a part of a file or with
notes 16 MiB; one with records or a client's payload 16 MiB and one record. Beyond 704 KiB, memory
grows with the bytes that have come, not with the size that a frame claims.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from sequencer.journal.layout import HEADER_SIZE, LENGTH_MAX
from sequencer.replica import member_messages as m
from sequencer.replica.errors import BadFrame
from sequencer.replica.frame_fields import EPOCHS, NUMBER_MAX, FrameFields, json32, text16

HEAD: Final = struct.Struct("<IBBH")
SHORT_MAX: Final = 1 << 20
FRAME_MAX: Final = 16 << 20
RECORDS_MAX: Final = FRAME_MAX + LENGTH_MAX
KEPT_MAX: Final = 704 << 10  # the memory that a reader keeps for frames; what most of them fit
SYNCS: Final = ("interval", "always", "never")  # their places are on the wire

HELLO = struct.Struct("<HHIIB3xQQQQII")
WELCOME = struct.Struct("<IIQQQQIB3x")
DATA = struct.Struct("<IIQQQQ")
ACK = struct.Struct("<IIQQQQ")
EPOCH = struct.Struct("<I4x")
ANSWER = struct.Struct("<QQQ")
PULSE = struct.Struct("<IIQQQQ")
NOTES = struct.Struct("<IIQ")
NOTE = struct.Struct("<QI")
STAGE = struct.Struct("<I4xQQ")
KEY = struct.Struct("<QI4x")
REVISION = struct.Struct("<Q")
COUNT = struct.Struct("<II")
WEIGHT = struct.Struct("<I")
HEARD = struct.Struct("<QI4x")

Bytes = bytes | bytearray | memoryview
Encoded = tuple[bytes, Bytes]  # the fields; and what follows them as it is


def encode_message(message: m.Message) -> list[Bytes]:
    """Return a message's frame: pieces to send in order. Records and parts are not copied.

    The message must fit a frame: long tables of records, notes and files are sent in parts.
    """
    number, limit, encode = _ENCODERS[type(message)]
    fields, data = encode(message)
    size = len(fields) + len(data)
    assert size <= limit, f"{type(message).__name__} has {size} bytes, more than {limit}"
    frame = HEAD.pack(size, number, 0, 0) + fields
    return [frame, data] if len(data) else [frame]


class FrameReader:
    """A reader of frames, one for each direction of a connection. It takes pieces of any size."""

    def __init__(self) -> None:
        # A frame of which more is to come is in one of these: messages of the one before it may
        # still be looked at.
        self._memories: list[bytearray] = [bytearray(), bytearray()]
        self._memory = bytearray()
        self._has = 0  # bytes of it
        self._size = 0  # that it will have; 0 if that is not known
        self._why = ""

    def feed(self, data: Bytes) -> Iterator[m.Message]:
        """Yield the messages that are complete now. Raises BadFrame, then and ever after.

        Records and file parts in a message are views of `data` or of the reader's own memory.
        Take all of the messages, and copy what is to stay, before the next call.
        """
        if self._why:
            raise BadFrame(self._why)
        view = memoryview(data)
        at, stop = 0, len(view)
        try:
            while at < stop:
                if not self._has and stop - at >= HEAD.size:
                    end = at + _frame_size(view, at)
                    if end <= stop:
                        found = _decode(view[at:end])
                        at = end
                        yield from found
                        continue
                at += self._keep(view[at:])
                if self._has == self._size:
                    yield from self._take()
        except BadFrame as error:
            self._why = str(error)
            raise

    def room(self) -> memoryview | None:
        """Return where to receive the rest of a frame, if that is possible; then call `filled`."""
        if self._size and self._size <= KEPT_MAX:
            return memoryview(self._memory)[self._has : self._size]
        return None

    def filled(self, count: int) -> Sequence[m.Message]:
        """Take `count` bytes that were put into `room()`: as `feed`."""
        self._has += count
        if self._has < self._size:
            return ()
        try:
            return self._take()
        except BadFrame as error:
            self._why = str(error)
            raise

    @property
    def held(self) -> int:
        """The bytes of a frame of which more is to come."""
        return self._has

    def _take(self) -> Sequence[m.Message]:
        """Return the messages of the frame that is complete."""
        frame = memoryview(self._memory)[: self._size]
        self._memories.reverse()
        self._memory = bytearray()
        self._has = self._size = 0
        return _decode(frame)

    def _keep(self, view: memoryview) -> int:
        """Keep bytes of one frame, as many as it has; return how many were kept."""
        taken = 0
        if self._has < HEAD.size:
            taken = self._put(view[: HEAD.size - self._has])
            if self._has < HEAD.size:
                return taken
            self._size = _frame_size(self._memory, 0)
        return taken + self._put(view[taken : taken + self._size - self._has])

    def _put(self, view: memoryview) -> int:
        if not self._memory:
            self._memories[0] = self._memory = self._memories[0] or bytearray(KEPT_MAX)
        end = self._has + len(view)
        memory = self._memory
        if end > KEPT_MAX:
            if len(memory) == KEPT_MAX:  # what is kept for other frames is not made longer
                self._memory = memory = memory[: self._has]
            memory += view
        else:
            memoryview(memory)[self._has : end] = view
        self._has = end
        return len(view)


def _frame_size(data: Bytes, at: int) -> int:
    """Return the size of the frame that begins here, with its head. Raises BadFrame."""
    size, number, flags, zero = HEAD.unpack_from(data, at)
    kind = _KINDS.get(number)
    if kind is None:
        raise BadFrame(f"there is no frame of type {number}")
    if flags or zero:
        raise BadFrame(f"{kind.name}: the flags are {flags} and {zero}, not 0")
    if size > kind.limit:
        raise BadFrame(f"{kind.name}: it has {size} bytes; at most {kind.limit} are taken")
    return HEAD.size + int(size)


def _decode(frame: memoryview) -> Sequence[m.Message]:
    """Return the messages of a frame: one, except for answers."""
    kind = _KINDS[frame[4]]
    fields = FrameFields(kind.name, frame, HEAD.size)
    message = kind.decode(fields)
    if fields.at != fields.stop:
        raise fields.bad(f"{fields.stop - fields.at} bytes too many")
    return message if isinstance(message, list) else (message,)


# From a member


def _put_hello(hello: m.Hello) -> Encoded:
    ids = int(hello.journal, 16), int(hello.member, 16)
    counts = len(hello.epochs), len(hello.note_epochs)
    sync = SYNCS.index(hello.sync)
    lasts = hello.last, hello.note_last
    fields = HELLO.pack(*hello.protocols, hello.run, hello.epoch, sync, *ids, *lasts, *counts)
    epochs = b"".join(EPOCHS.pack(*one) for one in hello.epochs + hello.note_epochs)
    return fields + epochs + hello.cluster.encode(), b""


def _get_hello(fields: FrameFields) -> m.Hello:
    low, high, run, epoch, sync, journal, member, *rest = fields.unpack(HELLO)
    last, note_last, count, note_count = rest
    fields.numbers(last, note_last)
    if sync >= len(SYNCS) or run >= 1 << 31 or low > high:
        raise fields.bad(f"protocols {low} to {high}, run {run}, sync {sync}")
    tables = fields.epochs(count), fields.epochs(note_count)
    ids = f"{journal:016x}", f"{member:016x}"
    who = (low, high), fields.text_left(), *ids, run, SYNCS[sync], epoch
    return m.Hello(*who, tables[0], last, tables[1], note_last)


def _put_ack(ack: m.Ack) -> Encoded:
    return ACK.pack(ack.epoch, ack.clock, *ack[1:5]), b""


def _get_ack(fields: FrameFields) -> m.Ack:
    epoch, clock, number, note, pieces, echo = fields.unpack(ACK)
    ack = m.Ack(epoch, number, note, pieces, echo, clock)
    if (ack.number | ack.note) > NUMBER_MAX:
        fields.numbers(ack.number, ack.note)
    return ack


def _put_forward(forward: m.Forward) -> Encoded:
    return EPOCH.pack(forward.epoch), forward.data


def _get_forward(fields: FrameFields) -> m.Forward:
    (epoch,) = fields.unpack(EPOCH)
    return m.Forward(epoch, fields.rest())


def _put_fetch(fetch: m.StageFetch) -> Encoded:
    names = text16(fetch.application) + text16(fetch.name)
    return STAGE.pack(fetch.epoch, fetch.batch, fetch.offset) + names, b""


def _get_fetch(fields: FrameFields) -> m.StageFetch:
    epoch, batch, offset = fields.unpack(STAGE)
    fields.numbers(offset)
    return m.StageFetch(epoch, fields.text16(), batch, fields.text16(), offset)


def _put_request(request: m.MemberRequest) -> Encoded:
    fields = KEY.pack(request.key, 0) + text16(request.word) + json32(request.headers)
    return fields, request.payload


def _get_request(fields: FrameFields) -> m.MemberRequest:
    key, _ = fields.unpack(KEY)
    word, headers = fields.text16(), fields.headers()
    return m.MemberRequest(key, word, headers, bytes(fields.rest()))


def _put_takers(takers: m.Takers) -> Encoded:
    parts = [COUNT.pack(takers.epoch, len(takers.groups))]
    for pattern, group, weight in takers.groups:
        parts += (text16(pattern), text16(group), WEIGHT.pack(weight))
    return b"".join(parts), b""


def _get_takers(fields: FrameFields) -> m.Takers:
    epoch, count = fields.unpack(COUNT)
    groups = []
    for _ in range(count):  # each takes bytes, so they end where the frame does
        pattern, group = fields.bytes16(), fields.bytes16()
        groups.append((pattern, group, *fields.unpack(WEIGHT)))
    return m.Takers(epoch, tuple(groups))


def _put_leave(leave: m.Leave) -> Encoded:
    return EPOCH.pack(leave.epoch), b""


def _get_leave(fields: FrameFields) -> m.Leave:
    return m.Leave(*fields.unpack(EPOCH))


# From the coordinator


def _put_welcome(welcome: m.Welcome) -> Encoded:
    logs = welcome.common, welcome.base, welcome.note_common
    epochs = welcome.epoch, welcome.base_epoch
    fields = WELCOME.pack(*epochs, welcome.revision, *logs, welcome.salt, welcome.anew)
    return fields + welcome.view.to_json(), b""


def _get_welcome(fields: FrameFields) -> m.Welcome:
    epoch, base_epoch, revision, *logs, salt, anew = fields.unpack(WELCOME)
    fields.numbers(revision, *logs)
    if anew > 1 or logs[0] > logs[1]:
        raise fields.bad(f"common {logs[0]}, base {logs[1]}, anew {anew}")
    common, base, note_common = logs
    view = fields.view()
    ends = common, base, base_epoch, bool(anew)
    return m.Welcome(epoch, revision, view, *ends, salt, note_common)


def _put_not_coordinator(refusal: m.NotCoordinator) -> Encoded:
    view = refusal.view.to_json() if refusal.view else b""
    return REVISION.pack(refusal.revision) + text16(refusal.why) + view, b""


def _get_not_coordinator(fields: FrameFields) -> m.NotCoordinator:
    (revision,) = fields.unpack(REVISION)
    fields.numbers(revision)
    why = fields.text16()
    return m.NotCoordinator(why, revision, fields.view() if fields.left() else None)


def _put_data(data: m.Data) -> Encoded:
    marks = data.watermark, data.note_watermark
    records = data.records
    if records is None:
        return DATA.pack(data.epoch, 0, *marks, 0, 0), b""
    ends = records.first, records.last
    return DATA.pack(data.epoch, records.epoch, *marks, *ends), records.data


def _get_data(fields: FrameFields) -> m.Data:
    epoch, of, watermark, note_watermark, first, last = fields.unpack(DATA)
    if (watermark | note_watermark | first | last) > NUMBER_MAX:
        fields.numbers(watermark, note_watermark, first, last)
    data = fields.rest()
    if first == last == of == len(data) == 0:
        return m.Data(epoch, watermark, note_watermark, None)
    count = last - first + 1
    if not (1 <= first <= last and of <= epoch and count * HEADER_SIZE <= len(data)):
        text = f"numbers {first} to {last} of epoch {of} in {len(data)} bytes"
        raise fields.bad(text)
    return m.Data(epoch, watermark, note_watermark, m.Records(first, last, of, data))


def _put_answer(answer: m.AlreadyNumbered) -> Encoded:
    return ANSWER.pack(*answer), b""


def _get_answers(fields: FrameFields) -> list[m.AlreadyNumbered]:
    if fields.left() % ANSWER.size:
        raise fields.bad(f"{fields.left()} bytes are not whole answers")
    found = [m.AlreadyNumbered(*one) for one in ANSWER.iter_unpack(fields.rest())]
    fields.numbers(*(one.number for one in found))
    return found


def _put_pulse(pulse: m.Pulse) -> Encoded:
    fields = PULSE.pack(pulse.epoch, pulse.ids, *pulse[1:5])
    return fields + pulse.view.to_json(), b""


def _get_pulse(fields: FrameFields) -> m.Pulse:
    epoch, ids, beat, watermark, note_watermark, revision = fields.unpack(PULSE)
    fields.numbers(watermark, note_watermark, revision)
    return m.Pulse(epoch, beat, watermark, note_watermark, revision, fields.view(), ids)


def _put_notes(notes: m.Notes) -> Encoded:
    parts = [NOTES.pack(notes.epoch, len(notes.notes), notes.note_watermark)]
    for note in notes.notes:
        parts += (NOTE.pack(note.number, note.epoch), text16(note.kind), json32(note.fields))
    return b"".join(parts), b""


def _get_notes(fields: FrameFields) -> m.Notes:
    epoch, count, note_watermark = fields.unpack(NOTES)
    fields.numbers(note_watermark)
    notes = []
    for _ in range(count):  # each takes bytes, so they end where the frame does
        number, of = fields.unpack(NOTE)
        fields.numbers(number)
        kind, value = fields.text16(), fields.json32()
        if not isinstance(value, dict):
            raise fields.bad(f"note {number} is not fields, but {str(value)[:100]}")
        notes.append(m.Note(number, of, kind, value))
    return m.Notes(epoch, note_watermark, tuple(notes))


def _put_piece(piece: m.StagePiece) -> Encoded:
    names = text16(piece.application) + text16(piece.name)
    return STAGE.pack(piece.epoch, piece.batch, piece.offset) + names, piece.data


def _get_piece(fields: FrameFields) -> m.StagePiece:
    epoch, batch, offset = fields.unpack(STAGE)
    fields.numbers(offset)
    application, name = fields.text16(), fields.text16()
    return m.StagePiece(epoch, application, batch, name, offset, fields.rest())


def _put_drop(drop: m.StageDrop) -> Encoded:
    names = text16(drop.application) + text16(drop.name)
    return STAGE.pack(drop.epoch, drop.batch, 0) + names, b""


def _get_drop(fields: FrameFields) -> m.StageDrop:
    epoch, batch, _ = fields.unpack(STAGE)
    return m.StageDrop(epoch, fields.text16(), batch, fields.text16())


def _put_reply(reply: m.MemberReply) -> Encoded:
    return KEY.pack(reply.key, reply.status) + json32(reply.headers), reply.payload


def _get_reply(fields: FrameFields) -> m.MemberReply:
    key, status = fields.unpack(KEY)
    headers = fields.headers()
    return m.MemberReply(key, status, headers, bytes(fields.rest()))


def _put_hand_over(hand_over: m.HandOver) -> Encoded:
    return REVISION.pack(hand_over.revision) + hand_over.view.to_json(), b""


def _get_hand_over(fields: FrameFields) -> m.HandOver:
    (revision,) = fields.unpack(REVISION)
    fields.numbers(revision)
    return m.HandOver(revision, fields.view())


# Directly between two members


def _put_direct_hello(hello: m.DirectHello) -> Encoded:
    return HEARD.pack(int(hello.member, 16), hello.run) + hello.cluster.encode(), b""


def _get_direct_hello(fields: FrameFields) -> m.DirectHello:
    member, run = fields.unpack(HEARD)
    return m.DirectHello(fields.text_left(), f"{member:016x}", run)


def _put_direct(direct: m.DirectMessages) -> Encoded:
    return b"", direct.data


def _get_direct(fields: FrameFields) -> m.DirectMessages:
    return m.DirectMessages(fields.rest())


def _put_heard(heard: m.DirectHeard) -> Encoded:
    return b"".join(HEARD.pack(*one) for one in heard.counts), b""


def _get_heard(fields: FrameFields) -> m.DirectHeard:
    if fields.left() % HEARD.size:
        raise fields.bad(f"{fields.left()} bytes are not whole counts")
    return m.DirectHeard(tuple((key, count) for key, count in HEARD.iter_unpack(fields.rest())))


class _Kind(NamedTuple):
    name: str
    message: type
    limit: int
    encode: Callable[[Any], Encoded]
    decode: Callable[[FrameFields], m.Message | list[m.AlreadyNumbered]]


# By their types on the wire.
_KINDS: Final = {
    1: _Kind("HELLO", m.Hello, SHORT_MAX, _put_hello, _get_hello),
    2: _Kind("WELCOME", m.Welcome, SHORT_MAX, _put_welcome, _get_welcome),
    3: _Kind("REFUSED", m.NotCoordinator, SHORT_MAX, _put_not_coordinator, _get_not_coordinator),
    4: _Kind("DATA", m.Data, RECORDS_MAX, _put_data, _get_data),
    5: _Kind("ACK", m.Ack, SHORT_MAX, _put_ack, _get_ack),
    6: _Kind("FORWARD", m.Forward, RECORDS_MAX, _put_forward, _get_forward),
    7: _Kind("ANSWER", m.AlreadyNumbered, SHORT_MAX, _put_answer, _get_answers),
    8: _Kind("PULSE", m.Pulse, SHORT_MAX, _put_pulse, _get_pulse),
    9: _Kind("NOTES", m.Notes, FRAME_MAX, _put_notes, _get_notes),
    10: _Kind("PIECE", m.StagePiece, FRAME_MAX, _put_piece, _get_piece),
    11: _Kind("FETCH", m.StageFetch, SHORT_MAX, _put_fetch, _get_fetch),
    12: _Kind("DROP", m.StageDrop, SHORT_MAX, _put_drop, _get_drop),
    13: _Kind("REQUEST", m.MemberRequest, RECORDS_MAX, _put_request, _get_request),
    14: _Kind("REPLY", m.MemberReply, RECORDS_MAX, _put_reply, _get_reply),
    15: _Kind("HANDOVER", m.HandOver, SHORT_MAX, _put_hand_over, _get_hand_over),
    16: _Kind("LEAVE", m.Leave, SHORT_MAX, _put_leave, _get_leave),
    17: _Kind("TAKERS", m.Takers, SHORT_MAX, _put_takers, _get_takers),
    18: _Kind("DIRECTHELLO", m.DirectHello, SHORT_MAX, _put_direct_hello, _get_direct_hello),
    19: _Kind("DIRECT", m.DirectMessages, RECORDS_MAX, _put_direct, _get_direct),
    20: _Kind("HEARD", m.DirectHeard, SHORT_MAX, _put_heard, _get_heard),
}
_ENCODERS: Final = {
    kind.message: (number, kind.limit, kind.encode) for number, kind in _KINDS.items()
}
