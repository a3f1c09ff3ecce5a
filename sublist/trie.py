"""The subscriptions by subject: a table for literal subjects, a trie of tokens for patterns.

    "orders.eu.1"        --> first --> following --> ...     the chain of one subject
    root --orders--> Node --*--> Node --1--> Node.first      `orders.*.1`
                      `----->--> Node.first                  `orders.>`

Literal subjects need no nodes: one look-up finds them, and each of a million costs one table
entry. Only patterns have nodes; a node is dropped once nothing hangs on it any more.
Matching goes level by level, without recursion: a subject may have thousands of tokens.

From a node, matching continues with at most one literal child, and with the `*` beside it. So
each `*` may double the number of nodes visited. Each node knows its `cost`: how many nodes the
worst subject visits from there on. That is 1, plus the largest cost of its literal children,
plus that of its `*`. The cost of the root bounds the work for any message; `cost_with` says what
it would be with one more pattern.
"""

import cython

from sublist.route import Fanout
from sublist.subject import covers, has_wildcard
from sublist.subscription import Subscription

if not cython.compiled:
    FEW = 16  # literal children; up to this many are always searched
    GROW_WORK = 4  # making a node takes as long as visiting that many
    MANY = 16384  # with more, never: their largest cost so far counts until they are gone


class Node:
    """One token of a pattern; the children `*` and `>` are kept apart from the literal ones.

    `fanout` is that of its chain alone, once a subject has needed it: most subjects are matched by
    one pattern only. It is dropped when the chain changes.
    """

    __slots__ = ("below", "cost", "fanout", "first", "star", "tail")

    def __init__(self) -> None:
        self.below: dict[bytes, Node] | None = None
        self.cost = 1
        self.star: Node | None = None
        self.tail: Node | None = None
        self.first: Subscription | None = None
        self.fanout: Fanout | None = None
        if cython.compiled:
            PyObject_GC_UnTrack(self)  # a tree has no cycles, and may have a million nodes


class Trie:
    """The trie of the broker's one thread. Every subject given to it is a valid pattern."""

    def __init__(self) -> None:
        self.literals: dict[bytes, Subscription] = {}
        self.root = Node()
        self.patterns = 0  # subscriptions with a wildcard
        self.subscriptions = 0
        self.visited = 0  # nodes visited by the last matching of wildcards
        self.handled = 0  # nodes visited by all inserts and removes so far
        self.credit = 0  # children that may be searched: as many as patterns have been removed

    def insert(self, sub: Subscription) -> None:
        """Add a subscription at the head of its subject's chain."""
        self.subscriptions += 1
        if has_wildcard(sub.subject):
            self.patterns += 1
            tokens = sub.subject.split(b".")
            self.handled += len(tokens)
            known = self._known(tokens)
            self.handled += GROW_WORK * (len(tokens) + 1 - len(known))
            self._climb(known, tokens, True)
            node = self._grow(known[len(known) - 1], tokens, len(known) - 1)
            first = node.first
            node.first = sub
            node.fanout = None
        else:
            first = self.literals.get(sub.subject)
            self.literals[sub.subject] = sub
        if first is not None:
            sub.following = first
            first.preceding = sub

    def remove(self, sub: Subscription) -> None:
        """Remove a subscription that was inserted."""
        self.subscriptions -= 1
        if has_wildcard(sub.subject):
            self.patterns -= 1
            tokens = sub.subject.split(b".")
            self.handled += len(tokens)
            path = self._known(tokens)
            assert len(path) > len(tokens), "what was inserted has its nodes"
            node = path[len(tokens)]
            node.first = without(node.first, sub)
            node.fanout = None
            if node.first is None:
                self.credit += 1
                self._prune(path, tokens)
        else:
            first = without(self.literals[sub.subject], sub)
            if first is not None:
                self.literals[sub.subject] = first
            else:
                del self.literals[sub.subject]

    def worst(self) -> int:
        """An upper bound for the nodes that matching one subject visits."""
        return self.root.cost

    def cost_with(self, subject: bytes) -> int:
        """Return what the root's `cost` would be with this pattern."""
        if not has_wildcard(subject):
            return self.root.cost
        tokens = subject.split(b".")
        return self._climb(self._known(tokens), tokens, False)

    def literal(self, subject: bytes) -> list[Subscription]:
        """The subscriptions to exactly this subject."""
        found: list[Subscription] = []
        collect(self.literals.get(subject), found)
        return found

    def wild(self, subject: bytes) -> list[Subscription]:
        """The subscriptions whose wildcards match this subject; none if it has an empty token."""
        found: list[Subscription] = []
        for item in self.nodes(subject):
            collect(cython.cast(Node, item).first, found)
        return found

    def takes(self, subject: bytes) -> bool:
        """True if a subscription matches this subject."""
        return subject in self.literals or len(self.nodes(subject)) > 0

    def nodes(self, subject: bytes) -> list[Node]:
        """The last nodes of the patterns that match this subject.

        Nearly always there is one way through the trie, and no token is looked at that no node
        asks for: subjects that are published once take this path each time.
        """
        found: list[Node] = []
        self.visited = 0
        if self.patterns == 0 or not covers(b">", subject):
            return found
        text = subject
        size = len(subject)
        at = 0
        node = self.root
        while at <= size:
            self.visited += 1
            if node.tail is not None:
                found.append(node.tail)
            child = None
            end = end_of_token(text, at, size)
            if node.below is not None:
                child = node.below.get(text[at:end])
            if child is None:
                child = node.star
            elif node.star is not None:
                return self._spread([child, node.star], subject, end + 1, found)
            if child is None:
                return found
            node = child
            at = end + 1
        if node.first is not None:
            found.append(node)
        return found

    def _spread(
        self, frontier: list[Node], subject: bytes, at: int, found: list[Node]
    ) -> list[Node]:
        """Go on with `nodes` from several nodes, level by level."""
        text = subject
        size = len(subject)
        while at <= size and frontier:
            end = end_of_token(text, at, size)
            token = text[at:end]
            onward: list[Node] = []
            self.visited += len(frontier)
            for item in frontier:
                node = cython.cast(Node, item)
                if node.tail is not None:
                    found.append(node.tail)
                if node.below is not None:
                    child = node.below.get(token)
                    if child is not None:
                        onward.append(child)
                if node.star is not None:
                    onward.append(node.star)
            frontier = onward
            at = end + 1
        for item in frontier:
            node = cython.cast(Node, item)
            if node.first is not None:
                found.append(node)
        return found

    def _known(self, tokens: list[bytes]) -> list[Node]:
        """The nodes that a pattern already has, from the root on."""
        node = self.root
        path = [node]
        for token in tokens:
            if token == b"*":
                child = node.star
            elif token == b">":
                child = node.tail
            else:
                child = None if node.below is None else node.below.get(token)
            if child is None:
                break
            node = child
            path.append(node)
        return path

    def _grow(self, node: Node, tokens: list[bytes], depth: int) -> Node:
        """Add the nodes of a pattern below `node`, which is at `depth`; return the last one."""
        count = len(tokens)
        while depth < count:
            token = tokens[depth]
            child = Node()
            child.cost = chain_cost(tokens, depth)
            if token == b"*":
                node.star = child
            elif token == b">":
                node.tail = child
            else:
                if node.below is None:
                    node.below = {}
                node.below[token] = child
            node = child
            depth += 1
        return node

    def _climb(self, known: list[Node], tokens: list[bytes], commit: bool) -> int:
        """Return the root's cost once the missing nodes of a pattern are added.

        With `commit`, store the new cost in all nodes above them.
        """
        depth = len(known)
        if depth > len(tokens):
            return self.root.cost
        before = 0  # the cost of the node below, as it is; `after`: as it will be
        after = chain_cost(tokens, depth - 1)
        while depth:
            depth -= 1
            node = known[depth]
            token = tokens[depth]
            cost = node.cost
            beside = 0 if node.star is None else node.star.cost
            if token == b"*":
                after = cost - before + after
            elif token != b">":
                after = max(cost, 1 + after + beside)
            else:
                after = cost
            before = cost
            if after == cost:
                return self.root.cost
            if commit:
                node.cost = after
        return after

    def _prune(self, path: list[Node], tokens: list[bytes]) -> None:
        """Drop the nodes at the end of the path that nothing hangs on any more."""
        depth = len(tokens)
        before = 0
        while depth:
            node = path[depth]
            if node.first is not None or node.below or node.star or node.tail:
                break
            parent = path[depth - 1]
            token = tokens[depth - 1]
            before = node.cost
            if parent.star is node:
                parent.star = None
            elif parent.tail is node:
                parent.tail = None
                before = 0
            elif parent.below is not None:
                del parent.below[token]
                if not parent.below:
                    parent.below = None
            depth -= 1
        after = 0
        while before and depth >= 0:
            node = path[depth]
            cost = node.cost
            beside = 0 if node.star is None else node.star.cost
            if tokens[depth] == b"*":
                node.cost = cost - before + after
            else:
                node.cost = 1 + self._dearest(node, cost - 1 - beside) + beside
            if node.cost == cost:
                return
            before = cost
            after = node.cost
            depth -= 1

    def _dearest(self, node: Node, before: int) -> int:
        """Return the largest cost of a node's literal children; `before` is its last value.

        The children are searched only as often as patterns are removed, and not when there are very
        many: the cost of removing a pattern must not depend on their number.
        """
        if node.below is None:
            return 0
        count = len(node.below)
        if count > FEW:
            if count > MANY or count > self.credit:
                return before
            self.credit -= count
            self.handled += count // 8  # looking at a child costs less than visiting it
        most = 0
        for item in node.below.values():
            child = cython.cast(Node, item)
            if child.cost > most:
                most = child.cost
        return most


def end_of_token(text: bytes, at: int, size: int) -> int:
    """Return where the token that begins at `at` ends."""
    while at < size and text[at] != ord("."):
        at += 1
    return at


def chain_cost(tokens: list[bytes], depth: int) -> int:
    """Return the cost of a node that has only the rest of one pattern below it."""
    size = len(tokens) - depth
    if tokens[len(tokens) - 1] == b">":
        size -= 1
    return size


def collect(first: Subscription | None, found: list[Subscription]) -> None:
    """Append a chain to what was found."""
    sub = first
    while sub is not None:
        found.append(sub)
        sub = sub.following


def without(first: Subscription | None, sub: Subscription) -> Subscription | None:
    """Remove `sub` from the chain that begins with `first`; return the chain's first one."""
    if sub.following is not None:
        sub.following.preceding = sub.preceding
    if sub.preceding is not None:
        sub.preceding.following = sub.following
    else:
        first = sub.following
    sub.following = sub.preceding = None
    return first
