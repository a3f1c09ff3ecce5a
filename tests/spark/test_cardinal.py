"""The cardinal job with Spark and a broker: both engines, restarts, crashes, concurrent readers."""

import asyncio
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from cardinal.draft import Draft
from cardinal.producer import Messages, Producer
from cardinal.schema_file import as_toml
from cardinal.simulation import SCHEMA, Plan, Simulation
from cardinal.transport.publisher import Publisher
from pyspark_seriatim.jobs.cardinal import cardinal_tables
from pyspark_seriatim.jobs.cardinal.assembly import Assembly
from pyspark_seriatim.jobs.cardinal.cardinal_job import cardinal
from pyspark_seriatim.jobs.cardinal.cardinal_tables import SCHEMAS
from pyspark_seriatim.jobs.errors import JobError
from pyspark_seriatim.jobs.running.command import run
from tests.pyspark_seriatim.jobs.cardinal.streams import check, hashes_of, state_of
from tests.support.processes import SeriatimServer

PLAN = Plan(*(7, 120, 8, 6), forks=0.3, fork_depth=4, producers=2, duplicates=0.1, reorder=0)


@pytest.fixture
def chain(broker: SeriatimServer) -> Simulation:
    """A chain whose messages are in the broker."""
    simulation = Simulation(PLAN)
    asyncio.run(send(broker.port, simulation))
    return simulation


async def send(port: int, simulation: Simulation) -> None:
    async with Publisher("chain", f"nats://127.0.0.1:{port}") as publisher:
        for _, sent in simulation.messages():
            found: Messages = {}
            for topic, key, value in sent:
                found.setdefault(topic, []).append((key, value))
            if found:
                await publisher.send(found)


def assemble(broker: SeriatimServer, root: Path, *options: str) -> int:
    """The job, as its command line."""
    words = ["chain", str(root), "-s", f"127.0.0.1:{broker.port}", "--once", *options]
    return run(cardinal, words)


def holds(root: Path, simulation: Simulation) -> None:
    tables = cardinal_tables.open(str(root))
    assert check(tables) == hashes_of(simulation.chain)
    assert state_of(tables) == simulation.state
    assert tables.arrow("reorgs").num_rows == simulation.reorgs
    assert tables.arrow("events").num_rows == 0


def test_given_a_chain_when_assembled_by_both_engines_then_readers_see_it_and_only_whole(
    spark: SparkSession,
    broker: SeriatimServer,
    chain: Simulation,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    root, other = tmp_path / "fold", tmp_path / "state"
    done, seen, errors = threading.Event(), set(), []

    def look() -> None:
        try:
            while not done.wait(0.02):
                tables = cardinal_tables.open(str(root))
                check(tables)
                seen.add(tables.version)
        except BaseException as error:
            errors.append(error)

    reader = threading.Thread(target=look)
    reader.start()
    assert assemble(broker, root, "--max-offsets", "500") == 0
    done.set()
    reader.join()
    assert errors == []
    assert len(seen) > 2, "versions on the way"
    holds(root, chain)
    out = capsys.readouterr().out
    assert f"head: block {chain.chain[-1].number} 0x{chain.chain[-1].hash.hex()}" in out
    assert f"; {chain.reorgs} reorgs" in out

    tables = cardinal_tables.open(str(root))
    blocks, updates = tables.spark(spark, "blocks"), tables.spark(spark, "updates")
    assert blocks.count() == len(chain.chain)
    counted = updates.groupBy(f.col("block").alias("hash")).count()
    short = blocks.join(counted, "hash").where("count <> updates + deletes")
    assert short.count() == 0
    assert cardinal_tables.read(spark, str(root), "events").collect() == []

    assert assemble(broker, other, "--max-offsets", "900", "--engine", "state") == 0
    holds(other, chain)
    for name in SCHEMAS:
        mine, theirs = tables.arrow(name), cardinal_tables.open(str(other)).arrow(name)
        assert mine.to_pylist() == theirs.to_pylist(), name


@pytest.mark.parametrize("engine", ["fold", pytest.param("state", marks=pytest.mark.slow)])
@pytest.mark.usefixtures("spark")
def test_given_a_driver_that_dies_when_started_again_then_the_tables_are_the_same(
    broker: SeriatimServer,
    chain: Simulation,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    engine: str,
) -> None:
    root, write, deaths = tmp_path / "root", Assembly._write, iter(["before", "after"])

    def dying(self: Assembly, *args: Any) -> None:
        """Of a run, once before its version is there, once when only Spark does not know."""
        death = next(deaths, None)
        if death != "before":
            write(self, *args)
        if death is not None:
            raise JobError("the driver dies")

    monkeypatch.setattr(Assembly, "_write", dying)
    options = ("--engine", engine)
    statuses = [assemble(broker, root, *options) for _ in range(3)]
    lines = capsys.readouterr().err.splitlines()  # Spark's own state workers say much, too
    assert [line for line in lines if "seriatim" in line] == ["seriatim: the driver dies"] * 2
    assert statuses == [2, 2, 0]
    holds(root, chain)

    # Spark forgets that it has done its last batch, and does it again.
    checkpoint = root / "_seriatim" / "checkpoint"
    last = max((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    version = cardinal_tables.open(str(root)).version
    assert assemble(broker, root, *options) == 0
    assert cardinal_tables.open(str(root)).version == version
    holds(root, chain)

    # Spark forgets everything: the fold knows where to go on, and state is not the tables' alone.
    shutil.rmtree(checkpoint)
    asyncio.run(more(broker.port, chain))
    assert assemble(broker, root, *options) == (0 if engine == "fold" else 2)
    if engine == "state":
        assert "belong to another checkpoint" in capsys.readouterr().err
    else:
        assert "took 3 messages in 1 batch," in capsys.readouterr().out
        assert len(check(cardinal_tables.open(str(root)))) == len(chain.chain) + 1


async def more(port: int, chain: Simulation) -> None:
    """One block more, of three messages."""
    head = chain.chain[-1]
    block = Draft(head.number + 1, b"m" * 32, head.hash, head.weight + 1, {"a/1": b"1", "a/2": b""})
    async with Publisher("chain", f"nats://127.0.0.1:{port}") as publisher:
        for messages in block.messages(Producer(SCHEMA)):
            await publisher.send(messages)


@pytest.mark.usefixtures("spark")
def test_given_a_schema_when_assembled_then_only_what_is_tracked_is(
    broker: SeriatimServer, chain: Simulation, tmp_path: Path
) -> None:
    schema = tmp_path / "chain.toml"
    schema.write_text(as_toml(SCHEMA))
    options = ("--schema", str(schema), "--track", "a/")
    assert assemble(broker, tmp_path / "root", *options) == 0
    tables = cardinal_tables.open(str(tmp_path / "root"))
    assert check(tables) == hashes_of(chain.chain)
    keys = set(tables.arrow("updates")["key"].to_pylist())
    assert keys
    assert all(key.startswith("a/") for key in keys)
