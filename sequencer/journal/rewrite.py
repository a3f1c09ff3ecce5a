"""Writes bytes again that a failed sync may have lost.

When a sync fails, Linux marks the pages clean and forgets the failure: the next sync would
succeed. The pages still hold the right bytes while they are in memory. So the bytes are read
back, every record is checked, and only then are they written again.
"""

import errno
import os

from sequencer.journal.disk import pwrite_all
from sequencer.journal.header import START, decode_head
from sequencer.journal.layout import BAD, RECORD
from sequencer.journal.record import Walk
from sequencer.journal.segment import Segment
from sequencer.journal.survey import CHUNK


def rewrite(segment: Segment, salt: int) -> None:
    """Write the unsynced bytes of the segment again. OSError if they cannot be read back."""
    size, synced = segment.size, segment.synced
    if synced >= size:
        return
    if synced < START:
        head = os.pread(segment.fd, START, 0)
        if decode_head(head) is None:
            raise OSError(errno.EIO, "its head was lost before it was synced", segment.file)
        pwrite_all(segment.fd, head, 0)
    at = max(synced, START)
    want = CHUNK
    walk = Walk(salt)
    while at < size:
        data = os.pread(segment.fd, min(want, size - at), at)
        walk.begin(data, 0, len(data))
        state = walk.next()
        while state == RECORD:
            state = walk.next()
        good = walk.at
        if state == BAD or (good == 0 and at + len(data) >= size):
            text = f"the data at byte {at + good} was lost before it was synced"
            raise OSError(errno.EIO, text, segment.file)
        pwrite_all(segment.fd, data[:good], at)
        at += good
        want = CHUNK if good else 2 * want
