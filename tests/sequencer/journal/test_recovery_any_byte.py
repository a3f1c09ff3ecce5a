"""A recorded store cut or changed at any byte: what that byte did not hold is still there."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from sequencer.journal.header import START
from sequencer.journal.high_water import FILE, SLOT_SIZE, SLOTS
from tests.support.depth import compiled_only, depth
from tests.support.recorded_store import COUNT, check, lost, record
from tests.support.stores import in_memory, open_store

Files = dict[str, bytes]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store"


def places(name: str, content: bytes) -> Iterator[int]:
    """All bytes of a file that say anything; in the gate a part of each segment's.

    The three segments each leave out others, so every byte of a head is tried. So is each of a
    record, for 7 and its size have no divisor: the next record leaves out others, too.
    """
    if name.endswith(".segment"):
        first = int(name[:20])
        heads = range(first % depth(3, 1), START, depth(3, 1))
        chosen = [*heads, *range(START + first % depth(7, 1), len(content), depth(7, 1))]
    else:
        chosen = [*range(len(content))]
    for at in chosen:
        if name != FILE or any(slot <= at < slot + SLOT_SIZE for slot in SLOTS):
            yield at


def faulty(recorded: Files, where: Path, name: str, content: bytes) -> set[int]:
    """The numbers in a copy of the store where one file has another content."""
    where.mkdir()
    for other, whole in recorded.items():
        (where / other).write_bytes(content if other == name else whole)
    store = open_store(where, segment_bytes=1000, accept_loss=True)
    try:
        found = check(store)
        missing = set(range(1, COUNT + 1)) - found
        told = {n for first, last in lost(store) for n in range(first, min(last, COUNT) + 1)}
        assert told <= missing, "nothing that is there is called lost"
        return found
    finally:
        store.close()
        shutil.rmtree(where)


@pytest.mark.parametrize("closed", [True, False])
def test_given_a_store_cut_at_any_byte_when_opened_then_what_was_before_is_there(
    path: Path, closed: bool
) -> None:
    record(path, closed=closed)
    recorded = {file.name: file.read_bytes() for file in path.iterdir()}
    everything = set(range(1, COUNT + 1))
    with in_memory() as memory:
        for name, content in recorded.items():
            for size in places(name, content):
                found = faulty(recorded, memory / "cut", name, content[:size])
                if not name.endswith(".segment"):
                    assert found == everything, (name, size)
                    continue
                first = int(name[:20])
                whole = max(size - START, 0) // 80
                here = set(range(first, min(first + 5, COUNT + 1)))
                kept = set(range(first, first + whole))
                assert found == everything - (here - kept), (name, size)


@compiled_only
@pytest.mark.parametrize("closed", [True, False])
def test_given_any_byte_of_a_store_flipped_when_opened_then_at_most_its_message_is_missing(
    path: Path, closed: bool
) -> None:
    record(path, closed=closed)
    recorded = {file.name: file.read_bytes() for file in path.iterdir()}
    everything = set(range(1, COUNT + 1))
    with in_memory() as memory:
        for name, content in recorded.items():
            for at in places(name, content):
                for bits in (1 << at % 8, 0xFF):
                    flipped = content[:at] + bytes([content[at] ^ bits]) + content[at + 1 :]
                    found = faulty(recorded, memory / "flipped", name, flipped)
                    hit = set()
                    if name.endswith(".segment") and at >= START:
                        hit = {int(name[:20]) + (at - START) // 80}
                    assert everything - found <= hit, (name, at, bits)
