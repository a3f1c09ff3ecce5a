"""Options for reaching a broker that do not fit together, and what the others stand for."""

from pathlib import Path

import pytest

from seriatim.cli.broker_access import BrokerAccess, read_access
from seriatim.cli.errors import CliError


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"user": "a", "token": "b"}, "give one of --user and --token, not both"),
        ({"nkey": "a", "creds": "b"}, "give one of --nkey and --creds, not both"),
        ({"password": "hunter2"}, "--password needs --user"),
        ({"user": "a", "password": "env:NOT_SET_AT_ALL"}, '--password: .*"NOT_SET_AT_ALL" is not'),
        ({"token": "file:/nowhere/hunter2"}, '--token: "/nowhere/hunter2" cannot be read'),
        ({"tlskey": "a"}, "--tlskey needs --tlscert"),
        ({"inbox_prefix": "a.>"}, "--inbox-prefix: "),
        ({"inbox_prefix": ""}, "--inbox-prefix: "),
    ],
)
def test_given_options_that_do_not_fit_then_what_is_wrong(
    options: dict[str, str], said: str
) -> None:
    with pytest.raises(CliError, match=said):
        read_access(**options)  # type: ignore[arg-type]


def test_given_a_secret_elsewhere_then_it_is_read_and_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_text("hunter2\n")
    monkeypatch.setenv("SECRET_OF_A_TEST", "hunter3")
    first = read_access(user="a", password=f"file:{tmp_path}/secret")
    second = read_access(token="env:SECRET_OF_A_TEST")
    assert first.credentials.password == "hunter2"
    assert second.credentials.token == "hunter3"
    assert "hunter" not in repr(first) + repr(second)


@pytest.mark.parametrize("name", ["tlscacert", "tlscert"])
def test_given_a_file_that_cannot_be_used_then_its_name_is_in_the_error(
    tmp_path: Path, name: str
) -> None:
    wrong = tmp_path / "wrong.pem"
    for text, said in ((None, "No such file"), ("nothing", "wrong.pem: ")):
        if text is not None:
            wrong.write_text(text)
        access = read_access(**{name: str(wrong)})  # type: ignore[arg-type]
        with pytest.raises(CliError, match=said):
            access.tls.context()


def test_given_certificates_then_tls_is_wanted() -> None:
    assert not read_access().tls.wanted
    assert read_access(tlscacert="ca.pem").tls.wanted
    assert read_access(tls_first=True).tls.wanted


@pytest.mark.parametrize("url", ["h", "h:4222", "nats://h:4222", "tls://u:p@h"])
def test_given_an_address_then_it_is_complete(url: str) -> None:
    assert BrokerAccess(url).full_url.endswith(url)


@pytest.mark.parametrize("url", ["", "http://u:hunter2@h", "ws://h", "nats://h:99999", "h/path"])
def test_given_something_else_then_it_is_refused_without_its_secrets(url: str) -> None:
    with pytest.raises(CliError, match="is not the address of a broker; give nats://") as told:
        assert BrokerAccess(url).full_url
    assert "hunter2" not in str(told.value)
