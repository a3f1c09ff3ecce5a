"""Blocks in any order to updates: the reference's traces, limits, the whitelist, reorg channels."""

from typing import Any

import pytest

from cardinal.block import Block
from cardinal.chain import Chain
from cardinal.update import ChainUpdate, Event, Stalled, Unlinked
from tests.cardinal import vectors
from tests.cardinal.stream import block, named

(GRAPH,) = vectors.load("ordering")


def told(events: list[Event]) -> list[str]:
    """Events as "+added -removed", or the name of a block and why it was given up."""
    lines = []
    for event in events:
        if isinstance(event, Unlinked):
            lines.append(f"{plain(event.hash)} {event.why.name}")
            continue
        if isinstance(event, Stalled):
            refused = event.refused.name if event.refused else "nothing"
            lines.append(
                f"stalled for {plain(event.parent)} {refused}" + " heavier" * event.heavier
            )
            continue
        added = "".join(plain(one.hash) for one in event.added)
        removed = "".join(plain(one.hash) for one in event.removed)
        flags = " unlinked" * event.unlinked + " beyond" * event.beyond
        lines.append(f"+{added}" + f" -{removed}" * bool(removed) + flags)
    return lines


def plain(hash: bytes) -> str:
    return hash.decode().lstrip(".")


def feed(chain: Chain, *blocks: Block) -> list[str]:
    return told([event for one in blocks for event in chain.add(one)])


def bring(chain: Chain, ancestor: str, *blocks: Block, begun: int = 0) -> list[str]:
    """What comes of a channel."""
    return told(chain.branch(named(ancestor), blocks, {"s": begun}))


def line(names: str, parent: str, first: int) -> list[Block]:
    """Blocks on each other, each weighing its number."""
    parents = parent + names
    return [
        block(name, number, above)
        for number, (name, above) in enumerate(zip(names, parents, strict=False), first)
    ]


@pytest.mark.parametrize(
    "trace", GRAPH["scenarios"], ids=lambda one: f"{one['arrival']}-{one['start_at']}"
)
def test_given_a_trace_of_the_reference_when_run_then_the_updates_are_the_same(trace: Any) -> None:
    blocks, names = {}, {}
    for one in GRAPH["blocks"]:
        hash, parent = vectors.unhex(one["hash"]), vectors.unhex(one["parent"])
        blocks[one["name"]] = Block(hash, one["number"], one["weight"], parent, {}, set())
        names[hash] = one["name"]
    start = blocks[trace["start_at"]].hash if trace["start_at"] else None
    chain = Chain(start, threshold=trace["reorg_threshold"])
    found = []
    for name in trace["arrival"]:
        for event in chain.add(blocks[name]):
            assert isinstance(event, ChainUpdate)
            added = "".join(names[one.hash] for one in event.added)
            removed = "".join(names[one.hash] for one in event.removed)
            found.append({"added": added, "removed": removed})
    assert found == trace["updates"]


def test_given_a_missing_common_ancestor_when_a_sibling_is_heavier_then_it_wins() -> None:
    chain = Chain(named("a"))
    assert feed(chain, *line("bc", "a", 1), *line("xyz", "a", 1)) == ["+b", "+c", "+xyz -bc"]


def test_given_a_start_whose_block_comes_late_when_a_branch_is_heavier_then_it_wins() -> None:
    chain = Chain(named("c"))
    late = [*line("bef", "a", 1), block("c", 1, "a")]
    assert feed(chain, *late) == ["+bef -c"]
    assert chain.number == 3


def test_given_a_chain_of_falling_weights_when_it_comes_then_it_is_followed() -> None:
    chain = Chain(named("a"))
    blocks = [block("b", 1, "a", 9), block("c", 2, "b", 4), block("s", 2, "b", 5)]
    assert feed(chain, *blocks) == ["+b", "+c", "+s -c"]


def test_given_equal_weights_when_they_come_then_the_first_stays() -> None:
    chain = Chain(named("a"))
    both = [block("b", 1, "a", 5), block("c", 1, "a", 5), block("d", 2, "c", 5)]
    assert feed(chain, *both) == ["+b"]
    assert (chain.head, named("c") in chain) == (named("b"), False)


def test_given_a_known_block_when_it_comes_again_then_nothing_happens() -> None:
    chain = Chain(named("a"))
    b, c = line("bc", "a", 1)
    assert feed(chain, b, b, c, b) == ["+b", "+c"]
    assert chain.repeated == 2


def test_given_a_block_below_the_threshold_when_it_comes_then_it_is_reported() -> None:
    chain = Chain(named("a"), threshold=3)
    main = line("bcdefg", "a", 1)
    assert feed(chain, *main)[-1] == "+g"
    assert feed(chain, block("x", 2, "b")) == ["x OLD"]
    assert feed(chain, block("y", 3, "c")) == []
    assert feed(chain, block("z", 7, "y")) == ["+yz -defg"]


def test_given_a_leap_when_what_it_stands_on_comes_again_then_that_is_known_for_applied() -> None:
    chain = Chain(named("a"), threshold=3)
    feed(chain, *line("bcdefghi", "a", 1))
    assert bring(chain, "d", block("x", 4, "d", 50)) == ["+x -fghi beyond"]
    assert feed(chain, *line("bc", "a", 1)) == []
    on_it = [block(str(at), 5 + at, str(at - 1) if at else "x", 51 + at) for at in range(9)]
    assert "PARENT" not in " ".join(feed(chain, *on_it))


def test_given_a_start_number_when_the_past_comes_then_it_is_not_taken() -> None:
    chain = Chain(named("a"), number=100, threshold=3)
    assert feed(chain, block("x", 96, "y"), block("z", 97, "x"), block("b", 101, "a")) == [
        "+b",  # of the head's own past, until something is on it
        "x PARENT",
        "z PARENT",
    ]
    assert feed(chain, block("w", 96, "v")) == ["w OLD"]


def test_given_a_wide_gap_in_the_numbers_when_a_reorg_crosses_it_then_it_is_followed() -> None:
    chain = Chain(named("0"), threshold=128)
    for number in range(1, 200):
        chain.add(block(str(number), number, str(number - 1), number))
    after = 199 + 129
    assert feed(chain, block("x", after, "199", 200)) == ["+x"]
    assert feed(chain, block("y", after + 1, "199", 201)) == ["+y -x"]
    assert len(chain._chain) == 128 + 2, "the head, as many below it, and the bottom's hash"
    assert feed(chain, block("old", 199 - 128, "z")) == ["old OLD"]


def test_given_a_gap_below_the_head_when_started_again_then_the_chain_grows_down_over_it() -> None:
    chain = Chain(named("x"), number=1000, threshold=3)
    assert feed(chain, block("b", 2, "a", 2), block("c", 3, "b", 3), block("x", 1000, "c", 4)) == []
    assert feed(chain, block("y", 1001, "c", 5)) == ["+y -x"]


def test_given_a_heavier_branch_whose_parent_was_refused_then_it_is_reported_at_once() -> None:
    chain = Chain(named("0"), threshold=3)
    feed(chain, *(block(str(at), at, str(at - 1), at) for at in range(1, 9)))
    assert feed(chain, block("x", 2, "1", 2)) == ["x OLD"]
    assert feed(chain, block("y", 6, "x", 99)) == ["stalled for x OLD heavier"]
    assert feed(chain, block("z", 7, "y", 100)) == ["stalled for x OLD heavier"]
    assert feed(chain, block("u", 8, "z", 101)) == [], "until twice as many wait"
    assert feed(chain, block("v", 8, "z", 102)) == ["stalled for x OLD heavier"]


def test_given_a_heavier_branch_beside_the_head_when_started_again_then_it_is_reported_again() -> (
    None
):
    branch = [block("x", 90, "gap", 200)]
    branch += [
        block(f"x{at}", at, f"x{at - 1}" if at > 91 else "x", 110 + at) for at in range(91, 110)
    ]
    for again in range(2):
        chain = Chain(named("100"), number=100, threshold=50)
        feed(chain, block("100", 100, "99", 100))
        found = feed(chain, *branch)
        assert found == ["stalled for gap nothing heavier"], again
    late = Chain(named("100"), number=100)
    feed(late, block("100", 100, "99", 100))
    ahead = [block(f"y{at}", at, f"y{at - 1}", at) for at in range(102, 150)]
    assert feed(late, *ahead) == [], "their parents may still come"


def test_given_a_long_chain_when_it_grows_then_what_is_kept_is_bounded() -> None:
    chain = Chain(named("0"), threshold=5, spare_max=3)
    for number in range(1, 200):
        chain.add(block(str(number), number, str(number - 1)))
        chain.add(block(f"s{number}", number, str(number - 1)))
        chain.add(block(f"w{number}", number, f"v{number}"))
        assert len(chain._tree.blocks) <= 6 + 3
        assert len(chain._chain) <= 7
        assert len(chain._tree.children) <= 12
        assert chain._tree.linked <= chain._chain | set(chain._spare)
    assert chain.number == 199


def test_given_a_branch_that_lost_when_its_fork_is_old_then_it_is_forgotten_with_it() -> None:
    chain = Chain(named("a"), threshold=2)
    feed(chain, *line("bc", "a", 1), *line("xy", "a", 1))
    assert feed(chain, *line("def", "c", 3)) == ["+d", "+e", "+f"]
    assert feed(chain, block("z", 9, "y")) == []
    assert chain.head == named("f")


def test_given_a_waiting_block_when_its_parent_never_comes_then_it_is_reported() -> None:
    chain = Chain(named("a"), threshold=2)
    assert feed(chain, block("x", 1, "nowhere"), *line("bcde", "a", 1)) == [
        *("+b", "+c", "+d", "+e", "x PARENT")
    ]


def test_given_too_many_waiting_blocks_when_one_more_comes_then_the_oldest_is_reported() -> None:
    chain = Chain(named("a"), spare_max=2)
    waiting = [block("x", 5, "u"), block("y", 6, "x"), block("z", 9, "v")]
    assert feed(chain, *waiting) == ["x CROWD", "y CROWD"]
    assert chain.waiting == waiting[2:]
    assert feed(chain, block("b", 1, "a"), block("c", 1, "a")) == ["+b"]
    assert chain.waiting == waiting[2:], "a branch that is linked does not wait"


def test_given_a_number_not_above_its_parents_when_it_comes_then_it_is_reported() -> None:
    chain = Chain(named("a"))
    b = block("b", 5, "a")
    assert feed(chain, b, block("c", 5, "b"), block("d", 6, "b")) == ["+b", "c NUMBER", "+d"]
    waits = [block("y", 7, "x"), block("z", 8, "y")]
    assert feed(chain, *waits, block("x", 7, "d")) == ["y NUMBER", "z NUMBER", "+x"]
    assert feed(chain, block("a", 5, "0")) == ["a NUMBER"]


def test_given_blocks_in_a_circle_when_they_come_then_it_is_broken() -> None:
    chain = Chain(named("a"))
    circle = [block("x", 5, "y"), block("y", 6, "x"), block("i", 7, "i"), block("a", 9, "a")]
    assert feed(chain, *circle) == ["x NUMBER", "i NUMBER", "a NUMBER"]
    assert feed(chain, block("b", 10, "a")) == ["+b"]


def test_given_a_whitelist_when_others_come_then_they_and_what_is_on_them_are_refused() -> None:
    chain = Chain(named("a"), whitelist={2: named("c")})
    x, y, z = line("xyz", "b", 2)
    assert feed(chain, block("b", 1, "a"), x, y, z) == [
        *("+b", "x WHITELIST", "y WHITELIST", "z WHITELIST")
    ]
    assert feed(chain, block("c", 2, "b")) == ["+c"]


def test_given_a_whitelist_when_a_refused_parent_comes_last_then_its_branch_goes() -> None:
    chain = Chain(named("a"), whitelist={2: named("c")})
    x, y, z = line("xyz", "b", 2)
    assert feed(chain, z, y, x) == ["x WHITELIST", "y WHITELIST", "z WHITELIST"]
    assert feed(chain, block("v", 5, "z")) == ["v WHITELIST"]


def test_given_a_start_that_the_whitelist_forbids_when_it_comes_then_the_chain_stays() -> None:
    chain = Chain(named("a"), whitelist={0: named("z")})
    b, x = block("b", 1, "a"), block("x", 1, "a", 9)
    assert feed(chain, b, block("a", 0, "0"), x) == ["+b", "a WHITELIST", "x WHITELIST"]
    assert feed(chain, block("c", 2, "b")) == ["+c"]


def test_given_no_start_when_only_the_first_may_be_one_then_all_else_must_link() -> None:
    chain = Chain(bootstrap=1)
    k, i = block("k", 5, "i"), block("i", 4, "h")
    assert feed(chain, k, block("x", 4, "g")) == ["+k unlinked"]
    assert feed(chain, block("l", 6, "k"), i) == ["+l", "+ikl -kl unlinked"]
    assert feed(chain, *line("rst", "i", 5)) == ["+rst -kl"]


def test_given_no_start_when_blocks_keep_coming_then_ever_fewer_are_taken_for_one() -> None:
    chain = Chain(threshold=1)
    blocks = [block(str(n), 100 + n, f"none{n}") for n in range(12)]
    assert [one.endswith("unlinked") for one in feed(chain, *blocks)].count(True) == 9


def test_given_no_start_when_the_first_block_of_all_comes_then_it_is_linked() -> None:
    first = Block(named("g"), 0, 0, bytes(32), {}, set())
    assert told(Chain(bootstrap=0).add(first)) == ["+g"]


def test_given_a_channel_from_the_chain_when_its_end_is_heavier_then_it_is_the_chain() -> None:
    chain = Chain(named("a"))
    feed(chain, *line("bcde", "a", 1))
    x, y, z = block("x", 2, "b", 1), block("y", 3, "x", 1), block("z", 4, "y", 50)
    assert bring(chain, "b", z, x, y) == ["+xyz -cde"]
    assert bring(chain, "b", x, y, z) == [], "a copy"
    assert feed(chain, block("f", 5, "e", 5), block("v", 6, "z", 60)) == ["+v"]


def test_given_a_channel_that_is_lighter_when_it_goes_on_then_it_is_the_chain_from_then() -> None:
    chain = Chain(named("a"))
    feed(chain, *line("bcde", "a", 1))
    assert bring(chain, "b", block("x", 2, "b", 1), block("y", 3, "x", 2)) == []
    assert feed(chain, block("z", 4, "y", 50)) == ["+xyz -cde"]


def test_given_a_channel_from_below_when_it_is_heavier_then_it_replaces_all() -> None:
    chain = Chain(named("a"), threshold=2)
    feed(chain, *line("bcdefg", "a", 1))
    x, y = block("x", 1, "old"), block("y", 2, "x", 7)
    assert bring(chain, "old", x, y) == ["+xy -efg beyond"]
    assert feed(chain, block("z", 3, "y", 8), block("h", 7, "g")) == ["+z"]


def test_given_a_channel_from_below_when_what_waits_on_it_is_heavier_then_it_replaces_all() -> None:
    chain = Chain(named("a"), threshold=2)
    feed(chain, *line("bcdefg", "a", 1), block("z", 6, "y", 8), block("s", 6, "f", 1))
    one = block("x", 1, "old", 2)
    assert bring(chain, "old", one, block("y", 5, "x", 6)) == ["+xyz -efg beyond"]
    assert chain.head == named("z")


def test_given_a_channel_from_below_that_is_lighter_when_it_goes_on_then_it_replaces_all() -> None:
    chain = Chain(named("a"), threshold=5)
    feed(chain, *line("bcdefghi", "a", 1))
    x, y = block("x", 1, "old"), block("y", 6, "x")
    x.token, y.token = {"s": 70}, {"s": 80}
    assert bring(chain, "old", x, y, begun=60) == []
    assert chain.floor("s") == 60
    assert [plain(one.hash) for one in chain.retained[-2:]] == ["x", "y"]
    assert feed(chain, block("j", 9, "i")) == ["+j"]
    assert feed(chain, block("z", 10, "y")) == ["+xyz -efghij beyond"]


def test_given_a_channel_on_one_that_waits_when_it_is_heavier_then_both_replace_all() -> None:
    chain = Chain(named("a"), threshold=5)
    feed(chain, *line("bcdefghi", "a", 1))
    first = [block("x", 1, "old"), block("y", 6, "x", 2), block("z", 7, "y", 3)]
    assert bring(chain, "old", *first) == bring(chain, "old", *first) == []
    assert chain.knows(named("y"))
    assert bring(chain, "y", block("v", 7, "y", 20)) == ["+xyv -defghi beyond"]


def test_given_a_copy_of_a_channel_when_it_comes_late_then_it_changes_nothing() -> None:
    chain = Chain(named("a"), threshold=2)
    feed(chain, *line("bcdefg", "a", 1))
    old = [block("x", 1, "old"), block("y", 2, "x", 7)]
    assert bring(chain, "old", *old) == ["+xy -efg beyond"]
    feed(chain, *(block(str(at), 3 + at, str(at - 1) if at else "y", 8 + at) for at in range(9)))
    assert bring(chain, "old", *old) == [], "they were applied"
    assert (chain.head, chain.repeated) == (named("8"), 2)
    assert bring(chain, "old", *line("uv", "old", 1)) == ["u OLD", "v OLD"]


def test_given_a_start_when_a_channel_of_its_past_comes_first_then_that_is_known_for_one() -> None:
    chain = Chain(named("e"), number=4)
    assert bring(chain, "a", *line("bc", "a", 1)) == []
    assert feed(chain, *line("de", "c", 3), block("f", 5, "e")) == ["+f"]
    assert feed(chain, block("r", 2, "b", 9)) == ["+r -cdef"]


def test_given_no_start_when_a_channel_comes_first_then_the_chain_begins_with_it() -> None:
    chain = Chain(bootstrap=1)
    assert bring(chain, "a", *line("bc", "a", 1)) == ["+b unlinked", "+c"]


def test_given_a_channel_that_brings_what_does_not_fit_when_it_comes_then_it_is_reported() -> None:
    chain = Chain(named("a"), whitelist={3: named("c")})
    feed(chain, *line("b", "a", 1))
    assert bring(chain, "o", block("x", 9, "w"), block("y", 3, "o")) == ["y WHITELIST"]
    assert [plain(one.hash) for one in chain.waiting] == ["x"], "it may stand on what comes"
    assert bring(chain, "p", block("p", 1, "p"), block("q", 4, "p", 3)) == [
        "p NUMBER",
        "stalled for p NUMBER heavier",
    ]
    assert chain.head == named("b")


def test_given_blocks_that_the_whitelist_refuses_when_a_channel_waits_then_it_goes_too() -> None:
    chain = Chain(named("a"), whitelist={1: named("w")})
    feed(chain, block("w", 1, "a", 5))
    assert bring(chain, "o", *line("xy", "o", 2)) == []
    assert feed(chain, block("o", 1, "a")) == ["o WHITELIST", "x WHITELIST", "y WHITELIST"]


def test_given_channels_that_wait_when_they_are_too_many_then_the_oldest_is_reported() -> None:
    chain = Chain(named("a"), spare_max=3)
    feed(chain, block("b", 1, "a", 9))
    assert bring(chain, "o", *line("xy", "o", 2)) == []
    assert bring(chain, "p", *line("uv", "p", 2)) == ["x CROWD", "y CROWD"]
    chain.spare_bytes_max = 9
    big = line("r", "q", 2)
    big[0].size = 10
    assert bring(chain, "q", *big) == ["u CROWD", "v CROWD", "r CROWD"]


def test_given_spare_blocks_when_their_bytes_are_too_many_then_the_oldest_is_reported() -> None:
    chain = Chain(named("a"), spare_bytes_max=100)
    feed(chain, *line("b", "a", 1))
    waiting = [*line("m", "l", 5), *line("p", "o", 5), *line("s", "r", 5)]
    for one in waiting:
        one.size = 50
    assert feed(chain, *waiting) == ["m CROWD"]


def test_given_a_gap_when_many_wait_for_it_then_it_is_reported_and_at_twice_as_many_again() -> None:
    chain = Chain(named("a"), threshold=3)
    feed(chain, *line("b", "a", 1))
    found = [
        event
        for at in range(300)
        for event in chain.add(block(f"w{at}", 9 + at, f"w{at - 1}" if at else "gap"))
    ]
    assert found == [Stalled(named("gap"), 9, waiting, 1) for waiting in (70, 140, 280)]


def test_given_blocks_with_tokens_when_asked_for_the_floor_then_it_is_the_lowest() -> None:
    chain = Chain(named("a"), threshold=2)
    assert chain.floor("s") is None
    for number, one in enumerate(line("bcdefg", "a", 1)):
        one.token = {"s": 10 * number}
        chain.add(one)
    assert chain.floor("s") == 30
    assert chain.floor("other") is None
