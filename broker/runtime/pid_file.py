"""The file with the broker's process id, for `--signal` and for log rotation."""

import os
from contextlib import suppress
from typing import Final

PID_BYTES_MAX: Final = 32


class PidFile:
    """The pid file of a broker. With an empty path, there is none.

    A broker that cannot start, because another one has its store or its port, leaves the other
    one's file as it was.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._own = f"{os.getpid()}\n"
        self._before = ""  # the id of another broker, which still runs

    def write(self) -> None:
        """Write our process id. Raises `OSError`."""
        if not self._path:
            return
        found = self._read()
        if found != self._own and _is_running(found):
            self._before = found
        with open(self._path, "w") as file:
            file.write(self._own)

    def remove(self, *, failed: bool = False) -> None:
        """Remove the file, unless it is another broker's by now.

        `failed`: we could not start, or ended badly; then the earlier content is put back.
        """
        if not self._path or self._read() != self._own:
            return
        with suppress(OSError):
            if failed and _is_running(self._before):
                with open(self._path, "w") as file:
                    file.write(self._before)
            else:
                os.unlink(self._path)

    def _read(self) -> str:
        try:
            with open(self._path) as file:
                return file.read(PID_BYTES_MAX)
        except (OSError, ValueError):
            return ""


def _is_running(text: str) -> bool:
    """True if there is a process with this id."""
    pid = text.strip()
    return pid.isascii() and pid.isdecimal() and os.path.exists(f"/proc/{int(pid)}")
