"""Copies of records in a queue: in blocks, so that memory is given back as the oldest are freed.

A copy is laid out as in the journal, with number, time, epoch and checksum 0: this is what a
member forwards. `add` returns where it is:

    block << 32 | offset in the block       blocks are counted, and never reused

Only the oldest copy may be freed. Memory: at most twice `held`, and 18 blocks.
"""

import cython

from sequencer.journal.record import RecordBatch, Walk, record_size
from sequencer.message import Message

if not cython.compiled:
    BLOCK_MAX = 1 << 18  # a block is not larger, unless it is one record
    OFFSET = (1 << 32) - 1
    SPARE_MAX = 16  # blocks: 4 MiB, as much as is on the way to be committed


class ForwardCopies:
    """The copies of one forward table, which writes and frees them."""

    def __init__(self) -> None:
        self.held = 0  # bytes
        self.block = RecordBatch(0, 0, False)  # the newest
        self.newest = self.oldest = 0  # counts of blocks
        self.blocks = [self.block]
        self.spare: list[RecordBatch] = []  # their pages are in memory: the next blocks are cheaper

    def add(self, message: Message) -> int:
        """Copy a message's record; return where it is."""
        size = record_size(message.subject_size, message.reply_size, message.size)
        block = self.block
        if block.end + size > BLOCK_MAX and block.end:
            block = self._begin_block()
        at = block.end
        block.put(message, size)
        if cython.compiled:
            head = cython.cast("Head *", block.data + at)
            head.number = 0
            head.time = 0
        else:
            block.buffer[at + 8 : at + 24] = bytes(16)
        self.held += size
        return self.newest << 32 | at

    def size_at(self, at: int) -> int:
        """Return the size of this copy in bytes."""
        block = self._block_of(at)
        if cython.compiled:
            return (cython.cast("const Head *", block.data + (at & OFFSET)).length + 7) & ~7
        else:
            start = (at & OFFSET) + 4
            return (int.from_bytes(block.buffer[start : start + 4], "little") + 7) & ~7

    def cut_out(self, at: int, size: int) -> bytes:
        """Return `size` bytes, all of one block."""
        block, start = self._block_of(at), at & OFFSET
        assert start + size <= block.end, "copies of one block"
        if cython.compiled:
            data = cython.cast("const char *", block.data)
            return data[start : start + size]
        else:
            return bytes(block.buffer[start : start + size])

    def seek(self, walk: Walk, at: int) -> int:
        """Make this copy the current record of a walk."""
        block = self._block_of(at)
        walk.attach(block.buffer, at & OFFSET, block.end)
        return walk.skim()

    def free(self, at: int) -> int:
        """Free the oldest copy."""
        size = self.size_at(at)
        while self.oldest < at >> 32:
            block = cython.cast(RecordBatch, self.blocks.pop(0))
            if len(self.spare) < SPARE_MAX:
                self.spare.append(block)
            self.oldest += 1
        self.held -= size
        if self.held == 0:
            self.block.clear()
        return 0

    def _block_of(self, at: int) -> RecordBatch:
        if at >> 32 == self.newest:
            return self.block
        return cython.cast(RecordBatch, self.blocks[(at >> 32) - self.oldest])

    def _begin_block(self) -> RecordBatch:
        if self.spare:
            block = cython.cast(RecordBatch, self.spare.pop())
        else:
            block = RecordBatch(0, 0, False)
        block.clear()
        self.block = block
        self.blocks.append(block)
        self.newest += 1
        return block
