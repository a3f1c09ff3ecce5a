"""One file of the journal: a `SegmentView` (sequencer/journal/protocols.py) on disk.

A reader copies bytes of a `SegmentView` into its own buffer and walks them there. The first `hold`
opens a descriptor for readers, and the last `release` closes it. The writer has another one; the
keeper closes it once the segment is sealed and synced.

The places of a segment's bytes (the newest ones are in the journal window, see window.py):

    0 ... kept ... synced ... size
    `-- in the file --'
            `-- in the window --'
"""

import contextlib
import errno
import os
from bisect import bisect_right
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from sequencer.journal.disk import (
    FILE_MODE,
    UNSUPPORTED,
    fallocate,
    is_at,
    pwrite_all,
    remove,
    shorten_file,
    sync_file,
)
from sequencer.journal.errors import Damage
from sequencer.journal.header import INDEX, SEGMENT, START, SUBJECTS, Head, encode_head, stem
from sequencer.journal.index import Fence, Marks, Summary, read_index, write_index
from sequencer.journal.protocols import SegmentView
from sequencer.journal.window_guard import WindowGuard

if TYPE_CHECKING:
    from sequencer.journal.survey import Survey

RESERVE_STEP: Final = 16 << 20
PAGE: Final = 4096
TEMPORARY: Final = ".tmp"


class CutPoint(NamedTuple):
    """The position where a segment is to end, and what it contains up to there."""

    number: int  # of the last record before it
    offset: int
    oldest: int  # the time of the first record
    newest: int  # and of the last one
    marks: Marks
    damage: list[Damage] | None  # found in the segment; None: nothing new


class Segment:
    """A file of records, named by the number of the first.

    The writer's thread writes `last`, `size`, `oldest`, `newest`, `reserved`, `following`,
    `sealed`, `kept`, `slabs`, `begun`, `received`, `seen` and `holders`. The keeper's writes
    `synced`, `named`, `indexed`, `gone`, and `fd` once `sealed`.
    """

    __slots__ = (
        *("before", "begun", "epoch", "fd", "fence", "first", "following", "gone", "guard"),
        *("has_ids", "holders", "indexed", "kept", "last", "marks", "memory", "named", "newest"),
        *("oldest", "path", "reading", "received", "reserved", "sealed", "seen", "size", "slabs"),
        *("start", "synced", "unreadable"),
    )

    nowait = True  # False once a filesystem refused RWF_NOWAIT; then every read may wait

    def __init__(self, path: str, first: int) -> None:
        self.path = path  # without the suffix
        self.first = first
        self.last = first - 1
        self.size = self.start = START
        self.epoch = self.before = 0  # as its head says (header.py)
        self.oldest = self.newest = 0  # times of records: their clock may have been wrong
        # Times of receipt of the first and newest record, to half a second. `seen`: the last noted.
        self.begun = self.received = 0
        self.seen = first - 1
        self.following: Segment | None = None
        self.gone = False
        self.sealed = False
        self.indexed = False  # its index is on the disk and, as far as is known, good
        self.unreadable = False  # the disk failed when it was read through for its index
        self.marks: Marks | None = Marks()  # None: read them from the index
        self.fence: Fence | None = None  # of the index, once something was looked up in it
        self.has_ids = True  # False: its index says that no record has a Nats-Msg-Id
        self.holders = 0
        self.fd = self.reading = -1  # of the writer; of its readers
        self.reserved = 0  # bytes, from the start of the file, that can surely be written
        self.synced = 0  # bytes, from the start of the file, that are on the disk
        self.named = True  # False: its file has another name until what is before it is synced
        self.kept = 1 << 63  # from here on its bytes are in the window, too
        self.slabs: tuple[tuple[int, int], ...] = ()  # in the window: offset, position - offset
        self.memory = memoryview(b"")  # of the window
        self.guard: WindowGuard | None = None  # of that memory

    @classmethod
    def found(cls, folder: str, first: int, following: "Segment | None") -> "Segment":
        """Describe a file of the folder by its size, and by the segment that follows it."""
        segment = cls(os.path.join(folder, stem(first)), first)
        segment.size = max(START, os.stat(segment.file).st_size)
        if following is not None:
            segment.seal(following)
            segment.last = following.first - 1
            segment.marks = None
        return segment

    @classmethod
    def create(cls, folder: str, head: Head, need: int = 0, size_max: int = 0) -> "Segment":
        """Make a new empty file with room for `need` bytes; its name appears when it is complete.

        On OSError nothing is left of it. The content is synced, the name is not.
        """
        made = cls.prepare(folder, head, need, size_max)
        try:
            made.appear()
        except BaseException:
            made.abandon()
            raise
        return made

    @classmethod
    def prepare(cls, folder: str, head: Head, need: int = 0, size_max: int = 0) -> "Segment":
        """Like `create`, but nothing is synced, and it has its name only after `appear`."""
        made = cls(os.path.join(folder, stem(head.first)), head.first)
        made.take_head(head)
        made.named = False
        beside = made.file + TEMPORARY
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        made.fd = os.open(beside, flags, FILE_MODE)
        try:
            pwrite_all(made.fd, encode_head(head), 0)
            made.reserve(need, size_max)
        except BaseException:
            made.abandon()
            raise
        return made

    def take_head(self, head: Head) -> None:
        """Note the epochs that its head says."""
        self.epoch, self.before = head.epoch, head.before

    def take_summary(self, summary: Summary) -> None:
        """Note what its index says; an index is written only once all of the file is synced."""
        self.indexed = True
        self.synced = self.size
        self.last = summary.last
        self.oldest, self.newest = summary.first_time, summary.last_time
        self.has_ids = summary.ids

    def take_survey(self, survey: "Survey") -> None:
        """Note what was found when it was read through."""
        self.marks = survey.marks
        self.last = survey.last
        self.oldest, self.newest = survey.first_time, survey.last_time

    def appear(self) -> None:
        """Sync a prepared segment, and give it its name; a file of this name is replaced."""
        if self.synced < START:
            os.fdatasync(self.fd)
            self.synced = START
        if not self.named:
            os.rename(self.file + TEMPORARY, self.file)
            self.named = True

    def abandon(self) -> None:
        """Remove a prepared segment, unless it has its name: then it is a part of the store."""
        self.close()
        remove(self.file + TEMPORARY)

    @property
    def file(self) -> str:
        return self.path + SEGMENT

    @property
    def index_file(self) -> str:
        return self.path + INDEX

    @property
    def is_unindexed(self) -> bool:
        """True if the index must still be written."""
        return not (self.indexed or self.unreadable or self.gone)

    def __str__(self) -> str:
        return self.file

    def name_now(self) -> str:
        """The path of the file at this moment."""
        return self.file if self.named else self.file + TEMPORARY

    def is_in_place(self) -> bool:
        """True if the path still leads to the file that is written. Only before it is sealed.

        The keeper may rename the file between the two checks.
        """
        return is_at(self.name_now(), self.fd) or is_at(self.file, self.fd)

    @property
    def in_file(self) -> int:
        """The offset up to which its bytes are in the file; what follows is in the window."""
        return max(self.synced, START) if self.kept < self.size else self.size

    @property
    def readable(self) -> int:
        """The offset up to which it can be read: what was only in a lost window cannot."""
        return self.synced if self._has_lost_window else self.size

    def read(self, offset: int, into: memoryview, wait: bool) -> int:
        """Copy the bytes at `offset`, as `SegmentView` says. For any thread, while it is held."""
        want = min(len(into), self.size - offset)
        got = 0
        while got < want:
            at = offset + got
            if at >= self.kept and (at >= self.synced or not self._has_lost_window):
                count = self._copy(at, into[got:want])
                if at < self.kept:  # it was overwritten meanwhile: the file has it
                    continue
                if self._has_lost_window:
                    if at < self.synced:
                        continue
                    if got:
                        break
                    self.check_window()
            elif got and not wait:
                break  # the caller gets what was in memory
            else:
                count = self._read_file(at, into[got : min(want, self.in_file - offset)], wait)
            got += count
        return max(got, 0)

    def hold(self) -> None:
        """Keep it readable even if retention deletes it: an open file stays until closed."""
        self.holders += 1
        if self.reading < 0:
            with contextlib.suppress(OSError):  # `read` will fail, and then it matters
                self.reading = self._open_to_read()

    def release(self) -> None:
        """Release a hold; the last release closes the file."""
        assert self.holders, "every release has its hold"
        self.holders -= 1
        if self.holders == 0:
            self._close_reading()

    def reserve(self, need: int, size_max: int) -> None:
        """Reserve room for `need` more bytes and, if possible, for a step ahead within `size_max`.

        OSError if there is no room; then nothing has changed.
        """
        least = self.size + need
        if least <= max(self.reserved, self.size):
            return
        wanted = max(least, min(self.size + max(need, RESERVE_STEP), size_max))
        at = max(self.reserved, self.size)
        try:
            fallocate(self.fd, at, _whole_pages(wanted) - at)
        except OSError as error:
            if wanted == least or error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            wanted = least  # the disk is nearly full: reserve only what is needed now
            fallocate(self.fd, at, _whole_pages(wanted) - at)
        self.reserved = wanted

    def trim(self) -> None:
        """Cut off what is after its records: room that was reserved, or zeros."""
        os.ftruncate(self.fd, self.size)
        self.reserved = self.size

    def seal(self, following: "Segment") -> None:
        """Let another segment follow it: nothing more is written here."""
        self.following, self.sealed = following, True

    def sync(self) -> None:
        """Sync all of the file, at the start: later the keeper moves and syncs what is written."""
        if self.fd >= 0:
            os.fsync(self.fd)
        else:
            sync_file(self.file)
        self.synced = self.size

    def rewrite_head(self, head: Head) -> None:
        """Give it another head, synced before any record of the epoch; -1 if that fails."""
        self.epoch, self.before = -1, head.before
        pwrite_all(self.fd, encode_head(head), 0)
        os.fdatasync(self.fd)
        self.epoch = head.epoch

    def shorten(self, point: CutPoint) -> None:
        """Cut off what is after this point, and sync it. The indexes go first: they claim more."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.index_file)
        remove(self.path + SUBJECTS)
        shorten_file(self.file, point.offset)
        self.size = self.synced = point.offset
        self.marks, self.indexed = point.marks, False
        self.last, self.oldest, self.newest = point.number, point.oldest, point.newest

    def leave_store(self) -> None:
        """Be gone, and empty: a reader that holds it finds nothing more in it."""
        self.gone = True
        self.size, self.last = START, self.first - 1
        self.close_writer()

    def bound_times(self, later: int) -> None:
        """Bound its times, if they are not known, by the oldest one of what follows."""
        self.newest = self.newest or later or self.oldest
        if not self.oldest or self.oldest > self.newest:
            self.oldest = self.newest

    # In the window

    def add_slab(self, base: int, memory: memoryview, guard: WindowGuard) -> None:
        """Note that the next bytes are in the window, at their offset plus `base`."""
        if not self.slabs:
            self.kept = self.size
        self.memory, self.guard = memory, guard
        self.slabs = (*self.slabs, (self.size, base))

    def drop_slab(self, start: int, end: int) -> None:
        """Forget the window's bytes from `start` to `end`, soon overwritten; the file has them.

        It may also have bytes after them that were too long for a slab.
        """
        left = tuple(slab for slab in self.slabs if slab[0] > start)
        if len(left) < len(self.slabs):
            self.kept = max(self.kept, end)  # first: a reader that is there looks again
            self.slabs = left

    def leave_window(self) -> None:
        """Give up the window; the file has everything."""
        self.kept = 1 << 63  # first: a reader that is there finds nothing, and looks again
        self.slabs = ()
        self.memory, self.guard = memoryview(b""), None

    @property
    def _has_lost_window(self) -> bool:
        """True if the window has lost content: what is synced must be read from the file."""
        return self.guard is not None and self.guard.is_lost

    def check_window(self) -> None:
        """Raise OSError if the window has lost content, which may be of this segment."""
        if self.guard is not None:
            self.guard.check_content()

    def in_window(self, offset: int, stop: int) -> memoryview:
        """Return the bytes from `offset` to `stop`, or to the end of the slab, without a copy.

        In a thread other than the writer's, empty if the slab has just been used again.
        """
        slabs = self.slabs
        index = bisect_right(slabs, offset, key=lambda slab: slab[0])
        if index == 0:
            return self.memory[:0]
        _, base = slabs[index - 1]
        if index < len(slabs):
            stop = min(stop, slabs[index][0])
        return self.memory[base + offset : base + stop]

    def note(
        self,
        first: int,
        time: int,
        last_time: int,
        ids: bool,
        inner: Iterable[tuple[int, int]] = (),
    ) -> None:
        """Mark what is about to be written: from number `first` on, at these times.

        `ids`: a record has a Nats-Msg-Id. `inner`: records in the middle that may have marks,
        by their numbers and places.
        """
        at, marks = self.size, self.marks
        assert marks is not None, "the newest segment has its marks in memory"
        if at >= marks.next:
            marks.add(first, time, at)
            if at == START:
                self.oldest = time
        if ids:
            marks.note_ids()
        if inner:
            marks.add_inner(inner, time, at, ids)  # which of them have ids is not known
        self.newest = last_time

    def see(self, now: int) -> bool:
        """Note when its newest message was received; False if it was noted before."""
        if self.last == self.seen:
            return False
        self.seen = self.last
        self.received = now
        self.begun = self.begun or now
        return True

    def opened(self, now: int) -> None:
        """Estimate times of receipt for older records. A time in the future does not count."""
        self.seen = self.last
        latest = now
        if self.newest > now:
            with contextlib.suppress(OSError):
                latest = min(os.stat(self.name_now()).st_mtime_ns, now)
        self.begun = min(self.oldest, latest)
        self.received = min(self.newest, latest)

    def own_marks(self) -> Marks | None:
        """The marks, from memory or from the index; None if there is no good index."""
        marks = self.marks  # once: the keeper's thread gives them up
        if marks is not None:
            return marks
        if not self.indexed:
            return None
        read = read_index(self.index_file)
        if read is None or read[0].size != self.size or read[0].first != self.first:
            self.indexed = False
            return None
        return read[1]

    def before_number(self, number: int) -> int:
        """The offset of a record at or before this number's; the start if none is known."""
        marks, fence, found = self.marks, self.fence, None
        if marks is not None:
            return marks.before_number(number)
        if fence is None and (marks := self.own_marks()) is not None:
            fence = self.fence = Fence(marks)
        if fence is not None:
            try:
                found = fence.before_number(self.index_file, number)
            except OSError:
                found = None
            if found is None:
                self.fence, self.indexed = None, False
        return START if found is None else found

    def write_index(self, journal: str, damages: list[Damage]) -> None:
        """Write its index from the marks in memory; `damages` are those of the whole store.

        All of the segment must be on the disk, because that is what an index claims after a crash.
        """
        marks = self.marks
        assert marks is not None, "it was read through, or written by this process"
        assert self.synced >= self.size, "an index covers only what is on the disk"
        numbers = (self.first, self.last)
        summary = Summary(journal, *numbers, self.oldest, self.newest, self.size)
        own = [damage for damage in damages if damage.segment == self.first]
        write_index(self.index_file, summary, marks, own)
        if self.sealed:
            self.has_ids = marks.any_ids
            self.indexed = True
            self.marks = self.fence = None

    def close(self) -> None:
        """Close its files, even if readers hold it."""
        self._close_reading()
        self.close_writer()

    def close_writer(self) -> None:
        """Close the writer's descriptor; readers have their own."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def _copy(self, offset: int, into: memoryview) -> int:
        """Copy the bytes that are in the window, up to the end of a slab."""
        with self.in_window(offset, offset + len(into)) as records:
            into[: len(records)] = records
            return len(records)

    def _read_file(self, offset: int, into: memoryview, wait: bool) -> int:
        if self.reading >= 0:
            got = read_at(self.reading, offset, into, wait)
        else:
            fd = self._open_to_read()
            try:
                got = read_at(fd, offset, into, wait)
            finally:
                os.close(fd)
        if got == 0:
            raise OSError(errno.EIO, f"the file ends before byte {self.size}", self.file)
        return got

    def _open_to_read(self) -> int:
        flags = os.O_RDONLY | os.O_CLOEXEC
        try:
            return os.open(self.name_now(), flags)
        except FileNotFoundError:
            return os.open(self.file, flags)  # it has just got its name

    def _close_reading(self) -> None:
        if self.reading >= 0:
            os.close(self.reading)
            self.reading = -1


def read_piece(segment: SegmentView, offset: int, size: int) -> bytearray:
    """Return up to `size` bytes from an offset on, also from the disk; fewer at the end.

    For any thread, while the segment is held. Raises OSError.
    """
    piece = bytearray(max(min(size, segment.size - offset), 0))  # 0: it has just left the store
    with memoryview(piece) as view:
        got = segment.read(offset, view, True)
    del piece[got:]  # a window that is lost had the rest
    return piece


def read_at(fd: int, offset: int, into: memoryview, wait: bool) -> int:
    """Read from a file of the journal; without `wait`, BlockingIOError if the disk must be read.

    The system begins to read it then.
    """
    if not wait and Segment.nowait:
        try:
            return os.preadv(fd, [into], offset, os.RWF_NOWAIT)
        except OSError as error:
            if error.errno not in UNSUPPORTED:
                raise
            Segment.nowait = False
    return os.preadv(fd, [into], offset)


def _whole_pages(size: int) -> int:
    """Round a size up to whole pages, as it is written on the disk (mover.py)."""
    return -(-size // PAGE) * PAGE
