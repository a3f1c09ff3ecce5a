"""Guessers of credentials, from one address and from many; and someone who knows them."""

import base64
from pathlib import Path

import bcrypt
import nkeys
import pytest

from tests.attacks.beside import GOOD, USERS, beside
from tests.attacks.crowd import Dialled, crowd, until
from tests.support.depth import depth, in_soak
from tests.support.raw import RawClient

GUESSES = depth(400, 5000)
ROUNDS = depth(3, 5)  # of a deployment that crashes
TIMEOUT_S = 10.0  # of authentication: on a busy machine, one hash may take a second
SLOW = "a slow secret"
HASHED = bcrypt.hashpw(SLOW.encode(), bcrypt.gensalt(11)).decode()
GONE = b"-ERR 'Authorization Violation'\r\n"
CROWD = b"-ERR 'Too Many Login Attempts, Try Again Later'\r\n"


def public_key() -> str:
    seed = nkeys.encode_seed(bytes(range(32)), nkeys.PREFIX_BYTE_USER)
    key: str = nkeys.from_seed(seed).public_key.decode()
    return key


def users() -> str:
    hashed = HASHED
    key = public_key()
    config = USERS.replace('timeout = "1s"', f'timeout = "{TIMEOUT_S}s"')
    return config + (
        f'[[authorization.users]]\nuser = "slow"\npassword = "{hashed}"\n'
        f'[[authorization.users]]\nnkey = "{key}"\n'
    )


def guess(kind: str, at: int) -> bytes:
    """The CONNECT of one who guesses."""
    if kind == "nkey":
        made = base64.urlsafe_b64encode(at.to_bytes(64, "big")).rstrip(b"=").decode()
        return f'CONNECT {{"nkey":"{public_key()}","sig":"{made}"}}\r\n'.encode()
    user = {"plain": "good", "bcrypt": "slow", "nobody": f"user{at}"}[kind]
    return f'CONNECT {{"user":"{user}","pass":"guess {at}"}}\r\n'.encode()


def login(port: int, user: str, secret: str, source: str = "") -> None:
    """One who knows the password is let in."""
    connect = f'CONNECT {{"verbose":false,"user":"{user}","pass":"{secret}"}}\r\n'
    with RawClient(port, connect.encode(), source=source) as client:
        assert client.ask(b"") == []


def still_waiting(clients: list[Dialled]) -> int:
    """How many have got no answer so far: they had come before who was let in just now."""
    for one in clients:
        one.read()
    return sum(not one.heard.endswith((GONE, CROWD)) for one in clients)


@pytest.mark.parametrize(
    ("kind", "from_many"),
    [
        ("plain", False),
        ("bcrypt", False),
        ("bcrypt", True),
        ("nkey", False),
        ("nobody", True),
        *in_soak(("plain", True), ("nkey", True), ("nobody", False)),
    ],
)
def test_given_guesses_when_by_the_thousand_then_all_fail_and_who_knows_is_let_in(
    tmp_path: Path, kind: str, from_many: bool
) -> None:
    """The guessers have other addresses. Whoever was in before need not wait for hashes."""
    with beside(tmp_path, users()) as broker:
        login(broker.port, "slow", SLOW)
        with crowd(broker.port, 1, source="127.9.9.8") as (alone,):
            alone.send(guess(kind, 0))
            until([alone], lambda one: one.closed)
            assert alone.heard.endswith(GONE)
        with crowd(broker.port, GUESSES, source="127.9.9.9", from_many=from_many) as clients:
            for at, one in enumerate(clients):
                one.send(guess(kind, at))
            for _ in range(5):
                login(broker.port, GOOD["user"], GOOD["pass"])
            login(broker.port, "slow", SLOW)
            assert kind == "nkey" or still_waiting(clients)  # signatures are checked at once
            until(clients, lambda one: one.closed)
            # Many have no turn in time; on a busy machine, none may have one.
            assert all(one.heard.endswith((GONE, CROWD)) for one in clients)
        assert len(broker.process.log) < 1500  # eleven lines of each address at most


def test_given_one_address_that_guesses_when_another_logs_in_for_the_first_time_then_in_time(
    tmp_path: Path,
) -> None:
    with (
        beside(tmp_path, users()) as broker,
        crowd(broker.port, GUESSES, source="127.9.9.9") as clients,
    ):
        for at, one in enumerate(clients):
            one.send(guess("bcrypt", at))
        login(broker.port, "slow", SLOW)
        assert still_waiting(clients)


@pytest.mark.parametrize("user", ["quick", "good"])
def test_given_many_guesses_at_once_when_a_late_one_is_right_then_it_is_not_reached(
    tmp_path: Path, user: str
) -> None:
    """All of them came before the first was found wrong; they are not checked without a pause."""
    right = {"quick": SLOW, "good": GOOD["pass"]}[user]
    quick = bcrypt.hashpw(SLOW.encode(), bcrypt.gensalt(4)).decode()
    config = USERS + f'[[authorization.users]]\nuser = "quick"\npassword = "{quick}"\n'
    with (
        beside(tmp_path, config) as broker,
        crowd(broker.port, 100, source="127.9.9.9") as clients,
    ):
        for at, one in enumerate(clients):
            secret = right if at == 80 else f"guess {at}"
            one.send(f'CONNECT {{"user":"{user}","pass":"{secret}"}}\r\nPING\r\n'.encode())
        until(clients, lambda one: one.closed or b"PONG" in one.heard)
        assert not any(b"PONG" in one.heard for one in clients)
        login(broker.port, user, right)  # elsewhere nobody notices


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
        with crowd(broker.port, 200, source="127.9.9.9") as clients:
            for at, one in enumerate(clients):
                one.send(guess("bcrypt", at))
            login(broker.port, "slow", SLOW, source="127.9.9.9")
            login(broker.port, GOOD["user"], GOOD["pass"], source="127.9.9.9")
            assert still_waiting(clients)
            until(clients, lambda one: one.closed)
            checked = sum(one.heard.endswith(GONE) for one in clients)
            assert checked < 30, "the others wait, or are told that there are too many"
