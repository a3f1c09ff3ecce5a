"""What becomes of each setting of nats-server: a value of ours, or a line that says what to do."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import nkeys
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker.settings.catalog import SETTINGS
from broker.settings.resolve import resolve
from seriatim.cli.from_nats import nats_blocks
from seriatim.cli.from_nats.nats_blocks import translate
from seriatim.cli.from_nats.nats_syntax import read_nats_config
from seriatim.cli.from_nats.nats_users import AUTHORIZATION
from seriatim.cli.from_nats.translated_file import as_toml_file, refusals
from seriatim.cli.from_nats.translation import KnownKeys, Translation
from tests.seriatim.cli.from_nats.oracle import judged
from tests.support.depth import examples
from tests.support.places import ROOT

UNCHECKED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
KEY = nkeys.from_seed(nkeys.encode_seed(bytes(32), nkeys.PREFIX_BYTE_USER)).public_key.decode()
HASH = "$2a$04$9iZxuyiRXtK93jw0H9PUDuYmZnV7wJCTSgJl/UjfUOcFqLrqfoOD2"
ENVIRONMENT = {"SECRET": "geheim", "PORT_HERE": "4333"}
A = "{user: a, pass: b}"
PIN = "0" * 64
# What every translation has, because nats-server does so without being told.
ALWAYS = {
    "frame": "none",
    "journal": {"retain_bytes": "10GiB"},
    "sequencer": {"exclude": ["_INBOX.>"]},
}


def translated(folder: Path, text: str) -> tuple[dict[str, Any], Translation, str]:
    """The tables of the result without those that it always has; what was found; the file."""
    path = folder / "nats.conf"
    path.write_text(text)
    found = translate(read_nats_config(str(path), ENVIRONMENT))
    written = as_toml_file(str(path), found)
    tables = tomllib.loads(written)
    for key, value in ALWAYS.items():
        if tables[key] == value:
            del tables[key]
    return tables, found, written


def said(found: Translation, folder: Path) -> list[str]:
    return [one.text.replace(f"{folder}/", "") for one in found.left_out]


def in_limits(**limits: Any) -> dict[str, Any]:
    return {"limits": limits}


def users(*entries: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"authorization": {"users": list(entries), **more}}


# What has an equivalent: nats-server takes it, nothing is left out, and a broker takes the result.
SAME: tuple[tuple[str, dict[str, Any]], ...] = (
    ("port: 4333", {"port": 4333}),
    ("Port: $PORT_HERE", {"port": 4333}),
    ("port: -1", {"port": -1}),
    ("port: 0", {}),
    ("net: 127.0.0.1", {"host": "127.0.0.1"}),
    ("listen: 4333", {"port": 4333}),
    ("listen: 127.0.0.1:4333", {"host": "127.0.0.1", "port": 4333}),
    ('listen: "[::1]:4333"', {"host": "::1", "port": 4333}),
    ('listen: ":4333"', {"port": 4333}),
    ("server_name: one", {"server_name": "one"}),
    (
        "client_advertise: 'broker.example.com:4222'",
        {"client_advertise": "broker.example.com:4222"},
    ),
    ("http: 8222", {"http_port": 8222}),
    ("http: localhost:8222", {"http_host": "localhost", "http_port": 8222}),
    ("monitor_port: 8222", {"http_port": 8222}),
    ("debug: yes, trace: off", {"debug": True, "trace": False}),
    ("trace_verbose: true", {"trace": True}),
    ("logfile: /tmp/nats.log", {"log_file": "/tmp/nats.log"}),
    ("pid_file: '/tmp/nats.pid'", {"pid_file": "/tmp/nats.pid"}),
    ("no_header_support: true", {"no_header_support": True}),
    ("max_payload: 2MB", in_limits(max_payload="2MiB")),
    ("max_payload: 64k", in_limits(max_payload="64000")),
    ("max_payload: 0", {}),
    ("max_pending: 1Gb", in_limits(max_pending="1GiB")),
    ("max_control_line: 8KiB", in_limits(max_control_line="8KiB")),
    ("max_conn: 100", in_limits(max_connections=100)),
    ("max_subs: 100", in_limits(max_subscriptions=100)),
    ("max_subscriptions: -1", in_limits(max_subscriptions=0)),
    ('ping_interval: "1m30s"', in_limits(ping_interval="90s")),
    ('ping_interval: "1.5h"', in_limits(ping_interval="1h30m")),
    ("ping_max: 5", in_limits(ping_max=5)),
    ("write_deadline: 250ms", in_limits(write_deadline="250ms")),
    ("lame_duck_duration: '2m'", in_limits(lame_duck="2m")),
    ("lame_duck_grace_period: 5s", in_limits(lame_duck_grace="5s")),
    ("logtime: true, logtime_utc: false", {}),
    ("no_fast_producer_stall: true, write_timeout: default", {}),
    ("disable_sublist_cache: true, no_sys_acc: true", {}),
    ("jetstream: false", {}),
    ("jetstream: disabled", {}),
    ("jetstream { enabled: false, store_dir: /data }", {}),
    ("ocsp: false, syslog: false, proxy_protocol: false", {}),
    ("connect_error_reports: 5, reconnect_error_reports: 5", {}),
    ("mappings {}, trusted_keys []", {}),
    ("allow_non_tls: true", {}),
    ("unused: 7\nmax_subs: $unused", in_limits(max_subscriptions=7)),
    ("websocket { tls { } }", {}),
    ("websocket { port: 8080, no_tls: true }", {"websocket": {"port": 8080, "no_tls": True}}),
    (
        "host: 127.0.0.1, ws { listen: 127.0.0.1:8080, origin: 'https://a.example', same_origin: no"
        ', handshake_timeout: "3s", compress: false }',
        {
            "host": "127.0.0.1",
            "websocket": {
                "host": "127.0.0.1",
                "port": 8080,
                "allowed_origins": ["https://a.example"],
                "same_origin": False,
                "handshake_timeout": "3s",
            },
        },
    ),
    (  # a WebSocket of nats-server listens everywhere, and its frames are as long as they are
        "host: 127.0.0.1, max_payload: 16MB, websocket { port: 8080, no_tls: true }",
        {
            "host": "127.0.0.1",
            "limits": {"max_payload": "16MiB"},
            "websocket": {
                "host": "0.0.0.0",
                "port": 8080,
                "no_tls": True,
                "max_frame": "16448KiB",
            },
        },
    ),
    (
        "authorization { user: a, pass: b, timeout: 1.5 }",
        {"authorization": {"user": "a", "password": "b", "timeout": "1.5s"}},
    ),
    ("authorization { token: $SECRET }", {"authorization": {"token": "env:SECRET"}}),
    (
        f"authorization {{ username: a, password: {HASH} }}",
        {"authorization": {"user": "a", "password": HASH}},
    ),
    ("authorization {}", {}),
    ("authorization { token: '' }", {}),
    ("authorization { users: [] }", {}),
    (
        f"authorization {{ users: [ {A}, {{username: c, password: $SECRET}}, {{nkey: {KEY}}} ] }}\n"
        "no_auth_user: c",
        users(
            {"user": "a", "password": "b"},
            {"user": "c", "password": "env:SECRET"},
            {"nkey": KEY},
            no_auth_user="c",
        ),
    ),
    (
        "PERMS { pub: 'a.>', sub { deny: [b, c] } }\n"
        "authorization { users: [ {user: a, pass: b, permission: $PERMS} ] }",
        users(
            {
                "user": "a",
                "password": "b",
                "permissions": {"publish": ["a.>"], "subscribe": {"deny": ["b", "c"]}},
            }
        ),
    ),
    (
        "authorization { default_permissions { publish { allow: a, deny: [a.b] }, subscribe: 'q w'"
        ", allow_responses: true }, users: [ {user: a, pass: b, permissions {}}, "
        "{user: c, pass: d, permissions { publish {}, allow_responses {max: -5, ttl: '-1s'} }},"
        " {user: e, pass: f, permissions { allow_responses { max_msgs: 3, expires: 90s } }} ] }",
        users(
            {"user": "a", "password": "b", "permissions": {}},
            {
                "user": "c",
                "password": "d",
                "permissions": {
                    "publish": [],
                    "allow_responses": {"max": -1, "expires": -1},
                },
            },
            {
                "user": "e",
                "password": "f",
                "permissions": {"publish": [], "allow_responses": {"max": 3, "expires": "90s"}},
            },
            default_permissions={
                "publish": {"allow": ["a"], "deny": ["a.b"]},
                "subscribe": ["q w"],
                "allow_responses": True,
            },
        ),
    ),
    (
        "authorization { users: [ {user: a, pass: b, allowed_connection_types: [STANDARD,"
        " WEBSOCKET, MQTT], proxy_required: false} ] }",
        users({"user": "a", "password": "b"}),
    ),
    (
        f"accounts {{ APP {{ users: [ {A} ], default_permissions {{ publish: x }}, limits {{"
        " max_conn: 5, max_subs: -1, max_payload: 1kb } } }\nmax_connections: 10\nno_auth_user: a",
        {
            **users({"user": "a", "password": "b"}, no_auth_user="a"),
            "limits": {"max_connections": 5, "max_subscriptions_total": 0, "max_payload": "1KiB"},
        },
    ),
    (
        "tls { cert_file: own.pem, key_file: own.key, ca_file: own.pem, verify_and_map: true,"
        f" verify: true, timeout: 5, pinned_certs: [{PIN!r}], min_version: '1.3', first: true }}\n"
        "authorization { users: [ {user: 'CN=a'} ] }",
        {
            "tls": {
                "cert_file": "own.pem",
                "key_file": "own.key",
                "ca_file": "own.pem",
                "verify_and_map": True,
                "timeout": "5s",
                "pinned_certs": [PIN],
                "min_version": "1.3",
                "handshake_first": True,
            },
            **users({"user": "CN=a"}),
        },
    ),
    (
        'tls { certs: [ {cert_file: own.pem, key_file: own.key} ], timeout: "500ms" }\n'
        "allow_non_tls: true\nhttps_port: 8333\n"
        "websocket { port: 8080, tls { cert_file: own.pem, key_file: own.key } }",
        {
            "https_port": 8333,
            "tls": {
                "cert_file": "own.pem",
                "key_file": "own.key",
                "timeout": "500ms",
                "allow_non_tls": True,
            },
            "websocket": {"port": 8080},
        },
    ),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.support.secured import make_certificates

    made = make_certificates(tmp_path_factory.mktemp("nats"))
    (made / "server.pem").rename(made / "own.pem")
    (made / "server.key").rename(made / "own.key")
    return made


@pytest.mark.parametrize(("text", "expected"), SAME)
def test_given_what_has_an_equivalent_then_it_is_that_and_a_broker_takes_it(
    folder: Path, text: str, expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    tables, found, written = translated(folder, text)
    accepted, why = judged(folder / "nats.conf", ENVIRONMENT)
    assert accepted, why
    assert said(found, folder) == []
    if "APP" in text:
        assert tables["authorization"].pop("default_permissions") == {"publish": ["x"]}
    assert tables == expected
    monkeypatch.setenv("SECRET", ENVIRONMENT["SECRET"])
    assert refusals(written, {"HOME": "/home/x"}) == []


# What has none, or another meaning: what is said, and what the result has all the same.
DIFFERENT: tuple[tuple[str, dict[str, Any], list[str]], ...] = (
    ("port: 70000", {}, ["1: port: 70000 is above 65535; give 1 to"]),
    ("max_payload: 100MB", in_limits(max_payload="64MiB"), ["1: max_payload: 100MiB is above 64"]),
    ("max_connections: -1", in_limits(max_connections=1_000_000), ["1: max_connections: there is"]),
    (
        "ping_interval: 2m",  # which nats-server takes for two million seconds
        {},
        ["1: ping_interval: is 2000000 seconds in nats-server, because m is a million without"],
    ),
    ("max_pending: -1", {}, ["1: max_pending: -1 is below 4KiB; give"]),
    (
        "max_sub_tokens: 16",
        in_limits(max_subject_tokens=16),
        ["1: max_sub_tokens: here it holds for subjects of messages as well"],
    ),
    (
        "\n\ncluster {\n name: c\n routes: ['nats://u:p@x:6222']\n}\nport: 4333",
        {"port": 4333},
        ["3-6: cluster: members of a cluster find each other by etcd here; set cluster.name, clu"],
    ),
    ("gateway { name: g }", {}, ["1: gateway: there are no gateways, but members of a cluster fi"]),
    ("leafnodes { port: 7422 }", {}, ["1: leafnodes: there are no leaf nodes"]),
    ("mqtt { port: 1883 }", {}, ["1: mqtt: there is no MQTT"]),
    ("mappings { a: b }", {}, ["1: mappings: subjects are not mapped"]),
    ("logfile_size_limit: 1Gb", {}, ["1: logfile_size_limit: the broker does not rotate its log"]),
    ("logtime: false", {}, ["1: logtime: every line has its time"]),
    ("logtime_utc: true", {}, ["1: logtime_utc: times in the log are local; start the broker"]),
    ("syslog: true", {}, ["1: syslog: log to standard error"]),
    ("remote_syslog: 'udp://x:1'", {}, ["1: remote_syslog: log to standard error"]),
    ("max_traced_msg_len: 5", {}, ["1: max_traced_msg_len: the trace has protocol lines"]),
    ("trace_headers: true", {}, ["1: trace_headers: the trace has protocol lines"]),
    ("write_timeout: retry", {}, ["1: write_timeout: the journal serves slow readers"]),
    ("prof_port: 5", {}, ["1: prof_port: there is no profiler's port"]),
    ("server_tags: ['a:b']", {}, ["1: server_tags: a broker has a name, and no tags"]),
    ("ocsp: true", {}, ["1: ocsp: there is no OCSP"]),
    ("proxy_protocol: true", {}, ["1: proxy_protocol: the PROXY protocol is not understood"]),
    ("server_name: env", {"server_name": "env"}, []),
    # Authentication that cannot be kept: the broker does not start before there are users.
    (
        "accounts { A { users: [{user: a, pass: b}] }, B { users: [{user: c, pass: d}] },"
        " $SYS { users: [{user: s, pass: s}] } }\nno_auth_user: a",
        {"authorization": {"users_file": "users.toml"}},
        [
            "1: accounts.$SYS: there is no system account; http_port has",
            "1: accounts.A: accounts keep their subjects apart, and here all users",
            "1: accounts.B: accounts keep their subjects apart",
            '2: no_auth_user: "a" is no user here; clients without credentials are refused',
        ],
    ),
    (  # everybody is let in there
        "accounts { $SYS { users: [{user: s, pass: s}] } }",
        {},
        ["1: accounts.$SYS: there is no system account"],
    ),
    (  # and nobody here
        "accounts { $SYS { users: [{user: s, pass: s}] }, A {} }",
        {"authorization": {"users_file": "users.toml"}},
        ["1: accounts.$SYS: there is no system account", "1: accounts.A: has no users"],
    ),
    (
        "accounts { A { users: [{user: a, pass: b}], exports: [{stream: x}], mappings { a: b },"
        " jetstream: enabled }, B { imports: [{stream {account: A, subject: x}}] } }",
        users({"user": "a", "password": "b"}),
        [
            "1: accounts.A.exports: there are no accounts to share subjects with",
            "1: accounts.A.mappings: there are no accounts to share",
            "1: accounts.B: has no users; accounts keep their subjects apart",
        ],
    ),
    (
        f"authorization {{ users: [{A}] }}\naccounts {{ B {{ users: [{{user: c, pass: d}}] }} }}",
        users({"user": "a", "password": "b"}),
        ["2: accounts.B: accounts keep their subjects apart"],
    ),
    (
        f"trusted_keys: {'O' + KEY[1:]}",
        {"authorization": {"users_file": "users.toml"}},
        ["1: operator and its like: there are no operators and no JWTs"],
    ),
    (
        "authorization { user: a }",
        {"authorization": {"users_file": "users.toml"}},
        ["1: authorization.user: has no password; each user needs one here"],
    ),
    (
        f"authorization {{ user: a, pass: {HASH[:20]} }}",
        {"authorization": {"users_file": "users.toml"}},
        ["1: authorization.user: is not a bcrypt hash, but begins like one"],
    ),
    (
        "authorization { user: a, pass: b, permissions { publish: x } }",
        {"authorization": {"user": "a", "password": "b"}},
        ["1: authorization.permissions: has no effect on a single user or a token in nats-server"],
    ),
    (
        "authorization { token: 'env:TOKEN' }",
        {"authorization": {"users_file": "users.toml"}},
        ["1: authorization.token: begins with env: or file:, which has a meaning here"],
    ),
    (
        "authorization { token: $2a$99$short }",
        {"authorization": {"users_file": "users.toml"}},
        ["1: authorization.token: is not a bcrypt hash, but begins like one"],
    ),
    (
        "authorization { users: [\n{user: a}\n{user: b, pass: 'x\ty'}\n{user: c,"
        " pass: $2a$04$short}\n{user: d, pass: 'd'}\n] }",
        users({"user": "d", "password": "d"}),
        [
            '2: user "a": is left out: it has no password, and each user needs one here',
            "3: authorization.users[2].password: has a character that cannot be printed",
            '3: user "b": is left out: it has no password',
            '4: user "c": is left out: is not a bcrypt hash',
        ],
    ),
    (
        "authorization { users: [\n"
        "{user: a, pass: b, allowed_connection_types: [MQTT]}\n"
        "{user: c, pass: d, proxy_required: true}\n"
        "{user: e, pass: f, allowed_connection_types: [WEBSOCKET]}\n] }",
        users({"user": "e", "password": "f"}),
        [
            '2: user "a": is left out: its allowed_connection_types cannot be kept',
            '3: user "c": is left out: its proxy_required cannot be kept',
            "4: authorization.users[3].allowed_connection_types: no user is bound to WEBSOCKET",
        ],
    ),
    (
        "authorization { users: [{user: a, pass: b, permissions { publish { allow: [], deny: [x] } "
        "}}] }",
        users({"user": "a", "password": "b", "permissions": {"publish": {"deny": ["x"]}}}),
        ["1: authorization.users[1].permissions.publish: an empty list allows everything in nats-"],
    ),
    (
        "tls { cert_file: own.pem, key_file: own.key, verify: true, handshake_first: auto,"
        " cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256], connection_rate_limit: 5 }",
        {"tls": {"cert_file": "own.pem", "key_file": "own.key", "verify": True}},
        [
            "1: tls.cipher_suites: TLS 1.2 and 1.3 with the ciphers",
            "1: tls.connection_rate_limit: set limits.max_connections_per_address",
            "1: tls.handshake_first: a broker does not wait to see who speaks first",
            "1: tls.verify: nats-server trusts all authorities of its system here",
        ],
    ),
    (
        "websocket { port: 8080, tls { cert_file: own.pem, key_file: own.key }, compression: true,"
        " jwt_cookie: c, no_auth_user: x }",
        {"websocket": {"port": 8080}},
        [
            "1: websocket.compression: nothing is compressed",
            "1: websocket.jwt_cookie: cookies are not looked at",
            "1: websocket.no_auth_user: WebSocket has the same users",
            "1: websocket.tls: WebSocket has the certificate of [tls]",
        ],
    ),
)


@pytest.mark.parametrize(("text", "expected", "lines"), DIFFERENT)
def test_given_what_has_no_equivalent_then_its_line_is_named_with_what_to_do(
    folder: Path, text: str, expected: dict[str, Any], lines: list[str]
) -> None:
    tables, found, written = translated(folder, text)
    assert tables == expected
    told = said(found, folder)
    assert len(told) == len(lines), told
    for one, line in zip(told, lines, strict=True):
        assert one.startswith(f"nats.conf:{line}")
    assert all(secret not in one for one in told for secret in ("pass: b", "u:p@x", "$2a$"))
    if "users.toml" in written:
        assert any("users.toml" in one for one in refusals(written, {"HOME": "/home/x"}))


# What nats-server refuses as well.
WRONG = (
    ("foo: 1", "1: foo: nats-server has no such setting either"),
    (
        "max_paylod: 1",
        "1: max_paylod: nats-server has no such setting either; did you mean max_pay",
    ),
    ('port: "4222"', "1: port: is not a whole number, and may not be in quotes"),
    ("debug: 1", "1: debug: is neither true nor false"),
    ("server_name: 5", "1: server_name: is not text; put quotes around it"),
    ("max_payload: 1.5", "1: max_payload: is not a whole number"),
    ("ping_interval: soon", "1: ping_interval: is not a duration such as 1m30s"),
    ("listen: 'a:b:c'", '1: listen: "a:b:c" is not an address to listen on'),
    ("tls: 5", "1: tls: is not a block; write { }"),
    ("authorization { users: 5 }", "1: authorization.users: is not a list"),
    ("authorization { users: [{user: a, pass: 5}] }", "1: authorization.users[1].password: is not"),
    (
        "authorization { users: [{user: a, pas: b}] }",
        "1: authorization.users[1].pas: nats-server h",
    ),
    ("accounts { A: 5 }", "1: accounts.A: is not a block"),
)


@pytest.mark.parametrize(("text", "line"), WRONG)
def test_given_what_nats_server_refuses_then_it_is_named(
    folder: Path, text: str, line: str
) -> None:
    _, found, _ = translated(folder, text)
    assert said(found, folder)[0].startswith(f"nats.conf:{line}")
    accepted, _ = judged(folder / "nats.conf", ENVIRONMENT)
    assert not accepted


def test_given_jetstream_then_it_is_streams(folder: Path) -> None:
    text = "jetstream { store_dir: /data/, max_file_store: 20G, max_mem: 1Gb, domain: d, key: k }"
    tables, found, written = translated(folder, text)
    assert tables == {
        "store_dir": "/data/seriatim",
        "journal": {"retain_bytes": "19531250KiB"},
        "streams": {"enabled": True},
    }
    assert [one.split(": ")[1] for one in said(found, folder)] == [
        "jetstream.domain",
        "jetstream.key",
        "store_dir",
    ]
    tables, _, _ = translated(folder, "jetstream: enabled")
    assert tables == {"streams": {"enabled": True}}
    assert refusals(written, {"HOME": "/home/x"}) == []


def test_given_the_tables_then_each_names_a_setting_of_ours_or_says_what_to_do() -> None:
    blocks = [one for one in vars(nats_blocks).values() if isinstance(one, KnownKeys)]
    for block in (*blocks, AUTHORIZATION):
        assert set(block.same.values()) <= set(SETTINGS)
        ways = (block.same, block.special, block.needless, block.missing)
        assert sum(map(len, ways)) == len({key for way in ways for key in way}), block.name
        for text in (*block.needless.values(), *block.missing.values()):
            for page in re.findall(r"docs/[a-z.-]+\.md", text):
                assert (ROOT / page).exists(), text


# Any values for any keys: the result is TOML, and no secret is shown.

KNOWN = sorted(
    {
        key
        for block in (*vars(nats_blocks).values(), AUTHORIZATION)
        if isinstance(block, KnownKeys)
        for way in (block.same, block.special, block.needless, block.missing)
        for key in way
    }
    | {
        "users",
        "nkey",
        "publish",
        "allow",
        "deny",
        "allow_responses",
        "max",
        "expires",
        "A",
        "$SYS",
    }
)
SECRET = "hush'\"\u0085"
PLAIN = (
    st.sampled_from(["1m", "a.>", "127.0.0.1:1", "env:X", KEY, HASH, "", ">", "1.3", "#\n[x]"])
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.integers(-2, 70000)
    | st.booleans()
    | st.floats(-1e6, 1e6).filter(lambda one: "e" not in repr(one))
)
VALUES = st.recursive(
    PLAIN,
    lambda inner: (
        st.dictionaries(st.sampled_from(KNOWN), inner, max_size=4)
        | st.lists(inner.filter(lambda one: type(one) is not int), max_size=3)
    ),
    max_leaves=12,
)


def with_secrets(value: Any) -> Any:
    """The same, with a secret wherever there can be one."""
    if isinstance(value, list):
        return [with_secrets(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        key: SECRET
        if key in ("pass", "password", "token") and isinstance(one, str)
        else with_secrets(one)
        for key, one in value.items()
    }


@settings(max_examples=examples(300), deadline=None, suppress_health_check=UNCHECKED)
@given(st.dictionaries(st.sampled_from(KNOWN), VALUES, max_size=6))
def test_given_any_values_then_the_result_is_a_file_and_every_line_is_accounted_for(
    tmp_path: Path, config: dict[str, Any]
) -> None:
    _, found, written = translated(tmp_path, json.dumps(with_secrets(config), ensure_ascii=False))
    assert "hush" not in "".join(said(found, tmp_path))
    (tmp_path / "broker.toml").write_text(written)
    try:
        resolve({}, {"HOME": "/home/x"}, str(tmp_path / "broker.toml"))
    except Exception as error:
        assert type(error).__name__ == "WrongSettings", error  # noqa: PT017
