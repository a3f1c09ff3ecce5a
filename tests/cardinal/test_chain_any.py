"""Blocks that no honest producer sends, channels that come and go: every update still follows."""

from hypothesis import given, settings
from hypothesis import strategies as st

from cardinal.block import Block
from cardinal.chain import Chain
from cardinal.update import ChainUpdate, Event
from tests.cardinal.stream import named
from tests.support.depth import examples

NAMES = [named(name) for name in range(9)] + [bytes(32)]
names = st.sampled_from(NAMES)
# One block for each hash and parent, so that a hash may come with several: a liar's.
blocks = st.builds(
    lambda hash, number, weight, parent, offset: Block(
        hash, number, weight, parent, {}, set(), {"s": offset}, size=offset
    ),
    names,
    st.integers(0, 9),
    st.integers(0, 5),
    names,
    st.integers(0, 99),
)
steps = st.lists(
    st.tuples(st.just("add"), blocks)
    | st.tuples(st.just("add"), blocks)
    | st.tuples(names, st.lists(blocks, min_size=1, max_size=4)),
    max_size=40,
)


Action = tuple[str, Block] | tuple[bytes, list[Block]]


def take(chain: Chain, step: Action) -> list[Event]:
    """A block; or the ancestor of a channel, and what it brings."""
    if isinstance(step[1], Block):
        return chain.add(step[1])
    assert isinstance(step[0], bytes)
    return chain.branch(step[0], step[1])


def check(chain: Chain, spare_max: int, threshold: int) -> None:
    """What holds between any two steps."""
    tree, path = chain._tree, [chain.head]
    while path[-1] != chain._bottom:
        path.append(tree.blocks[path[-1]].parent)
    assert chain._chain == set(path), "the chain leads from the head to its bottom"
    assert set(chain._spare) == set(tree.blocks) - chain._chain
    assert len(chain._spare) <= spare_max
    assert tree.linked == set(tree.under(chain._bottom))
    assert all(one.hash in tree.children[one.parent] for one in tree.blocks.values())
    if chain.number is not None:
        assert all(one.number >= chain.number - threshold for one in tree.blocks.values())
    assert sum(len(one.blocks) for one in chain._aside) <= spare_max
    assert chain._spare.bytes == sum(tree.blocks[hash].size for hash in chain._spare)
    floors = [one.token["s"] for one in chain.retained]
    found = chain.floor("s")
    assert (found is None) == (not floors)
    assert found is None or found <= min(floors)


@settings(max_examples=examples(200), report_multiple_bugs=False)
@given(
    steps,
    st.none() | names,
    st.integers(0, 12),
    st.integers(1, 6),
    st.integers(0, 4),
    st.dictionaries(st.integers(0, 9), names, max_size=2),
)
def test_given_any_blocks_and_channels_when_added_then_the_updates_follow_from_each_other(
    some: list[Action],
    start: bytes | None,
    threshold: int,
    spare_max: int,
    bootstrap: int,
    whitelist: dict[int, bytes],
) -> None:
    chain = Chain(
        start,
        threshold=threshold,
        whitelist=whitelist,
        bootstrap=bootstrap,
        spare_max=spare_max,
    )
    path: list[bytes] = []
    for step in some:
        for event in take(chain, step):
            if not isinstance(event, ChainUpdate):
                continue
            if event.unlinked:
                path = []
            removed = [one.hash for one in event.removed]
            kept = max(len(path) - len(removed), 0)
            assert path[kept:] == removed[len(removed) - len(path[kept:]) :], "or from before us"
            path = [] if event.beyond else path[:kept]
            parents = [event.ancestor, *(one.hash for one in event.added[:-1])]
            assert [one.parent for one in event.added] == parents
            assert not path or path[-1] == event.ancestor
            path += [one.hash for one in event.added]
            assert len(set(path)) == len(path)
        assert not path or path[-1] == chain.head
        check(chain, spare_max, threshold)
