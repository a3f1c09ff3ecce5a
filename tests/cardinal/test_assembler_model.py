"""Any blocks, their messages in any order with any copies: the same blocks, each once."""

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from cardinal.assembler import Assembler
from cardinal.block import Block
from cardinal.producer import Producer
from cardinal.schema import Schema
from tests.cardinal.stream import Row, flat, named
from tests.support.depth import examples

SCHEMA = Schema({"a/": "ta", r"trade\.": "tt", "b/[0-9]+": "tb", "u/": "tu"}, default="t")
KEYS = ["a/", "a/1", "a/1/2", "trade.AAPL", "trade.B", "b/1", "b/12", "b/12/x", "u/1", "x/1", "é"]
SUBS = ["s/", "us/"]


@dataclass
class Told:
    """What a producer is told of a block."""

    updates: dict[str, bytes]
    deletes: list[str]
    batches: dict[str, tuple[list[str], dict[str, bytes]]] = field(default_factory=dict)


values = st.binary(max_size=3)
contents = st.tuples(
    st.lists(st.sampled_from(["s/1", "s/2", "a/1"]), max_size=3),
    st.dictionaries(st.sampled_from(["s/1", "s/3", "s/4"]), values, max_size=3),
)
told = st.builds(
    Told,
    st.dictionaries(st.sampled_from(KEYS), values, max_size=8),
    st.lists(st.sampled_from([key for key in KEYS if key[0] in "abtu"]), max_size=5),
    st.dictionaries(st.sampled_from(SUBS), contents, max_size=2),
)


def id_of(prefix: str) -> bytes:
    return named(prefix)  # the same in every block, as block numbers are in the reference's use


def messages(number: int, block: Told) -> list[tuple[bytes, bytes]]:
    producer = Producer(SCHEMA)
    hash, ids = named(number), {prefix: id_of(prefix) for prefix in block.batches}
    made = flat(
        producer.block(number, hash, named("p"), 1, block.updates, block.deletes, ids),
    )
    for prefix, (deletes, updates) in block.batches.items():
        made += flat(producer.sub_batch(hash, id_of(prefix), deletes, updates))
    return made


def expected(number: int, block: Told, tracked: bool) -> Block:
    """What comes out, said without the wire; untracked is what begins with u."""

    def wanted(key: str) -> bool:
        return not tracked or not key.startswith("u")

    updates, deletes = {}, set()
    for prefix, (deleted, updated) in sorted(block.batches.items(), key=lambda one: id_of(one[0])):
        if wanted(prefix):
            deletes.update(deleted)
            updates.update(updated)
    updates.update({key: value for key, value in block.updates.items() if wanted(key)})
    deletes.update(key for key in block.deletes if wanted(key))
    return Block(named(number), number, 1, named("p"), updates, deletes)


@settings(max_examples=examples(100))
@given(st.lists(told, min_size=1, max_size=3), st.booleans(), st.data())
def test_given_any_copies_in_any_order_when_fed_then_the_same_blocks_come_once(
    blocks: list[Told], tracked: bool, data: st.DataObject
) -> None:
    some = [one for number, block in enumerate(blocks) for one in messages(number, block)]
    copies = data.draw(st.lists(st.sampled_from(some), max_size=20))
    shuffled = data.draw(st.permutations(some + copies))
    stream: list[Row] = [(*one, offset) for offset, one in enumerate(shuffled)]
    assembler = Assembler((lambda key: not key.startswith("u")) if tracked else None)
    events = []
    while stream:
        size, source = data.draw(st.integers(1, 30)), data.draw(st.sampled_from("xy"))
        events += assembler.feed(stream[:size], source)
        stream = stream[size:]
    assert all(isinstance(event, Block) for event in events)
    found = {event.hash: event for event in events if isinstance(event, Block)}
    assert len(found) == len(events)
    assert found == {named(n): expected(n, block, tracked) for n, block in enumerate(blocks)}
    assert (assembler.pending_bytes, assembler.dropped) == (0, 0)


@settings(max_examples=examples(60))
@given(st.permutations(range(12)), st.lists(st.integers(0, 11), max_size=6), st.data())
def test_given_offsets_in_any_order_when_a_block_is_whole_then_its_token_is_the_lowest(
    order: list[int], again: list[int], data: st.DataObject
) -> None:
    block = Told({f"a/{n}": b"" for n in range(11)}, [])
    some = messages(1, block)
    sources = [data.draw(st.sampled_from("xy")) for _ in some]
    assembler = Assembler()
    events = []
    for number in [*again, *order]:
        events += assembler.feed([(*some[number], number)], sources[number])
    (whole,) = (event for event in events if isinstance(event, Block))
    assert whole.token == {
        source: min(n for n, other in enumerate(sources) if other == source)
        for source in set(sources)
    }
    assert assembler.floor("x") == max((n for n in range(12) if sources[n] == "x"), default=-1) + 1
