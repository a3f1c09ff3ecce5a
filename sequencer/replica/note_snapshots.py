"""Shortens the second log: SNAPSHOT notes take the place of what was committed long ago.

    SNAPSHOT  {"applications":[<DONE>...],"groups":[[<after>,<GROUPS>]...],"at":0,"until":1207}

Each member does so by itself, and only up to `until`: a note that is committed, before the oldest
promise without a DONE. What queue groups had in force for numbers of the journal stays. The new
notes, of which this is the one `at` a place, have the numbers up to `until`, and its epoch. So the
rest of the log is matched as before.

A member that lacks some of what a coordinator has replaced gets all of these notes, and replaces
its own by them in one step: what it has acknowledged is never missing.
"""

from typing import TYPE_CHECKING, Any, Final

from sequencer.replica.member_messages import Note
from sequencer.replica.queue_weights import GroupKey, Weights
from sequencer.replica.replicated_log import NoteLog

if TYPE_CHECKING:
    from sequencer.replica.member import Member

SPARE: Final = 1000  # notes that may be replaced; fewer are not worth a new file
PART: Final = 100  # applications, and changes of groups, in one note


def shorten(member: "Member", spare: int) -> None:
    """Replace what is no longer needed, if that is much. Raises `OSError`: nothing is replaced."""
    notes, promises = member.notes, member.promises
    oldest = min((note.number for note in promises.open.values()), default=notes.last + 1)
    end = min(oldest - 1, member.note_watermark)
    parts = _parts(len(promises.applications), 0)
    if end - notes.first + 1 <= spare + 2 * parts:
        return
    known = list(promises.applications.values())
    since, history = _history(member, end)
    parts = _parts(len(known), len(history))
    if end - notes.first + 1 <= spare + 2 * parts:
        return
    made = []
    for at in range(parts):
        some = slice(at * PART, (at + 1) * PART)
        fields = {"applications": known[some], "groups": history[some], "at": at}
        fields |= {"until": end, "since": since}
        made.append(Note(end - parts + 1 + at, notes.at(end).epoch, "SNAPSHOT", fields))
    rest = (notes.at(number) for number in range(end + 1, notes.last + 1))
    notes.begin_anew((*made, *rest))


def _parts(applications: int, groups: int) -> int:
    """How many notes a snapshot has."""
    return max(-(-applications // PART), -(-groups // PART), 1)


def _history(member: "Member", end: int) -> tuple[int, list[list[Any]]]:
    """The weights of queue groups: (after, groups), for all numbers that are in the journal.

    For numbers up to the first result they are no longer known.
    """
    since = 0
    history: list[list[Any]] = []
    for number in range(member.notes.first, end + 1):
        note = member.notes.at(number)
        if note.kind == "GROUPS":
            history.append([note.fields["after"], note.fields["groups"]])
        elif note.kind == "SNAPSHOT":
            history += note.fields.get("groups", [])
            since = note.fields.get("since", 0)
    old = [one for one in history if one[0] < member.log.first]
    if len(old) < 2:
        return since, history
    base: dict[GroupKey, Weights] = {}
    for _, groups in old:
        base |= {(pattern, group): weights for pattern, group, weights in groups}
    merged = [[*key, weights] for key, weights in sorted(base.items()) if weights]
    return old[-1][0], [[old[-1][0], merged], *history[len(old) :]]


def first_to_send(notes: NoteLog, common: int) -> int:
    """Which note a member gets first that has the log up to `common`."""
    if notes.last >= notes.first:
        oldest = notes.at(notes.first)
        if oldest.kind == "SNAPSHOT" and common < oldest.fields["until"]:
            return notes.first
    return common + 1
