"""The subscriptions, by subject: a table for literal ones, a trie of tokens for wildcards.

    "orders.eu.1"        --> first --> following --> ...     the chain of one subject
    root --orders--> Node --*--> Node --1--> Node.first      `orders.*.1`
                      `----->--> Node.first                  `orders.>`

Literal subjects need no tokens: one look-up finds them, and a million of them cost one
table entry each. Only patterns have nodes; a node goes when nothing hangs on it any more.
Matching walks level by level, without recursion: a subject may have thousands of tokens.
"""

import cython

from sublist.subject import has_wildcard
from sublist.subscription import Subscription


class Node:
    """One token of a pattern; `*` and `>` have places of their own beside the literal ones."""

    __slots__ = ("below", "first", "star", "tail")

    def __init__(self) -> None:
        self.below: dict[bytes, Node] | None = None
        self.star: Node | None = None
        self.tail: Node | None = None
        self.first: Subscription | None = None
        if cython.compiled:
            PyObject_GC_UnTrack(self)  # a tree has no cycles, and may have a million nodes


class Trie:
    """Written by the broker's one thread. Subjects that come in are valid patterns."""

    def __init__(self) -> None:
        self.literals: dict[bytes, Subscription] = {}
        self.root = Node()
        self.patterns = 0  # subscriptions with a wildcard
        self.subscriptions = 0
        self.visited = 0  # nodes, by the last matching of wildcards

    def insert(self, sub: Subscription) -> None:
        """Add a subscription at the head of its subject's chain."""
        self.subscriptions += 1
        if has_wildcard(sub.subject):
            self.patterns += 1
            node = self._grow(sub.subject)
            first = node.first
            node.first = sub
        else:
            first = self.literals.get(sub.subject)
            self.literals[sub.subject] = sub
        if first is not None:
            sub.following = first
            first.preceding = sub

    def remove(self, sub: Subscription) -> None:
        """Take out a subscription that was inserted."""
        self.subscriptions -= 1
        if has_wildcard(sub.subject):
            self.patterns -= 1
            tokens = sub.subject.split(b".")
            path = self._path(tokens)
            node = path[len(tokens)]
            node.first = without(node.first, sub)
            if node.first is None:
                self._prune(path, tokens)
        else:
            first = without(self.literals[sub.subject], sub)
            if first is not None:
                self.literals[sub.subject] = first
            else:
                del self.literals[sub.subject]

    def literal(self, subject: bytes) -> list[Subscription]:
        """The subscriptions to exactly this subject."""
        found: list[Subscription] = []
        collect(self.literals.get(subject), found)
        return found

    def wild(self, subject: bytes) -> list[Subscription]:
        """The subscriptions whose wildcards take in this subject; none if a token is empty."""
        found: list[Subscription] = []
        self.visited = 0
        if self.patterns == 0:
            return found
        tokens = subject.split(b".")
        if b"" in tokens:
            return found
        frontier = [self.root]
        for token in tokens:
            onward = []
            self.visited += len(frontier)
            for node in frontier:
                if node.tail is not None:
                    collect(node.tail.first, found)
                if node.below is not None:
                    child = node.below.get(token)
                    if child is not None:
                        onward.append(child)
                if node.star is not None:
                    onward.append(node.star)
            frontier = onward
        for node in frontier:
            collect(node.first, found)
        return found

    def _grow(self, subject: bytes) -> Node:
        """The node of a pattern, made with those above it where they are missing."""
        node = self.root
        for token in subject.split(b"."):
            if token == b"*":
                child = node.star
                if child is None:
                    child = node.star = Node()
            elif token == b">":
                child = node.tail
                if child is None:
                    child = node.tail = Node()
            else:
                if node.below is None:
                    node.below = {}
                child = node.below.get(token)
                if child is None:
                    child = node.below[token] = Node()
            node = child
        return node

    def _path(self, tokens: list[bytes]) -> list[Node]:
        """The nodes of a pattern that is here, from the root on."""
        node = self.root
        path = [node]
        for token in tokens:
            if token == b"*":
                child = node.star
            elif token == b">":
                child = node.tail
            else:
                child = None if node.below is None else node.below.get(token)
            assert child is not None, "what was inserted has its nodes"
            node = child
            path.append(node)
        return path

    def _prune(self, path: list[Node], tokens: list[bytes]) -> None:
        """Drop the nodes at the end of the path on which nothing hangs any more."""
        depth = len(tokens)
        while depth:
            node = path[depth]
            parent = path[depth - 1]
            if node.first is not None or node.below or node.star or node.tail:
                return
            token = tokens[depth - 1]
            if parent.star is node:
                parent.star = None
            elif parent.tail is node:
                parent.tail = None
            elif parent.below is not None:
                del parent.below[token]
                if not parent.below:
                    parent.below = None
            depth -= 1


def collect(first: Subscription | None, found: list[Subscription]) -> None:
    """Append a chain to what was found."""
    sub = first
    while sub is not None:
        found.append(sub)
        sub = sub.following


def without(first: Subscription | None, sub: Subscription) -> Subscription | None:
    """The chain that began with `first`, after `sub` has left it."""
    if sub.following is not None:
        sub.following.preceding = sub.preceding
    if sub.preceding is not None:
        sub.preceding.following = sub.following
    else:
        first = sub.following
    sub.following = sub.preceding = None
    return first
