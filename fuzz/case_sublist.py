"""Subscriptions come and go, and subjects are looked up: the trie and its table of routes,
compared with a scan of all subscriptions.

    setting  op ...        op: a byte for the action, then its arguments

A route is looked up in two ways: by `Sublist.route`, and through the data plane, which finds it by
a span of the receive buffer, and counts deliveries per subscription.
"""

from typing import Any, cast

from broker.auth.application_claims import ApplicationClaims
from broker.clients.control import Control
from broker.core import Core
from broker.dataplane.connection import Connection
from broker.dataplane.kinds import Classifier
from broker.dataplane.plane import Plane
from broker.settings.settings import Settings
from fuzz.supply import Supply
from parser.machine import Parser
from sequencer.sequencer import Sequencer
from sublist.subject import covers
from sublist.subject import has_wildcard as has_wildcard_here
from sublist.subject import is_literal as is_literal_here
from sublist.subject import is_pattern as is_pattern_here
from sublist.sublist import Sublist
from sublist.subscription import Subscription
from testkit.fence import fenced
from testkit.manual_loop import ManualLoop
from testkit.model_digest import SEED, TWINS, digest
from testkit.model_subject import has_wildcard, is_literal, is_pattern, tokens_match

MAX_LEN = 1024
TOKENS = (b"a", b"b", b"*", b">", b"aa", b"", b"a" * 16, b"\xff\x00", b"*a", b"a>", b"c", b"d")
QUEUES = (None, None, None, b"q", b"r")
ROUTES = (1 << 18, 16, 600)
ROUTE_KEPT = 32  # bytes of a subject whose route is cached in every build
FLOOD = 13  # subjects per unit of a flood
FLOODS_MAX = 640  # units in total: more routes than the plane's limit
COLLIDING_FROM = 0xF0
SLOTS = Sublist(seed=SEED)  # only to find subjects that share one of 1024 slots
SAME_SLOT = [
    name for name in (b"a.%d" % n for n in range(30_000)) if SLOTS.digest_of(name) % 1024 == 9
]
COLLIDING = [*(subject for pair in TWINS for subject in pair), *SAME_SLOT[:40]]
QUIET = b'CONNECT {"verbose":false,"pedantic":false}\r\n'
INSERT, REMOVE, PUBLISH, ROUTE, FLOODING, CHURN = range(6)
OPS = (INSERT, INSERT, REMOVE, PUBLISH, PUBLISH, ROUTE, FLOODING, CHURN)


class Sink:
    """A session that accepts everything."""

    label = "a fuzzed client"
    listener_frame = "none"
    user = None

    def __init__(self) -> None:
        self.options: dict[str, Any] = {}
        self.introduced = False
        self.connection = Connection(cast(Any, self), Parser(), 64 << 20)

    def flush(self) -> None:
        self.connection.drain(lambda view: None, stalled=True)

    def connected(self) -> None:
        pass


class Choices(Supply):
    """The input, and the subjects that it encodes."""

    def subject(self) -> bytes:
        """A subject of one to four tokens; or one of those that compete for the same slot."""
        choice = self.take()
        if choice >= COLLIDING_FROM:
            return COLLIDING[self.take() % len(COLLIDING)]
        count = choice % 4 + 1
        return b".".join(TOKENS[self.take() % len(TOKENS)] for _ in range(count))


class Case:
    """A sublist, its data plane, and a plain list of its subscriptions."""

    def __init__(self, max_routes: int) -> None:
        self.sublist = Sublist(max_routes=max_routes, seed=SEED)
        self.plane = Plane(self.sublist, Sequencer(), 1 << 20)
        loop: Any = ManualLoop()
        core = Core(Settings(), loop, self.plane, None, None, None, ApplicationClaims())
        self.plane.attach(Control(core, Classifier(), {}))
        self.max_routes = max_routes
        self.publisher = Sink()
        self.receivers = [Sink(), Sink()]
        self.subs: list[Subscription] = []
        self.flooded = 0
        self._receive(QUIET)

    def _receive(self, text: bytes) -> None:
        buffer = bytearray(text)
        while True:
            with fenced(buffer, 0, len(buffer)):
                read = self.plane.receive(self.publisher.connection, buffer, len(buffer))
            if not self.plane.interrupted:
                break
            buffer = buffer[read:]
        assert read == len(buffer), "whole operations are read whole"
        assert not self.publisher.connection.closed, "and are right"

    def insert(self, subject: bytes, choice: int) -> None:
        assert is_pattern_here(subject) == is_pattern(subject)
        assert is_literal_here(subject) == is_literal(subject)
        assert has_wildcard_here(subject) == has_wildcard(subject)
        if not is_pattern(subject):
            return
        connection = self.receivers[choice & 1].connection
        sub = Subscription(subject, b"%d" % choice, QUEUES[choice // 2 % len(QUEUES)], connection)
        self.subs.append(sub)
        connection.subs[b"%d" % id(sub)] = sub
        self.sublist.insert(sub)

    def remove(self, choice: int) -> None:
        if self.subs:
            sub = self.subs.pop(choice % len(self.subs))
            del cast(Any, sub.owner).subs[b"%d" % id(sub)]
            self.sublist.remove(sub)

    def publish(self, subject: bytes) -> None:
        """Publish a message as bytes, and check that each subscription, or group, got one copy."""
        if not subject:
            return
        before = [sub.delivered for sub in self.subs]
        self._receive(b"PUB %b 1\r\nx\r\n" % subject)
        self._judge(subject, before)

    def answer(self, subject: bytes) -> None:
        """Do the same for a reply, whose route is cached elsewhere."""
        for asker in self.receivers:
            before = [sub.delivered for sub in self.subs]
            self.plane.answer(asker.connection, subject, b"", b"")
            self.plane.release(None)
            self._judge(subject, before, asker.connection)

    def _judge(self, subject: bytes, before: list[int], only: Connection | None = None) -> None:
        """Check the deliveries to each subscription, or only to those of connection `only`."""
        rises = [sub.delivered - count for sub, count in zip(self.subs, before, strict=True)]
        groups: dict[bytes, int] = {}
        for sub, rise in zip(self.subs, rises, strict=True):
            wanted = tokens_match(sub.subject, subject) and only in (None, sub.owner)
            if sub.queue is None:
                assert rise == wanted, f"{sub.subject!r} got {rise} of {subject!r}"
            else:
                assert rise <= wanted, f"{sub.subject!r} got {rise} of {subject!r}"
                if wanted:
                    groups[sub.queue] = groups.get(sub.queue, 0) + rise
        assert all(count == 1 for count in groups.values()), "a group gets it once"

    def route(self, subject: bytes) -> None:
        """Check the route, looked up by name, and which patterns cover the subject."""
        fanout = self.sublist.route(subject).fanout
        found = [*fanout.plain, *(sub for members in fanout.groups or () for sub in members)]
        wanted = [sub for sub in self.subs if tokens_match(sub.subject, subject)]
        assert {id(sub) for sub in found} == {id(sub) for sub in wanted}, f"who wants {subject!r}"
        assert len(found) == len(wanted), "nobody is found twice"
        assert self.sublist.route(subject).digest == digest(SEED, subject)
        self.sublist.route(subject)  # a large table takes what comes again
        misses = self.sublist.misses
        self.publish(subject)
        self.answer(subject)
        known = len(subject) <= ROUTE_KEPT
        assert not known or self.sublist.misses == misses, "what was found is not looked for again"
        for sub in self.subs:
            assert covers(sub.subject, subject) == tokens_match(sub.subject, subject)

    def flood(self, count: int) -> None:
        """Publish to enough new subjects that routes are dropped, or that the table grows."""
        first, self.flooded = self.flooded, self.flooded + count * FLOOD
        numbers = range(first, self.flooded)
        self._receive(b"".join(b"PUB a.%d 0\r\n\r\n" % number for number in numbers))

    def churn(self, subject: bytes, count: int) -> None:
        """Make enough changes that the sublist cannot remember them all."""
        if is_pattern(subject):
            for _ in range(count % 80):
                sub = Subscription(subject, b"churn", None, self.receivers[0].connection)
                self.sublist.insert(sub)
                self.sublist.remove(sub)

    def finish(self) -> None:
        figures = self.sublist.statistics()
        assert figures["subscriptions"] == len(self.subs)
        assert figures["patterns"] == sum(has_wildcard(sub.subject) for sub in self.subs)
        while self.subs:
            self.remove(0)
        figures = self.sublist.statistics()
        assert figures["subscriptions"] == figures["patterns"] == 0
        # Slots are cleared one by one, so a few more routes may remain until all were visited.
        assert figures["routes"] <= 2 * self.max_routes


def check(data: bytes) -> None:
    """Run one input."""
    taken = Choices(data)
    case = Case(ROUTES[taken.take() % len(ROUTES)])
    floods = FLOODS_MAX
    while taken:
        op = OPS[taken.take() % len(OPS)]
        if op == INSERT:
            case.insert(taken.subject(), taken.take())
        elif op == REMOVE:
            case.remove(taken.take())
        elif op == PUBLISH:
            case.publish(taken.subject())
        elif op == ROUTE:
            case.route(taken.subject())
        elif op == CHURN:
            case.churn(taken.subject(), taken.take())
        else:
            count = min(taken.take() % 32, floods)
            floods -= count
            case.flood(count)
    case.finish()
