"""Remove the end of a store after a given number; an operator does this while no broker runs.

The numbers after it will be given again, to other messages; only the epoch tells them apart.
"""

import os
from typing import NamedTuple

from sequencer.journal.disk import remove, sync_folder
from sequencer.journal.errors import StoreError
from sequencer.journal.header import SUBJECTS
from sequencer.journal.high_water import FILE, start
from sequencer.journal.identity import write_identity
from sequencer.journal.recovery import Recovery
from sequencer.journal.survey import Survey


class Cut(NamedTuple):
    """The part of a store that was removed."""

    first: int  # the numbers that were there before
    last: int
    bytes: int
    segments: int  # files that were deleted


def truncate(path: str, last: int, now: int = 0) -> Cut:
    """Remove every number after `last`. StoreError if `last` is not in the store.

    The newest messages go first, so a crash in between leaves a store that ends later.
    """
    found = Recovery(os.path.abspath(path), now, accept_loss=True).run()
    try:
        segments = found.segments
        first, end = segments[0].first, segments[-1].last
        if not first - 1 <= last <= end:
            raise StoreError(
                f"{path}: the store has numbers {first} to {end}; give one of {first - 1} to {end}"
            )
        size = sum(segment.size for segment in segments)
        # First: it would still claim the removed numbers, and the next start would refuse the rest.
        start(os.path.join(found.path, FILE), found.identity.journal, last)
        cuts = found.identity.cuts + 1  # readers notice it
        write_identity(found.path, found.identity._replace(cuts=cuts, cut=last))
        gone = 0
        while len(segments) > 1 and segments[-1].first > last:
            segment = segments.pop()
            segment.close()
            remove(segment.path + SUBJECTS)
            os.unlink(segment.file)
            gone += 1
        newest = segments[-1]
        for file in (newest.index_file, newest.path + SUBJECTS):
            if os.path.exists(file):
                os.unlink(file)  # before the records, or it would claim too many
        sync_folder(found.path)
        _shorten(newest.file, found.identity.salt, newest.first, last)
        left = sum(os.stat(segment.file).st_size for segment in segments)
        return Cut(last + 1, end, size - left, gone)
    except OSError as error:
        text = f"{error.filename or path}: it cannot be cut: {error.strerror}"
        raise StoreError(text) from error
    finally:
        found.abandon()


def _shorten(file: str, salt: int, first: int, last: int) -> None:
    fd = os.open(file, os.O_RDWR | os.O_CLOEXEC)
    try:
        size = os.fstat(fd).st_size
        survey = Survey(fd, salt, first, size, limit=last + 1).run()
        os.ftruncate(fd, survey.end)
        os.fsync(fd)
    finally:
        os.close(fd)
