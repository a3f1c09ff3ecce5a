"""A broker under attack, with a pair of clients beside that must notice nothing.

    with beside(tmp_path, config) as broker:
        ...                                  the attack; broker.port is where
    print(broker.report)

At the end these hold, or the attack has succeeded:

* The pair has got every message once and in order, none later than `WORST_MS`, and no error.
* The broker has never held more than `peak` bytes above what it held before, and it is back where
  it was: within `MEMORY`, without one more connection or thread than `THREADS`.
* Its log has no error and no traceback.
"""

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tests.attacks.footprint import MIB, Footprint, Watched
from tests.attacks.good_pair import Told
from tests.support.places import ROOT
from tests.support.processes import SeriatimServer
from tests.support.web import get, http_port, metrics

# An idle pair sees 1 to 3 ms. The longest turn that the broker allows itself is some tens of
# milliseconds, and hundreds of attackers have one each: 0.7 s have been seen. A broker that served
# each attacker to the end before the others would need many seconds.
WORST_MS = 2000.0
# What stays: the heap's fragments, tables that grew and are kept (routes, inboxes), the ids of
# messages, the pages of the journal's window.
MEMORY = 24 * MIB
PEAK = 192 * MIB
FILES = 4  # segments of the journal, and what reads them
THREADS = 5  # pools that are started at first use: reads, passwords, trimming, syncs
PATIENCE_S = 30.0
GOOD = {"user": "good", "pass": "a good secret"}
USERS = """
[authorization]
timeout = "15s"
[[authorization.users]]
user = "good"
password = "a good secret"
permissions = { publish = "beside.>", subscribe = "beside.>" }
[[authorization.users]]
user = "mallory"
password = "mallory"
permissions = { publish = "mallory.>", subscribe = ["mallory.>", "_INBOX.mallory.>"] }
"""
MALLORY = b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true,' + (
    b'"user":"mallory","pass":"mallory"}\r\n'
)
TROUBLE = re.compile(r"\[\d+\] \S+ \S+ \[(ERR|FTL)\]|Traceback|{.*\"level\": \"(error|critical)\"")


class Attacked:
    """The broker, and what is known of it."""

    def __init__(self, process: SeriatimServer, watched: Watched) -> None:
        self.process = process
        self.port = process.port
        self.watched = watched
        self.told = Told()
        self.after: Footprint | None = None

    @property
    def before(self) -> Footprint:
        return self.watched.before

    def varz(self) -> dict[str, Any]:
        return get(http_port(self.process), "/varz").json

    def counted(self) -> float:
        """All subscriptions, also those in a replay."""
        return metrics(http_port(self.process))["seriatim_subscriptions_counted"]

    def until(self, true: Callable[[dict[str, Any]], bool]) -> None:
        """Ask until this is so of /varz; there is no event to await."""
        end = time.monotonic() + PATIENCE_S
        while not true(told := self.varz()):
            assert time.monotonic() < end, told

    @property
    def report(self) -> str:
        told = self.told
        return (
            f"before {self.before} | peak {self.watched.peak} | after {self.after} | worst"
            f" {told.worst_ms:.1f} ms at {told.worst_at:.2f} s of {told.messages} messages"
            f" (its own {told.own_worst_ms:.1f} ms)"
        )


@contextmanager
def beside(
    folder: Path,
    config: str = "",
    *arguments: str,
    limits: Mapping[str, str | int] | None = None,
    peak: int = PEAK,
    memory: int = MEMORY,
    streams: bool = False,
) -> Iterator[Attacked]:
    """A broker with this configuration, and the pair; the user of the pair is `good`, if any is.

    `streams`: the broker has streams, and the pair uses one.
    """
    path = folder / "broker.toml"
    path.write_text(config)
    given = ["-c", str(path), "-m", "-1", *arguments, *(["--jetstream"] if streams else [])]
    connect: dict[str, Any] = {**GOOD} if "[authorization]" in config else {}
    connect |= {"tls_required": True} if "[tls]" in config else {}
    with SeriatimServer("none", limits, given) as process:
        with _pair(process, connect, streams) as pair, Watched(process.pid) as watched:
            attacked = Attacked(process, watched)
            yield attacked
            attacked.told = _end(pair)
            files = FILES - 2  # of the pair, which has gone
            attacked.after = watched.back(memory, files, THREADS)
        print(f"\n{folder.name}: {attacked.report}")
    told = attacked.told
    assert not told.fault, told.fault
    assert told.messages > 0
    assert told.worst_ms <= WORST_MS, attacked.report
    assert watched.peak.memory <= attacked.before.memory + peak, attacked.report
    trouble = [line for line in process.log if TROUBLE.match(line)]
    assert not trouble, trouble[:10]


@contextmanager
def _pair(
    broker: SeriatimServer, connect: dict[str, Any], streams: bool
) -> Iterator[subprocess.Popen[bytes]]:
    asked = {"port": broker.port, "connect": connect, "broker": broker.pid, "streams": streams}
    given = json.dumps(asked)
    command = [sys.executable, "-m", "tests.attacks.good_pair", given]
    pair = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)
    try:
        assert _output(pair).readline() == b"ready\n", "the pair could not begin"
        yield pair
    finally:
        pair.kill()
        for pipe in (pair.stdin, pair.stdout):
            if pipe is not None:
                pipe.close()
        pair.wait()


def _output(pair: subprocess.Popen[bytes]) -> IO[bytes]:
    assert pair.stdout is not None
    return pair.stdout


def _end(pair: subprocess.Popen[bytes]) -> Told:
    """Let the pair finish; what it says."""
    assert pair.stdin is not None
    pair.stdin.close()
    return Told(**json.loads(_output(pair).readline()))
