"""Opens a store for writing: removes the traces of a crash, and reports damage.

    store.json is missing or damaged    rewritten from the segments' heads
    the store was being begun again     that is completed; an interrupted cut is not
    unfinished files (*.tmp)            removed
    a segment's head is damaged         rewritten from store.json and the file's name
    a torn tail of the newest segment   cut off: it was never reported as safe
    damage before good records, a gap   left as it is, and reported
    the newest segment lost records     known from its index or `.highest`. StoreError; or, with
                                        `accept_loss`, reported, and no number is used again

The next number follows from the newest segment's name and records, even if retention has deleted
all other segments. Only the newest segment is read through; the sealed ones have an index.
"""

import errno
import os
import struct

from sequencer.journal.anew import begin_anew
from sequencer.journal.disk import (
    make_folder,
    pwrite_all,
    remove,
    shorten_file,
    sync_file,
    sync_folder,
)
from sequencer.journal.errors import ELSEWHERE, Damage, StoreError
from sequencer.journal.header import (
    INDEX,
    SEGMENT,
    START,
    VERSION,
    Head,
    decode_head,
    encode_head,
    number_of,
    stem,
)
from sequencer.journal.highest import FILE as HIGHEST
from sequencer.journal.highest import read_highest
from sequencer.journal.identity import (
    ANEW,
    FILE,
    Identity,
    lock,
    new_identity,
    read_identity,
    write_identity,
)
from sequencer.journal.index import Summary, read_index, read_summary
from sequencer.journal.layout import HEADER_SIZE, LENGTH_MAX, RECORD
from sequencer.journal.record import Walk
from sequencer.journal.segment import Segment
from sequencer.journal.survey import Survey

DENIED = f"; let this user write there, or {ELSEWHERE}"
HINTS = {
    errno.EACCES: DENIED,
    errno.EPERM: DENIED,
    errno.EROFS: DENIED,
    errno.ENOSPC: "; make room on that disk",
}
FIRST_RECORD = struct.Struct("<IIQQ")


class Recovery:
    """One opening of a directory for writing, and what was found in it.

    With `accept_loss`, it goes on even if numbers are missing at the end: they are then lost.
    Without `own_epochs`, this opening does not begin an epoch.
    """

    def __init__(
        self, path: str, now: int, accept_loss: bool = False, own_epochs: bool = True
    ) -> None:
        self.path = path
        self.now = now
        self.accept_loss = accept_loss
        self.own_epochs = own_epochs
        self.highest = 0  # the highest number that the segments are known to have had
        self.report: list[tuple[str, str]] = []
        self.damage: list[Damage] = []
        self.segments: list[Segment] = []
        self.heads: dict[int, Head | None] = {}
        self.identity = Identity("", 0, 0, 0)
        self.newest_time = 0
        self.lock = -1

    def run(self) -> "Recovery":
        """Make the directory a store that can be written. StoreError if that is not possible."""
        try:
            if os.path.exists(self.path) and not os.path.isdir(self.path):
                raise StoreError(f"{self.path}: this is a file; a store is a directory")
            make_folder(self.path)
            self.lock = lock(self.path)
            self._complete()
            self._tidy()
            self._identify()
            self._read_highest()
            self._open_segments()
            self._settle()
            return self
        except OSError as error:
            self.abandon()
            where = error.filename or self.path
            hint = HINTS.get(error.errno or 0, "")
            text = f"{where}: the store cannot be opened: {error.strerror}{hint}"
            raise StoreError(text) from error
        except BaseException:
            self.abandon()
            raise

    def abandon(self) -> None:
        for segment in self.segments:
            segment.close()
        if self.lock >= 0:
            os.close(self.lock)
            self.lock = -1

    def say(self, level: str, text: str) -> None:
        self.report.append((level, text))

    def lose(self, damage: Damage) -> None:
        self.damage.append(damage)
        if damage.first <= damage.last:
            self.say("error", f"{self.path}: {damage}")

    def _complete(self) -> None:
        """Begin the store again if a crash came in between. A cut that it interrupted is not made.

        The store ends later then, which is no loss.
        """
        identity = read_identity(self.path)
        if identity is None or identity.pending is None:
            return
        number = identity.pending.number
        if identity.pending.kind == ANEW:
            begin_anew(self.path, identity).close()
            self.say("info", f"{self.path}: begun again after number {number}")
        else:
            write_identity(self.path, identity._replace(pending=None))
            self.say("info", f"{self.path}: a cut after number {number} may be incomplete")

    def _tidy(self) -> None:
        """Read the heads of all segments, and remove what a crash left unfinished."""
        names = os.listdir(self.path)
        firsts = sorted(number for name in names if (number := number_of(name, SEGMENT)))
        for name in names:
            orphan = number_of(name, INDEX) not in (0, *firsts)
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
            newest = heads[-1]
            identity = Identity(newest.journal, newest.salt, newest.epoch, heads[0].created)
            self.say("warning", f"{file}: missing or damaged; rewritten from the segments")
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
            self.say("warning", text)
        for first, head in self.heads.items():
            self._check_head(identity, first, head)
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

    def _read_highest(self) -> None:
        """Read the highest number that the disk had."""
        highest = read_highest(self.path, self.identity.journal)
        if highest is None:
            file = os.path.join(self.path, HIGHEST)
            self.say("warning", f"{file}: damaged; rewritten from what the segments have")
        self.highest = highest or 0

    def _open_segments(self) -> None:
        """Open the segments, as far as their names, heads and indexes describe them."""
        following: Segment | None = None
        for first in reversed(self.heads):
            segment = Segment(os.path.join(self.path, stem(first)), first)
            segment.size = max(START, os.stat(segment.file).st_size)
            segment.following = following
            self.segments.insert(0, segment)
            if following is not None:
                segment.sealed = True
                segment.last = following.first - 1
                self._read_summary(segment, following)
            head = self.heads[first]
            if head is not None:
                segment.epoch, segment.before = head.epoch, head.before
            elif following is not None:
                self.say("error", f"{segment.file}: its head is damaged; rewritten")
                self._write_head(segment)
            following = segment
        for segment in self.segments:
            if segment.sealed and not segment.indexed:
                self._sync(segment)

    def _read_summary(self, segment: Segment, following: Segment) -> None:
        """Use the index of a sealed segment; without one, use what else is known."""
        segment.marks = None
        summary = self._summary(segment)
        end = following.first - 1
        if summary is not None and summary.size == segment.size and summary.last <= end:
            read = read_index(segment.index_file) if summary.damages else None
            if summary.damages == 0 or read is not None:
                segment.indexed = True
                segment.synced = segment.size
                segment.last = summary.last
                segment.oldest, segment.newest = summary.first_time, summary.last_time
                for damage in read[2] if read else []:
                    self.lose(damage)
                reported = read[2][-1].last if read and read[2] else 0
                if summary.last < end and reported != end:
                    self.lose(_hole(segment, summary.last, end))
                return
        with open(segment.file, "rb") as file:
            data = file.read(START + FIRST_RECORD.size)[START:]
        if len(data) == FIRST_RECORD.size:
            _, _, number, time = FIRST_RECORD.unpack(data)
            segment.oldest = time if number == segment.first else 0

    def _summary(self, segment: Segment) -> Summary | None:
        """The head of the segment's index, if it belongs to this segment."""
        summary = read_summary(segment.index_file)
        if summary is None or summary.journal != self.identity.journal:
            return None
        return summary if summary.first == segment.first else None

    def _settle(self) -> None:
        """Make the newest segment ready to append to, and begin a new epoch."""
        number = 1
        if self.segments:
            number = self._mend(self.segments[-1])
        if number:
            self._begin(number)
        newest = self.segments[-1]
        self._settle_times()
        for segment in self.segments[:-1]:
            if segment.fd >= 0:  # it was the newest; from now on its index knows what it lost
                segment.write_index(self.identity.journal, self.damage)
        os.fdatasync(newest.fd)
        newest.synced = newest.size
        sync_folder(self.path)
        known = self.identity.epoch
        epoch = known + 1 if self.own_epochs else max(known, 1)  # 0 would be a store not yet begun
        self.identity = self.identity._replace(epoch=epoch)
        if self.identity != read_identity(self.path):
            write_identity(self.path, self.identity)

    def _settle_times(self) -> None:
        """Bound the times of segments without an index, and find the newest time of all."""
        newest = self.segments[-1]
        self.newest_time = newest.newest
        if len(self.segments) == 1:
            head = self.heads.get(newest.first)
            if head is not None and newest.first > 1 and not newest.newest:
                self.newest_time = head.created  # not before the time of the last record there was
            return
        before = self.segments[-2]
        if not newest.newest and not before.indexed and before.marks is None:
            self._survey_sealed(before)
        later = newest.oldest
        for segment in reversed(self.segments[:-1]):
            segment.newest = segment.newest or later or segment.oldest
            if not segment.oldest or segment.oldest > segment.newest:
                segment.oldest = segment.newest
            later = segment.oldest
        self.newest_time = newest.newest or before.newest

    def _begin(self, number: int) -> None:
        """Make a new newest segment."""
        identity = self.identity
        epoch = last = self.segments[-1].epoch if self.segments else 0
        if self.own_epochs:
            epoch, last = identity.epoch + 1, 0
        head = Head(identity.salt, identity.journal, number, self.now, epoch, before=last)
        made = Segment.create(self.path, head)
        if self.segments:
            before = self.segments[-1]
            before.following = made
            before.sealed = True
        self.segments.append(made)
        sync_folder(self.path)

    def _mend(self, segment: Segment) -> int:
        """Read the newest segment through and repair it.

        Returns 0 if it can be appended to, else the number with which a new one must begin.
        """
        segment.fd = os.open(segment.file, os.O_RDWR | os.O_CLOEXEC)
        size = os.fstat(segment.fd).st_size
        head = os.pread(segment.fd, START, 0)
        headless = self.heads[segment.first] is None and len(head) == START and any(head)
        survey = Survey(segment.fd, self.identity.salt, segment.first, size).run()
        summary = self._summary(segment)
        promised = max(summary.last if summary else 0, self.highest)
        self._agree(segment, survey.last)
        if self.heads[segment.first] is None:
            self._write_head(segment)
            self.say("error" if headless else "info", f"{segment.file}: its head is rewritten")
        for damage in survey.damage:
            self.lose(damage)
        self._learn(segment, survey)
        doubtful = survey.torn and (not survey.certain or (headless and not survey.marks.words))
        if segment.last < promised:
            segment.size = max(size, START)
            end = segment.size
            self.lose(Damage(segment.first, survey.end, end, segment.last + 1, promised))
        elif doubtful:
            self._leave(segment, survey, size)
        else:
            if survey.torn:
                self.say(
                    "warning",
                    f"{segment.file}: {size - survey.end} bytes of an unfinished"
                    f" write after number {segment.last} cut off",
                )
                os.ftruncate(segment.fd, survey.end)
            segment.size = survey.end
            remove(segment.index_file)
            return 0
        if segment.fd >= 0:  # it was not set aside
            os.fsync(segment.fd)
            segment.synced = segment.size
        return max(segment.last, promised) + 1

    def _agree(self, segment: Segment, last: int) -> None:
        """Raise `StoreError` if numbers are missing, unless `accept_loss` was given."""
        highest = self.highest
        if last >= highest or self.accept_loss:
            return
        one = last + 1 == highest
        missing = f"number {highest} is" if one else f"numbers {last + 1} to {highest} are"
        raise StoreError(
            f"{segment.file}: {missing} missing: the newest segment ends with number {last}, and"
            f" the journal had number {highest} before. Put back the files that are missing or"
            " were cut short; or, if there is no copy, start once with --accept-loss"
            " (journal.accept_loss): then the loss is reported, and the next number is"
            f" {highest + 1}"
        )

    def _leave(self, segment: Segment, survey: Survey, size: int) -> None:
        """Leave bytes that may be more than an unfinished write; go on in a new segment."""
        text = f"{segment.file}: the bytes from {survey.end} to {size} are not records and are left"
        if segment.last < segment.first:
            aside = segment.file + ".damaged"
            os.rename(segment.file, aside)
            segment.close()
            self.segments.remove(segment)
            if self.segments:
                self.segments[-1].following = None
            text += f", in {aside}"
        else:
            segment.size = size
            self.damage.append(
                Damage(segment.first, survey.end, size, segment.last + 1, segment.last)
            )
        self.say("error", text)

    def _learn(self, segment: Segment, survey: Survey) -> None:
        learn(segment, survey)
        self.identity = self.identity._replace(epoch=max(self.identity.epoch, survey.epoch))

    def _survey_sealed(self, segment: Segment) -> None:
        """Read a sealed segment without an index through."""
        with open(segment.file, "rb") as file:
            survey = survey_sealed(segment, file.fileno(), self.identity.salt).run()
        for damage in conclude(segment, survey):
            self.lose(damage)

    def _write_head(self, segment: Segment) -> None:
        fd = os.open(segment.file, os.O_RDWR | os.O_CLOEXEC)
        try:
            identity = self.identity
            segment.epoch = first_epoch(fd, identity.salt, segment.first) or identity.epoch
            older = [head for first, head in self.heads.items() if first < segment.first and head]
            segment.before = older[-1].epoch if older and not self.own_epochs else 0
            fields = (identity.salt, identity.journal, segment.first, self.now, segment.epoch)
            pwrite_all(fd, encode_head(Head(*fields, before=segment.before)), 0)
            os.fsync(fd)
        finally:
            os.close(fd)

    def _sync(self, segment: Segment) -> None:
        sync_file(segment.file)
        segment.synced = segment.size

    def _file(self, first: int) -> str:
        return os.path.join(self.path, stem(first) + SEGMENT)


def survey_sealed(segment: Segment, fd: int, salt: int) -> Survey:
    """Start a survey of a segment that has a following one."""
    following = segment.following
    assert following is not None, "a sealed segment has a following one"
    size = os.fstat(fd).st_size
    return Survey(fd, salt, segment.first, size, limit=following.first)


def conclude(segment: Segment, survey: Survey) -> list[Damage]:
    """Record in a sealed segment what the survey found; return what is lost."""
    lost = list(survey.damage)
    end = survey.limit - 1
    learn(segment, survey)
    if survey.last == end and survey.torn:
        # All of its numbers are there. After them may be a torn copy of the next segment's start.
        shorten_file(segment.file, survey.end)
        segment.size = survey.end
    if survey.last < end:
        lost.append(Damage(segment.first, survey.end, survey.size, survey.last + 1, end))
    return lost


def first_epoch(fd: int, salt: int, first: int) -> int:
    """The epoch of a segment's first record; 0 if that is damaged, or missing."""
    data = os.pread(fd, HEADER_SIZE, START)
    if len(data) < HEADER_SIZE:
        return 0
    length = int.from_bytes(data[4:8], "little")
    data = os.pread(fd, min(length, LENGTH_MAX) + 7 & ~7, START)
    walk = Walk(salt)
    walk.begin(data, 0, len(data))
    return walk.epoch if walk.next() == RECORD and walk.number == first else 0


def learn(segment: Segment, survey: Survey) -> None:
    """Record in a segment what the survey found."""
    segment.marks = survey.marks
    segment.last = survey.last
    segment.oldest, segment.newest = survey.first_time, survey.last_time


def _hole(segment: Segment, last: int, end: int) -> Damage:
    return Damage(segment.first, segment.size, segment.size, last + 1, end)
