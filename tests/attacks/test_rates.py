"""A user that publishes as fast as it can, with many connections, against its rate."""

import time
from pathlib import Path

from tests.attacks.beside import MALLORY, USERS, beside
from tests.attacks.crowd import crowd, is_answered, send_all, until

RATE = 2000
CLIENTS = 8
EACH = 1000  # messages
AT_ONCE = 1.0  # seconds of its rate, of one that has published nothing


def test_given_a_publish_rate_when_flooded_by_all_connections_of_a_user_then_it_holds(
    tmp_path: Path,
) -> None:
    """Nothing is dropped: the connections together take as long as the rate says."""
    config = USERS.replace('"mallory"\nperm', f'"mallory"\npublish_rate = {RATE}\nperm')
    assert config != USERS
    with beside(tmp_path, config) as broker, crowd(broker.port, CLIENTS) as clients:
        began = time.monotonic()
        lines = [b"PUB mallory.%d 16\r\n0123456789abcdef\r\n" % at for at in range(EACH)]
        send_all(clients, MALLORY + b"".join(lines) + b"PING\r\n")
        until(clients, is_answered)
        took = time.monotonic() - began
        assert took >= CLIENTS * EACH / RATE - AT_ONCE - 0.5
        assert not any(b"-ERR" in one.heard for one in clients)
