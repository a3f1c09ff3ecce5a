"""`seriatim cardinal inspect`: messages of a journal or a capture, and what blocks lack.

Each application, and each channel of a reorg, has an assembler of its own, like a consumer of all
topics. The assemblers' bounds limit the memory.
"""

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cardinal.assembler import Assembler, Dropped, Evicted
from cardinal.block import Block
from cardinal.block_lines import hexed
from cardinal.errors import MalformedMessage
from cardinal.follower import Row
from cardinal.message_codec import decode
from cardinal.messages import (
    HASH_SIZE,
    NO_ID,
    Batch,
    Delete,
    Message,
    Ping,
    SubBatchHeader,
    SubBatchMessage,
    Update,
)
from cardinal.pending import Missing
from cardinal.schema import REORG_TOPIC
from cardinal.transport.capture import CaptureReader, CaptureWriter
from cardinal.transport.envelope import ROOT, unpack
from cardinal.transport.errors import BadCapture, BadEnvelope, BadTopic
from sequencer.journal import Lost, Reader
from seriatim.cli.errors import CliError, UsageError
from seriatim.cli.journal.journal_span import directory, open_reader, store_errors
from seriatim.cli.printable import printable_json

KEY_SHOWN = 60


@dataclass(slots=True)
class CaptureCounts:
    """The counts of messages written, and left out because they are not of Cardinal Streams."""

    messages: int = 0
    left_out: int = 0

    def __str__(self) -> str:
        left_out = f" ({self.left_out} left out: not of Cardinal Streams)" if self.left_out else ""
        return f"{self.messages} messages{left_out}"


def write(name: str, stream: str, rows: Iterable[Row | None], source: str) -> CaptureCounts:
    """Write the rows, whose numbers belong to `stream`; skip None. Raises `CliError`."""
    if name == "-":
        raise UsageError("give a file: standard output is used for the report")
    if Path(name).exists() and Path(name).samefile(source):
        raise UsageError(f"{name}: cannot be read and written at the same time")
    done = CaptureCounts()
    try:
        with open(name, "wb") as file:
            writer = CaptureWriter(file, stream)
            for row in rows:
                try:
                    writer.write(_only(row))
                except BadTopic:
                    row = None
                done.messages += row is not None
                done.left_out += row is None
    except OSError as error:
        if error.filename != name:
            raise
        raise CliError(f"{name}: cannot be written: {error.strerror}") from error
    return done


def _only(row: Row | None) -> Iterator[Row]:
    if row is not None:
        yield row


@dataclass(frozen=True, slots=True)
class InspectOptions:
    """The options of `inspect`. `block` is a hash prefix; `missing` hides all that is complete."""

    application: str | None
    first: int | None
    last: int | None
    block: bytes
    missing: bool
    json: bool


@dataclass(frozen=True, slots=True)
class InspectedRow:
    """A message as found; `error` is set if its payload is not an envelope."""

    number: int
    application: str
    topic: str
    key: bytes
    value: bytes
    error: str = ""


@dataclass(frozen=True, slots=True)
class InspectedStream:
    """The numbers' stream: a journal, or a capture."""

    name: str
    path: str
    is_journal: bool


def read_block(text: str | None) -> bytes:
    """The prefix of the wanted block's hash. Raises `CliError`."""
    if text is None:
        return b""
    try:
        found = bytes.fromhex(text.removeprefix("0x"))
    except ValueError:
        found = b""
    if not text.startswith("0x") or not 0 < len(found) <= HASH_SIZE:
        raise UsageError(
            f'--block: "{text}" is not a hash or the beginning of one (0x and pairs of hex digits)'
        )
    return found


def inspect(path: str | None, wanted: InspectOptions) -> bool:
    """Print the messages; False if something is missing or wrong. Raises `CliError`."""
    inspector = Inspector(wanted)
    _, rows = _source(path, wanted, inspector)
    try:
        for row in rows:
            inspector.print_row(row)
    finally:
        inspector.end()
    return inspector.whole


def capture(path: str | None, wanted: InspectOptions, target: str) -> bool:
    """Write the messages to a capture; False if some are lost. Raises `CliError`."""
    inspector = Inspector(wanted)
    stream, rows = _source(path, wanted, inspector)
    if stream.is_journal and wanted.application is None:
        raise UsageError("--capture: a capture holds one application; give --application")
    some = (
        None if row.error else (row.topic, row.key, row.value, row.number)
        for row in rows
        if row.key[1 : 1 + HASH_SIZE].startswith(wanted.block)
    )
    done = write(target, stream.name, some, stream.path)
    print(f"wrote {done} to {target}")
    return inspector.whole


def _source(
    path: str | None, wanted: InspectOptions, inspector: "Inspector"
) -> tuple[InspectedStream, Iterator[InspectedRow]]:
    """The journal or the capture, and its messages. Raises `CliError`."""
    if path is not None and Path(path).is_file():
        if wanted.application is not None:
            raise CliError(f"{path}: a capture holds one application; leave out --application")
        with _capture_errors(path), open(path, "rb") as file:
            stream = CaptureReader(file).stream
        return InspectedStream(stream, path, False), _of_capture(path, wanted)
    where = directory(path)
    reader = open_reader(where)
    return InspectedStream(reader.journal, where, True), _of_journal(
        reader, where, wanted, inspector
    )


def _of_journal(
    reader: Reader, path: str, wanted: InspectOptions, inspector: "Inspector"
) -> Iterator[InspectedRow]:
    prefix = f"{ROOT}.{wanted.application or ''}".rstrip(".") + "."
    start = prefix.encode()
    with store_errors(path):
        items = reader.records(
            wanted.first or 0, wanted.last, lambda subject: subject.startswith(start)
        )
        for item in items:
            if isinstance(item, Lost):
                inspector.lost(item.first, item.last)
                continue
            name = item.subject.decode("utf-8", "replace")
            application, _, topic = name.removeprefix(f"{ROOT}.").partition(".")
            try:
                key, value = unpack(bytes(item.payload))
            except BadEnvelope as error:
                yield InspectedRow(item.number, application, topic, b"", b"", f"payload, {error}")
            else:
                yield InspectedRow(item.number, application, topic, key, value)


def _of_capture(path: str, wanted: InspectOptions) -> Iterator[InspectedRow]:
    first, last = wanted.first or 0, wanted.last
    with _capture_errors(path), open(path, "rb") as file:
        for topic, key, value, number in CaptureReader(file):
            if first <= number and (last is None or number <= last):
                yield InspectedRow(number, "", topic, key, value)


@contextmanager
def _capture_errors(path: str) -> Iterator[None]:
    try:
        yield
    except BadCapture as error:
        raise CliError(f"{path}: {error}") from error


class Inspector:
    """Printer of messages that also tracks what is missing."""

    def __init__(self, wanted: InspectOptions) -> None:
        self.whole = True
        self._wanted = wanted
        self._assemblers: dict[tuple[str, str], Assembler] = {}

    def print_row(self, row: InspectedRow) -> None:
        """Print a message and the block it completes, or what is wrong with it."""
        wanted = self._wanted
        shown = row.key[1 : 1 + HASH_SIZE].startswith(wanted.block)
        try:
            if row.error:
                raise CliError(row.error)
            message = decode(row.key, row.value)
        except (CliError, MalformedMessage) as error:
            self.whole = False
            if shown:
                self._print(row, {"type": "wrong", "error": str(error)}, f"WRONG {error}")
            return
        channel = row.topic if row.topic.split(".")[0] == REORG_TOPIC else ""
        where = (row.application, channel)
        assembler = self._assemblers.get(where)
        if assembler is None:
            assembler = self._assemblers[where] = Assembler(channel=bool(channel))
        copies = assembler.duplicates
        events = assembler.feed([(row.key, row.value, row.number)], row.topic)
        fields, words = _described(message)
        if assembler.duplicates > copies:
            fields["copy"], words = True, f"{words} (a copy)"
        made = next((event for event in events if isinstance(event, Block)), None)
        if made is not None:
            fields["whole"], words = made.number, f"{words} -> block {made.number} is whole"
        if shown and not wanted.missing:
            self._print(row, fields, words)
        for event in events:
            if isinstance(event, Dropped | Evicted):
                self._trouble(event)

    def lost(self, first: int, last: int) -> None:
        """Report numbers that the journal no longer has."""
        self.whole = False
        print(f"seriatim: numbers {first} to {last} are no longer kept", file=sys.stderr)

    def end(self) -> None:
        """Print the incomplete blocks."""
        for assembler in self._assemblers.values():
            for hash, block in list(assembler.pending.items()):
                missing = assembler.missing(hash)
                assert missing is not None
                for event in assembler.feed([]):
                    assert isinstance(event, Dropped | Evicted)
                    self._trouble(event)
                number = None if block.batch is None else block.batch.number
                self._lacks(hash, number, block.count(), min(block.token.values()), missing)

    def _trouble(self, event: Dropped | Evicted) -> None:
        self.whole = False
        if isinstance(event, Evicted):
            first = min(event.token.values())
            self._lacks(event.hash, event.number, event.messages, first, event.missing)
        elif event.key[1 : 1 + HASH_SIZE].startswith(self._wanted.block):
            hash = event.key[1 : 1 + HASH_SIZE]
            if self._wanted.json:
                print(
                    json.dumps(
                        {"type": "misplaced", "hash": hexed(hash), "error": str(event.error)}
                    )
                )
            else:
                print(f"MISPLACED in {hexed(hash)}: {event.error}")

    def _lacks(
        self, hash: bytes, number: int | None, messages: int, first: int, missing: Missing
    ) -> None:
        self.whole = False
        if not hash.startswith(self._wanted.block):
            return
        if self._wanted.json:
            fields = asdict(missing)
            fields["headers"] = [hexed(id) for id in missing.headers]
            fields["sub_batches"] = {hexed(id): n for id, n in missing.sub_batches.items()}
            block = {"hash": hexed(hash), "block": number, "messages": messages, "first": first}
            row = {"type": "missing", **block, "missing": fields}
            print(printable_json(json.dumps(row, ensure_ascii=False)))
            return
        name = "a block" if number is None else f"block {number}"
        have = "1 message" if messages == 1 else f"{messages} messages"
        print(f"MISSING {name} {hexed(hash)}, {have} from number {first} on: without {missing}")

    def _print(self, row: InspectedRow, fields: dict[str, Any], words: str) -> None:
        if self._wanted.json:
            where = {"number": row.number, "topic": row.topic}
            if row.application:
                where["application"] = row.application
            print(printable_json(json.dumps({**where, **fields}, ensure_ascii=False)))
            return
        topic = f"{row.application}.{row.topic}" if row.application else row.topic
        print(f"{row.number:>10}  {topic:<20} {words}")


def _described(message: Message) -> tuple[dict[str, Any], str]:
    """A message as fields for JSON, and as words."""
    fields: dict[str, Any] = {"type": type(message).__name__}
    if isinstance(message, Ping):
        return fields | {"producer": hexed(message.producer)}, "Ping"
    fields["hash"] = hexed(message.hash)
    words = f"{fields['type']:<15} {message.hash.hex()[:8]}"
    match message:
        case Batch(_, number, weight, parent, entries):
            counts = {key: one.count for key, one in entries.items() if one.count}
            ids = {
                key: hexed(one.sub_batch) for key, one in entries.items() if one.sub_batch != NO_ID
            }
            inline = len(entries) - len(counts.keys() | ids.keys())
            fields |= {"block": number, "weight": str(weight), "parent": hexed(parent)}
            fields |= {"counts": counts, "sub_batches": ids, "inline": inline}
            parts = [f"{count} of {key!r}" for key, count in counts.items()]
            parts += [f"sub-batch {key!r}" for key in ids]
            parts += [f"{inline} keys here"] if inline else []
            words += f" block {number} on {parent.hex()[:8]}: {', '.join(parts) or 'nothing'}"
        case SubBatchHeader(_, id, count):
            fields |= {"id": hexed(id), "count": count}
            words += f" {count} messages in {_short(id)}"
        case SubBatchMessage(_, id, index, deletes, updates):
            fields |= {"id": hexed(id), "index": index}
            fields |= {"deletes": len(deletes), "updates": len(updates)}
            words += f" {_short(id)} {index}: {len(deletes)} deleted, {len(updates)} set"
        case Update(_, key, value):
            fields |= {"key": key, "bytes": len(value)}
            words += f" {key!r:.{KEY_SHOWN}} {len(value)} bytes"
        case Delete(_, key):
            fields |= {"key": key}
            words += f" {key!r:.{KEY_SHOWN}}"
        case _:
            fields |= {"block": message.number}
            words += f" at block {message.number}"
    return fields, words


def _short(id: bytes) -> str:
    return "0x" + (id.lstrip(b"\0").hex() or "00")
