"""What a broker's settings say about its security: nothing, or a line with the remedy."""

import json
from pathlib import Path
from typing import Any

import pytest

from broker.settings.resolve import resolve
from broker.settings.security_warnings import insecure
from tests.support.processes import STAND_IN, SeriatimServer

HASH = "$2b$08$PwCAK91q2gMjHDncpdHUyOKiYCKzdRtf0pyuN1FgEIypi0Z1aiNFK"
HOME, EVERYWHERE = {"host": "127.0.0.1"}, {"host": "0.0.0.0"}
USER = {"authorization.user": "alice", "authorization.password": HASH}
TLS = {"tls.cert_file": "cert.pem", "tls.key_file": "key.pem"}


def said(*tables: dict[str, Any], **flags: Any) -> list[str]:
    """The beginnings of the lines."""
    given: dict[str, Any] = {}
    for table in tables:
        given |= table
    found = insecure(resolve({**given, **flags}, {}).settings)
    assert all(";" in line for line in found), "each has a remedy"
    return [line.partition(";")[0] for line in found]


OPEN = "everybody who reaches 0.0.0.0:4222 may read and publish everything"
CLEAR = "passwords and messages cross the network in plain text on 0.0.0.0:4222"
PLAIN = "anyone who can read the configuration can read the password"
PAGES = "everybody who reaches 0.0.0.0 may read the monitoring pages"
PORT = "everybody who reaches cquencer's port on 0.0.0.0 may publish"


@pytest.mark.parametrize(
    ("tables", "wanted"),
    [
        ([{}], [OPEN]),
        ([HOME], []),
        ([{"host": "::1"}], []),
        ([{"host": "localhost"}], []),
        ([{"host": "broker.example.com"}], [OPEN.replace("0.0.0.0", "broker.example.com")]),
        ([EVERYWHERE, USER], [CLEAR]),
        ([EVERYWHERE, USER, TLS], []),
        ([EVERYWHERE, TLS], [OPEN]),
        ([HOME, USER], []),
        ([HOME, {"authorization.token": "sesame"}], [f"authorization.token: {PLAIN}"]),
        ([HOME, {"authorization.token": HASH}], []),
        ([HOME, USER, {"authorization.password": "x"}], [f"authorization.password: {PLAIN}"]),
        ([HOME, {"http_port": "8222"}], []),
        ([HOME, {"http_port": "8222", "http_host": "0.0.0.0"}], [PAGES]),
        ([HOME, {"http_host": "0.0.0.0"}], []),
        ([HOME, {"sequencer.port": "3001", "sequencer.host": "0.0.0.0"}], [PORT]),
        ([HOME, {"sequencer.port": "3001"}], []),
    ],
)
def test_given_settings_then_what_is_insecure_is_reported(
    tables: list[dict[str, str]], wanted: list[str]
) -> None:
    assert said(*tables) == wanted


def test_given_another_listener_then_it_counts_and_the_first_does_not() -> None:
    assert said(HOME, listeners=["0.0.0.0:5000"]) == [OPEN.replace("4222", "5000")]
    assert said(HOME, {"port": "0", "sequencer.port": "3001"}, host="0.0.0.0") == [PORT]


def test_given_a_listener_without_tls_then_passwords_cross_the_network_there() -> None:
    tables = (HOME, USER, TLS)
    assert said(*tables, listeners=["0.0.0.0:5000,tls=false"]) == [CLEAR.replace("4222", "5000")]
    assert said(*tables, listeners=["0.0.0.0:5000"]) == []
    assert said(*tables, listeners=["127.0.0.1:5000,tls=false"]) == []


def test_given_tls_that_clients_may_do_without_then_passwords_can_be_heard() -> None:
    assert said(EVERYWHERE, USER, TLS) == []
    flags = {"tls.allow_non_tls": True}
    assert said(EVERYWHERE, USER, TLS, flags) == [CLEAR]
    (line,) = insecure(resolve({**EVERYWHERE, **USER, **TLS, **flags}, {}).settings)
    assert line.endswith("; leave tls.allow_non_tls out")


def test_given_a_user_for_monitoring_then_its_password_must_not_be_heard_or_read() -> None:
    pages = {"http_port": "8222", "http_host": "0.0.0.0", "http_user": "ops"}
    (line,) = said(HOME, pages, {"http_password": HASH})
    assert line == "the password for monitoring crosses the network in plain text on 0.0.0.0"
    pages |= {"https_port": pages.pop("http_port")}
    assert said(HOME, pages, {"http_password": "x"}, TLS) == [f"http_password: {PLAIN}"]
    assert said(HOME, pages, {"http_password": HASH}, TLS) == []


def test_given_users_with_plain_passwords_then_one_is_named_and_no_password(tmp_path: Any) -> None:
    file = tmp_path / "users.toml"
    users = [{"user": name, "password": "sesame"} for name in ("alice", "bob", "carol")]
    file.write_text("".join(f"[[users]]\n{_toml(one)}" for one in users))
    (line,) = said(HOME, {"authorization.users_file": str(file)})
    assert line == f"the password of user alice and 2 more users: {PLAIN}"


def test_given_a_secret_that_stands_elsewhere_then_the_settings_do_not_spell_it_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKER_PASSWORD", "sesame")
    file = tmp_path / "password"
    file.write_text("sesame\n")
    for place in ("env:BROKER_PASSWORD", f"file:{file}"):
        assert said(HOME, USER, {"authorization.password": place}) == []
        assert said(HOME, {"authorization.token": place}) == []
        users = tmp_path / "users.toml"
        users.write_text("[[users]]\n" + _toml({"user": "alice", "password": place}))
        assert said(HOME, {"authorization.users_file": str(users)}) == []


def _toml(table: dict[str, str]) -> str:
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())


@pytest.mark.skipif(STAND_IN, reason="of our own process")
def test_given_a_start_then_the_log_says_it_in_a_warning() -> None:
    arguments = ["--listen", "0.0.0.0:-1"]
    with SeriatimServer("none", arguments=arguments) as broker:
        (line,) = (one for one in broker.log if "Insecure: " in one)
    assert "[WRN] Insecure: everybody who reaches 0.0.0.0 may read and publish" in line
    with SeriatimServer("none") as broker:
        assert not broker.said("Insecure")


def test_given_messages_on_the_live_page_then_who_can_read_them_is_reported() -> None:
    shown = {"http_port": "8222", "http_messages": "true"}
    assert said(HOME, shown) == []
    assert said(EVERYWHERE, shown)[1] == PAGES.replace("pages", "pages and all messages")
    (line,) = said(HOME, shown, TLS, {"tls.verify": "true", "tls.ca_file": "ca.pem"})
    assert line.startswith("the live page shows messages without the certificate")
    abroad = {"http_host": "0.0.0.0", "http_user": "a", "http_password": HASH}
    assert "passwords that the live page asks for" in said(HOME, USER, shown, abroad)[-1]
