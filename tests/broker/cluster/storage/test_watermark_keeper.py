"""What a member knows at its start of how much of its journal is committed."""

from pathlib import Path

import pytest

from broker.cluster.storage.membership import Membership
from broker.cluster.storage.watermark_keeper import WatermarkKeeper
from sequencer.journal.watermark import Watermark, WatermarkFile, read_watermark
from sequencer.replica.view import View
from tests.support.replica_stores import append, open_replica
from tests.support.stores import SECOND

OTHER = "00000000000000aa"


@pytest.mark.parametrize(
    ("wrong", "known"),
    [
        ({}, 7),
        ({"number": 99}, 9),
        ({"journal": OTHER}, 0),
        ({"member": OTHER}, 0),
        ({"stream": 2}, 0),
    ],
)
def test_given_a_file_when_a_member_starts_then_it_believes_only_its_own(
    tmp_path: Path, wrong: dict[str, str | int], known: int
) -> None:
    store = open_replica(tmp_path)
    append(store, [SECOND] * 9, epoch=1)
    memory = Membership.create(str(tmp_path), "orders")
    memory.learn(1, 1, View(store.id, 1, memory.member, 1, (memory.member,)))
    fields = {"journal": store.id, "member": memory.member, "number": 7, "stream": 1, **wrong}
    file = WatermarkFile(str(tmp_path))
    file.write(Watermark(**fields))  # type: ignore[arg-type]
    file.close()

    assert WatermarkKeeper(store, memory).known == known
    store.close()


def test_given_a_new_member_then_nothing_of_its_journal_counts_for_readers(tmp_path: Path) -> None:
    store = open_replica(tmp_path)
    memory = Membership.create(str(tmp_path), "orders")
    assert WatermarkKeeper(store, memory).known == 0
    mark = read_watermark(str(tmp_path))
    assert mark is not None
    assert mark.number == 0
    store.close()
