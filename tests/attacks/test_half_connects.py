"""Connections by the thousand that never finish their CONNECT."""

from pathlib import Path

from tests.attacks.beside import USERS, beside
from tests.attacks.crowd import crowd, send_all, until
from tests.support.depth import depth

COUNT = depth(3000, 8000)
HALF = b'CONNECT {"verbose":false,"user":"go'
PER_CLIENT = 16 << 10  # of one that has said nothing: 10 KiB are usual


def test_given_half_connects_without_users_when_they_stay_then_each_costs_little(
    tmp_path: Path,
) -> None:
    with (
        beside(tmp_path, peak=COUNT * PER_CLIENT) as broker,
        crowd(broker.port, COUNT) as clients,
    ):
        send_all(clients, HALF)
        assert broker.varz()["connections"] == COUNT + 2


def test_given_half_connects_with_users_when_the_time_is_over_then_all_are_closed(
    tmp_path: Path,
) -> None:
    with (
        beside(tmp_path, USERS, peak=COUNT * PER_CLIENT) as broker,
        crowd(broker.port, COUNT, from_many=True) as clients,
    ):
        send_all(clients, HALF)
        until(clients, lambda one: one.closed)
        assert all(one.heard.endswith(b"-ERR 'Authentication Timeout'\r\n") for one in clients)
        assert broker.varz()["connections"] == 2
