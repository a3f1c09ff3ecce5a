"""Passwords: plain ones and bcrypt; whose turn it is; what is remembered, and bounded."""

import asyncio
from collections.abc import Coroutine, Hashable
from dataclasses import replace
from typing import Any

import bcrypt
import pytest

from broker.auth import passwords
from broker.auth.passwords import (
    CHECKS_MAX,
    Guess,
    HashChecker,
    decoy_of,
    digest,
    has_hash,
    is_same,
)
from broker.settings.authorization_checks import wrong_hash
from tests.clients.served import run


def hashed(password: bytes, cost: int = 4) -> str:
    return bcrypt.hashpw(password, bcrypt.gensalt(cost)).decode()


GOOD = hashed(b"good")
SLOW = hashed(b"good", 10)


class Asker:
    """Asks a checker, and notes the answers in their order."""

    def __init__(self, checker: HashChecker, suspects: set[Hashable]) -> None:
        self.checker, self.suspects = checker, suspects
        self.answers: list[tuple[str, bool | None]] = []
        self.gone: set[str] = set()
        self.changed = asyncio.Event()

    def ask(self, label: str, guess: Guess) -> None:
        def then(right: bool | None) -> None:
            self.answers.append((label, right))
            self.changed.set()

        self.checker.check(guess, then, lambda: label in self.gone)

    async def until(self, count: int) -> list[tuple[str, bool | None]]:
        while len(self.answers) < count:
            self.changed.clear()
            await self.changed.wait()
        return self.answers


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The passwords that a thread has taken to check against a hash, which takes its time."""
    found: list[str] = []

    def noted(hash: str, password: str) -> bool:
        found.append(password)
        return has_hash(hash, password)

    monkeypatch.setattr(passwords, "has_hash", noted)
    return found


def guess(password: str, address: str = "1.1.1.1", hash: str = GOOD, name: str = "u") -> Guess:
    return Guess(hash, password, name, address)


def checking(scenario: Any) -> None:
    async def checked() -> None:
        suspects: set[Hashable] = set()
        checker = HashChecker(asyncio.get_running_loop(), suspects.__contains__)
        try:
            work: Coroutine[Any, Any, None] = scenario(Asker(checker, suspects))
            await work
        finally:
            checker.stop()

    run(checked())


# Plain


@pytest.mark.parametrize(
    "other", ["", "secre", "secret ", "Secret", "secret\0", "\ud800", "x" * 100_000]
)
def test_given_two_secrets_then_they_are_the_same_only_if_they_are_equal(other: str) -> None:
    assert is_same("secret", "secret")
    assert is_same(other, other)
    assert not is_same("secret", other)


def test_given_a_digest_then_nothing_of_the_secret_is_in_it() -> None:
    assert digest("a") != digest("b")
    assert b"secret" not in digest("secret")


# bcrypt


@pytest.mark.parametrize("prefix", [b"2a", b"2b"])
def test_given_a_hash_then_its_password_and_no_other_is_right(prefix: bytes) -> None:
    hash = bcrypt.hashpw(
        "gr\N{LATIN SMALL LETTER U WITH DIAERESIS}n".encode(), bcrypt.gensalt(4, prefix)
    )
    assert has_hash(hash.decode(), "gr\N{LATIN SMALL LETTER U WITH DIAERESIS}n")
    for wrong in ("", "grun", hash.decode(), "\ud800"):
        assert not has_hash(hash.decode(), wrong)


def test_given_a_password_that_bcrypt_would_cut_then_it_is_wrong() -> None:
    longest = b"x" * 72
    hash = hashed(longest)
    assert has_hash(hash, longest.decode())
    assert not has_hash(hash, longest.decode() + "y")
    assert not has_hash(hash, "x" * 100_000)
    assert not has_hash(hash, "\N{EURO SIGN}" * 30)


def test_given_a_nul_then_the_password_is_wrong_though_bcrypt_repeats_it() -> None:
    hash = hashed(b"abc")
    assert has_hash(hash, "abc")
    for wrong in ("abc\0", "abc\0abc", "\0", "abc\0x"):
        assert not has_hash(hash, wrong)


def test_given_hashes_then_the_decoy_costs_as_much_as_most_and_is_of_no_password() -> None:
    decoy = decoy_of([hashed(b"a", 4), hashed(b"b", 5), hashed(b"c", 5)])
    assert decoy.startswith("$2b$05$")
    assert wrong_hash(decoy) == ""
    assert not any(has_hash(decoy, one) for one in ("", "a", "b", "c", decoy))
    assert decoy_of([]) == ""


# The checker


def test_given_guesses_then_each_is_answered_once() -> None:
    async def scenario(asker: Asker) -> None:
        for number in range(5):
            asker.ask(f"wrong {number}", guess(f"bad{number}"))
        asker.ask("right", guess("good"))
        answers = await asker.until(6)
        assert sorted(answers) == sorted(
            [(f"wrong {n}", False) for n in range(5)] + [("right", True)]
        )

    checking(scenario)


def test_given_a_right_password_then_it_is_known_from_then_on_and_answered_at_once() -> None:
    async def scenario(asker: Asker) -> None:
        asker.ask("first", guess("good", hash=SLOW))
        await asker.until(1)
        for number in range(1000):
            asker.ask(f"{number}", guess("good", address=f"2.0.0.{number}", hash=SLOW))
        assert len(asker.answers) == 1001, "before anything else ran"
        asker.ask("wrong", guess("bad", hash=SLOW))
        assert await asker.until(1002)
        assert asker.answers[-1] == ("wrong", False)
        asker.ask("other", guess("good", hash=hashed(b"other")))
        assert (await asker.until(1003))[-1] == ("other", False), "known for its own hash"

    checking(scenario)


def test_given_the_same_guess_of_many_clients_then_it_is_checked_once(checked: list[str]) -> None:
    async def scenario(asker: Asker) -> None:
        for number in range(200):
            asker.ask(f"{number}", guess("worse", address=f"3.0.0.{number}", hash=SLOW))
        await asker.until(200)
        assert checked == ["worse"]
        assert not any(right for _, right in asker.answers)

    checking(scenario)


def test_given_guesses_of_two_names_with_one_decoy_then_their_checks_are_not_shared() -> None:
    first = guess("x", name="alice")
    assert first.key != replace(first, name="bob").key
    assert first.key == guess("x", name="alice", address="9.9.9.9").key


def test_given_an_address_with_many_guesses_then_another_has_its_turn_after_one() -> None:
    async def scenario(asker: Asker) -> None:
        for number in range(50):
            asker.ask(f"many {number}", guess(f"bad{number}", "6.6.6.6"))
        asker.ask("other", guess("good", "7.7.7.7"))
        answers = await asker.until(4)
        assert ("other", True) in answers[:4]

    checking(scenario)


def test_given_many_guesses_of_one_user_then_another_there_has_its_turn_after_one() -> None:
    async def scenario(asker: Asker) -> None:
        for suspects in (set[Hashable](), {"6.6.6.6"}):
            asker.suspects |= suspects
            begun = len(asker.answers)
            for number in range(50):
                asker.ask(f"many {number}", guess(f"bad{number} {begun}"))
            asker.ask("other", guess("good", name="other", hash=hashed(b"good")))
            answers = await asker.until(begun + 4)
            assert ("other", True) in answers[begun : begun + 4]
            await asker.until(begun + 51)

    checking(scenario)


def test_given_guesses_of_addresses_that_failed_lately_then_all_others_come_first() -> None:
    async def scenario(asker: Asker) -> None:
        for number in range(100):
            asker.ask(f"suspect {number}", guess(f"b{number}", f"6.0.0.{number}"))
        asker.suspects |= {f"6.0.0.{number}" for number in range(100)}
        asker.ask("good", guess("good", "7.7.7.7"))
        answers = await asker.until(3)
        assert ("good", True) in answers[:3]
        await asker.until(101)

    checking(scenario)


def test_given_a_client_that_has_left_then_its_guess_is_not_checked(checked: list[str]) -> None:
    async def scenario(asker: Asker) -> None:
        for number in range(300):
            asker.ask(f"{number}", guess(f"bad{number}", f"6.0.0.{number}", hash=SLOW))
        asker.gone = {f"{number}" for number in range(300)}
        answers = await asker.until(300)
        assert checked == ["bad0"], "it had begun"
        assert [right for _, right in answers].count(None) == 299
        assert asker.checker._checks == {}
        assert not asker.checker._fresh

    checking(scenario)


def test_given_too_many_guesses_of_one_address_then_only_its_own_are_refused() -> None:
    async def scenario(asker: Asker) -> None:
        for number in range(CHECKS_MAX + 100):
            asker.ask(f"flood {number}", guess(f"bad{number}", "6.6.6.6"))
        refused = len(asker.answers)
        assert refused >= 90
        asker.ask("good", guess("good", "7.7.7.7"))
        answers = await asker.until(refused + 4)
        assert ("good", True) in answers[refused : refused + 4]
        assert len(asker.checker._checks) <= CHECKS_MAX

    checking(scenario)


def test_given_a_queue_full_of_suspects_then_a_newcomer_takes_the_place_of_one() -> None:
    async def scenario(asker: Asker) -> None:
        for number in range(CHECKS_MAX):
            asker.suspects.add(f"a{number}")
            asker.ask(f"s{number}", guess(f"b{number}", f"a{number}"))
        asker.suspects.add("b")
        asker.ask("one more", guess("one more", "b"))
        assert asker.answers[-1] == ("one more", None), "suspects displace no other address"
        asker.ask("good", guess("good", "7.7.7.7"))
        answers = await asker.until(4)
        assert ("good", True) in answers[:4]

    checking(scenario)


def test_given_a_stop_then_nobody_is_answered_any_more_and_nothing_is_kept() -> None:
    async def scenario(asker: Asker) -> None:
        for number in range(20):
            asker.ask(f"{number}", guess(f"bad{number}"))
        asker.checker.stop()
        asker.ask("late", guess("good"))
        await asyncio.get_running_loop().run_in_executor(None, has_hash, SLOW, "x")
        await asyncio.sleep(0)
        assert asker.answers == []
        assert asker.checker._checks == {}

    checking(scenario)


def test_given_a_hash_that_cannot_be_checked_then_it_is_wrong_and_the_next_one_is_checked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(asker: Asker) -> None:
        asker.ask("broken", guess("SecretGuess", hash="$2b$04$" + "!" * 53))
        asker.ask("good", guess("good"))
        assert sorted(await asker.until(2)) == [("broken", False), ("good", True)]

    checking(scenario)
    assert "could not be checked" in caplog.text
    assert "SecretGuess" not in caplog.text


def test_given_a_guess_when_shown_then_its_password_is_not() -> None:
    assert "SecretGuess" not in repr(guess("SecretGuess"))
