"""Monitoring of a running broker: every page, from real clients' traffic."""

import re
import socket
from collections.abc import Iterator

import pytest

from broker.monitor.monitor import PAGES
from tests.support.processes import ServerProcess
from tests.support.raw import HEADERS, QUIET, RawClient
from tests.support.web import get, http_port, metrics, monitored


@pytest.fixture
def broker() -> Iterator[ServerProcess]:
    with monitored() as process:
        yield process


@pytest.fixture
def port(broker: ServerProcess) -> int:
    return http_port(broker)


def test_given_traffic_when_asked_then_varz_counts_it(broker: ServerProcess, port: int) -> None:
    with (
        RawClient(broker.port, HEADERS) as one,
        RawClient(broker.port, QUIET) as two,
    ):
        one.ask(b"SUB a.* 1\r\nSUB b 2\r\n")
        two.ask(b"SUB a.> 1\r\nPUB a.b 5\r\nhello\r\nPUB b 2\r\nhi\r\nPUB nobody 1\r\nx\r\n")
        one.ask(b"HPUB a.c 12 15\r\nNATS/1.0\r\n\r\nabc\r\n")
        varz = get(port, "/varz").json
    assert (varz["in_msgs"], varz["in_bytes"]) == (4, 5 + 2 + 1 + 15)
    assert varz["out_msgs"] == 5, "a.b to two, b to one, a.c to two"
    assert (varz["connections"], varz["total_connections"]) == (2, 2)
    assert (varz["subscriptions"], varz["slow_consumers"]) == (3, 0)
    assert varz["sequence"] == 4
    assert varz["port"] == broker.port
    assert varz["host"] == "127.0.0.1"
    assert varz["http_port"] == port
    assert (varz["max_payload"], varz["frame"]) == (1048576, "netstring")
    assert (varz["max_subscriptions"], varz["max_matches"]) == (0, 16384)
    assert varz["build"] in ("compiled", "uncompiled")


def test_given_closed_connections_when_asked_then_their_traffic_stays_counted(
    broker: ServerProcess, port: int
) -> None:
    for _ in range(3):
        with RawClient(broker.port, QUIET) as client:
            client.ask(b"PUB a 5\r\nhello\r\n")
            client.half_close()
            client.until_closed()
    varz = get(port, "/varz").json
    assert (varz["in_msgs"], varz["in_bytes"], varz["total_connections"]) == (3, 15, 3)
    assert varz["connections"] == 0


def test_given_connections_when_asked_then_connz_tells_each(
    broker: ServerProcess, port: int
) -> None:
    connect = (
        b'CONNECT {"verbose":false,"name":"me","lang":"raw","version":"1.2","frame":"none"}\r\n'
    )
    with (
        RawClient(broker.port, connect) as one,
        RawClient(broker.port, QUIET) as two,
    ):
        one.ask(b"SUB a.* 1\r\nSUB b group 2\r\nUNSUB 2 7\r\n")
        two.ask(b"PUB a.b 5\r\nhello\r\n")
        page = get(port, "/connz").json
        assert (page["num_connections"], page["total"]) == (2, 2)
        assert (page["offset"], page["limit"]) == (0, 1024)
        mine, other = page["connections"]
        assert (mine["cid"], other["cid"]) == (1, 2)
        assert (mine["name"], mine["lang"], mine["version"]) == ("me", "raw", "1.2")
        assert (mine["ip"], mine["port"]) == one.socket.getsockname()
        assert (mine["frame"], other["frame"]) == ("none", "netstring")
        assert (mine["out_msgs"], mine["out_bytes"], mine["subscriptions"]) == (1, 5, 2)
        assert (other["in_msgs"], other["in_bytes"], other["subscriptions"]) == (1, 5, 0)
        assert "name" not in other
        assert "subscriptions_list" not in mine
        names = get(port, "/connz?subs=1").json["connections"]
        assert names[0]["subscriptions_list"] == ["a.*", "b"]
        assert "subscriptions_list" not in names[1]
        detail = get(port, "/connz?subs=detail").json["connections"][0]
        assert detail["subscriptions_list_detail"] == [
            {"subject": "a.*", "sid": "1", "msgs": 1, "cid": 1},
            {"subject": "b", "qgroup": "group", "sid": "2", "msgs": 0, "cid": 1, "max": 7},
        ]


def test_given_paging_and_sorting_when_asked_then_connz_obeys(
    broker: ServerProcess, port: int
) -> None:
    clients = [RawClient(broker.port, QUIET) for _ in range(5)]
    try:
        for n, client in enumerate(clients):
            client.ask(
                b"PUB a 1\r\nx\r\n" * n + b"".join(b"SUB s %d\r\n" % m for m in range(9 - n))
            )

        def cids(query: str) -> list[int]:
            return [one["cid"] for one in get(port, f"/connz?{query}").json["connections"]]

        assert cids("") == cids("sort=cid") == cids("sort=start") == [1, 2, 3, 4, 5]
        assert cids("sort=msgs_from") == cids("sort=bytes_from") == [5, 4, 3, 2, 1]
        assert cids("sort=subs") == [1, 2, 3, 4, 5]
        assert cids("offset=1&limit=2") == [2, 3]
        assert cids("sort=msgs_from&offset=1&limit=2") == [4, 3]
        assert cids("offset=4&limit=2") == [5]
        assert cids("offset=99") == cids("offset=99&sort=subs") == cids("cid=99") == []
        assert cids("cid=3") == [3]
        assert cids("offset=9223372036854775807&sort=rtt") == []
        assert cids("sort=uptime") == [5, 4, 3, 2, 1], "the shortest first"
        for sort in ("pending", "msgs_to", "bytes_to", "rtt", "idle", "last"):
            assert sorted(cids(f"sort={sort}&auth=1")) == [1, 2, 3, 4, 5]
        assert get(port, "/connz?limit=2").json["total"] == 5
    finally:
        for client in clients:
            client.close()


def test_given_filters_when_asked_then_connz_lists_those_connections(
    broker: ServerProcess, port: int
) -> None:
    with RawClient(broker.port, QUIET) as one, RawClient(broker.port, QUIET) as two:
        one.ask(b"SUB a.* 1\r\nSUB q.x group 2\r\n")
        two.ask(b"SUB a.b.> 1\r\nSUB a.b 2\r\n")

        def found(query: str) -> tuple[list[int], int]:
            page = get(port, f"/connz?{query}").json
            return [one["cid"] for one in page["connections"]], page["total"]

        assert found("filter_subject=a.b") == ([1, 2], 2)
        assert found("filter_subject=a.b&limit=1&offset=1") == ([2], 2)
        assert found("filter_subject=a.c") == ([1], 1)
        assert found("filter_subject=a.b.c") == ([2], 1)
        assert found("filter_subject=q.x") == ([1], 1)
        assert found("filter_subject=nothing") == ([], 0)
        assert found("acc=$G") == ([1, 2], 2)
        assert found("acc=other") == found("user=me") == ([], 0)


def test_given_users_when_asked_then_connz_lists_those_of_one() -> None:
    connect = b'CONNECT {"verbose":false,"user":"alice","pass":"sesame"}\r\n'
    with monitored("none", "--user", "alice", "--pass", "sesame") as broker:
        port = http_port(broker)
        with RawClient(broker.port, connect) as alice, RawClient(broker.port):
            alice.ask(b"")
            (shown,) = get(port, "/connz?user=alice&auth=1").json["connections"]
            assert (shown["cid"], shown["authorized_user"]) == (1, "alice")
            assert get(port, "/connz?user=bob").json["total"] == 0
            alice.leave()
            (shown,) = get(port, "/connz?user=alice&state=all").json["connections"]
            assert (shown["cid"], shown["reason"]) == (1, "Client Closed")


def test_given_connections_that_ended_when_asked_then_connz_has_them_with_the_reason(
    broker: ServerProcess, port: int
) -> None:
    connect = b'CONNECT {"verbose":false,"name":"%b"}\r\n'
    with RawClient(broker.port, connect % b"polite") as one:
        one.ask(b"SUB a 1\r\nSUB b 2\r\nPUB a 5\r\nhello\r\n")
        one.leave()
    with RawClient(broker.port, connect % b"rude") as two:
        two.ask(b"")
        two.send(b"NONSENSE\r\n")
        two.until_closed()
    with RawClient(broker.port, connect % b"there") as three:
        three.ask(b"")

        def names(query: str) -> list[str]:
            return [one["name"] for one in get(port, f"/connz?{query}").json["connections"]]

        polite, rude = get(port, "/connz?state=closed").json["connections"]
        assert (polite["name"], polite["reason"]) == ("polite", "Client Closed")
        assert (rude["name"], rude["reason"]) == ("rude", "Protocol Violation")
        assert (polite["subscriptions"], polite["in_msgs"], polite["out_bytes"]) == (2, 1, 5)
        assert polite["start"] < polite["last_activity"] < polite["stop"]
        assert polite["rtt"]
        assert names("state=closed&subs=detail") == ["polite", "rude"]
        assert names("state=closed&sort=stop") == ["rude", "polite"]
        assert names("state=closed&sort=reason") == ["polite", "rude"]
        assert names("state=all") == names("state=any&sort=start") == ["polite", "rude", "there"]
        assert names("state=all&sort=msgs_from&limit=1") == ["polite"]
        assert names("state=all&offset=1&limit=1") == ["rude"]
        assert names("state=open") == names("") == ["there"]
        assert names("cid=2&state=closed") == names("cid=2&state=all") == ["rude"]
        assert names("cid=2") == names("cid=3&state=closed") == []


def test_given_names_of_any_length_when_closed_then_they_are_cut(
    broker: ServerProcess, port: int
) -> None:
    with RawClient(broker.port, b'CONNECT {"name":"%b"}\r\n' % ("é" * 1000).encode()) as client:
        client.ask(b"")
        client.leave()
    (shown,) = get(port, "/connz?state=closed").json["connections"]
    assert shown["name"] == "é" * 30 + "..."


def test_given_a_connect_when_no_pong_came_then_the_round_trip_is_known(
    broker: ServerProcess, port: int
) -> None:
    with RawClient(broker.port, QUIET, pings=True) as client:
        client.send(b"PING\r\n")
        assert client.operation().verb == "PONG", "a PING of the broker's comes after 2 s"
        (shown,) = get(port, "/connz?sort=rtt").json["connections"]
        assert re.fullmatch(r"[\d.]+(µs|ms|s)", shown["rtt"])


def test_given_an_answer_when_read_then_it_names_no_version_and_any_page_may_have_it(
    port: int,
) -> None:
    for path in ("/varz", "/", "/metrics", "/nothing", "/connz?wrong"):
        page = get(port, path)
        assert page.headers.get_all("Server") == ["Seriatim"]
        if path not in ("/", "/metrics"):
            assert page.headers["Access-Control-Allow-Origin"] == "*"
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"garbage\r\n\r\n")
        client.settimeout(30)
        said = b""
        while came := client.recv(65536):
            said += came
    assert b"Python" not in said


def test_given_pages_when_asked_for_then_varz_counts_them(port: int) -> None:
    for path in ("/connz", "/connz?limit=x", "/healthz", "/nothing"):
        get(port, path)
    assert get(port, "/varz").json["http_req_stats"] == {"/connz": 2, "/healthz": 1, "/varz": 1}


def test_given_a_fan_out_when_asked_then_subsz_has_its_size(
    broker: ServerProcess, port: int
) -> None:
    with RawClient(broker.port, QUIET) as client:
        client.ask(b"SUB a.* 1\r\nSUB a.b 2\r\nSUB a.b q 3\r\nSUB a.b q 4\r\n")
        client.ask(b"PUB a.b 1\r\nx\r\nPUB a.c 1\r\nx\r\n")
        page = get(port, "/subsz").json
        assert (page["max_fanout"], page["avg_fanout"]) == (3, 2.0)


def test_given_stale_clients_when_asked_then_varz_counts_them() -> None:
    with (
        monitored("none", "--ping_interval", "100ms", "--ping_max", "1") as broker,
        RawClient(broker.port, QUIET) as client,
    ):
        client.until_closed()
        varz = get(http_port(broker), "/varz").json
        assert varz["stale_connections"] == varz["stale_connection_stats"]["clients"] == 1


def test_given_subscriptions_when_asked_then_subsz_lists_and_tests_them(
    broker: ServerProcess, port: int
) -> None:
    with RawClient(broker.port, QUIET) as client:
        client.ask(b"SUB a.* 1\r\nSUB a.b q 2\r\nSUB c.> 3\r\nSUB \xff 4\r\nPUB a.b 1\r\nx\r\n")
        page = get(port, "/subsz").json
        assert (page["num_subscriptions"], page["num_inserts"], page["total"]) == (4, 4, 4)
        assert "subscriptions_list" not in page
        assert page["route_table"]["subscriptions"] == 4
        assert 0 <= page["cache_hit_rate"] <= 1

        def subjects(query: str) -> list[str]:
            return [
                sub["subject"] for sub in get(port, f"/subsz?{query}").json["subscriptions_list"]
            ]

        assert subjects("subs=1") == ["a.*", "a.b", "c.>", "\\xff"]
        assert subjects("subs=1&offset=1&limit=2") == ["a.b", "c.>"]
        assert subjects("test=a.b") == ["a.*", "a.b"]
        assert subjects("test=a.b&offset=1") == ["a.b"]
        assert subjects("test=c.d.e") == ["c.>"]
        assert subjects("test=%FF") == ["\\xff"]
        assert subjects("test=x") == []


def test_given_a_healthy_broker_when_asked_then_ok(port: int) -> None:
    page = get(port, "/healthz")
    assert (page.status, page.json) == (200, {"status": "ok"})


def test_given_the_index_when_asked_then_every_page_it_names_is_there(port: int) -> None:
    page = get(port, "/")
    paths = [f"/{name}" for name in re.findall(r'href="(\w+)"', page.body.decode())]
    assert set(paths) == set(PAGES)
    assert all(get(port, path).status == 200 for path in paths)
    assert get(port, "/varz/").status == 200


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/connz?limit=x", "limit: 'x' is not a number from 0 to 10000"),
        ("/connz?limit=10001", "limit: '10001' is not a number from 0 to 10000"),
        ("/connz?offset=-1", "offset: '-1' is not a number from 0"),
        ("/connz?offset=99999999999999999999", "offset: '99999999999999999999' is not"),
        ("/connz?offset=" + "9" * 5000, "offset: '9999"),
        ("/connz?offset=%EF%BC%91", "offset: '１' is not"),  # noqa: RUF001 - another 1
        ("/connz?sort=size", "sort: cannot sort by 'size'; give one of cid, start, subs"),
        ("/connz?subs=maybe", "subs: 'maybe' is neither true nor false"),
        ("/connz?auth=maybe", "auth: 'maybe' is neither true nor false"),
        ("/connz?state=gone", "state: 'gone' is none of open, closed, all, any"),
        ("/connz?sort=stop", "sort: 'stop' is for closed connections; give state=closed"),
        ("/connz?sort=reason&state=all", "sort: 'reason' is for closed connections"),
        ("/connz?filter_subject=a.*", "filter_subject: is not a subject that can be published to"),
        ("/connz?mqtt_client=x", "/connz has no parameter 'mqtt_client'; there are state, sort"),
        ("/connz?" + "x" * 100, "/connz has no parameter '" + "x" * 40 + "...'"),
        ("/varz?subs=1", "/varz has no parameter 'subs'; it has none"),
        ("/healthz?alvie=1", "/healthz has no parameter 'alvie'"),
        ("/connz?cid=x", "cid: 'x' is not a number"),
        ("/connz?sort=cid&sort=%00", "sort: cannot sort by '\\x00'"),
        ("/connz?sort=%FF", "sort: cannot sort by '\\udcff'"),
        ("/subsz?subs=detail&limit=-", "limit: '-' is not a number"),
        ("/subsz?test=a..b", "test: is not a subject that can be published to"),
        ("/subsz?test=a.*", "test: is not a subject that can be published to"),
        ("/varz?" + "&".join(f"a{n}=1" for n in range(100)), "the query has too many parameters"),
    ],
    ids=lambda value: value[:40],
)
def test_given_a_wrong_parameter_when_asked_then_400_and_the_reason_as_json(
    port: int, path: str, told: str
) -> None:
    page = get(port, path)
    assert page.status == 400
    assert page.json["error"].startswith(told)
    assert page.json["status_code"] == 400


def test_given_what_is_not_there_when_asked_then_404_or_405(port: int) -> None:
    assert (get(port, "/nope").status, get(port, "/nope").json["status_code"]) == (404, 404)
    assert get(port, "/varz", method="POST").status == 405
    head = get(port, "/varz", method="HEAD")
    assert (head.status, head.body) == (200, b"")
    assert int(head.headers["Content-Length"]) > 100
    assert get(port, "/metrics", method="POST").status == 405


def test_given_traffic_when_scraped_then_metrics_count_it(broker: ServerProcess, port: int) -> None:
    with RawClient(broker.port, QUIET) as client:
        client.ask(b"SUB a 1\r\nSUB > 2\r\n" + b"PUB a 3\r\nabc\r\n" * 10)
        seen = metrics(port)
    assert seen['seriatim_messages_total{direction="in"}'] == 10
    assert seen['seriatim_messages_total{direction="out"}'] == 20
    assert seen['seriatim_bytes_total{direction="in"}'] == 30
    assert seen["seriatim_sequence"] == 10
    assert seen["seriatim_connections"] == seen["seriatim_connections_accepted_total"] == 1
    assert seen["seriatim_subscriptions"] == 2
    assert seen["seriatim_slow_consumers_total"] == 0
    assert seen["process_resident_memory_bytes"] > 1e6
    assert any(name.startswith("seriatim_build_info{") for name in seen)
    closed = metrics(port)
    assert closed['seriatim_messages_total{direction="in"}'] == 10


def test_given_a_subscriber_that_does_not_read_when_asked_then_its_bytes_are_pending(
    broker: ServerProcess, port: int
) -> None:
    payload = b"PUB a 100000\r\n" + bytes(100_000) + b"\r\n"
    with (
        RawClient(broker.port, receive_buffer=4096) as asleep,  # no CONNECT: no PING comes soon
        RawClient(broker.port, QUIET) as publisher,
    ):
        asleep.ask(b"SUB a 1\r\n")
        for _ in range(100):
            publisher.ask(payload)
        (first, *_) = get(port, "/connz?sort=pending").json["connections"]
        seen = metrics(port)
    assert first["cid"] == 1
    assert first["pending_bytes"] > 1_000_000
    assert seen["seriatim_pending_bytes_max"] == first["pending_bytes"]


def test_given_openmetrics_when_asked_for_then_every_family_has_one_kind(port: int) -> None:
    page = get(port, "/metrics", headers={"Accept": "application/openmetrics-text"})
    assert page.headers["Content-Type"].startswith("application/openmetrics-text")
    families = re.findall(r"^# TYPE (\S+) ", page.body.decode(), re.MULTILINE)
    assert len(families) == len(set(families))
    assert page.body.endswith(b"# EOF\n")


def test_given_a_stopped_broker_when_asked_then_the_port_is_closed() -> None:
    with monitored("none", "--http_host", "127.0.0.1") as process:
        port = http_port(process)
        assert get(port, "/healthz").status == 200
        process.stop()
        with pytest.raises(OSError, match="refused"):
            get(port, "/healthz")
        assert "Traceback" not in "".join(process.log)
