"""The second log of a member, `cluster/notes`: a `NoteLog` on the disk.

    <crc> {"format":1,"before":0}                                    the number before the first
    <crc> {"number":1,"epoch":7,"kind":"SNAPSHOT","fields":{...}}
    <crc> {"number":2,"epoch":7,"kind":"PREPARE","fields":{...}}

Each line has a checksum (broker/storage/sealed_lines.py). A note is synced before `append` returns.
To remove notes, the file is replaced as a whole, so a crash leaves the old log or the new one.

After a disk error the content of the file is unknown. Then the next `append` replaces it with the
notes in memory and the new one.

All notes are in memory, too. Their writer bounds their number: a SNAPSHOT replaces them when the
log is twice as long as it needs to be.
"""

import os
from typing import Any, Final

from broker.storage.sealed_lines import seal, unseal
from sequencer.journal.disk import FILE_MODE, make_folder, naming, pwrite_all, replace, sync_folder
from sequencer.journal.errors import StoreError
from sequencer.replica.member_messages import Epochs, Note

FILE: Final = "notes"
FORMAT: Final = 1


class NoteFile:
    """The second log on the disk. For one thread."""

    def __init__(self, folder: str) -> None:
        """Open the file in this folder, or create it. Raises `OSError`, and `StoreError`."""
        self.damage = ""  # what is lost: more than the torn end that a crash leaves
        self._file = os.path.join(folder, FILE)
        self._notes: list[Note] = []
        self._before = 0
        self._fd = -1
        self._size = 0
        self._unsure = False  # an error of the disk: the file may hold anything
        make_folder(folder)
        self._recover()

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

    def append(self, note: Note) -> None:
        """Append and sync. OSError: the log is as before."""
        assert note.number == self.last + 1, "numbers have no gaps"
        if self._unsure:
            self._replace(self._before, [*self._notes, note])
            return
        line = _line(note)
        try:
            with naming(self._file):
                pwrite_all(self._fd, line, self._size)
                os.fdatasync(self._fd)
        except OSError:
            self._unsure = True
            raise
        self._size += len(line)
        self._notes.append(note)

    def truncate(self, number: int) -> None:
        """Remove everything above `number`, and sync that. OSError: the log is as before."""
        assert self._before <= number <= self.last, "it is here, or just before"
        if number < self.last or self._unsure:
            self._replace(self._before, self._notes[: number - self._before])

    def reset_to(self, notes: tuple[Note, ...]) -> None:
        """Replace everything with a SNAPSHOT and the notes after it. OSError: as before."""
        assert notes, "a log begins with a snapshot"
        self._replace(notes[0].number - 1, list(notes))

    def close(self) -> None:
        """Close the file. All of it is on the disk."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _replace(self, before: int, notes: list[Note]) -> None:
        numbers = range(before + 1, before + 1 + len(notes))
        assert [note.number for note in notes] == list(numbers), "numbers have no gaps"
        data = b"".join([_head(before), *map(_line, notes)])
        try:
            replace(self._file, data)
            fd = os.open(self._file, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            self._unsure = True  # the new file may be there already
            raise
        self.close()
        self._fd, self._size = fd, len(data)
        self._before, self._notes = before, notes
        self._unsure = False

    def _recover(self) -> None:
        """Read the file, and cut a torn end off."""
        self._fd = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            with open(self._fd, "rb", closefd=False) as file:
                data = file.read()
            lines = data.splitlines(keepends=True)
            head = _whole(lines[0]) if lines else None
            if head is not None and head.get("format") != FORMAT:
                raise StoreError(f"{self._file} was written by a newer Seriatim; start with that")
            good = self._read(head, lines)
            if any(_whole(line) is not None for line in lines[good:]):
                self.damage = f"{self._file}: line {good + 1} is damaged"
            self._size = sum(map(len, lines[:good]))
            if not good:  # a new file, or nothing of it is left
                self._replace(0, [])
            elif self._size < len(data):
                os.ftruncate(self._fd, self._size)
                os.fsync(self._fd)
            sync_folder(os.path.dirname(self._file))
        except BaseException:
            self.close()
            raise

    def _read(self, head: dict[str, Any] | None, lines: list[bytes]) -> int:
        """Take the notes; return how many lines are good, with the head."""
        if head is None:
            return 0
        self._before = head["before"]
        for at, line in enumerate(lines[1:], 1):
            fields = _whole(line)
            if fields is None or fields.get("number") != self.last + 1:
                return at
            self._notes.append(Note(**fields))
        return len(lines)


def _head(before: int) -> bytes:
    return seal({"format": FORMAT, "before": before})


def _line(note: Note) -> bytes:
    return seal(note._asdict())


def _whole(line: bytes) -> dict[str, Any] | None:
    """Return the content of a whole line; the last one may have lost its end."""
    return unseal(line) if line.endswith(b"\n") else None
