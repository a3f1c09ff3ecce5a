"""What a broker's process holds, to the object: the figures do not depend on an allocator.

    counts = Counts(tmp_path)
    with SeriatimServer(...) as process:        process.env |= counts.env, before it starts
        counts.take(process.pid)["blocks"]

`blocks` are Python's small ones, also of compiled classes; `malloc` is what is in use of the C
library's, in bytes; `types` counts the objects that the garbage collector tracks.
"""

import json
import os
import signal
from pathlib import Path
from typing import Any

from tests.support.readable import is_readable

SITE = Path(__file__).parent / "counting"
SAID_S = 60.0


class Counts:
    """Asks one broker."""

    def __init__(self, folder: Path) -> None:
        self._fifo = folder / "counts"
        os.mkfifo(self._fifo)
        places = [str(SITE), os.environ.get("PYTHONPATH", "")]
        self.env = {
            "COUNTED_FIFO": str(self._fifo),
            "PYTHONPATH": os.pathsep.join(place for place in places if place),
        }

    def take(self, pid: int) -> dict[str, Any]:
        """What it holds now."""
        fd = os.open(self._fifo, os.O_RDONLY | os.O_NONBLOCK)  # first: or the broker would wait
        try:
            os.kill(pid, signal.SIGRTMIN + 3)
            said = b""
            while True:
                if not is_readable(fd, SAID_S):
                    raise AssertionError(f"the broker has not said what it holds, but {said!r}")
                data = os.read(fd, 1 << 16)
                if not data:
                    break
                said += data
        finally:
            os.close(fd)
        found: dict[str, Any] = json.loads(said)
        return found


def grown(before: dict[str, Any], after: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """The types that have more objects than before: ten of those that grew the most."""
    then, now = before["types"], after["types"]
    most = sorted(now, key=lambda name: then.get(name, 0) - now[name])[:10]
    return {name: (then.get(name, 0), now[name]) for name in most if now[name] > then.get(name, 0)}
