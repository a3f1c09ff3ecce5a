"""Checks every byte of a store without changing any, for an operator in doubt.

It takes no lock and may run while a broker does. An unfinished record at the end of the newest
segment may be a write in progress, so it is not an error. Nor are zeros there, which fill the last
page that a broker wrote: its newest records are in the journal window. While nothing is written,
the end of the store is judged as the next start will judge it: window and segments together.
"""

import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

from sequencer.journal.errors import Damage, StoreError
from sequencer.journal.header import INDEX, SEGMENT, START, Head, decode_head, number_of, stem
from sequencer.journal.high_water import FILE as HIGHEST
from sequencer.journal.high_water import read_highest
from sequencer.journal.identity import ANEW, FILE, Identity, read_identity
from sequencer.journal.index import OFFSET, Summary, read_index, read_summary
from sequencer.journal.inventory import identity_from, odd_kinds
from sequencer.journal.joining import Joining, can_follow
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
    odd = odd_kinds(path)
    for name, kind in odd:
        yield Finding("error", name, 0, f"this is a {kind}, and a store has a file there")
    if odd:
        return  # a read of a FIFO never ends
    identity, highest, findings = _identify(path)
    yield from findings
    if identity.pending is not None and identity.pending.kind == ANEW:
        return  # everything there is to be removed
    firsts = _firsts(path)  # now: a broker may have begun the segment of the highest number
    total = sum(_size(os.path.join(path, stem(first) + SEGMENT)) for first in firsts)
    done = 0
    time = 0
    for at, first in enumerate(firsts):
        limit = firsts[at + 1] if at + 1 < len(firsts) else 0
        check = _Check(path, identity, first, limit, time, 0 if limit else highest)
        while check.step():
            progress(min(done + check.survey.end, total), total)
        if not limit:
            yield from check.join_window(path)
        yield from check.findings()
        done += check.survey.size
        time = max(time, check.survey.last_time)
        progress(min(done, total), total)


class _Check:
    """The check of one segment. `limit` is the first number of the next; 0 for the newest.

    `time` is of the message before it, `highest` the number that the newest segment must reach.
    """

    def __init__(
        self, path: str, identity: Identity, first: int, limit: int, time: int, highest: int
    ) -> None:
        self.identity = identity
        self.limit = limit
        self.highest = highest
        self.reach = 0  # the last number, including those in the window
        self.mended: list[Damage] = []  # repaired from the window by the next start
        self.before = time
        self.base = os.path.join(path, stem(first))
        self.name = stem(first) + SEGMENT
        self.index = read_index(self.base + INDEX)  # first: the broker may seal it now
        self.summary = read_summary(self.base + INDEX)
        try:
            self.fd = os.open(self.base + SEGMENT, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            self.fd = -1  # retention has deleted it
        self.stamp = _stamp(path, self.base)
        size = os.fstat(self.fd).st_size if self.fd >= 0 else 0
        self.survey = Survey(self.fd, identity.salt, first, size, limit or 1 << 63)

    def step(self) -> bool:
        """Read the next part; return True while there is more."""
        if not self.survey.done:
            self.survey.step()
        return not self.survey.done

    def join_window(self, path: str) -> Iterator[Finding]:
        """Judge the end of the newest segment with the window, as the next start does."""
        report: list[tuple[str, str]] = []
        survey = self.survey
        joining = Joining(path, self.identity, report)
        try:
            joining.settle(max(survey.last, self.highest))
            reach = joining.reach(survey.last)
            if can_follow(os.pread(self.fd, START, 0), survey):
                self.reach = reach
            self.mended = [one for one, _ in joining.mendable(survey.damage)]
        finally:
            joining.close()
        error = joining.check(reach)
        if _stamp(path, self.base) != self.stamp:
            return  # a broker writes here
        for level, text in report:
            yield Finding(level, WINDOW, 0, text.removeprefix(f"{joining.file}: "))
        if error is not None:
            text = str(error).removeprefix(f"{joining.file}: ")
            lost = reach + 1, joining.end(reach)
            yield Finding("error", WINDOW, 0, text, *lost)

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
            if damage in self.mended:
                text = f"{damage.numbers} damaged; the next start puts back what the window has"
                yield Finding("warning", self.name, damage.offset, text)
            elif not self._may_be_written(damage):
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
        if max(survey.last, self.reach) < promised:
            yield self._lost(
                Damage(survey.first, survey.end, survey.size, survey.last + 1, promised)
            )
        elif survey.torn and self.reach <= survey.last and not self._is_padding():
            text = f"{survey.size - survey.end} bytes at its end are not a record"
            if self.limit == 0:
                text += (
                    ": an unfinished write: it is still in progress, or the next start cuts it off"
                )
            yield Finding("info", self.name, survey.end, text)

    def _may_be_written(self, damage: Damage) -> bool:
        """True if the damaged pages of the newest segment may still be written from the window."""
        if not self.identity.window or self.limit:
            return False
        return self.reach == 0 and damage.last > self.highest > 0

    def _is_padding(self) -> bool:
        """True if zeros fill the last page of the newest segment."""
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
        """True if the index describes this segment; fields of a damaged one are not compared."""
        survey = self.survey
        if (summary.journal, summary.first) != (self.identity.journal, survey.first):
            return False
        if survey.damage or survey.torn:
            return True
        seen = (survey.last, survey.first_time, survey.last_time, survey.size)
        return summary[2:6] == seen


def _identify(path: str) -> tuple[Identity, int, list[Finding]]:
    """Return the store's identity, its highest number, and what is wrong with their files."""
    found = []
    firsts = _firsts(path)
    identity = read_identity(path)
    if identity is None:
        if not firsts:
            raise StoreError(f"{path}: there is no store here; give the directory of a store")
        text = "missing or damaged; the next start rewrites it"
        found.append(Finding("warning", FILE, 0, text))
        identity = _from_heads(path, firsts)
    if identity.pending is not None:
        kind, number, _ = identity.pending
        text = f"a change is not complete ({kind} after number {number}); the next start ends it"
        found.append(Finding("info", FILE, 0, text))
        if kind == ANEW:
            return identity, 0, found
    highest = read_highest(path, identity.journal)
    if highest is None:
        found.append(Finding("warning", HIGHEST, 0, "damaged; the next start rewrites it"))
    elif highest and not firsts:
        text = f"all messages up to number {highest} are missing: there are no segments"
        found.append(Finding("error", HIGHEST, 0, text, 1, highest))
    return identity, highest or 0, found


def _stamp(path: str, base: str) -> tuple[object, ...]:
    """Return all that changes while a broker writes: the window's head, and the newest segment."""
    seen: list[object] = []
    for name in (os.path.join(path, WINDOW), base + SEGMENT):
        try:
            status = os.stat(name)
        except FileNotFoundError:
            seen.append(None)
        else:
            seen.append((status.st_ino, status.st_size, status.st_mtime_ns))
    try:
        view = WindowView(path, 0)
    except OSError:
        return tuple(seen)
    view.close()
    return (*seen, view.head)


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
    heads: dict[int, Head | None] = {}
    for first in firsts:
        try:
            with open(os.path.join(path, stem(first) + SEGMENT), "rb") as file:
                heads[first] = decode_head(file.read(START))
        except FileNotFoundError:
            continue
    if not any(heads.values()):
        raise StoreError(f"{path}: neither {FILE} nor a segment says which store this is")
    return identity_from(path, heads)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
