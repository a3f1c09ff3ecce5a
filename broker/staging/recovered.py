"""The promises of an earlier broker, and which of their rows the journal already has.

This is checked once, when a store is opened and before anything is written to it. The records of a
commit's rows contain its origin, and the row's position in it. The rows come after the number that
was the last one at the time of the promise.

A power cut may lose the unsynced part of the journal. That may be more than the commit had
published: then other messages will get the numbers after the promised one first, so the promise is
rewritten with the number that is now the last. Rows may also be lost from between others, because a
disk writes in any order. Exactly the missing rows are published.
"""

import logging
import os
from dataclasses import dataclass, replace
from typing import NamedTuple

from broker.staging.applications import Applications
from broker.staging.intents import Intent, found_intents, intent_file, origin_of
from sequencer.journal.disk import remove, sync_file, sync_folder
from sequencer.journal.layout import MORE, RECORD
from sequencer.journal.record import Walk
from sequencer.journal.segment import Segment
from sequencer.journal.store import Store

log = logging.getLogger("seriatim")

BUFFER_BYTES = 1 << 20
LEFTOVER = ".tmp"  # a file that a crash kept from being renamed


class There(NamedTuple):
    """The numbers of the first and last row found; and which rows, as ranges from 1 on."""

    first: int
    last: int
    rows: tuple[tuple[int, int], ...]

    def missing(self, rows: int) -> list[tuple[int, int]]:
        """Return the ranges of rows that are missing, of `rows` in all."""
        found, row = [], 1
        for first, last in sorted(self.rows):
            if row < first:
                found.append((row, first - 1))
            row = last + 1
        return [*found, (row, rows)] if row <= rows else found


NOTHING = There(0, 0, ())


@dataclass(frozen=True, slots=True)
class Left:
    """A promise to keep. Its rows come after `number`."""

    intent: Intent
    file: str
    number: int
    there: There

    def secure(self, folder: str, durable: bool) -> None:
        """Make sure that the disk has the promise, with a number that is valid in this journal.

        A broker killed after the rename has not synced the name: rows published now would outlive
        the promise. Syncing takes no space. Raises `OSError`.
        """
        if self.number < self.intent.number:
            replace(self.intent, number=self.number).write(folder, durable)
        elif durable:
            sync_file(self.file)
            sync_folder(folder)


def left_behind(journal: Store, folder: str, applications: Applications) -> list[Left]:
    """Return the promises in a folder, and delete those that were kept. Raises `OSError`."""
    found = []
    for name in os.listdir(folder):
        if name.endswith(LEFTOVER):
            remove(os.path.join(folder, name))
    intents, damaged = found_intents(folder)
    for file in damaged:
        _doubt(journal, file)
    for intent in intents:
        file = intent_file(folder, intent.origin)
        done = applications.last(intent.application)
        if done is not None and intent.batch <= done.batch:
            remove(file)
            continue
        number = min(intent.number, journal.last)
        found.append(Left(intent, file, number, published(journal, intent.origin, number)))
    return found


def _doubt(journal: Store, file: str) -> None:
    """Handle an unreadable promise: it was none if none of its rows are in the journal.

    It can be torn only by a power cut where nothing is synced; otherwise the disk lost it.
    """
    origin = origin_of(file)
    there = published(journal, origin, 0) if origin is not None else NOTHING
    if not there.rows:
        log.warning("Staging: %s is damaged, and nothing of it is published: deleted", file)
        remove(file)
        return
    rows = sum(last - first + 1 for first, last in there.rows)
    log.error(
        "Staging: %s is damaged: %d of its rows are published, in numbers %d to %d,"
        " and the rest are not. Delete it to go on without the rest; if the batch is committed"
        " again, these rows are published twice",
        *(file, rows, there.first, there.last),
    )


def published(journal: Store, origin: int, number: int) -> There:
    """Return the rows of `origin` after `number`."""
    scan = _Scan(journal, origin)
    segment, offset = journal.locate(number + 1)
    for one in journal.segments():
        if one.last > number:
            scan.read(one, offset if one is segment else one.start)
    if scan.ranges and journal.first > number + 1:  # its beginning was there, and was deleted
        scan.ranges[0] = (1, scan.ranges[0][1])
    return There(scan.first, scan.last, tuple(scan.ranges))


class _Scan:
    """Walks segments; collects the rows of one origin."""

    def __init__(self, journal: Store, origin: int) -> None:
        self.first = self.last = 0
        self.ranges: list[tuple[int, int]] = []
        self._journal = journal
        self._origin = origin
        self._walk = Walk(journal.salt)
        self._buffer = bytearray(BUFFER_BYTES)
        self._following = 0  # the number after the last one seen

    def read(self, segment: Segment, offset: int) -> None:
        """Walk a segment from `offset` on. Raises `OSError`."""
        walk = self._walk
        while offset < segment.size:
            with memoryview(self._buffer) as view:
                got = segment.read(offset, view, True)
            walk.attach(self._buffer, 0, got)
            while (outcome := walk.next()) == RECORD:
                self._following = walk.number + 1
                if walk.origin == self._origin:
                    self._note(walk.number, walk.origin_sequence)
            end = offset + got
            offset += walk.at
            if outcome == MORE and (offset == end or end < segment.size):
                if walk.at == 0:  # a record longer than the buffer
                    self._buffer = bytearray(2 * len(self._buffer))
                continue
            found = self._journal.next_good(segment, offset, self._following)
            if found is None or found[0] is not segment:
                break
            offset = found[1]

    def _note(self, number: int, row: int) -> None:
        self.first = self.first or number
        self.last = number
        if self.ranges and self.ranges[-1][1] == row - 1:
            self.ranges[-1] = (self.ranges[-1][0], row)
        else:
            self.ranges.append((row, row))
