"""The fold: any division of messages into batches leads to the same tables."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cardinal.block import Block
from cardinal.follower import ChainFollower
from cardinal.messages import Reorg, ReorgComplete
from cardinal.simulation import Plan
from pyspark_seriatim.jobs.cardinal import snapshot
from pyspark_seriatim.jobs.cardinal.fold import Added, EventRow, Fold, FoldOutcome, WholeBlock
from tests.cardinal.chains import GENESIS, SCHEMA, Producer, branch, messages_of, rows_of
from tests.pyspark_seriatim.jobs.cardinal.streams import (
    BEGIN,
    JOURNAL,
    cut,
    hashes_of,
    raw,
    reorganised,
    simulated,
    table,
)
from tests.support.depth import examples


class Applied:
    """The blocks that outcomes lead to, as a list: what tables must hold."""

    def __init__(self) -> None:
        self.added: list[Added] = []
        self.outcomes: list[FoldOutcome] = []

    @property
    def chain(self) -> list[bytes]:
        return [one.block.hash for one in self.added]

    def apply(self, outcome: FoldOutcome) -> None:
        if outcome.cut is not None:
            kept = [one for one in self.added if one.block.number < outcome.cut]
            assert kept != self.added, "a cut that removes nothing"
            self.added = kept
        self.added += outcome.added
        self.outcomes.append(outcome)
        parents = [one.block.parent for one in self.added]
        assert parents[1:] == self.chain[:-1]

    def behind(self, ancestor: bytes, below: int | None) -> list[tuple[int, bytes]]:
        found = [
            (one.block.number, one.block.hash)
            for one in self.added
            if below is None or one.block.number < below
        ]
        hashes = [hash for _, hash in found]
        return found[hashes.index(ancestor) + 1 :] if ancestor in hashes else found


def fold(**options: object) -> Fold:
    return Fold(ChainFollower(**options), JOURNAL, "cardinal.chain.")  # type: ignore[arg-type]


@pytest.mark.parametrize("pieces", [1, 4])
def test_given_a_block_whose_children_are_whole_first_when_folded_then_it_is_in_the_tables(
    pieces: int,
) -> None:
    blocks = branch(GENESIS, "x", 4)
    producer = Producer(SCHEMA)
    sent = [messages_of(producer, block) for block in blocks]
    late = [part for parts in sent[1:] for part in parts] + sent[0]
    rows = table(row[:3] for row in rows_of([sent[0][0], *late]))
    applied, folded = Applied(), fold(hold=False)
    for piece in cut(rows, [rows.num_rows // pieces]):
        applied.apply(folded.fold_batch(piece, applied))
    assert applied.chain == [block.hash for block in blocks]
    assert [one for outcome in applied.outcomes for one in outcome.reorgs] == [], (
        "none was replaced"
    )


plans = st.builds(
    Plan,
    seed=st.integers(0, 1000),
    blocks=st.just(40),
    updates=st.just(4),
    value_bytes=st.just(3),
    forks=st.sampled_from([0.0, 0.4]),
    fork_depth=st.just(4),
    producers=st.integers(1, 2),
    duplicates=st.sampled_from([0.0, 0.3]),
    reorder=st.sampled_from([0, 40]),
)


@settings(max_examples=examples(40))
@given(plans, st.lists(st.integers(1, 300), min_size=1, max_size=3), st.booleans())
def test_given_any_batches_of_a_chain_when_folded_then_it_is_the_heaviest(
    plan: Plan, sizes: list[int], restarts: bool
) -> None:
    simulation, rows = simulated(plan)
    one, applied, whole = fold(), Applied(), Applied()
    for piece in cut(rows, sizes):
        applied.apply(one.fold_batch(piece, applied))
        if restarts:
            _, parts = snapshot.load(snapshot.dump({}, one.parts()))
            one = fold()
            one.resume(parts)
    whole.apply(fold().fold_batch(rows, whole))
    assert applied.chain == whole.chain
    if whole.chain[0] == simulation.chain[0].hash:  # the first to be whole is where all begins
        assert applied.chain == hashes_of(simulation.chain)
    assert applied.added == whole.added, "contents, and when each became whole"
    assert [r for o in applied.outcomes for r in o.reorgs] == whole.outcomes[0].reorgs
    assert not any(outcome.events for outcome in applied.outcomes) or plan.reorder


def test_given_rows_in_any_order_when_folded_then_their_numbers_decide() -> None:
    _, rows = simulated(Plan(blocks=30, forks=0.3, seed=2))
    straight, turned = Applied(), Applied()
    straight.apply(fold().fold_batch(rows, straight))
    turned.apply(fold().fold_batch(rows.take(pa.array(range(rows.num_rows - 1, -1, -1))), turned))
    assert turned.added == straight.added


def test_given_messages_that_were_taken_when_they_come_again_then_nothing_changes() -> None:
    _, rows = simulated(Plan(blocks=30, forks=0.3, seed=2))
    one, applied = fold(), Applied()
    applied.apply(one.fold_batch(rows.slice(0, 200), applied))
    before = one.next
    assert one.fold_batch(rows.slice(20, 150), applied) == FoldOutcome()
    assert one.next == before
    applied.apply(one.fold_batch(rows.slice(100), applied))
    other = Applied()
    other.apply(fold().fold_batch(rows, other))
    assert applied.added == other.added


def test_given_blocks_when_added_then_they_say_when_they_were_whole() -> None:
    blocks = branch(GENESIS, "x", 3)
    parts = [part for block in blocks for part in messages_of(Producer(SCHEMA), block)]
    sent = [(topic, *one) for part in parts for topic, some in part.items() for one in some]
    rows = table(sent)
    numbers = rows["sequence"].to_pylist()
    of = [bytes(key[1:33]) for _, key, _ in sent]
    last = [numbers[len(of) - 1 - of[::-1].index(block.hash)] for block in blocks]
    applied = Applied()
    applied.apply(fold().fold_batch(rows, applied))
    assert [one.block.last for one in applied.added] == last
    assert [one.time for one in applied.added] == [BEGIN + at * 1000 for at in last]


@pytest.mark.parametrize("sizes", [[10_000], [40], [7, 90]], ids=str)
@pytest.mark.parametrize("threshold", [2, 128])
def test_given_a_channel_deeper_than_the_threshold_when_folded_then_all_it_replaces_goes(
    sizes: list[int], threshold: int
) -> None:
    sent, final = reorganised()
    one, applied = fold(threshold=threshold), Applied()
    for piece in cut(table(sent), sizes):
        applied.apply(one.fold_batch(piece, applied))
    assert applied.chain == hashes_of(final)
    reorgs = [reorg for outcome in applied.outcomes for reorg in outcome.reorgs]
    fork, deep = reorgs
    assert (len(fork.removed), len(fork.added), fork.beyond) == (2, 3, False)
    assert deep.ancestor == final[1].hash
    assert deep.beyond == (threshold == 2)
    assert len(deep.removed) == 8, "four of the trunk and four of the branch"


def test_given_what_is_wrong_when_folded_then_it_is_reported() -> None:
    blocks = branch(GENESIS, "x", 2)
    parts = [part for block in blocks for part in messages_of(Producer(SCHEMA), block)]
    sent = [(topic, *one) for part in parts for topic, some in part.items() for one in some]
    cut_off = [row for row in sent if row[1][0] != 0 or row[1][1:33] != blocks[1].hash]
    rows = table([("blocks", b"\x09" + bytes(32), b""), *cut_off])
    bad = raw(["cardinal.chain.blocks"], [b"3:abc"], rows.num_rows * 2 + 1, 1000)
    late = raw(["cardinal.chain.blocks"], [b"33:" + b"\xff" * 33 + b",0:,"], 10**9, 1000)
    one, applied = fold(), Applied()
    for piece in (rows, bad, late):
        applied.apply(one.fold_batch(piece, applied))
    events = [event for outcome in applied.outcomes for event in outcome.events]
    assert [(one.kind, one.sequence) for one in events] == [
        ("Dropped", 1),
        ("BadEnvelope", rows.num_rows * 2 + 1),
        ("Evicted", 10**9),
    ]
    assert "no message has the type 09" in events[0].text
    assert events[1].text.startswith("cardinal.chain.blocks: ")
    assert (events[2].hash, events[2].number) == (blocks[1].hash, None)
    assert one.counts["Evicted"] == one.counts["Dropped"] == one.counts["BadEnvelope"] == 1


def test_given_the_end_of_a_reorg_that_was_not_seen_to_begin_when_folded_then_it_is_reported() -> (
    None
):
    begun, other = branch(GENESIS, "x", 2)
    begin = Producer(SCHEMA).reorg(0, GENESIS.hash, 0, begun.hash)
    end = (b"\x06" + other.hash, b"\x04")
    (outcome,) = [
        fold().fold_batch(
            table([(begin.topic, *begin.begin()[begin.topic][0]), (begin.topic, *end)]), Applied()
        )
    ]
    assert [(one.kind, one.hash, one.number) for one in outcome.events] == [
        ("NotOpen", other.hash, 2)
    ]


def test_given_whole_blocks_when_taken_in_pieces_then_it_is_as_their_messages() -> None:
    """What `state` hands over: blocks in the order in which they became whole."""
    sent, final = reorganised()
    expected, applied = Applied(), Applied()
    expected.apply(fold(threshold=2).fold_batch(table(sent), expected))
    whole = [
        WholeBlock(one.block.last, one.time, "", one.block)
        for outcome in expected.outcomes
        for one in outcome.added
    ]
    one = fold(threshold=2)
    for at in range(len(whole), 0, -3):
        applied.apply(one.take_whole(whole[max(at - 3, 0) : at], applied))
    assert applied.chain != expected.chain, "the first to come is where the chain begins"
    one, applied = fold(threshold=2), Applied()
    applied.apply(one.take_whole(list(reversed(whole)), applied))
    assert applied.chain == hashes_of(final)


def test_given_a_channel_of_whole_blocks_when_taken_then_it_replaces_what_it_must() -> None:
    def block(name: str, number: int, parent: str) -> Block:
        place = (name.rjust(32).encode(), number, number, parent.rjust(32).encode())
        return Block(*place, {}, set(), {JOURNAL: 0}, number)

    def whole(at: int, topic: str, event: Block | Reorg | ReorgComplete | EventRow) -> WholeBlock:
        if isinstance(event, Block):
            event.last = at
        return WholeBlock(at, at, topic, event)

    base = [block(str(n), n, str(n - 1)) for n in range(1, 6)]
    other = [block("d2", 2, "1"), block("d3", 3, "d2")]
    other[1].weight = 9
    ancestor = base[0].hash
    found = [whole(at, "", one) for at, one in enumerate(base)]
    found.append(whole(10, "reorg.x", Reorg(ancestor, 1)))
    found.append(whole(11, "", block("6", 6, "5")))  # nobody waits for the channel
    found += [whole(at, "reorg.x", one) for at, one in enumerate(other, 12)]
    evicted = EventRow(14, 14, "Evicted", other[0].hash, 2, "a copy of it")
    found += [whole(14, "", evicted), whole(15, "reorg.x", ReorgComplete(ancestor, 1))]
    one, applied = fold(), Applied()
    for at in range(0, len(found), 2):
        applied.apply(one.take_whole(found[at : at + 2], applied))
    names = [hash.decode().strip() for hash in applied.chain]
    assert names == ["1", "d2", "d3"]
    removed = [[h.decode().strip() for h in r.removed] for o in applied.outcomes for r in o.reorgs]
    assert removed == [["2", "3", "4", "5", "6"]]
    assert not any(outcome.events for outcome in applied.outcomes), (
        "who has it, lacks nothing of it"
    )
