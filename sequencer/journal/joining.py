"""Joins the journal window to the segments, when a store is opened that was not closed.

A writer that was killed leaves its newest records in the window only. Each record that follows the
last one of the segments is appended to them, for as long as one follows. Records of earlier times,
or of a machine that lost its power, have other numbers or no valid checksum.

The window, and `.newest` beside it, say which number is the newest. If the records end before it,
or neither file can be believed, a start would assign numbers again that clients have already seen.
So the start is refused; or, if the loss is accepted, these numbers are left out.

`verify` uses this, too, so it judges as the next start does. Only `append` and `repair` write.
"""

import os
from collections.abc import Sequence
from typing import Final

from sequencer.journal.disk import pwrite_all
from sequencer.journal.errors import Damage, StoreError
from sequencer.journal.header import START, decode_head
from sequencer.journal.identity import UNKNOWN_SIZE, Identity
from sequencer.journal.layout import RECORD
from sequencer.journal.record import Walk
from sequencer.journal.segment import Segment
from sequencer.journal.survey import Survey
from sequencer.journal.window_file import (
    FILE,
    NEWEST,
    Progress,
    WindowHead,
    WindowView,
    is_boot,
    no_progress,
    read_newest,
)

RECORD_MIN: Final = 64  # bytes of a record without a payload
SIZE_MAX: Final = 1 << 30  # the largest window that can be configured
# The most records that a window and one sync can have. If a number is further ahead of the
# segments, the file is damaged, whatever its checksum says.
AHEAD_MAX: Final = 1 << 32


def can_follow(head: bytes, survey: Survey) -> bool:
    """True if the window's content can be appended to the newest segment, which has this head.

    False if the file cannot be identified (no head, and no record), or a search was given up.
    """
    is_unknown = decode_head(head) is None and len(head) == START and any(head)
    return survey.certain and (not is_unknown or bool(survey.marks.words))


class Joining:
    """The window that an earlier opening left, if there is one. Findings go to `report`.

    Raises OSError if something else is in its place.
    """

    def __init__(
        self,
        path: str,
        identity: Identity,
        report: list[tuple[str, str]],
        progress: Progress = no_progress,
    ) -> None:
        self.file = os.path.join(path, FILE)
        self.promised = 0  # the number that must be found; 0: unknown
        self.doubt = ""  # why that number is unknown, though there was a window
        self.joined = 0  # records
        self._identity = identity
        self._report = report
        self._view: WindowView | None = None
        self._walk = Walk(identity.salt)
        self._missing = 0  # a number that was searched for and not found
        size = identity.window if identity.window > UNKNOWN_SIZE else SIZE_MAX
        self._worth = 2 * size // RECORD_MIN  # numbers: in the window, and moved by one sync
        self._beside = read_newest(path, identity.journal)
        try:
            view = WindowView(path, identity.salt, progress)
        except FileNotFoundError:
            return
        head = view.head
        if head is not None and head.journal != identity.journal:
            report.append(("warning", f"{self.file}: of another journal; not used"))
            view.close()
            return
        self._view = view
        if head is not None and identity.window <= UNKNOWN_SIZE:
            self._worth = 2 * view.size // RECORD_MIN

    def close(self) -> None:
        if self._view is not None:
            self._view.close()
            self._view = None

    def settle(self, base: int) -> None:
        """Find out which number must be here. The segments have, or had, all up to `base`."""
        number, doubt = self._of_window(base)
        beside = self._of_beside(base)
        if beside is not None:
            number = max(number, beside)
            if doubt:
                text = f"{self.file}: {doubt}; {NEWEST} says that number {beside} was the newest"
                self._report.append(("warning", text))
            doubt = ""
        elif doubt and self._is_disk_older(base):
            text = (
                f"{self.file}: it and {NEWEST} are older than the segments: the disk has lost what"
            )
            self._report.append(("warning", f"{text} was written last and not synced"))
            doubt = ""
        elif doubt and self._beside is not None and not is_boot(self._beside.boot):
            text = f"{self.file}: {doubt}, and the machine was started again since: what was not"
            self._report.append(("warning", f"{text} synced may be lost"))
            doubt = ""
        elif number and self._identity.window and self._is_without_beside:
            file = os.path.join(os.path.dirname(self.file), NEWEST)
            self._report.append(("warning", f"{file}: missing or damaged; the window is believed"))
        self.promised, self.doubt = number, doubt

    def _is_disk_older(self, base: int) -> bool:
        """True if both files are older than the last sync: a snapshot, or a disk that came back.

        This is like a power cut, although the machine runs on.
        """
        heads = (self._beside, None if self._view is None else self._view.head)
        return all(
            head is not None and is_boot(head.boot) and 0 < (head.newest or 0) < base
            for head in heads
        )

    @property
    def _is_without_beside(self) -> bool:
        """True if `.newest`, the other file with the newest number, is gone. A copy has none."""
        view = self._view
        if view is None or view.head is None or view.head.version == 1:
            return False
        return view.is_whole and self._beside is None

    def _of_window(self, base: int) -> tuple[int, str]:
        """Return the newest number according to the window, and why not to believe it, or ""."""
        view = self._view
        was_closed = not self._identity.window
        if view is None:
            return 0, "" if was_closed else "missing"
        head = view.head
        number, doubt = 0, ""
        if head is None:
            doubt = "its head is damaged"
        elif view.is_of_this_boot:  # else any page of it may be older than what was written last
            number = head.newest or 0
            if head.newest is None or number > base + self._ahead(head):
                number, doubt = 0, "its newest number is damaged"
            elif 0 < number < base:
                doubt = f"it ends with number {number}, before {base}: it is an older copy, or the"
                number, doubt = 0, doubt + " disk has lost what was written last"
        return number, "" if was_closed else doubt

    def _of_beside(self, base: int) -> int | None:
        """Return the newest number according to `.newest`; None if that is not known."""
        head = self._beside
        if head is None or not is_boot(head.boot) or head.newest is None:
            return None
        if 0 < head.newest < base or head.newest > base + AHEAD_MAX:
            return None
        return head.newest

    def _ahead(self, head: WindowHead) -> int:
        """Return how far the window's newest number can be ahead of the segments."""
        return self._worth if head.version == 1 else AHEAD_MAX

    def _find(self, number: int) -> bytes:
        """The records from a number on."""
        view = self._view
        if view is None or number == self._missing:
            return b""
        anywhere = number <= self.promised or bool(self.doubt)
        if view.head is None or not view.is_of_this_boot:
            anywhere = True
        given_up = view.is_search_given_up
        data = view.records(number, anywhere)
        if not data:
            self._missing = number
        if view.is_search_given_up and not given_up:
            text = "too many bytes look like records; the search for the real ones is given up"
            self._report.append(("warning", f"{self.file}: {text}"))
        return data

    def reach(self, last: int) -> int:
        """Return the number that the store ends with if the segments end with `last`."""
        number = last + 1
        while data := self._find(number):
            stop, number = self._measure(data, number, 0)
            if stop == 0:
                break
        return number - 1

    def epoch_of(self, number: int) -> int:
        """The epoch of a number's record; 0 if it is not here."""
        data = self._find(number)
        self._walk.attach(data, 0, len(data))
        return int(self._walk.epoch) if self._walk.next() == RECORD else 0

    def append(self, segment: Segment, survey: Survey, epoch: int = 0) -> None:
        """Append the records that follow a segment, and extend its survey. May raise OSError.

        With `epoch`, only records of that epoch.
        """
        number, at = survey.last + 1, survey.end
        while data := self._find(number):
            stop, following = self._measure(data, number, epoch)
            if stop == 0:
                break
            pwrite_all(segment.fd, data[:stop], at)
            at += stop
            self.joined += following - number
            number = following
        if at > survey.end:  # the rest was a write in progress, or zeros
            os.ftruncate(segment.fd, at)  # not before: a full disk must not lose this room
            survey.extend(at)

    def mendable(self, damages: Sequence[Damage]) -> list[tuple[Damage, bytes]]:
        """Return the damages of the newest segment that records from the window fit in exactly."""
        view = self._view
        if view is None or not view.is_of_this_boot:
            return []
        found = []
        for damage in damages:
            number, data = damage.first, b""
            while number <= damage.last and (part := view.records(number, False)):
                stop, number = self._measure(part, number, 0, damage.last)
                if stop == 0:
                    break
                data += part[:stop]
            if number > damage.last and len(data) == damage.end - damage.offset:
                found.append((damage, data))
        return found

    def repair(self, segment: Segment, damages: Sequence[Damage]) -> bool:
        """Put back damaged records of the newest segment; return whether there were any."""
        found = self.mendable(damages)
        for damage, data in found:
            pwrite_all(segment.fd, data, damage.offset)
            text = f"{segment.file}: {damage.numbers} damaged; put back from the window"
            self._report.append(("warning", text))
        return bool(found)

    def check(self, last: int) -> StoreError | None:
        """Return the error if the segments, with the window, end too early with `last`."""
        if self.doubt:
            what = f"{self.doubt}. The newest messages were there, and nothing says how many: any"
            what += f" after number {last} would be lost, and their numbers given again"
            first = f"{last + 1} to {self.end(last)}"
            then = f"numbers {first} are reported as lost, whether they were given or not"
        elif last < self.promised:
            what = (
                f"number {last + 1} is damaged or missing, and all up to {self.promised} were here"
            )
            then = "what is lost is reported"
        else:
            return None
        return StoreError(
            f"{self.file}: {what}. Put back a copy of the file; or, if there is none, start once"
            f" with --accept-loss (journal.accept_loss): then {then}, and the next number is"
            f" {self.end(last) + 1}"
        )

    def next_after(self, last: int) -> int:
        """Return the number that is here after a loss that follows `last`; 0 if there is none."""
        if self._view is None:
            return 0
        return self._view.next_good(last + 1, self.end(last) + 1)

    def end(self, last: int) -> int:
        """The last number that may have been given, if `last` is the last that is found."""
        return last + self._worth if self.doubt else max(last, self.promised)

    def _measure(
        self, data: bytes, number: int, epoch: int, most: int = 1 << 63
    ) -> tuple[int, int]:
        """Return how many bytes of these records are of this epoch, and the number after them.

        Records above `most` do not count.
        """
        walk = self._walk
        walk.attach(data, 0, len(data))
        stop = 0
        while number <= most and walk.next() == RECORD and walk.number == number:
            if epoch and walk.epoch != epoch:
                break
            walk.advance(most + 1, len(data))
            stop, number = walk.after, walk.number + 1
        return stop, number
