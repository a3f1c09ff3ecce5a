"""The open promises of a stopped broker: what is missing of them, and how one is given up.

A promise cannot be kept if a stage is lost or damaged after it was written. The broker then refuses
the commits of its application. To give it up, a VOID is appended to the notes: the batch counts as
not committed. The rows that have numbers stay where they are, and so does everything else.

Nobody was told that the batch is committed: that answer comes after the DONE, which is missing. So
no answer becomes wrong. But rows of it may have been delivered, and they come again if the batch is
committed again.
"""

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from zlib import crc32

from broker.settings.staging_settings import STAGING
from broker.staging.older_stores import batches_of, read_older
from broker.staging.stages import FILE, HEAD_MAX
from broker.storage.member_store import refuse_member
from broker.storage.note_file import NoteFile, read_notes
from broker.storage.sealed_lines import unseal
from sequencer.journal.errors import StoreError
from sequencer.journal.identity import lock
from sequencer.journal.journal_tail import JournalTail, Lost
from sequencer.journal.layout import BAD, RECORD
from sequencer.journal.record import Walk
from sequencer.journal.store_view import StoreView
from sequencer.replica.member_messages import Note

OF_MEMBER: Final = (
    "its promises are the cluster's. Stop the member whose stage is damaged, and another one goes"
    " on"
)
READ_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class OpenPromise:
    """A batch that is promised, and not done. `first` to `last`: where its rows are; 0: nowhere."""

    application: str
    batch: int
    rows: int
    published: int  # rows that have numbers
    first: int
    last: int
    missing: tuple[str, ...]  # stages that are lost or damaged

    @property
    def fate(self) -> str:
        """The fate when a broker starts: "kept", "dropped" (it was none), or "refused"."""
        if self.published == self.rows or not self.missing:
            return "kept"
        return "refused" if self.published else "dropped"


def open_promises(store_dir: str) -> list[OpenPromise]:
    """Return the open promises, oldest first. Raises `OSError` and `StoreError`."""
    with _alone(store_dir):
        return [promise for promise, _ in _found(store_dir)]


def give_up(store_dir: str, application: str, batch: int) -> OpenPromise:
    """Give a promise up, on the disk when this returns. Raises `OSError` and `StoreError`."""
    with _alone(store_dir):
        found = _found(store_dir)
        named = [one for one in found if (one[0].application, one[0].batch) == (application, batch)]
        if not named:
            there = ", ".join(f"batch {one.batch} of {one.application}" for one, _ in found)
            raise StoreError(
                f"batch {batch} of {application} is not promised, or it is done; open promises:"
                f" {there or 'none'}"
            )
        promise, origin = named[0]
        notes = NoteFile(os.path.join(store_dir, STAGING))
        try:
            fields = {"application": application, "origin": origin}
            notes.append(Note(notes.last + 1, notes.at(notes.last).epoch, "VOID", fields))
            notes.sync()
        finally:
            notes.close()
        return promise


@contextmanager
def _alone(store_dir: str) -> Iterator[None]:
    """Keep other processes off the store. StoreError: one writes it, or it is a member's."""
    StoreView(store_dir)  # a journal is there
    refuse_member(store_dir, OF_MEMBER)
    held = lock(store_dir)
    try:
        yield
    finally:
        os.close(held)


def _found(store_dir: str) -> list[tuple[OpenPromise, int]]:
    """Return the promises with their origins."""
    folder = os.path.join(store_dir, STAGING)
    if not os.path.isdir(folder):
        return []
    older = read_older(folder)
    if older.files or older.damaged:
        raise StoreError(
            f"{folder} has files of an older broker: start a broker on this store, which takes them"
            " into its notes, and stop it"
        )
    promises = list(batches_of(read_notes(folder)).open.values())
    wanted = {
        (fields["application"], fields["batch"], name)
        for fields in promises
        for name, _, _ in fields["stages"]
    }
    stages = _stages(folder, wanted)
    after = min((fields["after"] for fields in promises), default=0)
    origins = {fields["origin"] for fields in promises}
    rows: dict[int, dict[int, int]] = {origin: {} for origin in origins}
    for origin, row, number in rows_in(StoreView(store_dir), origins, after):
        rows[origin][row] = number
    return [(_promise(fields, rows, stages), fields["origin"]) for fields in promises]


def _promise(
    fields: dict[str, Any],
    rows: dict[int, dict[int, int]],
    stages: dict[tuple[str, int, str], tuple[int, int]],
) -> OpenPromise:
    name, batch = fields["application"], fields["batch"]
    numbers = rows[fields["origin"]].values()
    missing = [
        stage
        for stage, size, crc in fields["stages"]
        if stages.get((name, batch, stage)) != (size, crc)
    ]
    first, last = min(numbers, default=0), max(numbers, default=0)
    return OpenPromise(name, batch, fields["rows"], len(numbers), first, last, tuple(missing))


def _stages(
    folder: str, wanted: Collection[tuple[str, int, str]]
) -> dict[tuple[str, int, str], tuple[int, int]]:
    """Return bytes and CRC-32 of the wanted stages that can be read; of two the newer counts."""
    found = {}
    for name in sorted(os.listdir(folder)):
        if not FILE.fullmatch(name):
            continue
        try:
            with open(os.path.join(folder, name), "rb") as file:
                fields = unseal(file.readline(HEAD_MAX))
                if fields is None:
                    continue
                key = fields["application"], fields["batch"], fields["stage"]
                size = crc = 0
                while key in wanted and (data := file.read(READ_BYTES)):
                    size, crc = size + len(data), crc32(data, crc)
        except OSError:
            continue
        found[key] = size, crc
    return found


def rows_in(
    view: StoreView, origins: Collection[int], after: int
) -> Iterator[tuple[int, int, int]]:
    """Yield origin, row and number of these origins' rows after a number; changes nothing."""
    segments = view.segments()
    if not origins or not segments:
        return
    number, is_bad = max(after + 1, segments[0]), False
    tail, walk = JournalTail(view, reuse=True), Walk(view.salt)
    try:
        while (found := tail.more(number, is_bad)) is not False:
            is_bad = False
            if isinstance(found, Lost):
                number = found.last + 1
                continue
            walk.attach(tail.buffer, tail.at, tail.stop)
            while (state := walk.next()) == RECORD:
                if walk.number >= number:
                    number = walk.number + 1
                    if walk.origin in origins:
                        yield walk.origin, walk.origin_sequence, walk.number
            tail.at = walk.after
            is_bad = state == BAD
    finally:
        tail.close()
