"""Joins the journal window to the segments, when a store is opened that was not closed.

A writer that was killed leaves its newest records in the window only. Each record that follows the
last one of the segments is appended to them, for as long as one follows. Records of earlier times,
or of a machine that lost its power, have other numbers or no valid checksum.
"""

import os

from sequencer.journal.disk import pwrite_all
from sequencer.journal.errors import StoreError
from sequencer.journal.identity import Identity
from sequencer.journal.layout import RECORD
from sequencer.journal.record import Walk
from sequencer.journal.segment import Segment
from sequencer.journal.survey import Survey
from sequencer.journal.window_file import FILE, WindowView


class Joining:
    """The window that an earlier opening left, if there is one. `report` gets what was found."""

    def __init__(self, path: str, identity: Identity, report: list[tuple[str, str]]) -> None:
        self.file = os.path.join(path, FILE)
        self.promised = 0  # the number that must be found; 0: it is not known
        self.joined = 0  # records
        self._salt = identity.salt
        self._view: WindowView | None = None
        self._walk = Walk(identity.salt)
        try:
            view = WindowView(path, identity.salt)
        except FileNotFoundError:
            return
        head = view.head
        if head is not None and head.journal != identity.journal:
            report.append(("warning", f"{self.file}: of another journal; not used"))
            view.close()
            return
        if head is None:
            report.append(
                ("warning", f"{self.file}: its head is damaged; its records are searched")
            )
        elif view.is_whole:
            self.promised = head.last
        self._view = view

    @property
    def is_there(self) -> bool:
        return self._view is not None

    def close(self) -> None:
        if self._view is not None:
            self._view.close()
            self._view = None

    def epoch_of(self, number: int) -> int:
        """The epoch of a number's record; 0 if it is not here."""
        data = self._view.records(number) if self._view is not None else b""
        self._walk.begin(data, 0, len(data))
        return int(self._walk.epoch) if self._walk.next() == RECORD else 0

    def append(self, segment: Segment, survey: Survey, epoch: int = 0) -> None:
        """Append what follows to a segment, and let its survey go on there. May raise OSError.

        With `epoch`, only records of it.
        """
        if self._view is None:
            return
        number, at = survey.last + 1, survey.end
        while data := self._view.records(number):
            stop, following = self._measure(data, number, epoch)
            if stop == 0:
                break
            pwrite_all(segment.fd, data[:stop], at)
            at += stop
            self.joined += following - number
            number = following
        if at > survey.end:  # what is behind it was a write in progress, or zeros
            os.ftruncate(segment.fd, at)  # not before: on a full disk its room must not go
            survey.extend(at)

    def check(self, last: int) -> StoreError | None:
        """What to report if the segments, with the window, end too early with `last`."""
        if last >= self.promised:
            return None
        return StoreError(
            f"{self.file}: numbers {last + 1} to {self.promised} were here, and are damaged or"
            " missing. Put back a copy of the file; or, if there is none, start once with"
            " --accept-loss (journal.accept_loss): then the loss is reported, and the next number"
            f" is {self.promised + 1}"
        )

    def _measure(self, data: bytes, number: int, epoch: int) -> tuple[int, int]:
        """How many bytes of these records are of this epoch, and the number after them."""
        walk = self._walk
        walk.begin(data, 0, len(data))
        stop = 0
        while walk.next() == RECORD and walk.number == number:
            if epoch and walk.epoch != epoch:
                break
            stop, number = walk.after, number + 1
        return stop, number


def missing(path: str, identity: Identity) -> StoreError:
    """What to report if the window is gone that a writer has used."""
    return StoreError(
        f"{os.path.join(path, FILE)}: missing: the broker was not stopped in order, and the newest"
        f" messages of journal {identity.journal} were there. Put it back; or, if there is no copy,"
        " start once with --accept-loss (journal.accept_loss): then their numbers, if there were"
        " any, are given again"
    )
