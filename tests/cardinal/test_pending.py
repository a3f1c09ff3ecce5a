"""How messages of a block are counted, and what is reported as missing."""

import pytest

from cardinal.errors import BadText, NotCounted
from cardinal.messages import Batch, Entry
from cardinal.pending import EACH_BYTES, NEVER, Missing, Pending
from tests.cardinal.stream import batch, named

ID, OTHER = named("id"), named("other")


def update(key: str) -> bytes:
    return b"\x03" + named("b") + key.encode()


def pending(entries: dict[str, Entry], *keys: str, untracked: str = "-") -> Pending:
    """A block of these entries for which these Updates have come."""
    block = Pending(named("b"), 0.0)
    block.open_batch(batch(entries), 0, lambda key: not key.startswith(untracked))
    block.update({update(key): b"v" for key in keys})
    return block


@pytest.mark.parametrize(
    ("entries", "keys", "left"),
    [
        ({"a/h": 1, "a/": 1}, ["a/hello", "a/x"], {}),
        ({"a/": 2, "a/b/": 1}, ["a/b/1", "a/b/2"], {"a/": 1}),
        ({"a/": 2, "a/b/": 1}, ["a/1", "a/b/2"], {"a/": 1}),
        ({"": 1, "x": 1}, ["x", "y"], {}),
        ({"é/": 1, "é": 1}, ["é/1", "éa"], {}),
    ],
)
def test_given_prefixes_when_keys_are_counted_then_the_longest_that_lacks_one_counts(
    entries: dict[str, int], keys: list[str], left: dict[str, int]
) -> None:
    block = pending({key: Entry(count=count) for key, count in entries.items()}, *keys)
    assert block.settle() == ([], 0)
    assert block.missing().prefixes == left


def test_given_an_unwanted_key_when_counted_then_it_is_given_back_and_forgotten() -> None:
    block = pending({"a/": Entry(count=1)}, "b/1", "a/1", "a/2")
    bad = b"\x03" + named("b") + b"a/\xff"
    block[bad] = b""
    refused, freed = block.settle()
    assert [key for key, _ in refused] == [update("b/1"), update("a/2"), bad]
    assert [type(error) for _, error in refused] == [NotCounted, NotCounted, BadText]
    assert set(block) == {update("a/1")}
    assert freed == 2 * sum(len(key) for key, _ in refused) + 2 + 3 * EACH_BYTES
    assert block.whole


def test_given_an_untracked_prefix_when_counted_then_it_is_not_awaited() -> None:
    block = pending({"a/": Entry(count=1), "u/": Entry(count=9)}, "u/1", untracked="u")
    assert block.awaited == block.want == 1
    assert block.settle()[0] == [(update("u/1"), None)]
    assert not block.whole


def test_given_an_untracked_prefix_under_a_tracked_one_then_each_counts_its_own() -> None:
    entries = {"a/": Entry(count=2), "a/u/": Entry(count=1)}
    block = pending(entries, "a/u/1", "a/u/2", untracked="a/u")
    assert block.settle() == ([], 0)
    assert block.missing().prefixes == {"a/": 1}
    assert block.updates == {"a/u/2": b"v"}
    block[update("a/3")] = b"v"
    assert len(block) == block.want
    block.settle()
    assert block.whole


def test_given_a_block_that_waits_for_sub_batches_only_then_updates_do_not_wake_it() -> None:
    block = pending({"s": Entry(sub_batch=ID)}, "a/1")
    assert block.want == NEVER
    assert not block.whole


def test_given_a_block_when_asked_then_it_says_what_is_missing() -> None:
    block = Pending(named("b"), 0.0)
    assert str(block.missing()) == "its Batch"
    entries = {
        "a/": Entry(count=3),
        "s": Entry(sub_batch=bytes(31) + b"\xff"),
        "t": Entry(sub_batch=bytes(30) + b"\x12\x34"),
    }
    block.open_batch(Batch(named("b"), 1, 1, named("p"), entries), 0, None)
    block.sub_batches[bytes(30) + b"\x12\x34"].count = 2
    expected = "3 of 'a/', the header of sub-batch 0xff, 2 of sub-batch 0x1234"
    assert str(block.missing()) == expected
    assert str(Missing()) == "nothing"
