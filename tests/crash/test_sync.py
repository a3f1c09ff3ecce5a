"""What `sync` guarantees for a broker on a disk that forgets what was not synced.

The broker lives twice under disk.c, killed in between, with publishers and subscribers of all
kinds. What it had sent on its sockets at any moment is known, and what the disk held for certain:
`always` means that the second has all of the first. `interval` may lose the last moments, and
`never` does lose.
"""

import asyncio
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from testkit.model_frame import split_frame
from tests.crash import shim
from tests.crash.contents import Kept, recover
from tests.crash.ledger import known
from tests.crash.powercut import CLOSE, OPEN, SEND, SYNC, Disk, Entry, note_survivors, read_log
from tests.crash.shim import preload
from tests.crash.talk import replay
from tests.crash.trial import Trial
from tests.support.depth import depth
from tests.support.processes import STAND_IN, SeriatimServer
from tests.support.raw import next_operation

pytestmark = [
    pytest.mark.skipif(STAND_IN, reason="nats-server has no journal"),
    pytest.mark.skipif(shim.COMPILER is None, reason=shim.WHY_NOT),
]
CUTS = depth(8, 20)


class Told(NamedTuple):
    """A number was shown, on a socket, with the message or to the one who published it."""

    at: int
    number: int
    payload: bytes


class Story(NamedTuple):
    before: Disk
    past: list[Entry]
    told: list[Told]

    def due(self, at: int) -> dict[int, bytes]:
        """What had been told at a moment."""
        return {told.number: told.payload for told in self.told if told.at <= at}


class RecordedTrial(Trial):
    """A trial whose broker is under the shim."""

    def __init__(self, base: Path, sync: str) -> None:
        super().__init__(
            base / "store", 5, sync, "--journal_window_bytes", "1MiB", events=(1500, 3000)
        )
        self.log = base / "log"
        self.server.env |= preload(self.server.store, self.log) | {"SERIATIM_LOOP": "asyncio"}

    def before_start(self) -> None:
        note_survivors(self.server.store, self.log)


@cache
def folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="seriatim-sync-")


@cache
def story(sync: str) -> Story:
    """Two lives of a broker."""
    base = Path(folder().name) / sync
    (base / "store").mkdir(parents=True)
    before = Disk(base / "store")
    trial = RecordedTrial(base, sync)
    asyncio.run(trial.run(lambda rounds: rounds < 2))
    past = read_log(trial.log)
    return Story(before, past, list(shown(past)))


@pytest.fixture(scope="module", autouse=True)
def _clean() -> Iterator[None]:
    yield
    folder().cleanup()


def shown(past: list[Entry]) -> Iterator[Told]:
    """Everything that was told, as it left the process."""
    streams: dict[int, bytes] = {}
    for entry in sorted(past, key=lambda entry: entry.begin):
        if entry.what == CLOSE or entry.data.startswith(b"INFO "):
            streams.pop(entry.inode, None)
        if entry.what != SEND:
            continue
        data, at = streams.get(entry.inode, b"") + entry.data, 0
        while step := next_operation(data, at):
            operation, at = step
            if operation.subject.startswith(b"_INBOX.") and operation.payload[:1] != b"{":
                name, count = operation.subject.split(b".")[1:]
                number = int(operation.payload.partition(b":")[2].rstrip(b","))
                yield Told(entry.begin, number, b"%s %s " % (name, count))
            elif operation.verb in ("MSG", "HMSG") and operation.payload[:1] not in b"{":
                yield Told(entry.begin, *split_frame(operation.payload))
        streams[entry.inode] = data[at:]


def moments(of: Story) -> list[int]:
    """Some of those when something was just told."""
    sends = [told.at for told in of.told]
    return sorted(Random(1).sample(sends, CUTS)) + sends[-1:]


def missing(due: dict[int, bytes], kept: dict[int, Kept]) -> set[int]:
    """Numbers that were told and are not there; what is there must be what was told."""
    for number, message in kept.items():
        known(message.payload)
        assert message.payload.startswith(due.get(number, b"")), number
    return {*due} - {*kept}


@pytest.mark.parametrize("keep", [False, True], ids=["strict", "some-is-kept"])
def test_given_always_when_the_power_is_cut_then_all_that_was_acknowledged_is_there(
    keep: bool, tmp_path: Path
) -> None:
    lives = story("always")
    for seed, at in enumerate(moments(lives)):
        left = lives.before.cut(lives.past, at).lay_out(tmp_path / "left", chance(keep, seed))
        store, kept = recover(left)
        assert missing(lives.due(at), kept) == set(), f"cut {seed}: {store.report}"
        store.close()
    assert len(lives.due(at)) > 1000


def chance(keep: bool, seed: int) -> Random | None:
    return Random(seed) if keep else None


def test_given_always_when_the_power_is_cut_then_a_broker_goes_on_there(tmp_path: Path) -> None:
    lives = story("always")
    for seed, at in enumerate(moments(lives)[5::7]):
        left = lives.before.cut(lives.past, at).lay_out(tmp_path / "left", Random(seed))
        with SeriatimServer("netstring", store=left) as broker:
            there = dict(replay(broker.port, holes=True))
        assert {*lives.due(at)} <= {*there}
        assert missing(lives.due(at), {n: Kept(b"", b"", p) for n, p in there.items()}) == set()


def covered(past: list[Entry], at: int) -> int:
    """The last moment of which the disk must have everything at `at`, when something is told.

    A start brings to the disk what a kill has left, and only then anything is told. Later the
    rounds that bring a new name there end with the folder: between two such ends lies a whole
    round. Of none of this the time is known: under load a sync comes late, and takes its time.
    """
    started, rounds, serving = 0, list[int](), False
    for entry in sorted(past, key=lambda entry: entry.begin):
        if entry.begin > at:
            break
        if entry.what == OPEN and entry.begin == entry.end:  # a survivor of a kill
            started, rounds, serving = entry.begin, [], False
        serving = serving or entry.what == SEND
        if serving and entry.what == SYNC and entry.flags and entry.end <= at:
            rounds.append(entry.begin)
    return rounds[-2] if len(rounds) > 1 else started


def test_given_interval_when_the_power_is_cut_then_only_the_last_moments_are_lost(
    tmp_path: Path,
) -> None:
    lives = story("interval")
    lost = safe = 0
    for at in moments(lives):
        left = lives.before.cut(lives.past, at).lay_out(tmp_path / "left")
        store, kept = recover(left)
        store.close()
        lost += len(missing(lives.due(at), kept))
        due = lives.due(covered(lives.past, at))
        safe += len(due)
        assert missing(due, kept) == set()
    assert safe, "or nothing was judged: the second life has all of the first"
    assert lost, "or the disk forgets nothing, and the tests above prove nothing"


def test_given_never_when_the_power_is_cut_then_acknowledged_messages_are_lost(
    tmp_path: Path,
) -> None:
    lives = story("never")
    # In the first life, which has some 200 at least, and in its first segment: a roll syncs.
    at = next(told.at for told in lives.told if told.number == 150)
    left = lives.before.cut(lives.past, at).lay_out(tmp_path / "left")
    store, kept = recover(left)
    store.close()
    assert len(missing(lives.due(at), kept)) > 100
