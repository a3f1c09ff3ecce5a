"""The second log on the disk: a `NoteLog` in one file, `notes`.

    <store>/cluster/notes      of a member: promises of batches, weights of queue groups
    <store>/staging/notes      of a broker that is alone: promises of batches

    <crc> {"format":1,"before":0}                                    the number before the first
    <crc> {"number":1,"epoch":7,"kind":"SNAPSHOT","fields":{...}}
    <crc> {"number":2,"epoch":7,"kind":"PREPARE","fields":{...}}

Each line has a checksum (sealed_lines.py), so a torn end is known. All notes are in memory, too.
Their writer bounds their number: a SNAPSHOT replaces them when the log is twice as long as it needs
to be.

    append, truncate, shorten, replace    change the memory alone, and cannot fail
    begin_sync, write, end_sync           bring the file to the same state; `write` in any thread
    recover                               reads the file when it is opened

                 append                 write, end_sync
    notes  1 2 3 4 5 6 7 8                                  `last` is 8
           -------------                                    `synced` is 5: these survive a power cut

A note counts when it is synced, not before. Many appends share one sync, and the event loop does
not wait for the disk (`NoteWriter`). To remove notes, the next sync writes the file as a whole
beside the old one and renames it, so a crash leaves the old log or the new one. Until then, it may
bring back what was removed (`has_removed`). After an error the content of the file is unknown, and
the next sync writes it as a whole, too.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final, NamedTuple

from broker.storage.sealed_lines import seal, unseal
from sequencer.journal.disk import FILE_MODE, make_folder, naming, pwrite_all, replace, sync_folder
from sequencer.journal.errors import StoreError
from sequencer.replica.member_messages import Epochs, Note

log = logging.getLogger("seriatim")

FILE: Final = "notes"
FORMAT: Final = 1
RETRY: Final = 0.25  # seconds until notes that could not be written are written again


class Unwritten(NamedTuple):
    """Lines to append to the file, or its whole content. `last`: the newest note."""

    data: bytes
    is_whole: bool
    last: int


class NoteFile:
    """The second log of a broker. For one thread, but for `write`."""

    def __init__(self, folder: str, durable: bool = True) -> None:
        """Open the file in this folder, or create it. Raises `OSError`, and `StoreError`.

        `durable` False: nothing is synced, and a note counts when it is written.
        """
        self.damage = ""  # what is lost: more than the torn end that a crash leaves
        self.synced = 0  # the newest note that is on the disk
        self.file = os.path.join(folder, FILE)
        self._durable = durable
        self._notes: list[Note] = []
        self._before = 0
        self._lines: list[bytes] = []  # appended, and not in the file
        self._is_whole = False  # the next sync writes all of it
        self._kept = 0  # the newest note that was neither removed nor replaced since `begin_sync`
        self._has_removed = self._is_removing = False  # not yet in the file; being written
        self._fd = -1
        self._size = 0
        make_folder(folder)
        self._recover()
        self.synced = self.last

    @property
    def first(self) -> int:
        """The first number in the log; last + 1 if it is empty."""
        return self._before + 1

    @property
    def last(self) -> int:
        return self._before + len(self._notes)

    @property
    def size(self) -> int:
        """The size of the file."""
        return self._size

    def epochs(self) -> Epochs:
        """Return pairs of an epoch and its first number, oldest first."""
        found: list[tuple[int, int]] = []
        for note in self._notes:
            if not found or found[-1][0] != note.epoch:
                found.append((note.epoch, note.number))
        return tuple(found)

    def at(self, number: int) -> Note:
        """Return the note with this number, which must be in the log."""
        assert self.first <= number <= self.last, "it is here"
        return self._notes[number - self.first]

    # Changes

    def append(self, note: Note) -> None:
        """Append a note, to be synced."""
        assert note.number == self.last + 1, "numbers have no gaps"
        self._notes.append(note)
        self._lines.append(_line(note))

    def truncate(self, number: int) -> None:
        """Remove everything above `number`, to be synced."""
        assert self._before <= number <= self.last, "it is here, or just before"
        if number < self.last:
            del self._notes[number - self._before :]
            self._change(number)

    def shorten(self, notes: tuple[Note, ...]) -> None:
        """Put a SNAPSHOT in place of the notes that it sums up, to be synced.

        `notes` are all that the log has then. A crash before leaves more, and the same: so what is
        synced still counts.
        """
        self._set(notes)
        self._is_whole = True

    def replace(self, notes: tuple[Note, ...]) -> None:
        """Replace everything by another log, to be synced: before that, none of it counts."""
        self._set(notes)
        self._change(self._before)

    def _set(self, notes: tuple[Note, ...]) -> None:
        numbers = range(notes[0].number, notes[0].number + len(notes))
        assert [note.number for note in notes] == list(numbers), "numbers have no gaps"
        self._before, self._notes = notes[0].number - 1, list(notes)

    def _change(self, kept: int) -> None:
        self._is_whole = self._has_removed = True
        self._kept = min(self._kept, kept)
        self.synced = min(self.synced, kept)

    # Syncing

    @property
    def is_dirty(self) -> bool:
        """True if the file lacks a note, or has one too many."""
        return self._is_whole or bool(self._lines)

    @property
    def has_removed(self) -> bool:
        """True if the file may have a note that was removed: a crash would bring it back."""
        return self._has_removed or self._is_removing

    def begin_sync(self) -> Unwritten:
        """Return what `write` has to bring to the disk. One at a time, until `end_sync`."""
        lines, self._lines = self._lines, []
        is_whole, self._is_whole = self._is_whole, False
        self._is_removing, self._has_removed = self._has_removed, False
        self._kept = self.last
        if is_whole:
            lines = [_head(self._before), *map(_line, self._notes)]
        elif not self._size:  # a new file gets its head with its first note: a disk may be full
            lines = [_head(self._before), *lines]
        return Unwritten(b"".join(lines), is_whole, self.last)

    def write(self, unwritten: Unwritten) -> None:
        """Write and sync; in any thread. OSError: the content of the file is unknown then."""
        data = unwritten.data
        if unwritten.is_whole:
            replace(self.file, data, durable=self._durable)
            fd = os.open(self.file, os.O_RDWR | os.O_CLOEXEC)
            self._close()
            self._fd, self._size = fd, len(data)
            return
        try:
            with naming(self.file):
                pwrite_all(self._fd, data, self._size)
                if self._durable:
                    os.fdatasync(self._fd)
        except OSError:
            with suppress(OSError):  # what is refused now must not be found at the next start
                os.ftruncate(self._fd, self._size)
            raise
        self._size += len(data)

    def end_sync(self, unwritten: Unwritten, has_failed: bool = False) -> None:
        """Note that `write` has returned, or has raised."""
        if has_failed:
            self._is_whole = True
            self._has_removed = self.has_removed
        else:
            self.synced = max(self.synced, min(unwritten.last, self._kept))
        self._is_removing = False

    def sync(self) -> None:
        """Write and sync here and now. Raises `OSError`."""
        unwritten = self.begin_sync()
        try:
            self.write(unwritten)
        except OSError:
            self.end_sync(unwritten, has_failed=True)
            raise
        self.end_sync(unwritten)

    def close(self) -> None:
        """Close the file. What is not synced is lost."""
        self._close()

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    # Recovery

    def _recover(self) -> None:
        """Read the file, cut a torn end off, and sync: a killed process may not have done so."""
        self._fd = os.open(self.file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            with open(self._fd, "rb", closefd=False) as file:
                data = file.read()
            self._before, self._notes, self._size, damaged = _parse(self.file, data)
            if damaged:
                self.damage = f"{self.file}: line {damaged} is damaged"
            if self._size < len(data):
                os.ftruncate(self._fd, self._size)
            if self._durable:
                os.fsync(self._fd)
                sync_folder(os.path.dirname(self.file))
        except BaseException:
            self._close()
            raise


class NoteWriter:
    """Brings a log of notes to the disk in a thread. For the thread of the event loop."""

    def __init__(
        self,
        notes: NoteFile,
        loop: asyncio.AbstractEventLoop,
        synced: Callable[[], None],
        failed: Callable[[str], None],
    ) -> None:
        """Call `synced` after each sync, and `failed` with a reason; then it is tried again."""
        self.notes = notes
        self._loop = loop
        self._synced = synced
        self._failed = failed
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="notes")
        self._writing: asyncio.Task[None] | None = None
        self._is_failing = False
        self._stop: asyncio.Future[None] = loop.create_future()

    def write_soon(self) -> None:
        """Write what the disk lacks, if that is not under way."""
        if self._writing is None and self.notes.is_dirty and not self._stop.done():
            self._writing = self._loop.create_task(self._write())

    @property
    def is_writing(self) -> bool:
        """True while the thread writes: `NoteFile.sync` must not be called then."""
        return self._writing is not None

    async def written(self) -> None:
        """Write what the disk lacks; return when it is there, or this writer stops."""
        self.write_soon()
        if self._writing is not None:
            await asyncio.wait({self._writing})

    async def _write(self) -> None:
        notes = self.notes
        while notes.is_dirty and not self._stop.done():
            unwritten = notes.begin_sync()
            try:
                await self._loop.run_in_executor(self._thread, notes.write, unwritten)
            except OSError as error:
                notes.end_sync(unwritten, has_failed=True)
                why = error.strerror or str(error)
                if not self._is_failing:
                    self._is_failing = True
                    log.error("Notes: %s: %s; trying again", notes.file, why)
                self._loop.call_soon(self._failed, why)
                await asyncio.wait({self._stop}, timeout=RETRY)
            else:
                notes.end_sync(unwritten)
                if self._is_failing:
                    self._is_failing = False
                    log.info("Notes: %s: written again", notes.file)
                self._loop.call_soon(self._synced)
        self._writing = None

    async def stop(self) -> None:
        """Write the rest, and close the file. Nothing is called after this."""
        if self._stop.done():
            return
        self._stop.set_result(None)
        if self._writing is not None:
            await asyncio.wait({self._writing})
        await self._loop.run_in_executor(self._thread, self._close)
        self._thread.shutdown()

    def _close(self) -> None:
        try:
            if self.notes.is_dirty:
                self.notes.sync()
        except OSError as error:
            log.error("Notes: %s: %s", self.notes.file, error.strerror)
        self.notes.close()


def read_notes(folder: str) -> list[Note]:
    """Return the notes in a folder; none without a file. Raises `OSError`, and `StoreError`."""
    file = os.path.join(folder, FILE)
    try:
        with open(file, "rb") as opened:
            return _parse(file, opened.read())[1]
    except FileNotFoundError:
        return []


def _parse(file: str, data: bytes) -> tuple[int, list[Note], int, int]:
    """Return the number before the first note, the notes, and the size of what is good.

    The last figure is the first damaged line, from 1; 0 if only the end is torn.
    """
    lines = data.splitlines(keepends=True)
    head = _whole(lines[0]) if lines else None
    if head is not None and head.get("format") != FORMAT:
        raise StoreError(f"{file} was written by a newer Seriatim; start with that")
    before = head["before"] if head is not None else 0
    notes: list[Note] = []
    good = 0 if head is None else 1
    for line in lines[good:] if head is not None else ():
        fields = _whole(line)
        if fields is None or fields.get("number") != before + len(notes) + 1:
            break
        notes.append(Note(**fields))
        good += 1
    is_damaged = any(_whole(line) is not None for line in lines[good:])
    return before, notes, sum(map(len, lines[:good])), good + 1 if is_damaged else 0


def _head(before: int) -> bytes:
    return seal({"format": FORMAT, "before": before})


def _line(note: Note) -> bytes:
    return seal(note._asdict())


def _whole(line: bytes) -> dict[str, Any] | None:
    """Return the content of a whole line; the last one may have lost its end."""
    return unseal(line) if line.endswith(b"\n") else None
