"""Stages: streams of operations in pieces; a stage is a file until it is committed or expires.

    <folder>/<id>.stage
        d2a1f0c4 {"application":"query-1","batch":7,"stage":"0-12",     its name, in one line;
                  "address":"10.0.0.7","begun":1769860800000}           its owner, and since when
        PUB orders 5                                                    then what was staged,
        hello                                                           byte for byte

A piece is checked when it arrives: a row that could not be published is refused while its sender
can still do something about it. Only counters are kept in memory. A row cut at the end of a piece
is read again with the next piece.

Files survive the broker. They are synced by the commit that takes them, not before, so a power cut
may damage one. The survey after a start drops a stage if its operations are damaged; the checksum
of the commit finds any other damage.
"""

# Theory of operation
#
# The bytes of a stage come in any pieces, and rows end anywhere. The file has all bytes; memory has
# counters and a parser, and no byte of any row:
#
#     file    | line 1 | row | row | row | row, begun |            bytes = head ... end of the file
#             ^        ^ head            ^ checked    ^ bytes
#                                        `-- rest ----'
#
#     a piece comes:       its bytes are written first, at the end of the file, then checked
#     rest is 0            the parser checks the piece where it lies
#     rest is not 0        rest and piece are read back from the file, joined, and checked; but only
#                          once the parser has as many bytes as it needs for the row (`need`).
#                          A row of 1 MB in pieces of 1 kB is so parsed twice, not 1000 times
#
# Writing comes before checking. If the disk is full, the file is cut back and the stage is as
# before; and the check can read rest and piece from the file in one go. A row that is refused drops
# the whole stage: its sender must begin again anyway.
#
# A sender that got no answer sends a piece again. `offset` says where a piece belongs: what is
# there already is skipped, and a piece beyond the end is refused, with the offset that is expected.
# The bytes are not compared; the commit gives a checksum of the whole stage, and refuses if it
# differs.
#
# Nothing is synced here. A stage promises nothing until its commit, which syncs the files before it
# records its intent. After a power cut, a file may therefore have any content. `read_through` reads
# each one like a new piece. The exception is a stage that a commit has promised to publish: it must
# not be dropped, so it is only counted, and the commit's checksum judges it.
#
# Room is shared by address. If there is none left, the address with the most gives some to an owner
# that would still have less (shares.py): its oldest stage goes.

import contextlib
import os
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from zlib import crc32

from broker.dataplane.guard import Guard
from broker.dataplane.staged_rows import Staged
from broker.settings.staging_settings import StagingSettings
from broker.staging.operations_asked import Key, Named, Refusal, StagedPiece
from broker.staging.shares import NOBODY, Owner, Shares, owner_at
from broker.storage.sealed_lines import seal, unseal
from parser.machine import Parser
from parser.table import START
from sequencer.journal.disk import FILE_MODE, pwrite_all, remove

FILE = re.compile(r"([0-9a-f]{16})\.stage")
ANY_SIZE = 999_999_999  # for rows that were judged before: other limits do not apply to them now
HEAD_MAX = 4096  # of the first line: an application's name, escaped, and more
UNWANTED, WANTED, PROMISED = range(3)  # a stage of an earlier process
SURVEY_BYTES = 1 << 20  # checked in one turn, which takes a millisecond


@dataclass(slots=True, eq=False)
class Stage:
    """One stage. `bytes` counts its operations, without the file's first line."""

    key: Key
    file: str
    head: int  # bytes of the first line
    parser: Parser
    touched: float  # when something was last added; seconds of the loop's clock
    begun: float  # when it was begun
    owner: Owner = NOBODY  # of the piece that began it
    bytes: int = 0
    rows: int = 0
    crc: int = 0
    checked: int = 0  # bytes that the parser has checked; an incomplete row begins there
    claimed: bool = False  # a commit is using it
    is_synced: bool = False
    is_syncing: bool = False
    # The rights by which its rows were judged, by user name; None if there were no users.
    judged: dict[str | None, Guard | None] = field(default_factory=dict)

    def grow(self, size: int, crc: int) -> None:
        """Count bytes that were added; `crc` is of all of them then."""
        self.bytes += size
        self.crc = crc

    def pass_rows(self, rows: int, size: int) -> None:
        """Count rows that the parser has checked, and their bytes; it lets go of the buffer."""
        self.rows += rows
        self.checked += size
        self.parser.attach(bytearray(), 0, 0)

    @property
    def is_whole(self) -> bool:
        """True if the stage ends at the end of a row."""
        return self.checked == self.bytes and self.parser.state == START


class Stages:
    """All stages of a broker, by name. Written by its one thread."""

    def __init__(
        self, folder: str, staged: Staged, limits: tuple[int, int], settings: StagingSettings
    ) -> None:
        self._folder = folder
        self._staged = staged
        self.limits = limits  # of a control line, and of a payload
        self._max_bytes = settings.max_bytes
        self.most = settings.max_stages
        self._byte_shares = Shares(self._max_bytes, settings)
        self._shares = Shares(self.most, settings)
        self._stages: dict[Key, Stage] = {}
        self._by_address: dict[str, dict[Key, Stage]] = {}  # oldest first
        self._next = 1
        self.bytes = 0
        self.expired = 0
        self.displaced = 0  # dropped to make room for others
        self.litter: list[str] = []  # files of these, to be deleted

    def __len__(self) -> int:
        return len(self._stages)

    def __iter__(self) -> Iterator[Stage]:
        return iter(self._stages.values())

    @property
    def is_crowded(self) -> bool:
        """True if one more stage may have to replace another."""
        return len(self) >= self.most or self.bytes > self._max_bytes >> 1

    def find(self, key: Key) -> Stage | None:
        return self._stages.get(key)

    def of(self, application: str, batch: int) -> list[Stage]:
        """Return the stages of one batch."""
        return [one for one in self if one.key[:2] == (application, batch)]

    def up_to(self, application: str, batch: int) -> list[Stage]:
        """Return the stages of a batch and of earlier ones."""
        return [one for one in self if one.key[0] == application and one.key[1] <= batch]

    def named(self, application: str, batch: int, wanted: Iterable[Named]) -> list[Stage]:
        """Return the stages that a commit names, if they are as it says. Raises `Refusal`."""
        found = []
        for one in wanted:
            stage = self.find((application, batch, one.name))
            if stage is None:
                raise Refusal(404, f"stage {one.name} is not here: it expired, or never was")
            if stage.bytes != one.bytes:
                raise Refusal(409, f"stage {one.name} has {stage.bytes} bytes, not {one.bytes}")
            if stage.crc != one.crc:
                raise Refusal(409, f"stage {one.name} has another checksum")
            if not stage.is_whole:
                raise Refusal(409, f"stage {one.name} ends in the middle of a row")
            found.append(stage)
        return found

    # Input

    def append(
        self,
        piece: StagedPiece,
        buffer: bytearray,
        at: int,
        stop: int,
        now: float,
        by: Owner = NOBODY,
        guard: Guard | None = None,
        trusts: bool = False,
    ) -> Stage:
        """Add `buffer[at:stop]` to a stage; create it if it is missing. Raises `Refusal`.

        `guard` says what the publisher of this piece may publish; None: everything. `trusts`:
        another member has judged the rows, and its limits count.

        Bytes that are already there are skipped, so a piece may be sent again. The stage belongs
        to its creator. If there is no room, an owner with little takes it from the address with the
        most; `litter` then contains files to delete, even if this raises.
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
        self._staged.trusts = trusts
        stage.parser.limit(*((ANY_SIZE, ANY_SIZE) if trusts else self.limits))
        try:
            self._add(stage, buffer, at, stop, guard)
        except OSError as error:
            if fresh:
                remove(stage.file)
            raise Refusal(
                507, f"the stage cannot be written to the disk: {error.strerror}"
            ) from error
        if at < stop:
            stage.touched = now
            stage.is_synced = False
        if fresh:
            self._enter(stage)
        return stage

    def _make_room(self, stage: Stage | None, owner: Owner, size: int) -> None:
        """Make room for more bytes of a stage, or for a new one. Raises `Refusal`."""
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
        """Drop the oldest stage of the address with the most, if the owner has less.

        True: it did. A stage in a commit stays, and so does `stage`, which is to grow.
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
        return Stage(key, file, 0, Parser(ANY_SIZE, ANY_SIZE), now, now, owner)

    def _add(
        self, stage: Stage, buffer: bytearray, at: int, stop: int, guard: Guard | None
    ) -> None:
        """Write, then check. On `OSError` the stage is as before; on `Refusal` it is dropped."""
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
            # A row that is far from complete is not parsed again with every piece.
            if rest == 0 or stage.parser.need <= rest + stop - at:
                self._check(stage, fd, buffer, at, stop, guard)
        finally:
            os.close(fd)
        stage.grow(stop - at, crc)
        self.bytes += stop - at
        self._byte_shares.add(stage.owner, stop - at)

    def _write(self, fd: int, view: memoryview, end: int) -> None:
        """Write at `end`; if that fails, free the room, because the journal needs it."""
        try:
            pwrite_all(fd, view, end)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(fd, end)
            raise

    def _check(
        self, stage: Stage, fd: int, buffer: bytearray, at: int, stop: int, guard: Guard | None
    ) -> None:
        """Check the new bytes, together with the row that the last piece has cut."""
        rest = stage.bytes - stage.checked
        if rest:
            joined = bytearray(rest + stop - at)
            with memoryview(joined) as view:
                got = os.preadv(fd, [view], stage.head + stage.checked)
            if got != len(joined):
                raise OSError(5, f"the file has {got} bytes where {len(joined)} were written")
            buffer, at, stop = joined, 0, len(joined)
        rows = self._staged.check(stage.parser, buffer, at, stop, guard)
        stage.pass_rows(max(rows, 0), stage.parser.at - at)
        if rows < 0:
            row = stage.rows + self._staged.row
            self._forget(stage)
            remove(stage.file)
            status = 403 if self._staged.forbidden else 400
            raise Refusal(status, f"row {row} of stage {stage.key[2]}: {self._staged.problem}")

    # Removal

    def drop(self, stages: Iterable[Stage]) -> list[str]:
        """Forget stages; return their files, to be deleted."""
        gone = list(stages)
        for stage in gone:
            self._forget(stage)
        return [stage.file for stage in gone]

    def expire(self, before: float, begun: float) -> list[str]:
        """Forget stages that got nothing since `before`, or were begun before `begun`.

        Those in a commit stay. Returns the files, to be deleted.
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
        """Yield the files of stages in the folder, oldest first."""
        for name in sorted(os.listdir(self._folder)):
            if found := FILE.fullmatch(name):
                self._next = max(self._next, int(found[1], 16) + 1)
                yield os.path.join(self._folder, name)

    def open(self, file: str, now: float) -> "StageSurvey | None":
        """Begin to read a stage of an earlier process; None if its first line is torn."""
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
        # An older broker wrote neither: the stage begins now, and has no owner.
        begun = now - max(time.time() - fields.get("begun", time.time() * 1000) / 1000, 0.0)
        owner = owner_at(fields.get("address", ""), 0)
        stage = Stage(key, file, len(line) + 1, Parser(ANY_SIZE, ANY_SIZE), now, begun, owner)
        return StageSurvey(self._staged, stage, fd)

    def adopt(self, stage: Stage) -> list[str]:
        """Take over a stage that was read. Of two with one name, the newer wins.

        Returns the files to delete.
        """
        older = self._stages.get(stage.key)
        gone = self.drop([older] if older is not None else [])
        self._enter(stage)
        self.bytes += stage.bytes
        self._byte_shares.add(stage.owner, stage.bytes)
        return gone


async def read_through(
    stages: Stages,
    file: str,
    now: float,
    kind: Callable[[Key], int],
    run: Callable[[Callable[[], bytes]], Awaitable[bytes]],
) -> list[str]:
    """Read a file that an earlier process left, and take it over if it is good.

    `kind` classifies a stage as `UNWANTED`, `WANTED` or `PROMISED`; a promised one is not checked.
    `run` reads in a thread. Returns the files to delete. Raises `OSError`.
    """
    survey = stages.open(file, now)
    if survey is None:
        return [file]
    try:
        found = kind(survey.stage.key)
        is_good = found != UNWANTED
        while is_good and (data := await run(survey.read)):
            if found == PROMISED:
                survey.count(data)
            else:
                is_good = survey.check(data)
    finally:
        survey.close()
    return stages.adopt(survey.stage) if is_good else [file]


class StageSurvey:
    """Reads one file that was found: computes its counters, and checks its operations."""

    def __init__(self, staged: Staged, stage: Stage, fd: int) -> None:
        self.stage = stage
        self._staged = staged
        self._fd = fd
        self._rest = b""

    def read(self) -> bytes:
        """Read the next bytes; in a thread. Raises `OSError`."""
        return os.pread(self._fd, SURVEY_BYTES, self.stage.head + self.stage.bytes)

    def count(self, data: bytes) -> None:
        """Count bytes without a check: a commit has promised to publish them, with a checksum."""
        self.stage.grow(len(data), crc32(data, self.stage.crc))

    def check(self, data: bytes) -> bool:
        """Check bytes; False if they are not operations that could be published."""
        stage, buffer = self.stage, bytearray(self._rest + data)
        self._staged.trusts = True  # they were judged when they came
        rows = self._staged.check(stage.parser, buffer, 0, len(buffer))
        at = stage.parser.at
        self._rest = bytes(buffer[at:])
        stage.pass_rows(max(rows, 0), at)
        if rows < 0:
            return False
        self.count(data)
        return True

    def close(self) -> None:
        os.close(self._fd)
