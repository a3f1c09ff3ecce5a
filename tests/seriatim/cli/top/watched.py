"""`seriatim top` in a pseudo-terminal, which a person at it would see: keys in, a screen out."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

import pyte

from tests.seriatim.cli.command import COMMAND, environment
from tests.seriatim.cli.user.test_new_password import ON_A_TERMINAL
from tests.support.commands import COMMAND_S
from tests.support.etcd_server import kept_port
from tests.support.processes import SeriatimServer
from tests.support.raw import RawClient

SEEN_S = 30.0
KEYS = {
    **{"up": "\x1b[A", "down": "\x1b[B", "right": "\x1b[C", "left": "\x1b[D", "esc": "\x1b"},
    **{"enter": "\r", "pgdn": "\x1b[6~", "home": "\x1b[H", "end": "\x1bOF", "ctrl-c": "\x03"},
    **{"ctrl-z": "\x1a", "redraw": "\x0c"},
}
COLOUR = re.compile(rb"\x1b\[(?:[0-9]+;)*[34][0-7]m")
RESTORED = b"\x1b[?25h"


class Watched:
    """A command on a terminal of its own. `seen` are all bytes that it has written."""

    def __init__(
        self,
        *arguments: str,
        command: tuple[str, ...] = (COMMAND, "top"),
        size: tuple[int, int] = (80, 24),
        env: Mapping[str, str] | None = None,
    ) -> None:
        terminal = {"TERM": "xterm-256color", "PS1": "$ ", **(env or {})}
        full = environment(terminal)
        if "NO_COLOR" not in terminal:
            del full["NO_COLOR"]
        self.seen = b""
        self._changed = threading.Condition()
        self._screen = pyte.Screen(*size)
        self._stream = pyte.ByteStream(self._screen)
        self.master, follower = pty.openpty()
        self._set_size(size)
        self.modes = termios.tcgetattr(self.master)
        self.process = subprocess.Popen(
            [sys.executable, "-c", ON_A_TERMINAL, *command, *arguments],
            stdin=follower,
            stdout=follower,
            stderr=follower,
            env=full,
            start_new_session=True,
        )
        os.close(follower)
        self._leave, self._left = os.pipe()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        waiting = select.poll()  # `select` fails above 1023
        waiting.register(self.master, select.POLLIN)
        waiting.register(self._leave, select.POLLIN)
        while self._leave not in dict(waiting.poll()):
            try:
                data = os.read(self.master, 1 << 16)
            except OSError:  # nobody has the terminal any more
                data = b""
            with self._changed:
                self.seen += data
                self._stream.feed(data)
                self._changed.notify_all()
            if not data:
                return

    @property
    def rows(self) -> list[str]:
        """What stands on the screen."""
        with self._changed:
            return [row.rstrip() for row in self._screen.display]

    def await_screen(self, is_there: Callable[[list[str]], object]) -> list[str]:
        """Wait until the screen is so; return its lines."""
        until = time.monotonic() + SEEN_S
        with self._changed:
            while not is_there(rows := [row.rstrip() for row in self._screen.display]):
                left = until - time.monotonic()
                assert left > 0, "\n".join(rows)
                self._changed.wait(left)
            return rows

    def await_text(self, text: str) -> list[str]:
        return self.await_screen(lambda rows: any(text in row for row in rows))

    def await_bytes(self, data: bytes, since: int = 0) -> None:
        """Wait until it has written this."""
        with self._changed:
            found = self._changed.wait_for(lambda: data in self.seen[since:], SEEN_S)
        assert found, self.seen[since:]

    def press(self, *keys: str) -> None:
        """Type keys, or texts."""
        for key in keys:
            os.write(self.master, KEYS.get(key, key).encode())

    def resize(self, width: int, height: int) -> None:
        with self._changed:
            self._screen.resize(height, width)
        self._set_size((width, height))

    def _set_size(self, size: tuple[int, int]) -> None:
        width, height = size
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def modes_now(self) -> list[Any]:
        return termios.tcgetattr(self.master)

    def freeze(self) -> None:
        """Take no more of what it writes, as a connection that hangs."""
        os.write(self._left, b".")
        self._reader.join(COMMAND_S)

    def hang_up(self) -> None:
        """Close the terminal, as its window does."""
        self.freeze()
        os.close(self.master)
        self.master = -1

    def end(self) -> int:
        """Wait for its end; its status, negative for a signal."""
        status = self.process.wait(COMMAND_S)
        self._reader.join(COMMAND_S)
        return status

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self._reader.join(COMMAND_S)
        for end in (self.master, self._leave, self._left):
            if end >= 0:
                os.close(end)


@contextmanager
def broker_with_pages(*arguments: str) -> Iterator[tuple[SeriatimServer, str]]:
    """A broker whose pages stay on one port over a restart; and their address."""
    with kept_port() as keeper:
        port = keeper.getsockname()[1]
        given = ["-m", str(port), "--http_host", "127.0.0.1", "--name", "orders-1", *arguments]
        with SeriatimServer("none", arguments=given) as broker:
            yield broker, f"127.0.0.1:{port}"


def named(broker: Any, name: str, then: bytes = b"") -> RawClient:
    """A client with this name, as JSON has it, that has done something."""
    client = RawClient(broker.port, b'CONNECT {"verbose":false,"name":"%b"}\r\n' % name.encode())
    client.ask(then)
    return client


def publish(client: RawClient, count: int, subject: str = "orders.eu") -> None:
    client.ask(b"PUB %b 5\r\nhello\r\n" % subject.encode() * count)


def place(rows: list[str], text: str) -> int:
    """The first line that has the text; -1: none."""
    return next((at for at, row in enumerate(rows) if text in row), -1)
