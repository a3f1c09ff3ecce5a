"""Users as the settings name them: who is found, who stays after a reload, who shares what."""

from typing import Any

import bcrypt
import pytest

from broker.auth.users import Users
from broker.settings.authorization_settings import (
    AuthorizationSettings,
    PermissionSettings,
    UserSettings,
)

ONLY_A = PermissionSettings(publish_allow=("a",), subscribe_deny=("b",))
KEY = "UA5WUJ54Z23KILLCUOUNAKTPBVZWKMQVO4O6EQ5GHLAERIMLLHNCTYM5"


def users(*given: UserSettings, **settings: Any) -> Users:
    return Users(AuthorizationSettings(users=given, **settings))


def user(name: str, password: str = "secret", **more: Any) -> UserSettings:
    return UserSettings(user=name, password=password, **more)


def test_given_users_then_each_is_found_by_its_name_or_key() -> None:
    ours = users(user("a", publish_rate=5, publish_bytes=7), UserSettings(nkey=KEY))
    found = ours.find("a")
    assert found is not None
    assert (found.name, found.publish_rate, found.publish_bytes) == ("a", 5, 7)
    key_user = ours.find(KEY)
    assert key_user is not None
    assert key_user.name == KEY
    assert list(ours.keys) == [KEY]
    assert list(ours.passwords) == ["a"]
    assert ours.find("") is None
    assert ours.find("A") is None


def test_given_a_single_user_then_it_is_one_of_them() -> None:
    ours = Users(AuthorizationSettings(user="only", password="x"))
    assert ours.find("only") is not None
    assert ours.passwords == {"only": "x"}


def test_given_permissions_then_equal_ones_share_a_guard_and_none_have_none() -> None:
    again = PermissionSettings(publish_allow=("a",), subscribe_deny=("b",))
    ours = users(
        user("a", permissions=ONLY_A),
        user("b", permissions=again),
        user("c", permissions=PermissionSettings(publish_allow=("b",))),
        user("d"),
        user("e", permissions=PermissionSettings()),
    )
    guards = {name: found.guard for name in "abcde" if (found := ours.find(name)) is not None}
    assert guards["a"] is guards["b"] is not None
    assert guards["c"] is not guards["a"]
    assert guards["d"] is None
    assert guards["e"] is None
    assert guards["a"].may_publish_to(b"a")
    assert not guards["a"].may_publish_to(b"b")
    assert not guards["a"].may_subscribe(b"b")


def test_given_default_permissions_then_they_are_those_of_users_without_any() -> None:
    ours = users(user("a"), user("b", permissions=PermissionSettings()), default_permissions=ONLY_A)
    first, second = ours.find("a"), ours.find("b")
    assert first is not None
    assert first.guard is not None
    assert second is not None
    assert second.guard is None
    token = Users(AuthorizationSettings(token="t", default_permissions=ONLY_A))
    assert token.tokens_user.guard is not None


def test_given_responses_then_the_guard_says_how_many_and_for_how_long() -> None:
    permissions = PermissionSettings(publish_allow=(), responses=3, response_expires=0.5)
    found = users(user("a", permissions=permissions)).find("a")
    assert found is not None
    assert found.guard is not None
    assert (found.guard.responses, found.guard.response_ns) == (3, 500_000_000)


@pytest.mark.parametrize(
    ("later", "same"),
    [
        ([user("a")], True),
        ([user("a", permissions=ONLY_A)], True),
        ([user("a", "other")], False),
        ([user("b")], False),
        ([], False),
    ],
)
def test_given_a_reload_then_a_client_with_the_same_credentials_is_still_known(
    later: list[UserSettings], same: bool
) -> None:
    before = users(user("a"), user("z")).find("a")
    after = users(*later, user("z"))
    assert (after.still(before) is not None) == same
    if same:
        assert after.still(before) is after.find("a")


def test_given_a_reload_then_the_token_is_known_by_itself() -> None:
    before = Users(AuthorizationSettings(token="t")).tokens_user
    assert Users(AuthorizationSettings(token="t")).still(before) is not None
    assert Users(AuthorizationSettings(token="u")).still(before) is None
    assert users(user("a")).still(before) is None


def test_given_a_reload_then_clients_without_proof_become_the_new_default_user() -> None:
    before = users(user("a"), user("b"), no_auth_user="a").nobody
    assert before is not None
    moved = users(user("a"), user("b"), no_auth_user="b").still(before)
    assert moved is not None
    assert moved.name == "b"
    assert users(user("a"), user("b")).still(before) is None, "though there is a user a"
    assert users(user("a")).still(None) is None


def test_given_a_reload_then_equal_permissions_keep_their_guard_and_no_others_stay() -> None:
    first = users(
        user("a", permissions=ONLY_A),
        user("b", permissions=PermissionSettings(publish_allow=("b",))),
    )
    second = Users(AuthorizationSettings(users=(user("c", permissions=ONLY_A),)), first)
    old, new = first.find("a"), second.find("c")
    assert old is not None
    assert new is not None
    assert old.guard is new.guard
    assert list(second._guards) == [ONLY_A]
    assert second._guards_before == {}


def test_given_hashes_then_a_decoy_is_as_slow_as_they_are() -> None:
    slow = bcrypt.hashpw(b"x", bcrypt.gensalt(6)).decode()
    assert users(user("a"), user("b", slow)).decoy.startswith("$2b$06$")
    assert users(user("a")).decoy == ""
    assert Users(AuthorizationSettings(token=slow)).decoy.startswith("$2b$06$")


def test_given_users_when_shown_then_no_password_is() -> None:
    ours = users(user("a", "SecretWord"))
    assert "SecretWord" not in repr(ours.find("a"))
    assert "SecretWord" not in repr(ours)
