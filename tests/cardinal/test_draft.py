"""Blocks with their sub-batches to messages, in parts."""

import pytest

from cardinal.assembler import Assembler
from cardinal.block import Block
from cardinal.draft import Draft, ReorgDraft, SubBatchDraft, apply
from cardinal.errors import BrokenReorg
from cardinal.messages import Reorg, ReorgComplete
from cardinal.producer import Producer
from cardinal.schema import Schema
from tests.cardinal.stream import flat, named

SCHEMA = Schema({"a/": "ta", "s/": "ts"}, default="t")
DRAFT = Draft(
    *(7, named("b"), named("p"), 9, {"a/1": b"1", "x": b"2"}, ["a/2"]),
    {"s/": SubBatchDraft(named("id"), {"s/1": b"3"}, ["s/2", "x"])},
)


def test_given_a_draft_when_sent_then_the_block_is_collected() -> None:
    parts = list(DRAFT.messages(Producer(SCHEMA)))
    assert [sorted(part) for part in parts] == [["t", "ta"], ["ts"]]
    rows = [(*row, 0) for part in parts for row in flat(part)]
    assert Assembler().feed(rows) == [
        Block(
            *(named("b"), 7, 9, named("p")),
            {"a/1": b"1", "x": b"2", "s/1": b"3"},
            {"a/2", "s/2", "x"},
        )
    ]


def test_given_a_reorg_when_sent_then_it_is_one_topic_from_its_beginning_to_its_end() -> None:
    reorg = ReorgDraft(6, named("p"), 8, [DRAFT])
    parts = list(reorg.messages(Producer(SCHEMA)))
    assert len({topic for part in parts for topic in part}) == 1
    rows = [(*row, 0) for part in parts for row in flat(part)]
    first, block, last = Assembler().feed(rows)
    assert (first, last) == (Reorg(named("p"), 6), ReorgComplete(named("p"), 6))
    assert isinstance(block, Block)


@pytest.mark.parametrize(
    "reorg", [ReorgDraft(6, named("p"), 9, [DRAFT]), ReorgDraft(6, b"p" * 32, 1, [])]
)
def test_given_a_reorg_that_replaces_nothing_when_sent_then_it_is_refused(
    reorg: ReorgDraft,
) -> None:
    with pytest.raises(BrokenReorg):
        list(reorg.messages(Producer(SCHEMA)))


def test_given_a_state_when_a_block_is_applied_then_deletes_come_first() -> None:
    state = {"a/2": b"", "s/2": b"", "x": b"", "y": b"0"}
    apply(state, DRAFT)
    assert state == {"a/1": b"1", "x": b"2", "s/1": b"3", "y": b"0"}
