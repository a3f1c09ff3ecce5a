"""Users and permissions on both brokers: the same dialogue, the same answers to the byte."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.processes import STAND_IN, ServerProcess
from tests.support.raw import RawClient
from tests.support.twin_users import Heard, TwinUsers, connect, hold
from tests.wire.cases_users import CASES, KINDER, STRICTER, USERS, UserCase

pytestmark = pytest.mark.skipif(STAND_IN, reason="nats-server is compared with ours here")

Pair = tuple[ServerProcess, ServerProcess]
NO_PAUSES = ("--auth_attempts", "0")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Pair]]:
    """Both brokers with the named users; each is started when it is first asked for."""
    running: dict[str, Pair] = {}
    with ExitStack() as stack:

        def choose(users: str) -> Pair:
            if users not in running:
                given, folder = USERS[users], tmp_path_factory.mktemp("users")
                theirs = stack.enter_context(given.nats_server())
                running[users] = theirs, stack.enter_context(given.ours(folder, *NO_PAUSES))
            return running[users]

        yield choose


def both(pair: Callable[[str], Pair], case: UserCase) -> tuple[list[Heard], list[Heard]]:
    theirs, ours = pair(case.users)
    return hold(theirs.port, *case.steps), hold(ours.port, *case.steps)


def test_given_the_table_then_no_two_cases_have_one_name() -> None:
    names = [case.name for case in (*CASES, *STRICTER, *KINDER)]
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_given_a_dialogue_then_each_client_hears_what_it_hears_from_nats_server(
    case: UserCase, pair: Callable[[str], Pair]
) -> None:
    theirs, ours = both(pair, case)
    for (who, send), expected, heard in zip(case.steps, theirs, ours, strict=True):
        assert heard == expected, f"{who} sent {send!r}"


@pytest.mark.parametrize("case", STRICTER, ids=str)
def test_given_what_nats_server_lets_pass_then_ours_is_stricter(
    case: UserCase, pair: Callable[[str], Pair]
) -> None:
    theirs, ours = (heard[-1]["a"] for heard in both(pair, case))
    refused = [one for one in ours[0] if one[0] == "-ERR"]
    assert refused or len(ours[0]) < len(theirs[0])
    assert not any(one[0] == "-ERR" for one in theirs[0])


@pytest.mark.parametrize("case", KINDER, ids=str)
def test_given_a_request_that_comes_again_then_ours_may_be_answered_again(
    case: UserCase, pair: Callable[[str], Pair]
) -> None:
    theirs, ours = (heard[-1] for heard in both(pair, case))
    assert [one[0] for one in theirs["s"][0]] == ["-ERR", "PONG"]
    assert [one[0] for one in ours["r"][0]] == ["MSG", "PONG"]


@pytest.mark.parametrize("users", list(USERS))
def test_given_users_then_info_says_the_same_of_them(
    users: str, pair: Callable[[str], Pair]
) -> None:
    told = []
    for server in pair(users):
        with RawClient(server.port) as first, RawClient(server.port) as second:
            nonces = [client.info.get("nonce", "") for client in (first, second)]
            assert nonces == ["", ""] or nonces[0] != nonces[1]
            told.append((first.info.get("auth_required"), len(nonces[0])))
    assert told[0] == told[1]


@pytest.mark.parametrize("begin", [b"", b"C", b"CONNECT {", connect("u", "bad")[:-1]])
def test_given_no_whole_connect_in_time_then_both_close_with_the_same_words(
    begin: bytes, tmp_path: Path
) -> None:
    users = TwinUsers({"user": "u", "password": "p", "timeout": 0.3})
    said = []
    with users.nats_server() as theirs, users.ours(tmp_path, *NO_PAUSES) as ours:
        for server in (theirs, ours):
            with RawClient(server.port) as client:
                client.send(begin)
                said.append(client.until_closed())
    assert said[0] == said[1] == b"-ERR 'Authentication Timeout'\r\n"


def test_given_a_client_that_has_authenticated_in_time_then_it_is_not_closed(
    tmp_path: Path,
) -> None:
    users = TwinUsers({"user": "u", "password": "p", "timeout": 1.0})  # a busy machine keeps it
    with users.ours(tmp_path) as ours, RawClient(ours.port) as known:
        known.ask(connect("u", "p"))
        with RawClient(ours.port) as stranger:
            assert stranger.until_closed() == b"-ERR 'Authentication Timeout'\r\n"
        known.ask(b"")
