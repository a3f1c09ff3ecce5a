"""Checks every byte of a store without changing any, for an operator in doubt.

It takes no lock and may run while a broker does. An unfinished record at the end of the newest
segment may be a write in progress, so it is not an error. Nor are zeros there, which fill the last
page that a broker wrote: its newest records are in the journal window.
"""

import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

from sequencer.journal.errors import Damage, StoreError
from sequencer.journal.header import INDEX, SEGMENT, START, decode_head, number_of, stem
from sequencer.journal.highest import FILE as HIGHEST
from sequencer.journal.highest import read_highest
from sequencer.journal.identity import ANEW, FILE, Identity, read_identity
from sequencer.journal.index import OFFSET, Summary, read_index, read_summary
from sequencer.journal.survey import HEAD, Survey
from sequencer.journal.window_file import FILE as WINDOW
from sequencer.journal.window_file import PAGE, WindowView

Progress = Callable[[int, int], None]


class Finding(NamedTuple):
    """Something is wrong. `first` and `last` are lost numbers; 0 and 0 if none are lost."""

    level: str  # "error": messages are lost or doubtful; "warning", "info": none are
    file: str
    offset: int
    text: str
    first: int = 0
    last: int = 0

    def __str__(self) -> str:
        return f"{self.file}: {self.text}"


def verify(path: str, progress: Progress = lambda done, total: None) -> Iterator[Finding]:
    """Read through the store in this directory; `progress` gets bytes read and bytes in total.

    StoreError if there is no store, or one of a newer format.
    """
    if not os.path.isdir(path):
        raise StoreError(f"{path}: not a directory; give the directory of a store")
    firsts = _firsts(path)
    identity = read_identity(path)
    if identity is None:
        if not firsts:
            raise StoreError(f"{path}: there is no store here; give the directory of a store")
        yield Finding("warning", FILE, 0, "missing or damaged; the next start rewrites it")
        identity = _from_heads(path, firsts)
    if identity.pending is not None:
        kind, number, _ = identity.pending
        text = f"a change is not complete ({kind} after number {number}); the next start ends it"
        yield Finding("info", FILE, 0, text)
        if kind == ANEW:
            return  # whatever is there is to be removed
    highest = read_highest(path, identity.journal)
    if highest is None:
        yield Finding("warning", HIGHEST, 0, "damaged; the next start rewrites it")
    if identity.window:
        yield from _window(path, identity)
    firsts = _firsts(path)  # again: a broker may have begun the segment of the highest number
    total = sum(_size(os.path.join(path, stem(first) + SEGMENT)) for first in firsts)
    done = 0
    time = 0
    for at, first in enumerate(firsts):
        limit = firsts[at + 1] if at + 1 < len(firsts) else 0
        check = _Check(path, identity, first, limit, time)
        if not limit:
            check.highest = highest or 0
        while check.step():
            progress(min(done + check.survey.end, total), total)
        yield from check.findings()
        done += check.survey.size
        time = max(time, check.survey.last_time)
        progress(min(done, total), total)


class _Check:
    """One segment. `limit` is the first number of the next; 0 for the newest."""

    def __init__(self, path: str, identity: Identity, first: int, limit: int, time: int) -> None:
        self.identity = identity
        self.limit = limit
        self.highest = 0  # of the journal; set for the newest segment
        self.before = time
        self.base = os.path.join(path, stem(first))
        self.name = stem(first) + SEGMENT
        self.index = read_index(self.base + INDEX)  # first: the broker may seal it now
        self.summary = read_summary(self.base + INDEX)
        try:
            self.fd = os.open(self.base + SEGMENT, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            self.fd = -1  # retention has deleted it
        size = os.fstat(self.fd).st_size if self.fd >= 0 else 0
        self.survey = Survey(self.fd, identity.salt, first, size, limit or 1 << 63)

    def step(self) -> bool:
        """Read on; True while there is more."""
        if not self.survey.done:
            self.survey.step()
        return not self.survey.done

    def findings(self) -> Iterator[Finding]:
        if self.fd < 0:
            return
        try:
            yield from self._head()
            yield from self._records()
            yield from self._index()
        finally:
            os.close(self.fd)

    def _head(self) -> Iterator[Finding]:
        head = decode_head(os.pread(self.fd, START, 0))
        identity = self.identity
        if head is None:
            yield Finding("warning", self.name, 0, "its head is damaged; the next start repairs it")
        elif (head.journal, head.salt) != (identity.journal, identity.salt):
            text = f"it belongs to journal {head.journal}; the store is {identity.journal}"
            yield Finding("error", self.name, 0, text)
        elif head.first != self.survey.first:
            text = f"its head says that it begins with number {head.first}"
            yield Finding("error", self.name, 0, text)

    def _records(self) -> Iterator[Finding]:
        survey = self.survey
        for damage in survey.damage:
            if not self._may_be_written(damage):
                yield self._lost(damage)
        if survey.first_time and survey.first_time < self.before:
            text = f"number {survey.first} has a time before that of the number before it"
            yield Finding("error", self.name, START, text)
        for number in survey.disorder:
            text = f"number {number} has a time before that of the number before it"
            yield Finding("error", self.name, 0, text)
        promised = self.limit - 1 if self.limit else self.highest
        if not self.limit and self.summary is not None:
            # It was closed properly, and all of this was there.
            promised = max(promised, self.summary.last)
        if survey.last < promised:
            yield self._lost(
                Damage(survey.first, survey.end, survey.size, survey.last + 1, promised)
            )
        elif survey.torn and not self._is_padding():
            text = f"{survey.size - survey.end} bytes at its end are not a record"
            if self.limit == 0:
                text += (
                    ": an unfinished write: it is still in progress, or the next start cuts it off"
                )
            yield Finding("info", self.name, survey.end, text)

    def _may_be_written(self, damage: Damage) -> bool:
        """Whether the pages of the newest segment are on their way, from the window."""
        return self.identity.window and not self.limit and damage.last > self.highest > 0

    def _is_padding(self) -> bool:
        """Whether zeros fill the last page of the newest segment."""
        survey = self.survey
        rest = survey.size - survey.end
        if self.limit or rest >= PAGE:
            return False
        return not any(os.pread(self.fd, rest, survey.end))

    def _lost(self, damage: Damage) -> Finding:
        return Finding("error", self.name, damage.offset, str(damage), damage.first, damage.last)

    def _index(self) -> Iterator[Finding]:
        survey = self.survey
        name = os.path.basename(self.base) + INDEX
        if self.index is None:
            there = os.path.exists(self.base + INDEX)
            if there or self.limit:
                state = "wrong" if there else "missing"
                yield Finding("info", name, 0, f"{state}; the broker rewrites it")
            return
        summary, marks, _ = self.index
        if summary.size != survey.size and self.limit == 0:
            return  # from the last proper close; later records are not in it
        if not self._is_of(summary):
            yield Finding("info", name, 0, "it does not match this segment; the broker rewrites it")
            return
        if survey.marks.any_ids and not summary.ids:
            yield Finding("warning", name, 0, "it says that there is no Nats-Msg-Id, but there is")
        words = marks.words
        for at in range(0, len(words), 3):
            offset = words[at + 2] & OFFSET
            data = os.pread(self.fd, HEAD.size, offset)
            if len(data) < HEAD.size or HEAD.unpack(data)[2] != words[at]:
                text = f"number {words[at]} is not at byte {offset} of the segment"
                yield Finding("warning", name, 0, text + "; remove it, and it is rewritten")
                return

    def _is_of(self, summary: Summary) -> bool:
        """Whether it describes this segment; what is damaged by now is not compared."""
        survey = self.survey
        if (summary.journal, summary.first) != (self.identity.journal, survey.first):
            return False
        if survey.damage or survey.torn:
            return True
        seen = (survey.last, survey.first_time, survey.last_time, survey.size)
        return summary[2:6] == seen


def _window(path: str, identity: Identity) -> Iterator[Finding]:
    """Look at the journal window, which is there until the store is closed."""
    try:
        view = WindowView(path, identity.salt)
    except FileNotFoundError:
        now = read_identity(path)
        if now is not None and now.window and not os.path.exists(os.path.join(path, WINDOW)):
            text = "missing: the newest messages were in it, and the next start refuses to go on"
            yield Finding("error", WINDOW, 0, text)
        return
    view.close()
    if view.head is None:
        yield Finding("warning", WINDOW, 0, "its head is damaged; the next start searches it")
    elif view.head.journal != identity.journal:
        text = f"it belongs to journal {view.head.journal}; the store is {identity.journal}"
        yield Finding("warning", WINDOW, 0, text)


def _firsts(path: str) -> list[int]:
    """The first numbers of the segments that are there now.

    A listing may miss a file that gets its name meanwhile, but not twice.
    """
    before: list[int] = []
    while True:
        names = os.listdir(path)
        now = sorted(number for name in names if (number := number_of(name, SEGMENT)))
        if now == before:
            return now
        before = now


def _from_heads(path: str, firsts: list[int]) -> Identity:
    for first in reversed(firsts):
        try:
            with open(os.path.join(path, stem(first) + SEGMENT), "rb") as file:
                head = decode_head(file.read(START))
        except FileNotFoundError:
            continue
        if head is not None:
            return Identity(head.journal, head.salt, head.epoch, head.created)
    raise StoreError(f"{path}: neither {FILE} nor a segment says which store this is")


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
