"""The permissions of one user to publish and subscribe. A user without permissions has no guard.

    may_publish     a route, which remembers the guard that allowed it: the next message is fast
    may_subscribe   a pattern, and its queue group: checked for each SUB
    denied_to       the subjects that are cut out of a wider subscription

The rules are nats-server's. With an `allow` list, everything else is refused; `deny` always wins. A
subscription that is wider than the allowed subjects is refused. One that only overlaps with denied
subjects is accepted, and messages to denied subjects are not delivered to it.

One guard serves all connections of its user; it belongs to one plane, whose routes it remembers.
"""

from collections.abc import Iterable
from itertools import count

import cython

from sublist.pattern_set import PatternSet, is_within
from sublist.route import Route
from sublist.subject import covers, has_wildcard

SERIALS = count(1)
SETS_MAX = 64  # groups whose denied subjects are kept: a client may choose any name

if not cython.compiled:
    REQUESTS_MAX = 4096  # of one client: 1 MiB; nats-server remembers as many
    REQUESTS_TEXT = 1 << 19  # bytes of all reply subjects: 128 each at `REQUESTS_MAX`
    SLOTS = 4096  # remembered routes, 32 KiB; with more, some are judged again


class SubjectRights:
    """Subjects that are allowed, and denied. Entries are `SUBJECT`, or `SUBJECT QUEUE`."""

    def __init__(self, allow: Iterable[bytes] | None, deny: Iterable[bytes]) -> None:
        """Parse the entries. `allow` None: everything is allowed."""
        self.allow: PatternSet | None = None
        self.allowed_queues: list[tuple[bytes, bytes]] = []
        if allow is not None:
            plain, self.allowed_queues = _parted(allow)
            self.allow = PatternSet(plain)
        plain, self.denied_queues = _parted(deny)
        self.deny: PatternSet | None = PatternSet(plain) if plain else None
        self.denied_sets: dict[bytes | None, PatternSet] = {}  # by group
        # The number of patterns that a subscription is compared with, at most.
        self.size = len(self.allowed_queues) + len(self.denied_queues)
        self.size += sum(len(one.patterns) for one in (self.allow, self.deny) if one is not None)

    def allows(self, subject: bytes) -> bool:
        """True if a message with this subject is allowed."""
        if self.allow is not None and not self.allow.takes(subject):
            return False
        return self.deny is None or not self.deny.takes(subject)

    def admit(self, pattern: bytes, queue: bytes | None) -> bool:
        """True if a subscription to this pattern is allowed, as a member of this group.

        A pattern with an empty token is allowed only without an `allow` list.
        """
        if self.allow is not None and b"" in pattern.split(b"."):
            return False
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

    def denied_for(self, queue: bytes | None) -> PatternSet | None:
        """Return the subjects that are denied to members of this group, or to all."""
        own = [subject for subject, group in self.denied_queues if _is_named(queue, [group])]
        if not own:
            return self.deny
        found = self.denied_sets.get(queue)
        if found is None:
            found = PatternSet([*own, *(self.deny.patterns if self.deny is not None else ())])
            if len(self.denied_sets) >= SETS_MAX:
                self.denied_sets.clear()
            self.denied_sets[queue] = found
        return found


class Guard:
    """The permissions of one user, or of several with equal ones. For the broker's one thread."""

    def __init__(
        self,
        publish: SubjectRights,
        subscribe: SubjectRights,
        responses: int = 0,
        response_ns: int = 0,
    ) -> None:
        """Set the rights. `responses`: how many to each received request, -1: any number, 0: none.

        They are allowed for `response_ns` after the request; 0: for ever.
        """
        self.publish = publish
        self.subscribe = subscribe
        self.responses = responses
        self.response_ns = response_ns
        self.serial = next(SERIALS)  # unique among guards
        # The serials of allowed routes, by digest; allocated with the first. A route knows the
        # guard that has allowed it last; these are for subjects that several users publish to.
        self.kept: bytearray | None = None
        if not cython.compiled:
            self.seen: list[int] = []

    def may_publish(self, route: Route) -> bool:
        """True if a message may be published to the subject of this route."""
        if route.allowed == self.serial:
            return True
        if self.kept is None or route.serial == 0:
            return self._judge(route)
        if self.seen[route.digest & (SLOTS - 1)] != route.serial:
            return self._judge(route)
        route.allowed = self.serial
        return True

    def _judge(self, route: Route) -> bool:
        """Check the rules, and remember an allowed route."""
        if not self.publish.allows(route.subject):
            return False
        if self.kept is None:
            self.kept = bytearray(8 * SLOTS)
            if cython.compiled:
                self.seen = cython.cast("unsigned long long *", cython.cast("char *", self.kept))
            else:
                self.seen = [0] * SLOTS
        if route.serial:
            self.seen[route.digest & (SLOTS - 1)] = route.serial
        route.allowed = self.serial
        return True

    def may_publish_to(self, subject: bytes) -> bool:
        """True if a message may be published to this subject."""
        return self.publish.allows(subject)

    def may_subscribe(self, pattern: bytes, queue: bytes | None = None) -> bool:
        """True if a subscription to this pattern is allowed, as a member of this group."""
        return self.subscribe.admit(pattern, queue)

    def may_receive_all(self) -> bool:
        """True if the user may receive every message."""
        return self.subscribe.allow is None and self.subscribe.deny is None

    def may_receive(self, subject: bytes) -> bool:
        """True if a message with this subject may be shown to the user."""
        return self.subscribe.allows(subject)

    def denied_to(self, pattern: bytes, queue: bytes | None = None) -> PatternSet | None:
        """Return the subjects that an allowed subscription must not receive; None if none."""
        if not has_wildcard(pattern):
            return None
        deny = self.subscribe.denied_for(queue)
        return deny if deny is not None and deny.meets(pattern) else None


class OpenRequests:
    """The requests that one client has received and may respond to, by reply subject."""

    def __init__(self, most: int, expires_ns: int) -> None:
        """Allow `most` responses to each (-1: any number), within `expires_ns` (0: for ever)."""
        self.most = most
        self.expires_ns = expires_ns
        self.noted: dict[bytes, list[int]] = {}  # responses so far, and time; oldest first
        self.text = 0  # bytes of the reply subjects

    def note(self, reply: bytes, now: int) -> None:
        """Remember a request with this reply subject, received at `now` (ns)."""
        if reply in self.noted:
            self._forget(reply)
        while self.noted and (
            len(self.noted) >= REQUESTS_MAX or self.text + len(reply) > REQUESTS_TEXT
        ):
            self._forget(next(iter(self.noted)))
        self.noted[reply] = [0, now]
        self.text += len(reply)

    def allow(self, reply: bytes, now: int) -> bool:
        """Count a response to this subject; return True if it is allowed."""
        request = self.noted.get(reply)
        if request is None:
            return False
        request[0] += 1
        if self.expires_ns and now - request[1] > self.expires_ns:
            self._forget(reply)
            return False
        if self.most > 0 and request[0] >= self.most:
            self._forget(reply)
        return True

    def _forget(self, reply: bytes) -> int:
        del self.noted[reply]
        self.text -= len(reply)
        return 0


def _parted(entries: Iterable[bytes]) -> tuple[list[bytes], list[tuple[bytes, bytes]]]:
    """Split the entries into those without and those with a queue group."""
    plain, queues = [], []
    for entry in entries:
        subject, _, queue = entry.partition(b" ")
        if queue:
            queues.append((subject, queue))
        else:
            plain.append(subject)
    return plain, queues


def _queues_of(entries: list[tuple[bytes, bytes]], pattern: bytes) -> list[bytes]:
    """Return the groups of the entries that contain this pattern."""
    tokens = pattern.split(b".")
    return [queue for subject, queue in entries if is_within(tokens, subject.split(b"."))]


def _is_named(queue: bytes | None, groups: list[bytes]) -> bool:
    return queue is not None and any(group == queue or covers(group, queue) for group in groups)
