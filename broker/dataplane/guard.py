"""What one user may publish and subscribe to. A user without permissions has no guard.

    may_publish     a route: asked for each message, so routes that were allowed are remembered
    may_subscribe   a pattern, and its queue group: asked for each SUB
    denied_to       the subjects that are cut out of a wider subscription

The rules are nats-server's. What is not allowed is refused, if anything is; what is denied is
refused all the same. A subscription that is wider than what is allowed is refused. One that
only meets what is denied is accepted, and messages to denied subjects are not delivered to it.

One guard serves all connections of its user; it belongs to one plane, whose routes it remembers.
"""

from collections.abc import Iterable

import cython

from sublist.pattern_set import PatternSet
from sublist.route import Route
from sublist.subject import covers, has_wildcard

if not cython.compiled:
    REQUESTS_MAX = 4096  # of one client: 1 MiB; nats-server remembers as many
    SLOTS = 4096  # routes that are remembered, 32 KiB; with more, some are judged again


class SubjectRights:
    """Subjects that are allowed, and denied. Entries are `SUBJECT`, or `SUBJECT QUEUE`."""

    def __init__(self, allow: Iterable[bytes] | None, deny: Iterable[bytes]) -> None:
        """`allow` of None: everything."""
        self.allow: PatternSet | None = None
        self.allowed_queues: list[tuple[bytes, bytes]] = []
        if allow is not None:
            plain, self.allowed_queues = _parted(allow)
            self.allow = PatternSet(plain)
        plain, self.denied_queues = _parted(deny)
        self.deny: PatternSet | None = PatternSet(plain) if plain else None

    def take(self, subject: bytes) -> bool:
        """Whether a message with this subject is allowed."""
        if self.allow is not None and not self.allow.takes(subject):
            return False
        return self.deny is None or not self.deny.takes(subject)

    def admit(self, pattern: bytes, queue: bytes | None) -> bool:
        """Whether a subscription to this pattern is allowed, as a member of this group."""
        allowed = self.allow is None or self.allow.contains(pattern)
        if queue is not None and self.allow is not None:
            groups = _queues_of(self.allowed_queues, pattern)
            allowed = _is_named(queue, groups) if groups else allowed
        if not allowed:
            return False
        denied = self.deny is not None and self.deny.contains(pattern)
        if queue is not None:
            groups = _queues_of(self.denied_queues, pattern)
            denied = _is_named(queue, groups) if groups else denied
        return not denied


class Guard:
    """One per user with permissions, for the broker's one thread."""

    def __init__(
        self,
        publish: SubjectRights,
        subscribe: SubjectRights,
        responses: int = 0,
        response_ns: int = 0,
    ) -> None:
        """`responses`: how many to each request that was received, -1 for any number; 0: none.

        They are allowed for `response_ns` after the request; 0: for ever.
        """
        self.publish = publish
        self.subscribe = subscribe
        self.responses = responses
        self.response_ns = response_ns
        # The serials of routes that were allowed, by digest; made at the first.
        self.kept: bytearray | None = None
        if not cython.compiled:
            self.seen: list[int] = []

    def may_publish(self, route: Route) -> bool:
        """Whether a message may be published under the subject of this route."""
        if self.kept is None or route.serial == 0:
            return self._judge(route)
        known = self.seen[route.digest & (SLOTS - 1)] == route.serial
        return known or self._judge(route)

    def _judge(self, route: Route) -> bool:
        """Ask the rules, and remember a route that is allowed."""
        if not self.publish.take(route.subject):
            return False
        if self.kept is None:
            self.kept = bytearray(8 * SLOTS)
            if cython.compiled:
                self.seen = cython.cast("unsigned long long *", cython.cast("char *", self.kept))
            else:
                self.seen = [0] * SLOTS
        self.seen[route.digest & (SLOTS - 1)] = route.serial
        return True

    def may_publish_to(self, subject: bytes) -> bool:
        """The same for a subject given as bytes."""
        return self.publish.take(subject)

    def may_subscribe(self, pattern: bytes, queue: bytes | None = None) -> bool:
        """Whether a subscription to this pattern is allowed, as a member of this group."""
        return self.subscribe.admit(pattern, queue)

    def may_receive(self, subject: bytes) -> bool:
        """Whether a message with this subject may be shown to the user."""
        return self.subscribe.take(subject)

    def denied_to(self, pattern: bytes) -> PatternSet | None:
        """What must not be delivered to an allowed subscription; None if that is nothing."""
        deny = self.subscribe.deny
        if deny is not None and has_wildcard(pattern) and deny.meets(pattern):
            return deny
        return None


class OpenRequests:
    """The requests that one client has received and may respond to, by their reply subjects."""

    def __init__(self, most: int, expires_ns: int) -> None:
        """`most` responses to each, -1: any number, within `expires_ns`; 0: for ever."""
        self.most = most
        self.expires_ns = expires_ns
        self.noted: dict[bytes, list[int]] = {}  # responses so far, and when it came; oldest first

    def note(self, reply: bytes, now: int) -> None:
        """A request with this reply subject came, at `now` (ns)."""
        self.noted.pop(reply, None)
        if len(self.noted) >= REQUESTS_MAX:
            del self.noted[next(iter(self.noted))]
        self.noted[reply] = [0, now]

    def allow(self, reply: bytes, now: int) -> bool:
        """Whether one more response to this subject is allowed; it is counted."""
        request = self.noted.get(reply)
        if request is None:
            return False
        request[0] += 1
        if self.expires_ns and now - request[1] > self.expires_ns:
            del self.noted[reply]
            return False
        if self.most > 0 and request[0] >= self.most:
            del self.noted[reply]
        return True


def _parted(entries: Iterable[bytes]) -> tuple[list[bytes], list[tuple[bytes, bytes]]]:
    """Entries without a queue group, and those with one."""
    plain, queues = [], []
    for entry in entries:
        subject, _, queue = entry.partition(b" ")
        if queue:
            queues.append((subject, queue))
        else:
            plain.append(subject)
    return plain, queues


def _queues_of(entries: list[tuple[bytes, bytes]], pattern: bytes) -> list[bytes]:
    """The groups that the entries for this pattern name."""
    return [queue for subject, queue in entries if PatternSet((subject,)).contains(pattern)]


def _is_named(queue: bytes, groups: list[bytes]) -> bool:
    return any(group == queue or covers(group, queue) for group in groups)
