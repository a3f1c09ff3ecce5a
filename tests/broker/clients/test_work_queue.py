"""Clients that bring much work: served in turn, one in each turn of the loop."""

from itertools import pairwise
from pathlib import Path

from tests.support.serving import Client, serving

FLOODS = 40
TURN = 400  # replays that begin in one turn, at least
FLOOD = b"".join(b"SUB $SEQ.FROM.999999.a %d\r\n" % sid for sid in range(1500)) + b"PING\r\n"


def test_given_many_clients_that_bring_much_work_then_another_is_served_between_any_two(
    tmp_path: Path,
) -> None:
    with serving(tmp_path) as broker:
        floods, other = [broker.client() for _ in range(FLOODS)], broker.client()
        for client in floods:
            client.send(FLOOD)
        replays, seen = broker.server.replays, list[int]()
        assert replays is not None
        while replays.opened.open < FLOODS * 1500:
            assert other.ask(b"") == []
            seen.append(replays.opened.open)
        steps = [after - before for before, after in pairwise(seen[1:])]
        assert max(steps) < FLOODS * TURN / 2, "one turn of each, if it waited for all"


def test_given_many_clients_of_one_address_then_another_address_has_as_many_turns(
    tmp_path: Path,
) -> None:
    with serving(tmp_path) as broker:
        floods = [broker.client(source="127.0.0.2") for _ in range(FLOODS)]
        other = broker.client(source="127.0.0.3")
        for client in (*floods, other):
            client.send(FLOOD)
        replays = broker.server.replays
        assert replays is not None
        other.ask(b"")  # it has had as many turns as it needs, and so has the other address
        assert replays.opened.open < 8 * 1500, "not those of the flood, before each of its own"


def test_given_many_clients_of_one_user_then_another_user_has_as_many_turns(
    tmp_path: Path,
) -> None:
    users = tmp_path / "users.toml"
    users.write_text(
        '[[users]]\nuser = "many"\npassword = "s"\n[[users]]\nuser = "one"\npassword = "s"\n'
    )

    def connect(user: bytes) -> bytes:
        return b'CONNECT {"verbose":false,"user":"%b","pass":"s"}\r\n' % user

    flags = {"authorization.users_file": str(users)}
    with serving(tmp_path / "store", flags=flags) as broker:
        floods: list[Client] = [broker.client(connect(b"many")) for _ in range(FLOODS)]
        other = broker.client(connect(b"one"))
        for client in (*floods, other):
            client.send(FLOOD)
        replays = broker.server.replays
        assert replays is not None
        other.ask(b"")
        assert replays.opened.open < 8 * 1500
