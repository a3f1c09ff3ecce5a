"""The routes of messages: that of a subject is resolved once, then looked up.

A Route is a subject's entry in the table. Its Fanout lists the subscriptions that get the
messages. Subjects that only wildcards match share one Fanout, which keeps memory small with
a hundred thousand of them.
"""

from typing import Final

import cython

from sublist.subscription import Subscription

if cython.compiled:
    from cython.cimports.libc.string import memcpy


PASSING: Final = 0x80


class Kinds:
    """Gives each subject its kind: here 0, to all. A subclass distinguishes them.

    `PASSING` is added to the kind of subjects that are used once: their routes are not kept.
    """

    def kind_of(self, subject: bytes) -> int:
        """Return the kind of a published subject."""
        return 0


class Fanout:
    """The receivers of a message: each of `plain`, and one of each of `groups`. Immutable."""

    __slots__ = ("groups", "plain")

    def __init__(
        self,
        plain: tuple[Subscription, ...],
        groups: tuple[tuple[Subscription, ...], ...] | None,
    ) -> None:
        self.plain = plain
        self.groups = groups


class Route:
    """A subject's route. `generation`: the last change of the sublist that the fan-out includes."""

    __slots__ = (
        "allowed",
        "digest",
        "fanout",
        "following",
        "generation",
        "kind",
        "serial",
        "size",
        "subject",
        "text",
    )

    generation: int
    digest: int
    size: int
    kind: int
    fanout: Fanout
    following: "Route | None"  # in the same slot of the table
    subject: bytes
    text: bytes
    allowed: int  # the serial of the guard that has allowed it last; 0: of none
    serial: int  # unique in its sublist; 0 for routes of replies


def new_route(
    subject: bytes, digest: int, kind: int, fanout: Fanout, generation: int, serial: int
) -> Route:
    """Make a route without calling the class, which is slower: new subjects are frequent."""
    route: Route = Route.__new__(Route)
    route.generation = generation
    route.digest = digest
    route.size = len(subject)
    route.kind = kind
    route.fanout = fanout
    route.following = None
    route.subject = subject
    route.text = route.subject
    route.serial = serial
    route.allowed = 0
    if cython.compiled:
        memcpy(route.head, route.text, min(len(subject), HEAD_SIZE))
        PyObject_GC_UnTrack(route)  # it is part of no cycle, and there may be 250 000 of them
    return route
