"""The default directory of the journal."""

import os
import pwd

import pytest

from broker.settings.store_directory import default_store_dir

NOBODY = (1 << 31) - 7  # a number that no user has


@pytest.mark.parametrize(
    ("environment", "uid", "place"),
    [
        ({"HOME": "/home/ann"}, 1000, "/home/ann/.local/state/seriatim"),
        ({"HOME": "/root"}, 0, "/var/lib/seriatim"),
        ({"HOME": "/home/ann", "XDG_STATE_HOME": "/state"}, 1000, "/state/seriatim"),
        ({"HOME": "/root", "XDG_STATE_HOME": "/state"}, 0, "/state/seriatim"),
        ({"HOME": "/home/ann", "XDG_STATE_HOME": "state"}, 1000, "/home/ann/.local/state/seriatim"),
        ({"HOME": "/home/ann", "XDG_STATE_HOME": ""}, 1000, "/home/ann/.local/state/seriatim"),
        ({"SERIATIM_STORE_DIR": "/data", "XDG_STATE_HOME": "/state"}, 0, "/data"),
        ({"SERIATIM_STORE_DIR": "here"}, 1000, "here"),
        ({"SERIATIM_STORE_DIR": "", "HOME": "/root"}, 0, "/var/lib/seriatim"),
        ({"HOME": "not/absolute"}, 1000, ""),
        ({}, NOBODY, ""),
    ],
)
def test_given_an_environment_when_asked_then_the_place_is_known(
    environment: dict[str, str], uid: int, place: str
) -> None:
    assert default_store_dir(environment, uid) == place


def test_given_a_user_without_home_variable_when_asked_then_the_system_knows_it() -> None:
    user = next(one for one in pwd.getpwall() if one.pw_uid and os.path.isabs(one.pw_dir))
    assert default_store_dir({}, user.pw_uid) == f"{user.pw_dir}/.local/state/seriatim"


def test_given_nothing_when_asked_then_this_process_is_meant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SERIATIM_STORE_DIR", "/data")
    assert default_store_dir() == "/data"
