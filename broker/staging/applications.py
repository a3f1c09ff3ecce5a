"""The last batch of every application: what makes a second commit of it publish nothing.

One sealed line for each commit (broker/staging/lines.py), appended and synced before the commit
is answered; the last line of an application counts:

    5f0c22d9 {"application":"query-1","batch":7,"first":101,"last":120,"rows":20,"time":17...,
              "remember":true}

Lines that a later one has made meaningless go when the file has become twice as long as it
needs to be: then it is written anew beside, and renamed. A torn line at the end is of a commit
that was not answered, and does not count.
"""

import os
from dataclasses import asdict, dataclass

from broker.staging.lines import seal, unseal
from sequencer.journal.disk import FILE_MODE, pwrite_all, replace, sync_file, sync_folder

SPARE_LINES = 1024  # that may be meaningless before the file is written anew


@dataclass(frozen=True, slots=True)
class Done:
    """A batch that was committed: its first and last number (0 without a row), and when (ms)."""

    application: str
    batch: int
    first: int
    last: int
    rows: int
    time: int
    remember: bool


class Applications:
    """All applications that are known. `done` is written by the broker's thread alone.

    `write` runs in another one, one at a time; `take` is called when it has returned.
    """

    def __init__(self, file: str, durable: bool) -> None:
        self.file = file
        self.damaged = 0  # lines that could not be read, but for a torn one at the end
        self._durable = durable
        self.done: dict[str, Done] = {}
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
