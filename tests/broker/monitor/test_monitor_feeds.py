"""What monitoring says of the feeds of a running broker, and of one without."""

import socket
from collections.abc import Iterator

import pytest

from sequencer.feed.codecs import codec_named
from sequencer.feed.moldudp64 import request
from tests.support.multicast import WAIT_S, Ear, new_group
from tests.support.processes import ServerProcess
from tests.support.raw import QUIET, RawClient
from tests.support.serving import feed_text
from tests.support.web import get, http_port, metrics, monitored

GROUP, OTHER = new_group(), new_group()


@pytest.fixture(scope="module")
def broker() -> Iterator[ServerProcess]:
    """Two feeds, four messages of which one is too long, two requests of which one is nonsense."""
    mold = {"codec": "moldudp64", "rerequest_port": -1, "heartbeat": "1h", "packing": "true"}
    feeds = (
        *("--feed", feed_text(GROUP, name="market", **mold)),
        *("--feed", feed_text(OTHER, subject="news.>")),
    )
    with Ear(GROUP) as ear, monitored("netstring", *feeds) as process:
        with RawClient(process.port, QUIET) as client:
            client.ask(b"PUB orders 2\r\nhi\r\n" * 2 + b"PUB news.a 2\r\nhi\r\n")
            client.ask(b"PUB orders 70000\r\n%b\r\n" % (b"x" * 70_000))
        reader = codec_named("moldudp64")
        session = reader.decode(ear.next()).session
        ask(rerequest_port(process), b"nonsense", request(session, 2, 2))
        yield process


def ask(port: int, *requests: bytes) -> bytes:
    """Ask again; the answer to the last one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        asker.settimeout(WAIT_S)
        asker.connect(("127.0.0.1", port))
        for one in requests:
            asker.send(one)
        return asker.recv(1 << 16)


def rerequest_port(process: ServerProcess) -> int:
    (line,) = (said for said in process.log if "answering re-requests on 127.0.0.1:" in said)
    return int(line.rpartition(":")[2])


def test_given_feeds_when_asked_then_varz_tells_of_each(broker: ServerProcess) -> None:
    market, other = get(http_port(broker), "/varz").json["feeds"]
    assert (market["name"], market["group"], market["port"]) == ("market", *GROUP)
    assert (market["interface"], market["codec"]) == ("127.0.0.1", "moldudp64")
    assert (market["messages"], market["too_long"], market["last"]) == (3, 1, 4)
    # One at the start, if it came before the message.
    assert market["heartbeats"] in (0, 1)
    assert (market["datagrams"] - market["heartbeats"], market["errors"]) == (1, 0)
    assert market["rerequest_port"] == rerequest_port(broker)
    asked = market["rerequests"]
    assert (asked["requests"], asked["answered"], asked["messages"]) == (2, 1, 2)
    assert asked["malformed"] == 1
    assert (other["name"], other["subject"]) == (f"{OTHER[0]}:{OTHER[1]}", "news.>")
    assert (other["messages"], other["skipped"], other["last"]) == (1, 3, 3)
    assert "rerequests" not in other


def test_given_feeds_when_scraped_then_the_metrics_say_the_same(broker: ServerProcess) -> None:
    port = http_port(broker)
    (market, other), found = get(port, "/varz").json["feeds"], metrics(port)
    for feed in (market, other):
        labels = f'{{feed="{feed["name"]}"}}'
        assert found[f"seriatim_feed_last_number{labels}"] == feed["last"]
        for key in ("messages", "datagrams", "bytes", "skipped", "too_long", "errors"):
            assert found[f"seriatim_feed_{key}_total{labels}"] == feed[key]
    assert found['seriatim_feed_rerequests_total{feed="market"}'] == 2
    assert found['seriatim_feed_rerequest_bytes_total{feed="market"}'] > 20
    refused = 'seriatim_feed_rerequests_refused_total{feed="market",reason="%s"}'
    assert (found[refused % "malformed"], found[refused % "limited"]) == (1, 0)


def test_given_no_feeds_when_asked_then_there_is_nothing_to_tell() -> None:
    with monitored() as process:
        assert get(http_port(process), "/varz").json["feeds"] == []
        assert not any(name.startswith("seriatim_feed") for name in metrics(http_port(process)))
