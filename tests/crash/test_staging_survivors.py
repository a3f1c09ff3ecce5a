"""A broker killed after a write that it had not synced, then a power cut under the next one.

The next one relies on what it finds: a promise, or that a batch is done. What it does because of
that must not survive without what it relied on.
"""

from pathlib import Path
from random import Random

import pytest

from tests.crash import shim
from tests.crash.powercut import OPEN, SEND, WRITE, Disk, note_survivors, read_log
from tests.crash.shim import preload
from tests.crash.staging import answered, finish
from tests.support.depth import depth
from tests.support.processes import STAND_IN, SeriatimServer
from tests.support.raw import HEADERS, RawClient
from tests.support.staging import LISTEN, Batch
from tests.support.stores import in_memory

pytestmark = [
    pytest.mark.skipif(STAND_IN, reason="nats-server stages nothing"),
    pytest.mark.skipif(shim.COMPILER is None, reason=shim.WHY_NOT),
]
BATCH = Batch("one", 1, 40)
CHANCES = [None, *range(depth(1, 4))]


def live(store: Path, log: Path, stage: bool) -> None:
    """A broker's life: the batch is committed, staged before or not, and the broker killed."""
    server = SeriatimServer(
        "netstring", None, ["--sync", "always", "--journal_window_bytes", "1MiB"], store=store
    )
    server.env |= preload(store, log) | {"SERIATIM_LOOP": "asyncio"}
    server.start()
    with RawClient(server.port, HEADERS + LISTEN) as client:
        client.send(b"".join(BATCH.pieces(60_000)) if stage else b"")
        client.send(BATCH.commit())
        while not answered([client.operation()]):
            pass
    server.kill()


@pytest.mark.parametrize("kind", ["PREPARE", "DONE"])
def test_given_a_kill_before_a_note_is_synced_when_the_power_is_cut_then_rows_are_there_once(
    tmp_path: Path, kind: str
) -> None:
    store, again = tmp_path / "store", tmp_path / "again"
    store.mkdir()
    before = Disk(store)
    live(store, tmp_path / "first", stage=True)
    past = read_log(tmp_path / "first")
    word = f'"kind":"{kind}"'.encode()
    (written,) = [one for one in past if one.what == WRITE and word in one.data]
    before.cut(past, written.end).sync_all().lay_out(again)  # as the kill has left it

    (file,) = again.rglob("notes")
    data = file.read_bytes()
    assert data.endswith(written.data)
    file.write_bytes(data.removesuffix(written.data))
    before = Disk(again)  # the note is none that a power cut leaves
    file.write_bytes(data)
    note_survivors(again, tmp_path / "second")
    live(again, tmp_path / "second", stage=False)
    past = read_log(tmp_path / "second")
    moments = sorted({one.end for one in past if one.what not in (OPEN, SEND)})
    with in_memory() as place:
        for at in moments:
            for chance in CHANCES:
                left = before.cut(past, at).lay_out(
                    place / "left", None if chance is None else Random(chance)
                )
                finish(left, [BATCH], set(), holes=chance is not None)
