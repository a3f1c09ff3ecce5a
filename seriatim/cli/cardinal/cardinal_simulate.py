"""`seriatim cardinal simulate`: publishes a made-up chain, or writes it to a file."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from cardinal.block_lines import hexed, write
from cardinal.producer import Messages
from cardinal.schema_file import as_toml
from cardinal.simulation import SCHEMA, Plan, Sent, Simulation
from cardinal.transport.capture import CaptureWriter
from cardinal.transport.errors import TransportError
from cardinal.transport.publisher import Publisher
from seriatim.cli.broker_access import BrokerAccess
from seriatim.cli.errors import CliError, UsageError
from seriatim.cli.progress import Step, bar

STREAM = "simulation"


@dataclass(frozen=True, slots=True)
class SimulationTarget:
    """The destination of the chain, and the rate."""

    application: str
    access: BrokerAccess
    rate: float
    lines: str | None
    capture: str | None


def simulate(plan: Plan, target: SimulationTarget, schema: str | None) -> None:
    """Make the chain, and print a consumer's final head and state. Raises `CliError`."""
    if target.lines is not None and target.capture is not None:
        raise UsageError("give --lines or --capture, not both")
    if "-" in (target.lines, target.capture):
        raise UsageError("give a file (/dev/stdout is one): standard output is used for the report")
    if schema is not None:
        _write_text(schema, as_toml(SCHEMA))
    simulation = Simulation(plan)
    with bar("simulating", plan.blocks, "blocks") as step:
        if target.lines is not None:
            made = _to_lines(simulation, target.lines, step)
        elif target.capture is not None:
            made = _to_capture(simulation, target.capture, step)
        else:
            made = asyncio.run(_to_broker(simulation, target, step))
    head = simulation.chain[-1]
    forks = f"{simulation.forks} forks, {simulation.reorgs} reorgs"
    lost = f", {simulation.lost} messages lost" if simulation.lost else ""
    print(f"{made}; {forks}{lost}")
    print(f"head: block {head.number} {hexed(head.hash)}; {len(simulation.state)} keys")


def _to_lines(simulation: Simulation, name: str, step: Step) -> str:
    count = 0
    with _written(name) as file:
        for count, block in enumerate(simulation.blocks(), 1):
            file.write(write(block).encode() + b"\n")
            step(count)
    return f"wrote {count} blocks to {name}"


def _to_capture(simulation: Simulation, name: str, step: Step) -> str:
    blocks = number = 0
    with _written(name) as file:
        writer = CaptureWriter(file, STREAM)
        for block, sent in simulation.messages():
            writer.write(
                (topic, key, value, number + at) for at, (topic, key, value) in enumerate(sent, 1)
            )
            number += len(sent)
            blocks += block is not None
            step(blocks)
    return f"wrote {blocks} blocks in {number} messages to {name}"


async def _to_broker(simulation: Simulation, target: SimulationTarget, step: Step) -> str:
    blocks = last = messages = 0
    clock = asyncio.get_running_loop().time
    begin = clock()
    access = target.access
    try:
        async with Publisher(
            target.application, access.full_url, **access.connect_options()
        ) as publisher:
            for block, sent in simulation.messages():
                if target.rate:
                    await asyncio.sleep(begin + blocks / target.rate - clock())
                if sent:
                    last = await publisher.send(_by_topic(sent))
                messages += len(sent)
                blocks += block is not None
                step(blocks)
    except TransportError as error:
        where = access.origin
        raise CliError(f"{error}{where}; {blocks} blocks were published before that") from error
    return f"published {blocks} blocks in {messages} messages, up to number {last}"


def _by_topic(sent: list[Sent]) -> Messages:
    """Messages by topic; in each topic they keep their order."""
    found: Messages = {}
    for topic, key, value in sent:
        found.setdefault(topic, []).append((key, value))
    return found


@contextmanager
def _written(name: str) -> Iterator[BinaryIO]:
    """A file to write; the report about it goes to standard output."""
    try:
        file = open(name, "wb")  # noqa: SIM115
    except OSError as error:
        raise CliError(f"{name}: cannot be written: {error.strerror}") from error
    with file:
        yield file


def _write_text(name: str, text: str) -> None:
    try:
        Path(name).write_text(text)
    except OSError as error:
        raise CliError(f"{name}: cannot be written: {error.strerror}") from error
