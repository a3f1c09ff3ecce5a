"""Message routing: the trie of subscriptions, and in front of it a table of known routes.

A published subject that is used again and again has a Route in a table with chained slots. Its key
is the subject's digest (digest.py). Four rules keep the table correct, small and fast:

Rule 1  A change of a literal subscription makes one route stale: that of its subject. A
        change of a wildcard is only noted, with a new generation. When a route of an older
        generation is used next, its subject is compared with the patterns noted since, and
        it is resolved again only if one of them matches. So the cost of a SUB or UNSUB does
        not depend on the number of routes.
Rule 2  The table grows with use. While it is small, every subject gets a route in it. After
        that, a subject gets one when it comes again while its digest is still among some
        65 536 of subjects that have none; until then the trie is asked each time, and nothing
        is kept. At `max_routes` the next eighth of the table is cleared. The fan-outs are
        bounded too: all routes are forgotten after a million entries of long fan-outs, and
        stale routes once as many wildcards were removed as there are routes.
Rule 3  The digest depends on a secret of this table, so no client can tell which subjects share a
        slot. A slot's chain is bounded all the same: subjects that collide evict each other, which
        costs a look-up in the trie, but never a long walk.
Rule 4  Asking the trie costs little: a way through it makes no list of tokens, and a subject
        that one pattern matches takes that pattern's own fan-out.
"""

# Theory of operation
#
# A route caches the answer of the trie. It is right until a subscription that matches its subject
# comes or goes; after that it must not be used as it is. There are two ways to ensure this.
#
# Invalidation: at each change, find every route that it makes wrong. For a literal subscription
# that is one look-up in the table, and `_changed` does it. For a wildcard it is a walk over all
# routes, up to 262 144 of them for one SUB. A client that subscribes to `orders.*` and
# unsubscribes, in a loop, would stop the broker.
#
# Generations: at each change of a wildcard, note its pattern and count. Nothing else.
#
#     generation      7          8          9         10    <- self.generation
#     changes              a.*        b.>        a.*
#                           |
#     route "a.x", generation 7     is used: does a.*, b.> or a.* match it? Yes: ask the trie
#     route "c.x", generation 7     is used: no pattern matches; it is still right
#     route "d.x", generation 10    is used: one comparison of numbers, no more
#     route "e.x", generation 7     is never used again: costs nothing, now or ever
#
# So a change does a fixed amount of work. A route pays when it is used next, once for all changes
# since. Only the last 64 patterns are kept: comparing more takes longer than asking the trie. A
# route that is older than the oldest of them always asks the trie. A route that a literal change
# made wrong gets generation -1, which is older than any.
#
# The remaining problem is memory. A stale route that is never used again still refers to its
# fan-out, and so to subscriptions that have ended. `remove` clears their `owner` at once, so they
# keep nothing else alive. Once as many wildcards have been removed as there are routes,
# `_forget_stale` walks over the table: each removal pays for the walk over one route.
#
# The first `NEAR` subjects get their routes at once, because that keeps them in memory in the order
# in which they came. Devices that report in turn come in this order again, and the processor has
# the next route in its cache: a message costs a fifth less than with routes in any order.
#
# A million subjects in turn, or new ones without end: a table that kept the latest would make a
# route for each message and never find one, at ten times the cost of asking the trie, and fill the
# processor's caches with them. So a later subject shows first that it comes again. `seen` remembers
# the digests of subjects without a route, 65 536 of them in 256 KiB, which stay in the processor's
# cache. A digest goes to a set of four places and replaces any one of the four. Which one differs
# each time. If it were always the oldest, 100 000 subjects in a fixed order would replace each
# other before each comes again, for ever. As it is, some are found again in every round; they get
# routes and leave their places to the others:
#
#     such subjects in turn    without a route in round 3, 10, 20 and 80
#                   100 000    65 459     2 474      139        0
#                   200 000   180 721    90 795   34 336    1 744
#                 1 000 000   991 793   991 774  991 766  991 723
#
# A subject that comes again only after a million others would wait for main memory as long as the
# trie takes. A route that is not kept is made and dropped with its message.

import os

import cython

from sublist.digest import SEED_SIZE, keys_of
from sublist.pattern_set import PatternSet
from sublist.route import Fanout, Kinds, Route
from sublist.subject import covers, has_wildcard
from sublist.subscription import Subscription
from sublist.trie import Node, Trie

if not cython.compiled:
    from sublist.digest import digest_span
    from sublist.route import new_route
    from sublist.trie import collect

    SLOTS_MIN = 1024
    NEAR = 131072  # routes, 25 MiB, that are made at the first use
    SEEN = 65536  # a power of two; subjects whose first use is remembered
    WAYS = 4  # a power of two; the places of a digest, all in one line of the processor's cache
    ROUTE_SIZE = 160  # bytes of a route without its subject's text
    REPLIES = 256  # a power of two; a client that uses one reply subject finds it here
    PASSING_KIND = 0x80  # as route.PASSING
    SUBJECT_MAX = 255  # longer subjects are not kept: routes of 4 KiB each would fill a gigabyte
    CHAIN_MAX = 16  # with one route per slot, chance makes such a chain once in 10^14
    SHARED_MAX = 4096  # sets of patterns that match together; one set may hold all patterns
    LONG = 64  # entries of a fan-out; sending to more than that costs far more than resolving it
    ENTRIES_MAX = 1 << 20  # 8 MiB of references, in long fan-outs
    SHALLOW = 10  # tokens: patterns with no more tokens are never refused
    NODE_WORK = 8  # the cost of visiting a node, in offers; it is seldom in the processor's cache
    CHANGES_MAX = 64  # comparing that many patterns takes as long as resolving the route again


class Sublist:
    """The sublist of the broker's one thread. `kinds` gives a new route its kind.

    The seed of the digest is drawn from the system. One may be given, so that a test can be
    repeated with the same routes in the same slots.
    """

    def __init__(
        self,
        kinds: Kinds | None = None,
        max_routes: int = 1 << 18,
        seed: bytes = b"",
        max_match_nodes: int = 0,
    ) -> None:
        self.keys = keys_of(seed or os.urandom(SEED_SIZE))
        self.trie = Trie()
        self.kinds = Kinds() if kinds is None else kinds
        self.max_routes = max_routes
        self.max_match_nodes = max_match_nodes  # that one subject may visit; 0: no limit
        self.slots: list[Route | None] = [None] * SLOTS_MIN
        self.mask = SLOTS_MIN - 1
        self.replies: list[Route | None] = [None] * REPLIES
        self.recent: Route | None = None  # the route in the table that `find` used last
        self.routes = 0
        self.text = 0  # bytes of the subjects of all routes
        self.seen_store: bytearray | None = None  # allocated when the table is no longer small
        self.passed = 0  # misses after which the route was not kept
        if not cython.compiled:
            self.seen: memoryview = memoryview(b"")
        self.sweep_slot = 0  # where the next sweep of a full table begins
        self.generation = 0
        self.filters = 0  # subscriptions from which some subjects are cut out
        self.changes: list[bytes] = []  # the patterns of the latest generations
        self.shared: dict[tuple[object, ...], Fanout] = {}  # by patterns' nodes, or subscriptions
        self.entries_made = 0  # entries of all long fan-outs made since the table was cleared
        self.work = 0  # so far, in offers: for resolving, inserting and removing
        self.wildcards_removed = 0  # wildcards removed since stale routes were forgotten
        self.inserts = self.removes = 0
        self.misses = self.rechecks = self.resolves = self.evictions = 0

    def find(self, data: bytes | bytearray, start: int, size: int) -> Route:
        """Return the route of the subject in that span."""
        recent = self.recent
        if recent is not None and serves(recent, data, start, size):
            if recent.generation == self.generation:
                return recent
            return self._recheck(recent)
        digest = digest_span(self.keys, data, start, size)
        route: Route | None = cython.cast(Route, self.slots[digest & self.mask])
        while route is not None:
            if route.digest == digest and serves(route, data, start, size):
                self.recent = route
                if route.generation == self.generation:
                    return route
                return self._recheck(route)
            route = route.following
        if cython.compiled:
            return self._learn(data[start : start + size], digest)
        else:
            return self._learn(bytes(data[start : start + size]), digest)

    def fetch(self, data: bytes | bytearray, start: int, size: int) -> None:
        """Prefetch the route of the subject in that span, which will be used soon.

        With 100 000 subjects in use, waiting for the route's cache line took half of the time
        that a message takes.
        """
        if cython.compiled:
            digest = digest_span(self.keys, data, start, size)
            __builtin_prefetch(PyList_GET_ITEM(self.slots, digest & self.mask))

    def reach(self, data: bytes | bytearray, start: int, size: int) -> Route:
        """Return the route of a reply subject, which may never be used again.

        So these routes are kept apart, in a small table of the latest replies.
        """
        digest = digest_span(self.keys, data, start, size)
        route = self.replies[digest & (REPLIES - 1)]
        if route is None or route.digest != digest or not serves(route, data, start, size):
            subject = bytes(data[start : start + size])
            route = new_route(subject, digest, 0, self._resolve(subject), self.generation, 0)
            self.replies[digest & (REPLIES - 1)] = route
        return self._recheck(route)

    def route(self, subject: bytes) -> Route:
        """Return the route of a subject given as bytes."""
        digest = self.digest_of(subject)
        route = self.slots[digest & self.mask]
        while route is not None:
            if route.digest == digest and route.subject == subject:
                return self._recheck(route)
            route = route.following
        return self._learn(subject, digest)

    def digest_of(self, subject: bytes) -> int:
        """Return the key of this subject's route, in this table."""
        return digest_span(self.keys, subject, 0, len(subject))

    def admits(self, subject: bytes) -> bool:
        """True if matching stays within its cost limit with a subscription to this pattern.

        Short patterns are always admitted: all of them together cost about 2000 nodes at most.
        """
        most = self.max_match_nodes
        if most == 0 or subject.count(b".") < SHALLOW:
            return True
        return self.trie.cost_with(subject) <= max(most, self.trie.worst())

    def insert(self, sub: Subscription) -> None:
        """Route messages to this subscription from now on. Its subject is a valid pattern."""
        self.inserts += 1
        self.work -= NODE_WORK * self.trie.handled
        self.trie.insert(sub)
        self.filters += sub.denied is not None
        self.work += NODE_WORK * self.trie.handled
        self._changed(sub.subject)

    def remove(self, sub: Subscription) -> None:
        """Stop routing messages to this subscription, which was inserted before."""
        self.removes += 1
        self.work -= NODE_WORK * self.trie.handled
        self.trie.remove(sub)
        self.filters -= sub.denied is not None
        self.work += NODE_WORK * self.trie.handled
        self._changed(sub.subject)
        if has_wildcard(sub.subject):
            self.wildcards_removed += 1
            if self.wildcards_removed > max(self.routes, SLOTS_MIN):
                self._forget_stale()
        sub.owner = None  # stale routes may still refer to the subscription for a long time

    def statistics(self) -> dict[str, int]:
        """Counters for the monitor: sizes, and how often routes were resolved or evicted."""
        return {
            "subscriptions": self.trie.subscriptions,
            "patterns": self.trie.patterns,
            "match_nodes": self.trie.worst(),
            "inserts": self.inserts,
            "removes": self.removes,
            "routes": self.routes,
            "max_routes": self.max_routes,
            "route_bytes": self._route_bytes(),
            "misses": self.misses,
            "passed": self.passed,
            "rechecks": self.rechecks,
            "resolves": self.resolves,
            "evictions": self.evictions,
        }

    def fanout_sizes(self) -> tuple[int, float]:
        """Return how many subscriptions a route in the first slots leads to: most, average."""
        most = total = count = 0
        for first in self.slots[:SLOTS_MIN]:
            route = first
            while route is not None:
                fanout = route.fanout
                size = len(fanout.plain)
                if fanout.groups is not None:
                    size += len(fanout.groups)
                most = max(most, size)
                total += size
                count += 1
                route = route.following
        return most, float(total) / count if count else 0.0

    def _route_bytes(self) -> int:
        """Return the memory of the routes and their table, without the fan-outs."""
        seen = 0 if self.seen_store is None else len(self.seen_store)
        return self.routes * ROUTE_SIZE + self.text + 8 * (self.mask + 1) + seen

    def forget_routes(self) -> None:
        """Forget all routes: `kinds` gives other results now."""
        self._clear()

    def _changed(self, subject: bytes) -> None:
        """Make sure that no route keeps a fan-out that this change made wrong."""
        if has_wildcard(subject):
            self.generation += 1
            self.changes.append(subject)
            if len(self.changes) > CHANGES_MAX:
                del self.changes[: CHANGES_MAX // 2]
            self.shared.clear()
            return
        digest = self.digest_of(subject)
        self.replies[digest & (REPLIES - 1)] = None
        route = self.slots[digest & self.mask]
        while route is not None:
            if route.digest == digest and route.subject == subject:
                route.generation = -1
                route.fanout = NOBODY  # it must not keep a removed subscription alive
            route = route.following

    def _recheck(self, route: Route) -> Route:
        """Bring a route up to the current generation."""
        if route.generation == self.generation:
            return route
        self.rechecks += 1
        oldest = self.generation - len(self.changes)
        if route.generation < oldest:
            route.fanout = self._resolve(route.subject)
        else:
            for pattern in self.changes[route.generation - oldest :]:
                if covers(pattern, route.subject):
                    route.fanout = self._resolve(route.subject)
                    break
        route.generation = self.generation
        return route

    def _resolve(self, subject: bytes, kept: bool = True) -> Fanout:
        """Ask the trie. Subjects that only wildcards match share their fan-outs.

        `kept`: a fan-out of this subject alone is kept with its route.
        """
        self.resolves += 1
        if self.entries_made > ENTRIES_MAX:
            self._clear()
        trie = self.trie
        literal = trie.literals.get(subject) if trie.literals else None
        if trie.patterns == 0 and literal is None:
            return NOBODY
        nodes = trie.nodes(subject)
        self.work += NODE_WORK * trie.visited
        if literal is None and not self.filters:
            return self._shared_by(nodes)
        found: list[Subscription] = []
        collect(literal, found)
        for node in nodes:
            collect(cython.cast(Node, node).first, found)
        if self.filters:
            found = undenied(found, subject)
        if literal is None:
            return self._shared(tuple(found), found)
        self._count_made(len(found), kept)
        return fan_out(found)

    def _shared_by(self, nodes: list[Node]) -> Fanout:
        """Return the fan-out of all subjects that these nodes match, and no others."""
        if not nodes:
            return NOBODY
        first = cython.cast(Node, nodes[0])
        alone = len(nodes) == 1
        if alone and first.fanout is not None:
            return first.fanout
        key = tuple(nodes)
        fanout = None if alone else self.shared.get(key)
        if fanout is None:
            found: list[Subscription] = []
            for node in nodes:
                collect(cython.cast(Node, node).first, found)
            if not alone:
                return self._shared(key, found)
            self._count_made(len(found), True)
            fanout = first.fanout = fan_out(found)
        return fanout

    def _shared(self, key: tuple[object, ...], found: list[Subscription]) -> Fanout:
        """Return the fan-out that goes by this key: patterns' nodes, or subscriptions."""
        if not found:
            return NOBODY
        fanout = self.shared.get(key)
        if fanout is None:
            if len(self.shared) >= SHARED_MAX:
                self.shared.clear()
            self._count_made(2 * len(found), True)  # the key may be as long as the fan-out
            fanout = self.shared[key] = fan_out(found)
        return fanout

    def _count_made(self, entries: int, kept: bool) -> None:
        """Count a fan-out that was made; the number of routes bounds the short ones."""
        self.work += entries
        if kept and entries > LONG:
            self.entries_made += entries

    def _learn(self, subject: bytes, digest: int) -> Route:
        """Make the route of a subject that is not in the table, and keep it if it is worth it."""
        self.misses += 1
        kind = self.kinds.kind_of(subject)
        passing = kind & PASSING_KIND
        kind &= ~PASSING_KIND
        kept = not passing and len(subject) <= SUBJECT_MAX and self._comes_again(digest)
        fanout = self._resolve(subject, kept)
        if not kept:
            self.passed += 1
            return new_route(subject, digest, kind, fanout, self.generation, 0)
        if self.routes >= self.max_routes:
            self._sweep()
        elif self.routes > self.mask:
            self._widen()
        route = new_route(subject, digest, kind, fanout, self.generation, self.misses)
        slot = digest & self.mask
        chain = 0
        other = self.slots[slot]
        while other is not None:
            chain += 1
            other = other.following
        if chain >= CHAIN_MAX:
            self._forget(slot)
        route.following = self.slots[slot]
        self.slots[slot] = route
        self.routes += 1
        self.text += route.size
        return route

    def _comes_again(self, digest: int) -> bool:
        """True if a subject is to have a route: the table is small, or it was used lately."""
        if self.routes < NEAR and self.routes < self.max_routes:
            return True
        if self.seen_store is None:
            self.seen_store = bytearray(4 * SEEN)
            if cython.compiled:
                self.seen = cython.cast("unsigned int *", cython.cast("char *", self.seen_store))
            else:
                self.seen = memoryview(self.seen_store).cast("I")
        first = digest & (SEEN - WAYS)
        for place in range(first, first + WAYS):
            if self.seen[place] == digest:
                return True
        # The product is another one at each miss, and for each subject.
        self.seen[first + (digest * self.misses >> 29) % WAYS] = digest
        return False

    def _widen(self) -> None:
        """Double the number of slots; routes are moved, not made again."""
        mask = self.mask * 2 + 1
        slots: list[Route | None] = [None] * (mask + 1)
        for first in self.slots:
            route = first
            while route is not None:
                onward = route.following
                route.following = slots[route.digest & mask]
                slots[route.digest & mask] = route
                route = onward
        self.slots = slots
        self.mask = mask

    def _sweep(self) -> None:
        """Forget the routes in the next eighth of the slots."""
        count = (self.mask + 1) // 8
        while count:
            self._forget(self.sweep_slot)
            self.sweep_slot = (self.sweep_slot + 1) & self.mask
            count -= 1

    def _clear(self) -> None:
        """Forget all routes and their fan-outs."""
        self.evictions += self.routes
        self.recent = None
        self.slots = [None] * SLOTS_MIN
        self.mask = SLOTS_MIN - 1
        self.routes = self.text = self.sweep_slot = self.entries_made = 0
        self.shared.clear()

    def _forget_stale(self) -> None:
        """Forget routes that would be resolved again anyway, and the subscriptions they hold."""
        self.wildcards_removed = 0
        self.recent = None
        oldest = self.generation - len(self.changes)
        for slot in range(self.mask + 1):
            kept: Route | None = None
            route = self.slots[slot]
            while route is not None:
                onward = route.following
                if route.generation < oldest:
                    self.routes -= 1
                    self.text -= route.size
                    self.evictions += 1
                else:
                    route.following = kept
                    kept = route
                route = onward
            self.slots[slot] = kept

    def _forget(self, slot: int) -> None:
        """Forget the routes of one slot."""
        self.recent = None
        route = self.slots[slot]
        while route is not None:
            self.routes -= 1
            self.text -= route.size
            self.evictions += 1
            route = route.following
        self.slots[slot] = None


def serves(route: Route, data: bytes | bytearray, start: int, size: int) -> bool:
    """True if this is the route of the subject in that span."""
    if route.size != size:
        return False
    if cython.compiled:
        if size <= HEAD_SIZE:
            return same_text(route.head, data + start, size)
        return same_text(route.text, data + start, size)
    else:
        return route.subject == data[start : start + size]


def fan_out(found: list[Subscription]) -> Fanout:
    """Split subscriptions into those that all get a message and the queue groups."""
    for item in found:
        if cython.cast(Subscription, item).queue is not None:
            return group_out(found)
    return Fanout(tuple(found), None)


def group_out(found: list[Subscription]) -> Fanout:
    """The same, if some are of queue groups."""
    plain: list[Subscription] = []
    groups: dict[bytes, list[Subscription]] = {}
    for item in found:
        sub = cython.cast(Subscription, item)
        if sub.queue is None:
            plain.append(sub)
        else:
            groups.setdefault(sub.queue, []).append(sub)
    return Fanout(tuple(plain), tuple([tuple(members) for members in groups.values()]))


def undenied(found: list[Subscription], subject: bytes) -> list[Subscription]:
    """Return those of the subscriptions that may get a message with this subject."""
    kept: list[Subscription] = []
    for item in found:
        sub = cython.cast(Subscription, item)
        if sub.denied is None or not cython.cast(PatternSet, sub.denied).takes(subject):
            kept.append(sub)
    return kept


NOBODY = Fanout((), None)
