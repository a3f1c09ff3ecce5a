"""Tells where the ids of messages in streams count, to readers of the journal's records.

A record only says that its id counts for a stream (`STREAM_FLAG`); which one follows from its
subject and number. Two threads ask: the broker's at its start, and the keeper's before retention
deletes a segment. So the streams are replaced as a whole, and never changed.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from sequencer.replica.member_messages import Note
from sublist.subject import covers

CACHED_MAX: Final = 65_536  # subjects
Eras = Sequence[tuple[int, Sequence[str]]]


def scope_of(name: str) -> bytes:
    """Return what is put before the keys of a stream's ids. No subject has a tab."""
    return b"\t%b\t" % name.encode()


class IdScopes:
    """The streams of the broker, by what they had when."""

    def __init__(self) -> None:
        self._streams: dict[str, Eras] = {}
        self._by_subject: dict[bytes, list[tuple[int, int, bytes]]] = {}

    def recall(self, notes: Iterable[Note]) -> None:
        """Take the streams that notes tell of."""
        streams: dict[str, Eras] = {}
        for note in notes:
            fields: dict[str, Any] = note.fields
            if note.kind == "STREAM":
                streams[fields["config"]["name"]] = fields["eras"]
            elif note.kind == "GONE":
                streams.pop(fields["name"], None)
        self.replace(streams)

    def replace(self, streams: dict[str, Eras]) -> None:
        """Take other streams."""
        self._streams, self._by_subject = streams, {}

    def find(self, subject: bytes, number: int) -> bytes | None:
        """Return where the id of this message counts; None if its stream is gone."""
        spans = self._by_subject.get(subject)
        if spans is None:
            by_subject = self._by_subject
            if len(by_subject) >= CACHED_MAX:
                by_subject.clear()
            spans = by_subject[subject] = list(self._spans(subject))
        for first, last, scope in spans:
            if first <= number <= last:
                return scope
        return None

    def _spans(self, subject: bytes) -> Iterable[tuple[int, int, bytes]]:
        """Yield from which number to which a stream had a subject, and its scope."""
        for name, eras in self._streams.items():
            for at, (after, subjects) in enumerate(eras):
                last = eras[at + 1][0] if at + 1 < len(eras) else (1 << 63) - 1
                if any(covers(pattern.encode(), subject) for pattern in subjects):
                    yield after + 1, last, scope_of(name)
