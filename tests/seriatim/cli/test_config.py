"""Where a setting comes from: flags over environment over file over default."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.settings.catalog import FIXED, SETTINGS, BrokerSetting
from broker.settings.resolve import Effective, resolve
from broker.settings.settings import Listener, Settings
from seriatim.cli.explain import as_toml, value_of
from seriatim.cli.flags import normalise


def from_file(folder: Path, text: str, **environment: str) -> Effective:
    file = folder / "broker.toml"
    file.write_text(text)
    return resolve({}, environment, str(file))


def test_given_nothing_when_resolved_then_all_is_default() -> None:
    environment = {"XDG_STATE_HOME": "/state", "SERIATIM_URL": "nats://other:4222"}
    effective = resolve({}, environment)
    assert effective.settings == Settings(http_host="0.0.0.0", store_dir="/state/seriatim")
    assert set(effective.origins.values()) == {"default"}


@pytest.mark.parametrize(
    ("flag", "variable", "file", "port", "origin"),
    [
        ("1", "2", "3", 1, "--port"),
        ("", "2", "3", 2, "SERIATIM_PORT"),
        ("", "", "3", 3, "port in {file}"),
        ("", "", "", 4222, "default"),
        ("1", "", "3", 1, "--port"),
    ],
)
def test_given_several_sources_when_resolved_then_the_strongest_wins(
    tmp_path: Path, flag: str, variable: str, file: str, port: int, origin: str
) -> None:
    path = tmp_path / "broker.toml"
    path.write_text(f"port = {file}\n" if file else "")
    flags = {"port": flag} if flag else {}
    effective = resolve(flags, {"SERIATIM_PORT": variable}, str(path))
    assert effective.settings.port == port
    assert effective.origins["port"] == origin.format(file=path)


def test_given_a_file_when_named_by_the_environment_then_it_is_read(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text("port = 5\n")
    assert resolve({}, {"SERIATIM_CONFIG": str(file)}).settings.port == 5


def test_given_a_file_with_a_byte_order_mark_when_read_then_it_is_taken(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_bytes(b"\xef\xbb\xbfport = 5\n")
    assert resolve({}, {}, str(file)).settings.port == 5


def test_given_an_empty_host_for_monitoring_when_resolved_then_it_is_the_brokers() -> None:
    assert resolve({"http_host": "", "host": "::1"}, {}).settings.http_host == "::1"


def test_given_a_file_with_every_kind_when_resolved_then_all_is_taken(tmp_path: Path) -> None:
    effective = from_file(
        tmp_path,
        """
        host = "::1"
        port = -1
        frame = "header"
        debug = true
        server_name = "one"
        [limits]
        max_payload = "2MiB"
        max_pending = 134217728
        ping_interval = "1m30s"
        write_deadline = 2.5
        drain_timeout = 3
        [sequencer]
        exclude = ["_INBOX.>", "a.*"]
        [[listener]]
        port = 4333
        frame = "none"
        [[listener]]
        host = "127.0.0.1"
        port = 4334
        """,
    )
    settings = effective.settings
    assert (settings.host, settings.port, settings.frame) == ("::1", -1, "header")
    assert settings.debug is True
    assert settings.limits.max_payload == 2 << 20
    assert settings.limits.max_pending == 128 << 20
    assert settings.limits.ping_interval == 90.0
    assert settings.limits.write_deadline == 2.5
    assert isinstance(settings.limits.drain_timeout, float)
    assert settings.sequencer.exclude == ("_INBOX.>", "a.*")
    assert settings.listeners == (
        Listener(host="0.0.0.0", port=4333, frame="none"),
        Listener(host="127.0.0.1", port=4334, frame="header"),
    )


def test_given_listeners_as_flags_when_resolved_then_they_take_the_place_of_the_files(
    tmp_path: Path,
) -> None:
    file = tmp_path / "broker.toml"
    file.write_text("[[listener]]\nport = 1\n")
    flags = {"listeners": ["[::1]:2,frame=none", "localhost:3", ":4"], "frame": "header"}
    assert resolve(flags, {}, str(file)).settings.listeners == (
        Listener(host="::1", port=2, frame="none"),
        Listener(host="localhost", port=3, frame="header"),
        Listener(port=4, frame="header"),
    )
    environment = {"SERIATIM_LISTEN": "h:7 h:8,frame=none"}
    listeners = resolve({}, environment, str(file)).settings.listeners
    assert [listener.port for listener in listeners] == [7, 8]


def test_given_a_host_when_monitoring_has_none_then_it_listens_there_too() -> None:
    assert resolve({"host": "127.0.0.1"}, {}).settings.http_host == "127.0.0.1"
    flags = {"host": "127.0.0.1", "http_host": "10.0.0.1"}
    assert resolve(flags, {}).settings.http_host == "10.0.0.1"


def test_given_what_kubernetes_sets_when_resolved_then_it_is_no_setting() -> None:
    environment = {
        "XDG_STATE_HOME": "/state",
        "SERIATIM_PORT": "tcp://10.3.2.1:4222",
        "SERIATIM_PORT_4222_TCP": "tcp://10.3.2.1:4222",
        "SERIATIM_PORT_4222_TCP_ADDR": "10.3.2.1",
        "SERIATIM_SERVICE_HOST": "10.3.2.1",
        "SERIATIM_SERVICE_PORT": "4222",
        "SERIATIM_SERVICE_PORT_CLIENT": "4222",
        # of services called seriatim-metrics, and seriatim-http, which has the name of a setting
        "SERIATIM_METRICS_SERVICE_HOST": "10.3.2.2",
        "SERIATIM_METRICS_SERVICE_PORT": "8222",
        "SERIATIM_METRICS_SERVICE_PORT_PAGES": "8222",
        "SERIATIM_METRICS_PORT": "tcp://10.3.2.2:8222",
        "SERIATIM_METRICS_PORT_8222_TCP": "tcp://10.3.2.2:8222",
        "SERIATIM_METRICS_PORT_8222_TCP_PROTO": "tcp",
        "SERIATIM_METRICS_PORT_8222_TCP_PORT": "8222",
        "SERIATIM_METRICS_PORT_8222_TCP_ADDR": "10.3.2.2",
        "SERIATIM_A_B_PORT_53_UDP_PORT": "53",
        "SERIATIM_HTTP_PORT": "tcp://10.3.2.3:80",
        "SERIATIM_X_PORT": "sctp://[fd00::1]:80",
    }
    effective = resolve({}, environment)
    assert set(effective.origins.values()) == {"default"}
    assert effective.sources.warnings == ()


@pytest.mark.parametrize(
    ("variable", "warning"),
    [
        ("SERIATIM_PROT", "there is no such setting; did you mean SERIATIM_PORT?"),
        ("SERIATIM_QQQQQQQQ", "there is no such setting; `seriatim config` shows what there is"),
        ("SERIATIM_SERVICE_HOSTS", "there is no such setting;"),
    ],
)
def test_given_an_unknown_variable_when_resolved_then_it_is_ignored_with_a_warning(
    variable: str, warning: str
) -> None:
    effective = resolve({}, {"XDG_STATE_HOME": "/state", variable: "1"})
    assert set(effective.origins.values()) == {"default"}
    (told,) = effective.sources.warnings
    assert told.startswith(f"{variable} is ignored: {warning}")


@pytest.mark.parametrize(
    ("path", "text", "value"),
    [
        ("limits.max_payload", "1024", 1024),
        ("limits.max_payload", "64KiB", 65536),
        ("limits.max_payload", "1.5 MiB", 3 << 19),
        ("limits.max_payload", "1MB", 1_000_000),
        ("limits.max_payload", "10kb", 10_000),
        ("journal.retain_bytes", "2TiB", 2 << 40),
        ("journal.retain_bytes", "2TB", 2 * 10**12),
        ("limits.ping_interval", "90", 90.0),
        ("limits.ping_interval", "0.5", 0.5),
        ("limits.ping_interval", "500ms", 0.5),
        ("limits.ping_interval", "1h1m1s", 3661.0),
        ("limits.ping_interval", "1.5m", 90.0),
        ("journal.retain_age", "2d12h", 216_000.0),
        ("journal.retain_age", "1d", 86_400.0),
        ("debug", "Yes", True),
        ("debug", "off", False),
        ("sequencer.exclude", "a.>, b.* c", ("a.>", "b.*", "c")),
        ("host", "[::1]", "::1"),
        ("http_port", "-1", -1),
    ],
)
def test_given_a_text_when_read_then_it_means_this(path: str, text: str, value: object) -> None:
    assert SETTINGS[path].read(text) == value


numbers = [setting for setting in SETTINGS.values() if setting.low is not None]


@given(st.data())
def test_given_any_allowed_number_when_shown_then_it_reads_back_the_same(
    data: st.DataObject,
) -> None:
    setting = data.draw(st.sampled_from(numbers))
    assert setting.low is not None
    assert setting.high is not None
    if setting.kind == "duration":
        value: float = data.draw(st.floats(setting.low, setting.high))
    else:
        value = data.draw(st.integers(int(setting.low), int(setting.high)))
    if setting.kind == "port" and value == 0 != setting.default:
        return
    text = setting.show(value)
    if len(text) < 30:  # a duration with 17 decimals is shown, and longer than anyone writes
        assert setting.read(text) == value


# A member of a cluster, for settings that do nothing alone.
MEMBER = {
    "cluster.name": "orders",
    "cluster.etcd": "http://etcd-1:2379",
    "cluster.advertise": "broker-1:4222",
    "cluster.secret_file": "secret",
    "cluster.etcd_password_file": "password",
    "cluster.etcd_cert": "certificate",
}


# Settings that one of these needs beside it.
BESIDE: dict[str, dict[str, Any]] = {
    "https_port": {"tls.cert_file": "one"},
    "tls.enabled": {"tls.cert_file": "one"},
    "tls.key_file": {"tls.cert_file": "one"},
    "tls.handshake_first": {"tls.cert_file": "one"},
    "tls.verify": {"tls.cert_file": "one", "tls.ca_file": "two"},
    "tls.verify_and_map": {"tls.cert_file": "one", "tls.ca_file": "two"},
    "proxy_header": {"trusted_proxies": "10.0.0.1"},
    "trusted_proxies": {"proxy_header": "X-Real-IP"},
    "tls.pinned_certs": {"tls.cert_file": "one", "tls.ca_file": "two", "tls.verify": True},
    "tls.allow_non_tls": {"tls.cert_file": "one"},
    "websocket.port": {"websocket.no_tls": True},
    "http_user": {"http_password": "sesame"},
    "http_password": {"http_user": "ops"},
    "authorization.user": {"authorization.password": "sesame"},
    "authorization.password": {"authorization.user": "ops"},
    "authorization.no_auth_user": {"authorization.user": "one", "authorization.password": "sesame"},
    "sequencer.user": {"authorization.user": "one", "authorization.password": "sesame"},
}


def changed_value(setting: BrokerSetting) -> str:
    """A text for the setting that is not its default."""
    words = {"size": "100KiB", "duration": "3s", "count": "200", "port": "4777"}
    words |= {
        "flag": "false" if setting.default is True else "true",
        "text": "one",
        "host": "one",
        "list": "a.>,b",
    }
    words |= {"subject": "one.two", "pattern": "one.*"}
    words |= {
        "secret": "sesame",
        "advertised": "one:2",
        "name": "one",
        "address": "one:2",
        "endpoints": "http://one:2,http://two:2",
        "origins": "https://one.example,https://two.example:8443",
        "networks": "10.0.0.0/8,fd00::/8",
        "header": "X-Forwarded-For",
        "pins": f"{'1' * 64},{'a' * 64}",
    }
    special = {"limits.max_control_line": "5KiB", "limits.max_pending": "100MiB"}
    special |= {"limits.answers_pending": "100MiB", "staging.address_share": "60"}
    special |= {"staging.connection_share": "20"}
    special |= {"staging.application_expiry": "3m"}
    special |= {"cluster.slow": "1200ms", "cluster.stranded": "20s"}
    special |= {"cluster.min_in_sync": "3"}
    special |= {f"cluster.{one}_bytes": "2MiB" for one in ("window",)}
    if setting.path in special:
        return special[setting.path]
    return setting.choices[-1] if setting.choices else words[setting.kind]


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=lambda setting: setting.path)
def test_given_a_setting_when_set_anywhere_then_it_is_taken(
    tmp_path: Path, setting: BrokerSetting
) -> None:
    text = changed_value(setting)
    wanted = setting.read(text)
    assert wanted != setting.default
    if setting.path == "authorization.users_file":
        (tmp_path / "one").write_text('[[users]]\nuser = "one"\npassword = "sesame"\n')
        text = wanted = f"{tmp_path}/one"
    others = MEMBER if setting.section == "cluster" else BESIDE.get(setting.path, {})
    by_flag = resolve({**others, setting.path: wanted if setting.kind == "flag" else text}, {})
    others = {path: one for path, one in others.items() if path != setting.path}
    by_variable = resolve(others, {setting.variable: text})
    for effective, origin in ((by_flag, setting.flag), (by_variable, setting.variable)):
        assert value_of(effective, setting) == wanted
        assert effective.origins[setting.path] == origin
    written = as_toml(by_flag)
    assert "sesame" not in written
    by_file = from_file(tmp_path, written.replace("[REDACTED]", "sesame"))
    assert by_file.settings == by_flag.settings
    assert by_file.origins[setting.path] == f"{setting.path} in {tmp_path}/broker.toml"


def test_given_listeners_when_printed_as_toml_then_it_reads_back(tmp_path: Path) -> None:
    flags = {"listeners": ["[::1]:2,frame=none", "localhost:-1"], "server_name": 'qu"o\\te'}
    effective = resolve(flags, {})
    assert from_file(tmp_path, as_toml(effective)).settings == effective.settings


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=lambda setting: setting.path)
def test_given_the_path_of_a_setting_as_a_flag_then_it_is_that_setting(
    setting: BrokerSetting,
) -> None:
    value = "" if setting.kind == "flag" else "=1"
    assert normalise([f"--{setting.path}{value}"], {}).arguments == [f"{setting.flag}{value}"]


@pytest.mark.parametrize(
    ("given", "flag"),
    [
        ("--journal_window_bytes=1", "--journal_window_bytes=1"),
        ("--journal-window-bytes=1", "--journal_window_bytes=1"),
        ("-log_file=x", "--log=x"),
        ("--pid_file=x", "--pid=x"),
        ("--http_password=x", "--http_pass=x"),
        ("--http-password=x", "--http_pass=x"),
        ("--host=x", "--addr=x"),
        ("--name=x", "--server_name=x"),  # nats-server's spelling, so not `cluster.name`
        ("--cluster_advertise=x", "--cluster_advertise=x"),  # and not `cluster.advertise`
        ("--journal_enabled=false", "--no-journal"),
        ("--no-tls", "--no-tls"),  # and not `websocket.no_tls`
        ("--no-journal.enabled", "--no-journal"),
    ],
)
def test_given_the_key_of_a_setting_as_a_flag_then_it_is_taken(given: str, flag: str) -> None:
    done = normalise([given], {})
    assert (done.arguments, done.problems) == ([flag], [])


@pytest.mark.parametrize("flag", ["--cluster_rank=1s", "--cluster.rank=1s", "-rank=1s"])
def test_given_a_setting_that_is_fixed_now_when_given_anywhere_then_that_is_said(flag: str) -> None:
    said = "cannot be set any more, and is always 250ms; leave it out"
    assert normalise([flag], {}).problems == [f"{flag.removesuffix('=1s')}: {said}"]
    effective = resolve({}, {"SERIATIM_CLUSTER_RANK": "1s"})
    assert effective.sources.warnings == (f"SERIATIM_CLUSTER_RANK is ignored: it {said}",)
    assert not FIXED.keys() & SETTINGS.keys()


def test_given_a_key_that_several_settings_have_then_all_their_flags_are_named() -> None:
    done = normalise(["--window_bytes", "1MiB"], {})
    assert done.arguments == []
    assert "--cluster_window_bytes or --journal_window_bytes" in done.problems[0]
