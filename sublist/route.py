"""Where the messages of one subject go: found once, then only looked up.

A Route is a subject's entry in the table; a Fanout is who gets its messages. Subjects that
only wildcards take in share one Fanout, so a hundred thousand of them stay small.
"""

import cython

from sublist.subscription import Subscription

if cython.compiled:
    from cython.cimports.libc.string import memcmp, memcpy
else:
    HEAD_SIZE = 16


class Fanout:
    """Every one of `plain` gets a message, and one member of each of `groups`. Immutable."""

    __slots__ = ("groups", "plain")

    def __init__(
        self,
        plain: tuple[Subscription, ...],
        groups: tuple[tuple[Subscription, ...], ...] | None,
    ) -> None:
        self.plain = plain
        self.groups = groups


class Route:
    """`generation` tells up to which change of the sublist the fan-out is known to be true."""

    __slots__ = ("digest", "fanout", "following", "generation", "kind", "size", "subject", "text")

    generation: int
    digest: int
    size: int
    kind: int
    fanout: Fanout
    following: "Route | None"  # in the same slot of the table
    subject: bytes
    text: bytes


def new_route(subject: bytes, digest: int, kind: int, fanout: Fanout, generation: int) -> Route:
    """A route, made without the ceremony of a call to its class: a new subject is no rarity."""
    route: Route = Route.__new__(Route)
    route.generation = generation
    route.digest = digest
    route.size = len(subject)
    route.kind = kind
    route.fanout = fanout
    route.following = None
    route.subject = subject
    route.text = route.subject
    if cython.compiled:
        memcpy(route.head, route.text, min(len(subject), HEAD_SIZE))
        PyObject_GC_UnTrack(route)  # it is in no cycle, and there may be a quarter of a million
    return route


def serves(route: Route, data: bytes | bytearray, start: int, size: int) -> bool:
    """Whether this is the route of the subject in that span."""
    if route.size != size:
        return False
    if cython.compiled:
        if size <= HEAD_SIZE:
            return memcmp(route.head, data + start, size) == 0
        return memcmp(route.text, data + start, size) == 0
    else:
        return route.subject == data[start : start + size]
