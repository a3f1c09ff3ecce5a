"""Monitoring of cquencer's port: its totals, and its clients with their times."""

import socket
from datetime import UTC, datetime

from tests.support.cquencer_clients import answer, port_of
from tests.support.raw import QUIET, RawClient
from tests.support.web import get, http_port, metrics, monitored


def test_given_traffic_when_asked_then_every_page_counts_it() -> None:
    begun = datetime.now(UTC)
    arguments = ["--sequencer_port", "-1", "--sequencer_framing", "netstring"]
    with (
        monitored("netstring", *arguments) as broker,
        RawClient(broker.port, QUIET) as nats,
        socket.create_connection(("127.0.0.1", port_of(broker))) as one,
        socket.create_connection(("127.0.0.1", port_of(broker))) as other,
    ):
        port = http_port(broker)
        nats.ask(b"PUB a 3\r\nabc\r\n")
        assert answer(one, b"5:hello,") == b"1:2,"
        assert answer(one, b"0:,") == b"1:2,"
        assert answer(other, b"2:hi,") == b"1:3,"
        second = get(port, "/portz?offset=1&limit=1").json
        assert answer(other, b"no netstring").startswith(b"61:-ERR 'Not a Netstring")
        other.close()
        while (page := get(port, "/portz").json)["total"] > 1:
            pass  # the broker has not seen that it is closed
        varz, samples = get(port, "/varz").json, metrics(port)
        wrong = get(port, "/portz?limit=x")
        (entry, *_) = page["connections"]
        assert (entry["ip"], entry["port"]) == one.getsockname()
    assert (page["offset"], page["limit"], len(page["connections"])) == (0, 1024, 1)
    assert (second["offset"], second["num_connections"], second["total"]) == (1, 1, 2)
    assert second["connections"][0]["cid"] == 3
    assert wrong.status == 400
    figures = (entry["in_msgs"], entry["in_bytes"], entry["queries"], entry["errors"])
    assert figures == (1, 5, 1, 0)
    assert entry["pending_bytes"] == 0
    assert entry["cid"] == 2
    start, last = (datetime.fromisoformat(entry[name]) for name in ("start", "last_activity"))
    assert begun <= start <= last <= datetime.now(UTC)
    assert (varz["in_msgs"], varz["in_bytes"], varz["connections"]) == (3, 10, 1)
    assert varz["cquencer"] == {
        "host": "127.0.0.1",
        "port": port_of(broker),
        "framing": "netstring",
        "subject": "cq",
        "connections": 1,
        "accepted": 2,
        "messages": 2,
        "bytes": 7,
        "queries": 1,
        "errors": 1,
    }
    assert samples["seriatim_port_connections"] == 1
    assert samples["seriatim_port_connections_accepted_total"] == 2
    assert samples["seriatim_port_messages_total"] == 2
    assert samples["seriatim_port_bytes_total"] == 7
    assert samples["seriatim_port_queries_total"] == 1
    assert samples["seriatim_port_errors_total"] == 1
    assert samples["seriatim_route_lookups_total"] == 3


def test_given_no_such_port_when_asked_then_pages_are_empty_and_metrics_0() -> None:
    with monitored() as broker:
        port = http_port(broker)
        page, varz, samples = get(port, "/portz").json, get(port, "/varz").json, metrics(port)
    assert (page["total"], page["connections"]) == (0, [])
    assert varz["cquencer"] == {}
    assert {samples[name] for name in samples if name.startswith("seriatim_port_")} == {0}
