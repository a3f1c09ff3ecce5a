"""A broker whose file of settings is changed while it runs, and systemd's end of its socket.

What the broker tells systemd is the event to wait for: a reload is done when it is READY again.
"""

import signal
import socket
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.processes import SAID_S, SeriatimServer

ENDS = ("Reloaded server configuration", "Nothing is reloaded")


class Notified:
    """The socket that systemd would have."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.settimeout(SAID_S)
        self.socket.bind(address)

    def next(self) -> dict[str, str]:
        """What the next datagram says."""
        lines = self.socket.recv(4096).decode().split("\n")
        return dict(line.split("=", 1) for line in lines)

    def until(self, name: str) -> list[dict[str, str]]:
        """All datagrams up to the first one with this name."""
        found = [self.next()]
        while name not in found[-1]:
            found.append(self.next())
        return found


class Reloaded:
    """A context: the broker runs in it."""

    def __init__(self, folder: Path, text: str = "", arguments: tuple[str, ...] = ()) -> None:
        self.file = folder / "broker.toml"
        self.file.write_text(text)
        self.broker = SeriatimServer("none", arguments=["-c", str(self.file), *arguments])
        self.notified = Notified(str(folder / "notify"))
        self.broker.env["NOTIFY_SOCKET"] = str(folder / "notify")

    def __enter__(self) -> Self:
        self.broker.start()
        self.notified.until("READY")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.notified.socket.close()
        self.broker.__exit__(kind, error, trace)

    def write(self, text: str) -> None:
        self.file.write_text(text)

    def hang_up(self) -> None:
        """Send SIGHUP, and return when the broker has done what it can."""
        self.broker.signal(signal.SIGHUP)
        self.notified.until("READY")

    def reload(self, text: str) -> list[str]:
        """Write the file, reload; what the log on standard error says of it, without times."""
        self.write(text)
        before = len(self.broker.log)
        self.hang_up()
        assert self.broker.await_lines(before, ENDS), self.broker.log[before:]
        return [line.partition(" [")[2].replace("]", ":", 1) for line in self.broker.log[before:]]
