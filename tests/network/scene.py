"""A scene: a broker, publishers and receivers, each on a host of its own, with lossy wires.

    with Scene(tmp_path, "239.77.0.1:5000,codec=moldudp64,interface=eth0") as scene:
        far = scene.host("far", "both udp loss 0.05")
        listener = scene.listen(far, "--until", "100000", ...)
        scene.publisher().publish(100_000, rate=50_000)
        listener.report()

All of them are processes; a test waits for what they print.
"""

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from tests.network.hosts import Host, Network
from tests.support.places import ROOT
from tests.support.processes import SeriatimServer
from tests.support.readable import is_readable

PATIENCE_S = 60.0 + float(os.environ.get("NETWORK_SECONDS", "1"))  # then a program is stuck


class Program:
    """A module of ours that runs on a host, is told lines, and says lines."""

    def __init__(self, host: Host, module: str, *arguments: str) -> None:
        with host.inside():
            self.process = subprocess.Popen(
                [sys.executable, "-m", f"tests.network.{module}", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                cwd=ROOT,
                bufsize=0,
            )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout
        self.name = f"{module} on {host.name}"
        self._inbox = b""

    def tell(self, line: str) -> None:
        self.stdin.write(f"{line}\n".encode())

    def line(self) -> str:
        """The next line that it says; it must not end instead."""
        while b"\n" not in self._inbox:
            assert is_readable(self.stdout, PATIENCE_S), f"{self.name} says nothing"
            part = self.stdout.read(1 << 16)
            assert part, f"{self.name} ended with {self.process.wait(PATIENCE_S)}"
            self._inbox += part
        line, _, self._inbox = self._inbox.partition(b"\n")
        return line.decode()

    def await_line(self, start: str) -> str:
        """The next line that begins so; what is said before it is passed over."""
        while not (line := self.line()).startswith(start):
            pass
        return line

    def kill(self) -> None:
        """End it at once, however it stands."""
        self.process.kill()
        self.process.wait()
        self.stdin.close()
        self.stdout.close()


class Publisher(Program):
    """tests/network/publisher.py."""

    def __init__(self, host: Host, broker: SeriatimServer, name: str, size: int) -> None:
        super().__init__(host, "publisher", broker.host, str(broker.port), name, str(size))
        assert self.line() == "ready"

    def begin(self, count: int, rate: int = 0) -> None:
        self.tell(f"{count} {rate}")

    def finish(self) -> float:
        """Wait until the broker has all that was begun last; messages a second."""
        count, seconds = self.line().split()
        return int(count) / max(float(seconds), 0.001)

    def publish(self, count: int, rate: int = 0) -> float:
        self.begin(count, rate)
        return self.finish()


class Listener(Program):
    """tests/network/listener.py. Its arguments are a receiver's."""

    def __init__(self, host: Host, *arguments: str) -> None:
        super().__init__(host, "listener", *arguments)
        assert self.line() == "ready"

    def await_number(self, number: int) -> None:
        """Wait until it has delivered so far; it says so in steps."""
        while int(self.await_line("at ").split()[1]) < number:
            pass

    def report(self) -> dict[str, Any]:
        """What it heard, once it has heard all that it was to hear."""
        found: dict[str, Any] = json.loads(self.await_line("{"))
        assert self.process.wait(PATIENCE_S) == 0
        return found

    def stop(self) -> dict[str, Any]:
        """What it has heard so far; it ends."""
        self.tell("stop")
        return self.report()


def feeding(*feeds: str) -> SeriatimServer:
    """A broker with these feeds, not started yet."""
    return SeriatimServer(arguments=[word for feed in feeds for word in ("--feed", feed)])


class Scene:
    """The broker's host and all others; `feeds` are what `--feed` takes."""

    def __init__(self, *feeds: str, lans: int = 1) -> None:
        self.network = Network(lans)
        self._stack = ExitStack()
        self.broker = feeding(*feeds)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self.network)
            self.home = self.network.host("broker")
            self.desk = self.network.host("desk")  # where publishers are
            self.broker.host = self.home.address()
            self.start()
            stack.enter_context(self.broker)
            self._stack = stack.pop_all()
        return self

    def start(self) -> None:
        """Start the broker, or start it again where it was."""
        with self.home.inside():
            self.broker.start(self.broker.port)

    def another(self, name: str, *feeds: str) -> SeriatimServer:
        """One more broker, on a host of its own."""
        host, made = self.network.host(name), feeding(*feeds)
        made.host = host.address()
        with host.inside():
            made.start()
        self._stack.enter_context(made)
        return made

    def host(self, name: str, *commands: str) -> Host:
        """One more host, whose wires are told these commands."""
        host = self.network.host(name, wired=True)
        for wire in host.wires.values():
            for command in commands:
                wire.set(command)
        return host

    def publisher(
        self, name: str = "p", size: int = 128, broker: SeriatimServer | None = None
    ) -> Publisher:
        made = Publisher(self.desk, broker or self.broker, name, size)
        self._stack.callback(made.kill)
        return made

    def listen(self, host: Host, *arguments: str) -> Listener:
        made = Listener(host, *arguments)
        self._stack.callback(made.kill)
        return made

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, trace)
