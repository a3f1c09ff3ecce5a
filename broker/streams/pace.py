"""How fast messages go out: the flow control window, the rate limit, and replay at the old pace.

Each says whether a message may go now. None has a clock: times are arguments, in ns.
"""

import cython

if not cython.compiled:
    WINDOW_FIRST = 2097152  # 2 MiB in flight at first
    WINDOW_MOST = 33554432
    PAUSE_MIN = 1000000  # a pause of less than 1 ms is none
    NS = 1000000000  # a second


class FlowWindow:
    """The bytes that a push consumer may have on the way.

    Above half of the window it asks its client, who answers when it has read as far; what was sent
    before the question is then not on the way any more, and the window doubles. Above the whole
    window, the consumer waits for the answer.
    """

    def __init__(self) -> None:
        self.size = WINDOW_FIRST
        self.used = 0
        self.asked = 0  # of these, what an answer will free
        self.reply = b""  # the subject of the answer that is awaited; empty: none is

    def add(self, total: int) -> bool:
        """Count a message of so many bytes; return True if the client must be asked now."""
        self.used += total
        if not self.reply:
            return self.used > self.size // 2
        if self.used - self.asked >= self.size:
            self.asked += total
        return False

    @property
    def is_full(self) -> bool:
        """True if nothing may be sent."""
        return self.used > self.size

    def ask(self, reply: bytes) -> None:
        """Await an answer to this subject."""
        self.asked = self.used
        self.reply = reply

    def answer(self, reply: bytes) -> bool:
        """Take an answer; return False if it is not the one that is awaited."""
        if not reply or reply != self.reply:
            return False
        self.size = min(2 * self.size, WINDOW_MOST)
        self.used = max(self.used - self.asked, 0)
        self.asked = 0
        self.reply = b""
        return True


class RateLimit:
    """At most so many bits a second, with bursts of the largest message."""

    def __init__(self, bits: int, burst: int) -> None:
        self.rate = max(bits // 8, 1)
        self.slack = burst * NS // self.rate  # as long as it takes to earn a burst
        self.paid = 0  # what was sent is paid for at this time

    def free_at(self) -> int:
        """Return from when on a message may go."""
        return self.paid

    def spend(self, total: int, now: int) -> int:
        """Count a message of so many bytes."""
        self.paid = max(self.paid, now - self.slack) + total * NS // self.rate
        return 0


class ReplayTimes:
    """Replays what was there at first with the pauses that it once had, up to number `last`."""

    def __init__(self, last: int) -> None:
        self.last = last
        self.time = 0  # of the message before
        self.sent_at = 0  # when that one went

    def due(self, number: int, time: int) -> int:
        """Return when a message of this time is to go; 0 if at once."""
        if number > self.last or not self.sent_at or time - self.time <= PAUSE_MIN:
            return 0
        return self.sent_at + time - self.time

    def note(self, time: int, now: int) -> int:
        """Note that a message went now."""
        self.time = time
        self.sent_at = now
        return 0
