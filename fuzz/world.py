"""Fake sessions around a real data plane: what a socket would do, without one.

A `Socket` is clients/session.py without asyncio: it takes what the plane flushes, stops taking
when its client does not read (`stall`), and takes up again (`resume`). The rest is the
product's own: inbox, parser, plane, control, link, and where there is a journal (fuzz/disk.py)
the replays. After every chunk the model hears it too, and what both have done must agree.
"""

from bisect import bisect_right
from typing import Any

from broker.clients.control import Control
from broker.clients.inbox import Inbox, Intake
from broker.dataplane.connection import Connection
from broker.dataplane.kinds import classifier
from broker.dataplane.plane import Plane
from broker.replay.replays import Replays
from fuzz.disk import Disk, Loop, Watch
from fuzz.fence import fenced
from fuzz.model_broker import EXCLUDED_TOKEN, INFO, Model
from fuzz.model_frame import NETSTRING
from fuzz.model_kept import Kept
from fuzz.model_link import ModelLink
from fuzz.model_stream import (
    Got,
    canonical,
    fits,
    fits_streams,
    messages,
    streams_of,
    unframe,
)
from parser.errors import SlowConsumer
from parser.machine import Parser
from sequencer.msgids import Window
from sequencer.sequencer import Sequencer
from sublist.sublist import Sublist

STORE_MAX = 262144  # of an outbox, unless one message is longer
SLOW = SlowConsumer.reply
BARE, IN_MEMORY, ON_DISK, SYNCED = range(4)  # where messages are kept; SYNCED: seen when synced
MILLISECOND = 1_000_000
CATCHUP = 2048  # unsent bytes over which the journal serves a link
WINDOW = 1 << 60


class Socket:
    """One client's connection, as the plane sees a session; and the client's side of it."""

    label = "a fuzzed client"

    def __init__(self, world: "World", frame: str, max_pending: int) -> None:
        self.world = world
        self.listener_frame = frame
        self.options: dict[str, Any] = {}
        self.introduced = False
        self.cut_reason = ""
        self.model = ModelLink(frame)
        parser = Parser(world.model.max_control_line, world.model.max_payload)
        self.connection = Connection(self, parser, max_pending)
        self.connection.settle(frame)
        self.intake = Intake(world.inbox)
        self.output = bytearray()  # what the client can read, or has read
        self.room = -1  # bytes that the socket takes before it stalls; -1: any
        self.received = 0
        self.backlog: bytearray | None = None  # read, but not yet served
        self.greeted = self.ending = self.gone = False
        self.lost = False  # output was dropped with the connection
        self.eager = True  # has taken all at once, always
        self.framed = frame == NETSTRING  # always, so far
        self.marks: list[tuple[int, int]] = []  # where output began, and the last safe number then
        world.connections += 1
        self.connection.origin = self.model.origin = world.connections

    # What the plane and the control ask of a session

    def flush(self) -> None:
        connection = self.connection
        while connection.writable:
            view = connection.next_waiting()
            if view is None:
                break
            self._send(view)
        if connection.writable and connection.stored():
            with connection.unsent() as view:
                size = len(view)
                if size:
                    self._send(view)
            connection.emptied(size)

    def finish(self, why: str = "") -> None:
        self.ending = True

    def cut_off(self, reason: str = "") -> None:
        self.world.cut.append(self)
        self.connection.drop_output()
        if not self.gone:
            self.output += SLOW
        self.close()
        self.lost = True

    def connected(self) -> None:
        self.framed = self.framed and self.connection.frame == NETSTRING

    def pinged(self) -> None:
        if self.options.get("protocol") == 1 and not self.greeted:
            self.greeted = True
            self.world.plane.say(self.connection, INFO)

    def ponged(self) -> None:
        pass

    # What the event loop does to one

    def stall(self, room: int) -> None:
        """The client stops reading; its socket takes so many bytes more."""
        self.room = room
        self.eager = False
        if room == 0:
            self.connection.writable = False

    def resume(self) -> None:
        """The client has read everything, and goes on."""
        self.room = -1
        self.connection.writable = True
        self.flush()
        if self.world.replays is not None:
            self.world.replays.wake(self.connection)

    def close(self) -> None:
        """Say what there is to say, and close."""
        detached = self.connection.detached
        self.world.control.drop(self.connection)
        self._mark()
        while (view := self.connection.next_waiting()) is not None:
            self.output += view
        if rest := bytes(self.connection.unsent()):
            self.output += rest
            self.connection.emptied(len(rest))
        self.gone = True
        self.lost = self.lost or detached or self.model.asked or self.connection.held() > 0

    def _send(self, view: memoryview) -> None:
        if self.gone:
            return
        self._mark()
        self.output += view
        if self.room >= 0:
            self.room -= len(view)
            self.connection.writable = self.room > 0

    def _mark(self) -> None:
        self.marks.append((len(self.output), self.world.plane.sequencer.safe))

    def safe_at(self, place: int) -> int:
        """The last number that might be seen when what is at `place` was sent."""
        return self.marks[bisect_right(self.marks, place, key=lambda mark: mark[0]) - 1][1]


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
        keeping: int,
    ) -> None:
        self.model = model
        self.connections = 0
        self.max_pending = max_pending
        exclude = [EXCLUDED_TOKEN + b".>"] if model.excluding else []
        sublist = Sublist(classifier(exclude), max_routes)
        self.plane = Plane(sublist, Sequencer(number), min(1 << 20, max_pending // 2))
        self.control = Control(self.plane, model.max_subscriptions)
        self.plane.attach(self.control)
        model.number = number
        model.kept = Kept(number + 1, keeping != BARE, keeping >= ON_DISK)
        self.synced_only = keeping == SYNCED
        self.loop = Loop()
        self.replays: Replays | None = None
        self.disk: Disk | None = None
        if keeping != BARE:
            self._keep(Disk(number, keeping != IN_MEMORY), keeping)
        self.inbox = Inbox(inbox_size, model.max_control_line)
        self.cut: list[Socket] = []
        self.sockets = [Socket(self, frame, max_pending) for frame in frames]
        self.past: list[Socket] = []

    def _keep(self, disk: Disk, keeping: int) -> None:
        """Keep everything from now on."""
        self.disk = disk
        self.replays = self.control.replays = Replays(self.plane, disk, self.loop)  # type: ignore[arg-type]
        self.watch = Watch(self.plane.gate, self.replays, disk, self.synced_only)
        self.control.keeper = self.watch  # type: ignore[assignment]
        self.plane.sequencer.keep(disk, self.synced_only, self.watch.trouble)
        self.plane.know_ids(Window(WINDOW, 1 << 20))
        if keeping != IN_MEMORY:
            self.plane.gate.catchup_pending = CATCHUP

    def feed(self, at: int, chunk: bytes) -> None:
        """A client sends a chunk; it is read in as many pieces as the inbox asks for."""
        socket = self.sockets[at]
        while chunk:
            self._go_on(socket)
            if socket.connection.closed:
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
        self.model.kept.now += MILLISECOND
        self.plane.sequencer.tick(self.model.kept.now)
        with fenced(store, 0, stop):
            start = self.plane.receive(socket.connection, store, stop)
        assert 0 <= start <= stop, "what is kept lies in the buffer"
        if self.plane.interrupted:
            socket.backlog = store[start:stop]
            socket.intake.keep(store, stop, stop, socket.connection.parser)
        elif not socket.connection.closed:
            socket.intake.keep(store, start, stop, socket.connection.parser)
        self._agree(socket, piece, socket.received - (stop - start), self.plane.interrupted)
        self._turn(len(piece) % 2 == 0)
        if socket.ending and not socket.gone:
            socket.close()
        own = socket.intake._own
        if own is not None:
            most = self.model.max_control_line + self.model.max_payload + 4
            assert len(own) <= most, "an unfinished operation is bounded"

    def _go_on(self, socket: Socket) -> None:
        """Serve what was read but not served, because it was much work."""
        while socket.backlog is not None and not socket.connection.closed:
            backlog, socket.backlog = socket.backlog, None
            self._serve(socket, backlog, len(backlog), b"")

    def _turn(self, sync: bool) -> None:
        """What an event loop would do between two read events."""
        if self.replays is None:
            return
        if sync and self.synced_only:
            self.watch.sync()
            self.watch.sync()
        self.replays.advance()
        self.loop.run()
        self._learn()

    def _learn(self) -> None:
        """Tell the model who lags."""
        for socket in (*self.sockets, *self.past):
            socket.model.lagging = socket.connection.detached
            socket.model.lagged = socket.model.lagged or socket.connection.detached

    # The journal

    def fill(self) -> None:
        """The disk has no more room than it has made sure of."""
        if self.disk is not None and self.model.kept.bounded:
            self.disk.short = self.model.kept.short = True

    def jam(self) -> None:
        """Writes fail."""
        if self.disk is not None and self.model.kept.bounded:
            self.disk.broken = True

    def mend(self) -> None:
        """The disk has room, and takes what is written."""
        if self.disk is not None:
            self.watch.mend()
            self.model.kept.mend(self.disk.limit)
            self._turn(False)

    def sync(self) -> None:
        """One sync ends, and another begins."""
        if self.synced_only:
            self.watch.sync()
            self._turn(False)

    def beat(self, at: int) -> None:
        """The heartbeat asks a client for a sign of life."""
        socket = self.sockets[at]
        if not socket.connection.closed:
            socket.model.tell(b"PING\r\n")
            self.plane.say(socket.connection, b"PING\r\n")
            self.plane.release(None)
            self._agree(socket, b"", socket.model.consumed, True)

    def reopen(self, at: int) -> None:
        """A client goes away without a word, and another comes."""
        socket = self.sockets[at]
        self._part(socket)
        self.sockets[at] = Socket(self, socket.listener_frame, self.max_pending)

    def _part(self, socket: Socket) -> None:
        waits = socket.connection.held() > 0 or socket.connection.detached or socket.model.asked
        socket.lost = socket.lost or (not socket.gone and waits)
        socket.gone = True
        self.control.drop(socket.connection)
        socket.connection.part()
        self.model.drop(socket.model)
        self.past.append(socket)

    def _agree(self, socket: Socket, piece: bytes, reached: int, interrupted: bool) -> None:
        """Let the model hear what the plane heard; compare what shows at once."""
        for connection in self.plane.gate.crowded:
            assert not connection.lagging, "who has held long enough holds nobody"
        self.plane.gate.crowded.clear()
        if self.replays is not None:
            self._learn()
            self.model.kept.stuck_at = self.watch.stuck_at
        cut = [other.model for other in self.cut]
        self.model.feed(socket.model, piece, reached, interrupted, cut)
        held_up = self.synced_only or self.model.kept.stuck_at is not None
        eager = not held_up and any(other.eager for other in self.cut)
        assert not eager, "who reads all is never too slow"
        self.cut.clear()
        for other in self.sockets:
            self._bounded(other)
            if self.model.exact:
                assert other.connection.closed == other.model.closed, "both hang up, or none"
        if self.model.exact and not socket.model.cut:
            assert socket.connection.in_msgs == socket.model.in_msgs, "every message is counted"
            assert socket.connection.in_bytes == socket.model.in_bytes, "every byte is counted"

    def _bounded(self, socket: Socket) -> None:
        connection = socket.connection
        slack = max(STORE_MAX, 2 * self.model.max_payload)
        assert connection.held() <= self.max_pending + slack, "unsent bytes are bounded"
        stores = sum(memoryview(view.obj).nbytes for view in connection.waiting or ())
        assert stores <= 2 * (self.max_pending + slack), "so is the memory for them"
        if connection.writable and not connection.closed and not connection.fenced:
            assert connection.held() == 0, "what a socket takes is not held back"

    def finish(self, why: str = "") -> None:
        """Every client reads what there is for it; then all must have been told the truth."""
        self.mend()
        for socket in self.sockets:
            self._go_on(socket)
        self.mend()
        self._turn(True)
        for socket in self.sockets:
            if not socket.gone:
                socket.resume()
        self._turn(True)
        self._turn(True)
        got = [messages(bytes(socket.output)) for socket in (*self.past, *self.sockets)]
        for socket, heard in zip((*self.past, *self.sockets), got, strict=True):
            self._judge(socket, heard)
        self._one_order(got)
        everybody = (*self.past, *self.sockets)
        if self.model.exact and not any(s.lost or s.model.loose for s in everybody):
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
        if not self.model.exact or model.loose:
            return
        if model.cut and output.endswith(SLOW):
            output = output[: -len(SLOW)]
        whole = not socket.lost
        assert self._fits(model, output, whole), f"{output!r} is not {model.events}"
        uncounted = [event for event in model.events if not event.counted]
        surely = all(event.must or event.sure for event in uncounted)
        if whole and surely:
            assert socket.connection.out_msgs == len(heard) - len(uncounted), (
                "what is sent is counted"
            )

    def _fits(self, model: ModelLink, output: bytes, whole: bool) -> bool:
        """In the order of all that was heard; where the journal serves a link, in each one's."""
        if not model.lagged and not model.asked:
            return fits(output, model.events, whole)
        for event in model.events:
            event.must = [canonical(text) for text in event.must]
            event.may = {key: [canonical(t) for t in texts] for key, texts in event.may.items()}
        return fits_streams(canonical(output), streams_of(model.events), whole)

    def _one_order(self, got: list[list[Got]]) -> None:
        """Numbers rise for everybody, and each is the same message for everybody."""
        seen: dict[int, tuple[bytes, bytes]] = {}
        everybody = zip((*self.past, *self.sockets), got, strict=True)
        for socket, heard in ((socket, heard) for socket, heard in everybody if socket.framed):
            last, sids = 0, set[bytes]()
            for message in heard:
                if message.subject.startswith(EXCLUDED_TOKEN + b"."):
                    continue
                try:
                    number, payload = unframe(message.payload)
                except AssertionError:  # an answer of the broker's own; or wrong, as fits() says
                    continue
                assert number <= socket.safe_at(message.at), "nothing is seen before it is safe"
                assert number >= last or socket.model.asked, "numbers rise"
                sids = {message.sid} if number > last else sids | {message.sid}
                assert seen.setdefault(number, (message.subject, payload)) == (
                    message.subject,
                    payload,
                ), "a number is one message"
                last = number
