"""What the generator makes is a stream that an assembler and a chain follow to its end."""

from itertools import islice

import pytest

from cardinal.assembler import Assembler
from cardinal.block import Block
from cardinal.chain import Chain
from cardinal.simulation import Plan, Simulation
from cardinal.update import ChainUpdate


def consume(simulation: Simulation) -> tuple[dict[str, bytes], list[bytes], Assembler]:
    """The state that a consumer ends with, its chain of hashes, and its assembler."""
    assembler, chain = Assembler(), Chain(bytes(32))
    path: list[Block] = []
    for _, sent in simulation.messages():
        rows = [(key, value, offset) for offset, (_, key, value) in enumerate(sent)]
        for event in assembler.feed(rows):
            assert isinstance(event, Block)
            for update in chain.add(event):
                assert isinstance(update, ChainUpdate)
                assert path[len(path) - len(update.removed) :] == update.removed
                path[len(path) - len(update.removed) :] = update.added
    state: dict[str, bytes] = {}
    for block in path:
        for key in block.deletes:
            state.pop(key, None)
        state.update(block.updates)
    return state, [block.hash for block in path], assembler


@pytest.mark.parametrize(
    "plan",
    [
        Plan(),
        Plan(seed=1, forks=0.5, fork_depth=4),
        Plan(seed=2, producers=3, duplicates=0.3, reorder=200),
        Plan(seed=3, producers=4, loss=0.02, reorder=50, forks=0.3),
        Plan(seed=4, updates=0, sub_batch=0, blocks=20),
        Plan(seed=5, sub_batch=100, updates=3, blocks=10),
    ],
    ids=str,
)
def test_given_a_plan_when_its_stream_is_consumed_then_chain_and_state_are_the_producers(
    plan: Plan,
) -> None:
    simulation = Simulation(plan)
    state, hashes, assembler = consume(simulation)
    assert hashes == [block.hash for block in simulation.chain]
    assert state == simulation.state
    assert (assembler.pending_bytes, assembler.dropped) == (0, 0)


def test_given_one_seed_when_run_twice_then_it_is_the_same_and_another_differs() -> None:
    runs = [list(Simulation(Plan(seed=seed, producers=2, reorder=9)).messages()) for seed in (7, 7)]
    assert runs[0] == runs[1]
    assert runs[0] != list(Simulation(Plan(seed=8, producers=2, reorder=9)).messages())


def test_given_forks_when_blocks_are_made_then_some_overtake_the_chain() -> None:
    simulation = Simulation(Plan(blocks=300, forks=0.3, updates=1))
    made = list(simulation.blocks())
    assert 300 <= len(made) <= 304
    assert 0 < simulation.reorgs < simulation.forks
    assert len({block.hash for block in made}) == len(made)
    assert [block.number for block in simulation.chain] == list(range(len(simulation.chain)))
    assert simulation.chain[-1].number == max(block.number for block in made)
    parents = {block.hash: block for block in made}
    assert all(one.weight == parents[one.parent].weight + 1 for one in islice(made, 1, None))


def test_given_loss_when_there_is_one_producer_then_blocks_stay_incomplete() -> None:
    simulation = Simulation(Plan(loss=0.05))
    _, hashes, assembler = consume(simulation)
    assert simulation.lost > 0
    assert assembler.pending
    assert len(hashes) < len(simulation.chain)


def test_given_reordering_when_messages_come_then_none_is_later_than_planned() -> None:
    plain = [one for _, sent in Simulation(Plan(blocks=30)).messages() for one in sent]
    mixed = [one for _, sent in Simulation(Plan(blocks=30, reorder=20)).messages() for one in sent]
    assert mixed != plain
    assert sorted(mixed) == sorted(plain)
    places = {one: place for place, one in enumerate(plain)}
    assert max(abs(places[one] - place) for place, one in enumerate(mixed)) <= 20


def test_given_competing_blocks_when_made_then_their_sub_batches_have_the_same_id() -> None:
    made = list(Simulation(Plan(forks=0.5, blocks=50)).blocks())
    ids = {(one.number, one.batches["s/"].id) for one in made[1:]}
    assert len(ids) == len({number for number, _ in ids}) < len(made) - 1
