"""Cardinal Streams without a broker: how fast messages are encoded, and assembled into blocks.

    python -m benchmarks.cardinal [--quick] [--runs 5]

Each row is the CPU time of this process alone, as the median over the runs. `encode` is a producer
that turns blocks into keys and values. `assemble` takes the messages of two such producers in turn,
so that half of them are copies, and decodes them into whole blocks. Every key is a new object, as
from a socket. `pending` keeps incomplete blocks, and measures their memory.
"""

import argparse
import gc
import statistics
import sys
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks import machine
from benchmarks.report import table
from cardinal.assembler import Assembler, Row
from cardinal.block import Block
from cardinal.messages import HASH_SIZE
from cardinal.producer import Messages, Producer
from cardinal.schema import Schema

SCHEMA = Schema({"c/1/a/": "state", "c/1/b/[0-9a-f]+/t/": "tx"}, default="chain")
VALUE_BYTES = 128
TOTAL = 200_000  # messages of a run
PIECE = 1000  # messages per call
PENDING = 100  # blocks


@dataclass(frozen=True, slots=True)
class Size:
    """Blocks with so many messages, and the goals in messages per second of CPU."""

    messages: int
    assemble: float
    encode: float


SIZES = (Size(200, 400_000, 400_000), Size(20, 250_000, 250_000))


def blocks_of(size: int, count: int) -> Iterator[tuple[int, bytes, bytes, dict[str, bytes]]]:
    """Number, hash, parent and updates of blocks with so many messages, including the Batch."""
    parent = bytes(HASH_SIZE)
    for number in range(1, count + 1):
        hash = number.to_bytes(HASH_SIZE, "big")
        value = number.to_bytes(VALUE_BYTES, "big")
        updates = {f"c/1/b/{hash.hex()}/t/{at}": value for at in range(size // 2)}
        updates |= {f"c/1/a/{at:064x}": value for at in range(size - 1 - size // 2)}
        yield number, hash, parent, updates
        parent = hash


def produce(size: int, count: int) -> tuple[list[Messages], float]:
    """The messages of blocks, and the CPU seconds to make them."""
    producer, blocks = Producer(SCHEMA), list(blocks_of(size, count))
    begin = time.process_time()
    made = [
        producer.block(number, hash, parent, number, updates)
        for number, hash, parent, updates in blocks
    ]
    return made, time.process_time() - begin


def rows_of(made: Sequence[Messages], copies: int) -> list[Row]:
    """The messages as they come from `copies` producers, one of each in turn."""
    rows: list[Row] = []
    for messages in made:
        for some in messages.values():
            for key, value in some:
                for _ in range(copies):
                    rows.append((bytes(bytearray(key)), bytes(bytearray(value)), len(rows) + 1))
    return rows


def assemble(rows: Sequence[Row], blocks: int) -> float:
    """CPU seconds to assemble the rows into whole blocks."""
    assembler, found = Assembler(), 0
    begin = time.process_time()
    for at in range(0, len(rows), PIECE):
        for event in assembler.feed(rows[at : at + PIECE], "bench", 0.0):
            found += isinstance(event, Block)
    seconds = time.process_time() - begin
    if found != blocks or assembler.dropped:
        raise SystemExit(f"benchmarks.cardinal: {found} blocks of {blocks}, that must not be")
    return seconds


def pending(size: int) -> tuple[int, int, int]:
    """Measure incomplete blocks: bytes of memory, by the assembler's count, and of messages."""
    made, _ = produce(size, PENDING)
    rows = [row for row in rows_of(made, 1) if row[0][0] != 0]  # their Batches never come
    sent = sum(len(key) + len(value) for key, value, _ in rows)
    del made
    gc.collect()
    assembler = Assembler()
    tracemalloc.start()
    for key, value, offset in rows:
        assembler.feed([(bytes(bytearray(key)), bytes(bytearray(value)), offset)], "bench", 0.0)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    if len(assembler.pending) != PENDING:
        raise SystemExit("benchmarks.cardinal: not all blocks are pending, that must not be")
    return taken, assembler.pending_bytes, sent


def rates_of(size: Size, total: int, runs: int) -> dict[str, list[float]]:
    """Messages per second of CPU for each measurement, by run."""
    count = total // size.messages
    rates: dict[str, list[float]] = {"encode": [], "assemble": [], "assemble, no copies": []}
    for _ in range(runs):
        made, seconds = produce(size.messages, count)
        rates["encode"].append(count * size.messages / seconds)
        for name, copies in (("assemble", 2), ("assemble, no copies", 1)):
            rows = rows_of(made[: count // copies], copies)
            gc.collect()
            rates[name].append(len(rows) / assemble(rows, count // copies))
    return rates


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all rows; return 0 if every goal was reached."""
    options = argparse.ArgumentParser(prog="python -m benchmarks.cardinal", description=__doc__)
    options.add_argument("--quick", action="store_true", help="a tenth of it, once")
    options.add_argument("--runs", type=int, default=5, help="of each; default 5")
    given = options.parse_args(arguments)
    total, runs = (TOTAL // 10, 1) if given.quick else (TOTAL, given.runs)
    rows = []
    missed = False
    for size in SIZES:
        for name, found in rates_of(size, total, runs).items():
            rate = statistics.median(found)
            goal = size.encode if name == "encode" else size.assemble
            missed |= rate < goal
            rows.append(
                [
                    f"{name}, blocks of {size.messages}",
                    f"{rate:,.0f}  ({min(found):,.0f} - {max(found):,.0f})",
                    f"{1e6 / rate:.2f}",
                    f"{goal:,.0f}",
                    "reached" if rate >= goal else "MISSED",
                ]
            )
    about = machine.description([])
    print(f"{about['processor']}, Python {about['python']}, {about['seriatim']}\n")
    print(table(("what", "messages/s of CPU", "us/message", "goal", ""), rows))
    taken, counted, sent = pending(SIZES[0].messages)
    print(
        f"pending: {PENDING} blocks with {sent / 1e6:.1f} MB of messages take {taken / 1e6:.1f} MB"
        f" of memory; the assembler counts, and bounds, {counted / 1e6:.1f} MB"
    )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
