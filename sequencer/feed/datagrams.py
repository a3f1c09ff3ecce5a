"""Encoded datagrams that wait to be sent: they lie one after another in one buffer.

    buffer: |-- datagram --|-- datagram --|-- being built ...
            start          ends[0]        ends[1]         end

Each datagram knows its last number; `send_safe` sends those that are safe to show. If the
system refuses a datagram, it is counted and dropped; receivers request what they miss. If the
socket is full, the sender waits, at most `WAITS` times the socket's timeout. After that, all
datagrams that are ready are dropped too, so a jammed network cannot block the broker.

Memory: `pending_max` for the bytes that wait, and as much again for the slots of the datagrams,
because a user's codec may make empty ones.
"""

import cython

from sequencer.feed.feed_socket import FeedSocket

if not cython.compiled:
    BUFFER_MIN = 1 << 16
    BUFFER_MAX = 1 << 20  # kept while nothing waits
    SLOTS_MIN = 1024
    SLOTS_KEPT = 65536  # while nothing waits
    PLACE_BYTES = 16
    WAITS = 4  # for the socket, in one send
    EAGAIN, ENOBUFS = 11, 105


class Datagrams:
    """The send queue of one feed. The socket's timeout limits how long it blocks the caller."""

    def __init__(self, socket: FeedSocket, segment: bool, pending_max: int) -> None:
        self.socket = socket
        self.fd = socket.fileno()
        self.wait_ms = int(1000 * (socket.gettimeout() or 0))
        self.segment_max = 0xFFFF if segment else 0
        self.pending_max = pending_max
        self.buffer = bytearray(BUFFER_MIN)
        self.data = self.buffer
        self.size = BUFFER_MIN
        self.end = 0
        self.count = 0
        self.end_bytes = self.last_bytes = bytearray()
        if not cython.compiled:
            self.ends: list[int] = []
            self.lasts: list[int] = []
        self._make_slots(SLOTS_MIN)
        self.failure = 0
        self.datagrams = self.bytes = 0  # sent
        self.errors = 0  # datagrams that could not be sent
        self.error = 0  # errno of the last of those

    def reserve(self, need: int) -> int:
        """Make room for this many more bytes."""
        size = self.size
        if size - self.end >= need:
            return 0
        while size < self.end + need:
            size *= 2
        buffer = bytearray(size)
        buffer[: self.size] = self.buffer  # the datagram being built lies after `end`
        return self._adopt(buffer)

    def add(self, end: int, last: int) -> int:
        """Complete the datagram that was written up to `end`; its last number is `last`."""
        if end > self.pending_max or PLACE_BYTES * self.count >= self.pending_max:
            self.errors += 1
            self.error = ENOBUFS
            return 0
        if self.count == self.slots:
            self._make_slots(2 * self.slots)
        self.ends[self.count] = end
        self.lasts[self.count] = last
        self.count += 1
        self.end = end
        return 0

    def send_safe(self, safe: int) -> int:
        """Send the datagrams whose last number is `safe` or less; return how many were taken."""
        at = start = stop = 0
        while stop < self.count and self.lasts[stop] <= safe:
            stop += 1
        waits = WAITS
        while at < stop:
            sent = self._send(at, stop, start)
            if sent:
                at += sent
                self.datagrams += sent
                self.bytes += self.ends[at - 1] - start
                start = self.ends[at - 1]
            if self.failure == 0:
                continue
            full = self.failure == EAGAIN
            if full and waits and self._wait():
                waits -= 1
                continue
            lost = stop - at if full else 1
            at += lost
            start = self.ends[at - 1]
            self.errors += lost
            self.error = self.failure
        if stop:
            self._forget(stop, start)
        return stop

    def _send(self, at: int, stop: int, start: int) -> int:
        """Send datagrams from `at` on; return how many. `failure` says why it stopped."""
        if cython.compiled:
            return datagrams_send(
                self.fd,
                self.data,
                self.ends,
                at,
                stop,
                start,
                cython.address(self.segment_max),
                cython.address(self.failure),
            )
        else:
            self.failure = 0
            with memoryview(self.buffer) as view:
                for sent in range(stop - at):
                    try:
                        self.socket.send(view[start : self.ends[at + sent]])
                    except TimeoutError:
                        self.failure = EAGAIN
                        return sent
                    except OSError as error:
                        self.failure = error.errno or ENOBUFS
                        return sent
                    start = self.ends[at + sent]
            return stop - at

    def _wait(self) -> bool:
        """Wait a little for the socket; return whether it accepts more."""
        if cython.compiled:
            return datagrams_wait(self.fd, self.wait_ms) != 0
        else:
            return False  # the socket's timeout has already waited

    def _forget(self, gone: int, start: int) -> int:
        """Remove the first `gone` datagrams, which end at `start`."""
        left = self.count - gone
        if left == 0:
            self.count = self.end = 0
            if self.size > BUFFER_MAX or self.slots > SLOTS_KEPT:
                self._shrink()
            return 0
        if cython.compiled:
            memmove(self.data, self.data + start, self.end - start)
        else:
            self.buffer[: self.end - start] = self.buffer[start : self.end]
        for index in range(left):
            self.ends[index] = self.ends[gone + index] - start
            self.lasts[index] = self.lasts[gone + index]
        self.count = left
        self.end -= start
        return 0

    def _shrink(self) -> int:
        """Free the room that only an unusual backlog needed."""
        self._make_slots(SLOTS_MIN)
        return self._adopt(bytearray(BUFFER_MIN))

    def _adopt(self, buffer: bytearray) -> int:
        self.buffer = buffer
        self.data = self.buffer
        self.size = len(buffer)
        return 0

    def _make_slots(self, slots: int) -> int:
        """Make slots for this many datagrams."""
        if cython.compiled:
            ends, lasts = bytearray(8 * slots), bytearray(8 * slots)
            ends[: 8 * self.count] = self.end_bytes[: 8 * self.count]
            lasts[: 8 * self.count] = self.last_bytes[: 8 * self.count]
            self.end_bytes, self.last_bytes = ends, lasts
            raw = self.end_bytes
            self.ends = cython.cast("long long *", raw)
            raw = self.last_bytes
            self.lasts = cython.cast("unsigned long long *", raw)
        else:
            self.ends = self.ends[: self.count] + [0] * (slots - self.count)
            self.lasts = self.lasts[: self.count] + [0] * (slots - self.count)
        self.slots = slots
        return 0
