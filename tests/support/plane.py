"""The data plane without a socket: connections that are fed bytes and read as bytes.

    stage = Stage()                        a plane, its sublist, its sequencer, its control
    stage = Stage(store=store)             the same with a journal; stage.turns is its loop
    peer = stage.join(b"CONNECT {...}")    a connection; `peer.ask(bytes)` is what it then hears

A Peer has the face that the plane and the control know of a session, and stands where the
socket would: it takes output while it reads, leaves it in the outbox while it is stalled, and
brings input through the broker's own inbox, in whatever pieces.

`message` writes what a subscriber must hear of one message, formatted naively, to judge by.
`python -m tests.support.plane FIRST STOP` plays random programs and prints what they come to,
so that two builds of the broker can be compared.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from random import Random
from sys import argv
from typing import Any, Literal

from broker.clients.control import Control
from broker.clients.inbox import Inbox, Intake
from broker.dataplane.connection import Connection
from broker.dataplane.kinds import classifier
from broker.dataplane.plane import Plane
from broker.replay.replays import Replays
from broker.settings.journal_settings import JournalSettings
from broker.storage.keeper import Keeper
from parser import errors
from parser.machine import Parser
from sequencer.journal.ring import Ring
from sequencer.journal.store import Store
from sequencer.sequencer import Sequencer
from sublist.sublist import Sublist
from tests.support.turns import Turns

QUIET = b'CONNECT {"verbose":false,"pedantic":false}\r\n'
HEADS = b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\n'
ASKER = b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true}\r\n'
SLOW = errors.SlowConsumer.reply


class Stage:
    """A plane and what belongs to it, as the server puts them together."""

    def __init__(
        self,
        *,
        number: int = 0,
        exclude: Sequence[bytes] = (),
        max_routes: int = 1 << 18,
        max_subscriptions: int = 0,
        max_matches: int = 0,
        hold_pending: int = 1 << 20,
        max_control_line: int = 4096,
        max_payload: int = 1 << 20,
        receive_buffer: int = 1 << 16,
        store: Store | Ring | None = None,
        sync: Literal["never", "interval", "always"] = "never",
        catchup_pending: int = 1 << 20,
        answers_pending: int = 1 << 29,
    ) -> None:
        self.sublist = Sublist(classifier(exclude), max_routes)
        self.sequencer = Sequencer(number)
        self.plane = Plane(self.sublist, self.sequencer, hold_pending)
        self.control = Control(self.plane, max_subscriptions, max_matches)
        self.plane.attach(self.control)
        self.inbox = Inbox(receive_buffer, max_control_line)
        self.limits = (max_control_line, max_payload)
        self.joined = 0  # connections so far
        self.flushed: list[Peer] = []  # in the order in which output was let out
        self.turns = Turns()
        self.replays: Replays | None = None
        self.keeper: Keeper | None = None
        if store is not None:
            self._keep(store, sync, catchup_pending, answers_pending)

    def _keep(
        self, store: Store | Ring, sync: str, catchup_pending: int, answers_pending: int
    ) -> None:
        """Number and keep as a broker with this store; its loop is `turns`."""
        loop: Any = self.turns
        self.replays = self.control.replays = Replays(self.plane, store, loop, answers_pending)
        settings = JournalSettings(sync=sync)
        self.keeper = self.control.keeper = Keeper(self.plane.gate, self.replays, settings, loop)
        self.sequencer.keep(store, sync == "always", self.keeper.trouble)
        self.plane.gate.catchup_pending = catchup_pending

    @property
    def number(self) -> int:
        """The last number given."""
        return self.sequencer.number

    def join(
        self, connect: bytes = b"", *, frame: str = "netstring", max_pending: int = 1 << 26
    ) -> "Peer":
        """A new connection at a listener with this frame, after what it says first."""
        peer = Peer(self, frame, max_pending)
        if connect:
            peer.send(connect)
            assert not peer.finished, peer.heard
            peer.heard.clear()
        return peer


class Peer:
    """One connection: a session's face on one side, a client's on the other."""

    label = "peer"

    def __init__(self, stage: Stage, frame: str, max_pending: int) -> None:
        self.stage = stage
        self.listener_frame = frame
        self.options: dict[str, object] = {}
        self.introduced = False
        self.connection = Connection(self, Parser(*stage.limits), max_pending)
        self.connection.settle(frame)
        self.connection.origin = stage.joined = stage.joined + 1
        self.socket_room: int | None = None  # bytes that its socket takes; None: whatever comes
        self.intake = Intake(stage.inbox)
        self.heard = bytearray()
        self.finished = self.slow = False
        self.connects = self.pings = self.pongs = 0
        self.turns = 0  # in which the plane has interrupted a read event

    # What the plane and the control know of a session

    def flush(self) -> None:
        self.stage.flushed.append(self)
        while self.connection.writable and (view := self.connection.next_waiting()) is not None:
            self._write(view)
        if self.connection.writable:
            with self.connection.unsent() as view:
                size = len(view)
                self._write(view)
            self.connection.emptied(size)

    def _write(self, view: memoryview) -> None:
        """Take all of it, as a transport does, and say whether the socket would take more."""
        self.heard += view
        if self.socket_room is not None:
            self.socket_room -= len(view)
            if self.socket_room <= 0:
                self.connection.writable = False

    def finish(self, why: str) -> None:
        self.finished = True
        self.why = why

    def cut_off(self) -> None:
        self.slow = True
        self.stage.control.drop(self.connection)
        self.connection.drop_output()
        self.heard += SLOW

    def connected(self) -> None:
        self.connects += 1

    def pinged(self) -> None:
        self.pings += 1

    def ponged(self) -> None:
        self.pongs += 1

    # What a client does

    def send(self, *chunks: bytes) -> None:
        """Read events that bring these chunks; what is too long for one comes in several."""
        for chunk in chunks:
            at = 0
            while at < len(chunk) and not self.connection.closed:
                buffer = self.intake.buffer()
                assert len(buffer) > 0, "a read needs room"
                count = min(len(buffer), len(chunk) - at)
                buffer[:count] = chunk[at : at + count]
                del buffer
                at += count
                self._read(count)

    def _read(self, count: int) -> None:
        """One read event, in as many turns as the plane asks for."""
        store, stop = self.intake.filled(count)
        plane, parser = self.stage.plane, self.connection.parser
        rest = plane.receive(self.connection, store, stop)
        while plane.interrupted:
            self.turns += 1
            backlog = store[rest:stop]
            self.intake.keep(store, stop, stop, parser)
            store, stop = backlog, len(backlog)
            rest = plane.receive(self.connection, store, stop)
        if not self.connection.closed:
            self.intake.keep(store, rest, stop, parser)
        if self.stage.replays is not None and self.stage.replays.waits:
            self.stage.replays.advance()
        if self.finished:
            self.connection.writable = True
            self.flush()
            self.stage.control.drop(self.connection)

    def ask(self, *chunks: bytes) -> bytes:
        """Send, and take all that has been heard."""
        self.send(*chunks)
        return self.take()

    def take(self) -> bytes:
        """What has been heard since it was last taken."""
        heard = bytes(self.heard)
        self.heard.clear()
        return heard

    def stall(self) -> None:
        """Read no more."""
        self.connection.writable = False

    def resume(self, room: int | None = None) -> bytes:
        """Read again, `room` bytes or all there is; what had waited."""
        self.socket_room = room
        self.connection.writable = True
        self.flush()
        if self.stage.replays is not None:
            self.stage.replays.wake(self.connection)
        return self.take()

    def leave(self) -> None:
        """Go away."""
        self.stage.control.drop(self.connection)
        self.connection.part()


def netstring_frame(number: int, payload: bytes) -> bytes:
    """The frame around one payload."""
    digits = b"%d" % number
    inner = b"%d:%b,%d:%b," % (len(digits), digits, len(payload), payload)
    return b"%d:%b," % (len(inner), inner)


@dataclass(frozen=True, slots=True)
class Message:
    """What a publisher sent. `sizes` is the text of its size, or of its two."""

    subject: bytes
    payload: bytes
    headers: bytes = b""
    reply: bytes = b""
    sizes: bytes = b""
    headed: bool = field(default=False)  # HPUB, be its headers empty

    @property
    def written(self) -> bytes:
        """The sizes as the publisher wrote them."""
        if self.sizes:
            return self.sizes
        total = len(self.headers) + len(self.payload)
        return b"%d %d" % (len(self.headers), total) if self.has_verb_hpub else b"%d" % total

    @property
    def has_verb_hpub(self) -> bool:
        return self.headed or bool(self.headers)

    @property
    def wire(self) -> bytes:
        """The operation that publishes it."""
        verb = b"HPUB" if self.has_verb_hpub else b"PUB"
        words = (verb, self.subject, self.reply, self.written)
        line = b" ".join(word for word in words if word)
        return line + b"\r\n" + self.headers + self.payload + b"\r\n"


def numbered_headers(headers: bytes, number: int) -> bytes:
    """Headers with the number after their first line, and no other one; see sequencer.headers."""
    field_line = b"Nats-Sequence: %d\r\n" % number
    first, end, rest = headers.partition(b"\r\n")
    if not end or first.partition(b" ")[0] != b"NATS/1.0":
        left_out = b"Seriatim-Left-Out: %d\r\n" % len(headers) if headers else b""
        return b"NATS/1.0\r\n" + field_line + left_out + b"\r\n"
    lines = [line for line in rest.split(b"\r\n") if not line.lower().startswith(b"nats-sequence:")]
    return first + end + field_line + b"\r\n".join(lines)


def message(sent: Message, sid: bytes, number: int, frame: str, takes_headers: bool) -> bytes:
    """What one subscription hears of a message; number 0 is for one without a number."""
    headers = sent.headers if takes_headers else b""
    if frame == "netstring" and number:
        body, sizes = netstring_frame(number, sent.payload), b""
    elif frame == "header" and takes_headers and number:
        headers, body, sizes = numbered_headers(headers, number), sent.payload, b""
    else:
        body = sent.payload
        as_written = bool(headers) == bool(sent.headers)
        sizes = sent.written if as_written else b""
        if as_written and not headers:
            sizes = sizes.split(b" ")[-1]
    if not sizes:
        total = len(headers) + len(body)
        sizes = b"%d %d" % (len(headers), total) if headers else b"%d" % total
    words = (b"HMSG" if headers else b"MSG", sent.subject, sid, sent.reply, sizes)
    return b" ".join(word for word in words if word) + b"\r\n" + headers + body + b"\r\n"


def pieces(wire: bytes, cuts: Iterable[int]) -> list[bytes]:
    """The bytes cut at these places, wherever they are."""
    edges = sorted({0, len(wire), *(cut % (len(wire) + 1) for cut in cuts)})
    return [wire[edges[at] : edges[at + 1]] for at in range(len(edges) - 1)]


# Random programs, the same for every build that plays them

SUBJECTS = (b"a", b"a.b", b"a.c", b"b.b", b"long." + b"x" * 40, b"a..b", b"$SEQ.x", b"_GR_.x")
PATTERNS = (b"a", b"a.*", b"*.b", b">", b"a.>", b"long.>", b"*", b"a.b", b"a..b", b"$SEQ.>")
FRAMES = ("netstring", "header", "none")


class Run:
    """A program drawn from a seed: what many connections say, in pieces, and hear."""

    def __init__(self, seed: int, peers: int = 4) -> None:
        self.random = Random(seed)
        exponent = self.random.randrange(0, 18)
        number = max(10**exponent - self.random.randrange(1, 60), 0)
        self.stage = Stage(number=number, exclude=[b"a.c"], max_routes=16, receive_buffer=8192)
        self.heard: list[bytes] = []
        self.peers = [self._join() for _ in range(peers)]

    def play(self, steps: int) -> bytes:
        """Everything that was heard, and all that was counted."""
        for _ in range(steps):
            who = self.random.randrange(len(self.peers))
            self._step(who)
            if self.peers[who].finished or self.peers[who].slow:
                self._replace(who)
        for who in range(len(self.peers)):
            self._replace(who)
        figures = sorted(self.stage.sublist.statistics().items())
        return b"".join(self.heard) + repr((self.stage.number, figures)).encode()

    def _join(self) -> Peer:
        pending = self.random.choice([2000, 300_000, 1 << 24])
        return self.stage.join(frame=self.random.choice(FRAMES), max_pending=pending)

    def _replace(self, who: int) -> None:
        peer = self.peers[who]
        connection = peer.connection
        self.heard.append(peer.resume() if not peer.slow else peer.take())
        counts = (
            connection.in_msgs,
            connection.in_bytes,
            connection.out_msgs,
            connection.out_bytes,
            connection.frame,
        )
        self.heard.append(repr((counts, sorted(connection.subs))).encode())
        peer.leave()
        self.peers[who] = self._join()

    def _step(self, who: int) -> None:
        peer, random = self.peers[who], self.random
        kind = random.randrange(24)
        if kind == 0:
            peer.stall()
        elif kind == 1:
            self.heard.append(peer.resume())
        else:
            wire = b"".join(self._operation() for _ in range(random.randrange(1, 6)))
            if kind == 2:
                at = random.randrange(len(wire))
                wire = wire[:at] + random.choice([b"", b"\n", b" ", b"9", b"x"]) + wire[at + 1 :]
            cuts = [random.randrange(len(wire)) for _ in range(random.randrange(4))]
            peer.send(*pieces(wire, cuts))

    def _operation(self) -> bytes:
        random = self.random
        kind = random.randrange(12)
        if kind == 0:
            fields = [
                f'"{name}":{random.choice(["true", "false"])}' for name in ("verbose", "echo")
            ]
            fields += ['"pedantic":false,"headers":true,"no_responders":true']
            fields += [f'"frame":"{random.choice(FRAMES)}"'] if random.randrange(2) else []
            return b"CONNECT {" + ",".join(fields).encode() + b"}\r\n"
        if kind <= 3:
            queue = random.choice([b"", b"", b"q "])
            return b"SUB %b %b%d\r\n" % (random.choice(PATTERNS), queue, random.randrange(9))
        if kind == 4:
            most = random.choice([b"", b" 3", b" 50"])
            return b"UNSUB %d%b\r\n" % (random.randrange(9), most)
        if kind == 5:
            return b"PING\r\n"
        return self._message().wire * random.choice([1, 1, 1, 7])

    def _message(self) -> Message:
        random = self.random
        subject = random.choice(SUBJECTS[:5] * 3 + SUBJECTS)
        if random.randrange(6) == 0:
            subject = b"$SEQ.PUB." + subject
        size = random.choice([0, 1, 9, 10, 99, 100, random.randrange(3000), 30_000])
        headers = b"NATS/1.0\r\n\r\n" if random.randrange(12) == 0 else b""
        reply = random.choice([b"", b"", b"", b"a.b", b"_R_.x"])
        zeros = random.choice([b"", b"", b"0"])
        total = zeros + b"%d" % (len(headers) + size)
        sizes = b"%d %b" % (len(headers), total) if headers else total
        return Message(subject, random.randbytes(1) * size, headers, reply, sizes)


def digests(seeds: Iterable[int], steps: int = 60) -> list[str]:
    """One line for each seed's run, to compare builds by."""
    return [f"{seed} {sha256(Run(seed).play(steps)).hexdigest()}" for seed in seeds]


if __name__ == "__main__":
    print("\n".join(digests(range(int(argv[1]), int(argv[2])))))
