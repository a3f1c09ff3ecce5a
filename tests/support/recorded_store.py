"""A small store on disk that tests damage, and what must be right in it whatever they did."""

import os
from pathlib import Path

from sequencer.journal.header import START, stem
from sequencer.journal.high_water import FILE, start
from sequencer.journal.identity import read_identity, write_identity
from sequencer.journal.store import Store
from sequencer.journal.window_file import remove_window
from tests.support.stores import SECOND, abandon, messages, open_store, payload_of, put, read_from

SMALL = 400  # five records of these tests
COUNT = 13  # messages in the recorded store: five, five and three


def record(path: Path, *, closed: bool = False) -> Store:
    """A store of three segments, the older ones with indexes; killed, or closed.

    It was killed before the newest segment was synced, so the highest number noted is 10. There is
    no window, as if an older version had written it: what is damaged then has no other copy.
    """
    store = open_store(path, segment_bytes=SMALL + START)
    for _ in range(COUNT):
        put(store, ids=False)
    assert [one.last for one in store.segments()] == [5, 10, 13]
    while store.build_indexes():
        pass
    if closed:
        store.close()
    else:
        abandon_older(store, 10)
    return store


def abandon_older(store: Store, highest: int) -> None:
    """Let go of a store as the end of the process of an older version would.

    All is in the segments then; there is no window. `highest` is noted as the number last synced.
    """
    store.sync()
    abandon(store)
    newest = store.segments()[-1]
    os.truncate(newest.file, newest.size)  # the page's zeros
    remove_window(store.path)
    identity = read_identity(store.path)
    assert identity is not None, "the store was open"
    write_identity(store.path, identity._replace(window=0))
    start(os.path.join(store.path, FILE), store.id, highest)


def segment(path: Path, first: int) -> Path:
    return path / (stem(first) + ".segment")


def index(path: Path, first: int) -> Path:
    return path / (stem(first) + ".index")


def texts(store: Store) -> str:
    return "\n".join(f"{level}: {text}" for level, text in store.report)


def lost(store: Store) -> list[tuple[int, int]]:
    return [(damage.first, damage.last) for damage in store.damage]


def check(store: Store) -> set[int]:
    """Everything in the store is right, found from everywhere; it takes more. The numbers."""
    found = messages(store)
    for number, (time, payload) in found.items():
        assert payload == payload_of(number), "what is read is what was written"
        assert time == number * SECOND
    for number in found:
        there = [one[0] for one in read_from(store, *store.locate(number))]
        assert number in there, "a number is at or behind its place"
    assert all(store.first <= number <= store.last for number in found)
    number = put(store, time=max(store.newest_time, 50 * SECOND))
    assert messages(store)[number][1] == payload_of(number)
    return set(found)
