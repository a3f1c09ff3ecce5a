"""The cost of clients in Python: `import seriatim`, compiled and not, beside nats-py.

    python -m benchmarks.clients [--messages 400000] [--rounds 3] [--size 128]

One broker keeps everything, and nothing else is connected. Each client is a process of its own,
whose processor time is measured from before the first message until after the last, and is given
for one message. The clients take turns: the machine's speed changes over time.

    publish     messages that are answered with their number, thousands in flight: by `send`, each
                with a future, or by `publish_all`
    read        the past by `read`; nats-py subscribes to `$SEQ.RANGE` and decodes frames
    table       `stream.table`: number and time, or all columns
    request     to a service in the same process: the round trip is not the cost. One after the
                other, where most of it is two wakeups of the process, or many at a time
"""

import argparse
import asyncio
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from benchmarks.errors import BenchmarkError
from benchmarks.process import ServerProcess, copy_sources
from benchmarks.report import table
from benchmarks.servers import KNOWN

ROOT = Path(__file__).parent.parent
WINDOW = 4096  # messages in flight
ASKERS = 64  # requests in flight
ENDS_S = 300.0
SUBJECT = "bench.orders"


def cpu_seconds() -> float:
    """Return the processor time of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def publish_ours(url: str, count: int, payload: bytes) -> Callable[[], Awaitable[int]]:
    import seriatim

    stream = await seriatim.connect(url)

    async def work() -> int:
        sent: deque[asyncio.Future[int]] = deque()
        for _ in range(count):
            sent.append(await stream.send(SUBJECT, payload))
            if len(sent) > WINDOW:
                await sent.popleft()
        for number in sent:
            await number
        return count

    return work


async def publish_all_ours(url: str, count: int, payload: bytes) -> Callable[[], Awaitable[int]]:
    import seriatim

    stream = await seriatim.connect(url)

    async def work() -> int:
        return len(await stream.publish_all((SUBJECT, payload) for _ in range(count)))

    return work


async def publish_theirs(url: str, count: int, payload: bytes) -> Callable[[], Awaitable[int]]:
    import nats

    client = await nats.connect(url)

    async def work() -> int:
        for at in range(0, count, WINDOW):
            size = min(WINDOW, count - at)
            await asyncio.gather(
                *(client.request(f"$SEQ.PUB.{SUBJECT}", payload, timeout=60) for _ in range(size))
            )
        return count

    return work


async def read_ours(url: str, count: int, _: bytes) -> Callable[[], Awaitable[int]]:
    import seriatim

    stream = await seriatim.connect(url)

    async def work() -> int:
        seen = 0
        async for message in stream.read(SUBJECT, until=count):
            assert message.number > seen
            seen = message.number
        return count

    return work


async def batches_ours(url: str, count: int, _: bytes) -> Callable[[], Awaitable[int]]:
    import seriatim

    stream = await seriatim.connect(url)

    async def work() -> int:
        seen = 0
        async for messages in stream.read(SUBJECT, until=count).batches():
            seen += len(messages)
        assert seen == count
        return count

    return work


async def read_theirs(url: str, count: int, _: bytes) -> Callable[[], Awaitable[int]]:
    import nats

    import seriatim

    client = await nats.connect(url, pending_size=1 << 30)

    async def work() -> int:
        subscription = await client.subscribe(
            f"$SEQ.RANGE.1.{count}.{SUBJECT}", pending_msgs_limit=-1, pending_bytes_limit=-1
        )
        seen = 0
        async for message in subscription.messages:
            if message.subject != SUBJECT:
                break  # the end
            number, _ = seriatim.decode_frame(message.data)
            assert number > seen
            seen = number
        assert seen == count
        return count

    return work


async def numbers_ours(url: str, count: int, _: bytes) -> Callable[[], Awaitable[int]]:
    import seriatim

    stream = await seriatim.connect(url)

    async def work() -> int:
        return len(await stream.table(1, count, columns=["number", "time"]))

    return work


async def columns_ours(url: str, count: int, _: bytes) -> Callable[[], Awaitable[int]]:
    import seriatim

    stream = await seriatim.connect(url)

    async def work() -> int:
        return len(await stream.table(1, count))

    return work


async def requests_ours(
    url: str, count: int, payload: bytes, askers: int
) -> Callable[[], Awaitable[int]]:
    import seriatim

    stream = await seriatim.connect(url)

    async def answer(message: seriatim.Message) -> None:
        await stream.respond(message, message.payload)

    await stream.subscribe("bench.echo", answer)
    return asked_by(askers, count, lambda: stream.request("bench.echo", payload))


async def requests_theirs(
    url: str, count: int, payload: bytes, askers: int
) -> Callable[[], Awaitable[int]]:
    import nats
    from nats.aio.msg import Msg

    client = await nats.connect(url)

    async def answer(message: Msg) -> None:
        await message.respond(message.data)

    await client.subscribe("bench.echo", cb=answer)
    return asked_by(askers, count, lambda: client.request("bench.echo", payload, timeout=60))


def asked_by(
    askers: int, count: int, ask: Callable[[], Awaitable[object]]
) -> Callable[[], Awaitable[int]]:
    """Return what lets so many ask, each one request after the other: a twentieth of the count."""
    each = count // 20 // askers

    async def asker() -> None:
        for _ in range(each):
            await ask()

    async def work() -> int:
        await asyncio.gather(*(asker() for _ in range(askers)))
        return each * askers

    return work


Work = Callable[[str, int, bytes], Awaitable[Callable[[], Awaitable[int]]]]
WORK: dict[tuple[str, str], Work] = {
    ("publish", "seriatim"): publish_ours,
    ("publish_all", "seriatim"): publish_all_ours,
    ("publish", "nats-py"): publish_theirs,
    ("read", "seriatim"): read_ours,
    ("read in batches", "seriatim"): batches_ours,
    ("read", "nats-py"): read_theirs,
    ("table: number, time", "seriatim"): numbers_ours,
    ("table: all columns", "seriatim"): columns_ours,
    ("request", "seriatim"): partial(requests_ours, askers=1),
    ("request", "nats-py"): partial(requests_theirs, askers=1),
    (f"request, {ASKERS} at a time", "seriatim"): partial(requests_ours, askers=ASKERS),
    (f"request, {ASKERS} at a time", "nats-py"): partial(requests_theirs, askers=ASKERS),
}
TABLES = ("table: number, time", "table: all columns")


def measure(what: str, who: str, url: str, count: int, size: int) -> None:
    """Do it in this process, and print the processor time of a message, in us."""

    async def scenario() -> None:
        work = await WORK[what, who](url, count, b"x" * size)
        before, begun = cpu_seconds(), time.monotonic()
        done = await work()
        spent, took = cpu_seconds() - before, time.monotonic() - begun
        print(spent / done * 1e6, done / took, flush=True)
        os._exit(0)  # what is left open is not part of it

    asyncio.run(scenario())


def measured(
    what: str, who: str, build: str, url: str, words: argparse.Namespace, sources: str
) -> tuple[float, float]:
    """Return the us and the rate, of a process that does it."""
    environment = dict(os.environ)
    places = [sources] if build == "uncompiled" else []
    environment["PYTHONPATH"] = os.pathsep.join([*places, str(ROOT)])
    command = [sys.executable, "-P", "-m", "benchmarks.clients", "--work", what, who, url]
    command += ["--messages", str(words.messages), "--size", str(words.size)]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=ENDS_S, check=False
    )
    if done.returncode:
        raise BenchmarkError(f"{what}, {who}: {done.stderr.strip()}")
    spent, rate = map(float, done.stdout.split())
    return spent, rate


def main() -> None:
    """Measure, and print a table of medians."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--messages", type=int, default=400_000)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", nargs=3, metavar=("WHAT", "WHO", "URL"), help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.work:
        what, who, url = words.work
        measure(what, who, url, words.messages, words.size)
        return
    found: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    server = KNOWN["seriatim"]
    with tempfile.TemporaryDirectory() as sources:
        copy_sources(Path(sources))
        for _ in range(words.rounds):
            with ServerProcess(server) as process:
                for what, who in WORK:
                    port = process.port
                    for build in ("compiled", "uncompiled") if who == "seriatim" else ("",):
                        if build == "uncompiled" and what in TABLES:
                            continue  # they are the same code
                        url = f"nats://127.0.0.1:{port}"
                        one = measured(what, who, build, url, words, sources)
                        found.setdefault((what, who, build), []).append(one)
    rows = []
    for (what, who, build), runs in found.items():
        spent = statistics.median(one[0] for one in runs)
        rate = statistics.median(one[1] for one in runs)
        theirs = found.get((what.partition("_")[0], "nats-py", ""))
        ratio = ""
        if theirs and who != "nats-py":
            ratio = f"{statistics.median(one[0] for one in theirs) / spent:.1f}"
        least, most = min(one[0] for one in runs), max(one[0] for one in runs)
        cell = f"{spent:.3f} ({least:.3f} - {most:.3f})"
        rates = (f"{1e3 / spent:.0f} k/s", f"{rate / 1e3:.0f} k/s")
        rows.append([what, f"{who} {build}".strip(), cell, *rates, ratio])
    head = ("", "client", "CPU us/message", "by its CPU", "as it ran", "times nats-py")
    print(table(head, rows), end="")


if __name__ == "__main__":
    main()
