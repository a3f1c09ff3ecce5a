"""Moves records from the journal window to their segment, past the system's page cache.

A write with O_DIRECT takes whole pages, at offsets that are multiples of a page on the disk and in
memory. The pages in the middle are written from where they are. The first and the last one are put
together in pages of the mover's own: the first begins with what an earlier move has written there
already, and the last is filled up with zeros, which the next move writes over.

Nothing counts as moved before it is synced. So after an error the same move is made again.
"""

# Theory of operation
#
# Records end anywhere; O_DIRECT writes pages. So a move has three parts, written by one pwritev:
#
#     in the segment     | page             | page     | page     | page             |
#     content            | tail |  records ...                          ... | zeros  |
#                               ^ at = segment.synced                       ^ at + len(records)
#     written from       | own page         | the window itself   | own page         |
#
# `tail` is what earlier moves have written of the first page. It is read once, when the mover comes
# to this segment, and then kept in memory. The last page is filled up with zeros only before a
# sync. Between two slabs the rest is carried over as the next tail, and its page is written once.
#
# Writing the first page again is safe, even if the power fails in the middle: up to `synced`, the
# new content is the same as the old. A disk that writes half of the page changes none of it.
#
# `synced` and `_tail` move on after fdatasync, and only then. Until then a slab cannot be used
# again, so whatever fails, the same bytes can be taken from the window once more. `fdatasync` is
# not trusted after a failure: the system may have marked the pages clean, and report success the
# second time. That is why the move is repeated, and not only the sync.
#
# A page of the window may have been lost meanwhile (window_guard.py puts an empty one in its
# place). Its zeros can be written to the segment here without any error. So the window is checked
# after the writes, before anything counts as moved.

import errno
import mmap
import os
from typing import Final

from sequencer.journal.segment import PAGE, Segment

SYNC_BYTES: Final = 16 << 20  # bytes moved before a sync; after it, their slabs can be used again
CROWDED_BYTES: Final = 8 << 20  # with this much not synced, the keeper is asked to begin
# One sync is for at most this share of the window; the writer goes on in the rest.
SHARE: Final = 4
HURRIED_SHARE: Final = 8  # while the writer waits for a slab
UNREADABLE: Final = "the journal window cannot be read"


class Mover:
    """The mover of one store's records to their segments; for the keeper's thread."""

    def __init__(self, window_bytes: int) -> None:
        self._most = min(SYNC_BYTES, window_bytes // SHARE)  # bytes that one sync is for
        self._hurried_most = min(SYNC_BYTES, window_bytes // HURRIED_SHARE)
        self.direct = True  # False once a file system refused O_DIRECT
        self.hurried = False  # the writer waits for a slab
        self._segment: Segment | None = None  # whose file is open
        self._fd = -1
        self._tail = b""  # the content of the page at `segment.synced` before that offset
        self._pages = mmap.mmap(-1, 2 * PAGE)  # aligned

    def move(self, segment: Segment, stop: int) -> None:
        """Write and sync the records up to `stop`. On OSError, none from `synced` on is synced."""
        if segment is not self._segment or self._fd < 0:
            self._enter(segment)
        while segment.synced < stop:
            self._move_some(segment, stop)

    def probe(self, segment: Segment) -> None:
        """Find out whether the file system takes O_DIRECT."""
        os.close(self._open(segment))

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1
        self._segment = None

    def _enter(self, segment: Segment) -> None:
        self.close()
        self._fd = self._open(segment)
        begin = segment.synced - segment.synced % PAGE
        self._tail = os.pread(segment.fd, segment.synced - begin, begin)
        if len(self._tail) < segment.synced - begin:
            raise OSError(errno.EIO, f"the file ends before byte {segment.synced}", segment.file)
        self._segment = segment

    def _open(self, segment: Segment) -> int:
        flags = os.O_WRONLY | os.O_CLOEXEC
        if self.direct:
            try:
                return os.open(segment.name_now(), flags | os.O_DIRECT)
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                self.direct = False
        return os.open(segment.name_now(), flags)

    def _move_some(self, segment: Segment, stop: int) -> None:
        """Write slab after slab, and sync once it is enough."""
        at, tail = segment.synced, self._tail
        begun = at
        enough = False
        while at < stop and not enough:
            with segment.in_window(at, stop) as records:
                size = len(records)
                assert size, "what is not synced is in the window"
                most = self._hurried_most if self.hurried else self._most
                enough = at + size - begun >= most
                tail = self._write(at, tail, records, enough or at + size == stop)
            at += size
        segment.check_window()  # after the writes: they may have read a page that was lost
        os.fdatasync(self._fd)
        segment.synced, self._tail = at, tail

    def _write(self, at: int, tail: bytes, records: memoryview, is_last: bool) -> bytes:
        """Write records at offset `at`; return the beginning of a page that is not complete."""
        offset = at - len(tail)
        parts: list[memoryview] = []
        done = 0
        pages = memoryview(self._pages)
        if tail:
            done = min(PAGE - len(tail), len(records))
            page = tail + records[:done]
            if len(page) < PAGE:
                tail, done = page, len(records)
            else:
                pages[:PAGE] = page
                parts.append(pages[:PAGE])
                tail = b""
        whole = (len(records) - done) // PAGE * PAGE
        if whole:
            parts.append(records[done : done + whole])
        if done + whole < len(records):
            tail = bytes(records[done + whole :])
        if tail and is_last:
            pages[PAGE:] = tail.ljust(PAGE, b"\0")
            parts.append(pages[PAGE:])
        self._write_all(parts, offset)
        return tail

    def _write_all(self, parts: list[memoryview], offset: int) -> None:
        while parts:
            try:
                count = os.pwritev(self._fd, parts, offset)
            except OSError as error:
                if error.errno == errno.EFAULT:
                    raise OSError(errno.EIO, UNREADABLE) from None
                if error.errno != errno.EINVAL or not self.direct:
                    raise
                self._give_up_direct()
                continue
            if count == 0:
                raise OSError(errno.EIO, "the disk wrote 0 bytes and reported no error")
            offset += count
            while parts and count >= len(parts[0]):
                count -= len(parts.pop(0))
            if count:
                parts[0] = parts[0][count:]

    def _give_up_direct(self) -> None:
        """Write through the page cache: the file system's O_DIRECT needs pages of another size."""
        assert self._segment is not None, "it is open"
        self.direct = False
        os.close(self._fd)
        self._fd = self._open(self._segment)
