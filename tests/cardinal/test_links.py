"""What a chain links and remembers: copies of applied blocks, and where it was begun."""

import pytest

from cardinal.chain import Chain
from tests.cardinal.stream import block, named
from tests.cardinal.test_chain import feed, line


def test_given_blocks_that_were_applied_when_they_come_again_old_then_nothing_is_reported() -> None:
    chain = Chain(named("a"), threshold=2)
    main = line("bcdefgh", "a", 1)
    assert len(feed(chain, *main)) == 7
    assert feed(chain, *main) == []
    assert all(chain.knows(one.hash) for one in main)
    assert chain.repeated == 7
    liar = block("c", 2, "x")
    assert feed(chain, liar) == [], "its hash was applied"


def test_given_a_chain_that_was_begun_when_branches_replace_it_then_what_is_below_is_added() -> (
    None
):
    chain = Chain(bootstrap=1)
    assert feed(chain, *line("de", "c", 3)) == ["+d unlinked", "+e"]
    assert feed(chain, block("x", 4, "c", 9)) == ["+x -de"]
    assert chain.begun == 4, "number 3 is not on the chain any more"
    assert feed(chain, block("c", 2, "b")) == ["+cx -x unlinked"]
    assert feed(chain, *line("fghi", "e", 5), block("j", 10, "i")) == ["+defghij -x"]
    assert (chain.begun, chain.head) == (2, named("j"))
    assert feed(chain, block("b", 1, "a")) == ["+bcdefghij -cdefghij unlinked"]


def test_given_two_branches_when_the_lowest_comes_last_then_both_updates_follow() -> None:
    chain = Chain(bootstrap=1)
    feed(chain, *line("de", "c", 3), *line("xyz", "b", 2))
    assert feed(chain, block("c", 2, "b")) == ["+cde -de unlinked"]
    assert feed(chain, block("w", 5, "z", 9)) == ["+xyzw -cde"]


@pytest.mark.parametrize("at", [3, 4, 9])
def test_given_where_a_chain_was_begun_when_it_is_started_again_then_what_is_below_is_added(
    at: int,
) -> None:
    blocks = line("cdefghij", "b", 2)
    chain = Chain(blocks[at - 2].hash, number=at)
    chain.begun = 3
    assert feed(chain, *blocks[1 : at - 1]) == []
    names = "defghij"[: at - 2]
    assert feed(chain, blocks[0]) == [f"+c{names} -{names} unlinked"]
    again = Chain(blocks[at - 2].hash, number=at)
    assert feed(again, *blocks[1 : at - 1], blocks[0]) == [], "all below a start was applied"
