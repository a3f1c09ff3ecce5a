"""Messages that a consumer has delivered, and nobody has acknowledged yet: 32 bytes each.

    track(...)         a first delivery: its number is above all others
    check(...)         an ack names a message: its place in the table, or ABSENT
    ack(place)         it is done; `ack_through`: so is everything before it
    hurry, postpone    a nak; a nak with a delay, or progress
    expire(now, most)  what is due becomes ready, or has been delivered often enough
    next_ready()       the first that is to be delivered again; then `redeliver`

An entry is four words of 64 bits, and entries are sorted by their stream sequence:

    | stream sequence | consumer sequence | due | time, 32 bits | deliveries, 28 | flags, 4 |

A place is an index in that array. It holds until the next `track` or `ack`. An acked entry is
flagged; those at the front are passed, and when half of the array is flagged, it is compacted.

Three things say when an entry comes again. First deliveries are due in the order of the array, if
all wait equally long: `fifo` is the first that is not due. Whatever else waits is in a heap, as
(due, sequence); an element that does not agree with its entry any more is stale, and there are at
most twice as many as entries. What is due is in the queue of those that are ready, in that order:
by the time at which they were due, then by sequence.

Bound: 32 bytes for an entry, up to twice that after growth, and 48 for one that was delivered
again. The caller bounds the count (`max_ack_pending`).
"""

from typing import Any

import cython

if not cython.compiled:
    WORDS = 4  # of an entry
    SEQUENCE, NUMBER, DUE, REST = 0, 1, 2, 3
    DEAD, ODD, READY, NOTED = 1, 2, 4, 8
    FLAGS = 15
    ONE_DELIVERY = 16
    DELIVERIES = 268435455  # as many as are counted
    FLAG_BITS, TIME_BITS = 4, 32
    LOW = 4294967295
    ABSENT = -1
    NEVER = 9223372036854775807
    FEW = 16  # entries in the first array
    MANY = 1024  # entries that an empty table does not keep room for


class Words:
    """An array of words of 64 bits that grows. Written by its owner only."""

    def __init__(self, room: int) -> None:
        self.set_room(room)

    def set_room(self, room: int) -> int:
        """Begin anew with room for so many words."""
        self.buffer = bytearray(8 * room)
        self.room = room
        if cython.compiled:
            self.data = cython.cast("unsigned long long *", cython.cast("char *", self.buffer))
        else:
            self.data: memoryview[int] = memoryview(self.buffer).cast("Q")
        return 0

    def grow(self, room: int, start: int, stop: int) -> int:
        """Make room for so many words, and move those of `[start:stop]` to the beginning."""
        old = self.buffer
        self.set_room(room)
        self.buffer[: 8 * (stop - start)] = memoryview(old)[8 * start : 8 * stop]
        return 0


class DueHeap:
    """A heap of (due, sequence): the earliest is at the top, among equal ones the lowest."""

    def __init__(self) -> None:
        self.words = Words(0)
        self.size = 0

    def push(self, due: int, sequence: int) -> int:
        """Add an element."""
        if 2 * self.size == self.words.room:
            self.words.grow(max(2 * self.words.room, FEW), 0, 2 * self.size)
        data = self.words.data
        at = self.size
        self.size += 1
        while at > 0:
            above = (at - 1) >> 1
            if data[2 * above] < due or (
                data[2 * above] == due and data[2 * above + 1] <= sequence
            ):
                break
            data[2 * at] = data[2 * above]
            data[2 * at + 1] = data[2 * above + 1]
            at = above
        data[2 * at] = due
        data[2 * at + 1] = sequence
        return 0

    def drop_top(self) -> int:
        """Remove the element at the top."""
        self.size -= 1
        data, size = self.words.data, self.size
        due, sequence = data[2 * size], data[2 * size + 1]
        at = 0
        while True:
            below = 2 * at + 1
            if below >= size:
                break
            other = below + 1
            if other < size and (
                data[2 * other] < data[2 * below]
                or (
                    data[2 * other] == data[2 * below] and data[2 * other + 1] < data[2 * below + 1]
                )
            ):
                below = other
            if due < data[2 * below] or (
                due == data[2 * below] and sequence <= data[2 * below + 1]
            ):
                break
            data[2 * at] = data[2 * below]
            data[2 * at + 1] = data[2 * below + 1]
            at = below
        data[2 * at] = due
        data[2 * at + 1] = sequence
        if size == 0 and self.words.room > MANY:
            self.words.set_room(0)
        return 0

    def forget_all(self) -> int:
        """Remove all."""
        self.words.set_room(0)
        self.size = 0
        return 0


class PendingTable:
    """The table of one consumer. `count` messages are pending, `redelivered` of them not at first.

    With `kept`, it also remembers what has changed since the last `take_changes`.
    """

    def __init__(self, kept: bool) -> None:
        self.kept = kept
        self.words = Words(0)
        self.heap = DueHeap()
        self.ready = Words(0)
        self.gone: list[int] = []  # acked since the last note, which had them as pending
        self.again: list[int] = []  # the same, delivered again
        self.exhausted: list[tuple[int, int, int]] = []
        self.forget_all()

    def forget_all(self) -> None:
        """Forget everything; nothing of it counts as a change."""
        self.count = self.redelivered = 0
        self.front = self.end = self.fifo = 0
        self.ready_at = self.ready_end = 0
        self.noted = 0  # the last stream sequence that a note has
        self.words.set_room(0)
        self.heap.forget_all()
        self.ready.set_room(0)
        self.gone, self.again, self.exhausted = [], [], []

    # Entries

    def track(self, sequence: int, number: int, time: int, due: int) -> int:
        """Add a first delivery: both sequences, the message's time, when it is due."""
        if 4 * self.end == self.words.room:
            self._make_room()
        data, at = self.words.data, WORDS * self.end
        data[at] = sequence
        data[at + NUMBER] = number
        data[at + DUE] = due
        data[at + REST] = (time & LOW) << TIME_BITS | ONE_DELIVERY
        self.end += 1
        self.count += 1
        return 0

    def restore(self, sequence: int, number: int, time: int, deliveries: int, due: int) -> None:
        """Add a message that a note had, in the order of sequences."""
        self.track(sequence, number, time, due)
        at = WORDS * (self.end - 1) + REST
        flags = NOTED if deliveries == 1 else NOTED | ODD
        self.words.data[at] = (time & LOW) << TIME_BITS | deliveries << FLAG_BITS | flags
        if deliveries > 1:
            self.redelivered += 1
            self.heap.push(due, sequence)
        self.noted = sequence

    def find(self, sequence: int) -> int:
        """Return the place of a pending message, or `ABSENT`."""
        data, low, high = self.words.data, self.front, self.end
        while low < high:
            middle = (low + high) >> 1
            if data[WORDS * middle] < sequence:
                low = middle + 1
            else:
                high = middle
        if low == self.end or data[WORDS * low] != sequence:
            return ABSENT
        if data[WORDS * low + REST] & DEAD:
            return ABSENT
        return low

    def check(self, sequence: int, number: int, time: int, last: int) -> int:
        """Return the place of the message that an ack is for, or `ABSENT`.

        `number` must be the consumer sequence of its first delivery; or, if it was delivered again,
        one of those since, up to `last`. And the low bits of its time must agree: who never saw the
        message must guess them.
        """
        place = self.find(sequence)
        if place == ABSENT:
            return ABSENT
        data, at = self.words.data, WORDS * place
        rest, first = data[at + REST], data[at + NUMBER]
        if rest >> TIME_BITS != time & LOW:
            return ABSENT
        if number != first:
            if number < first or number > last:
                return ABSENT
            if (rest & LOW) >> FLAG_BITS == 1:
                return ABSENT
        return place

    def ack(self, place: int) -> int:
        """Take out a message."""
        data, at = self.words.data, WORDS * place
        rest = data[at + REST]
        data[at + REST] = rest | DEAD
        self.count -= 1
        if (rest & LOW) >> FLAG_BITS > 1:
            self.redelivered -= 1
        if self.kept and rest & NOTED:
            self.gone.append(data[at])
        if place == self.front:
            self._pass_dead()
        elif self.end - self.front > 2 * self.count + FEW:
            self._compact()
        return 0

    def ack_through(self, place: int) -> int:
        """Take out a message and all before it; return how many they were."""
        count = self.count
        sequence = self.words.data[WORDS * place]
        while self.count and self.words.data[WORDS * self.front] <= sequence:
            self.ack(self.front)
        return count - self.count

    def drop_below(self, sequence: int) -> int:
        """Take out all messages below a sequence; return how many they were."""
        count = self.count
        while self.count and self.words.data[WORDS * self.front] < sequence:
            self.ack(self.front)
        return count - self.count

    def first_sequence(self) -> int:
        """Return the lowest stream sequence that is pending. Only if there is one."""
        return self.words.data[WORDS * self.front]

    def first_number(self) -> int:
        """Return the consumer sequence of its first delivery."""
        return self.words.data[WORDS * self.front + NUMBER]

    def number_at(self, place: int) -> int:
        """Return the consumer sequence of a message's first delivery."""
        return self.words.data[WORDS * place + NUMBER]

    def deliveries_at(self, place: int) -> int:
        """Return how often a message was delivered."""
        return (self.words.data[WORDS * place + REST] & LOW) >> FLAG_BITS

    def due_at(self, place: int) -> int:
        """Return when a message comes again, unless it is acknowledged before."""
        return self.words.data[WORDS * place + DUE]

    def rows(self) -> list[tuple[int, int, int, int, int]]:
        """Return all pending messages: sequence, number, low bits of the time, deliveries, due."""
        data, found = self.words.data, []
        for place in range(self.front, self.end):
            at = WORDS * place
            rest = data[at + REST]
            if not rest & DEAD:
                deliveries = (rest & LOW) >> FLAG_BITS
                row = (data[at], data[at + NUMBER], rest >> TIME_BITS, deliveries, data[at + DUE])
                found.append(row)
        return found

    def memory(self) -> int:
        """Return the bytes of its arrays."""
        return 8 * (self.words.room + self.heap.words.room + self.ready.room)

    # When they come again

    def hurry(self, place: int) -> int:
        """Make a message ready at once, behind those that are."""
        data, at = self.words.data, WORDS * place
        if not data[at + REST] & READY:
            data[at + REST] = data[at + REST] | READY
            self._push_ready(data[at])
        return 0

    def postpone(self, place: int, due: int) -> int:
        """Make a message due at another time; if it was ready, it is not any more."""
        data, at = self.words.data, WORDS * place
        data[at + REST] = (data[at + REST] | ODD) & ~READY
        data[at + DUE] = due
        if self.heap.size > 2 * self.count + FEW:
            self._rebuild_heap()  # it has this one then
        else:
            self.heap.push(due, data[at])
        return 0

    def redeliver(self, place: int, due: int) -> int:
        """Count one more delivery of a message; return how many these are."""
        data, at = self.words.data, WORDS * place
        rest = data[at + REST]
        deliveries = (rest & LOW) >> FLAG_BITS
        if deliveries == 1:
            self.redelivered += 1
        if deliveries < DELIVERIES:
            deliveries += 1
            data[at + REST] = rest + ONE_DELIVERY
        if self.kept and rest & NOTED:
            self.again.append(data[at])
        if self.ready_at < self.ready_end and self.ready.data[self.ready_at] == data[at]:
            self.ready_at += 1
        self.postpone(place, due)
        return deliveries

    def expire(self, now: int, most: int) -> int:
        """Make ready what is due; return how many became ready.

        What was delivered `most` times (0: no limit) is taken out, and put into `exhausted`: its
        stream and consumer sequence, and its deliveries.
        """
        moved = 0
        while True:
            place = self._first_due()
            if place == ABSENT:
                break
            data, at = self.words.data, WORDS * place
            if data[at + DUE] > now:
                break
            if place == self.fifo:
                self.fifo += 1
            deliveries = (data[at + REST] & LOW) >> FLAG_BITS
            if most and deliveries >= most:
                self.exhausted.append((data[at], data[at + NUMBER], deliveries))
                self.ack(place)
            else:
                self.hurry(place)
                moved += 1
        return moved

    def give_up(self, most: int) -> None:
        """Take out what is ready, and was delivered `most` times (0: no limit) or more often."""
        for number, _, _, deliveries, _ in self.rows():
            place = self.find(number)
            rest = self.words.data[WORDS * place + REST]
            if 0 < most <= deliveries and rest & READY:
                self.exhausted.append((number, self.number_at(place), deliveries))
                self.ack(place)

    def next_due(self) -> int:
        """Return when the next message is due that is not ready yet; or `NEVER`."""
        place = self._first_due()
        return NEVER if place == ABSENT else self.words.data[WORDS * place + DUE]

    def last_due(self) -> int:
        """Return when the last of them is due; 0 if none is pending."""
        data, last = self.words.data, 0
        for place in range(self.front, self.end):
            at = WORDS * place
            if not data[at + REST] & DEAD and data[at + DUE] > last:
                last = data[at + DUE]
        return last

    def next_ready(self) -> int:
        """Return the sequence that is to be delivered again next; 0 if none is ready."""
        while self.ready_at < self.ready_end:
            sequence = self.ready.data[self.ready_at]
            place = self.find(sequence)
            if place != ABSENT and self.words.data[WORDS * place + REST] & READY:
                return sequence
            self.ready_at += 1
        return 0

    def count_ready(self) -> int:
        """Return how many are ready. It looks at all of them."""
        data, count = self.words.data, 0
        for place in range(self.front, self.end):
            if data[WORDS * place + REST] & (READY | DEAD) == READY:
                count += 1
        return count

    def set_waits(self, due_of: Any) -> None:
        """Make each message due at `due_of(due, deliveries)`: the waits have changed."""
        data = self.words.data
        for place in range(self.front, self.end):
            at = WORDS * place
            deliveries = (data[at + REST] & LOW) >> FLAG_BITS
            data[at + DUE] = max(due_of(data[at + DUE], deliveries), 0)
        self._rebuild_heap()

    # Notes

    def take_changes(self, floor: int) -> tuple[list[int], list[int], list[int]]:
        """Return what has changed since the last call: new messages, gone ones, redelivered ones.

        New: four numbers each, sequence and number as differences to those before, low bits of the
        time, deliveries. Gone: sequences above the floor. Redelivered: sequence and deliveries.
        """
        data, new, last, last_number = self.words.data, [], 0, 0
        for place in range(self._after_noted(), self.end):
            at = WORDS * place
            rest = data[at + REST]
            if not rest & DEAD:
                deliveries = (rest & LOW) >> FLAG_BITS
                new += [data[at] - last, data[at + NUMBER] - last_number]
                new += [rest >> TIME_BITS, deliveries]
                last, last_number = data[at], data[at + NUMBER]
                data[at + REST] = rest | NOTED
            self.noted = data[at]
        gone: list[int] = []
        for sequence in sorted(self.gone):
            if sequence > floor:
                gone.append(sequence)
        again: list[int] = []
        for sequence in sorted(set(self.again)):
            place = self.find(sequence)
            if place != ABSENT:
                again += [sequence, self.deliveries_at(place)]
        self.gone, self.again = [], []
        return new, gone, again

    def forget_notes(self) -> None:
        """Let the next note have everything, as if there had been none."""
        data = self.words.data
        for place in range(self.front, self.end):
            data[WORDS * place + REST] = data[WORDS * place + REST] & ~NOTED
        self.noted = 0
        self.gone, self.again = [], []

    def _after_noted(self) -> int:
        data, low, high = self.words.data, self.front, self.end
        while low < high:
            middle = (low + high) >> 1
            if data[WORDS * middle] <= self.noted:
                low = middle + 1
            else:
                high = middle
        return low

    # The array

    def _pass_dead(self) -> int:
        """Move the beginning to the first pending message."""
        data = self.words.data
        while self.front < self.end and data[WORDS * self.front + REST] & DEAD:
            self.front += 1
        if self.front == self.end:
            self.front = self.end = self.fifo = 0
            self.ready_at = self.ready_end = 0
            if self.heap.size:
                self.heap.forget_all()
            if self.words.room > MANY * WORDS:
                self.words.set_room(0)
                self.ready.set_room(0)
        elif self.fifo < self.front:
            self.fifo = self.front
        return 0

    def _make_room(self) -> int:
        """Make room for one more, at the end."""
        if 2 * self.count > self.end or self.end < FEW:
            room = max(2 * (self.end - self.front), FEW)
            self.words.grow(WORDS * room, WORDS * self.front, WORDS * self.end)
            self.fifo -= self.front
            self.end -= self.front
            self.front = 0
        else:
            self._compact()
        return 0

    def _compact(self) -> int:
        """Move the pending messages to the beginning of the array."""
        data, to, fifo = self.words.data, 0, 0
        for place in range(self.front, self.end):
            at = WORDS * place
            if place == self.fifo:
                fifo = to
            if not data[at + REST] & DEAD:
                data[WORDS * to] = data[at]
                data[WORDS * to + NUMBER] = data[at + NUMBER]
                data[WORDS * to + DUE] = data[at + DUE]
                data[WORDS * to + REST] = data[at + REST]
                to += 1
        self.fifo = to if self.fifo >= self.end else fifo
        self.front = 0
        self.end = to
        if self.words.room > MANY * WORDS and 8 * to * WORDS < self.words.room:
            self.words.grow(2 * max(to, FEW) * WORDS, 0, to * WORDS)
        return 0

    # The heap, and the queue of those that are ready

    def _first_due(self) -> int:
        """Return the place of the message that is due first, of those that are not ready."""
        data, heap = self.words.data, self.heap
        while self.fifo < self.end and data[WORDS * self.fifo + REST] & (DEAD | ODD | READY):
            self.fifo += 1
        odd = ABSENT
        while heap.size:
            odd = self.find(heap.words.data[1])
            if odd != ABSENT:
                at = WORDS * odd
                waits = data[at + REST] & (ODD | READY) == ODD
                if waits and data[at + DUE] == heap.words.data[0]:
                    break
            odd = ABSENT
            heap.drop_top()
        if self.fifo == self.end:
            return odd
        if odd == ABSENT:
            return self.fifo
        first, other = WORDS * self.fifo, WORDS * odd
        if data[other + DUE] < data[first + DUE]:
            return odd
        if data[other + DUE] == data[first + DUE] and odd < self.fifo:
            return odd
        return self.fifo

    def _rebuild_heap(self) -> int:
        data = self.words.data
        self.heap.forget_all()
        for place in range(self.front, self.end):
            at = WORDS * place
            if data[at + REST] & (DEAD | ODD | READY) == ODD:
                self.heap.push(data[at + DUE], data[at])
        return 0

    def _push_ready(self, sequence: int) -> int:
        if self.ready_end == self.ready.room:
            self._make_ready_room()
        self.ready.data[self.ready_end] = sequence
        self.ready_end += 1
        return 0

    def _make_ready_room(self) -> int:
        """Make room in the queue: what is stale goes, or stands there twice; then it grows."""
        data, words, to = self.ready.data, self.words.data, 0
        for at in range(self.ready_at, self.ready_end):
            place = self.find(data[at])
            if place != ABSENT and words[WORDS * place + REST] & READY:
                words[WORDS * place + REST] = words[WORDS * place + REST] & ~READY
                data[to] = data[at]
                to += 1
        for at in range(to):
            place = self.find(data[at])
            words[WORDS * place + REST] = words[WORDS * place + REST] | READY
        self.ready_at, self.ready_end = 0, to
        if 2 * to >= self.ready.room:
            self.ready.grow(max(2 * self.ready.room, FEW), 0, to)
        return 0
