"""Our pages and nats-server's after the same session: same fields, same types, same counts."""

import time
from typing import Any

import pytest

from tests.support.processes import NatsServer, ServerProcess
from tests.support.raw import RawClient
from tests.support.web import WEB_S, get, http_port, monitored

CONNECT = b'CONNECT {"verbose":false,"pedantic":false,"name":"n","lang":"l","version":"1"}\r\n'
SESSION = b"SUB a.* 1\r\nSUB b q 2\r\nPUB a.b 5\r\nhello\r\nPUB b 2\r\nhi\r\nPUB none 1\r\nx\r\n"

# What tools read of nats-server, and what is counted alike.
VARZ = """in_msgs out_msgs in_bytes out_bytes connections total_connections subscriptions
    slow_consumers mem cpu cores start now uptime version server_id server_name max_payload
    proto go host port max_connections ping_interval ping_max http_host http_port https_port
    auth_timeout max_control_line max_pending write_deadline gomaxprocs routes remotes
    leafnodes git_commit http_base_path cluster gateway leaf mqtt websocket jetstream tls_timeout
    in_client_msgs in_client_bytes out_client_msgs out_client_bytes stale_connections
    stalled_clients http_req_stats config_load_time slow_consumer_stats
    stale_connection_stats""".split()  # noqa: SIM905 - a list of words reads better so
CONNZ = """cid kind type ip port start last_activity uptime idle rtt pending_bytes in_msgs out_msgs
    in_bytes out_bytes subscriptions name lang version""".split()  # noqa: SIM905
SUBSZ = """server_id now num_subscriptions num_cache num_inserts num_removes num_matches
    cache_hit_rate max_fanout avg_fanout total offset limit""".split()  # noqa: SIM905
EMPTY = ("jsz", "leafz", "gatewayz", "accountz", "accstatz")
CLOSINGS = {
    b"polite": b"",
    b"operation": b"NONSENSE\r\n",
    b"payload": b"PUB a 9999999\r\n",
    b"line": b"PUB %b\r\n" % (b"a" * 5000),
    b"protocol": b'CONNECT {"protocol":2}\r\n',
    b"headers": b'CONNECT {"headers":false,"no_responders":true}\r\n',
}
COUNTED = ("in_msgs", "out_msgs", "in_bytes", "out_bytes", "connections", "total_connections")

Pages = dict[str, dict[str, Any]]


class NatsMonitored(NatsServer):
    """nats-server with monitoring on a free port."""

    def __init__(self) -> None:
        super().__init__({"http": "127.0.0.1:-1"})


def session(process: ServerProcess) -> Pages:
    """What a server's pages say while one client has done the session."""
    with process, RawClient(process.port, CONNECT) as client:
        client.ask(SESSION)
        client.ask(b"")  # nats-server counts what it has read when it has served all of it
        port = http_port(process)
        return {
            "varz": get(port, "/varz").json,
            "connz": get(port, "/connz?subs=1").json,
            "detail": get(port, "/connz?subs=detail").json,
            "subsz": get(port, "/subsz").json,
            "subscriptionsz": get(port, "/subscriptionsz").json,
            "healthz": get(port, "/healthz").json,
            **{page: get(port, f"/{page}").json for page in EMPTY},
        }


@pytest.fixture(scope="module")
def both() -> tuple[Pages, Pages]:
    return session(monitored("none")), session(NatsMonitored())


def kind(value: object) -> str:
    """The kind of a JSON value; a whole number and one with decimals are one kind."""
    return "number" if isinstance(value, int | float) else type(value).__name__


@pytest.mark.parametrize(
    ("page", "fields"), [("varz", VARZ), ("subsz", SUBSZ), ("subscriptionsz", SUBSZ)]
)
def test_given_a_page_when_compared_then_each_field_is_there_and_of_the_same_kind(
    both: tuple[Pages, Pages], page: str, fields: list[str]
) -> None:
    ours, theirs = both
    assert {name: kind(ours[page].get(name)) for name in fields} == {
        name: kind(theirs[page].get(name)) for name in fields
    }


def test_given_connections_when_compared_then_each_field_is_there_and_the_same(
    both: tuple[Pages, Pages],
) -> None:
    (ours,), (theirs,) = (pages["connz"]["connections"] for pages in both)
    assert {name: kind(ours.get(name)) for name in CONNZ} == {
        name: kind(theirs.get(name)) for name in CONNZ
    }
    # To nats-server a PONG is pending until its writer has noted that it is out.
    varying = {"cid", "port", "start", "last_activity", "uptime", "idle", "rtt", "pending_bytes"}
    for name in set(CONNZ) - varying:
        assert ours[name] == theirs[name], name
    assert ours["pending_bytes"] == 0
    assert sorted(ours["subscriptions_list"]) == sorted(theirs["subscriptions_list"])


def test_given_traffic_when_compared_then_it_is_counted_alike(both: tuple[Pages, Pages]) -> None:
    ours, theirs = both
    for name in COUNTED:
        assert ours["varz"][name] == theirs["varz"][name], name


def test_given_settings_when_compared_then_they_are_shown_alike(both: tuple[Pages, Pages]) -> None:
    ours, theirs = both
    names = """max_connections ping_interval ping_max auth_timeout max_control_line max_payload
        max_pending write_deadline proto host https_port""".split()  # noqa: SIM905
    for name in names:
        assert ours["varz"][name] == theirs["varz"][name], name


def test_given_subscriptions_in_detail_when_compared_then_they_are_the_same(
    both: tuple[Pages, Pages],
) -> None:
    def detail(pages: Pages) -> list[dict[str, Any]]:
        (connection,) = pages["detail"]["connections"]
        subs = sorted(connection["subscriptions_list_detail"], key=lambda sub: str(sub["sid"]))
        return [{**sub, "cid": 0} for sub in subs]

    ours, theirs = both
    assert detail(ours) == detail(theirs)


def test_given_health_when_compared_then_it_is_the_same(both: tuple[Pages, Pages]) -> None:
    assert both[0]["healthz"] == both[1]["healthz"] == {"status": "ok"}


def closed(process: ServerProcess) -> dict[str, Any]:
    """All closed connections: nats-server notes one only after its client has heard the end."""
    end = time.monotonic() + WEB_S
    while True:
        page = get(http_port(process), "/connz?state=closed").json
        if page["total"] == len(CLOSINGS):
            return page
        assert isinstance(process, NatsServer), "ours notes it before"
        assert time.monotonic() < end


def closings(process: ServerProcess) -> dict[str, str]:
    """Why each connection was closed, says the server."""
    with process:
        for name, last in CLOSINGS.items():
            with RawClient(
                process.port, b'CONNECT {"verbose":false,"name":"%b"}\r\n' % name
            ) as one:
                one.ask(b"")
                one.send(last)
                if not last:
                    one.half_close()
                one.until_closed()
        page = closed(process)
        assert all(one["start"] < one["stop"] for one in page["connections"])
        return {one["name"]: one["reason"] for one in page["connections"]}


def test_given_closed_connections_when_compared_then_the_reasons_are_the_same() -> None:
    assert closings(monitored("none")) == closings(NatsMonitored())


@pytest.mark.parametrize("page", EMPTY)
def test_given_what_there_is_not_when_compared_then_the_page_is_there_and_empty(
    both: tuple[Pages, Pages], page: str
) -> None:
    ours, theirs = both[0][page], both[1][page]
    assert {name: kind(ours.get(name)) for name in theirs if name != "system_account"} == {
        name: kind(value) for name, value in theirs.items() if name != "system_account"
    }
    assert not any(
        value
        for name, value in ours.items()
        if name not in ("server_id", "now", "disabled", "api", "config")
    )


def test_given_the_version_when_compared_then_it_is_theirs_and_says_what_it_is(
    both: tuple[Pages, Pages],
) -> None:
    ours, theirs = both[0]["varz"], both[1]["varz"]
    assert ours["version"] == f"{theirs['version']}+seriatim.{ours['seriatim']}"
