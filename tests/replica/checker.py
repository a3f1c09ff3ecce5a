"""What must hold, whatever happens. A breach is raised where it is seen."""

from typing import Any

from tests.replica.messages_made import Published, published_in

ROW = "row"


class Breach(AssertionError):
    """A promise that was not kept; its first word says which."""


class Checker:
    def __init__(self, min_in_sync: int) -> None:
        self.min_in_sync = min_in_sync
        self.written: dict[tuple[int, int], bytes] = {}  # (epoch, number) -> the record
        self.notes: dict[tuple[int, int], Any] = {}
        self.prepared: set[tuple[str, int]] = set()  # batches that somebody has promised
        self.order: dict[int, bytes] = {}  # number -> record, when the first one has shown it
        self.takers: dict[int, str] = {}
        self.what: dict[int, Published] = {}  # number -> what it says
        self.payloads: dict[tuple[int, int], str] = {}  # (origin, nth) -> what was published
        self.committed: dict[tuple[str, int], tuple[list[str], Any]] = {}  # batches answered

    def delivered(self, number: int, record: bytes, disks: list[Any], lost: int) -> None:
        """Somebody's subscribers see this one.

        `lost`: how many members may have lost what they had acknowledged, by a power cut.
        """
        known = self.order.get(number)
        if known is None:
            have = 0
            for disk in disks:
                have += _has(disk.log, number, record)
            if have < max(self.min_in_sync - lost, 1):
                raise Breach(f"durable: {number} shown, and {have} members have it")
            self.order[number] = record
            self.what[number] = published_in(record)
        elif known != record:
            raise Breach(f"order: {number} is {self.what[number]} and {published_in(record)}")

    def taken(self, number: int, member: str) -> None:
        """A member chooses whose subscribers get this number: all choose the same one."""
        known = self.takers.setdefault(number, member)
        if known != member:
            raise Breach(f"group: {number} is for {known or 'nobody'} and {member or 'nobody'}")

    def answered(self, origin: int, nth: int, number: int) -> None:
        """A publisher is told its number."""
        if number not in self.order:
            raise Breach(f"uniform: {number} answered and not committed")
        if self.what[number].payload != self.payloads[origin, nth]:
            raise Breach(
                f"answer: {self.payloads[origin, nth]} is told {number}, {self.what[number]}"
            )

    def final(self, members: list[Any], pending: int, unfinished: list[Any]) -> None:
        """All is well again, and has been for long enough."""
        if None in members:
            raise Breach("progress: a process is missing")
        marks = [(one.watermark, one.log.last) for one in members]
        if len({mark for pair in marks for mark in pair}) != 1:
            raise Breach(f"progress: members stand at {marks}")
        if pending:
            raise Breach(f"progress: {pending} publishes still wait")
        if unfinished:
            raise Breach(f"progress: batches {unfinished} are not done")
        last = marks[0][0]
        if last < max(self.order, default=0):
            raise Breach(f"lost: the log ends at {last}, {max(self.order)} was shown")
        for one in members:
            log = one.log
            for number in range(log.first, log.last + 1):
                if number not in self.order:
                    raise Breach(f"gap: {number} is committed, and nobody saw it")
                if self.order[number] != log.at(number):
                    raise Breach(f"lost: {number} is another one than was shown")
        self._once()
        self._batches()

    def _once(self) -> None:
        """Nothing twice, and of each publisher a beginning without holes, in its order."""
        ids: set[str] = set()
        nths: dict[int, int] = {}
        for number in sorted(self.order):
            one = self.what[number]
            if one.id:
                if one.id in ids:
                    raise Breach(f"twice: id {one.id}")
                ids.add(one.id)
            before = nths.get(one.origin, 0)
            if one.nth <= before:
                raise Breach(f"twice: {one.origin} {one.nth} after {before}")
            for nth in range(before + 1, one.nth):
                if self._id_of(one.origin, nth) not in ids:
                    raise Breach(f"fifo: {one.origin} {nth} is missing before {one.nth}")
            nths[one.origin] = one.nth

    def _id_of(self, origin: int, nth: int) -> str:
        """One that has an id may have been published from elsewhere."""
        payload = self.payloads.get((origin, nth), "")
        return payload if payload.startswith("id") else "no id"

    def _batches(self) -> None:
        seen: dict[str, list[tuple[int, int]]] = {}
        for number in sorted(self.order):
            payload = self.what[number].payload
            if payload.startswith(ROW):
                name, row = payload.rsplit("/", 1)
                seen.setdefault(name, []).append((int(row), number))
        for (application, batch), (rows, result) in self.committed.items():
            name = rows[0].rsplit("/", 1)[0]
            found = seen.pop(name, [])
            if [row for row, _ in found] != list(range(len(rows))):
                raise Breach(f"batch: {application} {batch} has rows {[r for r, _ in found]}")
            if (found[0][1], found[-1][1]) != result:
                raise Breach(f"batch: {application} {batch} answered {result}, is {found}")
        if seen:
            raise Breach(f"batch: rows of {sorted(seen)}, which nobody committed")


def _has(log: Any, number: int, record: bytes) -> bool:
    if number <= log.base:
        return True
    return bool(number <= log.last and log.at(number) == record)
