"""Blocks checked against those before them: impossible ones are reported with their line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardinal.draft import Draft, ReorgDraft, SubBatchDraft
from cardinal.errors import LineError
from cardinal.lineage import Lineage
from tests.cardinal.stream import named


def block(name: str, number: int, parent: str, **content: object) -> Draft:
    return Draft(number, named(name), named(parent), number, **content)  # type: ignore[arg-type]


def reorg(number: int, ancestor: str, *blocks: Draft) -> ReorgDraft:
    return ReorgDraft(number, named(ancestor), 9, list(blocks))


def takes(*drafts: Draft | ReorgDraft, remember: int = 100) -> Lineage:
    lineage = Lineage(remember)
    for line, draft in enumerate(drafts, 1):
        lineage.check(draft, line)
    return lineage


def refusal(*drafts: Draft | ReorgDraft) -> str:
    """What is said of the last of them."""
    lineage = takes(*drafts[:-1])
    with pytest.raises(LineError) as caught:
        lineage.check(drafts[-1], len(drafts))
    return str(caught.value)


def test_given_a_chain_with_forks_and_copies_when_taken_then_nothing_is_reported() -> None:
    update = {"k": b"1", "l": b"2"}
    batches = {"s/": SubBatchDraft(named("id"), {}, ["x", "y"])}
    turned = {"s/": SubBatchDraft(named("id"), {}, ["y", "x"])}
    takes(
        block("a", 1, "nothing"),
        block("b", 2, "a", updates=update, deletes=["m", "n"], batches=batches),
        block("B", 5, "a"),
        block("c", 3, "b"),
        block(
            *("b", 2, "a"),
            updates=dict(reversed(update.items())),
            deletes=["n", "m"],
            batches=turned,
        ),
        reorg(2, "b", block("c", 3, "b"), block("d", 4, "c")),
        block("z", 9, "later"),
        block("later", 8, "unknown"),
    )


@pytest.mark.parametrize(
    ("drafts", "words"),
    [
        ([block("a", 1, "a")], "parent: 0x2e"),
        ([block("a", 5, "x"), block("b", 5, "a")], "number: 5 is not above that of its parent, 5"),
        ([block("b", 5, "a"), block("a", 7, "x")], "number: 7 is not below 5, the number of"),
        ([block("a", 1, "x"), block("a", 1, "y")], "hash: 0x2e"),
        ([block("a", 1, "x"), block("a", 1, "x", updates={"k": b""})], "another block in line 1"),
        ([block("a", 1, "x"), block("a", 1, "x", deletes=["k"])], "another block in line 1"),
        ([reorg(5, "a", block("b", 2, "a"))], "blocks[0].number: 2 is not above the ancestor's, 5"),
        (
            [reorg(1, "a", block("b", 3, "a"), block("c", 3, "b"))],
            "blocks[1].number: 3 is not above that of the block before it, 3",
        ),
        ([block("a", 1, "x"), reorg(2, "a", block("b", 3, "a"))], "reorg.number: 2, but block 0x"),
        (
            [block("b", 3, "y"), reorg(2, "a", block("b", 3, "a"))],
            "blocks[0].hash: 0x",
        ),
    ],
)
def test_given_blocks_that_cannot_be_of_one_chain_when_taken_then_the_line_says_why(
    drafts: list[Draft | ReorgDraft], words: str
) -> None:
    assert words in refusal(*drafts)


@given(st.integers(1, 20), st.integers(21, 60))
def test_given_any_number_of_blocks_when_taken_then_so_many_are_remembered(
    remember: int, count: int
) -> None:
    chain = [block(str(number), number, str(number - 1)) for number in range(1, count)]
    lineage = takes(*chain, remember=remember)
    last = chain[-remember]
    with pytest.raises(LineError):
        lineage.check(block(str(last.number), last.number, "other"), count)
    old = count - 1 - remember
    lineage.check(block(str(old), old, "other"), count)
