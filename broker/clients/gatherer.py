"""Reads all clients that are ready in one turn of the event loop, and releases once.

    turn               clients are ready: as many as the epoll returns, within bounds
      _read            one recv from one client
        plane.serve    numbers into the batch, frames into the outboxes
    _settle            one release for all of them: journal, feeds, subscribers, publishers

The epoll contains all clients' sockets. The broker's own loop waits on it (runtime/event_loop.py);
for another loop it is one file. So a message costs one recv and no call of the event loop, and a
turn costs one write to the journal and one to each subscriber, however many clients it served. A
turn does not wait: it reads only input that is there already. If several clients have sent
something, others are likely to do so at the same time; so such a turn looks again, until it finds
one at most, or its time is over. A lone message is released at once. In a dense stream of small
messages the next turn begins a little later, so that one release serves more of them (see below).

After a turn, those that have left are let go, and then new clients are accepted: neither costs a
turn of the event loop.

Rule 1  A turn ends when its work is spent, or as many bytes were read as the shared buffer holds.
        The epoll returns the others again, and the next turn begins with them.
Rule 2  An error of one client, or on its connection, does not affect the others: their messages
        are released.
Rule 3  While a subscriber is crowded, each client is released by itself. This shows which clients
        publish to that subscriber, and only these are held.

Memory: one `ClientInput` for each client. All read into one buffer (broker/clients/inbox.py).
"""

# Theory of operation: two epolls
#
# asyncio has an epoll of its own, for everything that is not a client's input. Asking it for
# clients as well would cost a list of events, a callback and a Handle for each of them: a seventh
# of what a lone message costs. So the gatherer has a second one, and waits in the loop's place:
#
#     clients' sockets,
#     listening ones  --> [ gatherer's epoll ] <-- holds -- [ the loop's epoll ] <-- writers that
#                                  |                                 |               waited, the
#                                  | a client is readable            | it is         self-pipe
#                                  v                                 v readable
#                            Gatherer._turn                     `select(0)`, then asyncio's
#                                                               own callbacks
#
# An epoll is a file, and is readable when one of its files is ready. So one epoll_wait, in
# `serve_for`, waits for both. It must return as soon as asyncio has work, of which there are four
# kinds, each noticed in its own way:
#
#     a file of the loop's       `loop_fd` is among the ready: `_look`
#     a timer                    the timeout: asyncio computed it before it called `select`
#     a callback or a timer      `asked`: BrokerLoop sets it in call_soon and call_at. While clients
#     that serving has added     are served, asyncio does not look at its queue
#     another thread, a signal   call_soon_threadsafe writes to the self-pipe; a signal ends the
#                                epoll_wait with EINTR, which counts as a time-out
#
# A socket may be in both: the gatherer reads it, and the loop's epoll waits until it can be written
# again. With another loop (uvloop), it is the other way round: the gatherer's epoll is a file of
# that loop, and `turn` is its callback. It works the same, with one more epoll_wait for a turn.
#
# All sockets are level-triggered: what a turn leaves unread is reported again. That makes every
# bound simple: to stop early, stop. Only one thing would be lost, namely input that a TLS or
# WebSocket layer has taken from the socket already. The epoll cannot know of it, so `read_on` is
# scheduled for it.
#
# Other threads (the keeper, which syncs) run while epoll_wait blocks without the GIL. Looking again
# within a turn does not block, so it keeps the GIL: to give it up and to get it back would cost
# more than the call.

import math
import os
import select
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import cython

from broker.clients.inbox import Inbox, Intake
from broker.clients.turn_pace import TurnPace
from broker.core import Core
from broker.dataplane.connection import Connection
from broker.dataplane.gate import Gate
from broker.dataplane.plane import Plane
from broker.limits.fair_queue import FairTurns
from broker.limits.meter import Meter
from broker.runtime.clocks import steady_ns
from broker.runtime.event_loop import BrokerLoop
from broker.runtime.loop_latency import LOOP_LATENCY

if TYPE_CHECKING:
    from broker.clients.session import Session
    from broker.clients.wired_session import WiredSession

if not cython.compiled:
    import errno

    EPOLLIN = select.EPOLLIN
    EAGAIN, EINTR = errno.EAGAIN, errno.EINTR
    CLIENTS_MAX = 256  # clients in one turn: about half a millisecond, with a message each
    WAITS_MAX = 4  # turns of the loop that new clients wait for


GATHER_S = 0.0001  # after this time a turn looks for no more clients


class ClientInput:
    """The gatherer's view of a client. The client's session sets the flags."""

    def __init__(
        self,
        session: "Session",
        connection: Connection,
        inbox: Inbox,
        heard: float,
        traced: bool,
    ) -> None:
        self.session = session
        self.connection: Connection = connection
        self.intake: Intake = Intake(inbox)
        self.fd = -1
        self.heard = heard  # when it last sent something, on the loop's clock
        self.discards_input = False  # its input is discarded
        self.leaving = False  # its session leaves after the release
        self.traced = traced  # its input is logged
        self.wired: WiredSession | None = None  # reads its input, through TLS or WebSocket
        self.more = False  # the wire has more than fitted into the buffer
        self.meter: Meter | None = None  # if its publish rate is limited


class Gatherer:
    """The reader of all clients' sockets. One per broker, for its one thread."""

    def __init__(self, core: Core, inbox: Inbox) -> None:
        self.core = core
        self.plane: Plane = core.plane
        self.gate: Gate = self.plane.gate
        self.inbox: Inbox = inbox
        self.work_queue = FairTurns(
            core.loop
        )  # of clients with more input than a turn had time for
        self.buffer = self.inbox.buffer
        self.bytes_max = len(self.buffer)
        self.poller = select.epoll()
        self.poller_fd = self.poller.fileno()
        self.readers: list[ClientInput | None] = []  # the watched clients, by descriptor
        self.read_this_turn: list[ClientInput] = []  # since the last release
        self.one_by_one = False  # a subscriber is crowded
        self.gather_s = GATHER_S
        self.pace = TurnPace(core.settings.limits.gather_us / 1e6)
        self.latency = LOOP_LATENCY
        if cython.compiled:
            prctl(PR_SET_TIMERSLACK, 1000)  # ns; by default this thread sleeps 50 us longer
        self.resume_at = 0  # index of the first client to read among those that the epoll returned
        self.bytes = 0  # read in this turn
        self.ready: list[tuple[int, int]] = []  # the epoll's result, uncompiled
        self.error = 0  # why the last read failed
        self.asked = False  # the loop in whose place this waits has something to do
        self.own = False  # its own file is ready
        self.doors: dict[int, Callable[[], None]] = {}  # listening sockets: what accepts clients
        self.door_max = -1  # the greatest of these descriptors
        self.callers: list[int] = []  # those with clients that wait
        self.waits = 0  # turns of the loop that they have waited
        self.is_serving = False
        self.deferred: list[tuple[Callable[[Any], object], Any]] = []  # until the turn's end
        self.loop_fd = -1  # of that loop's own epoll
        if isinstance(core.loop, BrokerLoop):
            self.loop_fd = core.loop.wait_with(self)
            self.poller.register(self.loop_fd, EPOLLIN)
        else:
            core.loop.add_reader(self.poller_fd, self.turn)

    def close(self) -> None:
        """Stop reading."""
        if isinstance(self.core.loop, BrokerLoop):
            self.core.loop.wait_with(None)
        else:
            self.core.loop.remove_reader(self.poller_fd)
        self.poller.close()
        self.readers.clear()

    def watch(self, reader: ClientInput) -> None:
        """Read this client from now on."""
        fd = reader.fd
        missing = fd + 1 - len(self.readers)
        if missing > 0:
            self.readers.extend([None] * missing)
        if self.readers[fd] is None and not self.poller.closed:
            self.readers[fd] = reader
            self.poller.register(fd, EPOLLIN)
            if reader.more:
                self.core.loop.call_soon(self.read_on, reader)

    def unwatch(self, reader: ClientInput) -> None:
        """Leave this client's input in its socket. Call it before the socket is closed."""
        fd = reader.fd
        if 0 <= fd < len(self.readers) and self.readers[fd] is reader:
            self.readers[fd] = None
            self.poller.unregister(fd)

    def open_door(self, fd: int, accept: Callable[[], None]) -> None:
        """Call `accept` when clients wait at this listening socket, after a turn."""
        self.doors[fd] = accept
        self.door_max = max(self.door_max, fd)
        self.poller.register(fd, EPOLLIN)

    def close_door(self, fd: int) -> None:
        """Let clients wait at this listening socket."""
        if self.doors.pop(fd, None) is not None and not self.poller.closed:
            self.poller.unregister(fd)

    def defer(self, action: Callable[[Any], object], value: Any) -> bool:
        """Call this when the turn is over; False if none is under way.

        It saves a turn of the loop.
        """
        if self.is_serving:
            self.deferred.append((action, value))
        return self.is_serving

    def read_on(self, reader: ClientInput) -> None:
        """Read input that a wire has already taken from the socket, and that did not fit before.

        The epoll cannot report it.
        """
        fd = reader.fd
        if not reader.more or not 0 <= fd < len(self.readers) or self.readers[fd] is not reader:
            return  # closed, or held: `watch` comes back to it
        begun = time.monotonic()
        self._begin()
        try:
            self._read(fd, begun)
        finally:
            self._settle()
            self.latency.note(time.monotonic(), begun)

    def serve_for(self, timeout: float) -> bool:
        """Wait for files in the loop's place, and serve clients meanwhile: see `Waiter`."""
        self.asked = False
        until = time.monotonic() + timeout
        left = timeout
        while True:
            # Rounded up: a timer must not find that it is too early, and be asked for at once.
            count = self._poll(-1 if timeout < 0 else math.ceil(left * 1000))
            if count == 0:
                return False  # the time is over, or a signal came
            own = self._serve_ready(count, left == 0)
            if own or self.asked:
                return own
            if timeout >= 0:
                left = until - time.monotonic()
                if left <= 0:
                    return False

    def turn(self) -> None:
        """Serve the clients that have sent something, for a bounded time."""
        count = self._poll_again()
        if count:
            self._serve_ready(count, False)

    def _serve_ready(self, count: int, is_busy: bool) -> bool:
        """Serve the clients that the epoll has returned, and accept others.

        True if it has returned the loop's own file. `is_busy`: the loop has something to do. Then
        new clients wait for a few of its turns: it may let others go, who make room for them.
        """
        self.own = False
        others = self._look(count)
        own = self.own
        self.is_serving = True
        try:
            if count > others:
                self._turn(count)
        finally:
            self.is_serving = False
            if self.callers and (own or is_busy) and self.waits < WAITS_MAX:
                self.waits += 1
                self.callers.clear()  # the epoll returns them again
            if self.deferred or self.callers:
                self._finish()
        return own

    def _finish(self) -> int:
        """Let go those that have left in this turn; accept others, which may need their room."""
        while self.deferred:
            deferred, self.deferred = self.deferred, []
            for action, value in deferred:
                try:
                    action(value)
                except Exception as error:
                    self._failed(error, "the end of a client")
        if not self.callers:
            return 0
        self.waits = 0
        callers, self.callers = self.callers, []
        for fd in callers:
            accept = self.doors.get(fd)
            if accept is not None:
                try:
                    accept()
                except Exception as error:
                    self._failed(error, "accepting clients")
        return 0

    def _failed(self, error: Exception, what: str) -> None:
        self.core.loop.call_exception_handler({"message": f"Failed: {what}", "exception": error})

    def _turn(self, count: int) -> int:
        """Serve the clients that the epoll has returned."""
        begun = time.monotonic()
        wait = 0.0 if self.one_by_one else self.pace.delay(begun)
        if wait > 0:
            self._sleep(wait)
            count = self._poll_again()
            begun = time.monotonic()
        self._begin()
        singly, self.one_by_one = self.one_by_one, False
        try:
            while self._read_all(count, singly, begun) and not singly:
                if count - self._look(count) < 2:
                    break  # a lone client, or all have been read
                if time.monotonic() - begun > self.gather_s:
                    break
                count = self._poll_again()
        finally:
            served = time.monotonic()
            self._settle()
            now = time.monotonic()
            self.pace.end(begun, served, now, self.bytes)
            self.latency.note(now, begun)
        return 0

    def _read_all(self, count: int, singly: bool, now: float) -> bool:
        """Read from the clients that the epoll has returned; False if the turn must end early."""
        first, self.resume_at = self.resume_at, 0
        self.plane.share_among(count)
        for served in range(count):
            at = (first + served) % count
            self._read(self._fd_at(at), now)
            if singly:
                self._settle()
            if self.plane.is_spent() or self.bytes >= self.bytes_max:
                # The sockets are level-triggered: the epoll returns the rest again, in this order.
                self.resume_at = at + 1
                return False
        return True

    def serve(self, reader: ClientInput, buffer: bytearray, stop: int) -> None:
        """Serve input that was read before, in a turn of its own."""
        begun = time.monotonic()
        self._begin()
        try:
            self._serve(reader, buffer, stop)
        finally:
            self._settle()
            self.latency.note(time.monotonic(), begun)

    def _begin(self) -> int:
        self.plane.begin_turn()
        self.bytes = 0
        self.plane.sequencer.tick(time.time_ns(), steady_ns())
        return 0

    def _poll(self, wait_ms: int) -> int:
        """Return how many files are ready, after at most `wait_ms` (-1: no limit).

        Other threads run meanwhile. 0 if a signal came.
        """
        if cython.compiled:
            with cython.nogil:
                count = epoll_wait(self.poller_fd, self.events, CLIENTS_MAX, wait_ms)
            return self._checked(count)
        else:
            self.ready = self.poller.poll(wait_ms / 1000 if wait_ms > 0 else wait_ms, CLIENTS_MAX)
            return len(self.ready)

    def _sleep(self, seconds: float) -> int:
        """Sleep; other threads run meanwhile."""
        if cython.compiled:
            self.pause.tv_nsec = cython.cast(cython.long, seconds * 1e9)
            with cython.nogil:
                nanosleep(cython.address(self.pause), cython.NULL)
        else:
            time.sleep(seconds)
        return 0

    def _poll_again(self) -> int:
        """Return how many files are ready now. No other thread runs meanwhile."""
        if cython.compiled:
            return self._checked(epoll_wait(self.poller_fd, self.events, CLIENTS_MAX, 0))
        else:
            return self._poll(0)

    def _checked(self, count: int) -> int:
        if cython.compiled and count < 0:
            if errno != EINTR:
                raise OSError(errno, os.strerror(errno))
            return 0
        return count

    def _fd_at(self, at: int) -> int:
        """Return a file that the epoll has returned."""
        if cython.compiled:
            return self.events[at].data.fd
        else:
            return self.ready[at][0]

    def _look(self, count: int) -> int:
        """Note which of the files that the epoll has returned are no clients; return how many."""
        others = 0
        for at in range(count):
            fd = self._fd_at(at)
            if fd == self.loop_fd:
                self.own = True
                others += 1
            elif fd <= self.door_max and fd in self.doors:
                if fd not in self.callers:
                    self.callers.append(fd)
                others += 1
        return others

    def _read(self, fd: int, now: float) -> int:
        """Read once from a client, and serve its input."""
        item = self.readers[fd] if fd < len(self.readers) else None
        if item is None:
            return 0  # closed, or held, since the epoll returned it; or the loop's
        reader = cython.cast(ClientInput, item)
        if reader.discards_input or reader.connection.closed:
            got = self._receive(fd, self.buffer, 0, len(self.buffer))
            return self._gone(reader, got) if got <= 0 else 0
        buffer = reader.intake.target()
        most = reader.intake.room()
        if reader.meter is not None:
            most = min(most, reader.meter.readable(now))
            if most == 0:
                return 0  # it is paused
        if reader.wired is not None:
            got = reader.wired.receive(buffer, reader.intake.end, most)
            self.error = EAGAIN  # the session has handled all other errors
            if reader.more:
                self.core.loop.call_soon(self.read_on, reader)
        else:
            got = self._receive(fd, buffer, reader.intake.end, most)
        if got <= 0:
            return self._gone(reader, got)
        self.bytes += got
        reader.heard = now
        stop = reader.intake.filled(got)
        if reader.traced:
            reader.session.log_read(bytes(buffer[stop - got : stop]))
        return self._serve(reader, buffer, stop)

    def _receive(self, fd: int, buffer: bytearray, at: int, most: int) -> int:
        """Read up to `most` bytes, put them at `at`; return the count, 0 at the end, -1 if none."""
        if cython.compiled:
            data = buffer
            got = recv(fd, data + at, most, 0)
            if got < 0:
                self.error = errno
            return got
        else:
            try:
                return os.readv(fd, [memoryview(buffer)[at : at + most]])
            except OSError as error:
                self.error = error.errno or errno.EIO
                return -1

    def _gone(self, reader: ClientInput, got: int) -> int:
        """Tell the session that the client's input has ended, or that its connection has failed."""
        if got == 0:
            self._settle()  # `hung_up` sends its output at once, and the journal must be first
            reader.session.hung_up()
        elif self.error not in (EAGAIN, EINTR):
            reader.session.was_reset(OSError(self.error, os.strerror(self.error)))
        return 0

    def _serve(self, reader: ClientInput, buffer: bytearray, stop: int) -> int:
        """Let the plane serve the input; keep an incomplete operation for the next read."""
        connection = reader.connection
        self.read_this_turn.append(reader)
        self.gate.reads(connection)
        try:
            rest = self.plane.serve(connection, buffer, stop)
            if self.plane.interrupted:
                reader.session.set_aside(buffer[rest:stop])
                rest = stop
            if not connection.closed:
                reader.intake.keep(buffer, rest, stop, connection.parser)
            if reader.meter is not None:
                reader.meter.charge()
        except Exception as error:
            reader.session.failed(error)
        return 0

    def _settle(self) -> int:
        """Release the output of this turn; then hold publishers, and close sessions, as needed."""
        served = self.read_this_turn
        if not served:
            return 0
        self.read_this_turn = []
        self.gate.release_turn()
        if self.gate.crowded:
            self.one_by_one = True
            if len(served) == 1:
                cython.cast(ClientInput, served[0]).session.outran()
            self.gate.crowded.clear()
        self.core.advance()
        for item in served:
            reader = cython.cast(ClientInput, item)
            if reader.leaving:
                reader.session.depart()
        return 0
