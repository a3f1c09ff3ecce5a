"""SIGHUP: settings are read again, the log says what became of each, wrong ones change nothing."""

import signal
from pathlib import Path

import pytest

from tests.support.processes import STAND_IN, SeriatimServer
from tests.support.raw import QUIET, RawClient
from tests.support.reloaded import Notified, Reloaded
from tests.support.web import get, http_port

pytestmark = pytest.mark.skipif(STAND_IN, reason="of our own process")

DONE = "INF: Reloaded server configuration"


def test_given_wrong_settings_then_every_problem_is_logged_and_nothing_changes(
    tmp_path: Path,
) -> None:
    with Reloaded(tmp_path, "[limits]\nmax_payload = 10\n") as running:
        said = running.reload("[limits]\nmax_payload = 20\nmax_conections = 5\nping_max = 0\n")
        assert len(said) == 3
        assert all(line.startswith("ERR: Cannot reload: limits.") for line in said[:2])
        assert said[2] == "ERR: Nothing is reloaded: all settings stay as they were"
        with RawClient(running.broker.port, QUIET) as client:
            assert client.info["max_payload"] == 10
        assert running.reload("[limits]\nmax_payload = 10\n") == [DONE]


def test_given_a_setting_that_needs_a_restart_then_the_others_change_and_it_does_not(
    tmp_path: Path,
) -> None:
    with Reloaded(tmp_path) as running:
        text = "server_name = 'b'\n[journal]\nenabled = false\n[limits]\nmax_subscriptions = 10\n"
        for _ in range(2):  # it is said again: what counts is what runs
            said = running.reload(text)
            assert 'WRN: Cannot reload: server_name needs a restart (still "")' in said
            assert "WRN: Cannot reload: journal.enabled needs a restart (still true)" in said
            assert said[-1] == DONE
        assert "INF: Reloaded: limits.max_subscriptions = 10" not in said
        with RawClient(running.broker.port) as client:
            assert client.info["server_name"] != "b"


def test_given_a_flag_then_the_file_does_not_override_it_in_a_reload_either(tmp_path: Path) -> None:
    with Reloaded(tmp_path, "", ("--max_payload", "100")) as running:
        assert running.reload("[limits]\nmax_payload = 10\n") == [DONE]


def test_given_a_file_that_is_gone_then_nothing_changes(tmp_path: Path) -> None:
    with Reloaded(tmp_path) as running:
        running.file.unlink()
        running.hang_up()
        assert running.broker.await_line("broker.toml: cannot be read: No such file or directory")
        assert running.broker.await_line("Nothing is reloaded")


def test_given_a_secret_that_changes_then_the_log_does_not_show_it(tmp_path: Path) -> None:
    with Reloaded(tmp_path) as running:
        said = running.reload('http_user = "ops"\nhttp_password = "sesame"\n')
        assert "INF: Reloaded: http_password = [REDACTED]" in said
        assert "INF: Reloaded: http_user = ops" in said
        assert any(line.startswith("WRN: Insecure: http_password: anyone") for line in said)
        again = running.reload('http_user = "ops"\nhttp_password = "tulip"\n')
        assert not any("Insecure" in line for line in again), "it was said before"
        assert not any("sesame" in line or "tulip" in line for line in running.broker.log)


ALICE = """[[authorization.users]]
user = "alice"
password = "sesame"
permissions = { publish = "a" }
"""


def test_given_users_in_the_file_then_who_is_no_longer_one_is_closed(tmp_path: Path) -> None:
    known = b'CONNECT {"verbose":false,"user":"alice","pass":"sesame"}\r\n'
    with Reloaded(tmp_path) as running, RawClient(running.broker.port, QUIET) as anybody:
        anybody.ask(b"")
        said = running.reload(ALICE)
        assert "INF: Reloaded: authorization.users = 1 given" in said
        assert anybody.until_closed() == b"-ERR 'Authorization Violation'\r\n"
        with RawClient(running.broker.port, known) as alice:
            (refused,) = alice.ask(b"PUB b 1\r\nx\r\n")
            assert refused.text == b"'Permissions Violation for Publish to \"b\"'"
            running.reload(ALICE.replace('"a"', '"b"'))
            assert alice.ask(b"PUB b 1\r\nx\r\n") == []


def test_given_a_file_of_users_when_only_that_changes_then_it_is_read_again(
    tmp_path: Path,
) -> None:
    users = tmp_path / "users.toml"
    users.write_text(ALICE.replace("authorization.", ""))
    text = f'[authorization]\nusers_file = "{users}"\n'
    with Reloaded(tmp_path, text) as running:
        users.write_text("users = [\n")
        said = running.reload(text)
        assert said[-1] == "ERR: Nothing is reloaded: all settings stay as they were"
        bob = ALICE.replace("authorization.", "").replace("alice", "bob")
        users.write_text(ALICE.replace("authorization.", "") + bob)
        said = running.reload(text)
        assert "INF: Reloaded: authorization.users = 2 given" in said
        assert not any("sesame" in line for line in running.broker.log)


class OurCommand(SeriatimServer):
    """Started by the command, which becomes the broker in the same process."""

    by_command = True


def test_given_a_broker_that_a_command_became_then_it_reloads_as_well(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text("")
    notified = Notified(str(tmp_path / "notify"))
    broker = OurCommand("none", arguments=["-c", str(file)])
    broker.env["NOTIFY_SOCKET"] = str(tmp_path / "notify")
    with broker, notified.socket:
        notified.until("READY")
        file.write_text("[limits]\nmax_payload = 10\n")
        broker.signal(signal.SIGHUP)
        assert broker.await_line("Reloaded: limits.max_payload = 10")
        reloading, ready = notified.until("READY")
        assert int(reloading["MONOTONIC_USEC"]) > 0
        assert ready == {"READY": "1", "STATUS": "Ready"}


def test_given_many_signals_then_the_last_file_counts_and_the_broker_serves(
    tmp_path: Path,
) -> None:
    with Reloaded(tmp_path) as running, RawClient(running.broker.port, QUIET) as client:
        for size in range(1, 51):
            running.write(f"[limits]\nmax_payload = {size}\n")
            running.broker.signal(signal.SIGHUP)
        assert running.broker.await_line("Reloaded: limits.max_payload = 50")
        assert client.ask(b"PUB a 50\r\n%b\r\n" % (b"x" * 50)) == []


USERS = """[[authorization.users]]
user = "a"
password = "a"
"""
CLOSED = "ERR: Nothing is reloaded: all settings stay as they were"


@pytest.mark.parametrize("text", ["", "[limits]\nmax_payload = 10\n"])
def test_given_an_empty_or_truncated_file_then_a_closed_broker_stays_closed(
    tmp_path: Path, text: str
) -> None:
    with Reloaded(tmp_path, USERS) as running:
        said = running.reload(text)
        assert said[0].startswith("ERR: Cannot reload: there would be no users any more, so every")
        assert "set authorization.allow_open_reload, or restart the broker" in said[0]
        assert said[1:] == [CLOSED]
        with RawClient(running.broker.port) as client:
            assert client.info["max_payload"] == 1 << 20
            assert client.answer(QUIET, 1) == (b"-ERR 'Authorization Violation'\r\n", True)
        said = running.reload(f"{text}[authorization]\nallow_open_reload = true\n")
        assert said[-1] == DONE
        with RawClient(running.broker.port, QUIET) as client:
            assert client.ask(b"") == []


def test_given_a_file_without_the_user_of_monitoring_then_its_pages_stay_closed(
    tmp_path: Path,
) -> None:
    text = 'http_user = "ops"\nhttp_password = "sesame"\n'
    with Reloaded(tmp_path, text, ("-m", "-1")) as running:
        said = running.reload("")
        assert "there would be no http_user any more" in said[0]
        assert said[1:] == [CLOSED]
        assert get(http_port(running.broker), "/varz").status == 401
