"""One connection to the cquencer port: its answers, and its incomplete input.

Answers are netstrings, one after another; they are sent together, and then dropped:

    out    sent --> answers --> end ... size

An incomplete netstring at the end of a read is put in front of the next read. A long one gets a
buffer of its own, which grows with what has arrived. Memory: 64 bytes for answers, more while the
client pipelines; and the beginning of one message.
"""

import socket
import time
from typing import TYPE_CHECKING, Any

import cython

from broker.addresses import shown
from broker.runtime.log_formats import ClientLabel

if TYPE_CHECKING:
    from sequencer.replica.forward_table import ForwardTable

if not cython.compiled:
    import select

    from sequencer.digits import NETSTRING_MAX, write_netstring

    EPOLLIN = select.EPOLLIN
    READ_MAX = 1 << 16  # netstrings in one read: 16 384 of one byte, about 4 ms
    REST_MAX = 1 << 14  # bytes of an incomplete netstring that are put in front of the next read
    OUT_MIN = 64  # bytes for answers
    OUT_KEPT = 1 << 12


class CquencerClient:
    """One connection. Written by the port; monitoring reads its counters."""

    def __init__(
        self, connection: socket.socket, address: tuple[str, int], cid: int, origin: int
    ) -> None:
        self.connection = connection
        self.fd = connection.fileno()  # -1: closed
        self.ip, self.port = address
        self.cid = cid
        self.origin = origin  # identifies the publisher in the journal's records
        self.started_at = time.time()
        self.heard = 0  # ns since 1970; 0: nothing received yet
        self.messages = self.bytes = self.queries = self.errors = 0
        self.interest = EPOLLIN
        self.meter: Any = None  # a `PortMeter`, if its rate is limited
        self.read_max = READ_MAX
        self.late = False  # it sent more than one turn has time for
        self.ending = False  # its further input is ignored
        self.fault = b""  # why its further input is ignored
        self.ended = False  # the end of its answers was announced
        # answers
        self.out = bytearray(OUT_MIN)
        self.data = self.out
        self.size = OUT_MIN
        self.end = self.sent = 0
        self.wanted = 0  # the number that must be safe before they are sent
        # in a cluster: (place, number, start and end of its netstring); of a query the place is 0
        self.owed: list[list[int]] = []
        # incomplete input
        self.kept: bytearray | None = None
        self.held = 0
        self.need = 0  # bytes of the long netstring that has `kept` to itself
        self.awaited = 0  # bytes of the incomplete netstring; 0: not known
        self.skip = 0  # bytes to skip of one that is too long, with its comma
        self.passed = 0  # bytes served before the current ones

    @property
    def label(self) -> ClientLabel:
        """The name of this client in the log."""
        return ClientLabel(shown(self.ip, self.port), self.cid)

    @property
    def pending_bytes(self) -> int:
        """Bytes of answers that have not been sent."""
        return self.end - self.sent

    def may_read(self) -> bool:
        """True if more of its input may be read now, up to `read_max` bytes."""
        if self.meter is None:
            return True
        self.read_max = min(READ_MAX, self.meter.readable())
        return self.read_max > 0

    def number(self, number: int) -> int:
        """Add a number to the answers, as a netstring."""
        if self.size - self.end < NETSTRING_MAX:
            self.widen(NETSTRING_MAX)
        self.end = write_netstring(self.data, self.end, number)
        return 0

    def count_forwarded(self, place: int, size: int) -> int:
        """Count a message that has a place in a cluster's order; its number comes later."""
        self.messages += 1
        self.bytes += size
        return self.owe(place)

    def forget_input(self) -> int:
        """Discard the input that was received but not served."""
        self.late = False
        self.kept = None
        self.held = self.need = 0
        return 0

    def owe(self, place: int) -> int:
        """Reserve room in the answers for a later number; `place` 0: for the newest one then."""
        start = self.end
        self.number(place)
        self.owed.append([place, 0, start, self.end])
        return 0

    def settle(self, table: "ForwardTable", place: int, newest: int) -> bool:
        """Fill in the numbers of messages up to `place`; True: all answers are complete now."""
        for one in self.owed:
            if one[0] > place:
                return False
            if one[0] and not one[1]:
                one[1] = table.number_of(one[0])
        if not self.owed:
            return True
        before = bytes(memoryview(self.out)[: self.end])
        self.end = at = 0
        for _, number, start, stop in self.owed:
            self._copy(before[at:start])
            self.number(number or newest)
            at = stop
        self._copy(before[at:])
        self.owed.clear()
        self.wanted = 0
        return True

    def _copy(self, text: bytes) -> int:
        """Add bytes to the answers as they are."""
        if self.size - self.end < len(text):
            self.widen(len(text))
        self.out[self.end : self.end + len(text)] = text
        self.end += len(text)
        return 0

    def say(self, text: bytes) -> int:
        """Add a text to the answers, as a netstring."""
        return self._copy(b"%d:%b," % (len(text), text))

    def widen(self, need: int) -> int:
        """Make room for `need` more bytes of answers."""
        size = self.size
        while size - self.end < need:
            size *= 2
        out = bytearray(size)
        memoryview(out)[: self.end] = memoryview(self.out)[: self.end]
        return self.adopt(out)

    def adopt(self, out: bytearray) -> int:
        """Use this buffer for answers."""
        self.out = out
        self.data = self.out
        self.size = len(out)
        return 0

    def emptied(self) -> int:
        """Reset the buffer, when all answers have been sent."""
        self.end = self.sent = 0
        if self.size > OUT_KEPT:
            self.shrink()
        return 0

    def shrink(self) -> int:
        """Free the room that many answers needed."""
        return self.adopt(bytearray(OUT_MIN))

    def keep(self, buffer: bytearray, at: int, stop: int) -> int:
        """Keep unserved input for the next read; a long netstring gets its own buffer."""
        size = stop - at
        self.held = size
        self.need = 0
        self.passed += at
        if size == 0:
            self.kept = None
        elif size <= REST_MAX or self.late:
            self.kept = buffer[at:stop]
        else:  # twice what is there: announcing a megabyte does not allocate one
            self.need = self.awaited
            self.kept = bytearray(min(2 * size, self.need))
            memoryview(self.kept)[:size] = memoryview(buffer)[at:stop]
        return 0

    def grow(self) -> int:
        """Use a larger buffer for the long netstring that has filled its own."""
        kept = self.kept
        assert kept is not None, "a long netstring has its own buffer"
        larger = bytearray(min(2 * len(kept), self.need))
        memoryview(larger)[: self.held] = kept
        self.kept = larger
        return 0
