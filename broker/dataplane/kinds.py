"""The kinds of subject that the data plane distinguishes; plane.pxd repeats the numbers."""

from collections.abc import Callable, Sequence
from typing import Final

from sublist.subject import covers, is_literal

ORDINARY: Final = 0
EXCLUDED: Final = 1  # by configuration: no number, no frame
UNMATCHABLE: Final = 2  # has an empty token: no subscription can match it, so it gets no number
CONTROL: Final = 3  # `$SEQ.`: a request to the broker itself
RESERVED: Final = 4  # subjects that nats-server reserves for its own routing
ACKNOWLEDGED: Final = 5  # `$SEQ.PUB.` and an ordinary subject: the number is the answer

CONTROL_PREFIX: Final = b"$SEQ."
PUBLISH_PREFIX: Final = b"$SEQ.PUB."
EVERY: Final = b">"


def classifier(exclude: Sequence[bytes] = ()) -> Callable[[bytes], int]:
    """Return a function that gives a published subject its kind. `exclude`: valid patterns."""

    def classify(subject: bytes) -> int:
        if subject[:1] in (b"$", b"_"):
            if subject.startswith(PUBLISH_PREFIX):
                target = subject[len(PUBLISH_PREFIX) :]
                nested = target.startswith(CONTROL_PREFIX)  # this could repeat very often
                usual = not nested and is_literal(target) and classify(target) == ORDINARY
                return ACKNOWLEDGED if usual else CONTROL
            if subject.startswith(CONTROL_PREFIX):
                return CONTROL
            if subject.startswith(b"$NRG.") or _below(subject, b"_GR_.", b"$GR."):
                return RESERVED
        if not covers(EVERY, subject):
            return UNMATCHABLE
        if exclude and any(covers(pattern, subject) for pattern in exclude):
            return EXCLUDED
        return ORDINARY

    return classify


def is_reserved_reply(reply: bytes) -> bool:
    """Whether nats-server refuses this as a reply subject."""
    return reply.startswith(b"_R_.") or _below(reply, b"_GR_.", b"$GR.", b"$JS.ACK.")


def is_answerable(reply: bytes) -> bool:
    """Whether the broker sends answers to this reply subject.

    The subjects that it publishes to itself (`$SEQ.LOST`, `$SEQ.END`) cannot be asked for.
    """
    return not reply.startswith(CONTROL_PREFIX) and not is_reserved_reply(reply)


def _below(subject: bytes, *prefixes: bytes) -> bool:
    """Whether the subject begins with one of the prefixes and is longer."""
    return any(subject.startswith(prefix) and subject != prefix for prefix in prefixes)
