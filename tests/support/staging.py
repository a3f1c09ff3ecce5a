"""What publishers of batches send, and what must then be in the journal: each row once, in order.

A row is identified by its batch and its position; subject, reply, headers and size follow from
these two, so any damaged, lost, duplicated or moved row shows.
"""

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from broker.staging.applications import CommittedBatch
from broker.staging.local_batches import LocalBatches
from broker.staging.older_stores import batches_of
from broker.storage.note_file import NoteFile, read_notes
from broker.storage.sealed_lines import seal, unseal
from sequencer.journal.record import RecordBatch as Records
from sequencer.replica.member_messages import Note
from tests.support.raw import HEADERS, Operation
from tests.support.serving import Broker, serving
from tests.support.stores import open_store

FILLER = bytes(range(256)) * 16  # CR, LF and NUL too
ALONE = dict.fromkeys(("staging.address_share", "staging.connection_share"), "100")
ORIGIN = 77  # of a batch that a test leaves promised
LISTEN = b"SUB _INBOX.staging.> staging\r\n"


class NotOnce(AssertionError):
    """A row of a batch is missing, doubled, or in another place."""


@dataclass(frozen=True)
class Batch:
    """So many rows, in so many stages of any name; `width` is the longest row's size, about."""

    application: str
    number: int
    rows: int
    stages: int = 1
    width: int = 300
    attempt: int = 0  # another one has the same rows in other stages

    def payload(self, at: int) -> bytes:
        """What one row says."""
        word = b"%s %d %d" % (self.application.encode(), self.number, at)
        chance = crc32(word)
        return word + b" " + FILLER[chance & 0xFF :][: chance % self.width]

    def row(self, at: int) -> bytes:
        """One row, as it is published."""
        payload = self.payload(at)
        chance = crc32(payload)
        subject = b"rows.%d" % (chance % 5)
        if chance & 0x700:
            return b"PUB %b %d\r\n%b\r\n" % (subject, len(payload), payload)
        head = b"NATS/1.0\r\nNats-Msg-Id: always the same\r\n\r\n"
        sizes = (len(head), len(head) + len(payload))
        return b"HPUB %b reply.%d %d %d\r\n%b%b\r\n" % (subject, at, *sizes, head, payload)

    @cached_property
    def parts(self) -> dict[str, bytes]:
        """The operations of each stage, by its name."""
        step = -(-self.rows // self.stages) if self.stages else 0
        return {
            f"{part}-{self.attempt}": b"".join(
                self.row(at) for at in range(part * step, min((part + 1) * step, self.rows))
            )
            for part in range(self.stages)
        }

    def pieces(self, size: int) -> Iterable[bytes]:
        """All that is to be staged, in requests of at most `size` bytes of rows."""
        for name, data in self.parts.items():
            for at in range(0, max(len(data), 1), size):
                yield piece(self.application, self.number, name, at, data[at : at + size])

    def commit(self, **other: Any) -> bytes:
        """The request that publishes it."""
        stages = [
            {"stage": name, "bytes": len(data), "crc32": crc32(data)}
            for name, data in self.parts.items()
        ]
        wish = {"application": self.application, "batch": self.number, "stages": stages}
        return request("COMMIT", wish | other)


def piece(
    application: str, batch: int, stage: str, offset: int, data: bytes, reply: bytes = b"piece"
) -> bytes:
    """`$SEQ.STAGE`."""
    head = (
        f"NATS/1.0\r\nSeriatim-Application: {application}\r\nSeriatim-Batch: {batch}\r\n"
        f"Seriatim-Stage: {stage}\r\nSeriatim-Offset: {offset}\r\n\r\n"
    ).encode()
    sizes = (len(head), len(head) + len(data))
    return b"HPUB $SEQ.STAGE _INBOX.staging.%b %d %d\r\n%b%b\r\n" % (reply, *sizes, head, data)


def request(word: str, wish: object) -> bytes:
    """One of the other three; answered to a subject that ends with its word."""
    text = wish if isinstance(wish, bytes) else json.dumps(wish).encode()
    place = word.lower().encode()
    return b"PUB $SEQ.%b _INBOX.staging.%b %d\r\n%b\r\n" % (word.encode(), place, len(text), text)


def is_read(broker: Broker) -> bool:
    """Whether a broker has read through what an earlier one staged, and carried on with it."""
    return broker.server.staging is not None and engine_of(broker).epoch.is_begun


def engine_of(broker: Broker) -> LocalBatches:
    """The engine of a broker that is alone; something was staged there."""
    staging = broker.server.staging
    assert staging is not None, "nothing was staged yet"
    assert isinstance(staging.engine, LocalBatches)
    return staging.engine


def judge(
    payloads: Iterable[bytes],
    batches: Iterable[Batch],
    complete: set[Batch],
    unordered: frozenset[Batch] = frozenset(),
) -> set[Batch]:
    """Compare a journal with what was committed; which batches are in it.

    Each of `complete` must be, as a whole; any other as a whole or not at all; nothing twice.
    Rows are in order, but for those of `unordered`.
    """
    found: dict[tuple[str, int], list[int]] = {}
    words: dict[tuple[str, int], Batch] = {(one.application, one.number): one for one in batches}
    for payload in payloads:
        name, number, at, _ = payload.split(b" ", 3)
        key = (name.decode(), int(number))
        if key not in words:
            continue  # of who publishes without stages
        if payload not in words[key].row(int(at)):
            raise NotOnce(f"row {int(at)} of {key} was changed: {payload[:80]!r}")
        found.setdefault(key, []).append(int(at))
    for key, places in found.items():
        rows = words[key].rows
        if words[key] in unordered:
            places.sort()
        if places != list(range(rows)):
            raise NotOnce(f"{key} has {rows} rows; the journal has {len(places)}: {places[:50]}")
    for batch in complete:
        if batch.rows and (batch.application, batch.number) not in found:
            raise NotOnce(f"{batch} was answered, and is not there")
    return {batch for key, batch in words.items() if key in found}


def rewrite_end(folder: Path, drop: frozenset[str] = frozenset(), **other: Any) -> None:
    """Change the fields of the newest DONE in a store's notes, as if time had passed."""
    file = folder / "staging" / "notes"
    lines = file.read_bytes().splitlines(keepends=True)
    note = unseal(lines[-1]) or {}
    assert note["kind"] == "DONE", note
    note["fields"] = {k: v for k, v in note["fields"].items() if k not in drop} | other
    file.write_bytes(b"".join(lines[:-1]) + seal(note))


def leave_as_older(folder: Path, drop: frozenset[str] = frozenset()) -> Path:
    """Leave committed batches as an older broker did; return that file."""
    notes, file = folder / "staging" / "notes", folder / "staging" / "applications"
    done = batches_of(read_notes(str(notes.parent))).done.values()
    names = {field.name for field in fields(CommittedBatch)} - drop
    file.write_bytes(b"".join(seal({k: one[k] for k in names & one.keys()}) for one in done))
    notes.unlink()
    return file


class Refused(NamedTuple):
    """A status that was answered, and the offset that it names."""

    status: int
    words: str
    offset: int | None = None


Answer = dict[str, Any] | Refused


def answer_of(operation: Operation) -> Answer:
    """What the broker says to a request."""
    if operation.payload:
        answer: dict[str, Any] = json.loads(operation.payload)
        return answer
    status, *fields = operation.header.decode().split("\r\n")
    version, code, words = status.split(" ", 2)
    assert version == "NATS/1.0"
    offsets = [int(field.split(": ")[1]) for field in fields if field]
    return Refused(int(code), words, offsets[0] if offsets else None)


class Publisher:
    """Who stages and commits on a broker in the test's own process.

    `host` is where from, `connect` how it says who it is.
    """

    def __init__(self, broker: Broker, host: str = "", connect: bytes = HEADERS) -> None:
        self.broker = broker
        self.client = broker.client(connect + LISTEN, host)

    def ask(self, *asked: bytes) -> list[Answer]:
        """The answers to requests, in the order in which they come."""
        found: list[Operation] = self.client.ask(b"".join(asked))
        while len(found) < len(asked):
            self.broker.run(asyncio.sleep(0))
            found += self.client.ask(b"")
        assert len(found) == len(asked), found
        return [answer_of(one) for one in found]

    def one(self, asked: bytes) -> Answer:
        return self.ask(asked)[0]

    def stage(self, batch: Batch, size: int = 100_000) -> list[Answer]:
        return self.ask(*batch.pieces(size))

    def publish(self, batch: Batch) -> dict[str, Any]:
        """Stage and commit; the answer."""
        self.stage(batch)
        answer = self.one(batch.commit())
        assert isinstance(answer, dict), answer
        return answer


def intent_file(folder: Path) -> Path:
    return folder / "staging" / f"{ORIGIN:016x}.intent"


def promise(folder: Path, batch: Batch, there: int, form: str = "note", after: int = -1) -> None:
    """Leave a batch as a broker does that is killed when so many of its rows have numbers."""
    with serving(folder) as broker:
        publisher = Publisher(broker)
        publisher.client.publish(b"noise", b"n 1 1 x")
        publisher.stage(batch)
        last = broker.server.last_number if after < 0 else after
    stages = [[name, len(data), crc32(data)] for name, data in batch.parts.items()]
    fields: dict[str, Any] = {"application": batch.application, "batch": batch.number}
    fields |= {"remember": True, "origin": ORIGIN, "rows": batch.rows, "stages": stages}
    if form == "note":
        notes = NoteFile(str(folder / "staging"))
        notes.append(Note(notes.last + 1, 1, "PREPARE", fields | {"after": last}))
        notes.sync()
        notes.close()
    else:
        intent_file(folder).write_bytes(seal(fields | {"number": last}))
    store = open_store(folder)
    append_rows(store, batch, range(there), ORIGIN)
    store.close()


def append_rows(store: Any, batch: Batch, rows: Any, origin: int) -> None:
    """Write rows as those of a commit."""
    for at in rows:
        records = Records(store.salt, store.epoch)
        payload = batch.payload(at)
        number = store.last + 1
        records.append_message(
            number, number, b"rows.0", b"", b"", payload, origin=origin, origin_sequence=at + 1
        )
        store.reserve(records.end)
        with records.view() as view:
            store.write(view, number, number, number, False)
