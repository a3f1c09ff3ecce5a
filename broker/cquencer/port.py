"""cquencer's own port: who sends a message there is answered its number, as a netstring.

    turn                      the epoll has something: bounded work, then others are served
      _read -> _take          what a client says -> a message, or a query
        plane.submit          its number; the journal's batch and subscribers' outboxes get it
      _settle                 one release for all that was read: journal, feeds, subscribers
        _answer               the numbers that are safe, each client's in one send
    let_out                   the others, when the keeper says that they are safe

Framing `recv`: what one recv gives is a message, without one NUL at its end; one byte asks
for the last number. `netstring`: each netstring is a message, and the empty one asks.

Rule 1  A client that has not got its answers is not read: so what waits for it is bounded by
        what one read brings, and the end of what it says is seen after the last answer.
Rule 2  What is no message is answered with an error in the number's place. After what is no
        netstring nothing more is taken, for the stream has no borders any more.
Rule 3  Nobody is closed here whose answer can still arrive: see `_finish`.

No object is made for a message. Memory: one receive buffer for all; a client has 64 bytes for
its answers, more while it pipelines, and the beginning of one message.
"""

import time
from typing import Any

import cython

from broker.cquencer.caller import Caller
from broker.dataplane.gate import Gate
from broker.dataplane.plane import Plane
from sequencer.sequencer import Sequencer
from sublist.sublist import Sublist

if not cython.compiled:
    import errno
    import select
    import socket

    from sublist.subject import digest_of

    EPOLLIN, EPOLLOUT = select.EPOLLIN, select.EPOLLOUT
    EPOLLERR, EPOLLHUP = select.EPOLLERR, select.EPOLLHUP
    EAGAIN, EINTR = errno.EAGAIN, errno.EINTR
    MSG_NOSIGNAL = socket.MSG_NOSIGNAL
    EVENTS_MAX = 64  # clients that one look at the epoll finds
    ROUNDS_MAX = 16  # looks in one turn: 8 clients in a closed loop take a millisecond
    READ_MAX = 1 << 16  # netstrings in one read: 16 384 of one byte, some 4 ms
    DIGITS_MAX = 18  # of a netstring's length
    ANSWER_WORK = 4  # offers that whatever is answered costs
    BYTES_SHIFT = 7  # and one for each 128 bytes of it


class Port:
    """One per broker, for its one thread. `owner` is told when somebody has gone or goes.

    `owner.closed(caller)` after a connection has ended; `owner.ending(caller)` when it was told
    all, and has a while to end it; `owner.wake()` when there is a turn to be had at once. What is
    longer than `max_payload` is taken if `owner.refusal(size)` has no words against it.
    """

    def __init__(
        self,
        plane: Plane,
        store: bytearray,
        subject: bytes,
        max_payload: int,
        netstrings: bool,
        poller: Any,
        owner: Any,
    ) -> None:
        self.plane = plane
        self.gate: Gate = self.plane.gate
        self.sequencer: Sequencer = self.plane.sequencer
        self.sublist: Sublist = self.plane.sublist
        self.store = store
        self.max_payload = max_payload
        self.netstrings = netstrings
        self.poller = poller
        self.poller_fd = poller.fileno()
        self.owner = owner
        self.subject = bytearray(subject)
        self.text = self.subject
        self.subject_size = len(subject)
        self.digest = digest_of(subject)
        self.draining = False  # nothing more is taken in
        self.clients: list[Caller | None] = []  # by descriptor
        self.asked: list[Caller] = []  # to be answered when this round is released
        self.waiting: list[Caller] = []  # for their numbers to be safe
        self.late: list[Caller] = []  # to be served before the epoll is looked at
        self.place = 0  # among those the epoll has found: who comes first
        self.ready: list[tuple[int, int]] = []  # what the epoll said, uncompiled
        self.error = 0  # why the last system call failed
        self.length = 0  # of the netstring at hand
        self.connections = 0
        self.messages = self.bytes = self.queries = self.errors = 0

    def admit(self, caller: Caller) -> None:
        """Serve one more caller from now on."""
        missing = caller.fd + 1 - len(self.clients)
        if missing > 0:
            self.clients.extend([None] * missing)
        self.clients[caller.fd] = caller
        self.connections += 1
        self.poller.register(caller.fd, EPOLLIN)

    def turn(self) -> None:
        """Serve whoever has said something, as long as others may be kept waiting."""
        plane = self.plane
        plane.begin()
        if self.late:
            self._tick()
            self._go_on()
            self._settle()
        for look in range(ROUNDS_MAX):
            if look and plane.is_spent():
                break  # not before the first look: who is late must not keep out the others
            count = self._look()
            if count <= 0:
                break
            self._tick()
            first = self.place
            for served in range(count):
                at = (first + served) % count
                if cython.compiled:
                    self._serve(self.events[at].data.fd, self.events[at].events)
                else:
                    self._serve(*self.ready[at])
                if plane.is_spent():
                    self.place = at + 1  # what the epoll has said it says again, in this order
                    break
            self._settle()
        if self.late:
            self.owner.wake()

    def let_out(self) -> None:
        """Answer what is safe by now."""
        waiting = self.waiting
        self.waiting = []
        for item in waiting:
            caller = cython.cast(Caller, item)
            if caller.wanted > self.sequencer.safe:
                self.waiting.append(caller)
            else:
                self._answer(caller)
        if self.late:
            self.owner.wake()

    def drain(self) -> None:
        """Take in nothing more: what clients say is read, and thrown away."""
        self.draining = True
        self.late.clear()
        for caller in self.clients:
            if caller is not None:
                caller.late = False
                caller.kept = None
                caller.held = caller.need = 0
                self._watch(caller, caller.interest | EPOLLIN)

    def close(self, caller: Caller) -> None:
        """End a connection."""
        if caller.fd < 0:
            return
        self.clients[caller.fd] = None
        self.connections -= 1
        caller.fd = -1
        caller.connection.close()  # which takes it out of the epoll too
        caller.kept = None
        caller.emptied()
        self.owner.closed(caller)

    # Reading

    def _look(self) -> int:
        """How many clients have something for us."""
        if cython.compiled:
            return epoll_wait(self.poller_fd, self.events, EVENTS_MAX, 0)
        else:
            self.ready = self.poller.poll(0, EVENTS_MAX)
            return len(self.ready)

    def _tick(self) -> None:
        """Bring the sequencer the time."""
        if cython.compiled:
            clock_gettime(CLOCK_REALTIME, cython.address(now))
            self.sequencer.tick(now.tv_sec * SECOND_NS + now.tv_nsec)
        else:
            self.sequencer.tick(time.time_ns())

    def _serve(self, fd: int, events: int) -> int:
        """One caller has said something, takes more, or has gone."""
        item = self.clients[fd]
        if item is None:
            return 0
        caller = cython.cast(Caller, item)
        if events & EPOLLOUT:
            self._answer(caller)
        if caller.fd < 0:
            return 0
        if self.draining or caller.ending:
            return self._throw_away(caller)
        if caller.end == 0 and not caller.late:
            if events & (EPOLLIN | EPOLLERR | EPOLLHUP):
                self._read(caller)
        elif events & (EPOLLERR | EPOLLHUP):
            self.close(caller)
        elif events & EPOLLIN:
            self._watch(caller, 0)  # until it has its answers
        return 0

    def _read(self, caller: Caller) -> int:
        """One read of a caller that has all its answers, and what it brings."""
        if self.netstrings:
            return self._read_netstrings(caller)
        size = self._receive(caller, self.store, 0, len(self.store))
        if size <= 0:
            if size == 0:
                self.close(caller)
            return 0
        if size == 1:
            return self._query(caller)
        if self.store[size - 1] == 0:
            size -= 1
        if size > self.max_payload and (words := self._judge(size)):
            return self._refuse(caller, words)
        return self._take(caller, self.store, 0, size)

    def _throw_away(self, caller: Caller) -> int:
        """Read what counts no more."""
        if self._receive(caller, self.store, 0, len(self.store)) == 0:
            if caller.end == 0:
                self.close(caller)
            else:
                self._watch(caller, caller.interest & EPOLLOUT)
        return 0

    def _read_netstrings(self, caller: Caller) -> int:
        held = caller.held
        if caller.need:
            own = caller.kept
            assert own is not None, "what is needed has a store"
            got = self._receive(caller, own, held, len(own) - held)
            if got <= 0:
                return self._cut(caller, got)
            caller.held = held + got
            if caller.held == caller.need:
                return caller.keep(own, self._walk(caller, own, caller.held), caller.held)
            return caller.grow() if caller.held == len(own) else 0
        if held:
            assert caller.kept is not None, "what is held is kept"
            self.store[:held] = caller.kept
        got = self._receive(caller, self.store, held, min(len(self.store) - held, READ_MAX))
        if got <= 0:
            return self._cut(caller, got)
        return caller.keep(self.store, self._walk(caller, self.store, held + got), held + got)

    def _receive(self, caller: Caller, store: bytearray, at: int, size: int) -> int:
        """Read into a store; the bytes, 0 at the end, -1 if there are none now or ever again."""
        if cython.compiled:
            data = store
            got = recv(caller.fd, data + at, size, 0)
            if got >= 0:
                caller.heard = self.sequencer.now
                return got
            self.error = errno
        else:
            try:
                caller.heard = self.sequencer.now
                return int(caller.connection.recv_into(memoryview(store)[at : at + size]))
            except OSError as error:
                self.error = error.errno or errno.EIO
        if self.error not in (EAGAIN, EINTR):
            self.close(caller)
        return -1

    def _cut(self, caller: Caller, got: int) -> int:
        """The caller says no more; one that is in the middle of a message is told."""
        if got < 0:
            return 0
        if caller.held or caller.skip:
            self._break(caller, caller.passed + caller.held, b"the rest of it", b"the end")
        else:
            self.close(caller)
        return 0

    def _walk(self, caller: Caller, store: bytearray, stop: int) -> int:
        """Serve the netstrings in `store[:stop]`; where the unserved rest begins."""
        data = store
        at = 0
        caller.awaited = 0
        while at < stop and not caller.ending:
            if caller.skip:
                at = self._pass_over(caller, store, at, stop)
                continue
            body = self._head(caller, store, at, stop)
            if body == 0:
                break
            end = body + self.length
            if self.length > self.max_payload and (words := self._judge(self.length)):
                self._refuse(caller, words)
                caller.skip = self.length + 1
                at = body
                continue
            if end >= stop:
                caller.awaited = end + 1 - at
                break
            if data[end] != ord(","):
                self._break_at(caller, store, end, stop, b"','")
                break
            if self.length:
                self._take(caller, store, body, self.length)
            else:
                self._query(caller)
            at = end + 1
            if at < stop and self.plane.is_spent():
                caller.late = True
                break
        return stop if caller.ending else at

    def _head(self, caller: Caller, store: bytearray, at: int, stop: int) -> int:
        """Read a length into `length`; where the content begins, 0 if that is not here."""
        data = store
        first = at
        length = 0
        while at < stop and at - first < DIGITS_MAX and ord("0") <= data[at] <= ord("9"):
            length = length * 10 + data[at] - ord("0")
            at += 1
            if length == 0:
                break  # a leading zero is no digit of a length
        self.length = length
        if at == stop:
            return 0
        if at > first and data[at] == ord(":"):
            return at + 1
        whole = at > first and (length == 0 or at - first == DIGITS_MAX)
        expected = b"':'" if whole else b"a digit or ':'" if at > first else b"a digit"
        self._break_at(caller, store, at, stop, expected)
        return 0

    def _pass_over(self, caller: Caller, store: bytearray, at: int, stop: int) -> int:
        """Leave out what is here of a netstring that is too long; where what follows begins."""
        data = store
        size = stop - at
        if size > caller.skip:
            size = caller.skip
        caller.skip -= size
        at += size
        if caller.skip == 0 and data[at - 1] != ord(","):
            self._break_at(caller, store, at - 1, stop, b"','")
        return at

    def _break_at(
        self, caller: Caller, store: bytearray, at: int, stop: int, expected: bytes
    ) -> int:
        """What stands there is wrong."""
        seen = b"0x%02x" % store[at]
        return self._break(caller, caller.passed + at, expected, seen)

    def _break(self, caller: Caller, at: int, expected: bytes, seen: bytes) -> int:
        """What follows byte `at` of a connection has no borders: nothing more is taken."""
        caller.ending = True
        words = b"-ERR 'Not a Netstring: at byte %d: expected %b, got %b'"
        caller.fault = words % (at, expected, seen)
        return self._refuse(caller, caller.fault)

    # Messages and answers

    def _take(self, caller: Caller, store: bytearray, at: int, size: int) -> int:
        """One message: its number is the answer."""
        route = self.sublist.find(self.text, 0, self.subject_size, self.digest)
        nth = caller.messages + 1
        self.plane.spend(ANSWER_WORK + (size >> BYTES_SHIFT))
        number = self.plane.submit(route, caller.origin, nth, store, at, size)
        if number == 0:
            return self._no_room(caller)
        caller.messages += 1
        caller.bytes += size
        self.messages += 1
        self.bytes += size
        if caller.end == 0:
            self.asked.append(caller)
        caller.wanted = number
        return caller.number(number)

    def _judge(self, size: int) -> bytes:
        """Why a message of this size cannot be taken; nothing if it can."""
        words: bytes = self.owner.refusal(size)
        return words

    def _query(self, caller: Caller) -> int:
        """The answer is the last number given, whoever got it."""
        self.plane.spend(ANSWER_WORK)
        caller.queries += 1
        self.queries += 1
        if caller.end == 0:
            self.asked.append(caller)
        caller.wanted = self.sequencer.number
        return caller.number(caller.wanted)

    def _no_room(self, caller: Caller) -> int:
        """The journal took it not."""
        error = self.plane.control.no_room_for(bytes(self.subject))
        return self._refuse(caller, error.reply.rstrip())

    def _refuse(self, caller: Caller, words: bytes) -> int:
        """Answer what is no message with words."""
        self.plane.spend(ANSWER_WORK)
        caller.errors += 1
        self.errors += 1
        if caller.end == 0:
            self.asked.append(caller)
        return caller.say(words)

    def _settle(self) -> int:
        """Let out what this round has caused, then answer what is safe by now."""
        self.gate.release(None)
        for item in self.asked:
            caller = cython.cast(Caller, item)
            if caller.wanted > self.sequencer.safe:
                self.waiting.append(caller)
            else:
                self._answer(caller)
        self.asked.clear()
        return 0

    def _answer(self, caller: Caller) -> int:
        """Send what a caller is to be told; the rest when its socket takes more."""
        if caller.fd < 0:
            return 0
        if caller.sent < caller.end:
            got = self._send(caller)
            if got < 0:
                return 0
            caller.sent += got
            if caller.sent < caller.end:
                return self._watch(caller, EPOLLOUT)
        caller.emptied()
        if caller.ending:
            self._finish(caller)
        elif caller.late:
            self.late.append(caller)
        return self._watch(caller, EPOLLIN)

    def _send(self, caller: Caller) -> int:
        """What its socket takes of the answers; -1 if it is closed."""
        if cython.compiled:
            got = send(caller.fd, caller.data + caller.sent, caller.end - caller.sent, MSG_NOSIGNAL)
            if got >= 0:
                return got
            self.error = errno
        else:
            try:
                view = memoryview(caller.out)[caller.sent : caller.end]
                return int(caller.connection.send(view, MSG_NOSIGNAL))
            except OSError as error:
                self.error = error.errno or errno.EIO
        if self.error in (EAGAIN, EINTR):
            return 0
        self.close(caller)
        return -1

    def _watch(self, caller: Caller, interest: int) -> int:
        """What the epoll is to say of it, besides that it has gone."""
        if caller.interest != interest:
            caller.interest = interest
            self.poller.modify(caller.fd, interest)
        return 0

    def _finish(self, caller: Caller) -> None:
        """Tell a caller that nothing comes any more, and wait until it ends too.

        A socket that is closed with unread input is reset, and what the caller has not received
        of its answers is lost with it. So it is read, and thrown away; `owner` sees how long.
        """
        if not caller.ended:
            caller.ended = True
            self.owner.ending(caller)

    def _go_on(self) -> int:
        """Serve what was said before."""
        late = self.late
        self.late = []
        for item in late:
            caller = cython.cast(Caller, item)
            own = caller.kept
            if caller.fd >= 0 and caller.late and own is not None:
                caller.late = False
                caller.keep(own, self._walk(caller, own, caller.held), caller.held)
        return 0
