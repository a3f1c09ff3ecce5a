"""Shortens the second log: SNAPSHOT notes take the place of what was committed long ago.

    SNAPSHOT  {"applications":[<DONE>...],"groups":[[<after>,<GROUPS>]...],"at":0,"until":1207}

Each member does so by itself, and only up to `until`: a note that is committed, before the oldest
promise without a DONE. The new notes, of which this is the one `at` a place, have the numbers up to
`until`, and its epoch. So the rest of the log is matched as before.

The newest changes of queue groups stay, and those before them become one. So clients that come and
go for years do not make the log grow. Numbers up to `since` were shown long ago. A member that
finds only a SNAPSHOT of them gives them to no subscriber: another member's has had them, or they
are lost.

A member that lacks some of what a coordinator has replaced gets all of these notes, and replaces
its own by them in one step: what it has acknowledged is never missing.
"""

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Any, Final

from sequencer.replica.member_messages import Note
from sequencer.replica.notes.queue_weights import GroupKey, Weights
from sequencer.replica.replicated_log import NoteLog

SPARE: Final = 1000  # notes that may be replaced; fewer are not worth a new file
SPARE_BYTES: Final = 8 << 20  # or this many bytes of queue groups
KEPT: Final = 200  # the newest changes of queue groups; those before them are made one
KEPT_BYTES: Final = 1 << 20
PART: Final = 100  # applications in one note
PART_BYTES: Final = 256 << 10  # of queue groups in one note: several of them are one message
ENTRY: Final = 32  # bytes that a change needs besides its names, for each weight
ESCAPED: Final = 6  # of a character that is not ASCII

Change = list[Any]  # [<pattern>, <group>, {<member>: <weight>}]
History = list[list[Any]]  # [<after>, [<Change>...]]


def shorten(
    notes: NoteLog,
    end: int,
    applications: Iterable[dict[str, Any]],
    log_first: int,
    is_large: bool,
    spare: int,
    kept: int,
) -> bool:
    """Replace the notes up to `end`, if that saves much; return whether it did.

    `applications` are the DONEs to keep. Queue groups are kept for the numbers from `log_first` on,
    in at most `kept` changes. `is_large`: replace them although they are few, for their bytes.
    """
    known = list(applications)
    batches = [known[at : at + PART] for at in range(0, len(known), PART)]
    there = end - notes.first + 1
    if there <= spare + 2 * len(batches) and not is_large:
        return False
    since, history = _history(notes, end, log_first, kept)
    groups = _parts(history) or [[]]
    parts = max(len(batches), len(groups), 1)
    if there <= (parts if is_large else spare + 2 * parts):
        return False
    made = []
    nothing: list[Any] = []
    for at, (some, changed) in enumerate(zip_longest(batches, groups, fillvalue=nothing)):
        fields = {"applications": some, "groups": changed, "at": at, "until": end, "since": since}
        made.append(Note(end - parts + 1 + at, notes.at(end).epoch, "SNAPSHOT", fields))
    rest = (notes.at(number) for number in range(end + 1, notes.last + 1))
    notes.shorten((*made, *rest))
    return True


def _history(notes: NoteLog, end: int, log_first: int, kept: int) -> tuple[int, History]:
    """Return `since`, and the weights of queue groups for the newest numbers: [after, groups].

    For numbers up to `since` they are no longer known.
    """
    since = 0
    history: History = []
    for number in range(notes.first, end + 1):
        note = notes.at(number)
        if note.kind == "GROUPS":
            history.append([note.fields["after"], note.fields["groups"]])
        elif note.kind == "SNAPSHOT":
            history += note.fields.get("groups", [])
            since = note.fields.get("since", 0)
    at = max(len(history) - kept, 0)
    size = sum(size_of(groups) for _, groups in history[at:])
    while at < len(history) and (size > KEPT_BYTES or history[at][0] < log_first):
        size -= size_of(history[at][1])
        at += 1
    if not at or history[at - 1][0] <= since:
        return since, history
    after = history[at - 1][0]
    base: dict[GroupKey, Weights] = {}
    for _, groups in history[:at]:
        base |= {(pattern, group): weights for pattern, group, weights in groups}
    merged = [[*key, weights] for key, weights in sorted(base.items()) if weights]
    return after, [*([after, some] for some in _pieces(merged)), *history[at:]]


def _pieces(changed: list[Change]) -> Iterator[list[Change]]:
    """Yield the changes in pieces that fit a note; one piece if there are none."""
    piece: list[Change] = []
    size = 0
    for one in changed:
        size += size_of([one])
        if size > PART_BYTES and piece:
            yield piece
            piece, size = [], size_of([one])
        piece.append(one)
    yield piece


def _parts(history: History) -> list[History]:
    """Return the history in parts that fit a note."""
    parts: list[History] = []
    room = 0
    for one in history:
        size = size_of(one[1])
        if size > room:
            parts.append([])
            room = PART_BYTES
        parts[-1].append(one)
        room -= size
    return parts


def size_of(groups: list[Change]) -> int:
    """Return about how many bytes these take in a note."""
    return ENTRY + sum(
        _width(pattern) + _width(group) + ENTRY * (1 + len(weights))
        for pattern, group, weights in groups
    )


def _width(text: str) -> int:
    return len(text) if text.isascii() else ESCAPED * len(text)


def first_to_send(notes: NoteLog, common: int) -> int:
    """Return the first note to send to a member that has the log up to `common`."""
    if notes.last >= notes.first:
        oldest = notes.at(notes.first)
        if oldest.kind == "SNAPSHOT" and common < oldest.fields["until"]:
            return notes.first
    return common + 1
