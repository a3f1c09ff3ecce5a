"""A stage and its model, and whether both agree.

After every read event the model processes what the plane has read. What is visible at once is
compared then; everything that each client received is compared at the end. A program changes a
world by `feed`, by what its clients do (they stall, resume, are replaced), and by what happens to
the journal.
"""

from bisect import bisect_right

from broker.storage.keeper import RETRY
from sequencer.msgids import Window
from testkit.disk import Disk
from testkit.model_broker import EXCLUDED_TOKEN, INFO, Model
from testkit.model_connection import Copy, ModelConnection
from testkit.model_frame import NETSTRING, split_frame
from testkit.model_kept import Kept
from testkit.model_stream import (
    Got,
    canonical,
    fits,
    fits_streams,
    messages,
    streams_of,
)
from testkit.peer import SLOW, Peer
from testkit.stage import Stage

BUFFER_MAX = 262144  # of an outbox, unless one message is longer
# where messages are kept; SYNCED: visible only once synced
BARE, IN_MEMORY, ON_DISK, SYNCED = range(4)
MILLISECOND = 1_000_000
CATCHUP = 2048  # unsent bytes above which the journal serves a connection
WINDOW = 1 << 60


class JudgedPeer(Peer):
    """A peer with its model, and what its judge must know about the output."""

    def __init__(self, world: "World", frame: str, max_pending: int) -> None:
        super().__init__(world.stage, frame, max_pending)
        self.world = world
        self.model = ModelConnection(frame, origin=self.connection.origin)
        self.received = 0
        self.judged = 0  # bytes of output that the model has accounted for
        self.greeted = False
        self.lost = False  # output was dropped with the connection
        self.eager = True  # has read everything at once, always
        self.framed = frame == NETSTRING  # always, so far
        self.marks: list[tuple[int, int]] = []  # where output began, and the last safe number then

    def cut_off(self, reason: str = "") -> None:
        self.world.cut.append(self)
        super().cut_off(reason)
        self.lost = True

    def connected(self) -> None:
        super().connected()
        self.framed = self.framed and self.connection.frame == NETSTRING

    def pinged(self) -> None:
        super().pinged()
        if self.options.get("protocol") == 1 and not self.greeted:
            self.greeted = True
            self.stage.plane.send_control(self.connection, INFO)

    def write(self, view: memoryview) -> None:
        self.marks.append((len(self.heard), self.world.safe))
        super().write(view)

    def close(self) -> None:
        detached = self.connection.detached
        super().close()
        self.lost = self.lost or detached or self.model.asked or self.connection.held() > 0

    def stall(self, room: int = 0) -> None:
        super().stall(room)
        self.eager = False

    def serve(self, data: bytearray, stop: int, brought: bytes) -> None:
        self.received += len(brought)
        self.world.tick()
        super().serve(data, stop, brought)
        own = self.intake.own
        if own is not None:
            most = sum(self.stage.limits) + 4
            assert len(own) <= most, "an unfinished operation is bounded"

    def served(self, brought: bytes, left: int) -> None:
        self.world.served(self, brought, self.received - left)

    def safe_at(self, place: int) -> int:
        """The last number that could be visible when the bytes at `place` were sent."""
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
        observed: bool = False,
    ) -> None:
        """`observed`: no client stalls, and operations come one by one, so groups' choices show."""
        self.model = model
        self.max_pending = max_pending
        self.synced_only = keeping == SYNCED
        self.disk = Disk(number, keeping != IN_MEMORY) if keeping != BARE else None
        self.stage = Stage(
            number=number,
            exclude=[EXCLUDED_TOKEN + b".>"] if model.excluding else [],
            max_routes=max_routes,
            max_subscriptions=model.max_subscriptions,
            hold_pending=min(1 << 20, max_pending // 2),
            max_control_line=model.max_control_line,
            max_payload=model.max_payload,
            receive_buffer=inbox_size,
            journal=self.disk,
            sync="always" if self.synced_only else "never",
            catchup_pending=CATCHUP if keeping >= ON_DISK else 0,
        )
        self.plane, self.replays = self.stage.plane, self.stage.replays
        if self.stage.keeper is not None:
            self.stage.loop.held = self.stage.keeper._thread
            self.plane.know_ids(Window(WINDOW, 1 << 20))
        model.number = number
        model.kept = Kept(number + 1, keeping != BARE, keeping >= ON_DISK)
        self.cut: list[JudgedPeer] = []
        self.peers = [JudgedPeer(self, frame, max_pending) for frame in frames]
        self.past: list[JudgedPeer] = []
        if observed:
            model.choose = self._choice_of

    @property
    def safe(self) -> int:
        """The last number that may be visible."""
        if self.disk is None:
            return self.stage.number
        return self.disk.durable if self.synced_only else self.disk.last

    def tick(self) -> None:
        """Let time pass between two turns."""
        self.model.kept.now += MILLISECOND
        self.plane.sequencer.tick(self.model.kept.now)

    def feed(self, at: int, chunk: bytes) -> None:
        """Send a chunk of a client; it is read in as many pieces as the inbox needs."""
        peer = self.peers[at]
        while chunk:
            peer.go_on()
            if peer.connection.closed:
                return
            count = peer.read(chunk)
            chunk = chunk[count:]
            if count % 2:  # otherwise it waits until the client acts again, or until the end
                peer.go_on()

    def served(self, peer: JudgedPeer, brought: bytes, reached: int) -> None:
        """End a turn in which a client was served."""
        self._agree(peer, brought, reached, self.plane.interrupted)
        self._turn(len(brought) % 2 == 0)

    def _turn(self, sync: bool) -> None:
        """Do what an event loop would do between two read events."""
        if self.replays is None:
            return
        if sync:
            while self.stage.loop.work_held():
                pass
        self.replays.advance()
        self.stage.loop.run()
        self._learn()

    def _learn(self) -> None:
        """Tell the model which clients lag."""
        for peer in (*self.peers, *self.past):
            peer.model.lagging = peer.connection.detached
            peer.model.lagged = peer.model.lagged or peer.connection.detached

    # The journal

    def fill(self) -> None:
        """Leave the disk no more room than it has reserved."""
        if self.disk is not None and self.model.kept.bounded:
            self.disk.short = self.model.kept.short = True

    def jam(self) -> None:
        """Make writes fail."""
        if self.disk is not None and self.model.kept.bounded:
            self.disk.broken = True

    def mend(self) -> None:
        """Give the disk room, and let it take what is written."""
        if self.disk is not None:
            self.disk.mend()
            self.stage.loop.later(2 * RETRY)
            self.model.kept.mend(self.disk.limit)
            self._turn(False)

    def sync(self) -> None:
        """End one sync, and begin another."""
        if self.synced_only:
            self.stage.loop.work_held()
            self._turn(False)

    def beat(self, at: int) -> None:
        """Ask a client for a sign of life, as the heartbeat does."""
        peer = self.peers[at]
        if not peer.connection.closed:
            peer.model.tell(b"PING\r\n")
            self.plane.send_control(peer.connection, b"PING\r\n")
            self.plane.release(None)
            self._agree(peer, b"", peer.model.consumed, True)

    def reopen(self, at: int) -> None:
        """Let a client vanish, and another one connect."""
        peer = self.peers[at]
        self._part(peer)
        self.peers[at] = JudgedPeer(self, peer.listener_frame, self.max_pending)

    def _part(self, peer: JudgedPeer) -> None:
        waits = peer.connection.held() > 0 or peer.connection.detached or peer.model.asked
        peer.lost = peer.lost or (not peer.gone and waits)
        peer.leave()
        self.model.drop(peer.model)
        self.past.append(peer)

    # The judge

    def _agree(self, peer: JudgedPeer, piece: bytes, reached: int, interrupted: bool) -> None:
        """Let the model process what the plane read; compare what is visible at once."""
        for connection in self.plane.gate.crowded:
            assert not connection.lagging, "who has held long enough holds nobody"
        self.plane.gate.crowded.clear()
        if self.disk is not None:
            self._learn()
            self.model.kept.stuck_at = self.disk.stuck_at
        cut = [other.model for other in self.cut]
        self.model.feed(peer.model, piece, reached, interrupted, cut)
        for other in self.peers:
            other.judged = len(other.heard)
        held_up = self.synced_only or self.model.kept.stuck_at is not None
        eager = not held_up and any(other.eager for other in self.cut)
        assert not eager, "who reads all is never too slow"
        self.cut.clear()
        for other in self.peers:
            self._bounded(other)
            if self.model.exact:
                assert other.connection.closed == other.model.closed, "both hang up, or none"
        if self.model.exact and not peer.model.cut:
            assert peer.connection.in_msgs == peer.model.in_msgs, "every message is counted"
            assert peer.connection.in_bytes == peer.model.in_bytes, "every byte is counted"

    def _choice_of(self, group: list[Copy]) -> Copy:
        """Return the copy that a member of this group received in this turn."""
        heard = {id(peer.model): bytes(peer.heard[peer.judged :]) for peer in self.peers}
        got = [copy for copy in group if copy.text in heard[id(copy.sub.connection)]]
        assert len(got) == 1, f"a group gets each message once, not {got} of {group}"
        return got[0]

    def _bounded(self, peer: JudgedPeer) -> None:
        connection = peer.connection
        slack = max(BUFFER_MAX, 2 * self.model.max_payload)
        assert connection.held() <= self.max_pending + slack, "unsent bytes are bounded"
        buffers = sum(memoryview(view.obj).nbytes for view in connection.waiting or ())
        assert buffers <= 2 * (self.max_pending + slack), "so is the memory for them"
        if connection.writable and not connection.closed and not connection.fenced:
            assert connection.held() == 0, "what a socket takes is not held back"

    def finish(self, why: str = "", reason: str = "") -> None:
        """Let every client read what is left; then each must have received what is right."""
        self.mend()
        for peer in self.peers:
            peer.go_on()
        self.mend()
        self._turn(True)
        for peer in self.peers:
            if not peer.gone:
                peer.read_on()
        self._turn(True)
        self._turn(True)
        got = [messages(bytes(peer.heard)) for peer in (*self.past, *self.peers)]
        for peer, heard in zip((*self.past, *self.peers), got, strict=True):
            self._judge(peer, heard)
        self._one_order(got)
        self._check_subscriptions()
        everybody = (*self.past, *self.peers)
        if self.model.exact and not any(s.lost or s.model.loose for s in everybody):
            most = self.model.copies + self.model.perhaps
            assert self.model.copies <= sum(map(len, got)) <= most, "a group gets each message once"
            assert self.plane.sequencer.number == self.model.number, "every message has one number"
        for peer in self.peers:
            self._part(peer)
        self.plane.release(None)
        figures = self.plane.sublist.statistics()
        assert figures["subscriptions"] == figures["patterns"] == 0, "nobody is left"

    def _check_subscriptions(self) -> None:
        """Compare the subscriptions of each, and their counts, if no journal defers events."""
        if not self.model.exact or self.disk is not None:
            return
        for peer in self.peers:
            models, subs = peer.model.subs, peer.connection.subs
            assert subs.keys() == models.keys(), "the same subscriptions"
            given = {sid: sub.delivered for sid, sub in subs.items()}
            for sid, model in models.items():
                known = not model.queue or self.model.choose is not None
                assert not known or given[sid] == model.delivered, "what each was given is counted"
        left = sum(len(peer.model.subs) for peer in self.peers)
        assert self.stage.sublist.statistics()["subscriptions"] == left, "and nobody else's"

    def _judge(self, peer: JudgedPeer, heard: list[Got]) -> None:
        output, model = bytes(peer.heard), peer.model
        if not self.model.exact or model.loose:
            return
        if model.cut and output.endswith(SLOW):
            output = output[: -len(SLOW)]
        whole = not peer.lost
        assert self._fits(model, output, whole), f"{output!r} is not {model.events}"
        uncounted = [event for event in model.events if not event.counted]
        surely = all(event.must or event.sure for event in uncounted)
        if whole and surely:
            assert peer.connection.out_msgs == len(heard) - len(uncounted), (
                "what is sent is counted"
            )
        known = not any(event.may and event.counted for event in model.events)
        if whole and known and not (model.lagged or model.asked):
            assert peer.connection.out_bytes == model.out_bytes, "and each byte of it"

    def _fits(self, model: ModelConnection, output: bytes, whole: bool) -> bool:
        """True if the order fits: of everything received or, with the journal, of each stream."""
        if not model.lagged and not model.asked:
            return fits(output, model.events, whole)
        for event in model.events:
            event.must = [canonical(text) for text in event.must]
            event.may = {key: [canonical(t) for t in texts] for key, texts in event.may.items()}
        return fits_streams(canonical(output), streams_of(model.events), whole)

    def _one_order(self, got: list[list[Got]]) -> None:
        """Check that numbers increase for each client, and that each is one message for all."""
        seen: dict[int, tuple[bytes, bytes]] = {}
        everybody = zip((*self.past, *self.peers), got, strict=True)
        for peer, heard in ((peer, heard) for peer, heard in everybody if peer.framed):
            last, sids = 0, set[bytes]()
            for message in heard:
                if message.subject.startswith(EXCLUDED_TOKEN + b"."):
                    continue
                try:
                    number, payload = split_frame(message.payload)
                except AssertionError:  # the broker's own reply; or an error, which fits() reports
                    continue
                assert number <= peer.safe_at(message.at), "nothing is seen before it is safe"
                assert number >= last or peer.model.asked, "numbers rise"
                sids = {message.sid} if number > last else sids | {message.sid}
                assert seen.setdefault(number, (message.subject, payload)) == (
                    message.subject,
                    payload,
                ), "a number is one message"
                last = number
