"""The journal's kernels: batches, walks, columns and chunks, driven by an input.

    mode flags choice choice cut  ...           mode: see `MODES`

`raw` bytes as a segment's records, or `records` with some damage (fuzz/records.py), go through Walk
and Collector in pieces of any size. `batch` is a program that fills a Batch and examines it now and
then. `chunk` is a chunk of columns with some bytes changed.
"""

from fuzz.model_journal import (
    BAD,
    GAP,
    MORE,
    RECORD,
    Record,
    Row,
    Step,
    collect,
    decode,
    encode,
    rows_of,
    walk,
)
from fuzz.records import SALT, read_records
from fuzz.supply import Supply
from sequencer.journal import chunk as columns_chunk
from sequencer.journal import layout
from sequencer.journal.columns import NUMBER_MAX, Collector
from sequencer.journal.crc import crc32c
from sequencer.journal.record import RecordBatch, Walk, record_size
from seriatim.client.chunk_columns import ChunkError, Columns
from testkit.fence import GRANULE, fenced
from testkit.model_subject import tokens_match

MAX_LEN = 2048
SETTINGS = 5
MODES = RAW, RECORDS, BATCH, CHUNK = range(4)
STATES = {layout.MORE: MORE, layout.RECORD: RECORD, layout.BAD: BAD}
FILTERS = (b"", b">", b"a", b"a.*", b"*.b", b"a.>", b"zz")
FIRSTS = (1, 3, 90, NUMBER_MAX - 5)
ROWS_MAX = (1 << 15, 1, 3, 10)
BYTES_MAX = (1 << 20, 200, 1000, 0)
PAST = b"\x5a" * 64  # the bytes after those that may be read
PIECES_MAX = 64
SIZES = (0, 1, 7, 8, 9, 40, 63, 255)


def _floor(at: int) -> int:
    return at - at % GRANULE


# Walk


def judge_walk(buffer: bytes, at: int, checked: bool, cut: int) -> None:
    """Check every record with its spans, in pieces that end anywhere; then without checksums."""
    for salt in (SALT, None) if checked else (None,):
        _walk_as(buffer, at, checked, salt, cut)


def _walk_as(buffer: bytes, at: int, checked: bool, salt: int | None, cut: int) -> None:
    walker = Walk(SALT, checked)
    held = bytearray(buffer + PAST)
    stop = len(buffer) if cut == 0 else min(at + cut, len(buffer))
    while True:
        with fenced(held, _floor(at), stop):
            walker.attach(held, at, stop)
            read = walker.next if salt is not None or not checked else walker.skim
            state = STATES[read()]
            while state == RECORD:
                wanted, record, after = decode(buffer, at, stop, salt)
                assert wanted == RECORD, f"no record at {at}, but {wanted}"
                assert record is not None
                assert (walker.at, walker.after) == (at, after), "it lies where it lies"
                _same_record(walker, buffer, record)
                at = after
                state = STATES[read()]
            assert STATES[read()] == state, "asking again changes nothing"
        assert (state, walker.at) == (decode(buffer, at, stop, salt)[0], at)
        if state == BAD or stop == len(buffer):
            return
        stop = min(stop + cut, len(buffer))


def _same_record(walker: Walk, buffer: bytes, record: Record) -> None:
    spans = (
        (walker.subject, walker.subject_size),
        (walker.reply, walker.reply_size),
        (walker.body, walker.header_size),
        (walker.payload, walker.payload_size),
    )
    fields = (walker.number, walker.time, walker.origin, walker.origin_sequence)
    found = (*fields, walker.epoch, walker.flags, *(buffer[at : at + size] for at, size in spans))
    assert found == tuple(record), f"{found} is not {record}"


# Collector


class Gathering:
    """A Collector and its output: rows and gaps, in one list like the model's."""

    def __init__(self, choice: int, other: int, checked: bool) -> None:
        self.rows_max, self.bytes_max = ROWS_MAX[choice & 3], BYTES_MAX[choice >> 2 & 3]
        self.pattern = FILTERS[(choice >> 4) % len(FILTERS)]
        self.first = FIRSTS[other & 3]
        self.last = min(self.first + (other >> 3), NUMBER_MAX) if other & 4 else NUMBER_MAX
        self.collector = Collector(SALT, self.rows_max, self.bytes_max, checked)
        self.collector.start_range(self.first, self.last, self.wants if self.pattern else None)
        self.steps: list[Step | Row] = []

    def wants(self, subject: bytes) -> bool:
        return tokens_match(self.pattern, subject) if self.pattern else True

    def judge(self, buffer: bytes, checked: bool, cut: int) -> None:
        """Check that all of `buffer`, in pieces, gives the model's rows and gaps."""
        records, end, end_at = walk(buffer, 0, SALT if checked else None)
        steps, reached = collect(records, self.first, self.last, self.wants)
        wanted = [step if step[0] == GAP else _row(step) for step in steps]
        state = self._take_all(bytearray(buffer + PAST), len(buffer), cut)
        self.take_chunk(None)
        assert self.steps == wanted, f"{self.steps} is not {wanted}"
        if reached:
            assert state == columns_chunk.END, "the last number was reached"
        else:
            assert (STATES[state], self.collector.at) == (end, end_at), "it ends where records do"

    def _take_all(self, held: bytearray, size: int, cut: int) -> int:
        collector, at = self.collector, 0
        stop = min(cut or size, size)
        while True:
            with fenced(held, _floor(at), stop):
                state = collector.collect(held, at, stop)
            assert at <= collector.at <= stop, "it comes to a place in the buffer"
            at = collector.at
            if state == columns_chunk.GAP:
                self.take_chunk(None)
                self.steps.append((GAP, collector.next, collector.found))
                collector.skip(collector.found)
            elif state == columns_chunk.FULL:
                self.take_chunk(decode(bytes(held), at, stop, None)[1])
            elif state != layout.MORE or stop == size:
                return state
            else:
                stop = min(stop + cut, size)

    def take_chunk(self, following: Record | None) -> None:
        """Compare the collected rows, and start again; `following` did not fit."""
        collector = self.collector
        chunk = collector.chunk()
        rows = rows_of(chunk)
        assert rows is not None, f"not a chunk: {chunk!r}"
        assert len(rows) == collector.rows <= self.rows_max, "as many rows as it says"
        if len(rows) > 1:
            assert len(chunk) <= max(self.bytes_max, 0), "a chunk is not longer than it may be"
        if following is not None:
            assert rows, "an empty chunk has room"
            more = len(chunk) + 32 + sum(map(len, following[6:])) + 80
            assert len(rows) == self.rows_max or more > self.bytes_max, "it was full"
        assert _read_chunk(chunk) == rows, "its reader reads what is in it"
        self.steps += rows
        collector.clear()


def _row(record: Step) -> Row:
    assert isinstance(record, Record)
    signed = record.time - (record.time >> 63 << 64)
    return (record.number, signed, *record[6:])


def _read_chunk(chunk: bytes) -> list[Row] | None:
    try:  # offsets are looked at when the rows are
        return [(*row[:4], bytes(row.headers), bytes(row.payload)) for row in Columns(chunk)]
    except ChunkError:
        return None


# Chunks and batches


def judge_chunk(supply: Supply) -> None:
    """Read a chunk of some records with some bytes changed, by both readers."""
    gathering = Gathering(0, 0, True)
    buffer = read_records(Supply(b"\0\2\5\x18\3\x30\1\0\0\x08"), 1, True)
    assert gathering.collector.collect(bytearray(buffer), 0, len(buffer)) == layout.MORE
    chunk = bytearray(gathering.collector.chunk())
    while supply:
        where, byte = supply.take(), supply.take()
        if where == 0xFF:
            del chunk[len(chunk) - min(byte, len(chunk)) :]
        elif where < len(chunk):
            chunk[where] = byte
    assert _read_chunk(bytes(chunk)) == rows_of(bytes(chunk)), "both take it, or none"


def judge_batch(supply: Supply, checked: bool) -> None:
    """Put in, examine and drop messages; the bytes must equal those of each message alone.

    In every second input the messages have a place, as in a journal's window.
    """
    batch = RecordBatch(SALT, 3, checked)
    memory = bytearray(1 << 18)
    begin = supply.take() * 8
    placed = begin & 8 != 0
    if placed:
        batch.set_target(memoryview(memory), begin)
    records: list[Record] = []
    text, number, total = bytearray(), 0, 0
    while supply and total < 1 << 17:
        what = supply.take()
        if what & 3 == 3:
            if what & 4:
                begin += batch.seal()
                batch.clear()
                records.clear()
                text.clear()
            _look_at(batch, records, bytes(text))
            continue
        number += 1
        subject, reply = b"s" * (1 + supply.take()), b"r" * (what >> 2 & 7)
        headers = b"h" * SIZES[what >> 5]
        size = supply.take() * (1, 9, 64)[what & 3]
        payload = bytes(size)
        flags = supply.take() & 1
        record = Record(number, 5 * number, 9, number, 3, flags, subject, reply, headers, payload)
        batch.append_message(number, 5 * number, subject, reply, headers, payload, 9, number, flags)
        encoded = encode(record, SALT, checked)
        assert record_size(len(subject), len(reply), len(headers) + size) == len(encoded)
        records.append(record)
        text += encoded
        total += len(encoded)
    _look_at(batch, records, bytes(text))
    if placed:
        assert memory[begin : begin + len(text)] == text, "what was committed stays before it"
        assert not any(memory[begin + len(text) :]), "nothing is written after it"


def _look_at(batch: RecordBatch, records: list[Record], text: bytes) -> None:
    with batch.view() as view:
        assert bytes(view) == text, "the records, one behind the other"
    ends = (records[0].number, records[-1].number) if records else (0, 0)
    assert (batch.first, batch.last, batch.waiting()) == (*ends, len(text))
    assert batch.time == (records[0].time if records else 0)
    assert batch.ids == any(record.flags & 1 for record in records)


def check(data: bytes) -> None:
    """Run one input."""
    if len(data) < SETTINGS:
        return
    mode, flags, choice, other, cut = data[:SETTINGS]
    checked, supply = not flags & 1, Supply(data[SETTINGS:])
    if mode % 4 == CHUNK:
        judge_chunk(supply)
    elif mode % 4 == BATCH:
        judge_batch(supply, checked)
        seed = int.from_bytes(data[1:5], "little")
        assert crc32c(data[:256], seed) == _crc_by_bits(data[:256], seed)
    else:
        raw = mode % 4 == RAW
        buffer = supply.rest() if raw else read_records(supply, FIRSTS[other & 3], checked)
        buffer = buffer[: max(len(buffer) - (flags >> 4), 0)]
        step = max(cut * (8 if flags & 2 else 1), len(buffer) // PIECES_MAX) if cut else 0
        judge_walk(buffer, min(flags >> 2 & 3, len(buffer)) if raw else 0, checked, step)
        Gathering(choice, other, checked).judge(buffer, checked, step)


def _crc_by_bits(data: bytes, seed: int) -> int:
    """CRC-32C from its definition, a bit at a time."""
    crc = seed ^ 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF
