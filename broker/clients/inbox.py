"""The buffers that connections read into: one shared by all, and one each for long messages.

    nothing kept            the shared buffer, from its start
    a short rest kept       the shared buffer, after a copy of the rest
    a long message begun    a buffer of its own, which grows with what has arrived

So an idle connection holds no buffer, and one that announces a megabyte but sends ten bytes holds
a few kilobytes.
"""

from parser.machine import Parser

OWN_MIN = 1 << 12


class Inbox:
    """The shared buffer. It is filled and emptied within one read event, so it needs no owner."""

    def __init__(self, size: int, max_control_line: int) -> None:
        # Room for one whole argument line before the bytes of a read.
        self.buffer = bytearray(size + max_control_line + 2)
        self.window = memoryview(self.buffer)
        self.rest_max = max(size // 4, max_control_line + 2)


class Intake:
    """One connection's input: bytes that were read and are not yet a whole operation."""

    __slots__ = ("_end", "_inbox", "_own", "_rest")

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._rest = b""
        self._own: bytearray | None = None
        self._end = 0

    def buffer(self) -> memoryview:
        """Where the next read goes."""
        if self._own is not None:
            return memoryview(self._own)[self._end :]
        size = len(self._rest)
        if size:
            self._inbox.buffer[:size] = self._rest
            return self._inbox.window[size:]
        return self._inbox.window

    def filled(self, count: int) -> tuple[bytearray, int]:
        """`count` bytes were read; return the buffer, and how much of it is filled."""
        if self._own is not None:
            self._end += count
            return self._own, self._end
        return self._inbox.buffer, len(self._rest) + count

    def keep(self, buffer: bytearray, start: int, stop: int, parser: Parser) -> None:
        """Keep what was not consumed, for the next read."""
        size = stop - start
        need = parser.need
        if self._own is not None:
            assert start == 0 or size == 0, "a connection's own buffer holds one operation only"
            if size == 0:
                self._own = None
                parser.begin(bytearray(), 0, 0)  # it must not keep the buffer alive
            elif stop == len(buffer):
                self._grow(memoryview(buffer)[start:stop], need)
            self._rest = b""
        elif size == 0:
            self._rest = b""
        elif size <= self._inbox.rest_max and need <= len(self._inbox.buffer):
            self._rest = bytes(memoryview(buffer)[start:stop])
        else:
            self._rest = b""
            self._grow(memoryview(buffer)[start:stop], need)

    def _grow(self, kept: memoryview, need: int) -> None:
        """Move to a buffer of its own: twice what is there, but not beyond the message's end."""
        size = len(kept)
        own = bytearray(min(max(2 * size, OWN_MIN), max(need, size + 1)))
        own[:size] = kept
        self._own = own
        self._end = size
