r"""Counts the messages of a benchmark in what a subscriber has read, without an object for each.

    MSG bench 1 38\r\n29:5:88485,16:<key><time>,,\r\n         with Seriatim's frame
    MSG bench 1 16\r\n<key><time>\r\n                         without one

Every message is looked at: its number must rise, and its key must follow on the last one of its
publisher (message_block.py has the stamps). The scan stops where no whole message begins, and at
a message of the broker's own, such as the end of a replay.
"""

import cython

from seriatim.bench.latency_table import LatencyTable

PLACE = 8  # bytes
SEQUENCE_MASK = (1 << 36) - 1

if not cython.compiled:
    RUN_SHIFT = 48
    PUBLISHER_SHIFT = 36
    PUBLISHER_MASK = (1 << 12) - 1
    DIGITS_MAX = 18  # what is longer is no number that there can be


class ArrivalTally:
    """Counts of what one subscriber has received so far.

    `run`: only stamped messages of this run count, of `size` bytes, from so many `publishers`; 0:
    every message counts, and only numbers are looked at. `latencies`: where they are counted.
    """

    def __init__(
        self,
        run: int,
        publishers: int,
        size: int,
        is_framed: bool,
        latencies: LatencyTable | None = None,
    ) -> None:
        self.run = run
        self.mask = SEQUENCE_MASK
        self.publishers = publishers
        self.size = size
        self.is_framed = is_framed
        self.latencies = latencies
        self.messages = 0
        self.payload_bytes = 0
        self.reached = 0  # of all publishers together: how far they were seen
        self.repeated = 0  # came again, or after a later one of the same publisher
        self.foreign = 0  # are of somebody else
        self.disordered = 0  # with a number that does not rise
        self.first = 0  # the first number, and the last
        self.last = 0
        self.table = bytearray(PLACE * max(1, publishers))
        if cython.compiled:
            self.next = cython.cast("long long *", cython.cast("unsigned char *", self.table))
        else:
            self.next = memoryview(self.table).cast("q")

    def scan(self, buffer: bytearray, at: int, end: int, now: int) -> int:
        """Count the whole messages in `buffer` from `at` to `end`; return where they end.

        `now`: when they arrived, by the monotonic clock, in ns.
        """
        data = buffer
        while True:
            head = at + (data[at] == 72) if at < end else at  # H of HMSG
            if end - head < 6 or data[head] != 77 or data[head + 3] != 32:  # M, and a blank
                break
            line = head + 4
            if data[line] == 36:  # $: the broker's own
                break
            while line < end and data[line] != 10:
                line += 1
            if line == end:
                break
            body = line + 1
            word = self._word(data, head + 4, line - 1)
            stop = body + self._decimal(data, word, line - 1)
            if head > at:
                body += self._decimal(data, self._word(data, head + 4, word - 1), word - 1)
            if body <= line or stop < body or stop + 2 > end:
                break
            if data[stop] != 13 or data[stop + 1] != 10:
                break
            self._count(data, body, stop, now)
            at = stop + 2
        return at

    def _word(self, data: bytearray, least: int, end: int) -> int:
        """Return where the word that ends at `end` begins, behind a blank or at `least`."""
        while end > least and data[end - 1] != 32:
            end -= 1
        return end

    def _decimal(self, data: bytearray, at: int, stop: int) -> int:
        """Read a number that ends at `stop`; -1 if it is none."""
        if at >= stop or stop - at > DIGITS_MAX:
            return -1
        value = 0
        while at < stop:
            if data[at] < 48 or data[at] > 57:
                return -1
            value = value * 10 + data[at] - 48
            at += 1
        return value

    def _count(self, data: bytearray, body: int, stop: int, now: int) -> int:
        """Count the message whose frame, or payload, is from `body` to `stop`."""
        at = body
        if self.is_framed:
            at = self._unframe(data, body, stop)
            if at > body:
                stop -= 2
        if not self.run:
            self.messages += 1
            self.payload_bytes += stop - at
            return 0
        key = self._read(data, at) if stop - at == self.size else 0
        publisher = key >> PUBLISHER_SHIFT & PUBLISHER_MASK
        if key >> RUN_SHIFT != self.run or publisher >= self.publishers:
            self.foreign += 1
            return 0
        sequence = key & self.mask
        expected = self.next[publisher]
        self.messages += 1
        self.payload_bytes += self.size
        if sequence < expected:
            self.repeated += 1
        else:
            self.next[publisher] = sequence + 1
            self.reached += sequence + 1 - expected
        if self.latencies is not None:
            self.latencies.add(now - self._read(data, at + 8))
        return 0

    def _unframe(self, data: bytearray, body: int, stop: int) -> int:
        """Note the number in a frame; return where its payload begins; without one, `body`."""
        colon = body
        while colon < stop and data[colon] != 58:  # the length of it all
            colon += 1
        colon += 1
        while colon < stop and data[colon] != 58:  # the length of the number
            colon += 1
        comma = colon + 1
        while comma < stop and data[comma] != 44:
            comma += 1
        number = self._decimal(data, colon + 1, comma)
        colon = comma + 1
        while colon < stop and data[colon] != 58:  # the length of the payload
            colon += 1
        size = self._decimal(data, comma + 1, colon)
        if number < 1 or size < 0 or colon + 1 + size + 2 != stop:
            return body
        if number <= self.last:
            self.disordered += 1
        self.first = self.first or number
        self.last = number
        return colon + 1

    def _read(self, data: bytearray, at: int) -> int:
        value = 0
        for place in range(at, at + 8):
            value = value << 8 | data[place]
        return value
