"""Stages: pieces of a stream of operations, each stage a file until it is committed or expires.

    <folder>/<id>.stage
        d2a1f0c4 {"application":"query-1","batch":7,"stage":"0-12",     its name, in one line;
                  "address":"10.0.0.7","begun":1769860800000}           whose it is, since when
        PUB orders 5                                                    then what was staged,
        hello                                                           byte for byte

A piece is checked when it comes: a row that could not be published is refused while whoever
sent it can still do something about it. Nothing is kept in memory but figures: what the
last piece has cut is read again with the next one.

Files survive the broker. They are synced by the commit that takes them and not before, so after
a power cut one may be damaged: the survey after a start drops it if its operations are, and
the checksum of the commit finds the rest.
"""

import contextlib
import os
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from zlib import crc32

from broker.dataplane.staged_rows import Staged
from broker.settings.staging_settings import StagingSettings
from broker.staging.logged_lines import seal, unseal
from broker.staging.operations_asked import Key, Refusal, StagedPiece
from broker.staging.shares import NOBODY, Owner, Shares, owner_at
from parser.machine import Parser
from parser.table import START
from sequencer.journal.disk import FILE_MODE, pwrite_all, remove

FILE = re.compile(r"([0-9a-f]{16})\.stage")
HEAD_MAX = 4096  # of the first line: an application's name, escaped, and more
SURVEY_BYTES = 1 << 20  # checked in one turn, a millisecond


@dataclass(slots=True, eq=False)
class Stage:
    """One stage. `bytes` are those of its operations, without the file's first line."""

    key: Key
    file: str
    head: int  # bytes of the first line
    parser: Parser
    touched: float  # when there last was something new; seconds of the loop's clock
    begun: float  # when there first was
    owner: Owner = NOBODY  # who began it
    bytes: int = 0
    rows: int = 0
    crc: int = 0
    checked: int = 0  # bytes up to which the parser has gone; behind begins a row that is not whole
    claimed: bool = False  # a commit has it

    @property
    def is_whole(self) -> bool:
        """Whether it ends with the end of a row."""
        return self.checked == self.bytes and self.parser.state == START


class Stages:
    """All stages of a broker, by name. Written by its one thread."""

    def __init__(
        self, folder: str, staged: Staged, limits: tuple[int, int], settings: StagingSettings
    ) -> None:
        self._folder = folder
        self._staged = staged
        self._limits = limits  # of a control line, and of a payload
        self._max_bytes = settings.max_bytes
        self.most = settings.max_stages
        self._byte_shares = Shares(self._max_bytes, settings)
        self._shares = Shares(self.most, settings)
        self._stages: dict[Key, Stage] = {}
        self._by_address: dict[str, dict[Key, Stage]] = {}  # the oldest first
        self._next = 1
        self.bytes = 0
        self.expired = 0
        self.displaced = 0  # that had to go for others'
        self.litter: list[str] = []  # files of these, to be deleted

    def __len__(self) -> int:
        return len(self._stages)

    def __iter__(self) -> Iterator[Stage]:
        return iter(self._stages.values())

    @property
    def is_crowded(self) -> bool:
        """Whether one more may have to take the place of another one."""
        return len(self) >= self.most or self.bytes > self._max_bytes >> 1

    def find(self, key: Key) -> Stage | None:
        return self._stages.get(key)

    def of(self, application: str, batch: int) -> list[Stage]:
        """Those of one batch."""
        return [one for one in self if one.key[:2] == (application, batch)]

    def up_to(self, application: str, batch: int) -> list[Stage]:
        """Those of a batch and the ones before it."""
        return [one for one in self if one.key[0] == application and one.key[1] <= batch]

    # What comes

    def append(
        self,
        piece: StagedPiece,
        buffer: bytearray,
        at: int,
        stop: int,
        now: float,
        by: Owner = NOBODY,
    ) -> Stage:
        """Add `buffer[at:stop]` to a stage, made where it misses. Raises `Refusal`.

        What is there already is passed over, so that a piece may be sent again. Whoever has made
        a stage has all that is in it. Where there is no room, who has little takes it from the
        address that has most; `litter` then has files to be deleted, also if this raises.
        """
        stage = self._stages.get(piece.key)
        total = stage.bytes if stage is not None else 0
        if piece.offset > total:
            raise Refusal(409, f"this stage has {total} bytes", expected=total)
        if stage is not None and stage.claimed:
            raise Refusal(409, "this stage is being committed", expected=total)
        at = min(at + total - piece.offset, stop)
        owner = by if stage is None else stage.owner
        self._make_room(stage, owner, stop - at)
        fresh = stage is None
        if stage is None:
            stage = self._make(piece.key, now, owner)
        try:
            self._add(stage, buffer, at, stop)
        except OSError as error:
            if fresh:
                remove(stage.file)
            raise Refusal(
                507, f"the stage cannot be written to the disk: {error.strerror}"
            ) from error
        if at < stop:
            stage.touched = now
        if fresh:
            self._enter(stage)
        return stage

    def _make_room(self, stage: Stage | None, owner: Owner, size: int) -> None:
        """Have room for more bytes of a stage, or of a new one. Raises `Refusal`."""
        if size and (why := self._byte_shares.over(owner, size)):
            raise Refusal(413, f"too many bytes are staged: {why}")
        if stage is None and (why := self._shares.over(owner, 1)):
            raise Refusal(429, f"too many stages: {why}")
        while self.bytes + size > self._max_bytes:
            if not self._displace(owner, self._byte_shares, size, stage):
                most = f"{self._max_bytes} bytes are staged at most (staging.max_bytes)"
                raise Refusal(413, most)
        full = stage is None and len(self) >= self.most
        if full and not self._displace(owner, self._shares, 1, None):
            raise Refusal(429, f"there are {self.most} stages (staging.max_stages)")

    def _displace(self, owner: Owner, shares: Shares, amount: int, stage: Stage | None) -> bool:
        """Drop the oldest stage of the address that has most, if the owner has less; if there is.

        None that a commit has, and not `stage`, which is to grow.
        """
        spared: set[str] = set()
        while (address := shares.greediest(owner, amount, spared)) is not None:
            for one in self._by_address.get(address, {}).values():
                if not one.claimed and one is not stage:
                    self.litter += self.drop([one])
                    self.displaced += 1
                    return True
            spared.add(address)
        return False

    def _enter(self, stage: Stage) -> None:
        self._stages[stage.key] = stage
        self._by_address.setdefault(stage.owner.address, {})[stage.key] = stage
        self._shares.add(stage.owner, 1)

    def _make(self, key: Key, now: float, owner: Owner) -> Stage:
        file = os.path.join(self._folder, f"{self._next:016x}.stage")
        self._next += 1
        return Stage(key, file, 0, self._parser(), now, now, owner)

    def _parser(self) -> Parser:
        return Parser(*self._limits)

    def _add(self, stage: Stage, buffer: bytearray, at: int, stop: int) -> None:
        """Check, then write. Raises `OSError`, with the stage as it was, and `Refusal`, without."""
        fd = os.open(stage.file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            if not stage.head:
                application, batch, name = stage.key
                fields = {"application": application, "batch": batch, "stage": name}
                begun = time.time_ns() // 1_000_000
                line = seal(fields | {"address": stage.owner.address, "begun": begun})
                pwrite_all(fd, line, 0)
                stage.head = len(line)
            end = stage.head + stage.bytes
            with memoryview(buffer)[at:stop] as view:
                self._write(fd, view, end)
                crc = crc32(view, stage.crc)
            rest = stage.bytes - stage.checked
            # A row that is far from whole is not looked at again with every piece of it.
            if rest == 0 or stage.parser.need <= rest + stop - at:
                self._check(stage, fd, buffer, at, stop)
        finally:
            os.close(fd)
        stage.crc = crc
        stage.bytes += stop - at
        self.bytes += stop - at
        self._byte_shares.add(stage.owner, stop - at)

    def _write(self, fd: int, view: memoryview, end: int) -> None:
        """Write behind `end`; where that fails the room is given back, for the journal needs it."""
        try:
            pwrite_all(fd, view, end)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(fd, end)
            raise

    def _check(self, stage: Stage, fd: int, buffer: bytearray, at: int, stop: int) -> None:
        """Check what is new, and with it what the last piece has cut."""
        rest = stage.bytes - stage.checked
        if rest:
            joined = bytearray(rest + stop - at)
            with memoryview(joined) as view:
                got = os.preadv(fd, [view], stage.head + stage.checked)
            if got != len(joined):
                raise OSError(5, f"the file has {got} bytes where {len(joined)} were written")
            buffer, at, stop = joined, 0, len(joined)
        rows = self._staged.check(stage.parser, buffer, at, stop)
        stage.checked += stage.parser.at - at
        stage.parser.begin(bytearray(), 0, 0)  # it must not keep the buffer
        if rows < 0:
            row = stage.rows + self._staged.row
            self._forget(stage)
            remove(stage.file)
            raise Refusal(400, f"row {row} of stage {stage.key[2]}: {self._staged.problem}")
        stage.rows += rows

    # What goes

    def drop(self, stages: Iterable[Stage]) -> list[str]:
        """Forget stages; their files, which are to be deleted."""
        gone = list(stages)
        for stage in gone:
            self._forget(stage)
        return [stage.file for stage in gone]

    def expire(self, before: float, begun: float) -> list[str]:
        """Forget what nothing was added to since, or was begun before `begun`, and no commit has.

        Returned are the files, to be deleted.
        """
        late = [
            one for one in self if (one.touched < before or one.begun < begun) and not one.claimed
        ]
        self.expired += len(late)
        return self.drop(late)

    def _forget(self, stage: Stage) -> None:
        if self._stages.pop(stage.key, None) is not None:
            self.bytes -= stage.bytes
            self._byte_shares.add(stage.owner, -stage.bytes)
            self._shares.add(stage.owner, -1)
            owned = self._by_address[stage.owner.address]
            del owned[stage.key]
            if not owned:
                del self._by_address[stage.owner.address]

    # After a start

    def found(self) -> Iterator[str]:
        """The stages' files in the folder, oldest first."""
        for name in sorted(os.listdir(self._folder)):
            if found := FILE.fullmatch(name):
                self._next = max(self._next, int(found[1], 16) + 1)
                yield os.path.join(self._folder, name)

    def open(self, file: str, now: float) -> "StageSurvey | None":
        """Begin to read a stage that another process has left; None if its first line is torn."""
        fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        try:
            line = os.pread(fd, HEAD_MAX, 0).partition(b"\n")[0]
        except OSError:
            os.close(fd)
            raise
        fields = unseal(line)
        if fields is None:
            os.close(fd)
            return None
        key = (fields["application"], fields["batch"], fields["stage"])
        # What an older broker wrote has neither: it was begun now, and by nobody.
        begun = now - max(time.time() - fields.get("begun", time.time() * 1000) / 1000, 0.0)
        owner = owner_at(fields.get("address", ""), 0)
        stage = Stage(key, file, len(line) + 1, self._parser(), now, begun, owner)
        return StageSurvey(self, self._staged, stage, fd)

    def adopt(self, stage: Stage) -> list[str]:
        """Take a stage that was read through. Of two of one name the newer: what is to go."""
        older = self._stages.get(stage.key)
        gone = self.drop([older] if older is not None else [])
        self._enter(stage)
        self.bytes += stage.bytes
        self._byte_shares.add(stage.owner, stage.bytes)
        return gone


class StageSurvey:
    """The reading of one file that was found: figures are computed, operations are checked."""

    def __init__(self, stages: Stages, staged: Staged, stage: Stage, fd: int) -> None:
        self.stage = stage
        self._stages = stages
        self._staged = staged
        self._fd = fd
        self._rest = b""

    def read(self) -> bytes:
        """The next bytes of it; in a thread. Raises `OSError`."""
        return os.pread(self._fd, SURVEY_BYTES, self.stage.head + self.stage.bytes)

    def count(self, data: bytes) -> None:
        """Take them unseen: a commit has promised to publish them, and has their checksum."""
        self.stage.bytes += len(data)
        self.stage.crc = crc32(data, self.stage.crc)

    def take(self, data: bytes) -> bool:
        """Check them; False where they are no operations that could be published."""
        stage, buffer = self.stage, bytearray(self._rest + data)
        rows = self._staged.check(stage.parser, buffer, 0, len(buffer))
        at = stage.parser.at
        self._rest = bytes(buffer[at:])
        stage.parser.begin(bytearray(), 0, 0)
        if rows < 0:
            return False
        stage.rows += rows
        stage.checked += at
        self.count(data)
        return True

    def close(self) -> None:
        os.close(self._fd)
