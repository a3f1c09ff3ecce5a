"""The options for rights: the number behind `--allow-responses`, and the tables they become."""

import pytest

from seriatim.cli.user.user_options import with_number
from seriatim.cli.user.user_rights import UserRights


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("alice", "alice"),
        ("alice --allow-responses", "alice --allow-responses=1"),
        ("--allow-responses alice", "--allow-responses=1 alice"),
        ("--allow-responses 5 alice", "--allow-responses=5 alice"),
        ("--allow-responses -1 alice", "--allow-responses=-1 alice"),
        ("--allow-responses=7", "--allow-responses=7"),
        ("--allow-responses --publish a", "--allow-responses=1 --publish a"),
        ("--allow-responses 5x", "--allow-responses=1 5x"),
        ("-- --allow-responses 5", "-- --allow-responses 5"),
    ],
)
def test_given_arguments_when_read_then_responses_have_a_number(given: str, meant: str) -> None:
    assert with_number(given.split()) == meant.split()


def test_given_no_option_when_read_then_the_user_has_no_settings() -> None:
    assert UserRights(None, None, None, None, None, None, None, None).table() == {}
    assert UserRights([], [], [], [], None, [], None, None).table() == {}


def test_given_options_when_read_then_they_are_the_settings_of_a_user() -> None:
    rights = UserRights(["a"], ["b  q"], ["c"], None, 1, ["x"], "0", "2048")
    assert rights.table() == {
        "applications": ["x"],
        "publish_rate": 0,
        "publish_bytes": "2KiB",
        "permissions": {
            "publish": {"allow": ["a"], "deny": ["c"]},
            "subscribe": ["b  q"],
            "allow_responses": True,
        },
    }
