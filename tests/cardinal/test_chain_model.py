"""Any tree of blocks in any order, compared with an oracle that recomputes everything each time."""

from dataclasses import dataclass
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cardinal.block import Block
from cardinal.chain import Chain
from cardinal.update import ChainUpdate
from tests.cardinal.stream import named
from tests.support.depth import examples

ROOT = named("root")


@dataclass
class Oracle:
    """The rules as one reads them: no state but what arrived and where the head is."""

    arrived: list[Block]
    path: list[bytes]  # from the root, without it

    def branch_weight(self, hash: bytes) -> int:
        (own,) = (one.weight for one in self.arrived if one.hash == hash)
        return max([own, *map(self.branch_weight, self.children(hash))])

    def children(self, hash: bytes) -> list[bytes]:
        return [one.hash for one in self.arrived if one.parent == hash]

    def best(self, hash: bytes) -> list[bytes]:
        children = self.children(hash)
        if not children:
            return []
        most = max(map(self.branch_weight, children))
        equals = [child for child in children if self.branch_weight(child) == most]
        kept = [child for child in equals if child in self.path]
        child = (kept or equals)[0]
        return [child, *self.best(child)]

    def add(self, block: Block) -> tuple[list[bytes], list[bytes]] | None:
        self.arrived.append(block)
        before, self.path = self.path, self.best(ROOT)
        shared = 0
        while before[: shared + 1] == self.path[: shared + 1] and shared < len(before):
            shared += 1
        return (self.path[shared:], before[shared:]) if self.path != before else None


@st.composite
def trees(draw: st.DrawFn, growing: bool) -> list[Block]:
    """Blocks on a root; `growing`: no two weigh the same, and each more than its parent."""
    blocks: list[Block] = []
    size = draw(st.integers(1, 14))
    steps = draw(st.permutations(range(1, size + 1)))
    for name in range(size):
        parent = draw(st.sampled_from([None, *blocks[-4:]]))
        number = (parent.number if parent else 0) + draw(st.integers(1, 2))
        if growing:  # the fraction makes it unique: powers of two below the whole
            weight = ((parent.weight >> 16 if parent else 0) + draw(st.integers(1, 3)) << 16) + (
                steps[name]
            )
        else:
            weight = draw(st.integers(0, 6))
        above = parent.hash if parent else ROOT
        blocks.append(Block(named(name), number, weight, above, {}, set()))
    return blocks


def replay(chain: Chain, order: list[Block]) -> list[tuple[list[bytes], list[bytes]]]:
    """The updates, each checked to follow from the ones before it."""
    found: list[Any] = []
    path: list[Any] = []
    for block in order:
        for event in chain.add(block):
            assert isinstance(event, ChainUpdate)
            added = [one.hash for one in event.added]
            removed = [one.hash for one in event.removed]
            kept = len(path) - len(removed)
            assert path[kept:] == removed, "what is taken back was applied, and is the newest"
            path[kept:] = added
            parents = [event.ancestor, *added[:-1]]
            assert [one.parent for one in event.added] == parents
            assert event.ancestor == (path[kept - 1] if kept else ROOT)
            assert len(set(path)) == len(path), "nothing is applied twice"
            found.append((added, removed))
        assert chain.head == (path[-1] if path else ROOT)
    return found


@settings(max_examples=examples(300))
@given(st.booleans().flatmap(lambda growing: trees(growing=growing)), st.data())
def test_given_blocks_in_any_order_when_added_then_the_oracle_says_the_same(
    blocks: list[Block], data: st.DataObject
) -> None:
    order = data.draw(st.permutations(blocks))
    oracle = Oracle([], [])
    expected = [update for block in order if (update := oracle.add(block)) is not None]
    assert replay(Chain(ROOT), order) == expected


@settings(max_examples=examples(200))
@given(trees(growing=True), st.data())
def test_given_two_orders_of_arrival_when_all_has_come_then_the_chain_is_the_same(
    blocks: list[Block], data: st.DataObject
) -> None:
    chains = [Chain(ROOT, number=0), Chain(ROOT)]
    for chain in chains:
        replay(chain, data.draw(st.permutations(blocks)))
    assert chains[0].head == chains[1].head == max(blocks, key=lambda one: one.weight).hash


@settings(max_examples=examples(200))
@given(trees(growing=False), st.integers(0, 4), st.integers(1, 5), st.data())
def test_given_little_room_when_blocks_come_then_every_update_still_follows(
    blocks: list[Block], threshold: int, spare: int, data: st.DataObject
) -> None:
    order = data.draw(st.permutations(blocks))
    assume(len(order) > 2)
    chain = Chain(ROOT, number=0, threshold=threshold, spare_max=spare)
    path: list[bytes] = []
    bottom = 0
    for block in order:
        for event in chain.add(block):
            if isinstance(event, ChainUpdate):
                kept = len(path) - len(event.removed)
                assert path[kept:] == [one.hash for one in event.removed]
                path[kept:] = [one.hash for one in event.added]
                assert event.ancestor == (path[kept - 1] if kept else ROOT)
        assert len(chain._spare) <= spare
        # So many blocks below the head, whatever their numbers; what was forgotten does not come
        # back when the chain becomes shorter.
        bottom = max(bottom, len(path) - threshold - 1)
        assert [hash for hash in path if hash in chain._tree.blocks] == path[bottom:]
        assert len(chain._tree.blocks) <= threshold + 1 + spare


@settings(max_examples=examples(200))
@given(trees(growing=True), st.data())
def test_given_a_consumer_that_starts_anywhere_when_all_comes_again_then_it_ends_at_the_head(
    blocks: list[Block], data: st.DataObject
) -> None:
    start = data.draw(st.sampled_from(blocks))
    chain = Chain(start.hash)
    first = Block(ROOT, 0, 0, bytes(32), {}, set())
    for block in data.draw(st.permutations([first, *blocks])):
        chain.add(block)
    assert chain.head == max(blocks, key=lambda one: one.weight).hash
