"""Who gets a message: the trie of subscriptions behind a table of the routes already found.

Every published subject has a Route in a table with chained slots, under the digest that
the parser found on its way. Three rules keep the table true, small and quick:

Rule 1  A change of a literal subscription makes one route stale: that of its subject. A
        change of a wildcard is only noted, with a new generation; a route of an older
        generation compares its subject with the few patterns noted since when it is used
        next, and is found again only if one of them covers it. So no SUB or UNSUB costs
        more than itself, however many routes are known.
Rule 2  The table grows with the subjects, up to `max_routes`; then a sweep goes round it
        and clears an eighth at a time. A forgotten route is found again when it is used.
        What they lead to is bounded too: all routes are forgotten after a million entries of
        long fan-outs, and the stale ones after as many wildcards have gone as routes are known.
Rule 3  A slot's chain is bounded: subjects made to collide push each other out, and cost
        a look in the trie, never a long walk.
"""

# Theory of operation
#
# A route is the answer of the trie, kept. It is right until a subscription comes or goes that its
# subject matches, and then it must not be used as it is. There are two ways to see to that.
#
# Invalidation: at each change, find every route that it makes wrong. For a literal subscription
# that is one look into the table, and done so here (`_changed`). For a wildcard it is a walk over
# all routes, up to 262 144 of them for one SUB. A client that subscribes to `orders.*` and leaves,
# in a loop, would stop the broker.
#
# Generations: at each change of a wildcard, write down its pattern, and count. Nothing else.
#
#     generation      7          8          9         10    <- self.generation
#     changes              a.*        b.>        a.*
#                           |
#     route "a.x", generation 7     is used now: is it covered by a.*, b.> or a.*? Yes: ask the trie
#     route "c.x", generation 7     is used now: no pattern covers it; it is as good as new
#     route "d.x", generation 10    is used now: one comparison of numbers, no more
#     route "e.x", generation 7     is never used again: costs nothing, now or ever
#
# So a change costs what it costs itself, and a route pays when it is used, once for all changes
# since then. Only 64 patterns are kept: to compare with more takes longer than to ask the trie. A
# route that is older than the oldest of them asks the trie whatever they were, and one that a
# literal change made wrong has the generation -1, which is older than any.
#
# What this leaves open is memory. A stale route that is never used again still refers to its
# fan-out, and so to subscriptions that have ended. `remove` takes their `owner` away at once, so
# that they keep nothing else alive; and when as many wildcards have gone as there are routes,
# `_forget_stale` walks over the table, once. So each removal pays for the walk over one route.

from collections.abc import Callable

import cython

from sublist.route import Fanout, Route
from sublist.subject import covers, digest_of, has_wildcard
from sublist.subscription import Subscription
from sublist.trie import Trie

if not cython.compiled:
    from sublist.route import new_route, serves

    SLOTS_MIN = 1024
    REPLIES = 256  # a power of two; a client that uses one reply subject finds it here
    SUBJECT_MAX = 255  # a route of a longer subject is not kept: 4 KiB each would be a gigabyte
    CHAIN_MAX = 16  # at one route a slot, a chain of 16 is one in 10^14: only made on purpose
    SHARED_MAX = 4096  # sets of patterns that match together; each may be as long as all of them
    LONG = 64  # entries of a fan-out; a longer one costs far more to send to than to find
    ENTRIES_MAX = 1 << 20  # 8 MiB of references, in long fan-outs
    SHALLOW = 10  # tokens: patterns of no more than that are never refused
    NODE_WORK = 8  # offers that visiting a node costs, for it is seldom in the processor's cache
    CHANGES_MAX = 64  # as many patterns are compared in the time a route is found anew


class Sublist:
    """Written by the broker's one thread. `classify(subject)` gives a new route its kind."""

    def __init__(
        self, classify: Callable[[bytes], int] = lambda _: 0, max_routes: int = 1 << 18
    ) -> None:
        self.trie = Trie()
        self.classify = classify
        self.max_routes = max_routes
        self.max_match_nodes = 0  # that one subject may have us visit; 0: as many as there are
        self.slots: list[Route | None] = [None] * SLOTS_MIN
        self.mask = SLOTS_MIN - 1
        self.replies: list[Route | None] = [None] * REPLIES
        self.routes = 0
        self.sweep_slot = 0  # where the next sweep of a full table begins
        self.generation = 0
        self.changes: list[bytes] = []  # the patterns of the latest generations
        self.shared: dict[tuple[Subscription, ...], Fanout] = {}
        self.entries_made = 0  # entries of all long fan-outs made since the table was cleared
        self.effort = 0  # work so far, in offers: what was resolved, inserted and removed
        self.wildcards_removed = 0  # wildcards removed since stale routes were forgotten
        self.inserts = self.removes = 0
        self.misses = self.rechecks = self.resolves = self.evictions = 0

    def find(self, data: bytes | bytearray, start: int, size: int, digest: int) -> Route:
        """The route of the subject in that span, whose digest is known."""
        route = self.slots[digest & self.mask]
        while route is not None:
            if route.digest == digest and serves(route, data, start, size):
                if route.generation == self.generation:
                    return route
                return self._recheck(route)
            route = route.following
        return self._learn(bytes(data[start : start + size]), digest)

    def fetch(self, digest: int) -> None:
        """Bring the route of that digest near, for it will be asked for soon.

        With 100 000 subjects in use, waiting for a route's cache line was half of all the
        time that a message took.
        """
        if cython.compiled:
            __builtin_prefetch(PyList_GET_ITEM(self.slots, digest & self.mask))

    def reach(self, data: bytes | bytearray, start: int, size: int, digest: int) -> Route:
        """The route of a reply subject, which may never be used again.

        So its route has a place among the last few replies, and none in the table.
        """
        route = self.replies[digest & (REPLIES - 1)]
        if route is None or route.digest != digest or not serves(route, data, start, size):
            subject = bytes(data[start : start + size])
            route = new_route(subject, digest, 0, self._resolve(subject), self.generation)
            self.replies[digest & (REPLIES - 1)] = route
        return self._recheck(route)

    def route(self, subject: bytes) -> Route:
        """The route of a subject, for whoever has it as bytes."""
        digest = digest_of(subject)
        route = self.slots[digest & self.mask]
        while route is not None:
            if route.digest == digest and route.subject == subject:
                return self._recheck(route)
            route = route.following
        return self._learn(subject, digest)

    def admits(self, subject: bytes) -> bool:
        """Whether a subscription to this pattern leaves matching what it may cost.

        Short patterns always do: all of them together cost some two thousand nodes at most.
        """
        most = self.max_match_nodes
        if most == 0 or subject.count(b".") < SHALLOW:
            return True
        return self.trie.cost_with(subject) <= max(most, self.trie.worst())

    def insert(self, sub: Subscription) -> None:
        """Route messages to this subscription from now on. Its subject is a valid pattern."""
        self.inserts += 1
        self.effort -= NODE_WORK * self.trie.handled
        self.trie.insert(sub)
        self.effort += NODE_WORK * self.trie.handled
        self._changed(sub.subject)

    def remove(self, sub: Subscription) -> None:
        """Route no more messages to this subscription, which was inserted before."""
        self.removes += 1
        self.effort -= NODE_WORK * self.trie.handled
        self.trie.remove(sub)
        self.effort += NODE_WORK * self.trie.handled
        self._changed(sub.subject)
        if has_wildcard(sub.subject):
            self.wildcards_removed += 1
            if self.wildcards_removed > max(self.routes, SLOTS_MIN):
                self._forget_stale()
        sub.owner = None  # routes that are stale by now may keep the subscription for long

    def statistics(self) -> dict[str, int]:
        """Counters for the monitor: what is known, and how often it had to be looked for."""
        return {
            "subscriptions": self.trie.subscriptions,
            "patterns": self.trie.patterns,
            "match_nodes": self.trie.worst(),
            "inserts": self.inserts,
            "removes": self.removes,
            "routes": self.routes,
            "max_routes": self.max_routes,
            "misses": self.misses,
            "rechecks": self.rechecks,
            "resolves": self.resolves,
            "evictions": self.evictions,
        }

    def _changed(self, subject: bytes) -> None:
        """See that no route goes on with a fan-out that this change made wrong."""
        if has_wildcard(subject):
            self.generation += 1
            self.changes.append(subject)
            if len(self.changes) > CHANGES_MAX:
                del self.changes[: CHANGES_MAX // 2]
            self.shared.clear()
            return
        digest = digest_of(subject)
        self.replies[digest & (REPLIES - 1)] = None
        route = self.slots[digest & self.mask]
        while route is not None:
            if route.digest == digest and route.subject == subject:
                route.generation = -1
                route.fanout = NOBODY  # it must not keep a subscription that has gone
            route = route.following

    def _recheck(self, route: Route) -> Route:
        """Bring a route to the present generation."""
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

    def _resolve(self, subject: bytes) -> Fanout:
        """Ask the trie. Where only wildcards match, subjects share what they lead to."""
        self.resolves += 1
        if self.entries_made > ENTRIES_MAX:
            self._clear()
        literal = self.trie.literal(subject)
        wild = self.trie.wild(subject)
        self.effort += NODE_WORK * self.trie.visited + len(literal) + len(wild)
        if literal:
            self._count_long(len(literal) + len(wild))
            return fan_out(literal + wild)
        if not wild:
            return NOBODY
        key = tuple(wild)
        fanout = self.shared.get(key)
        if fanout is None:
            if len(self.shared) >= SHARED_MAX:
                self.shared.clear()
            self._count_long(2 * len(wild))  # the key is as long as the fan-out
            fanout = self.shared[key] = fan_out(wild)
        return fanout

    def _count_long(self, entries: int) -> None:
        """Count a fan-out that is made. Short ones are bounded by the number of routes."""
        if entries > LONG:
            self.entries_made += entries

    def _learn(self, subject: bytes, digest: int) -> Route:
        """Make the route of a subject that the table does not know."""
        self.misses += 1
        if self.routes >= self.max_routes:
            self._sweep()
        elif self.routes > self.mask:
            self._widen()
        kind = self.classify(subject)
        route = new_route(subject, digest, kind, self._resolve(subject), self.generation)
        if len(subject) > SUBJECT_MAX:
            return route
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
        return route

    def _widen(self) -> None:
        """Double the slots; a route moves, it is not made again."""
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
        """Forget all routes, and with them all that they lead to."""
        self.evictions += self.routes
        self.slots = [None] * SLOTS_MIN
        self.mask = SLOTS_MIN - 1
        self.routes = self.sweep_slot = self.entries_made = 0
        self.shared.clear()

    def _forget_stale(self) -> None:
        """Forget the routes that would be found anew anyway, and the subscriptions they hold."""
        self.wildcards_removed = 0
        oldest = self.generation - len(self.changes)
        for slot in range(self.mask + 1):
            kept: Route | None = None
            route = self.slots[slot]
            while route is not None:
                onward = route.following
                if route.generation < oldest:
                    self.routes -= 1
                    self.evictions += 1
                else:
                    route.following = kept
                    kept = route
                route = onward
            self.slots[slot] = kept

    def _forget(self, slot: int) -> None:
        """Forget the routes of one slot."""
        route = self.slots[slot]
        while route is not None:
            self.routes -= 1
            self.evictions += 1
            route = route.following
        self.slots[slot] = None


def fan_out(found: list[Subscription]) -> Fanout:
    """Part the subscriptions into those that all get a message and the queue groups."""
    plain: list[Subscription] = []
    groups: dict[bytes, list[Subscription]] = {}
    for sub in found:
        if sub.queue is None:
            plain.append(sub)
        else:
            groups.setdefault(sub.queue, []).append(sub)
    if not groups:
        return Fanout(tuple(found), None)
    return Fanout(tuple(plain), tuple([tuple(members) for members in groups.values()]))


NOBODY = Fanout((), None)
