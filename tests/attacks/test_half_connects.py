"""Connections by the thousand that never finish their CONNECT."""

from pathlib import Path

from tests.attacks.beside import USERS, beside
from tests.attacks.crowd import crowd, is_answered, send_all, until
from tests.support.depth import depth
from tests.support.raw import RawClient

COUNT = depth(1500, 8000)
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
    users = USERS.replace('timeout = "15s"', 'timeout = "1s"')
    assert users != USERS
    with (
        beside(tmp_path, users, peak=COUNT * PER_CLIENT) as broker,
        crowd(broker.port, COUNT, from_many=True) as clients,
    ):
        send_all(clients, HALF)
        until(clients, lambda one: one.closed)
        assert all(one.heard.endswith(b"-ERR 'Authentication Timeout'\r\n") for one in clients)
        broker.until(lambda varz: varz["connections"] == 2)


def test_given_a_connect_in_two_pieces_when_both_have_come_then_the_user_is_let_in(
    tmp_path: Path,
) -> None:
    """Cut anywhere; a long one comes in two segments often."""
    line = b'CONNECT {"verbose":false,"user":"good","pass":"a good secret"}\r\n'
    with beside(tmp_path, USERS) as broker, crowd(broker.port, len(line)) as clients:
        for at, one in enumerate(clients):
            one.send(line[:at])
        with RawClient(broker.port, line) as another:  # by then all pieces were read
            assert another.ask(b"") == []
        for at, one in enumerate(clients):
            one.send(line[at:] + b"PING\r\n")
        until(clients, lambda one: one.closed or is_answered(one))
        assert all(map(is_answered, clients))
