"""The last connections that have ended: how many are kept, and in how much memory."""

import tracemalloc
from types import SimpleNamespace
from typing import Any

from broker.clients.closed_connections import KEPT, ClosedConnections

BOUND = 12 << 20  # bytes of all of them, as docs/architecture.md says


def ended(cid: int, text: str = "") -> Any:
    """What a session shows at its end; each has objects of its own."""
    return SimpleNamespace(
        cid=10_000_000 + cid,
        ip=f"2001:db8:aaaa:bbbb:cccc:dddd:eeee:{cid:x}",
        port=10_000 + cid,
        started_at=cid + 0.5,
        last_activity=cid + 1.5,
        heard=cid + 2.5,
        rtt=cid + 3.5,
        closed_for="Client Closed",
        kind="websocket",
        frame="netstring",
        tls=("1.3", f"TLS_AES_128_GCM_SHA256 {cid}"),
        tls_first=True,
        name=f"{cid}{text}",
        lang=f"{cid}{text}",
        version=f"{cid}{text}",
        user_name=f"{cid}{text}",
        subscribed=1000 + cid,
        connection=SimpleNamespace(
            in_msgs=1000 + cid, out_msgs=2000 + cid, in_bytes=3000 + cid, out_bytes=4000 + cid
        ),
    )


def test_given_more_than_are_kept_then_the_oldest_go() -> None:
    closed = ClosedConnections(3)
    for cid in range(5):
        closed.add(ended(cid), 9.0)
    assert [one.cid - 10_000_000 for one in closed] == [2, 3, 4]
    assert len(closed) == 3


def test_given_none_to_keep_then_none_are_kept() -> None:
    closed = ClosedConnections(0)
    closed.add(ended(1), 9.0)
    assert list(closed) == []


def test_given_the_longest_names_then_all_of_them_take_a_bounded_memory() -> None:
    text = "\U0001f600" * 4000  # four bytes each, in UTF-8 and in memory
    tracemalloc.start()
    try:
        closed = ClosedConnections()
        for cid in range(KEPT + 100):
            closed.add(ended(cid, text), 9.0 + cid)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(closed) == KEPT
    assert taken < BOUND
    assert all(len(one.name.encode()) <= 64 for one in closed)
    assert next(iter(closed)).name == "100" + "\U0001f600" * 14 + "..."
