"""Monitoring of staging: what is staged, and what was committed."""

from tests.support.raw import HEADERS, RawClient
from tests.support.staging import LISTEN, Batch
from tests.support.web import get, http_port, metrics, monitored


def test_given_batches_when_asked_then_every_page_counts_them() -> None:
    with (
        monitored("netstring") as broker,
        RawClient(broker.port, HEADERS + LISTEN) as client,
    ):
        port = http_port(broker)
        assert set(get(port, "/varz").json["staging"].values()) == {0}
        batch, waiting = Batch("app", 1, 30, stages=2), Batch("app", 2, 5)
        for data in (*batch.pieces(1000), batch.commit()):
            client.send(data)
        while client.operation().subject != b"_INBOX.staging.commit":
            pass
        client.send(batch.commit() + b"".join(waiting.pieces(100_000)))
        for _ in range(2):
            client.operation()
        staging, samples = get(port, "/varz").json["staging"], metrics(port)
    pieces = len([*batch.pieces(1000)]) + 1
    size = len(waiting.parts["0-0"])
    assert staging == {
        **{"stages": 1, "bytes": size, "applications": 1, "committing": 0},
        **{"pieces": pieces, "commits": 1, "rows": 30, "repeated": 1, "expired": 0},
    }
    names = {
        "stages": "stages",
        "bytes": "bytes",
        "applications": "applications",
        "committing": "commits_active",
        "pieces": "pieces_total",
        "commits": "commits_total",
        "rows": "rows_total",
        "repeated": "commits_repeated_total",
        "expired": "expired_total",
    }
    for key, name in names.items():
        assert samples[f"seriatim_staging_{name}"] == staging[key]
