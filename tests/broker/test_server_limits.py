"""What a real broker process demands of its peers: pings, connections, subscriptions, memory."""

import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import product
from pathlib import Path

import pytest

from broker.clients.pinging import FIRST_PING
from broker.version import is_compiled
from tests.support.processes import STAND_IN, SeriatimServer, ServerProcess
from tests.support.raw import QUIET, Operation, RawClient, WireError

pytestmark = pytest.mark.skipif(STAND_IN, reason="of our own process")

KIB, MIB = 1 << 10, 1 << 20
INTERVAL = 0.25  # seconds of silence before a PING


@pytest.fixture(scope="module")
def impatient() -> Iterator[ServerProcess]:
    with SeriatimServer(limits={"ping_interval": f"{INTERVAL}s", "ping_max": 2}) as running:
        yield running


def test_given_a_silent_client_then_its_pings_come_an_interval_apart_and_then_it_is_stale(
    impatient: ServerProcess,
) -> None:
    start = time.monotonic()
    with RawClient(impatient.port, pings=True) as client:
        for _ in range(2):
            assert client.line() == b"PING\r\n"
        assert client.line() == b"-ERR 'Stale Connection'\r\n"
        assert client.until_closed() == b""
    assert time.monotonic() - start > 3 * INTERVAL * 0.9


def three_intervals(broker: ServerProcess) -> None:
    """Wait until a client that came just now is stale: whatever is due before was done before."""
    with RawClient(broker.port) as client:
        assert client.until_closed() == b"-ERR 'Stale Connection'\r\n"


def test_given_a_connect_then_the_first_ping_comes_within_an_interval_of_it(
    impatient: ServerProcess,
) -> None:
    assert 3 * INTERVAL < FIRST_PING, "or it would prove nothing"
    start = time.monotonic()
    with RawClient(impatient.port, QUIET, pings=True) as client:
        assert client.line() == b"PING\r\n"
        assert time.monotonic() - start > INTERVAL * 0.9
    with RawClient(impatient.port, QUIET, pings=True) as client:
        three_intervals(impatient)
        assert client.so_far().startswith(b"PING\r\n")


def hear_of(broker: ServerProcess, seconds: float) -> tuple[float, list[Operation]]:
    """Speak all the time, and answer no PING: the longest silence at most, and what came."""
    silence, came = 0.0, list[Operation]()
    start = heard = asked = time.monotonic()
    with RawClient(broker.port, QUIET) as client:
        while asked < start + seconds:
            heard, asked = asked, time.monotonic()  # it was heard of after that
            try:
                came += client.ask(b"PUB a 1\r\nx\r\n")
            except (WireError, OSError):
                return time.monotonic() - heard, [*came, Operation("closed")]
            silence = max(silence, time.monotonic() - heard)
    return silence, came


def test_given_a_client_that_is_heard_of_then_it_is_never_stale_though_it_never_answers() -> None:
    interval = 1.0
    with SeriatimServer(limits={"ping_interval": f"{interval}s", "ping_max": 2}) as broker:
        for _ in range(20):  # a machine that is very busy may make a client silent, and so stale
            silence, came = hear_of(broker, 4 * interval)
            if silence < interval * 0.9:
                assert came == []
                return
    pytest.fail("this machine makes everybody silent")


def test_given_many_clients_that_came_at_different_times_then_each_is_pinged_in_its_time(
    impatient: ServerProcess,
) -> None:
    with ExitStack() as stack:
        clients = [
            stack.enter_context(RawClient(impatient.port, QUIET if turn % 2 else b"", pings=True))
            for turn in range(20)
        ]
        three_intervals(impatient)
        for client in clients:
            assert client.so_far().startswith(b"PING\r\n")


def test_given_places_for_two_then_the_third_is_informed_and_a_freed_place_is_given_again() -> None:
    told = b"-ERR 'maximum connections exceeded'\r\n"
    with SeriatimServer(limits={"max_connections": 2}) as broker:
        with (
            RawClient(broker.port, QUIET) as first,
            RawClient(broker.port, QUIET) as second,
        ):
            assert second.ask(b"") == []
            with RawClient(broker.port, QUIET + b"PING\r\n") as third:
                assert third.until_closed() == told
            assert first.ask(b"") == [], "those who have a place keep it"
        served = False
        while not served:
            with RawClient(broker.port, QUIET) as client:
                served = client.answer(b"PING\r\n", 1) == (b"PONG\r\n", False)
        assert broker.await_line("maximum connections exceeded")


def test_given_a_limit_of_subscriptions_then_it_is_each_connections_own() -> None:
    with (
        SeriatimServer(limits={"max_subscriptions": 1}) as broker,
        RawClient(broker.port, QUIET) as first,
        RawClient(broker.port, QUIET) as second,
    ):
        for client in (first, second):
            assert client.ask(b"SUB a 1\r\n") == []
            (refused,) = client.ask(b"SUB a 2\r\n")
            assert refused.text == b"'maximum subscriptions exceeded'"
        assert len(first.ask(b"PUB a 1\r\nx\r\n")) == 1


def test_given_patterns_in_all_combinations_then_those_that_cost_others_too_much_are_refused() -> (
    None
):
    words = list(product((b"a", b"*"), repeat=13))
    dear = [b"SUB %b.b %d\r\n" % (b".".join(tokens), sid) for sid, tokens in enumerate(words)]
    with (
        SeriatimServer() as broker,
        RawClient(broker.port, QUIET) as attacker,
        RawClient(broker.port, QUIET) as other,
    ):
        refused = attacker.ask(b"".join(dear))
        assert 1000 < len(refused) < len(dear)
        assert b"could lead through over 8192 nodes" in refused[0].text
        attacker.send(b"SUB $SEQ.FROM.1.%b 9999\r\n" % b".".join([b"*"] * 1500))
        assert b"could lead through over" in attacker.line(), "when it has had the past"
        usual = [b"SUB orders.%d.*.> %d\r\n" % (sid, sid) for sid in range(5000)]
        assert other.ask(b"".join(usual)) == []
        (heard,) = other.ask(b"PUB orders.7.eu.x 2\r\nhi\r\n")
        assert heard.sid == b"7"


def test_given_a_client_that_makes_a_lot_of_work_then_another_is_served_in_between() -> None:
    deaf = b'CONNECT {"verbose":false,"pedantic":false,"echo":false}\r\n'
    rounds = 80 if is_compiled() else 1  # of 600 000 offers that nobody takes
    with (
        SeriatimServer() as broker,
        RawClient(broker.port, deaf) as busy,
        RawClient(broker.port, QUIET) as other,
    ):
        busy.ask(b"".join(b"SUB a %d\r\n" % sid for sid in range(3000)))
        assert other.ask(b"SUB done 1\r\n") == []
        broker.suspend()  # it finds what both say at once
        busy.send(b"PUB a 0\r\n\r\n" * (200 * rounds) + b"PUB done 0\r\n\r\nPING\r\n")
        other.send(b"PING\r\n")
        broker.signal(signal.SIGCONT)
        assert other.until_pong() == [], "it was not done with the other's work"
        busy.socket.settimeout(60)
        assert busy.until_pong() == []
        assert [one.subject for one in other.ask(b"")] == [b"done"]


def resident(broker: ServerProcess) -> int:
    """The memory (bytes) that the process holds now, without what it has mapped of files."""
    status = Path(f"/proc/{broker.pid}/status").read_text()
    found = re.search(r"^RssAnon:\s+(\d+) kB", status, re.MULTILINE)
    assert found is not None
    return int(found[1]) * KIB


def growth(broker: ServerProcess, work: Callable[[], None]) -> int:
    before = resident(broker)
    work()
    return resident(broker) - before


def test_given_idle_connections_with_a_subscription_each_then_they_hold_little_memory() -> None:
    count = 400
    with SeriatimServer() as broker, ExitStack() as stack:

        def work() -> None:
            for number in range(count):
                client = stack.enter_context(RawClient(broker.port, QUIET))
                client.ask(b"SUB idle.%d 1\r\n" % number)

        assert growth(broker, work) < count * 20 * KIB, "ten thousand of them in 200 MiB"


def test_given_idle_connections_that_sent_a_long_message_then_they_hold_no_buffer() -> None:
    wire = b"PUB a 1000000\r\n" + b"x" * 1_000_000 + b"\r\n"
    with SeriatimServer() as broker, ExitStack() as stack:

        def work() -> None:
            for _ in range(40):
                stack.enter_context(RawClient(broker.port, QUIET)).ask(wire)

        assert growth(broker, work) < 12 * MIB


@pytest.mark.parametrize(
    "pattern",
    [pytest.param(b"%b.reply", id="literal", marks=pytest.mark.slow), b"%b.*"],
    ids=["literal", "wildcard"],
)
def test_given_clients_that_come_ask_and_go_then_nothing_is_kept_of_them(pattern: bytes) -> None:
    with SeriatimServer() as broker:

        def work(first: int, count: int) -> None:
            for number in range(first, first + count):
                inbox = b"box.%d" % number
                with RawClient(broker.port, QUIET) as client:
                    lines = (pattern % inbox, inbox)
                    client.ask(b"SUB %b 1\r\nPUB %b.reply 1\r\nx\r\n" % lines)

        work(0, 2500)  # until the collector of cycles has found its pace
        assert growth(broker, lambda: work(2500, 2500)) < 2500 * 1500, "a route, and no connection"
