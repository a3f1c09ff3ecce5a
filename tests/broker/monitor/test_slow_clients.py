"""The slowest clients, by name, as metrics: few of them, whatever clients call themselves."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise

import pytest
from prometheus_client.parser import text_string_to_metric_families

from broker.monitor.slow_clients import (
    NAME_KEPT_NS,
    NAME_MAX,
    NAMES_MAX,
    OTHER,
    SLOWEST,
    SlowClient,
    SlowNames,
)
from tests.support.processes import ServerProcess
from tests.support.raw import QUIET, RawClient
from tests.support.web import get, http_port, metrics, monitored

PENDING = "seriatim_slow_client_pending_bytes"
LAG = "seriatim_slow_client_lag_messages"
CATCHUPS = "seriatim_slow_client_catchups"
BUFFER = 4096  # what the sockets of a slow client hold
ROUND = 64  # messages of 64 KiB
ROUNDS_MAX = 32  # more than all sockets hold
MESSAGE = b"PUB a 65536\r\n" + b"x" * 65536 + b"\r\n"

Samples = dict[tuple[str, str], float]  # by client and user


def named(name: str) -> bytes:
    return b"CONNECT %b\r\nSUB a 1\r\n" % json.dumps({"verbose": False, "name": name}).encode()


def samples(broker: ServerProcess, metric: str) -> Samples:
    """The samples of one metric, as Prometheus reads them."""
    text = get(http_port(broker), "/metrics").body.decode()
    (family,) = (one for one in text_string_to_metric_families(text) if one.name == metric)
    return {(one.labels["client"], one.labels["user"]): one.value for one in family.samples}


def outrun(broker: ServerProcess, clients: int) -> None:
    """Publish until so many connections catch up."""
    with RawClient(broker.port, QUIET) as publisher:
        for _ in range(ROUNDS_MAX):
            publisher.ask(MESSAGE * ROUND)
            if metrics(http_port(broker))["seriatim_catchups_active"] >= clients:
                return
    raise AssertionError(get(http_port(broker), "/connz").json)


@pytest.fixture
def broker() -> Iterator[ServerProcess]:
    with monitored("none") as process:
        yield process


def test_given_clients_that_do_not_read_then_the_metrics_name_them_and_how_far_they_are_behind(
    broker: ServerProcess,
) -> None:
    with RawClient(broker.port, named("reader")) as reader, ExitStack() as stack:
        for name in ("archive", "archive", ""):
            client = RawClient(broker.port, named(name), receive_buffer=BUFFER)
            stack.enter_context(client)
        assert samples(broker, PENDING) == {}
        outrun(broker, 3)
        last = metrics(http_port(broker))["seriatim_sequence"]
        while reader.operation().subject != b"a":
            pass
        lags, catchups = samples(broker, LAG), samples(broker, CATCHUPS)
        assert set(lags) >= {("archive", ""), ("127.0.0.1", "")}
        assert 0 < lags["archive", ""] <= last
        assert (catchups["archive", ""], catchups["127.0.0.1", ""]) == (2, 1)
        assert samples(broker, PENDING)["archive", ""] > 0


def test_given_names_that_no_page_should_show_then_they_are_cut_and_escaped(
    broker: ServerProcess,
) -> None:
    hostile = ['a"}\n\\x 1', "\ud800\x1b[31m", "\u202e" * 40, "n" * 500]
    with ExitStack() as stack:
        for name in hostile:
            client = RawClient(broker.port, named(name), receive_buffer=BUFFER)
            stack.enter_context(client)
        outrun(broker, len(hostile))
        shown = {client for client, _ in samples(broker, LAG)}
    assert shown == {
        'a"}\\n\\x 1',
        "\ufffd\\x1b[31m",
        ("\\u202e" * 40)[:NAME_MAX],
        "n" * NAME_MAX,
    }


def test_given_more_slow_clients_than_are_shown_then_the_metrics_have_the_slowest(
    broker: ServerProcess,
) -> None:
    names = [f"client-{number}" for number in range(SLOWEST + 3)]
    with ExitStack() as stack:
        for name in names:
            client = RawClient(broker.port, named(name), receive_buffer=BUFFER)
            stack.enter_context(client)
        outrun(broker, len(names))
        assert len(samples(broker, LAG)) == SLOWEST


def shown(names: SlowNames, name: str, now: int) -> bool:
    return names.shown((name, ""), now) != OTHER


def test_given_new_names_without_end_then_only_some_are_shown_in_a_day() -> None:
    names = SlowNames()
    assert all(shown(names, f"first-{nth}", 0) for nth in range(NAMES_MAX))
    hour = NAME_KEPT_NS // 24
    seen = sum(shown(names, f"new-{nth}", nth * hour // 100) for nth in range(100 * 24 * 7))
    assert seen <= 7 * NAMES_MAX
    assert seen >= 6 * NAMES_MAX, "and each day some"


def test_given_a_name_that_stays_slow_then_it_is_shown_all_the_time() -> None:
    names = SlowNames()
    for now in range(0, 30 * NAME_KEPT_NS, NAME_KEPT_NS // 4):
        assert shown(names, "old", now)
        for nth in range(NAMES_MAX):
            shown(names, f"{now}-{nth}", now)


def test_given_connections_of_one_name_then_they_are_one_series() -> None:
    who = ("a", "u")
    slowest = [SlowClient(who, 10, 5, 1), SlowClient(who, 20, 7, 1), SlowClient(("b", ""), 1, 0, 0)]
    pending, lag, catchups = SlowNames().metrics(slowest)
    assert [one.value for one in pending.samples] == [30, 1]
    assert [one.value for one in lag.samples] == [7, 0]
    assert [one.value for one in catchups.samples] == [2, 0]
    orders = [[one.labels for one in family.samples] for family in (pending, lag, catchups)]
    assert all(one == other for one, other in pairwise(orders))
