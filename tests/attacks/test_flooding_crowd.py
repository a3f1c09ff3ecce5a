"""Many connections that flood at once: each takes turns, and those of all together are short."""

from pathlib import Path

import pytest

from tests.attacks.beside import beside
from tests.attacks.crowd import crowd, is_answered, send_all, until
from tests.attacks.footprint import MIB
from tests.support.depth import depth
from tests.support.raw import QUIET

CLIENTS = depth(200, 1000)
BYTES = depth(2, 100) * MIB  # of all together
FLOODS = {
    "replays": b"SUB $SEQ.FROM.99999999.> 1\r\nUNSUB 1\r\n",
    "subscriptions": b"SUB a.b 1\r\nUNSUB 1\r\n",
    "messages": b"PUB a.b 1\r\nx\r\n",
    "requests": b"PUB $SEQ.INFO r 0\r\n\r\n",
}


@pytest.mark.parametrize("kind", FLOODS)
def test_given_hundreds_that_flood_at_once_when_one_publishes_little_then_it_does_not_wait(
    tmp_path: Path, kind: str
) -> None:
    flood = FLOODS[kind] * (BYTES // CLIENTS // len(FLOODS[kind]))
    with beside(tmp_path) as broker, crowd(broker.port, CLIENTS) as clients:
        send_all(clients, QUIET + flood + b"PING\r\n")
        until(clients, is_answered)
