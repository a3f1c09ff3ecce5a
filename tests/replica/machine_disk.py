"""A machine's disk in memory: journal, notes, stages, and what a member remembers of itself.

It keeps real records. A power cut takes what is not synced, and any end of a process the notes that
are not; a full disk refuses what is written.
"""

import errno
import struct
import zlib
from collections.abc import Callable
from copy import copy
from typing import Any, NamedTuple

from sequencer.message import Message
from sequencer.replica.errors import StageRefused
from sequencer.replica.member_messages import Epochs, Note, Records
from sequencer.replica.replicated_log import NEW
from sequencer.replica.view import View
from tests.replica.checker import Breach
from tests.replica.messages_made import message_of

LENGTH = struct.Struct("<I")
EPOCH = struct.Struct("<I")
NUMBER = struct.Struct("<Q")
SALT = 0x5EA1A7
ROOM = 4096  # bytes that the journal promises at once


def split(data: bytes) -> list[bytes]:
    """The records of a block."""
    found, at = [], 0
    while at < len(data):
        length = (LENGTH.unpack_from(data, at + 4)[0] + 7) & ~7
        found.append(data[at : at + length])
        at += length
    return found


class DiskFull(OSError):
    def __init__(self) -> None:
        super().__init__(errno.ENOSPC, "the disk is full")


class JournalInMemory:
    """A `ReplicatedLog`. Numbers from `base` + 1 to `last`, without a gap; epochs never fall."""

    checked = True

    def __init__(self, written: dict[tuple[int, int], bytes], is_new: bool) -> None:
        self.written = written  # by all members: one record for each (epoch, number)
        self.journal = NEW if is_new else "1141c2c3a6b8558d"
        self.salt = 0 if is_new else SALT
        self.base = self.base_epoch = self.last = 0
        self.epoch = 0
        self.records: list[bytes] = []
        self.record_epochs: list[int] = []
        self.synced = 0
        self.cuts = 0  # a sync that was begun before one says nothing about what came after it
        self.is_full = False
        self.cold: Callable[[int], bool] = lambda _: False  # whether it must be read first

    @property
    def first(self) -> int:
        return self.base + 1

    @property
    def room(self) -> int:
        return 0 if self.is_full else ROOM

    @property
    def newest_time(self) -> int:
        return NUMBER.unpack_from(self.records[-1], 16)[0] if self.records else 0

    def reserve(self, need: int) -> None:
        if self.is_full:
            raise DiskFull

    def at(self, number: int) -> bytes:
        assert self.base < number <= self.last, "it is here"
        return self.records[number - self.base - 1]

    def epoch_of(self, number: int) -> int:
        return (
            self.base_epoch if number == self.base else self.record_epochs[number - self.base - 1]
        )

    def epochs(self) -> Epochs:
        table: list[tuple[int, int]] = []
        for number, epoch in enumerate(self.record_epochs, self.first):
            if not table or table[-1][0] != epoch:
                table.append((epoch, number))
        return tuple(table)

    def begin_epoch(self, epoch: int) -> None:
        if self.is_full and epoch != self.epoch:
            raise DiskFull
        self.epoch = epoch

    def write(self, view: memoryview, first: int, last: int, time: int, ids: bool) -> None:
        self._add(bytes(view), first, last, self.epoch)

    def append(self, records: Records, time: int, last_time: int, ids: bool) -> None:
        self._add(bytes(records.data), records.first, records.last, records.epoch)

    def _add(self, data: bytes, first: int, last: int, epoch: int) -> None:
        if self.is_full:
            raise DiskFull
        assert first == self.last + 1, "numbers have no gap"
        assert not self.records or epoch >= self.record_epochs[-1], "epochs never fall"
        for number, record in enumerate(split(data), first):
            assert NUMBER.unpack_from(record, 8)[0] == number, "its number is in the record"
            assert EPOCH.unpack_from(record, 40)[0] == epoch, "and its epoch"
            if self.written.setdefault((epoch, number), record) != record:
                raise Breach(f"epoch: two records {number} of epoch {epoch}")
            self.records.append(record)
            self.record_epochs.append(epoch)
        self.last = self.base + len(self.records)
        assert self.last == last, "all that was announced"

    def read(self, after: int, most: int) -> Records | None:
        assert self.base <= after < self.last, "it is here"
        if self.cold(after):
            return None
        at = start = after - self.base
        epoch, size = self.record_epochs[at], 0
        records = self.records
        while at < len(records) and self.record_epochs[at] == epoch:
            size += len(records[at])
            if size > most and at > start:
                break
            at += 1
        return Records(after + 1, self.base + at, epoch, b"".join(records[start:at]))

    def truncate(self, number: int) -> None:
        assert number >= self.base, "what is before was deleted"
        del self.records[number - self.base :]
        del self.record_epochs[number - self.base :]
        self.last = number
        self.synced = min(self.synced, number)
        self.cuts += 1

    def reset_to(self, number: int, epoch: int, salt: int) -> None:
        self.base, self.base_epoch, self.last = number, epoch, number
        self.records, self.record_epochs = [], []
        self.synced = number
        self.cuts += 1
        self.journal, self.salt = "1141c2c3a6b8558d", salt

    def retain(self, base: int) -> None:
        """Delete what is before and at `base`; a power cut leaves a log that begins after it."""
        if base > self.base:
            self.synced = max(self.synced, base)
            self.base_epoch = self.epoch_of(base)
            del self.records[: base - self.base]
            del self.record_epochs[: base - self.base]
            self.base = base


class Written(NamedTuple):
    """What the file of notes has: the number before the first one, and all of them."""

    base: int
    notes: tuple[Note, ...]


class NotesInMemory:
    """A `NoteLog`, and the file that is brought to the same state later.

    Any end of the process leaves what is in the file: also where the disk keeps what was written,
    a note may wait in the process's own memory.
    """

    def __init__(self, checker: Any) -> None:
        self.written: dict[tuple[int, int], Note] = checker.notes
        self.prepared = checker.prepared
        self.notes: list[Note] = []
        self.base = 0
        self.synced = 0
        self.file = Written(0, ())
        self.writing: Written | None = None  # under way
        self.kept = 0  # the newest note that is as it was when that began
        self.has_removed = self.is_removing = False
        self.is_full = False

    @property
    def first(self) -> int:
        return self.base + 1

    @property
    def last(self) -> int:
        return self.base + len(self.notes)

    def at(self, number: int) -> Note:
        return self.notes[number - self.first]

    def epochs(self) -> Epochs:
        table: dict[int, int] = {}
        for note in self.notes:
            table.setdefault(note.epoch, note.number)
        return tuple(table.items())

    def append(self, note: Note) -> None:
        assert note.number == self.last + 1, "notes have no gap"
        if self.written.setdefault((note.epoch, note.number), note) != note:
            raise Breach(f"epoch: two notes {note.number} of epoch {note.epoch}")
        self.notes.append(note)
        if note.kind == "PREPARE":
            self.prepared.add((note.fields["application"], note.fields["batch"]))

    def truncate(self, number: int) -> None:
        if number < self.last:
            del self.notes[number - self.base :]
            self._remove(number)

    def shorten(self, notes: tuple[Note, ...]) -> None:
        self.base = notes[0].number - 1
        self.notes = list(notes)

    def replace(self, notes: tuple[Note, ...]) -> None:
        self.shorten(notes)
        self._remove(self.base)

    def _remove(self, number: int) -> None:
        self.kept = min(self.kept, number)
        self.synced = min(self.synced, number)
        self.has_removed = self.is_removing = True

    # The file

    @property
    def is_dirty(self) -> bool:
        return self.file != Written(self.base, tuple(self.notes))

    def begin_sync(self) -> None:
        self.writing = Written(self.base, tuple(self.notes))
        self.kept = self.last
        self.is_removing = False  # unless more is removed while it is written

    def end_sync(self) -> None:
        assert self.writing is not None, "it was begun"
        self.file, self.writing = self.writing, None
        last = self.file.base + len(self.file.notes)
        self.synced = max(self.synced, min(last, self.kept))
        self.has_removed = self.is_removing

    def sync(self) -> None:
        """Bring the file to the same state at once."""
        self.begin_sync()
        self.end_sync()

    def crash(self, chance: Callable[[], float]) -> None:
        """Leave what is in the file: as it was before a write, after it, or between the two."""
        if self.writing is not None:
            old, new = self.file, self.writing
            is_longer = new.base == old.base and new.notes[: len(old.notes)] == old.notes
            if is_longer:
                more = len(new.notes) - len(old.notes)
                self.file = Written(
                    old.base, new.notes[: len(old.notes) + int(chance() * (more + 1))]
                )
            elif chance() < 0.5:
                self.file = new
        self.writing = None
        self.base, self.notes = self.file.base, list(self.file.notes)
        self.synced = self.last
        self.has_removed = self.is_removing = False


class MemoryOfMember:
    """What cluster/member.json has."""

    def __init__(self, member: str) -> None:
        self.member = member
        self.registered = 0  # the newest run of this member that the engine knows, or will
        self.epoch = self.revision = self.stream = 0
        self.view: View | None = None

    def learn(self, epoch: int, revision: int, view: View) -> None:
        self.epoch, self.revision, self.view = epoch, revision, view

    def follow(self, stream: int) -> None:
        self.stream = stream


class StagesInMemory:
    """A `StageStore`: the rows of a stage are its lines."""

    def __init__(self) -> None:
        self.files: dict[tuple[str, int, str], bytes] = {}
        self.kept: set[tuple[str, int]] = set()  # synced
        self.had: set[tuple[tuple[str, int, str], int]] = set()  # what was ever here: key, size
        self.is_full = False

    def size(self, key: tuple[str, int, str]) -> int:
        return len(self.files.get(key, b""))

    def write(self, key: tuple[str, int, str], offset: int, data: bytes | memoryview) -> int:
        if self.is_full:
            raise DiskFull
        have = self.files.get(key, b"")
        if offset <= len(have):
            self.files[key] = have + bytes(data)[len(have) - offset :]
            self.had.add((key, len(self.files[key])))
        return len(self.files.get(key, b""))

    def stage(
        self,
        key: tuple[str, int, str],
        offset: int,
        data: bytes | memoryview,
        headers: dict[str, str],
    ) -> None:
        size = self.write(key, offset, data)
        if size < offset:
            raise StageRefused(409, f"this stage has {size} bytes", size)

    def facts(self, key: tuple[str, int, str]) -> dict[str, int]:
        return {"bytes": self.size(key)}

    def names(self, application: str, batch: int) -> list[str]:
        return [key[2] for key in self.files if key[:2] == (application, batch)]

    def claim(self, application: str, headers: dict[str, str]) -> dict[str, Any]:
        return {}

    def disown(self, application: str) -> None:
        pass

    def committed(self, fields: dict[str, Any]) -> None:
        self.drop(fields["application"], fields["batch"])

    def read(self, key: tuple[str, int, str], offset: int, most: int) -> bytes:
        return self.files.get(key, b"")[offset : offset + most]

    def rows(self, application: str, batch: int, stages: list[list[Any]]) -> int:
        if not self._has(application, batch, stages):
            raise StageRefused(404, "a stage is not here")
        whole = (self.files.get((application, batch, name), b"") for name, _, _ in stages)
        return sum(data.count(b"\n") for data in whole)

    def _has(self, application: str, batch: int, stages: list[list[Any]]) -> bool:
        for name, size, crc in stages:
            data = self.files.get((application, batch, name), b"")
            if (len(data), zlib.crc32(data)) != (size, crc):
                return False
        return True

    def keep(self, application: str, batch: int, stages: list[list[Any]]) -> bool:
        if not self._has(application, batch, stages):
            return False
        self.kept.add((application, batch))
        return True

    def publish(self, note: Note, row: int, most: int, take: Callable[[Message], int]) -> int:
        fields = note.fields
        lines = b"".join(
            self.files[fields["application"], fields["batch"], name]
            for name, _, _ in fields["stages"]
        ).splitlines()
        done = 0
        for nth in range(row, row + most):
            if not take(message_of(fields["origin"], nth, "", lines[nth - 1].decode())):
                break
            done += 1
        return done

    def damage(self, note: Note) -> str:
        return ""

    def drop(self, application: str, batch: int, name: str = "") -> None:
        for key in list(self.files):
            if key[0] == application and (key[1:] == (batch, name) if name else key[1] <= batch):
                del self.files[key]

    def forget(self, application: str, batch: int) -> None:
        """Stages that nobody has promised may go at any time."""
        if (application, batch) not in self.kept:
            for key in [key for key in self.files if key[:2] == (application, batch)]:
                del self.files[key]

    def lose(self, chance: Callable[[], bool]) -> None:
        """A power cut: what was not synced may be gone."""
        for key in list(self.files):
            if key[:2] not in self.kept and chance():
                del self.files[key]


# Not the disk's: what all members have written, and what the disk does just now.
OF_WORLD = {"written", "prepared", "had", "is_full", "cold", "cuts"}


class Disk:
    """All that outlives a process."""

    def __init__(self, member: str, checker: Any, is_new: bool = False) -> None:
        self.memory = MemoryOfMember(member)
        self.log = JournalInMemory(checker.written, is_new)
        self.notes = NotesInMemory(checker)
        self.stages = StagesInMemory()
        self.watermark = (member, 0)  # whose it is; written from time to time

    @property
    def known(self) -> int:
        """Up to where the member knows its journal to be committed when it starts."""
        member, number = self.watermark
        return min(number, self.log.last) if member == self.memory.member else 0

    def snapshot(self) -> "Callable[[], None]":
        """Copy all of it; a call puts the copy back."""
        parts = (self.memory, self.log, self.notes, self.stages)
        kept = [
            {name: copy(value) for name, value in vars(part).items() if name not in OF_WORLD}
            for part in parts
        ]
        watermark = self.watermark

        def put_back() -> None:
            for part, values in zip(parts, kept, strict=True):
                vars(part).update({name: copy(value) for name, value in values.items()})
            self.watermark = watermark
            self.notes.crash(lambda: 0.0)
            self.log.synced = self.log.last
            self.log.cuts += 1

        return put_back

    def fill(self, is_full: bool) -> None:
        self.log.is_full = self.notes.is_full = self.stages.is_full = is_full
