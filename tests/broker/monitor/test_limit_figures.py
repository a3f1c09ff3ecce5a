"""Monitoring of the limits: how near they are, and how often they were reached."""

from broker.monitor.figures import LIMITS as FIGURES
from broker.monitor.figures import Counter
from tests.support.processes import SeriatimServer
from tests.support.raw import HEADERS, RawClient
from tests.support.web import get, http_port, metrics

LIMITS = {"max_subscriptions": 3, "max_replays": 1, "max_subject_tokens": 3, "max_connections": 2}


def test_given_limits_that_are_reached_then_varz_and_the_metrics_say_how_often() -> None:
    with (
        SeriatimServer(arguments=["-m", "-1"], limits=LIMITS) as broker,
        RawClient(broker.port, HEADERS) as client,
        RawClient(broker.port, HEADERS) as other,
    ):
        assert other.ask(b"") == []
        client.ask(b"SUB a 1\r\nSUB b 2\r\n")
        for _ in range(2):
            assert len(client.ask(b"SUB a.b.c.d 3\r\nPUB a.b.c.d 1\r\nx\r\n")) == 2
        client.ask(b"SUB $SEQ.FROM.99.a 3\r\n")
        for _ in range(3):
            assert len(client.ask(b"SUB a 4\r\n")) == 1
        client.ask(b"UNSUB 1\r\n")
        for _ in range(5):
            assert len(client.ask(b"SUB $SEQ.FROM.99.a 4\r\n")) == 1
        with RawClient(broker.port) as late:
            assert b"maximum connections exceeded" in late.until_closed()
        port = http_port(broker)
        page, samples = get(port, "/varz").json["limits"], metrics(port)
    assert page == {
        "addresses": 1,
        "most_from_one_address": 2,
        "connections_refused": 1,
        "connections_refused_by_address": 0,
        "subscriptions_counted": 2,
        "subscriptions_refused": 3,
        "subjects_refused": 4,
        "replays_open": 1,
        "replays_refused": 5,
        "reads_refused": 0,
        "publishers_paused": 0,
        "publisher_pauses": 0,
        "unsent_bytes": page["unsent_bytes"],
    }
    for one in FIGURES:
        ending = "_total" if isinstance(one, Counter) else ""
        assert samples[f"seriatim_{one.metric}{ending}"] == page[one.key]
