"""The kinds of subject that the data plane distinguishes; plane.pxd repeats the numbers."""

from collections.abc import Sequence
from typing import Final

from sublist.pattern_set import PatternSet
from sublist.route import PASSING, Kinds
from sublist.subject import covers, is_literal

ORDINARY: Final = 0
EXCLUDED: Final = 1  # by configuration: no number, no frame
UNMATCHABLE: Final = 2  # has an empty token: no subscription can match it, so it gets no number
CONTROL: Final = 3  # `$SEQ.`: a request to the broker itself
RESERVED: Final = 4  # subjects that nats-server reserves for its own routing
ACKNOWLEDGED: Final = 5  # `$SEQ.PUB.` and an ordinary subject: the number is the answer
DEEP: Final = 6  # more tokens than allowed

CONTROL_PREFIX: Final = b"$SEQ."
STREAMS_PREFIX: Final = b"$JS.API."
SYSTEM_PREFIX: Final = b"$SYS.REQ.SERVER."
EVENTS_PREFIX: Final = b"$JS."  # of those that may listen to the advisories of streams
ACK_PREFIXES: Final = (b"$JS.ACK.", b"$JS.FC.")  # each of these subjects is used once
PUBLISH_PREFIX: Final = b"$SEQ.PUB."
ORDERED: Final = b"$SEQ.ORDERED"  # a refusal holds for what its client publishes behind it
# The tokens of a request before its subject: `$SEQ`, the word, and numbers.
OWN_TOKENS: Final = {b"PUB": 2, b"LAST": 2, b"FROM": 3, b"SINCE": 3, b"RANGE": 4}


class Classifier(Kinds):
    """Gives a published subject its kind, at each message whose subject has no route yet.

    `exclude`: valid patterns. After changing `max_tokens` (0: no limit), call `forget_routes` of
    the sublist, which remembers the kinds. `streams`: JetStream's API is the broker's own, and
    `system`: requests of what monitoring says.
    """

    def __init__(
        self,
        exclude: Sequence[bytes] = (),
        max_tokens: int = 0,
        streams: bool = False,
        system: bool = False,
    ) -> None:
        self.streams = streams
        self.system = system
        self.excluded = PatternSet(exclude) if exclude else None
        self.max_tokens = max_tokens

    def is_deep(self, subject: bytes) -> bool:
        """True if a subject has more tokens than allowed; those of `OWN_TOKENS` do not count."""
        if not self.max_tokens or subject.count(b".") < self.max_tokens:
            return False
        return subject.count(b".") + 1 - _own_tokens(subject) > self.max_tokens

    def kind_of(self, subject: bytes) -> int:
        """Return the kind; of most subjects one look at each byte tells it."""
        if self.max_tokens and self.is_deep(subject):
            return DEEP
        if subject and subject[0] in (ord("$"), ord("_")):
            kind = self._broker_kind(subject)
            if kind != ORDINARY:
                return kind
        if not covers(b">", subject):
            return UNMATCHABLE
        if self.excluded is not None and self.excluded.takes(subject):
            return EXCLUDED
        return ORDINARY

    def _broker_kind(self, subject: bytes) -> int:
        """Return the kind of a subject for the broker itself; `ORDINARY` if it is none."""
        if subject.startswith(PUBLISH_PREFIX):
            target = subject[len(PUBLISH_PREFIX) :]
            nested = target.startswith(CONTROL_PREFIX)  # else this could recurse very deep
            usual = not nested and is_literal(target) and self.kind_of(target) == ORDINARY
            return ACKNOWLEDGED if usual else CONTROL
        if subject.startswith(CONTROL_PREFIX):
            return CONTROL
        if self.streams and subject.startswith(STREAMS_PREFIX):
            return CONTROL
        if self.system and subject.startswith(SYSTEM_PREFIX):
            return CONTROL
        if self.streams and subject.startswith(ACK_PREFIXES):
            return CONTROL | PASSING
        if subject.startswith(b"$NRG.") or _below(subject, b"_GR_.", b"$GR."):
            return RESERVED
        return ORDINARY


def is_reserved_reply(reply: bytes) -> bool:
    """True if nats-server refuses this as a reply subject."""
    return reply.startswith(b"_R_.") or _below(reply, b"_GR_.", b"$GR.", b"$JS.ACK.")


def is_answerable(reply: bytes) -> bool:
    """True if the broker sends answers to this reply subject.

    Clients cannot request answers to `$SEQ.` subjects: the broker itself publishes some of them
    (`$SEQ.LOST`, `$SEQ.END`).
    """
    return not reply.startswith(CONTROL_PREFIX) and not is_reserved_reply(reply)


def _below(subject: bytes, *prefixes: bytes) -> bool:
    """True if the subject begins with one of the prefixes and is longer."""
    return any(subject.startswith(prefix) and subject != prefix for prefix in prefixes)


def _own_tokens(subject: bytes) -> int:
    """Return how many tokens of a `$SEQ.` request come before its own subject."""
    if not subject.startswith(CONTROL_PREFIX):
        return 0
    return OWN_TOKENS.get(subject[len(CONTROL_PREFIX) :].partition(b".")[0], 0)
