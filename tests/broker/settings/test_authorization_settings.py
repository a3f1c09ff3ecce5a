"""The settings of authorization: from flags, variables and files, and never in a text of ours."""

from pathlib import Path

import pytest

from broker.settings.authorization_settings import (
    AuthorizationSettings,
    PermissionSettings,
    UserSettings,
)
from broker.settings.errors import WrongSettings
from broker.settings.resolve import resolve

SECRET = "s3same"


def test_given_no_settings_when_resolved_then_no_client_must_authenticate() -> None:
    settings = resolve({}, {}).settings.authorization
    assert settings == AuthorizationSettings()
    assert not settings.is_required
    assert (settings.timeout, settings.max_attempts) == (2.0, 10)


@pytest.mark.parametrize(
    "settings",
    [
        AuthorizationSettings(user="ops", password=SECRET),
        AuthorizationSettings(token=SECRET),
        AuthorizationSettings(users=(UserSettings(user="ops", password=SECRET),)),
    ],
    ids=["user", "token", "users"],
)
def test_given_anybody_when_asked_then_clients_must_say_who_they_are(
    settings: AuthorizationSettings,
) -> None:
    assert settings.is_required
    assert SECRET not in repr(settings)


def test_given_a_file_a_variable_and_a_flag_then_the_stronger_one_counts(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text('[authorization]\nuser = "file"\npassword = "a"\ntimeout = 5\n')
    environment = {"SERIATIM_AUTHORIZATION_USER": "variable"}
    settings = resolve({"authorization.password": "b"}, environment, str(file)).settings
    assert settings.authorization == AuthorizationSettings(
        user="variable", password="b", timeout=5.0
    )


def test_given_secrets_in_other_places_when_resolved_then_they_are_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    monkeypatch.setenv("BROKER_TOKEN", SECRET)
    by_file = {"authorization.user": "a", "authorization.password": f"file:{tmp_path}/secret"}
    assert resolve(by_file, {}).settings.authorization.password == SECRET
    by_variable = resolve({"authorization.token": "env:BROKER_TOKEN"}, {})
    assert by_variable.settings.authorization.token == SECRET


@pytest.mark.parametrize(
    ("path", "text", "why"),
    [
        ("authorization.timeout", "0", "--auth_timeout: 0s is below 10ms; give 10ms to 5m"),
        ("authorization.timeout", "6m", "--auth_timeout: 6m is above 5m; give 10ms to 5m"),
        ("authorization.max_attempts", "-1", "--auth_attempts: -1 is below 0; give 0 to 1000000"),
        (
            "authorization.user",
            "a\nb",
            "--user: 'a\\nb' holds a character that cannot be printed; leave it out",
        ),
        (
            "authorization.token",
            f"{SECRET}\n",
            "--auth: it holds a character that cannot be printed; leave it out",
        ),
        (
            "authorization.users_file",
            "missing.toml",
            "missing.toml: cannot be read: No such file or directory; `seriatim user add` makes it",
        ),
    ],
)
def test_given_a_wrong_value_when_resolved_then_it_says_what_to_give(
    path: str, text: str, why: str
) -> None:
    with pytest.raises(WrongSettings) as caught:
        resolve({path: text}, {})
    assert caught.value.problems == [why]


def test_given_permissions_when_made_then_everything_is_allowed_and_no_response() -> None:
    made = PermissionSettings()
    assert (made.publish_allow, made.subscribe_allow) == (None, None)
    assert (made.publish_deny, made.subscribe_deny, made.responses) == ((), (), 0)
    assert made.response_expires == 120.0
