"""Cardinal messages as the source would deliver them, and the tables that must result."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from cardinal.draft import Draft
from cardinal.simulation import Plan, Simulation
from cardinal.transport.envelope import pack
from pyspark_seriatim.jobs.cardinal.assembly import Assembly, AssemblyOptions, Engine
from pyspark_seriatim.jobs.cardinal.cardinal_tables import Tables
from tests.cardinal.chains import GENESIS, SCHEMA, Made, Producer, branch, messages_of

JOURNAL = "1141c2c3a6b8558d"
BEGIN = 1_700_000_000_000_000  # us
Sent = tuple[str, bytes, bytes]


def table(sent: Iterable[Sent], first: int = 1, gap_us: int = 1000) -> pa.Table:
    """Messages, numbered by twos: between them others have theirs."""
    topics, keys, values = zip(*sent, strict=True)
    return raw(
        [f"cardinal.chain.{topic}" for topic in topics],
        [pack(key, value) for key, value in zip(keys, values, strict=True)],
        first,
        gap_us,
    )


def raw(subjects: Sequence[str], payloads: Sequence[bytes], first: int, gap_us: int) -> pa.Table:
    numbers = [first + 2 * at for at in range(len(subjects))]
    return pa.table(
        {
            "sequence": pa.array(numbers, pa.int64()),
            "subject": pa.array(subjects, pa.string()),
            "payload": pa.array(payloads, pa.binary()),
            "timestamp": pa.array(
                [BEGIN + number * gap_us for number in numbers], pa.timestamp("us", tz="UTC")
            ),
        }
    )


def simulated(plan: Plan) -> tuple[Simulation, pa.Table]:
    """A chain, and its messages as a bad network brings them."""
    simulation = Simulation(plan)
    sent = [message for _, some in simulation.messages() for message in some]
    return simulation, table(sent)


def cut(rows: pa.Table, sizes: Sequence[int]) -> list[pa.Table]:
    """The rows in pieces of these sizes, again and again."""
    pieces: list[Any] = []
    at = 0
    while at < rows.num_rows:
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(rows.slice(at, size))
        at += size
    return pieces


def reorganised() -> tuple[list[Sent], list[Made]]:
    """A fork, then a channel that replaces more than a threshold of 2; and the final chain."""
    base = branch(GENESIS, "x", 6)
    left, right = branch(base[-1], "l", 2), branch(base[-1], "r", 4)
    deep = branch(base[1], "d", 12)
    end = branch(deep[-1], "e", 2)
    producer = Producer(SCHEMA)
    parts = [part for block in [*base, *left, *right] for part in messages_of(producer, block)]
    channel = producer.reorg(base[1].number, base[1].hash, right[-1].weight, deep[-1].hash)
    parts.append(channel.begin())
    parts += [part for block in deep for part in messages_of(channel, block)]
    parts.append(channel.complete())
    parts += [part for block in end for part in messages_of(producer, block)]
    sent = [(topic, *one) for part in parts for topic, some in part.items() for one in some]
    return sent, [*base[:2], *deep, *end]


def assembly(root: Path, **settings: object) -> Assembly:
    """One that takes batches without Spark; a new one is a driver that was started again."""
    given = {"tracking": None, "engine": Engine.FOLD, "threshold": 128, **settings}
    return Assembly(AssemblyOptions("chain", str(root), "", **given), JOURNAL)  # type: ignore[arg-type]


def take(one: Assembly, pieces: Sequence[pa.Table], first: int = 0, query: str = "q") -> None:
    """Batches, numbered from `first`."""
    for batch, piece in enumerate(pieces, first):
        one.batch(lambda piece=piece: piece, query, batch)  # type: ignore[misc]


def check(tables: Tables) -> list[bytes]:
    """The hashes of the chain, after looking whether the tables are one chain of whole blocks."""
    blocks, updates = tables.arrow("blocks").to_pylist(), tables.arrow("updates").to_pylist()
    hashes = [one["hash"] for one in blocks]
    assert [one["parent"] for one in blocks[1:]] == hashes[:-1], "not one chain"
    assert len(set(hashes)) == len(hashes), "a block is there twice"
    place = {hash: at for at, hash in enumerate(hashes)}
    found = [(place[one["block"]], one["position"]) for one in updates]  # none is of another block
    rows = [one["updates"] + one["deletes"] for one in blocks]
    assert found == [(at, p) for at, count in enumerate(rows) for p in range(count)]
    numbers = [one["number"] for one in blocks]
    assert [one["number"] for one in updates] == [numbers[at] for at, _ in found]
    return hashes


def state_of(tables: Tables) -> dict[str, bytes]:
    """What is set after the last block."""
    state: dict[str, bytes] = {}
    for one in tables.arrow("updates").to_pylist():
        if one["deleted"]:
            state.pop(one["key"], None)
        else:
            state[one["key"]] = one["value"]
    return state


def hashes_of(blocks: Iterable[Draft | Made]) -> list[bytes]:
    return [block.hash for block in blocks]
