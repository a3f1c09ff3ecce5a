"""Reads the directory of a store before any segment is read: its identity, and the heads.

It completes, or removes, what a crash left unfinished:

    a reset that was interrupted        completed; an interrupted cut is not
    unfinished files (*.tmp)            removed
    store.json missing or damaged       rewritten from the segments' heads
    store.json of an older format       gets the present one
"""

import os
import stat

from sequencer.journal.disk import remove
from sequencer.journal.errors import StoreError
from sequencer.journal.header import (
    INDEX,
    SEGMENT,
    START,
    SUBJECTS,
    VERSION,
    Head,
    decode_head,
    number_of,
    stem,
)
from sequencer.journal.high_water import FILE as HIGHEST
from sequencer.journal.high_water import read_highest
from sequencer.journal.identity import (
    ANEW,
    FILE,
    FORMAT,
    LOCK,
    UNKNOWN_SIZE,
    Identity,
    new_identity,
    read_identity,
    write_identity,
)
from sequencer.journal.index import read_summary
from sequencer.journal.reset import reset_store
from sequencer.journal.window_file import FILE as WINDOW
from sequencer.journal.window_file import NEWEST

FILES = (FILE, LOCK, HIGHEST, WINDOW, NEWEST)
KINDS = {stat.S_IFIFO: "FIFO", stat.S_IFDIR: "directory", stat.S_IFSOCK: "socket"}


class Inventory:
    """The files of a locked directory; `run` reads them. Findings go to `report`."""

    def __init__(
        self, path: str, now: int, accept_loss: bool, report: list[tuple[str, str]]
    ) -> None:
        self.path = path
        self.now = now
        self.accept_loss = accept_loss
        self.report = report
        self.heads: dict[int, Head | None] = {}  # by the first number; None: it is damaged
        self.identity = Identity("", 0, 0, 0)

    def run(self) -> "Inventory":
        """Look at all files. StoreError if they are not one store."""
        self._complete()
        self._tidy()
        self._identify()
        return self

    def _say(self, level: str, text: str) -> None:
        self.report.append((level, text))

    def _complete(self) -> None:
        """Complete a reset that a crash interrupted. An interrupted cut is not made.

        The store then ends later, which loses nothing.
        """
        identity = read_identity(self.path)
        if identity is None or identity.pending is None:
            return
        number = identity.pending.number
        if identity.pending.kind == ANEW:
            reset_store(self.path, identity).close()
            self._say("info", f"{self.path}: begun again after number {number}")
        else:
            write_identity(self.path, identity._replace(pending=None))
            self._say("info", f"{self.path}: a cut after number {number} may be incomplete")

    def _tidy(self) -> None:
        """Read the heads of all segments, and remove what a crash left unfinished."""
        names = os.listdir(self.path)
        firsts = sorted(number for name in names if (number := number_of(name, SEGMENT)))
        for name in names:
            number = number_of(name, INDEX) or number_of(name, SUBJECTS)
            orphan = number not in (0, *firsts)
            if orphan or name.endswith(".tmp"):
                remove(os.path.join(self.path, name))
        for first in firsts:
            with open(self._file(first), "rb") as file:
                self.heads[first] = decode_head(file.read(START))

    def _identify(self) -> None:
        """Find out which store this is, and check that all segments belong to it."""
        identity = read_identity(self.path)
        file = os.path.join(self.path, FILE)
        heads = [head for head in self.heads.values() if head is not None]
        if identity is None and self.heads:
            if not heads:
                raise StoreError(
                    f"{file}: missing or damaged, and no segment says which store this is;"
                    " put the file back from a copy"
                )
            identity = identity_from(self.path, self.heads)
            self._say("warning", f"{file}: missing or damaged; rewritten from the segments")
        elif identity is None:
            if os.path.exists(file):
                raise StoreError(
                    f"{file}: damaged, and there are no segments; remove it to begin a new journal"
                )
            identity = new_identity(self.now)
            write_identity(self.path, identity)
        elif not self.heads and identity.epoch:
            old = identity.journal
            self._check_gone(old)
            identity = new_identity(self.now)
            write_identity(self.path, identity)
            text = f"{self.path}: the segments of journal {old} are gone; a new journal begins"
            self._say("warning", text)
        for first, head in self.heads.items():
            self._check_head(identity, first, head)
        if identity.format != FORMAT:
            self._say("info", f"{file}: format {identity.format} becomes {FORMAT}")
            identity = identity._replace(format=FORMAT)
            write_identity(self.path, identity)
        epoch = max([identity.epoch, *(head.epoch for head in heads)])
        self.identity = identity._replace(epoch=epoch)

    def _check_gone(self, journal: str) -> None:
        """Refuse to start a new journal unasked if the segments of an old one are gone."""
        highest = read_highest(self.path, journal)
        if highest and not self.accept_loss:
            raise StoreError(
                f"{self.path}: all messages up to number {highest} are missing: there are no"
                f" segments of journal {journal}. Put them back; or, if there is no copy, start"
                " once with --accept-loss (journal.accept_loss): then a new journal begins, with"
                " another id and number 1"
            )

    def _check_head(self, identity: Identity, first: int, head: Head | None) -> None:
        if head is None:
            return
        file = self._file(first)
        if head.version != VERSION:
            raise StoreError(
                f"{file}: this segment has version {head.version}, and this Seriatim knows"
                f" version {VERSION}; open it with the newer Seriatim that wrote it"
            )
        if (head.journal, head.salt) != (identity.journal, identity.salt):
            raise StoreError(
                f"{file}: a segment of journal {head.journal}, in the directory of journal"
                f" {identity.journal}; move it to where it belongs"
            )
        if head.first != first:
            raise StoreError(
                f"{file}: its first number is {head.first}; give it back the name"
                f" {stem(head.first)}{SEGMENT}"
            )

    def _file(self, first: int) -> str:
        return os.path.join(self.path, stem(first) + SEGMENT)


def identity_from(path: str, heads: dict[int, Head | None]) -> Identity:
    """Return the identity of a store without store.json, from its segments' heads; one is good.

    Nothing says then whether there was a window. But only a closed store has an index that covers
    all of its newest segment. If numbers are missing after that segment, it is not the newest.
    """
    good = [head for head in heads.values() if head is not None]
    newest = good[-1]
    file = os.path.join(path, stem(max(heads)))
    summary = read_summary(file + INDEX)
    known = (newest.journal, max(heads), os.stat(file + SEGMENT).st_size)
    was_closed = summary is not None and (summary.journal, summary.first, summary.size) == known
    if summary is not None and (read_highest(path, newest.journal) or 0) > summary.last:
        was_closed = False
    window = 0 if was_closed else UNKNOWN_SIZE
    return Identity(newest.journal, newest.salt, newest.epoch, good[0].created, window=window)


def odd_kinds(path: str) -> list[tuple[str, str]]:
    """Return the names of the store's files that are something else, and what they are."""
    odd = []
    for name in sorted(os.listdir(path)):
        if name in FILES or any(number_of(name, kind) for kind in (SEGMENT, INDEX, SUBJECTS)):
            try:
                mode = os.stat(os.path.join(path, name)).st_mode
            except FileNotFoundError:
                continue  # it has just been removed, or it is a link to nothing
            if not stat.S_ISREG(mode):
                odd.append((name, KINDS.get(stat.S_IFMT(mode), "device")))
    return odd


def check_kinds(path: str) -> None:
    """Raise `StoreError` if something else has a file's name: reading a FIFO never ends."""
    for name, kind in odd_kinds(path):
        raise StoreError(
            f"{os.path.join(path, name)}: this is a {kind}, and a store has a file there; move it"
            " away, and put back the file if there was one"
        )
