"""Fake sessions around a real data plane: what a socket would do, without one.

A `Socket` is broker/session.py without asyncio: it takes what the plane flushes, stops taking
when its client does not read (`stall`), and takes up again (`resume`). The rest is the
product's own: inbox, parser, plane, control, link. After every chunk the model hears it too,
and what both have done must agree.
"""

from typing import Any

from broker.control import Control
from broker.inbox import Inbox, Intake
from broker.kinds import classifier
from broker.link import Link
from broker.plane import Plane
from fuzz.fence import fenced
from fuzz.model_broker import EXCLUDED_TOKEN, INFO, Model, ModelLink
from fuzz.model_frame import NETSTRING
from fuzz.model_stream import Got, fits, messages, unframe
from parser.errors import SlowConsumer
from parser.machine import Parser
from sequencer.sequencer import Sequencer
from sublist.sublist import Sublist

STORE_MAX = 262144  # of an outbox, unless one message is longer
SLOW = SlowConsumer.reply


class Socket:
    """One client's connection, as the plane sees a session; and the client's side of it."""

    label = "a fuzzed client"

    def __init__(self, world: "World", frame: str, max_pending: int) -> None:
        self.world = world
        self.listener_frame = frame
        self.options: dict[str, Any] = {}
        self.model = ModelLink(frame)
        parser = Parser(world.model.max_control_line, world.model.max_payload)
        self.link = Link(self, parser, max_pending)
        self.link.settle(frame)
        self.intake = Intake(world.inbox)
        self.output = bytearray()  # what the client can read, or has read
        self.room = -1  # bytes that the socket takes before it stalls; -1: any
        self.received = 0
        self.backlog: bytearray | None = None  # read, but not yet served
        self.greeted = self.ending = self.gone = False
        self.lost = False  # output was dropped with the connection
        self.eager = True  # has taken all at once, always
        self.framed = frame == NETSTRING  # always, so far

    # What the plane and the control ask of a session

    def flush(self) -> None:
        link = self.link
        while link.writable:
            view = link.next_waiting()
            if view is None:
                break
            self._send(view)
        if link.writable and link.stored():
            with link.unsent() as view:
                self._send(view)
            link.emptied(link.stored())

    def finish(self) -> None:
        self.ending = True

    def cut_off(self, reason: str = "") -> None:
        self.world.cut.append(self)
        self.link.drop_output()
        if not self.gone:
            self.output += SLOW
        self.close()
        self.lost = True

    def connected(self) -> None:
        self.framed = self.framed and self.link.frame == NETSTRING

    def pinged(self) -> None:
        if self.options.get("protocol") == 1 and not self.greeted:
            self.greeted = True
            self.world.plane.say(self.link, INFO)

    def ponged(self) -> None:
        pass

    # What the event loop does to one

    def stall(self, room: int) -> None:
        """The client stops reading; its socket takes so many bytes more."""
        self.room = room
        self.eager = False
        if room == 0:
            self.link.writable = False

    def resume(self) -> None:
        """The client has read everything, and goes on."""
        self.room = -1
        self.link.writable = True
        self.flush()

    def close(self) -> None:
        """Say what there is to say, and close."""
        self.world.control.drop(self.link)
        while (view := self.link.next_waiting()) is not None:
            self.output += view
        if self.link.stored():
            self.output += self.link.unsent()
            self.link.emptied(self.link.stored())
        self.gone = True

    def _send(self, view: memoryview) -> None:
        if self.gone:
            return
        self.output += view
        if self.room >= 0:
            self.room -= len(view)
            self.link.writable = self.room > 0


class World:
    """A broker with some clients, and the model that judges it."""

    def __init__(
        self,
        model: Model,
        frames: list[str],
        *,
        max_pending: int,
        inbox_size: int,
        max_routes: int,
        number: int,
    ) -> None:
        self.model = model
        self.max_pending = max_pending
        exclude = [EXCLUDED_TOKEN + b".>"] if model.excluding else []
        sublist = Sublist(classifier(exclude), max_routes)
        self.plane = Plane(sublist, Sequencer(number), min(1 << 20, max_pending // 2))
        self.control = Control(self.plane, model.max_subscriptions)
        self.plane.attach(self.control)
        self.inbox = Inbox(inbox_size, model.max_control_line)
        self.cut: list[Socket] = []
        self.sockets = [Socket(self, frame, max_pending) for frame in frames]
        self.past: list[Socket] = []
        model.number = number

    def feed(self, at: int, chunk: bytes) -> None:
        """A client sends a chunk; it is read in as many pieces as the inbox asks for."""
        socket = self.sockets[at]
        while chunk:
            self._go_on(socket)
            if socket.link.closed:
                return
            view = socket.intake.buffer()
            count = min(len(view), len(chunk))
            assert count, "there is always room to read into"
            view[:count] = chunk[:count]
            self._read(socket, chunk[:count])
            chunk = chunk[count:]

    def _read(self, socket: Socket, piece: bytes) -> None:
        """One read event, and the turns that others have while it is served."""
        store, stop = socket.intake.filled(len(piece))
        socket.received += len(piece)
        self._serve(socket, store, stop, piece)
        if len(piece) % 2:  # else it is left until the client acts again, or all is over
            self._go_on(socket)

    def _serve(self, socket: Socket, store: bytearray, stop: int, piece: bytes) -> None:
        with fenced(store, 0, stop):
            start = self.plane.receive(socket.link, store, stop)
        assert 0 <= start <= stop, "what is kept lies in the buffer"
        if self.plane.interrupted:
            socket.backlog = store[start:stop]
            socket.intake.keep(store, stop, stop, socket.link.parser)
        elif not socket.link.closed:
            socket.intake.keep(store, start, stop, socket.link.parser)
        self._agree(socket, piece, socket.received - (stop - start), self.plane.interrupted)
        if socket.ending and not socket.gone:
            socket.close()
        own = socket.intake._own
        if own is not None:
            most = self.model.max_control_line + self.model.max_payload + 4
            assert len(own) <= most, "an unfinished operation is bounded"

    def _go_on(self, socket: Socket) -> None:
        """Serve what was read but not served, because it was much work."""
        while socket.backlog is not None and not socket.link.closed:
            backlog, socket.backlog = socket.backlog, None
            self._serve(socket, backlog, len(backlog), b"")

    def beat(self, at: int) -> None:
        """The heartbeat asks a client for a sign of life."""
        socket = self.sockets[at]
        if not socket.link.closed:
            socket.model.tell(b"PING\r\n")
            self.plane.say(socket.link, b"PING\r\n")
            self.plane.release(None)
            self._agree(socket, b"", socket.model.consumed, True)

    def reopen(self, at: int) -> None:
        """A client goes away without a word, and another comes."""
        socket = self.sockets[at]
        self._part(socket)
        self.sockets[at] = Socket(self, socket.listener_frame, self.max_pending)

    def _part(self, socket: Socket) -> None:
        socket.lost = socket.lost or (not socket.gone and socket.link.held() > 0)
        socket.gone = True
        self.control.drop(socket.link)
        socket.link.part()
        self.model.drop(socket.model)
        self.past.append(socket)

    def _agree(self, socket: Socket, piece: bytes, reached: int, interrupted: bool) -> None:
        """Let the model hear what the plane heard; compare what shows at once."""
        for link in self.plane.crowded:
            assert not link.lagging, "who has held long enough holds nobody"
        self.plane.crowded.clear()
        cut = [other.model for other in self.cut]
        self.model.feed(socket.model, piece, reached, interrupted, cut)
        assert not any(other.eager for other in self.cut), "who reads all is never too slow"
        self.cut.clear()
        for other in self.sockets:
            self._bounded(other)
            if self.model.exact:
                assert other.link.closed == other.model.closed, "both hang up, or none"
        if self.model.exact and not socket.model.cut:
            assert socket.link.in_msgs == socket.model.in_msgs, "every message is counted"
            assert socket.link.in_bytes == socket.model.in_bytes, "every byte is counted"

    def _bounded(self, socket: Socket) -> None:
        link = socket.link
        slack = max(STORE_MAX, 2 * self.model.max_payload)
        assert link.held() <= self.max_pending + slack, "unsent bytes are bounded"
        stores = sum(memoryview(view.obj).nbytes for view in link.waiting or ())
        assert stores <= 2 * (self.max_pending + slack), "so is the memory for them"
        if link.writable and not link.closed:
            assert link.held() == 0, "what a socket takes is not held back"

    def finish(self) -> None:
        """Every client reads what there is for it; then all must have been told the truth."""
        for socket in self.sockets:
            self._go_on(socket)
        for socket in self.sockets:
            if not socket.gone:
                socket.resume()
        got = [messages(bytes(socket.output)) for socket in (*self.past, *self.sockets)]
        for socket, heard in zip((*self.past, *self.sockets), got, strict=True):
            self._judge(socket, heard)
        self._one_order(got)
        if self.model.exact and not any(s.lost for s in (*self.past, *self.sockets)):
            most = self.model.copies + self.model.perhaps
            assert self.model.copies <= sum(map(len, got)) <= most, "a group gets each message once"
            assert self.plane.sequencer.number == self.model.number, "every message has one number"
        for socket in self.sockets:
            self._part(socket)
        self.plane.release(None)
        figures = self.plane.sublist.statistics()
        assert figures["subscriptions"] == figures["patterns"] == 0, "nobody is left"

    def _judge(self, socket: Socket, heard: list[Got]) -> None:
        output, model = bytes(socket.output), socket.model
        if not self.model.exact:
            return
        if model.cut and output.endswith(SLOW):
            output = output[: -len(SLOW)]
        whole = not socket.lost
        assert fits(output, model.events, whole), f"{output!r} is not {model.events}"
        statuses = sum(b"" in event.may for event in model.events)
        if whole:
            assert socket.link.out_msgs == len(heard) - statuses, "only what is sent is counted"

    def _one_order(self, got: list[list[Got]]) -> None:
        """Numbers rise for everybody, and each is the same message for everybody."""
        seen: dict[int, tuple[bytes, bytes]] = {}
        everybody = zip((*self.past, *self.sockets), got, strict=True)
        for heard in (heard for socket, heard in everybody if socket.framed):
            last, sids = 0, set[bytes]()
            for message in heard:
                if message.subject.startswith(EXCLUDED_TOKEN + b"."):
                    continue
                try:
                    number, payload = unframe(message.payload)
                except AssertionError:  # an answer of the broker's own; or wrong, as fits() says
                    continue
                assert number >= last, "numbers rise"
                sids = {message.sid} if number > last else sids | {message.sid}
                assert seen.setdefault(number, (message.subject, payload)) == (
                    message.subject,
                    payload,
                ), "a number is one message"
                last = number
