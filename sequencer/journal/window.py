"""The journal window, as its writer uses it: it holds records before a segment has them.

A new page of the system's page cache costs ten times what the copy into it does. So the newest
records live in a file of a fixed size, whose pages are used again and again (window_file.py). As
with any file, the written bytes outlive the process. The keeper's thread moves them to the
segments (mover.py), past the page cache. Where the system allows it (mlock2(2)), the window keeps
its pages in memory; else each slab asks for its pages again before it is used again.

    slab    untouched --> written to --> full --> moved and synced --> written to again
                                                `-- can be read from here until then

A slab has records of one segment. A record begins at the same place of a page here as on the disk,
so that whole pages can be moved without a copy. The oldest slab is used again first. An untouched
one is used only if none can be used again, so a window takes no more memory than the disk's speed
makes necessary.
"""

# Theory of operation: what may be lost, and when
#
# A record is copied into the window once. A sync moves it to the segment (mover.py). It stays in
# the window as well until its slab is needed again. Three offsets of a segment say where it is:
#
#     0 ............... kept ............... synced ............... size
#     | only in the file | in file and window  | only in the window  |
#
#     window   [ slab 2: full, synced ] [ slab 3: full ] [ slab 0: active      |        ]
#                ^ used again next                                              ^ position
#
#     what happens                what is left                       what is lost
#     -------------------------   --------------------------------   ----------------------------
#     the process is killed       all pages of the window: they      nothing that was committed
#                                 are the system's, as a file's
#     the machine loses power     each page as it was at some time   at most what was committed
#                                 since it was made, or not at all   after the last sync
#     a sync fails                the window; the next sync moves    nothing, if a later one
#                                 the same bytes once more           succeeds
#     a page cannot be had, or    `check` raises before the bytes    nothing that was counted;
#     the file was cut short      are counted (window_guard.py)      publishers are refused
#     the disk is too slow        every slab waits for its sync      nothing: the writer waits
#
# After a power cut the window is worth nothing as a whole: its pages are of different ages, and a
# page may even hold an older record with a good checksum. The head says in which run of the machine
# it was written (`boot`), so the next start knows. It then takes only records that follow the
# segments without a gap, and expects none.
#
# Two orders of writing make this safe without a lock, since readers in other processes look at the
# head only (window_tail.py):
#
#     a record    its bytes, then the number in the head (`note_last`)
#     a slab      entry = 0, then position and segment, then the first number: only that makes it
#                 valid again. A reader looks at the entry before and after its read, and discards
#                 what it has if the number is not the same.
#
# A slab is used again when its segment has all of it on the disk; and, while there are untouched
# slabs, only once KEPT are full: readers that are a little late find their records in memory. If
# none is free, the writer asks the keeper to hurry, and waits in `Store._go_on_in_window`.

import ctypes
import errno
import mmap
import os
from collections import deque
from contextlib import suppress
from typing import Final

from sequencer.journal.disk import file_system_of, pwrite_file
from sequencer.journal.identity import Identity, write_identity
from sequencer.journal.segment import Segment
from sequencer.journal.waker import Waker
from sequencer.journal.window_file import (
    ENTRY,
    FILE,
    LAST,
    NEWEST,
    NO_ROOM,
    PAGE,
    SLABS,
    create,
    create_newest,
    remove_window,
    seed_of,
)
from sequencer.journal.window_guard import NO_PAGE, WindowGuard

POPULATE_WRITE: Final = 23  # MADV_POPULATE_WRITE, Linux 5.14
LOCK_ON_FAULT: Final = 1  # MLOCK_ONFAULT, Linux 4.4
STEP: Final = 1 << 20  # bytes that are made ready at once
KEPT: Final = 4  # full slabs that are not used again while there are untouched ones

_libc = ctypes.CDLL(None, use_errno=True)


class Slab:
    """A part of the window. `base` is its position minus the offset in the segment."""

    __slots__ = ("at", "base", "end", "ready", "segment", "size", "start")

    def __init__(self, at: int, size: int) -> None:
        self.at = at  # position in the window
        self.size = size
        self.ready = at  # the pages before it are in memory, and can be written to
        self.segment: Segment | None = None
        self.start = self.end = 0  # offsets in the segment; `end` once it is full
        self.base = 0


class JournalWindow:
    """The window of an open store. The writer's thread calls all methods but `prepare`.

    It has no file before `make`, which comes later on a full disk.
    """

    def __init__(self, path: str, size: int) -> None:
        self.path = path
        self.size = size  # as it should be
        self.slab_bytes = PAGE
        self.is_there = False
        self._untouched: deque[Slab] = deque()
        self._full: deque[Slab] = deque()  # in the order in which they were filled
        self._active: Slab | None = None
        self.position = self.limit = 0  # where the next record goes; the end of its slab

    def make(self, journal: str, last: int) -> None:
        """Make the files, in place of older ones. OSError if there is no room."""
        newest = os.path.join(self.path, NEWEST)
        fd = create_newest(self.path, journal, last)
        self._beside = _map(newest, fd, PAGE)
        beside = _address_of(self._beside)
        self._beside_guard = WindowGuard(newest, fd, beside, PAGE, False)
        fd, head = create(self.path, journal, self.size, last)
        self.slab_bytes = head.slab_bytes
        total = PAGE + head.slabs * head.slab_bytes
        file = os.path.join(self.path, FILE)
        self.map = _map(file, fd, total)
        self._address = _address_of(self.map)
        self._locked = self._lock(total)
        self.guard = WindowGuard(file, fd, self._address, total, self._locked)
        self.view = memoryview(self.map)
        self._words = self.view[:PAGE].cast("Q")
        self._waker = Waker(self._address + 8 * LAST, beside + 8 * LAST, seed_of(journal))
        slabs = [Slab(PAGE + at * self.slab_bytes, self.slab_bytes) for at in range(head.slabs)]
        self._untouched.extend(slabs)
        self.is_there = True

    def check(self) -> None:
        """Raise OSError if something that was put here would not outlive the process."""
        if self.is_there:
            self.guard.check()
            self._beside_guard.check()

    def check_size(self) -> None:
        """Raise OSError if a file was cut short."""
        if self.is_there:
            self.guard.check_size()
            self._beside_guard.check_size()

    @property
    def capacity(self) -> int:
        """The size of the longest batch that a slab takes."""
        return self.slab_bytes - PAGE

    def space(self, segment: Segment) -> int:
        """The bytes that the slab of this segment has left."""
        active = self._active
        if active is None or active.segment is not segment:
            return 0
        return self.limit - self.position

    def room(self, segment: Segment) -> int:
        """Like `space`, but only the bytes whose pages are ready to be written."""
        active = self._active
        if active is None or active.segment is not segment:
            return 0
        return min(self.limit, active.ready) - self.position

    def switch_slab(self, segment: Segment, number: int) -> bool:
        """Switch to another slab, which begins with this number; False if none is free yet."""
        slab = self._next_slab()
        if slab is None:
            return False
        self.finish()
        self._words[SLABS + ENTRY * self._index_of(slab)] = 0  # first: readers must not trust it
        previous = slab.segment
        if previous is not None:
            previous.drop_slab(slab.start, slab.end)
        slab.segment, slab.start = segment, segment.size
        if previous is not None and not self._locked:
            slab.ready = slab.at  # some pages may have been evicted since
        # At the same place of a page as in the segment, so that the mover can write whole pages
        # from here. This wastes up to a page of the slab: `capacity` allows for it.
        slab.base = slab.at + segment.size % PAGE - segment.size
        self.position = slab.base + segment.size
        self.limit = slab.at + slab.size
        self._active = slab
        segment.add_slab(slab.base, self.view, self.guard)
        at = SLABS + ENTRY * self._index_of(slab)
        self._words[at + 1] = self.position
        self._words[at + 2] = segment.first
        self._words[at + 3] = segment.size
        self._words[at] = number  # last: now it counts
        return True

    def finish(self) -> None:
        """Close the active slab: it gets no more records."""
        active = self._active
        if active is not None:
            assert active.segment is not None, "it was begun for one"
            active.end = active.segment.size
            self._full.append(active)
            self._active = None
            self.position = self.limit = 0

    def ready(self, need: int) -> None:
        """Bring the pages of the next `need` bytes into memory. OSError if the disk fails.

        So the disk usually fails here, and not in the middle of a write (window_guard.py).
        """
        active = self._active
        assert active is not None, "there is room"
        end = self.position + need
        while active.ready < end:
            if not self._populate(active):  # a write brings pages in; no other thread writes here
                size = min(STEP, active.at + active.size - active.ready)
                pwrite_file(os.path.join(self.path, FILE), bytes(size), active.ready)
                active.ready += size

    def prepare(self, most: int) -> None:
        """Get pages ready for the next `most` bytes. For the keeper, ahead of the writer."""
        ahead = [self._active] if self._active is not None else []
        with suppress(OSError, IndexError):  # the writer meets it, too
            if len(self._full) < KEPT:
                ahead.append(self._untouched[0])
            for slab in ahead:
                end = slab.at + slab.size
                most -= slab.ready - self.position if slab is self._active else 0
                while slab.ready < end and most > 0:
                    if not self._populate(slab):
                        return
                    most -= STEP

    def note_last(self, number: int) -> None:
        """Tell readers, and the next start, that all up to this number is here or on the disk."""
        if self.is_there:
            self._waker.announce(number)

    def close(self, remove: bool) -> None:
        """Release the window; `remove` the file if the segments have all of it."""
        if remove:
            remove_window(self.path)

    def _next_slab(self) -> Slab | None:
        full = self._full
        if full and (len(full) >= KEPT or not self._untouched):
            oldest = full[0]
            assert oldest.segment is not None, "it is full"
            if oldest.segment.gone or oldest.segment.synced >= oldest.end:
                return full.popleft()
        if self._untouched:
            return self._untouched.popleft()
        return None

    def _lock(self, size: int) -> bool:
        """Ask the system to keep every page in memory once it is there; False if it refuses."""
        lock = getattr(_libc, "mlock2", None)
        if lock is None:
            return False
        address = ctypes.c_void_p(self._address)
        refused: int = lock(address, ctypes.c_size_t(size), LOCK_ON_FAULT)
        return not refused

    def _index_of(self, slab: Slab) -> int:
        return (slab.at - PAGE) // self.slab_bytes

    def _populate(self, slab: Slab) -> bool:
        """Ask the system for pages that can be written to; False if it does not know this call."""
        at = slab.ready
        size = min(STEP, slab.at + slab.size - at)
        address = ctypes.c_void_p(self._address + at)
        while _libc.madvise(address, ctypes.c_size_t(size), POPULATE_WRITE):
            code = ctypes.get_errno()
            if code == errno.EINVAL:  # an older Linux
                return False
            if code == errno.EFAULT:  # it does not say why
                raise OSError(errno.EIO, NO_PAGE, os.path.join(self.path, FILE))
            if code not in (errno.EINTR, errno.EAGAIN):
                raise OSError(code, os.strerror(code), os.path.join(self.path, FILE))
        slab.ready = at + size
        return True


def _map(file: str, fd: int, size: int) -> mmap.mmap:
    """Map a file. OSError, and the descriptor is closed, if its file system has no mappings."""
    try:
        return mmap.mmap(fd, size)
    except OSError as error:
        os.close(fd)
        kind = file_system_of(file)
        text = f"the file system ({kind}) cannot map it into memory: {error.strerror}"
        raise OSError(error.errno, text, file) from None


def _address_of(map: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(map))


def make_window(window: JournalWindow, identity: Identity, last: int) -> Identity:
    """Make a store's window, if it is not there; return the identity for store.json.

    The segments must have all of an older window: on a full disk, that is removed first. OSError
    if there is still no room. Then store.json says that there is no window.
    """
    try:
        if not window.is_there:
            window.make(identity.journal, last)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        write_identity(window.path, identity._replace(window=0))
        remove_window(window.path)
        window.make(identity.journal, last)
    return identity._replace(window=len(window.map))
