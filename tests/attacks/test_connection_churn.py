"""Connections that come and go as fast as the system allows."""

from pathlib import Path

from tests.attacks.beside import USERS, beside
from tests.attacks.crowd import Dialled, address, crowd, until
from tests.support.depth import depth

TIMES = depth(2500, 50_000)
AT_ONCE = 200
PLACES = 100
LEAVES = (b"", b"CONNECT {}\r\n", b"PING\r\n", b"CONNECT {}\r\nSUB > 1\r\nPUB a 1\r\n")


def test_given_connections_when_they_come_and_go_by_the_thousand_then_nobody_waits(
    tmp_path: Path,
) -> None:
    """Some leave before they are greeted, some in the middle of a message; half of them reset."""
    with beside(tmp_path) as broker:
        for begin in range(0, TIMES, AT_ONCE):
            made = [Dialled(broker.port, address(begin + at)) for at in range(AT_ONCE)]
            until(made[1::2], lambda one: bool(one.heard))
            for at, one in enumerate(made):
                one.send(LEAVES[at % len(LEAVES)])
                one.reset() if at % 3 else one.socket.close()
        broker.until(lambda varz: varz["connections"] == 2)


def test_given_places_of_an_address_when_it_asks_for_more_then_others_find_theirs(
    tmp_path: Path,
) -> None:
    limits = {"max_connections_per_address": PLACES}
    with (
        beside(tmp_path, USERS, limits=limits) as broker,
        crowd(broker.port, PLACES * 10, source="127.9.9.9") as clients,
        crowd(broker.port, 10, source="127.9.9.8") as others,
    ):
        full = b"-ERR 'maximum connections exceeded'"
        assert sum(full in one.heard for one in clients) == PLACES * 9
        assert not any(full in one.heard for one in others)
