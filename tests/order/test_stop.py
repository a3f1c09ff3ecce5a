"""A stop is clean: what was accepted is delivered within a bounded time, then connections close."""

import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from tests.order.test_slow_subscribers import dead, flood
from tests.order.traffic import assert_gap_free, heard, stream
from tests.support.depth import depth
from tests.support.processes import STAND_IN, Limit, SeriatimServer
from tests.support.raw import QUIET, RawClient, operations

pytestmark = pytest.mark.skipif(STAND_IN, reason="nats-server drops what it still holds")
COUNT = depth(8_000, 20_000)
BODIES = 400  # of 32 KiB: more than the sockets hold
PATIENT: dict[str, Limit] = {"drain_timeout": "60s"}  # here it is for readers, not for the clock


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda one: one.name)
def test_given_a_stop_then_subscribers_get_all_that_was_accepted_and_a_close(
    number: signal.Signals,
) -> None:
    with SeriatimServer("netstring", PATIENT) as broker:
        with (
            RawClient(broker.port, QUIET) as ear,
            RawClient(broker.port, QUIET) as publisher,
        ):
            ear.ask(b"SUB > 1\r\n")
            flood(broker.port, count=BODIES)
            broker.signal(number)
            run = [heard(operation) for operation in operations(ear.until_closed())]
            assert publisher.until_closed() == b""
        assert broker.wait() == 0
        assert_gap_free(run)
        assert [int(m.payload[:6]) for m in run] == list(range(BODIES))


def test_given_a_stop_when_a_subscriber_is_dead_then_it_ends_in_bounded_time() -> None:
    with (
        SeriatimServer("netstring", {"drain_timeout": "300ms"}) as broker,
        dead(broker.port),
    ):
        flood(broker.port, count=500)
        broker.signal(signal.SIGTERM)
        assert broker.wait() == 0


def test_given_a_stop_then_new_connections_are_refused_and_the_port_is_free_at_once() -> None:
    with SeriatimServer("netstring") as broker:
        port = broker.port
        with RawClient(port, QUIET) as client:
            broker.signal(signal.SIGTERM)
            assert client.until_closed() == b""
        assert broker.wait() == 0
        with pytest.raises(ConnectionRefusedError):
            RawClient(port)
        broker.start(port)
        with RawClient(port, QUIET) as client:
            assert client.ask(b"SUB a 1\r\nPUB a 1\r\nx\r\n")[0].subject == b"a"


@pytest.mark.parametrize("sync", ["interval", "always"])
def test_given_a_stop_amid_traffic_then_every_subscriber_got_the_same_beginning(sync: str) -> None:
    def pour(publisher: RawClient, seed: int) -> None:
        publisher.send_split(stream(f"p{seed}", 5 * COUNT, seed), [])

    arguments = ["--sync", sync]
    with (
        SeriatimServer("netstring", PATIENT, arguments) as broker,
        ThreadPoolExecutor(6) as pool,
        ExitStack() as stack,
    ):
        ears = [stack.enter_context(RawClient(broker.port, QUIET)) for _ in range(3)]
        for ear in ears:
            ear.ask(b"SUB > 1\r\n")
        reading = [pool.submit(ear.until_closed) for ear in ears]
        # All are there before anything flows: it may be over soon, and then nobody is let in.
        publishers = [stack.enter_context(RawClient(broker.port, QUIET)) for _ in range(2)]
        with RawClient(broker.port, QUIET) as trigger:
            trigger.ask(b"SUB > 1\r\n")
            pouring = [pool.submit(pour, one, seed) for seed, one in enumerate(publishers)]
            trigger.operation()  # traffic flows
            broker.signal(signal.SIGTERM)
        assert broker.wait() == 0
        for done in pouring:
            done.result()
        runs = [[heard(o) for o in operations(done.result())] for done in reading]
    assert runs[0]
    assert_gap_free(runs[0])
    assert [m.number for m in runs[1]] == [m.number for m in runs[0]]
    assert runs[1] == runs[0] == runs[2]
