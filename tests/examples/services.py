"""The programs of examples/ as processes that are killed and started again, and a stream of orders.

with Service("to_sqlite.py", url, "orders.>", file) as service:     started again when it ends
    service.kill()

SOAK_SECONDS=600    in the environment: kills for so long, divided among the storms
CRASH_SEED=7        repeats the moments and victims of a failure
"""

import io
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from random import Random
from types import TracebackType
from typing import Self

import seriatim
from tests.crash.trial import SEED, SOAK_S
from tests.support.depth import depth
from tests.support.places import ROOT
from tests.support.processes import SeriatimServer, ServerProcess, url

KILLS = depth(8, 40)
STORMS = 8  # that share the time of a soak
WAIT_S = 120.0  # a bound for what hangs
AHEAD_MOST = 1000


class Progress:
    """A count that others wait for."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.count = 0

    def step(self, count: int = 1) -> None:
        with self._changed:
            self.count += count
            self._changed.notify_all()

    def reach(self, count: int) -> None:
        """Wait until it has counted so far."""
        with self._changed:
            reached = self._changed.wait_for(lambda: self.count >= count, WAIT_S)
        assert reached, f"{self.count} of {count}, and no more"

    def more(self, count: int) -> None:
        """Wait for so many more."""
        self.reach(self.count + count)


def program(
    name: str, *arguments: object, stdin: int = subprocess.PIPE
) -> "subprocess.Popen[bytes]":
    """One of examples/, started."""
    paths = [*filter(None, [os.environ.get("PYTHONPATH")]), str(ROOT)]
    return subprocess.Popen(
        [sys.executable, "-u", str(ROOT / "examples" / name), *map(str, arguments)],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )


class Service:
    """A program of examples/, which is started again when it ends, as systemd does."""

    def __init__(
        self, name: str, *arguments: object, ready: str = "", may_end: bool = False
    ) -> None:
        """`ready`: what its log says when it is at work. `may_end`: by itself, with an error."""
        self.command = (name, *map(str, arguments))
        self.ready = ready
        self.may_end = may_end
        self.ends: list[int] = []  # the exit statuses, in which nobody had a hand
        self.lives = Progress()  # those that got ready
        self._log = io.BytesIO()
        self._over = False
        self._killed = False
        self._turn = threading.Lock()  # a kill is of one process: the old one, or the new one
        self._process: subprocess.Popen[bytes] | None = None
        self._keeper = threading.Thread(target=self._keep, daemon=True)

    def _keep(self) -> None:
        while True:
            with self._turn:
                if self._over:
                    return
                self._killed = False
                self._process = process = program(*self.command)
            listener = threading.Thread(target=self._hear, args=(process,), daemon=True)
            listener.start()
            if not self.ready:
                self.lives.step()
            self._talk(process)
            status = process.wait()
            listener.join(WAIT_S)
            if not self._killed:
                self.ends.append(status)

    def _talk(self, process: "subprocess.Popen[bytes]") -> None:
        """Say nothing to the program, and read what it says, until it ends."""
        assert process.stdin is not None
        assert process.stdout is not None
        with process.stdin, process.stdout:
            process.stdout.read()

    def _hear(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stderr is not None
        is_ready = not self.ready
        with process.stderr:
            for line in process.stderr:
                self._log.write(line)
                if not is_ready and self.ready.encode() in line:
                    is_ready = True
                    self.lives.step()

    @property
    def log(self) -> str:
        return self._log.getvalue().decode(errors="replace")

    def signal(self, number: signal.Signals) -> None:
        with self._turn:
            assert self._process is not None
            self._killed = True
            self._process.send_signal(number)

    def kill(self) -> None:
        """End it as `kill -9` does; it is started again."""
        self.signal(signal.SIGKILL)

    def stop(self) -> int:
        """Ask it to end, and not again; its exit status."""
        assert self._process is not None
        self._over = True
        self.signal(signal.SIGTERM)
        status = self._process.wait(WAIT_S)
        self._keeper.join(WAIT_S)
        return status

    def __enter__(self) -> Self:
        self._keeper.start()
        self.lives.reach(1)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over = True
        if self._process is not None:
            self.kill()
        self._keeper.join(WAIT_S)
        if kind is not None:
            print(f"{self.command}:\n{self.log}")


class Orders(threading.Thread):
    """A publisher of orders, each until it knows its number, through all kills."""

    def __init__(
        self,
        server: str,
        make: Callable[[int], tuple[str, bytes]],
        ahead: int = 50,
        taken: Callable[[], int] | None = None,
    ) -> None:
        """`taken`: how many others have taken; it is not far ahead of them."""
        super().__init__(daemon=True)
        self.progress = Progress()
        self.numbers: list[int] = []
        self.over = False
        self.error: Exception | None = None
        self._server, self._make, self._ahead, self._taken = server, make, ahead, taken

    def run(self) -> None:
        try:
            with seriatim.connect(self._server, wait=True) as stream:
                while not self.over:
                    count = len(self.numbers)
                    if self._taken and count > self._taken() + AHEAD_MOST:
                        time.sleep(0.01)  # no event to await
                        continue
                    some = range(count, count + self._ahead)
                    sent = [stream.send(*self._make(at)) for at in some]
                    self.numbers += [one.result(WAIT_S) for one in sent]
                    self.progress.step(len(sent))
        except Exception as error:
            self.error = error

    def end(self) -> list[int]:
        """End when what is under way has its numbers; these."""
        self.over = True
        self.join(WAIT_S)
        assert self.error is None, self.error
        assert not self.is_alive(), "it waits for numbers"
        return self.numbers


def storm(
    server: ServerProcess,
    name: str,
    done: Callable[[], int],
    services: list[Service],
    more: Callable[[], object] | None = None,
) -> None:
    """Kill at random moments the broker, a service, `more`, or all at once.

    A moment is a random count of what is `done` by the programs. One life in four is very short:
    it may end while a program starts.
    """
    chance = Random(f"{SEED} {name}")

    def kill_broker() -> None:
        server.kill()
        server.start(server.port)

    victims = [kill_broker, *[one.kill for one in services] * 2, *([more] if more else [])]
    kills, end = 0, time.monotonic() + SOAK_S / STORMS
    while kills < KILLS or time.monotonic() < end:
        if chance.random() < 0.75:
            wanted = done() + chance.choice((1, 100, 1500))
            until(partial(at_least, done, wanted), services)
        else:
            time.sleep(chance.random() / 2)  # no event to await: it may do nothing yet
        for kill in victims if chance.random() < 0.2 else [chance.choice(victims)]:
            kill()
        kills += 1
    print(f"CRASH_SEED={SEED} {name}: {kills} kills, {done()} done")


def at_least(done: Callable[[], int], wanted: int) -> bool:
    return done() >= wanted


def assert_equal(found: Sequence[object], expected: Sequence[object]) -> None:
    """Say where they begin to differ; what pytest shows of long lists takes minutes to find."""
    for at, (one, other) in enumerate(zip(found, expected, strict=False)):
        assert one == other, f"at {at} of {len(found)} and {len(expected)}"
    assert len(found) == len(expected)


def until(holds: Callable[[], bool], services: Iterable[Service] = ()) -> None:
    """Wait until it holds; nobody tells. None of the services may have ended by itself."""
    end = time.monotonic() + WAIT_S
    while not holds():
        assert not [one.command for one in services if one.ends and not one.may_end]
        assert time.monotonic() < end, "it does not come so far"
        time.sleep(0.01)  # no event to await


@contextmanager
def broker(*arguments: str) -> Iterator[SeriatimServer]:
    """A broker with a journal of its own."""
    with SeriatimServer(arguments=list(arguments)) as server:
        yield server


def journal_of(server: ServerProcess, subject: str) -> list[seriatim.Message]:
    """All that the broker keeps of a subject."""
    with seriatim.connect(url(server)) as stream:
        return list(stream.read(subject, start=1, until="now"))
