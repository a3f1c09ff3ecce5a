"""Opens a store for writing: removes the traces of a crash, reports damage.

    what a crash left unfinished        see inventory.py
    records in the journal window       appended to the segments (joining.py)
    a segment's head is damaged         rewritten from store.json and the file's name
    a torn tail of the newest segment   cut off: it was never reported as safe
    damage before good records, a gap   left as it is, and reported
    the newest segment lost records     known from its index or `.highest`. StoreError; or, with
                                        `accept_loss`, reported, and no number is used again
    the window lost records             the same, known from the window's head or `.newest`

The next number follows from the newest segment's name and records, even if retention has deleted
all other segments. Only the newest segment is read through, and after a clean stop only its end: it
has an index then, as the sealed ones have.
"""

# Theory of operation: `_settle`
#
# One rule is above all: no number is given twice. A message may be lost, and that is reported; but
# if its number were given again, clients would have seen two messages with one number. So a start
# must know the highest number that was ever given, even if its record is gone. Four files tell:
#
#     what says it            written                   what it proves
#     ---------------------   -----------------------   -------------------------------------------
#     records of the newest   always                    these numbers are here
#     its index               at a clean stop           these were here
#     .highest                after each sync           at least these were on the disk
#     the window's head,      with each release         these were given, if the machine has not
#     and `.newest`                                     been started since
#
# The last one is needed because a kill leaves records in the window that no sync has moved. `_mend`
# looks at the newest segment, and `joining` at the window:
#
#     records . . . records | damage | records | the rest                the segment
#                                              ^ survey.end    ^ size
#                                                | r | r | r | r |       the window: they follow
#
#     1  would numbers be missing, in the segment or in the window?  StoreError; nothing was changed
#     2  damage that records of the window fill exactly: put back
#     3  append the window's records that follow
#     4  the segment still ends before a number that was promised:  the loss is reported, the bytes
#                                                                   stay, a new segment begins
#        the rest may be more than an unfinished write:             it stays, a new segment begins
#        else: it was never reported as safe                        it is cut off
#
# Step 1 comes first, so an operator who forgot to put a file back can still do so. With
# `accept_loss` it does not raise; step 4 and `_join_rest` then skip the lost numbers.
#
# "May be more" (`doubtful`): either the search for a good record was given up, or the head of the
# segment is damaged and there is no record. Then nothing proves that the file is of this store.
#
# The order on the disk matters as well, because this may be killed too: what was appended from the
# window is synced before store.json forgets that window; a new window is made before store.json
# names it. At every moment either the old window is still believed, or the segments have it all.

import errno
import os
from collections.abc import Callable

from sequencer.journal.disk import (
    make_folder,
    pwrite_all,
    remove,
    shorten_file,
    sync_folder,
)
from sequencer.journal.errors import ELSEWHERE, Damage, StoreError
from sequencer.journal.header import (
    SEGMENT,
    START,
    SUBJECTS,
    Head,
    encode_head,
    stem,
)
from sequencer.journal.high_water import FILE as HIGHEST
from sequencer.journal.high_water import read_highest
from sequencer.journal.identity import (
    Identity,
    lock,
    read_identity,
    write_identity,
)
from sequencer.journal.index import OFFSET, Summary, read_index, read_summary
from sequencer.journal.inventory import Inventory, check_kinds
from sequencer.journal.joining import Joining, can_follow
from sequencer.journal.segment import PAGE, Segment
from sequencer.journal.survey import Survey, first_record
from sequencer.journal.window import JournalWindow, make_window
from sequencer.journal.window_file import NO_ROOM, Progress, no_progress, remove_window

DENIED = f"; let this user write there, or {ELSEWHERE}"
HINTS = {
    errno.EACCES: DENIED,
    errno.EPERM: DENIED,
    errno.EROFS: DENIED,
    errno.ENOSPC: "; make room on that disk",
}


class Recovery:
    """One opening of a directory for writing, and what was found in it.

    With `accept_loss`, it goes on even if numbers are missing at the end: they are then lost.
    Without `own_epochs`, this opening does not begin an epoch. With `window_bytes`, it makes a
    window of that size for what will be written. `progress` is called on the way, and may raise.
    """

    def __init__(
        self,
        path: str,
        now: int,
        accept_loss: bool = False,
        own_epochs: bool = True,
        window_bytes: int = 0,
        progress: Progress = no_progress,
    ) -> None:
        self.path = path
        self.progress = progress
        self.now = now
        self.accept_loss = accept_loss
        self.own_epochs = own_epochs
        self.window_bytes = window_bytes
        self.window: JournalWindow | None = None
        self.joining: Joining | None = None
        self.highest = 0  # the highest number that the segments are known to have had
        self.report: list[tuple[str, str]] = []
        self.damage: list[Damage] = []
        self.segments: list[Segment] = []
        self.unread: Survey | None = None  # of the newest segment, if only its end was read
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
            check_kinds(self.path)
            self.lock = lock(self.path)
            inventory = Inventory(self.path, self.now, self.accept_loss, self.report).run()
            self.heads, self.identity = inventory.heads, inventory.identity
            self._read_highest()
            self._look_for_window()
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
        if self.joining is not None:
            self.joining.close()
        if self.window is not None:
            self.window.close(False)
            self.window = None
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

    def _read_highest(self) -> None:
        """Read the highest number that the segments are known to have had."""
        highest = read_highest(self.path, self.identity.journal)
        if highest is None:
            file = os.path.join(self.path, HIGHEST)
            self.say("warning", f"{file}: damaged; rewritten from what the segments have")
        self.highest = highest or 0

    def _look_for_window(self) -> None:
        """Find the window that the last writer used."""
        self.joining = Joining(self.path, self.identity, self.report, self.progress)

    def _open_segments(self) -> None:
        """Open the segments, as far as their names, heads and indexes describe them."""
        following: Segment | None = None
        for first in reversed(self.heads):
            segment = Segment.found(self.path, first, following)
            self.segments.insert(0, segment)
            if following is not None:
                self._read_summary(segment, following)
            head = self.heads[first]
            if head is not None:
                segment.take_head(head)
            elif following is not None:
                self.say("error", f"{segment.file}: its head is damaged; rewritten")
                self._write_head(segment)
            following = segment
        for segment in self.segments:
            if segment.sealed and not segment.indexed:
                segment.sync()

    def _read_summary(self, segment: Segment, following: Segment) -> None:
        """Use the index of a sealed segment; without one, use the time of its first record."""
        summary = self._summary(segment)
        end = following.first - 1
        if summary is not None and summary.size == segment.size and summary.last <= end:
            read = read_index(segment.index_file) if summary.damages else None
            if summary.damages == 0 or read is not None:
                segment.take_summary(summary)
                for damage in read[2] if read else []:
                    self.lose(damage)
                reported = read[2][-1].last if read and read[2] else 0
                if summary.last < end and reported != end:
                    self.lose(_hole(segment, summary.last, end))
                return
        with open(segment.file, "rb") as file:
            record = first_record(file.fileno(), self.identity.salt, segment.first)
        segment.oldest = record.time if record is not None else 0

    def _summary(self, segment: Segment) -> Summary | None:
        """Return the head of the segment's index, if it belongs to this segment."""
        summary = read_summary(segment.index_file)
        if summary is None or summary.journal != self.identity.journal:
            return None
        return summary if summary.first == segment.first else None

    def _settle(self) -> None:
        """Make the newest segment ready to append to, and begin a new epoch."""
        number = 1
        if self.segments:
            number = self._mend(self.segments[-1])
        elif self.joining is not None:
            self.joining.settle(self.highest)
        if number:
            self._begin(number)
        self._join_rest()
        newest = self.segments[-1]
        self._settle_times()
        for segment in self.segments[:-1]:
            if segment.fd >= 0:  # it was the newest; from now on its index knows what it lost
                segment.write_index(self.identity.journal, self.damage)
        newest.sync()
        sync_folder(self.path)
        known = self.identity.epoch
        # Numbers from here on are of a new epoch: if lost ones come back (a copy is put back), the
        # epoch tells the two apart. 0 would be a store not yet begun.
        epoch = known + 1 if self.own_epochs else max(known, 1)
        self.identity = self.identity._replace(epoch=epoch, window=0)
        if self.window_bytes:
            self.window = JournalWindow(self.path, self.window_bytes)
            self._make_window(self.window, max(newest.last, newest.first - 1))
        if self.identity != read_identity(self.path):
            write_identity(self.path, self.identity)
        if not self.identity.window:
            remove_window(self.path)

    def _make_window(self, window: JournalWindow, last: int) -> None:
        """Make a window, before store.json says that there is one."""
        try:
            self.identity = make_window(window, self.identity, last)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            self.identity = self.identity._replace(window=0)
            self.say(
                "warning", f"{self.path}: no room for the journal window: nothing is taken yet"
            )

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
            segment.bound_times(later)
            later = segment.oldest
        self.newest_time = newest.newest or before.newest

    def _join_rest(self) -> None:
        """Append the other records of the window: after damage, or of other epochs."""
        joining = self.joining
        assert joining is not None, "it was looked for"
        self._join_epochs(joining)
        newest = self.segments[-1]
        error = joining.check(max(newest.last, newest.first - 1))
        if error is not None:
            if not self.accept_loss:
                raise error
            self.say("error", str(error))
            while self._pass_over(joining):
                self._join_epochs(joining)
        joining.close()

    def _pass_over(self, joining: Joining) -> bool:
        """Leave out the numbers that are lost here; return whether others follow them."""
        newest = self.segments[-1]
        last = max(newest.last, newest.first - 1)
        if joining.check(last) is None:
            return False
        number = joining.next_after(last)
        end = number - 1 if number else joining.end(last)
        self.lose(Damage(newest.first, newest.size, newest.size, last + 1, end))
        self._begin(end + 1)
        return bool(number)

    def _join_epochs(self, joining: Joining) -> None:
        """Append the records that follow, each epoch to a segment of its own."""
        while epoch := joining.epoch_of(
            max(self.segments[-1].last, self.segments[-1].first - 1) + 1
        ):
            newest = self.segments[-1]
            if newest.last >= newest.first:
                newest.sync()
                self._begin(newest.last + 1, epoch)
            elif not self.own_epochs and newest.epoch != epoch:
                self._set_epoch(newest, epoch)
            newest = self.segments[-1]
            survey = Survey(newest.fd, self.identity.salt, newest.first, START)
            joining.append(newest, survey, 0 if self.own_epochs else epoch)
            self._learn(newest, survey)
            newest.size = survey.end
        self.segments[-1].sync()

    def _set_epoch(self, segment: Segment, epoch: int) -> None:
        """Give an empty segment the epoch of its first record."""
        identity = self.identity
        fields = (identity.salt, identity.journal, segment.first, self.now, epoch)
        segment.rewrite_head(Head(*fields, before=segment.before))

    def _begin(self, number: int, epoch: int = 0) -> None:
        """Make a new newest segment, in a cluster of the given epoch, or that of the one before."""
        identity = self.identity
        last = self.segments[-1].epoch if self.segments else 0
        epoch = epoch or last
        if self.own_epochs:
            epoch, last = identity.epoch + 1, 0
        time = max((segment.newest for segment in self.segments), default=0) or self.now
        head = Head(identity.salt, identity.journal, number, time, epoch, before=last)
        made = Segment.create(self.path, head)
        if self.segments:
            self.segments[-1].seal(made)
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
        survey = self._survey_closed(segment, size) or self._survey(segment, size)
        joining = self.joining
        assert joining is not None, "it was looked for"
        joining.settle(max(survey.last, self.highest))
        joins = can_follow(head, survey)
        self._agree(segment, survey.last, joins)  # nothing was changed yet
        if joining.repair(segment, survey.damage):
            survey = self._survey(segment, size)
        if joins:
            joining.append(segment, survey, 0 if self.own_epochs else segment.epoch)
            size = os.fstat(segment.fd).st_size
        summary = self._summary(segment)
        promised = max(summary.last if summary else 0, self.highest)
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
            if survey.torn and not self._is_filled_up(segment, survey.end, size):
                self.say(
                    "warning",
                    f"{segment.file}: {size - survey.end} bytes of an unfinished"
                    f" write after number {segment.last} cut off",
                )
            os.ftruncate(segment.fd, survey.end)
            segment.size = survey.end
            remove(segment.index_file)
            remove(segment.path + SUBJECTS)
            return 0
        if segment.fd >= 0:  # it was not set aside
            segment.sync()
        return max(segment.last, promised) + 1

    def _survey_closed(self, segment: Segment, size: int) -> Survey | None:
        """Take what the index of a store that was closed says of its newest segment.

        Only its last records are read then; the store reads the others later (`unread`). None if
        the index does not say all of it, or if the file was written to since: read it through.
        """
        if self.identity.window or self.heads[segment.first] is None:
            return None
        read = read_index(segment.index_file)
        if read is None or self._summary(segment) is None:
            return None
        summary, marks, damages = read
        written, indexed = (os.stat(file) for file in (segment.file, segment.index_file))
        if summary.size != size or not len(marks) or written.st_mtime_ns > indexed.st_mtime_ns:
            return None
        survey = Survey(segment.fd, self.identity.salt, segment.first, size)
        survey.begin_at(marks.words[-1] & OFFSET, marks.words[-3])
        survey.run()
        if survey.damage or survey.torn or survey.last != max(summary.last, self.highest):
            return None
        survey.take_index(summary, marks, damages)
        self.unread = Survey(-1, self.identity.salt, segment.first, size, limit=summary.last + 1)
        return survey

    def _survey(self, segment: Segment, size: int) -> Survey:
        """Read the newest segment through."""
        how = segment.fd, self.identity.salt, segment.first, size
        survey = Survey(*how, looks=self._looks(segment.file, size))
        while not survey.done:
            self.progress(f"reading {segment.file}", survey.end, size)
            survey.step()
        return survey

    def _looks(self, file: str, size: int) -> Callable[[int], None]:
        """Return what reports how far a search in a file has come."""
        return lambda at: self.progress(f"searching {file}", at, size)

    def _is_filled_up(self, segment: Segment, end: int, size: int) -> bool:
        """True if the rest is only the zeros that fill up a page (mover.py)."""
        return size - end < PAGE and not any(os.pread(segment.fd, size - end, end))

    def _agree(self, segment: Segment, last: int, joins: bool) -> None:
        """Raise `StoreError` if numbers are missing, unless `accept_loss` was given.

        The segment ends with `last`. `joins`: what follows in the window can be appended to it.
        """
        if self.accept_loss:
            return
        assert self.joining is not None, "it was looked for"
        reach = self.joining.reach(last)
        error = short_of(segment.file, reach if joins else last, self.highest)
        error = error or self.joining.check(reach)
        if error is not None:
            raise error

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
        segment.take_survey(survey)
        self.identity = self.identity._replace(epoch=max(self.identity.epoch, survey.epoch))

    def _survey_sealed(self, segment: Segment) -> None:
        """Read a sealed segment without an index through."""
        with open(segment.file, "rb") as file:
            looks = self._looks(segment.file, segment.size)
            survey = survey_sealed(segment, file.fileno(), self.identity.salt, looks)
            while not survey.done:
                self.progress(f"reading {segment.file}", survey.end, segment.size)
                survey.step()
        for damage in conclude(segment, survey):
            self.lose(damage)

    def _write_head(self, segment: Segment) -> None:
        fd = os.open(segment.file, os.O_RDWR | os.O_CLOEXEC)
        try:
            identity = self.identity
            record = first_record(fd, identity.salt, segment.first)
            epoch = identity.epoch if record is None else record.epoch
            older = [head for first, head in self.heads.items() if first < segment.first and head]
            before = older[-1].epoch if older and not self.own_epochs else 0
            fields = (identity.salt, identity.journal, segment.first, self.now, epoch)
            head = Head(*fields, before=before)
            pwrite_all(fd, encode_head(head), 0)
            os.fsync(fd)
            segment.take_head(head)
        finally:
            os.close(fd)

    def _file(self, first: int) -> str:
        return os.path.join(self.path, stem(first) + SEGMENT)


def short_of(file: str, last: int, highest: int) -> StoreError | None:
    """Return the error if the newest segment ends with `last`, and the journal had `highest`."""
    if last >= highest:
        return None
    one = last + 1 == highest
    missing = f"number {highest} is" if one else f"numbers {last + 1} to {highest} are"
    return StoreError(
        f"{file}: {missing} missing: the newest segment ends with number {last}, and"
        f" the journal had number {highest} before. Put back the files that are missing or"
        " were cut short; or, if there is no copy, start once with --accept-loss"
        " (journal.accept_loss): then the loss is reported, and the next number is"
        f" {highest + 1}"
    )


def survey_sealed(
    segment: Segment, fd: int, salt: int, looks: Callable[[int], None] = lambda at: None
) -> Survey:
    """Start a survey of a segment that has a following one."""
    following = segment.following
    assert following is not None, "a sealed segment has a following one"
    size = os.fstat(fd).st_size
    return Survey(fd, salt, segment.first, size, limit=following.first, looks=looks)


def conclude(segment: Segment, survey: Survey) -> list[Damage]:
    """Record in a sealed segment what the survey found; return what is lost."""
    lost = list(survey.damage)
    end = survey.limit - 1
    segment.take_survey(survey)
    if survey.last == end and survey.torn:
        # All of its numbers are there. After them may be a torn copy of the next segment's start.
        shorten_file(segment.file, survey.end)
        segment.size = survey.end
    if survey.last < end:
        lost.append(Damage(segment.first, survey.end, survey.size, survey.last + 1, end))
    return lost


def _hole(segment: Segment, last: int, end: int) -> Damage:
    return Damage(segment.first, segment.size, segment.size, last + 1, end)
