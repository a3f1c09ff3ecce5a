"""A connection as the data plane sees it: what its client chose, and its outbox.

The outbox is one buffer that deliveries are copied into, and behind a client that does not
read a queue of full buffers, `waiting`. Every buffer ends at the end of a message, so what is
handed to the transport always does, and an error can be told between two messages.

    deliver -> buffer --(full, client reads)--> flushed by the plane, used again
                     `-(full, client stalls)-> waiting ... up to max_pending, then cut off

Memory: nothing while idle (the plane lends buffers), `max_pending` and one buffer at most; of all
links together what their `budget` says.

What shows a number that is not safe yet stays behind a fence until it is: positions in all
that was ever put into the outbox.   passed ... allowed ... sealed ... passed + held
"""

# Theory of operation: the fence
#
# A subscriber may see a number only when the journal has it as safely as the settings say. With
# `sync = always` a message is written to the file at once and is safe some milliseconds later, when
# a thread has synced it. Until then it lies in the outbox, and everything behind it too, for a
# client's bytes keep their order. What lies before it may go. The fence is the border.
#
# Positions count all bytes that were ever put into this outbox, from the connection's beginning.
# They only grow, so they stay true while bytes leave, move to a new buffer, or are forgotten:
#
#      written to the socket | may go            | fenced, next to be let out | fenced
#     -----------------------+-------------------+----------------------------+-----------------
#                            ^ passed            ^ allowed                    ^ sealed          ^
#                                                                                        position()
#
#     passed <= allowed <= sealed <= position()        while `fenced`; else all of it may go
#
#     mark        where the outbox ended when it became dirty: nothing before it shows a new number
#     raise_fence a release finds that what was written is not safe: allowed = sealed = mark
#     deliver     grows position(), and nothing else: what comes behind a fence waits with the rest
#     seal        the keeper begins a sync of all that is written by now: sealed = position()
#     lower_fence that sync is done: allowed = sealed. The fence is gone if nothing came meanwhile
#
# So two syncs are never needed for one message, and a message that comes during a sync waits for
# the next one: what was sealed before it came does not include it. An outbox that shows no number
# since its release (PONG, +OK, messages without a number) is never fenced, only what comes behind.

from collections import deque
from collections.abc import Callable
from typing import Any

import cython

from broker.dataplane.frame import Frame
from parser.machine import Parser

if cython.compiled:
    from cython.cimports.broker.dataplane.frame import (
        BARE,
        BARE_HEADERS,
        FRAMED,
        FRAMED_HEADERS,
        NUMBERED_HEADERS,
    )
    from cython.cimports.libc.string import memcpy
else:
    from broker.dataplane.frame import BARE, BARE_HEADERS, FRAMED, FRAMED_HEADERS, NUMBERED_HEADERS

    BUFFER_MIN = 4096
    SEGMENT = 262144  # a buffer is not grown beyond this, unless for one message


class Budget:
    """What all outboxes hold together, and may hold; 0 is no limit."""

    def __init__(self, limit: int = 0) -> None:
        self.limit = limit
        self.bytes = 0

    def is_exceeded(self) -> bool:
        """Whether they hold too much."""
        return self.limit != 0 and self.bytes > self.limit


class Connection:
    """Written by the data plane; the options by the conversation; `writable` by the session."""

    def __init__(
        self, session: Any, parser: Parser, max_pending: int, budget: Budget | None = None
    ) -> None:
        self.session = session
        self.parser = parser
        self.subs: dict[bytes, Any] = {}
        self.buffer = bytearray()
        self.data = self.buffer
        self.size = self.end = 0
        self.waiting: deque[memoryview] | None = None
        self.waiting_bytes = 0
        self.max_pending = max_pending
        self.budget = Budget() if budget is None else budget
        self.passed = 0  # bytes written to the transport so far, or dropped
        self.mark = 0  # where what this read event brings begins
        self.fenced = False  # in the plane's list; nothing beyond `allowed` may pass
        self.allowed = self.sealed = 0
        self.numbered = False  # a number was put in since the last release
        self.detached = False  # served from the journal; live messages pass it by
        self.deferred_numbers = (
            0  # numbers that its members of queue groups still get from the journal
        )
        self.origin = 0  # who it is in the journal's records
        self.dirty = False  # in the plane's list of links to flush
        self.writable = True  # the socket takes what is written
        self.lagging = False  # has held its publishers as long as one may
        self.closed = False  # takes no more deliveries, but for what there is room for
        self.shutting = False  # takes nothing at all
        self.verbose = self.pedantic = self.echo = True
        self.headers = self.no_responders = False
        self.chatty = True
        self.in_msgs = self.in_bytes = self.out_msgs = self.out_bytes = 0
        self.settle("netstring")

    def settle(self, frame: str) -> None:
        """Take on a frame, and derive from all options what the data plane looks at."""
        self.frame = frame
        self.chatty = self.verbose or self.pedantic
        self.parser.headers = self.headers
        if frame == "netstring":
            self.shape = FRAMED
            self.headed_shape = FRAMED_HEADERS
        elif frame == "header" and self.headers:
            self.shape = self.headed_shape = NUMBERED_HEADERS
        else:
            self.shape = BARE
            self.headed_shape = BARE_HEADERS

    def deliver(
        self, frame: Frame, data: bytes | bytearray, payload: int, size: int, counted: int
    ) -> bool:
        """Append line and head, `size` bytes of `data` from `payload` on, and tail.

        False, and nothing appended, if there is no room. `counted` goes to `out_bytes`.
        """
        end = self.end
        head = frame.end - frame.start
        if self.size - end < head + size + 4:  # a tail has at most four bytes
            return False
        if cython.compiled:
            to = self.data + end
            memcpy(to, frame.data + frame.start, head)
            memcpy(to + head, data + payload, size)
            memcpy(to + head + size, frame.tail, 4)  # of fixed size: one move, no call
        else:
            text = frame.buffer[frame.start : frame.end]
            text += data[payload : payload + size]
            text += frame.tail
            self.data[end : end + len(text)] = text
        self.end = end + head + size + frame.tail_size
        self.out_msgs += 1
        self.out_bytes += counted
        return True

    def write(self, text: bytes) -> bool:
        """Append what is no message; False, and nothing appended, if there is no room."""
        size = len(text)
        if self.size - self.end < size:
            return False
        if cython.compiled:
            memcpy(self.data + self.end, cython.cast("const unsigned char *", text), size)
        else:
            self.data[self.end : self.end + size] = text
        self.end += size
        return True

    def held(self) -> int:
        """Bytes that have not been written to the transport."""
        return self.waiting_bytes + self.end

    def kept(self) -> int:
        """Bytes of memory for that."""
        return self.waiting_bytes + len(self.buffer)

    def buffered(self) -> int:
        """Bytes in the buffer that is being filled."""
        return self.end

    def make_room(self, need: int, spare: list[bytearray]) -> bool:
        """Make room for so many more bytes; False if that would be more than `max_pending`.

        An empty outbox takes any one message: the largest is bounded by its own limit.
        """
        held = self.waiting_bytes + self.end
        if self.closed or (held and held + need > self.max_pending):
            return False
        if self.end == 0 and spare and len(spare[len(spare) - 1]) >= need:
            self._adopt(spare.pop())
            return True
        if self.end >= SEGMENT or (self.end and self.end + need > SEGMENT):
            if self.waiting is None:
                self.waiting = deque()
            kept = self.buffer
            if 4 * self.end < 3 * len(kept):  # the unused rest would be kept, and not counted
                kept = kept[: self.end]
            self.waiting.append(memoryview(kept)[: self.end])
            self.waiting_bytes += self.end
            self.budget.bytes += self.end
            self.end = 0
            self.size = 0
        size = self.size * 2 if self.size else BUFFER_MIN
        while size < self.end + need:
            size *= 2
        buffer = bytearray(size)
        if self.end:
            buffer[: self.end] = memoryview(self.buffer)[: self.end]
        self._adopt(buffer)
        return True

    def take_buffer(self) -> bytearray:
        """Give away the buffer, which the caller has emptied."""
        buffer = self.buffer
        self._adopt(bytearray())
        self.end = 0
        return buffer

    def _emptied(self, count: int) -> None:
        """The first `count` bytes of the buffer were written, or handed over as a copy."""
        if count < self.end:
            self.buffer[: self.end - count] = self.buffer[count : self.end]
        self.end -= count
        self.passed += count
        if self.shutting:
            self.size = self.end

    def _next_waiting(self) -> memoryview | None:
        """Take the oldest full buffer, as far as it may pass, out of the queue."""
        if not self.waiting:
            return None
        view: memoryview = self.waiting[0]
        size = self._passable(len(view))
        if size == 0:
            return None
        if size == len(view):
            self.waiting.popleft()
        else:
            self.waiting[0] = view[size:]
            view = view[:size]
        self.waiting_bytes -= size
        self.budget.bytes -= size
        self.passed += size
        return view

    def drain(self, write: Callable[[memoryview], object], stalled: bool = False) -> None:
        """Hand what may pass to `write`, while the socket takes it; or all, though it is stalled.

        A view is good until `write` returns: the buffer is used again.
        """
        while self.writable or stalled:
            view = self._next_waiting()
            if view is None:
                break
            write(view)
        size = self._passable(self.end)
        if size and (self.writable or stalled):
            with memoryview(self.buffer)[:size] as unsent:
                write(unsent)
            self._emptied(size)

    def shut(self) -> None:
        """Take no more of anything: what is here may still go out."""
        self.closed = self.shutting = True
        self.detached = False  # nor does the journal serve it any more
        self.size = self.end

    def drop_output(self) -> None:
        """Forget all that has not been written; what comes next begins a new message."""
        self.passed += self.waiting_bytes + self.end
        self.budget.bytes -= self.waiting_bytes
        self.waiting = None
        self.waiting_bytes = 0
        self.end = 0
        self._adopt(bytearray())

    # The fence

    def position(self) -> int:
        """How much was ever put into the outbox."""
        return self.passed + self.waiting_bytes + self.end

    def raise_fence(self) -> None:
        """Nothing that came since `mark` may pass."""
        self.fenced = True
        self.allowed = self.sealed = self.mark

    def seal(self) -> None:
        """What is here by now may pass at the next `lower_fence`."""
        self.sealed = self.position()

    def lower_fence(self) -> bool:
        """What was sealed may pass; whether nothing is fenced any more."""
        self.allowed = self.sealed
        self.fenced = self.allowed < self.position()
        return not self.fenced

    def _passable(self, size: int) -> int:
        """How much of the next `size` bytes may pass."""
        if self.fenced and self.passed + size > self.allowed:
            return max(self.allowed - self.passed, 0)
        return size

    def part(self) -> None:
        """The connection has gone: hold on to nothing of it, whoever still holds the link."""
        self.drop_output()
        self.session = None

    def _adopt(self, buffer: bytearray) -> None:
        self.budget.bytes += len(buffer) - len(self.buffer)
        self.buffer = buffer
        self.data = self.buffer
        self.size = len(buffer)
