"""What monitoring says of the journal of a running broker, and of one without."""

from collections.abc import Iterator

import pytest

from tests.support.processes import ServerProcess
from tests.support.raw import HEADERS, RawClient
from tests.support.web import get, http_port, metrics, monitored

HEAD = b"NATS/1.0\r\nNats-Msg-Id: one\r\n\r\n"


@pytest.fixture(scope="module")
def broker() -> Iterator[ServerProcess]:
    """Three messages and a duplicate, and a replay of two."""
    with monitored() as process:
        with RawClient(process.port, HEADERS) as client:
            client.ask(b"HPUB a %d %d\r\n%bhi\r\n" % (len(HEAD), len(HEAD) + 2, HEAD) * 2)
            client.ask(b"PUB a 2\r\nhi\r\n" * 2)
            client.send(b"SUB $SEQ.RANGE.2.3.> 1\r\n")
            while client.operation().subject != b"$SEQ.END.3":
                pass
        yield process


def test_given_a_journal_when_asked_then_varz_tells_of_it(broker: ServerProcess) -> None:
    varz = get(http_port(broker), "/varz").json
    journal = varz["journal"]
    assert varz["sequence"] == 3
    assert (journal["store"], journal["sync"], journal["epoch"]) == ("disk", "interval", 1)
    assert len(journal["journal"]) == 16
    assert (journal["first"], journal["last"], journal["segments"]) == (1, 3, 1)
    assert (journal["duplicates"], journal["ids"]) == (1, 1)
    assert (journal["replays"], journal["replayed"]) == (1, 2)
    assert (journal["full"], journal["refused"], journal["lost"]) == (False, 0, 0)
    assert journal["bytes"] > 3 * 56


def test_given_a_journal_when_scraped_then_the_metrics_say_the_same(broker: ServerProcess) -> None:
    port = http_port(broker)
    journal, found = get(port, "/varz").json["journal"], metrics(port)
    assert found["seriatim_journal_last_number"] == journal["last"] == 3
    assert found["seriatim_journal_bytes"] == journal["bytes"]
    assert found["seriatim_duplicates_total"] == 1
    assert found["seriatim_replayed_messages_total"] == 2
    labels = f'journal="{journal["journal"]}",store="disk",sync="interval"'
    assert found[f"seriatim_journal_info{{{labels}}}"] == 1


@pytest.mark.parametrize(("ring", "store"), [("1MiB", "memory"), ("0", "none")])
def test_given_no_journal_when_asked_then_monitoring_says_so(ring: str, store: str) -> None:
    with monitored("none", "--no-journal", "--ring_bytes", ring) as process:
        with RawClient(process.port, HEADERS) as client:
            client.ask(b"PUB a 2\r\nhi\r\n" * 2)
        journal = get(http_port(process), "/varz").json["journal"]
    assert (journal["store"], journal["sync"], journal["syncs"]) == (store, "never", 0)
    assert journal["last"] == (2 if store == "memory" else 0)
