"""`Nats-Msg-Id` in floods, and ids that someone else will use."""

from pathlib import Path

import pytest

from tests.attacks.beside import MALLORY, USERS, beside
from tests.attacks.crowd import crowd, is_answered, send_all, until
from tests.attacks.footprint import MIB
from tests.support.depth import depth
from tests.support.raw import HEADERS, RawClient

CLIENTS = 4
EACH = depth(12_000, 250_000)
KEPT = 10_000  # ids
VICTIM = HEADERS.replace(b"{", b'{"user":"victim","pass":"victim",')
VICTIMS = '[[authorization.users]]\nuser = "victim"\npassword = "victim"\n'


def identified(subject: bytes, message_id: bytes, payload: bytes) -> bytes:
    head = b"NATS/1.0\r\nNats-Msg-Id: %b\r\n\r\n" % message_id
    size = len(head)
    total = size + len(payload)
    return b"HPUB %b %d %d\r\n%b%b\r\n" % (subject, size, total, head, payload)


@pytest.mark.parametrize("length", [8, 3000])
def test_given_ids_in_a_flood_when_all_differ_then_memory_is_bounded(
    tmp_path: Path, length: int
) -> None:
    """So many ids are kept, of whatever length; the setting says how many."""
    count = EACH if length < 100 else EACH // 50
    with (
        beside(tmp_path, "", "--dedupe_ids", str(KEPT), peak=64 * MIB) as broker,
        crowd(broker.port, CLIENTS) as clients,
    ):
        for at, one in enumerate(clients):
            ids = (b"%d-%d" % (at, number) for number in range(count))
            text = b"".join(identified(b"a", found.ljust(length, b"."), b"") for found in ids)
            send_all([one], HEADERS + text + b"PING\r\n")
        until(clients, is_answered)


@pytest.mark.parametrize("permissions", ["", 'permissions = { publish = "orders" }'])
def test_given_an_id_that_another_user_has_used_elsewhere_when_published_then_it_is_delivered(
    tmp_path: Path, permissions: str
) -> None:
    with (
        beside(tmp_path, USERS + VICTIMS + permissions) as broker,
        RawClient(broker.port, VICTIM, b"SUB orders 1\r\n") as victim,
        RawClient(broker.port, MALLORY) as mallory,
    ):
        assert victim.ask(b"") == []
        assert mallory.ask(identified(b"mallory.x", b"order-1001", b"")) == []
        order = identified(b"orders", b"order-1001", b"sell")
        (got,) = victim.ask(order)
        assert got.payload == b"sell"
        assert mallory.ask(identified(b"mallory.x", b"order-1001", b"")) == []
        assert victim.ask(order) == [], "its own is a duplicate"
