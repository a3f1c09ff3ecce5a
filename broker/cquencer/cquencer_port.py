"""The cquencer port: a client sends a message and gets its number back, as a netstring.

    turn                      the epoll has something: bounded work, then others get their turn
      _read -> _take          the client's bytes -> a message, or a query
        plane.submit          its number; it goes into the journal's batch and the outboxes
      _settle                 one release for everything that was read: journal, feeds, subscribers
        _answer               the numbers that are safe, one send for each client
    release_safe              the others, when the keeper says that they are safe

Framing `recv`: the bytes of one recv are a message, without one NUL at the end; a single byte asks
for the last number. `netstring`: each netstring is a message, and an empty one asks.

Rule 1  A client is not read until it has all its answers. So its waiting answers are bounded by
one read, and the end of its input is noticed only after the last answer.
Rule 2  An invalid message gets an error in place of the number. After bytes that are not a
netstring all input is ignored, because the stream can no longer be framed.
Rule 3  Never close a client while an answer to it may still be delivered (see `_finish`).

No object is made for a message. Memory: one receive buffer for all clients.
"""

import select
import time
from typing import TYPE_CHECKING

import cython

from broker.cquencer.cquencer_client import CquencerClient
from broker.dataplane.gate import Gate
from broker.dataplane.plane import Plane
from broker.runtime.clocks import steady_ns
from sequencer.message import Message
from sequencer.sequencer import Sequencer
from sublist.sublist import Sublist

if TYPE_CHECKING:
    from broker.cquencer.cquencer_service import Cquencer
    from sequencer.replica.forward_table import ForwardTable

if not cython.compiled:
    import errno
    import socket

    EPOLLIN, EPOLLOUT = select.EPOLLIN, select.EPOLLOUT
    EPOLLERR, EPOLLHUP = select.EPOLLERR, select.EPOLLHUP
    EAGAIN, EINTR = errno.EAGAIN, errno.EINTR
    MSG_NOSIGNAL = socket.MSG_NOSIGNAL
    EVENTS_MAX = 64  # clients that one call of epoll_wait returns
    ROUNDS_MAX = 16  # epoll_wait calls in a turn: 8 clients in a closed loop take a millisecond
    DIGITS_MAX = 18  # of a netstring's length
    NEVER = (1 << 64) - 1
    ANSWER_WORK = 4  # cost of any answer, in offers
    BYTES_SHIFT = 7  # plus one for each 128 bytes of it


class CquencerPort:
    """The port of a broker, for its one thread. Its `owner` accepts and ends its clients."""

    def __init__(
        self,
        plane: Plane,
        buffer: bytearray,
        subject: bytes,
        max_payload: int,
        netstrings: bool,
        poller: select.epoll,
        owner: "Cquencer",
    ) -> None:
        self.plane = plane
        self.gate: Gate = self.plane.gate
        self.sequencer: Sequencer = self.plane.sequencer
        self.sublist: Sublist = self.plane.sublist
        self.buffer = buffer
        self.max_payload = max_payload
        self.netstrings = netstrings
        self.poller = poller
        self.poller_fd = poller.fileno()
        self.owner = owner
        self.subject = bytearray(subject)
        self.text = self.subject
        self.subject_size = len(subject)
        self.message = Message()  # the current netstring: a message to that subject
        self.message.subject_data = self.text
        self.message.subject_size = self.subject_size
        self.draining = False  # all input is discarded
        self.clients: list[CquencerClient | None] = []  # by descriptor
        self.asked: list[CquencerClient] = []  # to be answered after the release of this round
        self.waiting: list[CquencerClient] = []  # until their numbers are safe
        self.late: list[CquencerClient] = []  # to be served before the epoll is asked again
        self.place = 0  # which of the clients that the epoll returned comes first
        self.ready: list[tuple[int, int]] = []  # what the epoll returned, uncompiled
        self.error = 0  # why the last system call failed
        self.length = 0  # of the current netstring
        self.connections = self.messages = self.bytes = self.queries = self.errors = 0

    def admit(self, client: CquencerClient) -> None:
        """Serve one more client from now on."""
        missing = client.fd + 1 - len(self.clients)
        if missing > 0:
            self.clients.extend([None] * missing)
        self.clients[client.fd] = client
        self.connections += 1
        self.poller.register(client.fd, EPOLLIN)

    def turn(self) -> None:
        """Serve the clients that have sent something, for a bounded time."""
        plane = self.plane
        plane.begin_turn()
        if self.late:
            self._tick()
            self._go_on()
            self._settle()
        for look in range(ROUNDS_MAX):
            if look and plane.is_spent():
                break  # not before the first round: late clients must not keep out the others
            count = self._poll()
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
                    self.place = at + 1  # the epoll will return the rest again, in this order
                    break
            self._settle()
        if self.late:
            self.owner.wake()

    def release_safe(self) -> None:
        """Answer with the numbers that are now safe."""
        waiting = self.waiting
        self.waiting = []
        for item in waiting:
            client = cython.cast(CquencerClient, item)
            if client.wanted > self.sequencer.safe:
                self.waiting.append(client)
            else:
                self._answer(client)
        if self.late:
            self.owner.wake()

    def settled(self, table: "ForwardTable", place: int) -> None:
        """Answer the messages up to this place: a cluster has committed and numbered them."""
        for item in self.waiting:
            client = cython.cast(CquencerClient, item)
            client.settle(table, place, self.sequencer.number)
        self.release_safe()

    def drain(self) -> None:
        """Take no more input: what clients send is read, and discarded."""
        self.draining = True
        self.late.clear()
        for client in self.clients:
            if client is not None:
                client.forget_input()
                self.watch(client, client.interest | EPOLLIN)

    def close(self, client: CquencerClient) -> None:
        """End a connection."""
        if client.fd < 0:
            return
        self.clients[client.fd] = None
        self.connections -= 1
        client.fd = -1
        client.connection.close()  # also removes it from the epoll
        client.kept = None
        client.emptied()
        self.owner.closed(client)

    # Reading

    def _poll(self) -> int:
        """Return how many clients are ready."""
        if cython.compiled:
            return epoll_wait(self.poller_fd, self.events, EVENTS_MAX, 0)
        else:
            self.ready = self.poller.poll(0, EVENTS_MAX)
            return len(self.ready)

    def _tick(self) -> None:
        """Set the sequencer's time."""
        if cython.compiled:
            clock_gettime(CLOCK_REALTIME, cython.address(now))
            clock_gettime(CLOCK_BOOTTIME, cython.address(steady))
            self.sequencer.tick(
                now.tv_sec * SECOND_NS + now.tv_nsec, steady.tv_sec * SECOND_NS + steady.tv_nsec
            )
        else:
            self.sequencer.tick(time.time_ns(), steady_ns())

    def _serve(self, fd: int, events: int) -> int:
        """Serve one client that sent something, can take more, or has gone."""
        item = self.clients[fd]
        if item is None:
            return 0
        client = cython.cast(CquencerClient, item)
        if events & EPOLLOUT:
            self._answer(client)
        if client.fd < 0:
            return 0
        if self.draining or client.ending:
            return self._throw_away(client)
        if client.end == 0 and not client.late and client.may_read():
            if events & (EPOLLIN | EPOLLERR | EPOLLHUP):
                self._read(client)
        elif events & (EPOLLERR | EPOLLHUP):
            self.close(client)
        elif events & EPOLLIN:
            self.watch(client, 0)  # until it has its answers, or may publish more
        return 0

    def _read(self, client: CquencerClient) -> int:
        """Read once from a client that has all its answers, and serve its input."""
        if self.netstrings:
            return self._read_netstrings(client)
        size = self._receive(client, self.buffer, 0, len(self.buffer))
        if size <= 0:
            if size == 0:
                self.close(client)
            return 0
        if size == 1:
            return self._query(client)
        if self.buffer[size - 1] == 0:
            size -= 1
        if size > self.max_payload and (words := self.owner.refusal(size)):
            return self._refuse(client, words)
        return self._take(client, self.buffer, 0, size)

    def _throw_away(self, client: CquencerClient) -> int:
        """Read and discard."""
        if self._receive(client, self.buffer, 0, len(self.buffer)) == 0:
            if client.end == 0:
                self.close(client)
            else:
                self.watch(client, client.interest & EPOLLOUT)
        return 0

    def _read_netstrings(self, client: CquencerClient) -> int:
        held = client.held
        if client.need:
            own = client.kept
            assert own is not None, "a long netstring has its own buffer"
            got = self._receive(client, own, held, len(own) - held)
            if got <= 0:
                return self._cut(client, got)
            client.held = held + got
            if client.held == client.need:
                return client.keep(own, self._walk(client, own, client.held), client.held)
            return client.grow() if client.held == len(own) else 0
        if held:
            assert client.kept is not None, "what is held is kept"
            self.buffer[:held] = client.kept
        got = self._receive(
            client, self.buffer, held, min(len(self.buffer) - held, client.read_max)
        )
        if got <= 0:
            return self._cut(client, got)
        return client.keep(self.buffer, self._walk(client, self.buffer, held + got), held + got)

    def _receive(self, client: CquencerClient, buffer: bytearray, at: int, size: int) -> int:
        """Read into a buffer; return how many bytes, 0 at the end, -1 for none now or ever."""
        if cython.compiled:
            data = buffer
            got = recv(client.fd, data + at, size, 0)
            if got >= 0:
                client.heard = self.sequencer.now
                return got
            self.error = errno
        else:
            try:
                client.heard = self.sequencer.now
                return int(client.connection.recv_into(memoryview(buffer)[at : at + size]))
            except OSError as error:
                self.error = error.errno or errno.EIO
        if self.error not in (EAGAIN, EINTR):
            self.close(client)
        return -1

    def _cut(self, client: CquencerClient, got: int) -> int:
        """Handle the end of a client's input; within a message, the client gets an error."""
        if got < 0:
            return 0
        if client.held or client.skip:
            self._break(client, client.passed + client.held, b"the rest of it", b"the end")
        else:
            self.close(client)
        return 0

    def _walk(self, client: CquencerClient, buffer: bytearray, stop: int) -> int:
        """Serve the netstrings in `buffer[:stop]`; return where the unserved rest begins."""
        data = buffer
        at = 0
        client.awaited = 0
        while at < stop and not client.ending:
            if client.skip:
                at = self._pass_over(client, buffer, at, stop)
                continue
            body = self._head(client, buffer, at, stop)
            if body == 0:
                break
            end = body + self.length
            if self.length > self.max_payload and (words := self.owner.refusal(self.length)):
                self._refuse(client, words)
                client.skip = self.length + 1
                at = body
                continue
            if end >= stop:
                client.awaited = end + 1 - at
                break
            if data[end] != ord(","):
                self._break_at(client, buffer, end, stop, b"','")
                break
            if self.length:
                self._take(client, buffer, body, self.length)
            else:
                self._query(client)
            at = end + 1
            if at < stop and self.plane.is_spent():
                client.late = True
                break
        return stop if client.ending else at

    def _head(self, client: CquencerClient, buffer: bytearray, at: int, stop: int) -> int:
        """Read a length into `length`; return where the content begins, 0 if it is not here yet."""
        data = buffer
        first = at
        length = 0
        while at < stop and at - first < DIGITS_MAX and ord("0") <= data[at] <= ord("9"):
            length = length * 10 + data[at] - ord("0")
            at += 1
            if length == 0:
                break  # a length has no leading zeros
        self.length = length
        if at == stop:
            return 0
        if at > first and data[at] == ord(":"):
            return at + 1
        whole = at > first and (length == 0 or at - first == DIGITS_MAX)
        expected = b"':'" if whole else b"a digit or ':'" if at > first else b"a digit"
        self._break_at(client, buffer, at, stop, expected)
        return 0

    def _pass_over(self, client: CquencerClient, buffer: bytearray, at: int, stop: int) -> int:
        """Skip the received part of a netstring that is too long; return where it ends."""
        data = buffer
        size = min(stop - at, client.skip)
        client.skip -= size
        at += size
        if client.skip == 0 and data[at - 1] != ord(","):
            self._break_at(client, buffer, at - 1, stop, b"','")
        return at

    def _break_at(
        self, client: CquencerClient, buffer: bytearray, at: int, stop: int, expected: bytes
    ) -> int:
        """Report the invalid byte at `at`."""
        return self._break(client, client.passed + at, expected, b"0x%02x" % buffer[at])

    def _break(self, client: CquencerClient, at: int, expected: bytes, seen: bytes) -> int:
        """Ignore all input from byte `at` on: the stream can no longer be framed."""
        client.ending = True
        words = b"-ERR 'Not a Netstring: at byte %d: expected %b, got %b'"
        client.fault = words % (at, expected, seen)
        return self._refuse(client, client.fault)

    # Messages and answers

    def _take(self, client: CquencerClient, buffer: bytearray, at: int, size: int) -> int:
        """Number one message; its number is the answer."""
        route = self.sublist.find(self.text, 0, self.subject_size)
        self.plane.charge_work(ANSWER_WORK + (size >> BYTES_SHIFT))
        message = self.message
        message.buffer = message.data = buffer
        message.body = message.payload = at
        message.size = message.payload_size = size
        message.origin = client.origin
        message.origin_sequence = client.messages + 1
        number = self.plane.submit_from_port(message, route)
        if number == 0:
            return self._no_number(client, size)
        client.messages += 1
        client.bytes += size
        self.messages += 1
        self.bytes += size
        if client.end == 0:
            self.asked.append(client)
        client.wanted = number
        return client.number(number)

    def _query(self, client: CquencerClient) -> int:
        """Answer with the last number given, to any publisher."""
        self.plane.charge_work(ANSWER_WORK)
        client.queries += 1
        self.queries += 1
        if client.end == 0:
            self.asked.append(client)
        if client.owed:
            return client.owe(0)
        client.wanted = self.sequencer.number
        return client.number(client.wanted)

    def _no_number(self, client: CquencerClient, size: int) -> int:
        """Handle a message without a number: it is refused, or waits for a cluster's commit."""
        place = self.plane.entered
        if place == 0:
            error = self.plane.control.no_room_for(bytes(self.subject))
            return self._refuse(client, error.reply.rstrip())
        self.plane.entered = 0
        self.messages += 1
        self.bytes += size
        if client.end == 0:
            self.asked.append(client)
        client.wanted = NEVER
        return client.count_forwarded(place, size)

    def _refuse(self, client: CquencerClient, words: bytes) -> int:
        """Answer with an error."""
        self.plane.charge_work(ANSWER_WORK)
        client.errors += 1
        self.errors += 1
        if client.end == 0:
            self.asked.append(client)
        return client.say(words)

    def _settle(self) -> int:
        """Release the effects of this round, then answer with the numbers that are safe."""
        self.gate.write_turn()
        self.gate.release(None)
        for item in self.asked:
            client = cython.cast(CquencerClient, item)
            if client.wanted > self.sequencer.safe:
                self.waiting.append(client)
            else:
                self._answer(client)
        self.asked.clear()
        return 0

    def _answer(self, client: CquencerClient) -> int:
        """Send a client its answers; the rest when its socket takes more."""
        if client.fd < 0:
            return 0
        if client.sent < client.end:
            got = self._send(client)
            if got < 0:
                return 0
            client.sent += got
            if client.sent < client.end:
                return self.watch(client, EPOLLOUT)
        client.emptied()
        if client.ending:
            self._finish(client)
        elif client.late:
            self.late.append(client)
        return self.watch(client, EPOLLIN)

    def _send(self, client: CquencerClient) -> int:
        """Send answers as far as the socket takes them; return how many bytes, -1 if closed."""
        if cython.compiled:
            got = send(client.fd, client.data + client.sent, client.end - client.sent, MSG_NOSIGNAL)
            if got >= 0:
                return got
            self.error = errno
        else:
            try:
                view = memoryview(client.out)[client.sent : client.end]
                return int(client.connection.send(view, MSG_NOSIGNAL))
            except OSError as error:
                self.error = error.errno or errno.EIO
        if self.error in (EAGAIN, EINTR):
            return 0
        self.close(client)
        return -1

    def watch(self, client: CquencerClient, interest: int) -> int:
        """Set the events that the epoll reports for a client, besides its end."""
        if client.interest != interest:
            client.interest = interest
            self.poller.modify(client.fd, interest)
        return 0

    def _finish(self, client: CquencerClient) -> None:
        """Announce the end of the answers to a client, and wait until it closes the connection.

        A socket that is closed with unread input is reset, and answers on their way are lost. So
        its input is read and discarded; `owner` decides how long.
        """
        if not client.ended:
            client.ended = True
            self.owner.ending(client)

    def _go_on(self) -> int:
        """Serve the late clients' input, which was read before."""
        late = self.late
        self.late = []
        for item in late:
            client = cython.cast(CquencerClient, item)
            own = client.kept
            if client.fd >= 0 and client.late and own is not None:
                client.late = False
                client.keep(own, self._walk(client, own, client.held), client.held)
        return 0
