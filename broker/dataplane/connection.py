"""The data plane's part of a connection: the client's options, and its outbox.

Deliveries are copied into the outbox's current buffer. If a client does not read, full buffers
wait in the queue `waiting`, to be sent first. Every buffer ends at the end of a message, and so
does the transport's data: an error message can always be put between two messages.

    deliver -> buffer --(full, client reads)--> flushed by the plane, used again
                      `-(full, client stalls)-> waiting ... up to max_pending, then cut off

Memory: none while idle (the plane lends buffers), and at most `max_pending` plus one buffer. The
shared `budget` limits all connections together, including the data in their transports.

Bytes that show a number that is not safe yet stay behind a fence. Its positions count all bytes
ever put into the outbox:   sent_pos ... allowed_pos ... sealed_pos ... sent_pos + held
"""

# Theory of operation: the fence
#
# A subscriber may see a number only when it is in the journal as safely as the settings ask. With
# `sync = always`, a message is written to the file at once, and is safe some milliseconds later,
# when a thread has synced it. Until then it stays in the outbox, and so does everything after it,
# because a client's bytes must stay in order. The bytes before it may go. The fence is the border.
#
# Positions count all bytes that were ever put into this outbox. They only grow, so they stay valid
# while bytes are sent, moved to a new buffer, or dropped:
#
#      written to the socket | may go            | fenced, next to be let out | fenced
#     -----------------------+-------------------+----------------------------+-----------------
#                            ^ sent_pos          ^ allowed_pos                ^ sealed_pos      ^
#                                                                                        position()
#
#     sent_pos <= allowed_pos <= sealed_pos <= position()    while `fenced`; else all of it may go
#
#     turn_start   the end of the outbox when it became dirty: nothing before it shows a new number
#     raise_fence  a release finds that the written records are not safe:
#                  allowed_pos = sealed_pos = turn_start
#     deliver      only position() grows: bytes after a fence wait with the rest
#     seal         the keeper begins to sync everything written so far: sealed_pos = position()
#     lower_fence  that sync is done: allowed_pos = sealed_pos. Without newer bytes it is gone
#     overtake     while the disk fails, text without a number is put before `allowed_pos`, which
#                  grows
#
# So no message needs two syncs, and a message that comes during a sync waits for the next one: it
# came after the seal. An outbox without a new number since its last release (PONG, +OK, messages
# without a number) gets no fence; it only waits for an older one.

from collections import deque
from collections.abc import Callable
from typing import cast

import cython

from broker.dataplane.client_session import ClientSession
from broker.dataplane.frame import Frame
from broker.dataplane.guard import Guard, OpenRequests
from parser.machine import Parser
from sublist.subscription import Subscription

if cython.compiled:
    from cython.cimports.broker.dataplane.frame import (
        BARE,
        BARE_HEADERS,
        FRAMED,
        FRAMED_HEADERS,
        NUMBERED_HEADERS,
        STAMPED_HEADERS,
    )
    from cython.cimports.libc.string import memcpy
else:
    from broker.dataplane.frame import (
        BARE,
        BARE_HEADERS,
        FRAMED,
        FRAMED_HEADERS,
        NUMBERED_HEADERS,
        STAMPED_HEADERS,
    )

    BUFFER_MIN = 4096
    SEGMENT = 262144  # a buffer grows beyond this only for a single message
    LARGE_STEP = 65536  # large buffers have multiples of it, so that one can replace another
    SPARE_MAX = 1 << 25  # bytes of all spare buffers together, and of one
    SPARE_LARGEST = 1 << 21
    LOOKED_AT = 4  # spare buffers


def unset_bytes(size: int) -> bytearray:
    """Return a buffer whose bytes are not set: whoever fills it must count what it has filled."""
    if cython.compiled:
        return PyByteArray_FromStringAndSize(cython.NULL, size)
    else:
        return bytearray(size)


def is_viewed(buffer: bytearray) -> bool:
    """True if there is a memoryview of a buffer."""
    if cython.compiled:
        return exports_of(buffer) > 0
    else:
        try:
            buffer.append(0)
        except BufferError:
            return True
        del buffer[-1:]
        return False


def whole_steps(size: int) -> int:
    """Round the size of a large buffer up."""
    return size if size <= LARGE_STEP else (size + LARGE_STEP - 1) // LARGE_STEP * LARGE_STEP


class Budget:
    """The bytes that all outboxes and transports hold together, and their limit; 0: none."""

    def __init__(self, limit: int = 0) -> None:
        self.limit = limit
        self.bytes = 0

    def is_exceeded(self) -> bool:
        """True if the bytes exceed the limit."""
        return self.limit != 0 and self.bytes > self.limit


class SpareBuffers:
    """The buffers of outboxes that were sent, and of long messages that were served, to be reused.

    A turn's fan-out to 100 subscribers uses 100 of them. The last one is in the cache.
    """

    def __init__(self) -> None:
        self.buffers: list[bytearray] = []
        self.bytes = 0

    def take(self, need: int, most: int) -> bytearray:
        """Return a buffer of `need` to `most` bytes if one of the last is, else a new one."""
        at = len(self.buffers)
        last = at - LOOKED_AT
        while at > 0 and at > last:
            at -= 1
            buffer = cython.cast(bytearray, self.buffers[at])
            if need <= len(buffer) <= most:
                self.bytes -= len(buffer)
                del self.buffers[at]
                return buffer
        return unset_bytes(need)

    def keep(self, buffer: bytearray) -> None:
        """Keep a buffer that is empty now, unless there are enough, or a view of it is left."""
        if is_viewed(buffer):
            return
        size = len(buffer)
        if size <= SPARE_LARGEST and self.bytes + size <= SPARE_MAX:
            self.buffers.append(buffer)
            self.bytes += size

    def drop(self) -> None:
        """Free all of them."""
        self.buffers = []
        self.bytes = 0


class Connection:
    """The outbox and the options of one client.

    The data plane writes it, except that control sets the options, and the session `writable`.
    """

    def __init__(
        self, session: ClientSession, parser: Parser, max_pending: int, budget: Budget | None = None
    ) -> None:
        self.session = session
        self.fd = -1  # its socket, while the gate may send there
        self.parser = parser
        self.subs: dict[bytes, Subscription] = {}
        self.answered: Subscription | None = None  # the one that got the last answer
        self.buffer = bytearray()
        self.data = self.buffer
        self.size = self.end = 0
        self.waiting: deque[memoryview] | None = None
        self.waiting_bytes = 0
        self.unsent = 0  # bytes in its transport, as last noted
        self.max_pending = max_pending
        self.budget = Budget() if budget is None else budget
        self.sent_pos = 0  # bytes written to the transport so far, or dropped
        self.turn_start = 0  # where the bytes of this turn begin
        self.fenced = False  # in the gate's list; nothing after `allowed_pos` may be sent
        self.allowed_pos = self.sealed_pos = 0
        self.shows_number = False  # a number was put in since the last release
        self.most_numbered = 0  # bytes of numbered messages that it held at most, of late
        self.detached = False  # served from the journal; it gets no live messages
        # Numbers that its members of queue groups still get from the journal.
        self.deferred_numbers = 0
        self.stranger = False  # it must authenticate first
        self.guard: Guard | None = None  # its permissions; None: all
        self.requests: OpenRequests | None = None  # the requests that it may respond to
        self.origin = 0  # identifies the publisher in the journal's records
        self.placed = 0  # in a cluster, the place of its newest publish in the forward table
        self.awaited = 0  # in a cluster, its answers that wait
        self.keeps_order = False  # it has published to `$SEQ.ORDERED`
        self.halted = b""  # why what it publishes to `$SEQ.PUB.` is refused until it does so again
        self.dirty = False  # in the gate's list of connections to flush
        self.reading = False  # in the gate's list of connections read in this turn
        self.writable = True  # the transport's buffer is empty
        self.lagging = False  # it has held its publishers for as long as allowed
        self.closed = False  # takes no new deliveries, except into room it already has
        self.shutting = False  # takes nothing at all
        self.verbose = self.pedantic = self.echo = True
        self.headers = self.no_responders = False
        self.chatty = True
        self.in_msgs = self.in_bytes = self.out_msgs = self.out_bytes = 0
        self.chose_frame = False  # CONNECT said which one
        self.settle("netstring")

    def agree(
        self,
        verbose: bool,
        pedantic: bool,
        echo: bool,
        headers: bool,
        no_responders: bool,
        frame: str,
    ) -> None:
        """Apply the options of CONNECT."""
        self.verbose = verbose
        self.pedantic = pedantic
        self.echo = echo
        self.headers = headers
        self.no_responders = no_responders
        self.settle(frame)

    def settle(self, frame: str) -> None:
        """Set the frame, and derive the data plane's fields from all options."""
        self.frame = frame
        self.chatty = self.verbose or self.pedantic
        self.parser.headers = self.headers
        if frame == "netstring":
            self.shape = FRAMED
            self.headed_shape = FRAMED_HEADERS
        elif frame == "header" and self.headers:
            self.shape = self.headed_shape = NUMBERED_HEADERS
        elif frame == "stamp" and self.headers:
            self.shape = self.headed_shape = STAMPED_HEADERS
        else:
            self.shape = BARE
            self.headed_shape = BARE_HEADERS

    def deliver(
        self, frame: Frame, data: bytes | bytearray, payload: int, size: int, counted: int
    ) -> bool:
        """Append line and head, `size` bytes of `data` from `payload` on, and tail.

        Return False, and append nothing, if there is no room. `counted` is added to `out_bytes`.
        """
        end = self.end
        head = frame.end - frame.start
        if self.size - end < head + size + 4:  # a tail has at most four bytes
            return False
        if cython.compiled:
            to = self.data + end
            copy_span(to, frame.data + frame.start, head)
            copy_span(to + head, data + payload, size)
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

    def add_message(
        self,
        line: bytes | bytearray,
        line_size: int,
        data: bytes | bytearray,
        body: int,
        size: int,
    ) -> bool:
        """Append a message: its line, `size` bytes of `data` from `body` on, and CR LF.

        Return False, and append nothing, if there is no room.
        """
        end = self.end
        if self.size - end < line_size + size + 2:
            return False
        if cython.compiled:
            to = self.data + end
            copy_span(to, line, line_size)
            copy_span(to + line_size, data + body, size)
            to[line_size + size] = ord("\r")
            to[line_size + size + 1] = ord("\n")
        else:
            text = bytes(line[:line_size]) + data[body : body + size] + b"\r\n"
            self.data[end : end + len(text)] = text
        self.end = end + line_size + size + 2
        self.out_msgs += 1
        self.out_bytes += size
        return True

    def write(self, text: bytes) -> bool:
        """Append bytes that are not a message; return False, and append nothing, if it is full."""
        size = len(text)
        if self.size - self.end < size:
            return False
        if cython.compiled:
            copy_span(self.data + self.end, cython.cast("const unsigned char *", text), size)
        else:
            self.data[self.end : self.end + size] = text
        self.end += size
        return True

    def held(self) -> int:
        """Return the bytes that were not yet written to the transport."""
        return self.waiting_bytes + self.end

    def kept(self) -> int:
        """Return the memory of the outbox, plus the bytes in the transport."""
        return self.waiting_bytes + len(self.buffer) + self.unsent

    def note_unsent(self, count: int) -> None:
        """Set how many bytes are in its transport: those that its socket has not taken."""
        self.budget.bytes += count - self.unsent
        self.unsent = count

    def buffered(self) -> int:
        """Return the bytes in the buffer that is being filled."""
        return self.end

    def make_room(self, need: int, spare: SpareBuffers) -> bool:
        """Make room for `need` more bytes; return False if that would exceed `max_pending`.

        An empty outbox takes any one message: the size of a message has its own limit.
        """
        held = self.waiting_bytes + self.end
        if self.closed or (held and held + need > self.max_pending):
            return False
        if self.end >= SEGMENT or (self.end and self.end + need > SEGMENT):
            if self.waiting is None:
                self.waiting = deque()
            kept = self.buffer
            if 4 * self.end < 3 * len(kept):  # else the unused rest would be kept, but not counted
                kept = kept[: self.end]
            self.waiting.append(memoryview(kept).toreadonly()[: self.end])
            self.waiting_bytes += self.end
            self.budget.bytes += self.end
            self.end = 0
            self.size = 0
        size = self.size * 2 if self.size else BUFFER_MIN
        while size < self.end + need and size < SEGMENT:
            size *= 2
        size = whole_steps(max(size, self.end + need))
        # The first buffer may be much longer: it saves the copies to longer and longer ones.
        buffer = spare.take(size, 2 * size if self.end else max(size, 2 * SEGMENT))
        if self.end:
            memoryview(buffer)[: self.end] = memoryview(self.buffer)[: self.end]
        self._adopt(buffer)
        return True

    def take_buffer(self) -> bytearray:
        """Give away the buffer, which the caller has emptied."""
        buffer = self.buffer
        self._adopt(bytearray())
        self.end = 0
        return buffer

    def _emptied(self, count: int) -> None:
        """Remove the first `count` bytes of the buffer: they were written, or copied."""
        if count < self.end:
            self.buffer[: self.end - count] = self.buffer[count : self.end]
        self.end -= count
        self.sent_pos += count
        if self.shutting:
            self.size = self.end

    def _next_waiting(self) -> memoryview | None:
        """Take the oldest full buffer out of the queue, or the part of it that may be sent."""
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
        self.sent_pos += size
        return view

    def drain(self, write: Callable[[memoryview], object], stalled: bool = False) -> None:
        """Pass the sendable bytes to `write` while the connection is writable, or if `stalled`.

        A read-only view may be kept. Another one is valid until `write` returns: its buffer is used
        again.
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

    def send_at_once(self) -> bool:
        """Send an outbox of one buffer directly; return False if any of it is left.

        The session sends the rest, and handles every error. Uncompiled, it sends everything.
        """
        if self.fd < 0 or self.fenced or self.waiting_bytes or not self.writable:
            return False
        if cython.compiled:
            sent = send(self.fd, self.data, self.end, MSG_NOSIGNAL)
            if sent <= 0:
                return False
            self.sent_pos += sent
            end, self.end = self.end, 0
            if sent < end:  # the rest waits in its buffer, and another one comes next
                self.waiting = deque([memoryview(self.buffer).toreadonly()[sent:end]])
                self.waiting_bytes = end - sent
                self.budget.bytes += end - sent
                self._adopt(bytearray())
            elif self.shutting:
                self.size = 0
            return sent == end
        else:
            return False

    def shut(self) -> None:
        """Take no new output; the output that is here may still be sent."""
        self.closed = self.shutting = True
        self.detached = False  # the journal does not serve it either
        self.size = self.end

    def drop_output(self) -> None:
        """Drop all output that was not written; the next output begins a new message."""
        self.sent_pos += self.waiting_bytes + self.end
        self.budget.bytes -= self.waiting_bytes
        self.waiting = None
        self.waiting_bytes = 0
        self.end = 0
        self._adopt(bytearray())

    # The fence

    def position(self) -> int:
        """Return how many bytes were ever put into the outbox."""
        return self.sent_pos + self.waiting_bytes + self.end

    def raise_fence(self) -> None:
        """Fence off the bytes after `turn_start`."""
        self.fenced = True
        self.allowed_pos = self.sealed_pos = self.turn_start

    def seal(self) -> None:
        """Mark all bytes here now to be sent at the next `lower_fence`."""
        self.sealed_pos = self.position()

    def lower_fence(self) -> bool:
        """Allow the sealed bytes; return True if nothing is fenced any more."""
        self.allowed_pos = self.sealed_pos
        self.fenced = self.allowed_pos < self.position()
        return not self.fenced

    def overtake(self, text: bytes) -> bool:
        """Put whole operations before the fenced bytes; return False if there is no room for them.

        Not optimized, because it is done only while nothing can be written to the disk.
        """
        size = len(text)
        if self.closed or self.held() + size > self.max_pending:
            return False
        left = self.allowed_pos - self.sent_pos if self.allowed_pos > self.sent_pos else 0
        parts = list(self.waiting or ())
        parts.append(memoryview(bytes(self.buffer[: self.end])))
        before: list[memoryview] = []
        after: list[memoryview] = []
        for view in parts:
            before.append(view[:left])
            after.append(view[left:])
            left -= min(left, len(view))
        self.waiting = deque([view for view in [*before, memoryview(text), *after] if len(view)])
        self.budget.bytes += self.end + size
        self.waiting_bytes += self.end + size
        self.end = 0
        self.allowed_pos += size
        self.sealed_pos += size
        self.turn_start += size
        return True

    def _passable(self, size: int) -> int:
        """Return how many of the next `size` bytes may be sent."""
        if self.fenced and self.sent_pos + size > self.allowed_pos:
            return self.allowed_pos - self.sent_pos if self.allowed_pos > self.sent_pos else 0
        return size

    def part(self) -> None:
        """Release everything of a client that has gone; other parts may still hold this object."""
        self.fd = -1
        self.drop_output()
        self.note_unsent(0)
        self.requests = None
        self.session = cast(ClientSession, None)  # callers check `closed` first

    def _adopt(self, buffer: bytearray) -> None:
        self.budget.bytes += len(buffer) - len(self.buffer)
        self.buffer = buffer
        self.data = self.buffer
        self.size = len(buffer)
