"""Batches, a broker killed or its power cut at any step of them: every row is published once.

A broker lives three times under disk.c, killed between, while publishers stage and commit. Its
directory is then laid out as a moment of that leaves it: as a kill leaves it, which loses
nothing that was written, or as a power cut does, strictly or with some of the rest. A broker
that is started there must carry on what was promised, and take the rest when it is committed again.
"""

import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from tests.crash import shim
from tests.crash.powercut import (
    CLOSE,
    SEND,
    SYNC,
    WRITE,
    Disk,
    Entry,
    note_survivors,
    read_log,
)
from tests.crash.shim import preload
from tests.crash.staging import answered, finish, plan
from tests.support.depth import depth
from tests.support.processes import STAND_IN, SeriatimServer
from tests.support.raw import HEADERS, Operation, RawClient, next_operation
from tests.support.staging import LISTEN, Batch
from tests.support.stores import in_memory

pytestmark = [
    pytest.mark.skipif(STAND_IN, reason="nats-server stages nothing"),
    pytest.mark.skipif(shim.COMPILER is None, reason=shim.WHY_NOT),
]
CUTS = depth(6, 24)
BATCHES = 30
PIECE = 60_000
PREPARE = b'"kind":"PREPARE"'
NOISE = b"PUB noise 20\r\nnoise 1 1 ..........\r\n"


class Story(NamedTuple):
    before: Disk
    past: list[Entry]
    batches: list[Batch]
    told: list[tuple[int, Batch]]

    def complete(self, at: int) -> set[Batch]:
        """What had been answered at a moment."""
        return {batch for when, batch in self.told if when <= at}


def live(server: SeriatimServer, batches: list[Batch], chance: Random, steps: int) -> list[Batch]:
    """Stage and commit, killed after some steps; what was not answered."""
    left = list(batches)
    with (
        RawClient(server.port, HEADERS + LISTEN) as client,
        RawClient(server.port, HEADERS) as other,
    ):
        while left and steps:
            batch = left[0]
            for one in batch.pieces(PIECE):
                client.send(one)
                other.send(NOISE * chance.randrange(4))
            client.send(batch.commit())
            steps -= 1
            if steps == 0:
                for _ in range(chance.randrange(len(batch.parts) + 2)):
                    client.operation()
                break
            while not answered([client.operation()]):
                other.send(NOISE)
            left.pop(0)
    server.kill()
    return left


@cache
def folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="seriatim-staging-")


@pytest.fixture(scope="module", autouse=True)
def _clean() -> Iterator[None]:
    yield
    folder().cleanup()


@cache
def story(sync: str) -> Story:
    """Three lives of a broker, the second and the third of which find something half done."""
    base = Path(folder().name) / sync
    store, log = base / "store", base / "log"
    store.mkdir(parents=True)
    before, chance = Disk(store), Random(sync)
    arguments = ["--sync", sync, "--sync_interval", "20ms", "--segment_bytes", "65536"]
    arguments += ["--journal_window_bytes", "1MiB"]
    server = SeriatimServer("netstring", None, arguments, store=store)
    server.env |= preload(store, log) | {"SERIATIM_LOOP": "asyncio"}
    batches = left = plan(7, BATCHES)
    for steps in (BATCHES // 3, BATCHES // 3, BATCHES):
        note_survivors(store, log)
        server.start()
        left = live(server, left, chance, steps)
    assert left == []
    past = read_log(log)
    known = {(batch.application, batch.number): batch for batch in batches}
    told = [
        (at, known[str(said["application"]), int(str(said["batch"]))]) for at, said in sayings(past)
    ]
    return Story(before, past, batches, told)


def sayings(past: list[Entry]) -> Iterator[tuple[int, dict[str, object]]]:
    """When which commit was answered, as it left the process."""
    streams: dict[int, bytes] = {}
    for entry in sorted(past, key=lambda entry: entry.begin):
        if entry.what == CLOSE or entry.data.startswith(b"INFO "):
            streams.pop(entry.inode, None)
        if entry.what != SEND:
            continue
        data, at = streams.get(entry.inode, b"") + entry.data, 0
        found: list[Operation] = []
        while step := next_operation(data, at):
            operation, at = step
            found.append(operation)
        streams[entry.inode] = data[at:]
        for answer in answered(found):
            yield entry.begin, answer


def moments(of: Story, count: int) -> list[int]:
    """When to cut: behind promises, and before and behind all else that was done."""
    chance = Random(3)
    staging = {
        entry.inode for entry in of.past if "/staging" in entry.path and entry.what not in (SEND,)
    }
    near = [one for one in of.past if one.inode in staging or "/staging" in one.path]
    others = [one for one in of.past if one.what != SEND]
    chosen = chance.sample(near, count // 2) + chance.sample(others, count // 4)
    written = [one for one in of.past if one.what == WRITE and PREPARE in one.data]
    promised = []
    for one in written:
        syncs = [sync for sync in of.past if sync.what == SYNC and sync.inode == one.inode]
        later = [sync.end for sync in syncs if sync.begin >= one.end]
        if later or not syncs:  # none: `--sync never`
            promised.append(min(later, default=one.end))
    behind = chance.sample(promised, min(len(promised), count // 4))
    return sorted(behind + [chance.choice((one.begin - 1, one.begin, one.end)) for one in chosen])


@pytest.fixture
def left() -> Iterator[Path]:
    """Where a crash has left a directory, and who is killed no more."""
    with in_memory() as path:
        yield path / "left"


@pytest.mark.parametrize(
    "sync", ["interval", "always", pytest.param("never", marks=pytest.mark.slow)]
)
def test_given_a_kill_at_any_step_then_every_row_is_published_once(sync: str, left: Path) -> None:
    lives, carried_on = story(sync), 0
    for at in moments(lives, CUTS):
        lives.before.cut(lives.past, at).sync_all().lay_out(left)
        carried_on += finish(left, lives.batches, lives.complete(at))
    assert carried_on, "a promise was kept that was not answered yet"


@pytest.mark.parametrize("keep", [False, True], ids=["strict", "some-is-kept"])
@pytest.mark.parametrize("sync", ["interval", "always"])
def test_given_a_power_cut_at_any_step_then_every_row_is_published_once(
    sync: str, keep: bool, left: Path
) -> None:
    lives = story(sync)
    for seed, at in enumerate(moments(lives, CUTS)):
        chance = Random(seed) if keep else None
        lives.before.cut(lives.past, at).lay_out(left, chance)
        finish(left, lives.batches, lives.complete(at), holes=keep)
