"""The branch of a channel: where it begins, what it touches, and one on top of another."""

from cardinal.branch import Branch
from tests.cardinal.stream import block, named

BLOCKS = [block("b", 1, "a", 5), block("c", 2, "b", 4), block("d", 3, "c", 6)]


def test_given_blocks_when_together_then_their_weight_and_bytes_are_known() -> None:
    for one in BLOCKS:
        one.size = 10
    branch = Branch(named("a"), BLOCKS, {})
    assert (branch.weight, branch.bytes) == (6, 30)
    assert branch.hashes == {named("b"), named("c"), named("d")}


def test_given_tokens_when_together_then_its_channel_begins_there_or_a_block() -> None:
    one = block("b", 1, "a")
    one.token = {"s": 9, "t": 3}
    branch = Branch(named("a"), [one], {"s": 7, "u": 1})
    assert branch.token == {"s": 7, "t": 3, "u": 1}
    branch.rewind("t", 2)
    branch.rewind("v", 2)
    assert branch.token == {"s": 7, "t": 2, "u": 1}


def test_given_a_number_when_it_cannot_be_the_ancestors_then_it_is_that_below_the_first() -> None:
    assert [Branch(named("a"), BLOCKS[1:], {}, one).number for one in (None, 0, 1, 7)] == [
        1,
        0,
        1,
        1,
    ]


def test_given_blocks_when_they_are_no_line_then_they_do_not_rise() -> None:
    assert Branch(named("a"), BLOCKS, {}).rises
    assert not Branch(named("a"), [*BLOCKS, BLOCKS[0]], {}).rises
    assert not Branch(named("d"), BLOCKS, {}).rises


def test_given_what_is_known_when_touched_then_it_is_by_the_ancestor_or_a_block() -> None:
    branch = Branch(named("a"), BLOCKS, {})
    assert branch.touches({named("a")})
    assert branch.touches({named("d"), named("x")})
    assert not branch.touches({named("x")})


def test_given_one_upon_another_when_joined_then_it_has_the_stem_and_begins_where_it_did() -> None:
    below = Branch(named("a"), BLOCKS, {"s": 7, "t": 1})
    above = Branch(named("c"), [block("x", 3, "c", 9)], {"s": 20, "u": 2})
    joined = above.upon(below)
    assert [one.hash for one in joined.blocks] == [named("b"), named("c"), named("x")]
    assert (joined.ancestor, joined.weight) == (named("a"), 9)
    assert joined.token == {"s": 7, "t": 1, "u": 2}
