"""The messages between members, driven by an input.

    mode flags choice entries entries cut  ...       mode: see `MODES`

`frames`: bytes to a FrameReader, in pieces of any size; what it reads is written and read again.
`inspect`: records from the coordinator, to a forward table with up to 16 entries.
`forward`: records from a member, to a coordinator's numbering.
"""

import struct
from typing import Any

from fuzz.model_journal import HEAD, MORE, Record, walk
from fuzz.records import OWN_ORIGIN, SALT, read_records
from fuzz.supply import Supply
from sequencer.journal.layout import SCOPE_FLAG
from sequencer.journal.record import RecordBatch, Walk
from sequencer.msgids import Window
from sequencer.replica.errors import BadFrame, BadRecords
from sequencer.replica.forward_table import ForwardTable
from sequencer.replica.member_wire import FrameReader, encode_message
from sequencer.replica.numbering import Numbering
from sequencer.sequencer import Sequencer

MAX_LEN = 2048
SETTINGS = 6
MODES = FRAMES, INSPECT, FORWARD = range(3)
RAW = 1  # a flag: the input is the records
RUN = OWN_ORIGIN >> 32
FIRSTS = (1, 3, 90, (1 << 63) - 5)
ID = b"\r\nNats-Msg-Id: 1\r\n"


def plain(message: Any) -> Any:
    """The message with bytes for views of them."""
    if isinstance(message, memoryview):
        return bytes(message)
    if isinstance(message, tuple) and hasattr(message, "_fields"):
        return type(message)(*map(plain, message))
    return message


def read(data: bytes, size: int) -> tuple[list[Any], str]:
    """Read messages from these bytes in pieces of this size; return them, and the error."""
    reader, found = FrameReader(), []
    try:
        for at in range(0, len(data), size):
            found += [plain(message) for message in reader.feed(data[at : at + size])]
    except BadFrame as error:
        return found, str(error)
    return found, ""


def judge_frames(data: bytes, cut: int) -> None:
    reader, whole = FrameReader(), []
    why = ""
    try:
        for message in reader.feed(data):
            whole.append(plain(message))
    except BadFrame as error:
        why = str(error)
    if data:
        found, wrong = read(data, cut or 1)
        assert (found, wrong) == (whole, why), "in pieces it is the same"
    for message in whole:
        written = b"".join(encode_message(message))
        assert read(written, len(written)) == ([message], ""), f"written again: {message}"


def judge_inspect(buffer: bytes, first: int, entries: int) -> None:
    table = ForwardTable(RUN, SALT)
    waiting = [number for number in range(first, first + 16) if entries >> number - first & 1]
    batch, walker = RecordBatch(0, 0, False), Walk(0, False)
    for sequence in waiting:
        batch.append_message(0, 0, b"a", b"", b"", b"payload", OWN_ORIGIN, sequence)
    records = bytes(batch.view())
    walker.attach(records, 0, len(records))
    while walker.next():
        table.put(walker, 1)
    got, end, at = walk(buffer, 0, SALT)
    sound = bool(got) and (end, at) == (MORE, len(buffer))
    time = 0
    for number, record in enumerate(got, first):
        sound = sound and (record.number, record.epoch) == (number, 1) and record.time >= time
        time = record.time
    numbers = [0] * len(waiting)
    place = 0
    for record in got if sound else []:
        if record.origin == OWN_ORIGIN and record.origin_sequence in waiting[place:]:
            place = waiting.index(record.origin_sequence)
            numbers[place] = record.number
            place += 1
    wanted = None
    if sound:
        ids = any(record.flags & 1 for record in got)
        wanted = (got[-1].number, got[0].time, got[-1].time, ids)
    try:
        found = table.inspect(memoryview(buffer), first, 1)
    except BadRecords:
        found = None
    assert found == wanted, "sound records are taken, and no others"
    assert [table.number_of(1 + at) for at in range(len(waiting))] == numbers
    table.rewind()
    sent = b""
    while block := table.unsent(100):
        sent += block
    left = [one for one, number in zip(waiting, numbers, strict=True) if not number]
    assert [record.origin_sequence for record in walk(sent, 0, None)[0]] == left


def forwarded(buffer: bytes, choice: int) -> bytes:
    """Convert records to a member's forwarded form: mostly without number, time and epoch."""
    text, at = bytearray(buffer), 0
    for place, record in enumerate(walk(buffer, 0, None)[0]):
        if place != choice >> 2:
            struct.pack_into("<QQ", text, at + 8, 0, 0)
            struct.pack_into("<I", text, at + 40, 0)
            struct.pack_into(
                "<H", text, at + 44, (1 | choice & SCOPE_FLAG) * (ID in record.headers)
            )
        if choice & 1:
            struct.pack_into("<Q", text, at + 24, OWN_ORIGIN)
        spans = record.subject + record.reply + record.headers + record.payload
        at += HEAD.size + len(spans) + (-(HEAD.size + len(spans)) % 8)
    return bytes(text)


def is_new(record: Record) -> bool:
    fields = record.number or record.time or record.epoch
    is_text = not set(record.subject + record.reply) & set(b" \t\n")  # else no client can send it
    return not fields and record.origin >> 32 == RUN and bool(record.subject) and is_text


def judge_forward(buffer: bytes) -> None:
    numbering = Numbering(ForwardTable(RUN + 1, SALT), Sequencer(), Window(1 << 60, 100))
    got, end, at = walk(buffer, 0, None)
    taken = [record for record in got if is_new(record)]
    sound = len(taken) == len(got) and (end, at) == (MORE, len(buffer))
    given, answers, numbered = dict[bytes, int](), [], 0  # by the scope of the id
    for record in got:
        if not is_new(record):
            break
        known = record.flags & 1 and ID in record.headers
        scope = record.subject if record.flags & SCOPE_FLAG else b""
        if known and scope in given:
            answers.append((record.origin, record.origin_sequence, given[scope]))
            continue
        numbered += 1
        if known:
            given[scope] = numbered
    try:
        found = numbering.take_forwarded(memoryview(buffer), 1, RUN)
    except BadRecords:
        found = None
    wanted = (answers, len(buffer)) if sound else None
    assert found == wanted, "sound records are taken, and no others"
    assert numbering.sequencer.number == numbered


def check(data: bytes) -> None:
    """Run one input."""
    if len(data) < SETTINGS:
        return
    mode, flags, choice, low, high, cut = data[:SETTINGS]
    supply = Supply(data[SETTINGS:])
    if mode % 3 == FRAMES:
        judge_frames(supply.rest(), cut)
    elif mode % 3 == INSPECT:
        first = FIRSTS[choice & 3]
        buffer = supply.rest() if flags & RAW else read_records(supply, first, True)
        judge_inspect(buffer[: max(len(buffer) - cut % 16, 0)], first, high << 8 | low)
    else:
        raw = flags & RAW
        buffer = supply.rest() if raw else forwarded(read_records(supply, 1, False), choice)
        judge_forward(buffer[: max(len(buffer) - cut % 16, 0)])
