"""Decides how far apart the gatherer's turns begin, so that one release serves several messages.

delay(now)   before a turn: the seconds to sleep first; mostly 0
end(...)     after a turn: what it read, and what its release cost
"""

# Theory of operation: dense turns
#
# A release costs some 3 us for each subscriber's socket, however little it sends. At 20 000 small
# messages a second to ten subscribers, a turn for each would spend most of its time on releases.
# So turns keep a distance, as network cards moderate their interrupts:
#
#     turn        turn        turn              turn             turn
#     |-release-| |-release-| |-release-|.......|-release-|......|-release-|
#                             <------ gap ------>                the messages of a gap, in one
#       dense: turns begin    gap = 4 x release, at most `gather_us`
#       within their gaps
#
# The gap follows the cost: releases take a quarter of the time, whatever the rate, the number of
# subscribers or the machine. A turn that has read much (`SMALL_TURN`) has no gap, because there its
# release is a small part. `dense` counts turns that begin within their gaps, and falls quickly with
# those that do not. So a lone message or a burst of a few messages finds no gap: before eight turns
# in a row, nothing waits.
#
# A client that sends its next message only when the last has arrived makes dense turns, too. There
# a gap gathers nothing and only delays. Nothing on one connection shows this, because messages
# may go out by another. The amount shows it: an open stream brings twice as much in a whole gap as
# in half of one, while clients that wait bring the same, each its one message. So gaps are tried
# first:
#
#     TRY      `TRIAL` turns: no gap, half of one, a whole one, and again. Do whole ones bring a
#              third more than halves, and 2.5 times as much as none?
#     GATHER   yes: whole gaps, for `GATHER_TURNS`; then try again
#     REST     no: no gaps, for `rest` dense turns, twice as many each time; then try again
#
# The messages of a gap stay in their sockets. So nothing is held that has a number, and no message
# waits longer than a gap. Sleeping, and not waiting in epoll_wait, is the point: each message
# that comes would end that wait.

import cython

if not cython.compiled:
    TRY, GATHER, REST = range(3)

GAP_TIMES = 4  # turns begin this many times the cost of a release apart, while they are dense
SLEEP_MIN_S = 20e-6  # a shorter sleep costs about as much as it saves
WHOLE = 2  # halves
DENSE_FROM, DENSE_MAX, DENSE_LOSS = 8, 16, 4
SMALL_TURN = 1 << 16  # bytes read: a turn with as many is worth its release
BLOCK = 8
TRIAL = 6 * BLOCK  # turns: enough that uneven sizes and arrivals even out
GATHER_TURNS = 1024
# Dense turns without gaps. With the longest rest one turn in 250 has a gap, so even the p99 of
# clients that wait for each answer is without one.
REST_MIN, REST_MAX = 512, 8192


class TurnPace:
    """The pace of one gatherer's turns. Times are in seconds of a monotonic clock."""

    def __init__(self, gap_max: float) -> None:
        """`gap_max`: the longest gap between the beginnings of two turns; 0: never wait."""
        self.gap_max = gap_max
        self.gap = 0.0  # seconds that should lie between the last turn's beginning and the next
        self.begun = 0.0  # when the last turn began
        self.dense = 0  # how steadily turns begin within their gaps
        self.phase = TRY
        self.left = TRIAL  # turns until the phase ends
        self.rest = REST_MIN
        self.halves = 0  # of a gap, before the next turn that could have one
        self.counts = False  # the turn under way is one of the phase
        self.after_none = self.after_half = self.after_whole = 0  # bytes read in the trial's turns

    def delay(self, now: float) -> float:
        """Return how long to sleep before the turn that could begin now; 0: not at all."""
        if self.gap <= 0:
            return 0
        if now - self.begun >= self.gap:
            self.dense = max(self.dense - DENSE_LOSS, 0)
            return 0
        self.dense = min(self.dense + 1, DENSE_MAX)
        if self.dense < DENSE_FROM:
            return 0
        if self.phase == REST:
            self.left -= 1
            if self.left <= 0:
                self._begin(TRY, TRIAL)
            return 0
        self.counts = True
        early = self.begun + self.gap * self.halves / 2 - now
        return max(early, SLEEP_MIN_S) if early > 0 else 0

    def end(self, begun: float, served: float, now: float, size: int) -> int:
        """Learn from a turn from `begun` to `now`. It read `size` bytes, until `served`."""
        self.begun = begun
        small = 1 - size / SMALL_TURN
        self.gap = min(GAP_TIMES * (now - served) * small, self.gap_max) if small > 0 else 0
        if not self.counts:
            return 0
        self.counts = False
        if self.phase == TRY:
            if self.halves == 0:
                self.after_none += size
            elif self.halves == 1:
                self.after_half += size
            else:
                self.after_whole += size
            if self.left % BLOCK == 1:
                self.halves = (self.halves + 1) % 3
        self.left -= 1
        if self.left <= 0:
            self._go_on()
        return 0

    def _go_on(self) -> int:
        """End a phase that had gaps: try again, or decide by the trial."""
        if self.phase == GATHER:
            self._begin(TRY, TRIAL)
        elif self.after_whole >= max(self.after_half * 4 // 3, self.after_none * 5 // 2):
            self.rest = REST_MIN
            self._begin(GATHER, GATHER_TURNS)
        else:
            self._begin(REST, self.rest)
            self.rest = min(self.rest * 2, REST_MAX)
        return 0

    def _begin(self, phase: int, turns: int) -> int:
        self.phase, self.left = phase, turns
        self.after_none = self.after_half = self.after_whole = 0
        self.halves = 0 if phase == TRY else WHOLE
        return 0
