"""What a channel has brought: where it begins, what it touches, and one upon another."""

from cardinal.branch import Branch
from tests.cardinal.stream import block, named

BLOCKS = [block("b", 1, "a", 5), block("c", 2, "b", 4), block("d", 3, "c", 6)]


def test_given_blocks_when_together_then_their_weight_and_bytes_are_known() -> None:
    for one in BLOCKS:
        one.size = 10
    branch = Branch(named("a"), BLOCKS, {})
    assert (branch.weight, branch.bytes) == (6, 30)
    assert branch.hashes == {named("b"), named("c"), named("d")}


def test_given_tokens_when_asked_for_the_floor_then_its_channel_begins_there_or_a_block() -> None:
    branch = Branch(named("a"), [block("b", 1, "a")], {"s": 7})
    branch.blocks[0].token = {"s": 9, "t": 3}
    assert [branch.floor(source) for source in ("s", "t", "u")] == [7, 3, None]


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
