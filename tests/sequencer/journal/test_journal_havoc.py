"""A disk that does what it likes: whatever is damaged in a journal, no wrong message is read."""

import json
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sequencer.journal.errors import StoreError
from sequencer.journal.store import Store
from sequencer.journal.verify import verify
from tests.support.depth import examples
from tests.support.stores import (
    SECOND,
    abandon,
    in_memory,
    messages,
    open_store,
    payload_of,
    put,
)
from tests.support.windows import stay_up

COUNT = 60
SYNCED = 50  # the numbers after it are in the window alone
Files = dict[str, bytes]
Fault = tuple[str, str, float, float, int, Random]  # where and what; from where; how much


def recorded() -> Files:
    """The files of a small store of several segments, killed while it was written."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "store")
        store = open_store(path, segment_bytes=1500)
        for number in range(1, COUNT + 1):
            put(store, ids=number % 5 == 0, size=number * 3)
            if number == COUNT // 2:
                store.close()
                store = open_store(path, segment_bytes=1500)
            if number == SYNCED:
                store.sync()
        abandon(store)
        return {file.name: file.read_bytes() for file in path.iterdir()}


FILES = recorded()
ID = str(json.loads(FILES["store.json"])["journal"])

places = st.floats(0, 1, exclude_max=True)
faults = st.lists(
    st.tuples(
        st.sampled_from(sorted(name for name in FILES if name != "lock")),
        st.sampled_from(["flip", "zeros", "noise", "copy", "cut", "extend", "swap", "gone"]),
        places,
        places,
        st.integers(1, 400),
        st.randoms(use_true_random=False),
    ),
    min_size=1,
    max_size=4,
)


def spoilt(faults: list[Fault]) -> Files:
    """The recorded files, with faults."""
    files = dict(FILES)
    for name, what, at, source, size, random in faults:
        data = bytearray(files.get(name, b""))
        start, other = int(at * len(data)), int(source * len(data)) // 8 * 8
        end = min(start + size, len(data))
        if what == "gone":
            files.pop(name, None)
            continue
        if what == "flip" and data:
            data[start] ^= 1 << size % 8
        elif what == "zeros":
            data[start:end] = bytes(end - start)
        elif what == "noise":
            data[start:end] = random.randbytes(end - start)
        elif what == "copy":
            start -= start % 8
            part = data[other : other + size]
            data[start : start + len(part)] = part
        elif what == "cut":
            del data[start:]
        elif what == "extend":
            data += bytes(size) if size % 2 else random.randbytes(size)
        elif what == "swap":
            like = [one for one in files if one[-6:] == name[-6:]]
            data = bytearray(files[like[other % len(like)]]) if like else data
        files[name] = bytes(data)
    return files


@given(faults=faults)
@settings(max_examples=examples(250))
def test_given_any_faults_when_opened_and_read_then_no_message_is_wrong(
    faults: list[Fault],
) -> None:
    with in_memory() as memory:
        for name, data in spoilt(faults).items():
            (memory / name).write_bytes(data)
        try:
            told = list(verify(str(memory)))
            store = open_store(memory, segment_bytes=4000)
        except StoreError:
            return
        found = check(store)
        if not told:
            assert found == set(range(store.first, store.last + 1)), "verify knows what is missing"
        while store.build_indexes():
            pass
        found = check(store)
        store.close()
        again = open_store(memory)
        assert check(again) == found
        again.close()


@given(faults=faults, is_copy=st.booleans())
@settings(max_examples=examples(250))
def test_given_any_faults_when_opened_then_no_number_is_given_again_and_verify_had_said_so(
    faults: list[Fault], is_copy: bool
) -> None:
    with in_memory() as memory:
        for name, data in spoilt(faults).items():
            (memory / name).write_bytes(data)
        if not is_copy:
            stay_up(memory)
        try:
            errors = [str(one) for one in verify(str(memory)) if one.level == "error"]
        except StoreError:
            errors = ["it is not known which journal this is"]
        try:
            store = open_store(memory)
        except StoreError:
            assert errors, "verify judges as the next start does"
            try:
                store = open_store(memory, accept_loss=True)
            except StoreError:
                return  # it is not known which journal this is
        if store.id == ID:
            found = set(messages(store))
            lost = [(one.first, one.last) for one in store.damage]
            for number in {*range(SYNCED + 1, COUNT + 1)} - found:
                assert any(first <= number <= last for first, last in lost), "LOST is reported"
            assert store.last >= COUNT, "no number is given again"
        store.close()


def check(store: Store) -> set[int]:
    """Whatever is read is what was written, and asking for anything is answered. The numbers."""
    found = messages(store)
    for number, (time, payload) in found.items():
        if number <= COUNT:
            assert payload == payload_of(number, number * 3)
            assert time == number * SECOND
    list(store.recent_ids(0, 100))
    for number in (*found, 0, store.last + 1):
        piece, offset = store.locate(number)
        assert piece.start <= offset <= piece.size
    for time in range(0, COUNT * SECOND, 7 * SECOND):
        piece, offset = store.locate_time(time)
        assert piece.start <= offset <= piece.size
    return set(found)


@pytest.mark.parametrize("name", sorted(name for name in FILES if name != "lock"))
def test_given_any_file_gone_when_opened_then_the_rest_is_read(name: str) -> None:
    with in_memory() as memory:
        for other, data in FILES.items():
            if other != name:
                (memory / other).write_bytes(data)
        is_needed = name == "window"
        if is_needed:
            with pytest.raises(StoreError, match="missing"):
                open_store(memory)
        store = open_store(memory, accept_loss=is_needed)
        assert store.last >= COUNT
        found = check(store)
        first = int(name[:20]) if name.endswith(".segment") else 0
        assert set(range(1, first)) <= found
        if not first:
            assert found == set(range(1, SYNCED + 1 if is_needed else COUNT + 1))
        store.close()
