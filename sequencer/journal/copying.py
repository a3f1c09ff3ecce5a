"""Copies a store that a broker may be writing: the copy is a store that was closed.

    sealed segments with an index     their files, which no longer change. Damage since then is
                                      for `verify` to find, which reads every byte
    the others                        record by record, from the files and the window
    store.json                        as in a store without a window

So the copy needs no window, and lacks nothing if the original's window wraps around meanwhile. It
also has no `.highest` and `.newest`, which describe the original, and no lock. All other files are
copied before the newest records, so no file knows a number that the copy does not have. A copy
gets its name when it is complete and synced.

Copying takes no lock, and the broker does not notice it. Retention may delete the oldest segments
meanwhile; the copy then begins later, too.
"""

import errno
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

from sequencer.journal.disk import (
    FILE_MODE,
    FOLDER_MODE,
    pwrite_all,
    remove,
    sync_file,
    sync_folder,
)
from sequencer.journal.errors import StoreError
from sequencer.journal.header import INDEX, SEGMENT, START, SUBJECTS, number_of, stem
from sequencer.journal.high_water import FILE as HIGHEST
from sequencer.journal.identity import FILE, LOCK, read_identity, write_identity
from sequencer.journal.journal_tail import NUMBER_MAX, JournalTail, Lost
from sequencer.journal.layout import BAD, RECORD
from sequencer.journal.record import Walk
from sequencer.journal.store_view import StoreView
from sequencer.journal.window_file import FILE as WINDOW
from sequencer.journal.window_file import NEWEST, WindowView

COPY_BYTES: Final = 1 << 20  # at a time
UNFINISHED: Final = ".unfinished"
ATTEMPTS: Final = 100  # the copy starts over when retention has deleted a segment before its turn
NOT_COPIED: Final = frozenset({FILE, LOCK, HIGHEST, WINDOW, NEWEST})

Progress = Callable[[int], None]


class Copied(NamedTuple):
    """The content of a copy. `damaged`: what could not be read from the original."""

    first: int
    last: int  # below `first` if there are no messages
    segments: int
    bytes: int
    damaged: list[Lost]


class _Deleted(Exception):
    """Retention has deleted the next segment to copy, and so all before it."""


def copy_store(path: str, target: str, progress: Progress = lambda done: None) -> Copied:
    """Copy the store to a directory that is new, or empty. `progress` gets bytes copied.

    Copies everything that was there when it began, and often more. StoreError if there is no
    store, or it is not whole at its end; OSError if it cannot be read or written.
    """
    view = StoreView(path)
    _check_target(os.path.realpath(path), target)
    beside = os.path.normpath(target) + UNFINISHED
    try:
        os.mkdir(beside, FOLDER_MODE)
    except FileExistsError:
        what = "is of a copy that was cut off, or is still being made; remove it if it is not"
        raise FileExistsError(errno.EEXIST, what, beside) from None
    try:
        copied = _Copying(view, beside, progress).run()
        _give(beside, os.stat(path))
        sync_folder(beside)
        os.rename(beside, target)
        sync_folder(os.path.dirname(os.path.abspath(target)))
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    return copied


def _check_target(path: str, target: str) -> None:
    """Raise OSError if a copy cannot be made there."""
    if os.path.exists(target) and (not os.path.isdir(target) or os.listdir(target)):
        raise FileExistsError(errno.EEXIST, "is not empty; give a new directory", target)
    if os.path.commonpath((path, os.path.realpath(target))) == path:
        what = "is in the directory of the journal; give one elsewhere"
        raise OSError(errno.EINVAL, what, target)


class _Copying:
    """A copy in progress."""

    def __init__(self, view: StoreView, target: str, progress: Progress) -> None:
        self._view = view
        self._target = target
        self._progress = progress
        self._done = 0  # bytes
        self._made: list[int] = []  # first numbers of segments
        self._damaged: list[Lost] = []

    def run(self) -> Copied:
        promised = self._newest()
        for _ in range(ATTEMPTS):
            try:
                last = self._copy_all()
                break
            except _Deleted:
                self._forget()
        else:
            raise StoreError(
                f"{self._view.path}: retention deletes messages faster than they are copied"
            )
        if last < promised:
            raise StoreError(
                f"{self._view.path}: numbers {last + 1} to {promised} are missing; see"
                " `seriatim journal verify`"
            )
        self._view.check()
        identity = read_identity(self._view.path)
        if identity is None:
            raise StoreError(
                f"{self._view.path}: store.json is missing or damaged; see"
                " `seriatim journal verify`"
            )
        write_identity(self._target, identity._replace(window=0, pending=None))
        _give(os.path.join(self._target, FILE), os.stat(os.path.join(self._view.path, FILE)))
        return Copied(self._made[0], last, len(self._made), self._done, self._damaged)

    def _newest(self) -> int:
        """Return the newest number according to the window; 0 if unknown, or not to be trusted."""
        try:
            window = WindowView(self._view.path, self._view.salt)
        except FileNotFoundError:
            return 0
        try:
            head = window.head
            if head is None or head.journal != self._view.journal or not window.is_of_this_boot:
                return 0
            return head.said
        finally:
            window.close()

    def _copy_all(self) -> int:
        """Copy all segments and all other files; return the last number."""
        first = self._view.at(0, True)
        if first == 0:
            raise StoreError(f"{self._view.path}: there are no messages, and no segments")
        while following := self._view.after(first, True):
            summary = self._view.summary(first)
            if summary is not None and not summary.damages:
                self._copy_segment(first)
            else:
                self._copy_records(first, following - 1)
            first = following
        self._copy_rest()
        # Only up to the newest number: copying those published from now on would never end.
        return self._copy_records(first, self._newest())

    def _forget(self) -> None:
        """Remove the copied segments: the original does not have them any more either."""
        for name in os.listdir(self._target):
            if any(number_of(name, kind) for kind in (SEGMENT, INDEX, SUBJECTS)):
                remove(os.path.join(self._target, name))
        self._made.clear()
        self._damaged.clear()
        self._done = 0

    # Files

    def _copy_segment(self, first: int) -> None:
        """Copy the file of a sealed segment, and its indexes."""
        name = stem(first)
        try:
            self._copy_file(name + SEGMENT)
        except FileNotFoundError:
            raise _Deleted from None
        self._made.append(first)
        for kind in (INDEX, SUBJECTS):
            with suppress(FileNotFoundError):  # the broker makes it again
                self._copy_file(name + kind)

    def _copy_rest(self) -> None:
        """Copy files that are neither segments nor made for the writing process: ids, staging."""
        for name in sorted(os.listdir(self._view.path)):
            is_of_segment = any(number_of(name, kind) for kind in (SEGMENT, INDEX, SUBJECTS))
            if is_of_segment or name in NOT_COPIED or name.endswith(".tmp"):
                continue
            if os.path.isdir(os.path.join(self._view.path, name)):
                self._copy_folder(name)
            else:
                with suppress(FileNotFoundError):  # the broker has just removed it
                    self._copy_file(name)

    def _copy_folder(self, name: str) -> None:
        source, target = self._places(name)
        os.makedirs(target, FOLDER_MODE, exist_ok=True)
        for inner in sorted(os.listdir(source)):
            inside = os.path.join(name, inner)
            if os.path.isdir(os.path.join(source, inner)):
                self._copy_folder(inside)
            elif not inner.endswith(".tmp"):
                with suppress(FileNotFoundError):
                    self._copy_file(inside)
        _give(target, os.stat(source))
        sync_folder(target)

    def _copy_file(self, name: str) -> None:
        source, target = self._places(name)
        with open(source, "rb") as original:  # it may be deleted from now on
            with open(target, "wb") as made:
                shutil.copyfileobj(original, made, COPY_BYTES)
            _give(target, os.fstat(original.fileno()))
        sync_file(target)
        self._add(os.stat(target).st_size)

    def _places(self, name: str) -> tuple[str, str]:
        return os.path.join(self._view.path, name), os.path.join(self._target, name)

    def _add(self, size: int) -> None:
        self._done += size
        self._progress(self._done)

    # Records

    def _copy_records(self, first: int, last: int) -> int:
        """Copy a segment up to number `last`, wherever its records are; return the last number.

        `last` 0: to the end of the store.
        """
        source, target = self._places(stem(first) + SEGMENT)
        try:
            original = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise _Deleted from None
        tail = JournalTail(self._view, True)
        fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
        try:
            pwrite_all(fd, os.pread(original, START, 0).ljust(START, b"\0"), 0)
            number = self._pour(tail, first, last or NUMBER_MAX, fd)
            _give(target, os.fstat(original))
            os.fsync(fd)
        finally:
            os.close(fd)
            os.close(original)
            tail.close()
        self._made.append(first)
        return number - 1

    def _pour(self, tail: JournalTail, number: int, last: int, fd: int) -> int:
        """Write records from a number on into a segment; return the number after the last one."""
        walk = Walk(self._view.salt)
        at, is_bad = START, False
        while number <= last:
            found = tail.more(number, is_bad)
            is_bad = False
            if isinstance(found, Lost):
                at = self._leave_out(found, fd, at)
                number = found.last + 1
                continue
            if not found:
                break
            begin = stop = -1
            walk.attach(tail.buffer, tail.at, tail.stop)
            while number <= last and (state := walk.next()) == RECORD:
                if walk.number < number:
                    continue
                if walk.number > number:
                    self._damaged.append(tail.gap(number, walk.number, walk.at))
                begin = walk.at if begin < 0 else begin
                stop, number = walk.after, walk.number + 1
            is_bad = number <= last and state == BAD
            tail.at = walk.after
            if begin >= 0:
                with memoryview(tail.buffer) as buffer:
                    pwrite_all(fd, buffer[begin:stop], at)
                at += stop - begin
                self._add(stop - begin)
        return number

    def _leave_out(self, lost: Lost, fd: int, at: int) -> int:
        """Copy damaged bytes as they are: if they can be read later, then also in the copy."""
        damage = lost.damage
        if damage is None:
            raise _Deleted
        self._damaged.append(lost)
        source = self._places(stem(damage.segment) + SEGMENT)[0]
        data = self._read(source, damage.offset, damage.end - damage.offset)
        pwrite_all(fd, data, at)
        self._add(len(data))
        return at + len(data)

    def _read(self, source: str, offset: int, size: int) -> bytes:
        try:
            with open(source, "rb") as file:
                return os.pread(file.fileno(), size, offset)
        except FileNotFoundError:
            raise _Deleted from None


def _give(made: str, original: os.stat_result) -> None:
    """Give a made file the mode and owner of the original, so the broker can start on the copy."""
    os.chmod(made, original.st_mode & 0o7777)
    if os.geteuid() == 0:
        os.chown(made, original.st_uid, original.st_gid)
