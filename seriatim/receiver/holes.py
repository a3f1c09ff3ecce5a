"""Missing numbers, and the messages held after them: ranges in any order in, events in order out.

    delivered |-- hole --|-- behind --|-- hole --|-- behind --|      behind: events, in order
              ^ next                                          ^ top

Memory: at most `held_max` bytes are held, with a fixed overhead for each message and each hole. A
message that arrives when that is full is dropped and counted, and becomes a hole that is requested
when there is room again. The next message to deliver is always accepted.
"""

# Theory of operation
#
# The list `all` has the holes in order. Each has the events that come after it, up to the next one.
# What comes before the first hole can be delivered, so it is in `events` already:
#
#     ... events | hole 0 | behind 0 | hole 1 | behind 1 | ...                  | top
#                 ^ next                                   at the end: behind is empty, or
#                                                          there is no hole at all
#
# So a message in order costs an append (`_append`), and a heartbeat that shows missing numbers
# makes the last hole longer, or adds one (`miss`). Everything below `top` goes through `fill`: it
# puts events in the place of the numbers low to high - 1 of one hole. There are four cases:
#
#     |=========== hole ===========|  behind
#     |######## low..high #########|           the hole is deleted; what was behind it joins the
#                                              events of the hole before, or can be delivered
#     |## low..high ##|                        it begins later; the part joins the events before it
#                      |# low..high #|         it ends earlier; the part comes before its own events
#            |# low..high #|                   divided at `high`; then as the case above
#
# A lost range is filled in the same way, with one `MessagesLost` as its only event. That is why the
# rest of the receiver cannot tell a loss from a message: both come in their turn.
#
# The budget. `held` counts what must wait: events behind a hole, and HOLE_BYTES for each hole. A
# part that does not fit is dropped before anything has changed, and its numbers stay missing. If it
# was the answer to a request, asking for it again at once would only bring it back, to be dropped
# again: `full` then stops all requests but that of the first hole, until something is delivered.
# Filling the first hole from its start is never refused. It frees memory, and without it nothing
# would move.

from typing import Any

import cython

from sequencer.feed.feed_message import FeedMessage
from seriatim.receiver.events import Ended, MessagesLost, NewStream

if not cython.compiled:
    MESSAGE_BYTES = 128  # overhead of a message
    HOLE_BYTES = 256
    LOST_BYTES = 64
    INFINITY = float("inf")


class Hole:
    """Numbers `start` to `stop` - 1 are missing; `behind` holds the events after them."""

    def __init__(self, start: int, stop: int, due: float) -> None:
        self.start = start
        self.stop = stop
        self.due = due  # when to ask, or to ask again
        self.tries = 0  # since the last answer
        self.spent = 0  # of its tries: the sum of their weights
        self.behind: list[Any] = []
        self.bytes = 0  # in `behind`
        self.messages = 0  # in `behind`

    def hold(self, events: list[Any], size: int, count: int) -> int:
        """Hold events after those that are there; `size` bytes, `count` messages."""
        self.behind.extend(events)
        self.bytes += size
        self.messages += count
        return 0

    def end_at(self, stop: int, events: list[Any], size: int, count: int) -> int:
        """End earlier: these events, which follow then, come before those that are held."""
        self.stop = stop
        self.behind = events + self.behind
        self.bytes += size
        self.messages += count
        return 0

    def keep(self, events: list[Any], size: int, count: int) -> int:
        """Hold these events alone."""
        self.behind, self.bytes, self.messages = events, size, count
        return 0

    def split_at(self, stop: int) -> "Hole":
        """End before number `stop`; return the rest, with the events that follow."""
        rest = Hole(stop, self.stop, self.due)
        rest.tries, rest.spent = self.tries, self.spent
        rest.keep(self.behind, self.bytes, self.messages)
        self.keep([], 0, 0)
        self.stop = stop
        return rest

    def ask_again(self, due: float) -> int:
        """Ask at this time, and count the tries from the start."""
        self.due = due
        self.tries = self.spent = 0
        return 0


class Holes:
    """All holes of one stream. `patience` is the age in seconds at which a new hole is due."""

    def __init__(self, top: int, held_max: int, patience: float) -> None:
        self.all: list[Hole] = []
        self.top = top  # the number after the highest known; 0: none is known
        self.held_max = held_max
        self.patience = patience
        self.due = INFINITY  # no hole is due before this time
        self.full = False  # only the next message is requested until something is delivered
        self.held = 0
        self.events: list[Any] = []  # ready to be delivered
        self.pending = 0  # bytes of `events`
        self.messages = self.duplicates = self.late = self.filled = 0
        self.found = self.lost = self.dropped = 0

    def next(self) -> int:
        """Return the number to be delivered next; 0 if it is not known."""
        if self.all:
            hole: Hole = self.all[0]
            return hole.start
        return self.top

    def drain(self) -> list[Any]:
        """Return the events that can be delivered now; each is returned once."""
        events, self.events = self.events, []
        self.pending = 0
        return events

    def cover(
        self, start: int, stop: int, messages: list[FeedMessage], now: float, again: float
    ) -> int:
        """Take all the messages there are of numbers `start` to `stop` - 1.

        `again` is when to ask for the rest of a hole; if it is infinite, they are not an answer.
        """
        top = self.top
        if start >= top:
            return self._append(start, stop, messages, now)
        if stop > top:
            at = _place(messages, top)
            rest = messages[at:]
            self._patch(start, top, messages[:at], again)
            return self._append(top, stop, rest, now)
        return self._patch(start, stop, messages, again)

    def cover_each(self, messages: list[FeedMessage], now: float) -> int:
        """Take messages that each cover only their own number."""
        count = len(messages)
        if count == 0:
            return 0
        first, last = _number(messages, 0), _number(messages, count - 1)
        if last - first == count - 1:
            return self.cover(first, last + 1, messages, now, INFINITY)
        for at in range(count):
            first = _number(messages, at)
            self.cover(first, first + 1, [messages[at]], now, INFINITY)
        return 0

    def miss(self, stop: int, now: float) -> int:
        """Record that numbers from the top up to `stop` - 1 were published but are not here."""
        if self.all:
            last: Hole = self.all[len(self.all) - 1]
            if last.stop == self.top and not last.behind:
                last.stop = self.top = stop
                return 0
        due = now + self.patience
        self.all.append(Hole(self.top, stop, due))
        self.held += HOLE_BYTES
        self.found += 1
        self.due = min(self.due, due)
        self.top = stop
        return 0

    def lose(self, first: int, last: int) -> int:
        """Give up the missing numbers from `first` to `last`: they are lost."""
        at = self.find(first)
        while at < len(self.all):
            hole: Hole = self.all[at]
            if hole.start > last:
                break
            low, high = max(first, hole.start), min(last + 1, hole.stop)
            at = self.fill(at, low, high, [MessagesLost(low, high - 1)], INFINITY)
        return 0

    def lose_all(self) -> int:
        """Give up all missing numbers: they are lost, and nothing is held any more."""
        for at in range(len(self.all)):
            hole: Hole = self.all[at]
            self.lost += hole.stop - hole.start
            self._emit_lost(hole.start, hole.stop - 1)
            self._emit_behind(hole)
        self.all = []
        self.held = 0
        self.full = False
        self.due = INFINITY
        return 0

    def cut(self, stop: int) -> int:
        """Forget everything from number `stop` on that was not delivered: it was wrong."""
        while self.all:
            hole: Hole = self.all[len(self.all) - 1]
            self._let_go(hole, stop)
            if hole.start < stop:
                hole.stop = min(hole.stop, stop)
                self.top = stop
                return 0
            self.top = hole.start
            self.held -= HOLE_BYTES
            del self.all[len(self.all) - 1]
        return 0

    def _let_go(self, hole: Hole, stop: int) -> int:
        """Drop what is held after a hole from number `stop` on."""
        kept = [event for event in hole.behind if _place_of(event) < stop]
        size = _size(kept)
        messages = sum(isinstance(event, FeedMessage) for event in kept)
        self.held += size - hole.bytes
        self.dropped += hole.messages - messages
        hole.keep(kept, size, messages)
        return 0

    def end(self, event: Ended | NewStream) -> int:
        """Put an event after everything known."""
        if self.all:
            hole: Hole = self.all[len(self.all) - 1]
            hole.behind.append(event)
        else:
            self.events.append(event)
        return 0

    def fill(self, at: int, low: int, high: int, part: list[Any], again: float) -> int:
        """Put events in the place of numbers `low` to `high` - 1 of a hole.

        Return the index of the next hole to look at.
        """
        hole: Hole = self.all[at]
        size = _size(part)
        count = _count(part)
        # What can be delivered at once takes no room. All else must fit, or is dropped here, while
        # nothing has changed yet.
        if at or low > hole.start:
            need = size
            if low == hole.start and high == hole.stop:
                need -= HOLE_BYTES
            elif low > hole.start and high < hole.stop:
                need += HOLE_BYTES
            if need > 0 and self.held + need > self.held_max:
                self.dropped += count
                if at and again < INFINITY:
                    hole.ask_again(0.0)  # when there is room
                    self.full = True
                return at + 1
        if count < len(part):
            self.lost += high - low
        if again < INFINITY:
            hole.ask_again(again)
            self.due = min(self.due, again)
        if low > hole.start:
            if high < hole.stop:
                self.divide(at, hole, high)
            hole.end_at(low, part, size, count)
            self.held += size
            return at + 1
        if high < hole.stop:
            hole.start = high
            self._put(at, part, size, count)
            return at + 1
        del self.all[at]
        self.held -= HOLE_BYTES
        self._put(at, part, size, count)
        if at == 0:
            self._emit_behind(hole)
        else:
            before: Hole = self.all[at - 1]
            before.hold(hole.behind, hole.bytes, hole.messages)
        return at

    def divide(self, at: int, hole: Hole, stop: int) -> int:
        """Split a hole before number `stop`."""
        self.all.insert(at + 1, hole.split_at(stop))
        self.held += HOLE_BYTES
        return 0

    def find(self, number: int) -> int:
        """Return the index of the first hole that ends after `number`."""
        low, high = 0, len(self.all)
        while low < high:
            middle = (low + high) // 2
            hole: Hole = self.all[middle]
            if hole.stop > number:
                high = middle
            else:
                low = middle + 1
        return low

    def _append(self, start: int, stop: int, messages: list[FeedMessage], now: float) -> int:
        """Take all the messages there are of numbers from the top on."""
        count = len(messages)
        size = _size(messages)
        if start == self.top and not self.all:
            self.top = stop
            self.messages += count
            self.pending += size
            self.events.extend(messages)
            return 0
        need = size + HOLE_BYTES if start > self.top else size
        if need and self.held + need > self.held_max:
            self.dropped += count
            return self.miss(stop, now)
        if start > self.top:
            self.miss(start, now)
        hole: Hole = self.all[len(self.all) - 1]
        hole.hold(messages, size, count)
        self.held += size
        self.top = stop
        return 0

    def _patch(self, start: int, stop: int, messages: list[FeedMessage], again: float) -> int:
        """Take all the messages there are of numbers below the top; some numbers may be missing."""
        count = len(messages)
        used = begin = 0
        dropped = self.dropped
        at = self.find(start)
        while at < len(self.all):
            hole: Hole = self.all[at]
            if hole.start >= stop:
                break
            low, high = max(start, hole.start), min(stop, hole.stop)
            while begin < count and _number(messages, begin) < low:
                begin += 1
            end = begin
            while end < count and _number(messages, end) < high:
                end += 1
            part = messages if begin == 0 and end == count else messages[begin:end]
            used += end - begin
            begin = end
            at = self.fill(at, low, high, part, again)
        used -= self.dropped - dropped
        if again < INFINITY:
            self.filled += used
        else:
            self.duplicates += count - used
            self.late += used
        return 0

    def _put(self, at: int, part: list[Any], size: int, count: int) -> int:
        """Put events before hole `at`: after the hole before it, or among those to be delivered."""
        if not part:
            return 0
        if at:
            before: Hole = self.all[at - 1]
            before.hold(part, size, count)
            self.held += size
        elif count:
            self.events.extend(part)
            self.messages += count
            self.pending += size
        else:
            lost = part[0]
            self._emit_lost(lost.first, lost.last)
        return 0

    def _emit_behind(self, hole: Hole) -> int:
        self.events.extend(hole.behind)
        self.messages += hole.messages
        self.pending += hole.bytes
        self.held -= hole.bytes
        if self.full:
            self.full = False
            self.due = 0.0
        return 0

    def _emit_lost(self, first: int, last: int) -> int:
        """Emit one event for consecutive lost numbers."""
        if self.events:
            before = self.events[len(self.events) - 1]
            if isinstance(before, MessagesLost) and before.last + 1 == first:
                before.last = last
                return 0
        self.events.append(MessagesLost(first, last))
        self.pending += LOST_BYTES
        return 0


def _place_of(event: Any) -> int:
    """Return the first number that an event after a hole is about."""
    if isinstance(event, FeedMessage):
        message: FeedMessage = event
        return message.number
    return event.first if isinstance(event, MessagesLost) else event.after - 1


def _number(messages: list[FeedMessage], at: int) -> int:
    message: FeedMessage = messages[at]
    return message.number


def _place(messages: list[FeedMessage], number: int) -> int:
    """Count the messages before `number`."""
    at = 0
    while at < len(messages) and _number(messages, at) < number:
        at += 1
    return at


def _size(part: list[Any]) -> int:
    """Return the bytes that messages, or a loss, occupy."""
    size = 0
    for at in range(len(part)):
        if isinstance(part[at], FeedMessage):
            message: FeedMessage = part[at]
            size += MESSAGE_BYTES + len(message.payload) + len(message.subject)
            size += len(message.headers)
        else:
            size += LOST_BYTES
    return size


def _count(part: list[Any]) -> int:
    """Count the messages: the only other event in a hole is a single loss."""
    return 0 if part and not isinstance(part[0], FeedMessage) else len(part)
