"""Who a client is: every kind of credentials, and what comes between the claim and the answer."""

import asyncio
import base64
import time
from collections.abc import Callable, Coroutine
from typing import Any, cast

import bcrypt
import nkeys
import pytest

from broker.auth.authenticator import Authenticator, Claim
from broker.auth.users import Users
from broker.dataplane.user import User
from broker.settings.authorization_settings import AuthorizationSettings, UserSettings
from tests.clients.served import run

PAIR = nkeys.from_seed(nkeys.encode_seed(bytes(32), nkeys.PREFIX_BYTE_USER))
KEY = PAIR.public_key.decode()
HASH = bcrypt.hashpw(b"hashed", bcrypt.gensalt(4)).decode()
SLOW = bcrypt.hashpw(b"slow", bcrypt.gensalt(10)).decode()
USERS = (
    UserSettings(user="plain", password="plain"),
    UserSettings(user="hashed", password=HASH),
    UserSettings(user="slow", password=SLOW),
    UserSettings(nkey=KEY),
    UserSettings(user="certified"),
)
SIGNED = base64.b64encode(PAIR.sign(b"nonce")).decode()


def claim(ip: str = "1.1.1.1", gone: Callable[[], bool] = lambda: False, **claims: Any) -> Claim:
    return Claim(ip, claims.pop("nonce", b"nonce"), gone, **claims)


class Desk:
    """An authenticator, asked one claim after the other."""

    def __init__(self, attempts: int = 0, timeout: float = 2.0, **settings: Any) -> None:
        loop = asyncio.get_running_loop()
        self.settings = AuthorizationSettings(**({"users": USERS} | settings))
        self.authenticator = Authenticator(Users(self.settings), attempts, timeout, loop)

    def ask(self, claim: Claim) -> "asyncio.Future[User | None]":
        answer: asyncio.Future[User | None] = asyncio.get_running_loop().create_future()
        self.authenticator.identify(claim, cast(Any, answer.set_result))
        return answer

    async def name(self, **claims: Any) -> str | None:
        user = await self.ask(claim(**claims))
        return None if user is None else user.name


def asking(scenario: Callable[[Desk], Coroutine[Any, Any, None]], **settings: Any) -> None:
    async def asked() -> None:
        desk = Desk(**settings)
        try:
            await scenario(desk)
        finally:
            desk.authenticator.stop()

    run(asked())


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        ({"user": "plain", "password": "plain"}, "plain"),
        ({"user": "plain", "password": "Plain"}, None),
        ({"user": "plain", "password": ""}, None),
        ({"user": "plain"}, None),
        ({"user": "hashed", "password": "hashed"}, "hashed"),
        ({"user": "hashed", "password": HASH}, None),
        ({"user": "hashed", "password": "plain"}, None),
        ({"user": "nobody", "password": "plain"}, None),
        ({"user": "certified", "password": ""}, None),
        ({"user": "certified"}, None),
        ({"user": KEY, "password": KEY}, None),
        ({"user": KEY}, None),
        ({"password": "plain"}, None),
        ({"token": "plain"}, None),
        ({"user": "plain", "password": "plain", "token": "wrong"}, "plain"),
        ({"nkey": KEY, "signature": SIGNED}, KEY),
        ({"nkey": KEY, "signature": SIGNED, "nonce": b"other"}, None),
        ({"nkey": KEY, "signature": base64.b64encode(PAIR.sign(b"")).decode(), "nonce": b""}, None),
        ({"nkey": KEY, "signature": SIGNED, "user": "plain", "password": "wrong"}, KEY),
        ({"nkey": KEY, "signature": "x", "user": "plain", "password": "plain"}, None),
        ({"nkey": "plain", "signature": SIGNED}, None),
        ({"nkey": KEY}, None),
        ({"signature": SIGNED}, None),
        ({}, None),
        ({"names": ("nobody", "certified", "plain")}, "certified"),
        ({"names": ("nobody",), "user": "plain", "password": "plain"}, None),
        ({"names": (), "user": "plain", "password": "plain"}, None),
        ({"user": "\0\x1b[31m\ud800", "password": "\ud800"}, None),
    ],
)
def test_given_claims_then_the_user_is_who_has_proved_it(
    claims: dict[str, Any], name: str | None
) -> None:
    async def scenario(desk: Desk) -> None:
        assert await desk.name(**claims) == name

    asking(scenario)


@pytest.mark.parametrize(
    "secret", ["token", bcrypt.hashpw(b"token", bcrypt.gensalt(4)).decode()], ids=["plain", "hash"]
)
@pytest.mark.parametrize(
    ("claims", "right"),
    [
        ({"token": "token"}, True),
        ({"token": "token", "user": "anybody", "password": "x"}, True),
        ({"token": "wrong"}, False),
        ({"token": ""}, False),
        ({"user": "token"}, False),
        ({"password": "token"}, False),
        ({"nkey": "x", "signature": "x", "token": "token"}, True),
    ],
)
def test_given_a_token_then_a_client_that_gives_it_is_its_user(
    secret: str, claims: dict[str, Any], right: bool
) -> None:
    async def scenario(desk: Desk) -> None:
        assert await desk.name(**claims) == ("" if right else None)

    asking(scenario, users=(), token=secret)


def test_given_a_default_user_then_only_clients_that_claim_nothing_get_it() -> None:
    async def scenario(desk: Desk) -> None:
        assert await desk.name() == "plain"
        assert await desk.name(signature="x") == "plain", "as in nats-server"
        for claims in ({"user": "x"}, {"password": "x"}, {"token": "x"}, {"nkey": "x"}):
            assert await desk.name(**claims) is None
        assert desk.authenticator.failures == 4

    asking(scenario, no_auth_user="plain")


def test_given_a_claim_when_shown_then_no_secret_is() -> None:
    given = claim(user="u", password="SecretOne", token="SecretTwo", signature="SecretThree")
    assert "Secret" not in repr(given)
    assert "Secret" not in given.label
    assert claim(nkey=KEY).label == f"nkey {KEY}"
    seed = PAIR.seed.decode()
    assert seed not in claim(nkey=seed).label


@pytest.mark.parametrize("user", ["a\r\nb", "\x1b]0;x\x07", "\u202eevil", "\ud800", "x" * 5000])
def test_given_a_name_with_any_characters_then_its_label_is_one_short_printable_line(
    user: str,
) -> None:
    for label in (claim(user=user).label, claim(nkey=user).label):
        assert label.isprintable()
        assert len(label) < 300


# Between the claim and the answer


def test_given_a_client_that_leaves_while_its_password_is_checked_then_all_ends() -> None:
    async def scenario(desk: Desk) -> None:
        gone = False
        first = desk.ask(claim(user="slow", password="wrong"))
        second = desk.ask(claim(gone=lambda: gone, user="slow", password="slow"))
        gone = True
        assert await first is None
        assert await second is None
        assert desk.authenticator.waiting == 0
        assert await desk.name(user="slow", password="slow") == "slow"

    asking(scenario)


def test_given_clients_that_leave_before_they_are_checked_then_others_of_theirs_need_not_wait() -> (
    None
):
    gone = False

    async def scenario(desk: Desk) -> None:
        nonlocal gone
        first = desk.ask(claim(user="slow", password="slow"))  # keeps the others waiting
        late = [
            desk.ask(claim(gone=lambda: gone, user=f"u{number}", password="wrong"))
            for number in range(20)
        ]
        gone = True
        assert await first is not None
        assert await asyncio.gather(*late) == [None] * 20
        attempts, now = desk.authenticator._of_addresses, asyncio.get_running_loop().time()
        assert attempts.wait("1.1.1.1", now) == 0
        assert attempts.is_suspect("1.1.1.1", now), "but those of other addresses come first"

    asking(scenario, attempts=1)


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        ((UserSettings(user="slow", password="other"),), None),
        ((UserSettings(user="else", password="x"),), None),
        ((UserSettings(user="slow", password=SLOW, publish_rate=7),), 7),
        ((UserSettings(user="slow", password="slow", publish_rate=8),), 8),
    ],
)
def test_given_a_reload_while_a_password_is_checked_then_the_new_users_decide(
    later: tuple[UserSettings, ...], expected: int | None
) -> None:
    async def scenario(desk: Desk) -> None:
        answer = desk.ask(claim(user="slow", password="slow"))
        assert not answer.done()
        desk.authenticator.users = Users(AuthorizationSettings(users=later))
        user = await answer
        assert (None if user is None else user.publish_rate) == expected

    asking(scenario)


def test_given_authentication_is_not_needed_any_more_then_all_that_wait_are_answered() -> None:
    async def scenario(desk: Desk) -> None:
        answers = [desk.ask(claim(user="slow", password=f"x{number}")) for number in range(5)]
        desk.authenticator.let_go()
        assert [answer.result() for answer in answers] == [None] * 5
        late = desk.ask(claim(user="slow", password="slow"))
        await asyncio.get_running_loop().run_in_executor(None, bcrypt.checkpw, b"x", SLOW.encode())
        await asyncio.sleep(0)
        assert not late.done() or late.result() is None

    asking(scenario)


def test_given_a_stop_then_clients_that_wait_are_not_answered() -> None:
    async def scenario(desk: Desk) -> None:
        for number in range(5):
            assert await desk.name(user="plain", password=f"wrong{number}") is None
        waiting = [desk.ask(claim(user="plain", password="plain")) for _ in range(3)]
        assert not any(answer.done() for answer in waiting)
        desk.authenticator.stop()
        await asyncio.sleep(0.3)  # no event to await: nothing may happen
        assert not any(answer.done() for answer in waiting)

    asking(scenario, attempts=1, timeout=0.2)


def test_given_a_guesser_then_it_waits_with_right_and_wrong_ones_and_others_do_not() -> None:
    async def scenario(desk: Desk) -> None:
        for number in range(6):
            await desk.name(user="plain", password=f"wrong{number}")
        begun = time.monotonic()
        slow = desk.ask(claim(user="plain", password="plain"))
        assert not slow.done()
        quick = desk.ask(claim(ip="2.2.2.2", user="plain", password="plain"))
        assert quick.done(), "from another address"
        user = await slow
        assert user is not None
        assert time.monotonic() - begun > 0.09

    asking(scenario, attempts=2, timeout=0.2)


def test_given_a_network_of_ipv6_then_all_its_addresses_are_one() -> None:
    async def scenario(desk: Desk) -> None:
        for number in range(6):
            await desk.name(ip=f"2001:db8::{number}", user="plain", password=f"wrong{number}")
        assert not desk.ask(claim(ip="2001:db8::ffff", user="plain", password="plain")).done()
        assert desk.ask(claim(ip="2001:db8:1::1", user="plain", password="plain")).done()

    asking(scenario, attempts=2, timeout=0.2)


def test_given_unknown_and_plain_names_beside_hashes_then_each_wrong_guess_costs_a_hash() -> None:
    async def scenario(desk: Desk) -> None:
        for name in ("nobody", "plain", "certified", "hashed", KEY):
            answer = desk.ask(claim(user=name, password="wrong"))
            assert not answer.done(), f"{name}: a hash is checked in a thread"
            assert await answer is None
        assert desk.ask(claim(user="plain", password="plain")).done()

    asking(scenario)


def test_given_no_hashes_then_every_name_is_answered_at_once() -> None:
    async def scenario(desk: Desk) -> None:
        for name in ("nobody", "plain", ""):
            assert desk.ask(claim(user=name, password="wrong")).done()

    asking(scenario, users=(UserSettings(user="plain", password="plain"),))
