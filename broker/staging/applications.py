"""The last batch of every application: what makes a second commit of it publish nothing.

One sealed line for each commit (broker/staging/lines.py), appended and synced before the commit
is answered; the last line of an application counts:

    5f0c22d9 {"application":"query-1","batch":7,"first":101,"last":120,"rows":20,"time":17...,
              "remember":true,"address":"10.0.0.7"}

Lines that a later one has made meaningless go when the file has become twice as long as it
needs to be: then it is written anew beside, and renamed. A torn line at the end is of a commit
that was not answered, and does not count.
"""

import os
from dataclasses import asdict, dataclass

from broker.settings_staging import StagingSettings
from broker.staging.lines import seal, unseal
from broker.staging.requests import Refusal
from broker.staging.shares import Owner, Shares
from sequencer.journal.disk import FILE_MODE, pwrite_all, replace, sync_file, sync_folder

SPARE_LINES = 1024  # that may be meaningless before the file is written anew


@dataclass(frozen=True, slots=True)
class Done:
    """A batch that was committed: its first and last number (0 without a row), and when (ms).

    `address` is whose the application is: "" where that is not known.
    """

    application: str
    batch: int
    first: int
    last: int
    rows: int
    time: int
    remember: bool
    address: str = ""


class Applications:
    """All applications that are known. `done` is written by the broker's thread alone.

    `write` runs in another one, one at a time; `take` is called when it has returned.
    """

    def __init__(self, file: str, durable: bool, settings: StagingSettings) -> None:
        self.file = file
        self.damaged = 0  # lines that could not be read, but for a torn one at the end
        self._durable = durable
        self.done: dict[str, Done] = {}
        self._most = settings.max_applications
        self._shares = Shares(self._most, settings)
        self._owners: dict[str, Owner] = {}  # of those that are known, or about to be
        self._lines = 0
        self._end = 0
        self._anew = True  # the file is to be written anew, for it misses or cannot be trusted

    def load(self) -> None:
        """Read the file, if there is one. Raises `OSError`.

        A broker that was killed may not have synced it; what is believed now, promises are deleted
        for, and must outlast a power cut.
        """
        try:
            with open(self.file, "rb") as file:
                data = file.read()
        except FileNotFoundError:
            return
        if self._durable:
            sync_file(self.file)
            sync_folder(os.path.dirname(self.file))
        lines = data.split(b"\n")
        for at, line in enumerate(lines[:-1]):
            fields = unseal(line)
            if fields is None:
                self.damaged += at < len(lines) - 2
                continue
            # The later one, be its batch a lower one: then the one before was forgotten meanwhile.
            done = Done(**fields)
            self.done[done.application] = done
        for done in self.done.values():
            self._own(done.application, Owner(done.address, 0))

    def last(self, application: str) -> Done | None:
        """What is known of an application."""
        return self.done.get(application)

    def forget(self, before_ms: int) -> None:
        """Forget who need not be remembered, and has committed nothing since."""
        for name in [
            one.application
            for one in self.done.values()
            if not one.remember and one.time < before_ms
        ]:
            del self.done[name]
            self.disown(name)

    def claim(self, name: str, owner: Owner) -> None:
        """Have a place for an application that commits its first batch. Raises `Refusal`."""
        if len(self._owners) >= self._most:
            raise Refusal(
                429,
                f"{self._most} applications are known, which is the most"
                " (staging.max_applications)",
            )
        if why := self._shares.over(owner, 1):
            raise Refusal(429, f"of the applications that are known {why}")
        self._own(name, owner)

    def disown(self, name: str) -> None:
        """Give the place of an application back, for it has committed nothing."""
        if name not in self.done and (owner := self._owners.pop(name, None)) is not None:
            self._shares.add(owner, -1)

    def address_of(self, name: str, owner: Owner) -> str:
        """Whose an application is; one that belongs to nobody is the owner's from now on."""
        if name not in self._owners or (owner.address and not self._owners[name].address):
            self._own(name, owner)
        return self._owners[name].address

    def _own(self, name: str, owner: Owner) -> None:
        if (before := self._owners.get(name)) is not None:
            self._shares.add(before, -1)
        self._owners[name] = owner
        self._shares.add(owner, 1)

    def plan(self, done: Done) -> list[Done] | None:
        """Which lines to write anew with this one; None where it is enough to append it."""
        if not self._anew and self._lines <= 2 * len(self.done) + SPARE_LINES:
            return None
        return [*(one for one in self.done.values() if one.application != done.application), done]

    def write(self, done: Done, anew: list[Done] | None) -> None:
        """Bring one more to the disk; `anew` is what `plan` has said. In a thread.

        Raises `OSError`; nothing is known then of what the file holds, and the next call writes
        all of it anew.
        """
        self._anew = True
        if anew is None:
            line = seal(asdict(done))
            fd = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
            try:
                pwrite_all(fd, line, self._end)
                if self._durable:
                    os.fdatasync(fd)
            finally:
                os.close(fd)
            self._end += len(line)
            self._lines += 1
        else:
            data = b"".join(seal(asdict(one)) for one in anew)
            replace(self.file, data, durable=self._durable)
            self._end, self._lines = len(data), len(anew)
        self._anew = False

    def take(self, done: Done) -> None:
        """It is on the disk: from now on it is known."""
        self.done[done.application] = done
