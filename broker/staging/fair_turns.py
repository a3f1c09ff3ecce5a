"""Commits that wait for their turn: addresses take turns, so none waits for all of another's.

At most `most` commits wait. When that many do, a commit of an address with fewer replaces the
newest one of the address with the most.
"""

from collections import deque

from broker.settings.staging_settings import StagingSettings
from broker.staging.commit_publishing import Commit
from broker.staging.operations_asked import Refusal
from broker.staging.shares import Owner, Shares


class FairTurns:
    """The waiting commits of a broker, for its one thread."""

    def __init__(self, most: int, settings: StagingSettings) -> None:
        self._most = most
        self._shares = Shares(most, settings)
        self._lines: dict[str, deque[Commit]] = {}  # by address; the first is next
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def may_wait(self, owner: Owner) -> Commit | None:
        """Raise `Refusal` if one more commit of that owner may not wait.

        If a commit is returned, the caller must refuse it: nothing was promised for it, and it has
        been removed.
        """
        if why := self._shares.over(owner, 1):
            raise Refusal(429, f"too many commits wait: {why}")
        if self._count < self._most:
            return None
        address = self._shares.greediest(owner, 1)
        if address is None or self._lines[address][-1].promised:
            raise Refusal(429, f"{self._most} commits wait for their turn already")
        commit = self._lines[address].pop()
        if not self._lines[address]:
            del self._lines[address]
        self._gone(commit)
        return commit

    def put(self, commit: Commit) -> None:
        """Let a commit wait for its turn."""
        self._lines.setdefault(commit.owner.address, deque()).append(commit)
        self._shares.add(commit.owner, 1)
        self._count += 1

    def take(self) -> Commit:
        """Take the next commit; another address's comes after it, if one waits."""
        address = next(iter(self._lines))
        line = self._lines.pop(address)
        commit = line.popleft()
        if line:
            self._lines[address] = line
        self._gone(commit)
        return commit

    def _gone(self, commit: Commit) -> None:
        self._shares.add(commit.owner, -1)
        self._count -= 1
