"""Lagging, replaying and fencing against a naive broker: what is received, and never too early.

Random programs: connections publish, subscribe, ask for the past, stall and read a little, while
the journal rolls, syncs late, and sometimes refuses to write. At the end all read, and every
subscription must have received exactly its messages, in their order, each once.
"""

import errno
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

from sequencer.journal.ring import Ring
from sequencer.journal.store import Store
from testkit.model_frame import split_frame
from testkit.model_subject import tokens_match
from testkit.peer import Peer
from testkit.stage import Stage
from tests.support.depth import depth
from tests.support.raw import Operation, next_operation
from tests.support.stores import in_memory

STEPS = 250
SUBJECTS = (b"a", b"a.b", b"a.c", b"b.b", b"a..b", b"c.d.e", b"a.*")
PATTERNS = (b"a", b"a.*", b"*.b", b">", b"a.>", b"*", b"c.>", b"a.b", b"*.*.e", b"none", b"none.>")
SIZES = (0, 5, 90, 900, 900, 900, 9_000)
LONG = (40_000, 120_000, 300_000)  # longer than a buffer


class Flaky(Store):
    """A store on a disk that fails when it is told to, and that knows what is safe on it."""

    fails: str = ""
    durable = 0

    def reserve(self, need: int) -> None:
        if self.fails == "reserve":
            raise OSError(errno.ENOSPC, "No space left on device")
        super().reserve(need)

    def write(self, view: memoryview, *fields: Any) -> None:
        if self.fails == "write":
            raise OSError(errno.EIO, "Input/output error")
        super().write(view, *fields)

    def sync(self) -> int:
        if self.fails == "sync":
            raise OSError(errno.EIO, "Input/output error")
        self.durable = super().sync()
        return self.durable


@dataclass
class Sent:
    number: int
    subject: bytes
    payload: str
    publisher: "Client"


@dataclass
class ExpectedStream:
    """A subscription as the judge sees it: what it asked for, and what it has heard."""

    pattern: bytes
    queue: bytes = b""
    first: int = 1  # the first number that may come
    last: int = 1 << 62
    past: bool = False
    limit: int = 0
    delivered: int = 0  # when its limit was said
    ended: int = 0  # the last number given when it was ended
    latest_due: list[Sent] = field(default_factory=list)
    heard: list[tuple[int, bytes, str]] = field(default_factory=list)
    events: list[bytes] = field(default_factory=list)


def look(payload: bytes) -> str:
    """A payload, which is one byte many times, as it fits into a report."""
    assert payload == payload[:1] * len(payload)
    return f"{len(payload)} times {payload[:1]!r}"


class Client:
    """One connection, and its subscriptions by sid. No sid is used twice."""

    def __init__(self, peer: Peer, echo: bool, failing: Callable[[], bool]) -> None:
        self.peer = peer
        self.failing = failing  # whether the disk does not write now
        self.echo = echo
        self.streams: dict[bytes, ExpectedStream] = {}
        self.inbox = b""
        self.highest = 0
        # What must have come before each PONG.
        self.pings: list[list[tuple[ExpectedStream, int]]] = []

    def listen(self) -> None:
        """Note what has been heard."""
        if self.failing():  # then no PONG waits for what nobody was shown
            self.pings = [[] for _ in self.pings]
        data = self.inbox + self.peer.take()
        at = 0
        while (step := next_operation(data, at)) is not None:
            operation, at = step
            self._note(operation)
        self.inbox = data[at:]

    def _note(self, operation: Operation) -> None:
        if operation.verb == "PONG":
            for stream, count in self.pings.pop(0):
                assert len(stream.heard) >= count or stream.limit, "a PONG has overtaken messages"
            return
        if operation.verb == "-ERR":
            assert b"Permissions Violation" in operation.text, operation
            return
        assert operation.verb == "MSG", operation
        stream = self.streams[operation.sid]
        if operation.subject.startswith(b"$SEQ."):
            stream.events.append(operation.subject)
            return
        number, payload = split_frame(operation.payload)
        self.highest = max(self.highest, number)
        stream.heard.append((number, operation.subject, look(payload)))


class Play:
    """One program, and the judge of it."""

    def __init__(self, seed: int, journal: Store | Ring, sync: Any) -> None:
        self.random = Random(seed)
        self.journal = journal
        self.sync = sync
        pending = self.random.choice([1500, 20_000, 200_000])
        self.stage = Stage(journal=journal, sync=sync, catchup_pending=pending)
        if isinstance(journal, Ring):
            self.stage.plane.gate.catchup_pending = 0
        else:
            assert self.stage.keeper is not None
            self.stage.keeper.start()
        self.sent: list[Sent] = []
        self.sids = 0
        self.clients = [self._join() for _ in range(4)]

    def _join(self) -> Client:
        echo = self.random.random() < 0.7
        words = b'"echo":true' if echo else b'"echo":false'
        connect = b'CONNECT {"verbose":false,"pedantic":false,%b}\r\n' % words
        pending = 1 << 26 if isinstance(self.journal, Ring) else 320_000
        peer = self.stage.join(connect, max_pending=pending)
        return Client(peer, echo, self.stage.plane.gate.is_failing)

    def run(self) -> None:
        steps: tuple[Callable[[Client], None], ...] = (
            self.publish,
            self.publish,
            self.publish,
            self.stall,
            self.read,
            self.read,
        )
        steps += (self.subscribe, self.ask_for_the_past, self.unsubscribe, self.wait, self.wait)
        steps += (self.ping,)
        if isinstance(self.journal, Flaky):
            steps += (self.fail,)
        for _ in range(STEPS):
            self.random.choice(steps)(self.random.choice(self.clients))
            self._check_moment()
        self._finish()
        for client in self.clients:
            for stream in client.streams.values():
                self._check(client, stream)
        self._check_groups()

    # Steps

    def publish(self, client: Client) -> None:
        count = self.random.choice([1, 1, 2, 10])
        wire, messages = b"", []
        for _ in range(count):
            subject, size = self.random.choice(SUBJECTS), self.random.choice(SIZES)
            if self.random.random() < 0.02:
                size = self.random.choice(LONG)
            payload = self.random.randbytes(1) * size
            wire += b"PUB %b %d\r\n%b\r\n" % (subject, size, payload)
            if tokens_match(b">", subject):  # what nothing can match has no number
                messages.append((subject, payload))
        fails = self.stage.sequencer.full or bool(getattr(self.journal, "fails", ""))
        if fails and messages:
            # A short one may be taken where a longer one was refused: one by one, then.
            subject, payload = messages[0]
            wire = b"PUB %b %d\r\n%b\r\n" % (subject, len(payload), payload)
            messages = messages[:1]
        before = self.stage.number
        client.peer.send(wire)
        taken = self.stage.number - before
        assert taken == len(messages) or fails
        for at, (subject, payload) in enumerate(messages[:taken], before + 1):
            self.sent.append(Sent(at, subject, look(payload), client))

    def stall(self, client: Client) -> None:
        client.peer.stall()

    def read(self, client: Client) -> None:
        client.peer.heard = bytearray(client.peer.resume(self.random.choice([1, 3000, 500_000])))

    def wait(self, client: Client) -> None:
        turns = self.stage.loop
        kind = self.random.randrange(4)
        if kind == 0:
            turns.later(self.random.choice([0.05, 0.3]))
        elif kind == 1:
            turns.run(threads=False)
        elif kind == 2 and turns.threads:
            turns.work()
        else:
            turns.turn()

    def subscribe(self, client: Client) -> None:
        queue = self.random.choice([b"", b"", b"q"])
        stream = ExpectedStream(self.random.choice(PATTERNS), queue, first=self.stage.number + 1)
        self._subscribe(client, stream, stream.pattern)

    def ask_for_the_past(self, client: Client) -> None:
        number = self.stage.number
        stream = ExpectedStream(self.random.choice(PATTERNS), past=True)
        first = stream.first = self.random.randint(1, number + 5)
        kind = self.random.randrange(3)
        if kind == 0:
            words = b"$SEQ.FROM.%d.%b" % (first, stream.pattern)
        elif kind == 1:
            stream.last = self.random.randint(first, number + 20)
            words = b"$SEQ.RANGE.%d.%d.%b" % (first, stream.last, stream.pattern)
        else:
            words = b"$SEQ.LAST.%b" % stream.pattern
            head = self.journal.last  # a write that failed may have left some for later
            stream.first = head + 1
            past = [s for s in self.sent if s.number <= head]
            due = {s.subject: s for s in past if tokens_match(stream.pattern, s.subject)}
            stream.latest_due = sorted(due.values(), key=lambda sent: sent.number)
        self._subscribe(client, stream, words)

    def _subscribe(self, client: Client, stream: ExpectedStream, words: bytes) -> None:
        if sum(not stream.ended for stream in client.streams.values()) > 14:
            return
        self.sids += 1
        client.streams[b"%d" % self.sids] = stream
        queue = stream.queue + b" " if stream.queue else b""
        client.peer.send(b"SUB %b %b%d\r\n" % (words, queue, self.sids))
        if b"%d" % self.sids not in client.peer.connection.subs:
            assert words.startswith(b"$SEQ.LAST."), "only of these too many are refused"
            del client.streams[b"%d" % self.sids]

    def unsubscribe(self, client: Client) -> None:
        sids = [
            sid for sid, stream in client.streams.items() if not stream.ended and not stream.limit
        ]
        if not sids or self.random.random() < 0.5:
            return
        sid = self.random.choice(sids)
        stream = client.streams[sid]
        sub = client.peer.connection.subs.get(sid)
        if sub is None:
            return  # it has ended by itself
        most = self.random.choice([0, 0, 1, 7])
        if most and stream.queue and client.peer.connection.detached:
            return  # less than it was given already: the rest is lost with it
        if most > sub.delivered:
            stream.limit = most
            client.peer.send(b"UNSUB %b %d\r\n" % (sid, most))
        else:
            stream.ended = max(self.stage.number, 1)
            stream.delivered = sub.delivered
            client.peer.send(b"UNSUB %b\r\n" % sid)

    def ping(self, client: Client) -> None:
        due = []
        for stream in client.streams.values():
            if not stream.past and not stream.queue and not stream.limit and not stream.ended:
                due.append((stream, len(self._story(client, stream))))
        client.pings.append(due)
        client.peer.send(b"PING\r\n")

    def fail(self, client: Client) -> None:
        assert isinstance(self.journal, Flaky)
        self.journal.fails = self.random.choice(["", "", "", "reserve", "write", "sync"])

    # The judge

    def _check_moment(self) -> None:
        """Nothing was heard that the journal might lose."""
        safe = self.journal.last
        if self.sync == "always":
            safe = getattr(self.journal, "durable", safe)
        for client in self.clients:
            client.listen()
            assert client.highest <= safe, "a number was shown before it was safe"

    def _finish(self) -> None:
        if isinstance(self.journal, Flaky):
            self.journal.fails = ""
        for _ in range(4):
            self.stage.loop.later(1.0)
        for client in self.clients:
            client.peer.heard = bytearray(client.peer.resume())
            self.stage.loop.run()
        self.stage.loop.later(1.0)
        self._check_moment()
        for client in self.clients:
            assert not client.peer.slow, "it lags, and the journal has all"
            assert not client.peer.connection.detached
            assert client.inbox == b""
            assert client.pings == []
            assert not client.peer.connection.held()

    def _is_due(self, client: Client, stream: ExpectedStream, sent: Sent) -> bool:
        wanted = tokens_match(stream.pattern, sent.subject)
        return wanted and (client.echo or sent.publisher is not client)

    def _story(self, client: Client, stream: ExpectedStream) -> list[tuple[int, bytes, str]]:
        due = [s for s in self.sent if stream.first <= s.number <= stream.last]
        due = stream.latest_due + due
        return [(s.number, s.subject, s.payload) for s in due if self._is_due(client, stream, s)]

    def _check(self, client: Client, stream: ExpectedStream) -> None:
        numbers = [number for number, _, _ in stream.heard]
        assert numbers == sorted(set(numbers)), "in order, and nothing twice"
        if stream.queue:
            return
        story = self._story(client, stream)
        if stream.limit:
            story = story[: stream.limit]
        elif stream.ended and not stream.past:
            story = [one for one in story if one[0] <= stream.ended]
        elif stream.ended:
            assert len(stream.heard) >= stream.delivered
            story = story[: len(stream.heard)]
        assert stream.heard == story
        stopped = stream.ended or (stream.limit and len(story) == stream.limit)
        over = stream.last <= self.stage.number and not stopped
        assert stream.events == ([b"$SEQ.END.%d" % stream.last] if over else [])

    def _check_groups(self) -> None:
        """Each message of a group went to one member, unless no member could have it."""
        groups: dict[bytes, list[tuple[Client, ExpectedStream]]] = {}
        for client in self.clients:
            for stream in client.streams.values():
                if stream.queue:
                    groups.setdefault(stream.queue, []).append((client, stream))
        for members in groups.values():
            got = sorted(one for _, stream in members for one in stream.heard)
            assert len({number for number, _, _ in got}) == len(got), "one member, once"
            sure = [(client, stream) for client, stream in members if not stream.limit]
            for sent in self.sent:
                able = any(
                    self._is_due(client, stream, sent)
                    and stream.first <= sent.number
                    and not (stream.ended and stream.ended < sent.number)
                    for client, stream in sure
                )
                had = (sent.number, sent.subject, sent.payload) in got if able else True
                assert had, f"nobody got {sent.number}"


@pytest.fixture
def folder() -> Iterator[Path]:
    with in_memory() as path:
        yield path


@pytest.mark.parametrize("seed", range(depth(10, 25)))
@pytest.mark.parametrize("sync", ["never", "interval", "always"])
def test_given_any_program_when_it_is_played_then_all_is_heard_once_and_never_too_early(
    folder: Path, seed: int, sync: str
) -> None:
    segment_bytes = Random(seed).choice([20_000, 1 << 20])
    journal = Flaky.open(str(folder / "store"), 1, segment_bytes=segment_bytes)
    Play(seed, journal, sync).run()


@pytest.mark.parametrize("seed", range(depth(5, 10)))
def test_given_a_ring_when_a_program_is_played_then_all_is_heard_once(seed: int) -> None:
    Play(seed, Ring(1 << 28), "never").run()
