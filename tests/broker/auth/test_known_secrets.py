"""Secrets that are known to be right or wrong, for a user at an address; and the bounds of that."""

from broker.auth.known_secrets import MISSES_MAX, USERS_MAX, WRONG_MAX, KnownSecrets

KEY = ("1.1.1.1", "alice")


def seal(number: int) -> bytes:
    return number.to_bytes(32, "big")


def test_given_secrets_that_were_checked_then_they_are_known_for_their_key_alone() -> None:
    known = KnownSecrets()
    assert known.verdict(KEY, seal(1), 0.0) is None
    known.learn(KEY, seal(1), is_right=True)
    known.learn(KEY, seal(2), is_right=False)
    assert known.verdict(KEY, seal(1), 0.0) is True
    assert known.verdict(KEY, seal(2), 0.0) is False
    assert known.verdict(KEY, seal(3), 0.0) is None
    for other in (("1.1.1.2", "alice"), ("1.1.1.1", "bob")):
        assert known.verdict(other, seal(1), 0.0) is None
        assert known.verdict(other, seal(2), 0.0) is None


def test_given_another_right_secret_then_only_that_one_is_known() -> None:
    known = KnownSecrets()
    known.learn(KEY, seal(1), is_right=True)
    known.learn(KEY, seal(2), is_right=True)
    assert known.verdict(KEY, seal(1), 0.0) is None
    assert known.verdict(KEY, seal(2), 0.0) is True


def test_given_very_many_guesses_where_the_right_one_is_known_then_it_is_not_found_among_them() -> (
    None
):
    """They are counted before any of them is checked: a flood comes faster than its answers."""
    known = KnownSecrets()
    known.learn(KEY, seal(0), is_right=True)
    for number in range(MISSES_MAX):
        assert known.verdict(KEY, seal(0), 0.0) is True, "until then nobody waits"
        assert known.verdict(KEY, seal(1 + number), 0.0) is None
    assert known.verdict(KEY, seal(0), 0.0) is None
    looked_at = 0
    for tenth in range(1, 1000):  # a guesser that goes on for 100 seconds
        known.verdict(KEY, seal(10**6 + tenth), tenth / 10)
        looked_at += known.verdict(KEY, seal(0), tenth / 10) is True
    assert looked_at < 5, "its next guess, and not this one, is looked at once a second"
    assert known.verdict(KEY, seal(0), 102.0) is True, "the guesser pauses"


def test_given_wrong_secrets_without_end_then_the_last_ones_are_remembered() -> None:
    known = KnownSecrets()
    for number in range(100):
        known.learn(KEY, seal(number), is_right=False)
    wrong = [n for n in range(100) if known.verdict(KEY, seal(n), 0.0) is False]
    assert wrong == list(range(100 - WRONG_MAX, 100))


def test_given_one_old_password_between_guesses_then_it_stays_known() -> None:
    known = KnownSecrets()
    for number in range(100):
        known.learn(KEY, seal(1000 + number), is_right=False)
        if number == 0:
            known.learn(KEY, seal(1), is_right=False)
        assert known.verdict(KEY, seal(1), 0.0) is False


def test_given_users_without_end_then_few_are_remembered_the_latest_ones() -> None:
    known = KnownSecrets()
    for number in range(USERS_MAX + 10):
        known.learn(number, seal(1), is_right=True)
        known.learn(number, seal(2), is_right=False)
    assert len(known._right) == len(known._wrong) == USERS_MAX
    for secret in (1, 2):
        assert known.verdict(9, seal(secret), 0.0) is None
        assert known.verdict(10, seal(secret), 0.0) is not None
