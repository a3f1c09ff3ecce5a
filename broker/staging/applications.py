"""The last batch of every application: with it, a repeated commit publishes nothing.

They are in memory. On the disk they are the DONE notes of the second log
(sequencer/replica/batches). When the maximum number of applications is reached, a new name replaces
an old one: its note says which, `"instead":"query-0"`.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any, Self

from broker.settings.staging_settings import StagingSettings
from broker.staging.operations_asked import Refusal
from broker.staging.shares import Owner, Shares, owner_at

# Percentage of the remembered names that an address keeps in any case until they expire. The batch
# of a publisher that is forgotten early could be published twice. With 1 %, only a hundred
# addresses can leave no room for others.
ADDRESS_KEPT = 1


@dataclass(frozen=True, slots=True)
class CommittedBatch:
    """A committed batch: its first and last number (0 if it had no rows), and its time (ms).

    `address` is that of the application's owner; "" if it is not known.
    """

    application: str
    batch: int
    first: int
    last: int
    rows: int
    time: int
    remember: bool
    address: str = ""

    @classmethod
    def of(cls, fields: dict[str, Any]) -> Self:
        """Make a batch from its fields; other fields are ignored."""
        names = (field.name for field in dataclasses.fields(cls))
        return cls(**{name: fields[name] for name in names if name in fields})


def commit_answer(done: CommittedBatch, repeated: bool) -> dict[str, Any]:
    """Return the answer to `$SEQ.COMMIT`."""
    return {
        "application": done.application,
        "batch": done.batch,
        "first": done.first,
        "last": done.last,
        "rows": done.rows,
        "repeated": repeated,
    }


def batch_answer(name: str, done: CommittedBatch | None, committing: int | None) -> dict[str, Any]:
    """Return the answer to `$SEQ.BATCH`."""
    facts: dict[str, Any] = {"application": name, "batch": None}
    facts |= dict.fromkeys(("first", "last", "rows", "time"), 0)
    if done is not None:
        facts |= {"batch": done.batch, "first": done.first, "last": done.last}
        facts |= {"rows": done.rows, "time": done.time}
    return facts | {"committing": committing}


class Applications:
    """All known applications, for the broker's one thread."""

    def __init__(self, settings: StagingSettings) -> None:
        self.done: dict[str, CommittedBatch] = {}
        self._most = settings.max_applications
        self._shares = Shares(self._most, settings)
        self._owners: dict[str, Owner] = {}  # of applications that are known, or about to be
        self._by_address: dict[str, dict[str, None]] = {}  # the known applications, oldest first
        self._kept = self._most * ADDRESS_KEPT // 100
        # The last batches of replaced applications, by the new name that replaced them.
        self._instead: dict[str, CommittedBatch] = {}
        self.displaced = 0

    def last(self, application: str) -> CommittedBatch | None:
        """Return the last batch of an application, if it is known."""
        return self.done.get(application)

    def drop_older(self, before_ms: int, unremembered_ms: int) -> None:
        """Forget applications without a recent commit; sooner if their `remember` is false."""
        for name in [
            one.application
            for one in self.done.values()
            if one.time < (before_ms if one.remember else unremembered_ms)
        ]:
            self._drop(name)

    def claim(self, name: str, owner: Owner) -> None:
        """Reserve a place for an application that commits its first batch. Raises `Refusal`."""
        if why := self._shares.over(owner, 1):
            raise Refusal(429, f"too many applications are known: {why}")
        if len(self._owners) >= self._most and not self._displace(name, owner):
            raise Refusal(
                429,
                f"{self._most} applications are known, the maximum (staging.max_applications)",
            )
        self._own(name, owner)

    def _displace(self, name: str, owner: Owner) -> bool:
        """Forget the oldest name of the address with the most, if the owner has fewer.

        True: it did. An address with few names keeps them: publishing one of its batches twice
        would be worse than refusing.
        """
        spared: set[str] = set()
        while (address := self._shares.greediest(owner, 1, spared)) is not None:
            if self._shares.has(address) <= self._kept:
                return False
            if known := self._by_address.get(address):
                oldest = next(iter(known))
                self._instead[name] = self.done[oldest]
                self._drop(oldest)
                self.displaced += 1
                return True
            spared.add(address)
        return False

    def disown(self, name: str) -> None:
        """Release the place of an application that has committed nothing."""
        if name in self.done:
            return
        self._release(name)
        old = self._instead.pop(name, None)
        if old is not None and old.application not in self._owners:
            self._own(old.application, owner_at(old.address, 0))
            self.done[old.application] = old
            self._enter(old.application)
            self.displaced -= 1

    def replace(self, name: str) -> None:
        """Forget an application, if it is known: another one takes its place."""
        if name in self.done:
            self._drop(name)

    def _drop(self, name: str) -> None:
        """Forget a known application."""
        del self.done[name]
        self._leave(name)
        self._release(name)

    def _release(self, name: str) -> None:
        if (owner := self._owners.pop(name, None)) is not None:
            self._shares.add(owner, -1)

    def _enter(self, name: str) -> None:
        """Record this application as the latest of its address to commit."""
        self._by_address.setdefault(self._owners[name].address, {})[name] = None

    def _leave(self, name: str) -> None:
        address = self._owners[name].address
        known = self._by_address[address]
        del known[name]
        if not known:
            del self._by_address[address]

    def address_of(self, name: str, owner: Owner) -> str:
        """Return the address of an application's owner; without one, `owner` becomes its owner."""
        if name not in self._owners or (owner.address and not self._owners[name].address):
            if name in self.done:
                self._leave(name)
            self._own(name, owner)
            if name in self.done:
                self._enter(name)
        return self._owners[name].address

    def _own(self, name: str, owner: Owner) -> None:
        if (before := self._owners.get(name)) is not None:
            self._shares.add(before, -1)
        self._owners[name] = owner
        self._shares.add(owner, 1)

    def displaced_by(self, name: str) -> str:
        """Return the application that this one replaces; "" if none, or if it has come back."""
        old = self._instead.get(name)
        return "" if old is None or old.application in self._owners else old.application

    def add_committed(self, done: CommittedBatch) -> None:
        """Make a batch known that is committed."""
        name = done.application
        self._instead.pop(name, None)
        if name in self.done:
            self._leave(name)
        self.done[name] = done
        self._enter(name)
