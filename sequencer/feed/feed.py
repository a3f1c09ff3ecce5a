"""One feed: the records of a batch in, datagrams to one multicast group out.

    add_records(buffer, stop)   the journal has these records: encode those that pass the filter
    flush(safe)                 send what is safe to show

A datagram holds one message or, with packing, as many of one batch as fit. A message is never
split. One that is too long for a datagram is counted; receivers notice the missing number and
fetch it. There is no clock here: the broker says when it is time for a heartbeat.
"""

from collections.abc import Callable

import cython

from sequencer.feed.datagrams import Datagrams
from sequencer.feed.feed_codec import Codec
from sequencer.feed.feed_socket import FeedSocket
from sequencer.journal.record import Walk

if not cython.compiled:
    from sequencer.journal.layout import RECORD

SUBJECTS_MAX = 65536  # subjects whose filter result is remembered


class Feed:
    """A feed to one multicast group; used by the thread that numbers messages.

    `socket` is a UDP socket connected to the group. `packing` is the size that a datagram is
    filled up to; 0 means one message each. `previous` is the last number before this feed began.
    """

    def __init__(
        self,
        codec: Codec,
        socket: FeedSocket,
        *,
        datagram_max: int,
        packing: int = 0,
        segment: bool = True,
        matches: Callable[[bytes], bool] | None = None,
        pending_max: int = 16 << 20,
        previous: int = 0,
    ) -> None:
        self.codec = codec
        self.out = Datagrams(socket, segment, pending_max)
        self.datagram_max = datagram_max
        self.packing = packing
        self.matches = matches
        self.walk = Walk(0, False)
        self.decided: dict[bytes, bool] = {}
        self.previous = previous  # the last number that a datagram accounted for
        self.messages = 0  # put into datagrams
        self.skipped = 0  # left out by the filter
        self.too_long = 0
        self.broken = 0  # messages that the codec failed on
        self.fault = ""  # the last such error
        self.start = self.end = 0  # of the datagram being built
        self.first = self.last = 0
        self.held = 0  # messages in it; 0: no datagram is being built

    def add_records(self, buffer: bytearray | memoryview, stop: int) -> int:
        """Encode the records in `buffer[:stop]`."""
        walk, codec = self.walk, self.codec
        walk.attach(buffer, 0, stop)
        data = walk.data
        while walk.skim() == RECORD:
            skip = self.matches is not None and not self._wanted()
            if skip:
                self.skipped += 1
                if codec.skip_size == 0:
                    continue
                size = codec.skip_size
            else:
                try:
                    size = codec.measure(walk, data)
                except Exception as error:  # a user's codec: the journal and the other feeds go on
                    self._break(error, 1)
                    self._close()
                    self.previous = walk.number
                    continue
            if codec.head_size + size > self.datagram_max:
                self.too_long += 1
                self._close()
                self.previous = walk.number
                continue
            self._make_room(size, walk.number)
            if skip:
                for at in range(self.end, self.end + size):
                    self.out.data[at] = 0
                self.end += size
            else:
                self.end = codec.put(self.out.data, self.end, walk, data)
                self.messages += 1
            self.last = walk.number
            self.held += 1
        self._close()
        return 0

    def flush(self, safe: int) -> int:
        """Send the datagrams that are safe to show, up to number `safe`; return how many."""
        if self.out.count == 0:
            return 0
        return self.out.send_safe(safe)

    def heartbeat(self, after: int) -> bool:
        """Announce the next number, if nothing waits to be sent and the codec has heartbeats."""
        if self.out.count:
            return False
        return self._say(self.codec.heartbeat(self.previous, after), after)

    def finish(self, after: int) -> bool:
        """Announce the end of the stream, if nothing waits to be sent and the codec can."""
        if self.out.count:
            return False
        return self._say(self.codec.end(self.previous, after), after)

    @property
    def sent(self) -> Datagrams:
        """The counters of what was sent: datagrams, bytes, errors, and the last error."""
        return self.out

    def _say(self, text: bytes, after: int) -> bool:
        if not text:
            return False
        out = self.out
        out.reserve(len(text))
        for at in range(len(text)):
            out.data[out.end + at] = text[at]
        out.add(out.end + len(text), after - 1)
        out.send_safe(after - 1)
        return True

    def _make_room(self, size: int, number: int) -> int:
        """Make room for `size` more bytes, in the current datagram or a new one."""
        if self.held:
            full = self.end - self.start + size > self.packing
            if full or (self.codec.contiguous and number != self.last + 1):
                self._close()
        if self.held == 0:
            self.out.reserve(self.codec.head_size + size)
            self.start = self.out.end
            self.end = self.start + self.codec.head_size
            self.first = number
        else:
            self.out.reserve(self.end - self.start + size)
        return 0

    def _close(self) -> int:
        """Complete the current datagram."""
        if self.held == 0:
            return 0
        out = self.out
        try:
            self.codec.seal(
                out.data, self.start, self.end, self.previous, self.first, self.last, self.held
            )
            out.add(self.end, self.last)
        except Exception as error:  # as above
            self._break(error, self.held)
        self.previous = self.last
        self.held = 0
        return 0

    def _break(self, error: Exception, messages: int) -> None:
        """Count messages that are not sent because a user's codec failed."""
        self.broken += messages
        self.fault = f"{type(error).__name__}: {error}"

    def _wanted(self) -> bool:
        """True if the current record passes the filter."""
        walk = self.walk
        subject = bytes(walk.buffer[walk.subject : walk.subject + walk.subject_size])
        wanted = self.decided.get(subject)
        if wanted is None:
            assert self.matches is not None, "only a feed with a filter comes here"
            if len(self.decided) == SUBJECTS_MAX:
                self.decided.clear()
            wanted = self.decided[subject] = self.matches(subject)
        return wanted
