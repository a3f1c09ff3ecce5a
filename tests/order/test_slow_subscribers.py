"""Slow and dead subscribers without a journal: disconnected, bounded, without affecting others.

With a journal they are served from it (test_catch_up.py). Without one, the rules are NATS'.

A subscriber that never reads has its socket buffers filled first, some megabytes on this kernel,
and only then the server's own memory: so each flood here is larger than both.
"""

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from testkit.model_frame import unframe
from tests.support import processes
from tests.support.processes import FRAMES, STAND_IN, Limit, SeriatimServer, ServerProcess
from tests.support.raw import QUIET, RawClient, next_operation

BODY = b"x" * 32768
PENDING = 1 << 20
# nor is anybody cut by the clock, or before it has read its last words, where time is no matter
PATIENT: dict[str, Limit] = {"write_deadline": "120s"}
LIMITS: dict[str, Limit] = {**PATIENT, "max_pending": PENDING, "max_payload": 65536}
# a cut connection may still take what its socket has in hand until then; nobody waits for it
HASTY: dict[str, Limit] = {**LIMITS, "write_deadline": "700ms"}
FLOOD = 24 << 20  # bytes: more than both socket buffers and max_pending hold
COUNT = FLOOD // len(BODY)
PATIENCE_S = 60.0  # far more than it takes, far less than a stalled publisher waits
STEP = 4  # bodies: less than a broker ever holds a publisher for, or cuts a reader off for
MEMORY = 24 << 20  # what a connection's troubles may cost, all buffers included


def server(frame: str, limits: Mapping[str, Limit] | None = None) -> ServerProcess:
    """A broker that keeps nothing, or the stand-in, which does not either."""
    if STAND_IN:
        return processes.server(frame, limits)
    return SeriatimServer(frame, limits, ["--no-journal"])


@pytest.fixture(params=FRAMES)
def frame(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def strict(frame: str) -> Iterator[ServerProcess]:
    """A broker with a small `max_pending`."""
    with server(frame, LIMITS) as running:
        yield running


@pytest.fixture
def hasty(frame: str) -> Iterator[ServerProcess]:
    """The same, and a short time to take what is written."""
    with server(frame, HASTY) as running:
        yield running


def dead(port: int, subject: bytes = b"flood") -> RawClient:
    """A subscriber that will not read what it asked for."""
    client = RawClient(port, QUIET, receive_buffer=4096)
    assert client.ask(b"SUB " + subject + b" 1\r\n") == []
    return client


def body(subject: bytes, at: int) -> bytes:
    """The operation that publishes one numbered body."""
    number = b"%06d" % at
    return b"PUB %s %d\r\n%s%s\r\n" % (subject, len(number + BODY), number, BODY)


def flood(port: int, subject: bytes = b"flood", count: int = COUNT) -> float:
    """Publish numbered bodies, wait for the PONG behind them; the seconds it took."""
    start = time.monotonic()
    with RawClient(port, QUIET, timeout=PATIENCE_S) as publisher:
        for at in range(count):
            publisher.send(body(subject, at))
        assert publisher.ask(b"") == []
    return time.monotonic() - start


def flood_in_step(port: int, subject: bytes, healthy: RawClient, frame: str) -> list[int]:
    """The same, with a reader that is never behind, however slow its machine is; what it heard."""
    heard: list[int] = []
    with RawClient(port, QUIET, timeout=PATIENCE_S) as publisher:
        for first in range(0, COUNT, STEP):
            step = b"".join(body(subject, at) for at in range(first, first + STEP))
            assert publisher.ask(step) == []
            heard += [int(unframe(m.payload, frame)[:6]) for m in healthy.ask(b"")]
    return heard


def read_all(client: RawClient, frame: str, count: int) -> list[int]:
    """Read so many bodies; their numbers."""
    numbers = []
    for _ in range(count):
        numbers.append(int(unframe(client.operation().payload, frame)[:6]))
    return numbers


def is_cut(client: RawClient) -> bool:
    """Read to the close. Ours ends with whole messages and says why; nats-server just closes."""
    data = client.until_closed()
    if STAND_IN:
        return True
    last, at = None, 0
    while at < len(data):
        step = next_operation(data, at)
        assert step is not None, f"ends in the middle of an operation: {data[at:][:80]!r}"
        last, at = step
    return last is not None and (last.verb, last.text) == ("-ERR", b"'Slow Consumer'")


def test_given_a_dead_subscriber_then_it_is_cut_and_others_lose_nothing(
    strict: ServerProcess, frame: str
) -> None:
    with dead(strict.port) as slow, RawClient(strict.port, QUIET) as healthy:
        healthy.ask(b"SUB flood 1\r\n")
        assert flood_in_step(strict.port, b"flood", healthy, frame) == list(range(COUNT))
        assert is_cut(slow)
        assert healthy.ask(b"PUB flood 6\r\n000000\r\n") != []


def test_given_many_dead_subscribers_then_publishers_go_on(
    strict: ServerProcess, frame: str
) -> None:
    slow = [dead(strict.port) for _ in range(8)]
    try:
        assert flood(strict.port, count=COUNT // 2) < PATIENCE_S
        assert all(is_cut(client) for client in slow)
    finally:
        for client in slow:
            client.close()


def test_given_a_dead_member_of_a_queue_group_then_the_others_do_the_work(
    strict: ServerProcess, frame: str
) -> None:
    with dead(strict.port, b"work q") as slow, RawClient(strict.port, QUIET) as healthy:
        healthy.ask(b"SUB work q 1\r\n")
        done = flood_in_step(strict.port, b"work", healthy, frame)
        assert done == sorted(set(done))
        assert len(done) >= COUNT // 4, "the dead one gets what its buffers hold, and no more"
        slow.close()


def test_given_a_dead_subscriber_then_memory_is_bounded(strict: ServerProcess, frame: str) -> None:
    flood(strict.port, count=8)  # whatever serving costs at all
    before = strict.peak_memory()
    with dead(strict.port) as slow:
        flood(strict.port)
        assert is_cut(slow)
    if not STAND_IN:
        assert strict.peak_memory() - before < MEMORY


def test_given_a_connection_that_publishes_to_itself_and_never_reads_then_it_is_cut(
    hasty: ServerProcess, frame: str
) -> None:
    flood(hasty.port, count=8)
    before = hasty.peak_memory()
    block = b"PUB self %d\r\n%s\r\n" % (len(BODY), BODY)
    with dead(hasty.port, b"self") as selfish:
        selfish.socket.settimeout(PATIENCE_S)
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            selfish.send(block * 8 * COUNT)
    if not STAND_IN:
        assert hasty.peak_memory() - before < MEMORY
    assert flood(hasty.port, b"other", count=8) < PATIENCE_S


@pytest.mark.skipif(STAND_IN, reason="nats-server stops to read, and the client's sends block")
def test_given_a_client_that_pings_and_never_reads_then_it_is_cut_too(
    hasty: ServerProcess, frame: str
) -> None:
    """The answers to a client's own commands are bounded like messages."""
    pings = b"PING\r\n" * 10_000_000
    before = hasty.peak_memory()
    with RawClient(hasty.port, QUIET, receive_buffer=4096) as rude:
        rude.socket.settimeout(PATIENCE_S)
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            rude.send(pings)
    assert hasty.peak_memory() - before < MEMORY
    assert flood(hasty.port, b"other", count=8) < PATIENCE_S


def test_given_a_slow_but_living_subscriber_then_it_is_slowed_for_and_not_cut(frame: str) -> None:
    """A reader that keeps reading, only later than the flood came, gets everything."""
    with server(frame, PATIENT) as usual, RawClient(usual.port, QUIET) as late:
        late.ask(b"SUB flood 1\r\n")
        flood(usual.port, count=COUNT // 2)
        assert read_all(late, frame, COUNT // 2) == list(range(COUNT // 2))
        assert late.ask(b"") == []


def test_given_only_a_small_max_pending_then_a_living_subscriber_is_still_slowed_for(
    frame: str,
) -> None:
    limits: dict[str, Limit] = {**PATIENT, "max_pending": PENDING, "max_payload": 65536}
    if not STAND_IN:
        limits["hold_ms"] = 60_000  # for as long as a reader may stand still here
    with server(frame, limits) as strict, RawClient(strict.port, QUIET) as reader:
        reader.ask(b"SUB flood 1\r\n")
        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(read_all, reader, frame, COUNT)
            flood(strict.port)
            assert reading.result() == list(range(COUNT))


@pytest.mark.skipif(STAND_IN, reason="nats-server may try a blocked client again, not close it")
def test_given_a_blocked_subscriber_then_the_write_deadline_cuts_it(frame: str) -> None:
    limits: dict[str, Limit] = {"write_deadline": "300ms"}
    with server(frame, limits) as strict, dead(strict.port) as slow:
        flood(strict.port, count=COUNT // 2)  # less than max_pending, more than sockets hold
        assert strict.await_line("Slow Consumer", PATIENCE_S)
        slow.until_closed()
