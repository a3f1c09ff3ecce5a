"""Cardinal Streams assembled into tables by the job `cardinal`, and by the same fold without Spark.

    cardinal-fold       blocks of 200 messages, assembled in the driver
    cardinal-fold-20    blocks of 20
    cardinal-state      blocks of 200, by transformWithState; a quarter of the messages
    cardinal-floor      blocks of 200 that are in memory already, folded into the same tables: no
                        broker, no Spark

The clock runs from the query's start to its end, in batches of 250 000 messages; workers are
started and code is warm. Values have 128 bytes.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING

import pyarrow as pa

from benchmarks.cardinal import SCHEMA, blocks_of
from benchmarks.errors import BenchmarkError
from benchmarks.process import ServerProcess
from benchmarks.servers import KNOWN
from benchmarks.spark.runs import WARM, Run, Scenario
from cardinal.producer import Producer
from cardinal.transport.envelope import pack, subject_of
from pyspark_seriatim.client import Client
from pyspark_seriatim.jobs.cardinal import cardinal_tables
from pyspark_seriatim.jobs.cardinal.assembly import Assembly, AssemblyOptions, Engine
from pyspark_seriatim.jobs.cardinal.cardinal_job import MAX_OFFSETS, ROCKSDB, assemble
from pyspark_seriatim.options import Options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

APPLICATION, THRESHOLD = "evm", 128
PIECE = 10_000
STATE_PART = 4  # fewer messages for the slower engine
TIME = pa.timestamp("us", tz="UTC")


def messages(size: int, rows: int) -> Iterator[tuple[str, bytes]]:
    """Subject and payload of so many messages, in blocks of `size`."""
    producer = Producer(SCHEMA)
    for number, hash, parent, updates in blocks_of(size, rows // size):
        for topic, some in producer.block(number, hash, parent, number, updates).items():
            subject = subject_of(APPLICATION, topic)
            for key, value in some:
                yield subject, pack(key, value)


@contextmanager
def broker_of(size: int, rows: int) -> Iterator[tuple[ServerProcess, str, str]]:
    """A broker with the messages, its address, and the id of its journal."""
    with ServerProcess(KNOWN["seriatim"]) as server:
        place = f"127.0.0.1:{server.port}"
        client = Client(Options.parse({"servers": place}, "stream"))
        waiting: list[bytes] = []
        with client.connection() as connection:
            for subject, payload in messages(size, rows):
                waiting.append(b"PUB %b %d\r\n%b\r\n" % (subject.encode(), len(payload), payload))
                if len(waiting) == PIECE:
                    connection.send(b"".join(waiting))
                    connection.flush()
                    waiting = []
            connection.send(b"".join(waiting))
            connection.flush()
        journal = client.info().journal
        client.close()
        yield server, place, journal


def job(engine: Engine, size: int, part: int = 1) -> Scenario:
    """Run the job like its command with --once."""

    def run(session: "SparkSession", rows: int) -> Run:
        for name, value in ROCKSDB.items():
            session.conf.set(name, value)
        rows = rows // part // size * size
        with tempfile.TemporaryDirectory() as folder:
            with broker_of(size, rows // WARM // size * size) as (_, place, journal):
                wanted = AssemblyOptions(
                    APPLICATION, f"{folder}/warm", place, None, engine, THRESHOLD
                )
                assemble(session, Assembly(wanted, journal))
            with broker_of(size, rows) as (server, place, journal):
                wanted = AssemblyOptions(
                    APPLICATION, f"{folder}/root", place, None, engine, THRESHOLD
                )
                before, begun = server.cpu_seconds(), perf_counter()
                done = assemble(session, Assembly(wanted, journal))
                seconds = perf_counter() - begun
                _check(f"{folder}/root", rows // size)
                note = f"{done.batches} batches, blocks of {size}"
                return Run(rows, seconds, server.cpu_seconds() - before, note)

    return run


def floor(session: "SparkSession", rows: int) -> Run:
    """The assembly of batches that are in memory, into the same tables."""
    del session
    size = 200
    rows = rows // size * size
    subjects, payloads = zip(*messages(size, rows), strict=True)
    columns = {
        "sequence": pa.array(range(1, rows + 1), pa.int64()),
        "subject": pa.array(subjects, pa.string()),
        "payload": pa.chunked_array(
            [pa.array(payloads[at : at + PIECE], pa.binary()) for at in range(0, rows, PIECE)]
        ),
        "timestamp": pa.array(range(1, rows + 1), TIME),
    }
    table = pa.table(columns)
    del subjects, payloads, columns
    with tempfile.TemporaryDirectory() as root:
        wanted = AssemblyOptions(APPLICATION, root, "", None, Engine.FOLD, THRESHOLD)
        assembly, begun = Assembly(wanted, "journal"), perf_counter()
        for batch, at in enumerate(range(0, rows, MAX_OFFSETS)):
            piece = table.slice(at, MAX_OFFSETS)
            assembly.batch(lambda piece=piece: piece, "floor", batch)  # type: ignore[misc]
        seconds = perf_counter() - begun
        _check(root, rows // size)
    return Run(rows, seconds, note="without a broker, and without Spark")


def _check(root: str, blocks: int) -> None:
    found = cardinal_tables.open(root).arrow("blocks", ["number"]).num_rows
    if found != blocks:
        raise BenchmarkError(f"{found} blocks of {blocks}")


SCENARIOS: dict[str, Scenario] = {
    "cardinal-fold": job(Engine.FOLD, 200),
    "cardinal-fold-20": job(Engine.FOLD, 20),
    "cardinal-state": job(Engine.STATE, 200, STATE_PART),
    "cardinal-floor": floor,
}
