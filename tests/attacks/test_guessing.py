"""Guessers of credentials, from one address and from many; and someone who knows them."""

import base64
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import bcrypt
import nkeys
import pytest

from tests.attacks.beside import GOOD, USERS, Attacked, beside
from tests.attacks.crowd import Dialled, crowd, until
from tests.support.depth import depth, in_soak
from tests.support.raw import RawClient

GUESSES = depth(400, 5000)
ROUNDS = depth(3, 5)  # of a deployment that crashes
# Of authentication. Those who know are judged by it: on a busy machine a login takes some seconds,
# and behind all the guesses it would take half a minute on the fastest.
PATIENT_S = 12.0
HASTY_S = 4.0  # for guessers whose end a test awaits
SLOW = "a slow secret"
HASHED = bcrypt.hashpw(SLOW.encode(), bcrypt.gensalt(11)).decode()
GONE = b"-ERR 'Authorization Violation'\r\n"
CROWD = b"-ERR 'Too Many Login Attempts, Try Again Later'\r\n"


def public_key() -> str:
    seed = nkeys.encode_seed(bytes(range(32)), nkeys.PREFIX_BYTE_USER)
    key: str = nkeys.from_seed(seed).public_key.decode()
    return key


def users(timeout: float = PATIENT_S) -> str:
    hashed = HASHED
    key = public_key()
    config = re.sub('timeout = ".*"', f'timeout = "{timeout}s"', USERS)
    return config + (
        f'[[authorization.users]]\nuser = "slow"\npassword = "{hashed}"\n'
        f'[[authorization.users]]\nnkey = "{key}"\n'
    )


def guess(kind: str, at: int) -> bytes:
    """The CONNECT of one who guesses."""
    if kind == "nkey":
        made = base64.urlsafe_b64encode(at.to_bytes(64, "big")).rstrip(b"=").decode()
        return f'CONNECT {{"nkey":"{public_key()}","sig":"{made}"}}\r\n'.encode()
    user = {"plain": "good", "bcrypt": "slow", "unknown": f"user{at}"}[kind]
    return f'CONNECT {{"user":"{user}","pass":"guess {at}"}}\r\n'.encode()


def login(port: int, user: str, secret: str, source: str = "") -> None:
    """Log in as one who knows the password; the broker closes those who have to wait for long."""
    connect = f'CONNECT {{"verbose":false,"user":"{user}","pass":"{secret}"}}\r\n'
    with RawClient(port, connect.encode(), source=source) as client:
        assert client.ask(b"") == []


@contextmanager
def guessers(broker: Attacked, kind: str, from_many: bool) -> Iterator[list[Dialled]]:
    """Connections that have guessed, each once."""
    with crowd(broker.port, GUESSES, source="127.9.9.9", from_many=from_many) as clients:
        for at, one in enumerate(clients):
            one.send(guess(kind, at))
        yield clients


@pytest.mark.parametrize(
    ("kind", "from_many"),
    [
        ("plain", False),
        ("bcrypt", False),
        ("bcrypt", True),
        ("nkey", False),
        ("unknown", True),
        *in_soak(("plain", True), ("nkey", True), ("unknown", False)),
    ],
)
def test_given_guesses_when_by_the_thousand_then_all_fail(
    tmp_path: Path, kind: str, from_many: bool
) -> None:
    with beside(tmp_path, users(HASTY_S)) as broker:
        with crowd(broker.port, 1, source="127.9.9.8") as (alone,):
            alone.send(guess(kind, 0))
            until([alone], lambda one: one.closed)
            assert alone.heard.endswith(GONE)
        with guessers(broker, kind, from_many) as clients:
            until(clients, lambda one: one.closed)
            # Many have no turn in time; on a busy machine, none may have one.
            assert all(one.heard.endswith((GONE, CROWD)) for one in clients)
        assert len(broker.process.log) < 1500  # eleven lines of each address at most


@pytest.mark.parametrize(
    ("kind", "from_many"),
    [
        ("plain", False),
        ("bcrypt", False),
        ("bcrypt", True),
        *in_soak(("nkey", False), ("unknown", True), ("unknown", False)),
    ],
)
def test_given_guesses_when_by_the_thousand_then_who_knows_is_let_in(
    tmp_path: Path, kind: str, from_many: bool
) -> None:
    """The guessers have other addresses. Clients that were in before need not wait for hashes."""
    with beside(tmp_path, users()) as broker:
        login(broker.port, "slow", SLOW)
        with guessers(broker, kind, from_many):
            for _ in range(5):
                login(broker.port, GOOD["user"], GOOD["pass"])
            login(broker.port, "slow", SLOW)


def test_given_one_address_that_guesses_when_another_logs_in_for_the_first_time_then_in_time(
    tmp_path: Path,
) -> None:
    with beside(tmp_path, users()) as broker, guessers(broker, "bcrypt", from_many=False):
        login(broker.port, "slow", SLOW)


@pytest.mark.parametrize("user", ["quick", "good"])
def test_given_many_guesses_at_once_when_a_late_one_is_right_then_it_is_not_reached(
    tmp_path: Path, user: str
) -> None:
    """All of them came before the first was found wrong; they are not checked without a pause."""
    right = {"quick": SLOW, "good": GOOD["pass"]}[user]
    quick = bcrypt.hashpw(SLOW.encode(), bcrypt.gensalt(4)).decode()
    config = users(HASTY_S) + f'[[authorization.users]]\nuser = "quick"\npassword = "{quick}"\n'
    with (
        beside(tmp_path, config) as broker,
        crowd(broker.port, 100, source="127.9.9.9") as clients,
    ):
        for at, one in enumerate(clients):
            secret = right if at == 80 else f"guess {at}"
            one.send(f'CONNECT {{"user":"{user}","pass":"{secret}"}}\r\nPING\r\n'.encode())
        until(clients, lambda one: one.closed or b"PONG" in one.heard)
        assert not any(b"PONG" in one.heard for one in clients)
        login(broker.port, user, right)  # those at other addresses notice nothing


def test_given_clients_with_an_old_password_when_others_there_are_right_then_they_are_let_in(
    tmp_path: Path,
) -> None:
    """A deployment that crashes again and again with a password of before, behind one NAT."""
    count = 40
    with beside(tmp_path, users()) as broker:
        for _ in range(ROUNDS):
            with crowd(broker.port, count, source="127.9.9.9") as clients:
                for number, one in enumerate(clients):
                    user = ("good", "slow")[number % 2]
                    one.send(f'CONNECT {{"user":"{user}","pass":"old"}}\r\n'.encode())
                for user, secret in ((GOOD["user"], GOOD["pass"]), ("slow", SLOW)):
                    login(broker.port, user, secret, source="127.9.9.9")
                until(clients, lambda one: one.closed)
                assert all(one.heard.endswith(GONE) for one in clients), "none of them is a guess"


def test_given_a_guesser_when_who_was_in_before_comes_back_from_there_then_it_is_let_in(
    tmp_path: Path,
) -> None:
    with beside(tmp_path, users()) as broker:
        login(broker.port, "slow", SLOW, source="127.9.9.9")
        with guessers(broker, "bcrypt", from_many=False):
            login(broker.port, "slow", SLOW, source="127.9.9.9")
            login(broker.port, GOOD["user"], GOOD["pass"], source="127.9.9.9")


def test_given_a_guesser_of_a_slow_password_when_it_waits_then_few_guesses_are_checked(
    tmp_path: Path,
) -> None:
    with (
        beside(tmp_path, users(HASTY_S)) as broker,
        guessers(broker, "bcrypt", from_many=False) as clients,
    ):
        until(clients, lambda one: one.closed)
        checked = sum(one.heard.endswith(GONE) for one in clients)
        assert checked < 30, "the others wait, or are refused as too many"
