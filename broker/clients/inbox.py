"""The buffers that connections read into: one shared by all, and one each for long messages.

    target -> a read -> filled -> the plane -> keep

    nothing kept            the shared buffer, from its start
    a short rest kept       the shared buffer, after a copy of the rest
    a long message begun    a buffer of its own, which grows as bytes arrive

So an idle connection holds no buffer, and one that announces a megabyte but sends ten bytes holds
a few kilobytes.
"""

from broker.dataplane.connection import SpareBuffers, unset_bytes, whole_steps
from parser.machine import Parser

OWN_MIN = 1 << 12
REUSED_MIN = 1 << 17  # a buffer so long is taken from the spare ones, and goes back to them
# The shared buffer's size. Larger reads save system calls. Above 512 KiB, a flood more often makes
# subscribers lag, so that the journal serves them, which costs more.
RECEIVE_BYTES = 1 << 19


class Inbox:
    """The shared buffer. Each read fills and empties it, so it needs no owner."""

    def __init__(self, size: int, max_control_line: int, spare: SpareBuffers) -> None:
        self.spare: SpareBuffers = spare
        # Room for one whole argument line before the bytes of a read.
        self.buffer = bytearray(size + max_control_line + 2)
        self.window = memoryview(self.buffer)
        self.rest_max = max(size // 4, max_control_line + 2)


class Intake:
    """The unfinished input of one connection: bytes that are not yet a whole operation."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox: Inbox = inbox
        self._rest = b""
        self.own: bytearray | None = None  # the buffer for a long message
        self.own_size = 0  # how much of it may be filled: no byte after that message
        self.end = 0  # how much of `target` is filled: the next read goes there

    def target(self) -> bytearray:
        """Return the buffer for the next read, which goes to `end`."""
        if self.own is not None:
            return self.own
        self.end = len(self._rest)
        if self.end:
            self._inbox.window[: self.end] = self._rest
        return self._inbox.buffer

    def room(self) -> int:
        """Return how many bytes the next read may get."""
        size = len(self._inbox.buffer) if self.own is None else self.own_size
        return size - self.end

    def filled(self, count: int) -> int:
        """Count bytes that were read; return how much of the buffer is filled."""
        self.end += count
        return self.end

    def keep(self, buffer: bytearray, start: int, stop: int, parser: Parser) -> int:
        """Keep the bytes that were not consumed, for the next read."""
        size = stop - start
        if size == 0 and self.own is None:
            self._rest = b""
            return 0
        need = parser.need
        if self.own is not None:
            assert start == 0 or size == 0, "a connection's own buffer holds one operation only"
            if size == 0:
                self.own = None
                parser.attach(bytearray(), 0, 0)  # the parser must not keep the buffer alive
                if len(buffer) >= REUSED_MIN:
                    self._inbox.spare.keep(buffer)
            elif stop == self.own_size:
                self._grow(memoryview(buffer)[start:stop], need)
            self._rest = b""
        elif size <= self._inbox.rest_max and need <= len(self._inbox.buffer):
            self._rest = bytes(memoryview(buffer)[start:stop])
        else:
            self._rest = b""
            self._grow(memoryview(buffer)[start:stop], need)
        return 0

    def _grow(self, kept: memoryview, need: int) -> int:
        """Move to a buffer of its own: twice as long as the input, but no longer than needed."""
        size = len(kept)
        self.own_size = min(max(2 * size, OWN_MIN), max(need, size + 1))
        if self.own_size < REUSED_MIN:
            own = unset_bytes(self.own_size)
        else:  # of at most twice the bytes that are there already, as any other
            own = self._inbox.spare.take(whole_steps(self.own_size), 2 * self.own_size)
        memoryview(own)[:size] = kept  # a bytearray would make a copy of what it is assigned
        self.own = own
        self.end = size
        return 0
