"""Every setting of nats-server 2.15.1, and what it is here: the tables of a translation.

The keys are those that its code knows (server/opts.go); upper and lower case do not matter to it.
"""

from collections.abc import Mapping
from typing import Final

from broker.settings.catalog import SETTINGS
from broker.settings.checks import FLUSHED
from seriatim.cli.from_nats.nats_syntax import NatsValue
from seriatim.cli.from_nats.nats_users import accounts, authorization
from seriatim.cli.from_nats.translation import (
    Given,
    KnownKeys,
    Rule,
    Translation,
    host_and_port,
)
from seriatim.settings.checked import WrongValue, quoted

STREAMS: Final = "streams.enabled"
JOURNAL_FOLDER: Final = "seriatim"  # inside JetStream's directory, whose files are of no use here
USERS_FILE: Final = "users.toml"
EVERYWHERE: Final = "0.0.0.0"  # where nats-server listens for WebSocket, whatever `host` is

CLUSTER: Final = (
    "members of a cluster find each other by etcd here; set cluster.name, cluster.etcd and"
    " cluster.advertise (docs/cluster.md)"
)
NO_JWT: Final = (
    "there are no operators and no JWTs; give each user a password (`seriatim user add`) or a key"
    " (`seriatim user nkey`)"
)
NO_TRACE_OF: Final = "the trace has protocol lines, and never payloads"
NO_OCSP: Final = (
    "there is no OCSP; give certificates a short life, and reload renewed ones (SIGHUP)"
)
NO_PROFILE: Final = "there is no profiler's port"
NO_PROXY: Final = (
    "the PROXY protocol is not understood; for WebSocket and monitoring, proxy_header and"
    " trusted_proxies tell the clients' addresses"
)
ONE_CERTIFICATE: Final = (
    "WebSocket has the certificate of [tls], and is without TLS if there is none. If only WebSocket"
    " shall have TLS: put its certificate into [tls], set port = 0, and add a [[listener]] with the"
    " port for clients and tls = false"
)
ROTATION: Final = (
    "the broker does not rotate its log; use logrotate and SIGUSR1 (docs/operating.md)"
)
SYSLOG: Final = "log to standard error, which systemd's journal takes, or to log_file"
CIPHERS: Final = (
    "TLS 1.2 and 1.3 with the ciphers and curves of OpenSSL's default; see tls.min_version"
)


def _listen(found: Translation, value: NatsValue) -> None:
    _place(found, value, "listen", "host", "port")


def _http(found: Translation, value: NatsValue) -> None:
    _place(found, value, "http", "http_host", "http_port")


def _https(found: Translation, value: NatsValue) -> None:
    _place(found, value, "https", "http_host", "https_port")


def _websocket_listen(found: Translation, value: NatsValue) -> None:
    _place(found, value, "websocket.listen", "websocket.host", "websocket.port")


def _place(found: Translation, value: NatsValue, name: str, host_path: str, port_path: str) -> None:
    """Translate one value that has a port, and perhaps a host."""
    try:
        host, port = host_and_port(value.raw)
    except WrongValue as wrong:
        found.leave(value, name, str(wrong))
        return
    for path, raw in ((host_path, host), (port_path, port)):
        if raw:
            found.take(path, NatsValue(raw, value.file, value.line, value.last_line), name)


def _flag_that_is(wanted: bool, name: str, needless: str, missing: str) -> Rule:
    """Make the rule of a flag that is always `wanted` here."""

    def rule(found: Translation, value: NatsValue) -> None:
        if value.raw is wanted:
            found.need_not(value, name, needless)
        else:
            found.leave(value, name, missing)

    return rule


def _trace_verbose(found: Translation, value: NatsValue) -> None:
    found.take("trace", value, "trace_verbose")


def _trace_headers(found: Translation, value: NatsValue) -> None:
    if value.raw is True:
        found.leave(value, "trace_headers", f"{NO_TRACE_OF} or headers; set trace for the lines")


def _sub_tokens(found: Translation, value: NatsValue) -> None:
    found.take("limits.max_subject_tokens", value, "max_sub_tokens")
    found.leave(value, "max_sub_tokens", "here it holds for subjects of messages as well")


def _write_timeout(found: Translation, value: NatsValue) -> None:
    if value.raw in ("default", "close"):
        found.need_not(value, "write_timeout", "such a client is closed, here too")
    else:
        found.leave(value, "write_timeout", "the journal serves slow readers; leave it out")


def _system_account(found: Translation, value: NatsValue) -> None:
    found.system_account = found.text(value, "system_account") or found.system_account
    found.need_not(value, "system_account", "there is no system account; see http_port")


def _jwt(found: Translation, value: NatsValue) -> None:
    if value.raw not in ([], "", {}):
        found.needs_users = True
        found.leave(value, "operator and its like", NO_JWT)


def _mappings(found: Translation, value: NatsValue) -> None:
    if value.raw != {}:
        why = "subjects are not mapped; publish to the new subject, or subscribe to both"
        found.leave(value, "mappings", why)


def _tls(found: Translation, value: NatsValue) -> None:
    table = found.table(value, "tls")
    found.walk(table, TLS)
    words = {key.lower(): one for key, one in table.items()}
    for word in ("verify_and_map", "verify"):
        one = words.get(word)
        if one is not None and one.raw is True and "ca_file" not in words:
            why = "nats-server trusts all authorities of its system here; give the one: tls.ca_file"
            found.leave(one, f"tls.{word}", why)
    if found.values.get("tls.verify_and_map") and "tls.verify" in found.values:
        del found.values["tls.verify"]  # the other one means it


def _pinned(found: Translation, value: NatsValue) -> None:
    pins = found.texts(value, "tls.pinned_certs")
    try:
        SETTINGS["tls.pinned_certs"].read_native(list(pins))
    except WrongValue as wrong:
        found.leave(value, "tls.pinned_certs", str(wrong))
    if pins:  # even wrong ones: the broker then refuses to start, and does not let in everybody
        found.values["tls.pinned_certs"] = Given(list(pins), value.place)


def _first(found: Translation, value: NatsValue) -> None:
    if isinstance(value.raw, bool):
        found.take("tls.handshake_first", value, "tls.handshake_first")
    else:
        found.leave(
            value,
            "tls.handshake_first",
            "a broker does not wait to see who speaks first; it sends INFO first, as with false."
            " Set tls.handshake_first = true if all clients begin with TLS",
        )


def _certificates(found: Translation, value: NatsValue) -> None:
    """Take the first of several certificates."""
    for at, one in enumerate(value.raw if isinstance(value.raw, list) else []):
        if at == 0:
            found.walk(
                found.table(one, "tls.certs[1]"), KnownKeys("tls.certs[1].", same=CERTIFICATE)
            )
        else:
            found.leave(one, f"tls.certs[{at + 1}]", "a broker has one certificate: the first")


def _version(found: Translation, value: NatsValue) -> None:
    if value.raw in ("1.0", "1.1"):
        found.leave(value, "tls.min_version", "older ones than 1.2 are broken (RFC 8996)")
    else:
        found.take("tls.min_version", value, "tls.min_version")


def _websocket(found: Translation, value: NatsValue) -> None:
    table = found.table(value, "websocket")
    port = next((one for key, one in table.items() if key.lower() in ("port", "listen")), None)
    if port is not None and port.raw != 0:
        found.walk(table, WEBSOCKET)
    elif table:
        found.need_not(value, "websocket", "has no port, so there is none")


def _websocket_tls(found: Translation, value: NatsValue) -> None:
    """WebSocket has the broker's own certificate; is this the same?"""
    for key, one in found.table(value, "websocket.tls").items():
        ours = found.values.get(f"tls.{key.lower()}")
        if ours is None or ours.value != one.raw:
            found.leave(value, "websocket.tls", ONE_CERTIFICATE)
            return
    found.need_not(value, "websocket.tls", "is as [tls], which WebSocket has here")


def _origins(found: Translation, value: NatsValue) -> None:
    origins = list(found.texts(value, "websocket.allowed_origins"))
    try:
        SETTINGS["websocket.allowed_origins"].read_native(origins)
    except WrongValue as wrong:
        found.leave(value, "websocket.allowed_origins", str(wrong))
    if origins:
        found.values["websocket.allowed_origins"] = Given(origins, value.place)


def _jetstream(found: Translation, value: NatsValue) -> None:
    words = (
        {key.lower(): one for key, one in value.raw.items()} if isinstance(value.raw, dict) else {}
    )
    enabled = words.get("enabled") or words.get("enable") or value
    if enabled.raw is False or (
        isinstance(value.raw, str) and value.raw.lower() in ("disabled", "disable")
    ):
        found.need_not(value, "jetstream", "is off")
    else:
        found.values[STREAMS] = Given(True, value.place)
        if words:
            found.walk(found.table(value, "jetstream"), JETSTREAM)


def _store_dir(found: Translation, value: NatsValue) -> None:
    """Put the journal into JetStream's directory, but not among its files."""
    if folder := found.text(value, "store_dir"):
        path = f"{folder.rstrip('/')}/{JOURNAL_FOLDER}"
        found.values["store_dir"] = Given(path, value.place)
        why = f"the journal is in {quoted(path)}; what JetStream kept is not taken over"
        found.leave(value, "store_dir", why)


def _max_file(found: Translation, value: NatsValue) -> None:
    raw = value.raw
    units = {"K": 10, "M": 20, "G": 30, "T": 40}
    if isinstance(raw, str) and raw[-1:] in units and raw[:-1].isascii() and raw[:-1].isdigit():
        raw = int(raw[:-1]) << units[raw[-1]]
    made = NatsValue(raw, value.file, value.line, value.last_line)
    found.take("journal.retain_bytes", made, "jetstream.max_file_store")


CERTIFICATE: Final = {"cert_file": "tls.cert_file", "key_file": "tls.key_file"}

TLS: Final = KnownKeys(
    "tls.",
    same={
        **CERTIFICATE,
        "ca_file": "tls.ca_file",
        "verify": "tls.verify",
        "verify_and_map": "tls.verify_and_map",
        "timeout": "tls.timeout",
    },
    special={
        "pinned_certs": _pinned,
        **dict.fromkeys(("handshake_first", "first", "immediate"), _first),
        "min_version": _version,
        "certs": _certificates,
    },
    needless={
        "insecure": "is about connections that a server makes to others",
        "allow_insecure_cipher_suites": "there are only secure ones",
        "cert_match_skip_invalid": "is about the certificates of Windows",
    },
    missing={
        **dict.fromkeys(("cipher_suites", "curve_preferences"), CIPHERS),
        "connection_rate_limit": "set limits.max_connections_per_address",
        "ocsp_peer": NO_OCSP,
        **dict.fromkeys(
            ("cert_store", "cert_match_by", "cert_match", "ca_certs_match"),
            "certificates are files; give tls.cert_file and tls.key_file",
        ),
        "verify_cert_and_check_known_urls": "is for routes; there are none",
    },
)

WEBSOCKET: Final = KnownKeys(
    "websocket.",
    same={
        "port": "websocket.port",
        **dict.fromkeys(("host", "net"), "websocket.host"),
        "no_tls": "websocket.no_tls",
        "same_origin": "websocket.same_origin",
        "handshake_timeout": "websocket.handshake_timeout",
    },
    special={
        "listen": _websocket_listen,
        "tls": _websocket_tls,
        **dict.fromkeys(
            (
                *("allowed_origins", "allowed_origin", "allow_origins", "allow_origin"),
                *("origins", "origin"),
            ),
            _origins,
        ),
        **dict.fromkeys(
            ("compress", "compression"),
            _flag_that_is(
                False,
                "websocket.compression",
                "nothing is compressed",
                "nothing is compressed; clients notice that by themselves, and go on",
            ),
        ),
    },
    missing={
        "advertise": "clients are told no other addresses for WebSocket",
        **dict.fromkeys(
            ("authorization", "authentication", "no_auth_user"),
            "WebSocket has the same users as other clients, and the same no_auth_user",
        ),
        **dict.fromkeys(
            ("jwt_cookie", "user_cookie", "pass_cookie", "token_cookie"),
            "cookies are not looked at; the page must give its credentials to its client",
        ),
        "headers": "the answer to the handshake has no headers of your own; a proxy can add them",
        "ping_interval": "limits.ping_interval is for all clients",
    },
)

JETSTREAM: Final = KnownKeys(
    "jetstream.",
    special={
        **dict.fromkeys(("store", "store_dir", "storedir"), _store_dir),
        **dict.fromkeys(("max_file_store", "max_file"), _max_file),
        **dict.fromkeys(("enable", "enabled"), lambda found, value: None),
    },
    needless={
        **dict.fromkeys(
            ("max_memory_store", "max_mem_store", "max_mem"),
            "streams in memory are in the journal, too",
        ),
        **dict.fromkeys(
            (
                *("max_outstanding_catchup", "request_queue_limit", "info_queue_limit"),
                *("max_buffered_size", "max_buffered_msgs", "meta_compact", "meta_compact_size"),
                *("extension_hint", "strict"),
            ),
            "is about how JetStream works inside",
        ),
    },
    missing={
        **dict.fromkeys(("sync", "sync_interval"), "set journal.sync and journal.sync_interval"),
        **dict.fromkeys(("domain", "unique_tag"), "there are no domains and no placement"),
        **dict.fromkeys(
            (
                *("key", "ek", "encryption_key", "prev_key", "prev_ek", "prev_encryption_key"),
                *("cipher", "tpm"),
            ),
            "the journal is not encrypted; use an encrypted disk",
        ),
        "limits": "streams and consumers have limits of their own (docs/configuration.md)",
    },
)

TOP: Final = KnownKeys(
    "",
    same={
        **dict.fromkeys(("host", "net"), "host"),
        "port": "port",
        "server_name": "server_name",
        "client_advertise": "client_advertise",
        "debug": "debug",
        "trace": "trace",
        **dict.fromkeys(("http_port", "monitor_port"), "http_port"),
        "https_port": "https_port",
        **dict.fromkeys(("logfile", "log_file"), "log_file"),
        **dict.fromkeys(("pidfile", "pid_file"), "pid_file"),
        "max_control_line": "limits.max_control_line",
        "max_payload": "limits.max_payload",
        "max_pending": "limits.max_pending",
        **dict.fromkeys(("max_connections", "max_conn"), "limits.max_connections"),
        **dict.fromkeys(("max_subscriptions", "max_subs"), "limits.max_subscriptions"),
        "ping_interval": "limits.ping_interval",
        "ping_max": "limits.ping_max",
        "write_deadline": "limits.write_deadline",
        "lame_duck_duration": "limits.lame_duck",
        "lame_duck_grace_period": "limits.lame_duck_grace",
        "no_auth_user": "authorization.no_auth_user",
        "no_header_support": "no_header_support",
        "allow_non_tls": "tls.allow_non_tls",
    },
    special={
        "listen": _listen,
        "http": _http,
        "https": _https,
        **dict.fromkeys(("system_account", "system"), _system_account),
        "tls": _tls,
        "authorization": authorization,
        "accounts": accounts,
        **dict.fromkeys(("websocket", "ws"), _websocket),
        "jetstream": _jetstream,
        **dict.fromkeys(("store_dir", "storedir"), _store_dir),
        "trace_verbose": _trace_verbose,
        "trace_headers": _trace_headers,
        "logtime": _flag_that_is(
            True, "logtime", "every line of the log has its time", "every line has its time"
        ),
        "logtime_utc": _flag_that_is(
            False,
            "logtime_utc",
            "times in the log are local",
            "times in the log are local; start the broker with TZ=UTC",
        ),
        "ocsp": _flag_that_is(False, "ocsp", "there is none", NO_OCSP),
        "ocsp_cache": _flag_that_is(False, "ocsp_cache", "there is none", NO_OCSP),
        "syslog": _flag_that_is(False, "syslog", "is off", SYSLOG),
        "proxy_protocol": _flag_that_is(False, "proxy_protocol", "is off", NO_PROXY),
        **dict.fromkeys(("max_sub_tokens", "max_subscription_tokens"), _sub_tokens),
        "write_timeout": _write_timeout,
        **dict.fromkeys(("mappings", "maps"), _mappings),
        **dict.fromkeys(
            (
                *("operator", "operators", "roots", "root", "root_operators", "root_operator"),
                *("trusted", "trusted_keys", "resolver", "account_resolver", "accounts_resolver"),
                *("resolver_tls", "resolver_preload", "resolver_pinned_accounts"),
                "default_sentinel",
            ),
            _jwt,
        ),
    },
    needless={
        **dict.fromkeys(("no_system_account", "no_system", "no_sys_acc"), "there is none"),
        **dict.fromkeys(
            ("disable_sublist_cache", "no_sublist_cache"), "is about how nats-server works inside"
        ),
        "no_fast_producer_stall": "with a journal no publisher waits for a reader",
        **dict.fromkeys(
            ("connect_error_reports", "reconnect_error_reports"), "is about routes; there are none"
        ),
    },
    missing={
        "cluster": CLUSTER,
        "gateway": f"there are no gateways, but {CLUSTER}",
        **dict.fromkeys(
            ("leaf", "leafnodes"),
            "there are no leaf nodes; clients connect directly, or a program copies messages",
        ),
        "mqtt": "there is no MQTT; such clients need a bridge that speaks NATS",
        **dict.fromkeys(
            ("logfile_size_limit", "log_size_limit", "logfile_max_num", "log_max_num"), ROTATION
        ),
        "remote_syslog": SYSLOG,
        "ports_file_dir": "the log names the ports: `Listening for client connections on`",
        **dict.fromkeys(("prof_port", "prof_block_rate"), NO_PROFILE),
        "max_traced_msg_len": f"{NO_TRACE_OF}; leave it out",
        "max_closed_clients": "monitoring remembers the last 10 000 closed connections",
        **dict.fromkeys(
            ("server_tags", "server_metadata"), "a broker has a name, and no tags; see server_name"
        ),
        "default_js_domain": "there are no domains",
        "http_base_path": "monitoring is at the root; a proxy in front can change the path",
        "proxies": NO_PROXY,
        "feature_flags": "are about nats-server itself",
    },
)
# Others depend on these, and in a file they may come in any order.
FIRST: Final = ("system_account", "system", "tls", "authorization")
LAST: Final = "accounts"


def translate(config: Mapping[str, NatsValue]) -> Translation:
    """Translate a whole configuration."""
    found = Translation()
    found.walk(dict(sorted(config.items(), key=lambda one: _rank(one[0]))), TOP)
    _complete(found, {key.lower(): value for key, value in config.items()})
    found.left_out.sort()
    found.needless.sort()
    return found


def _rank(key: str) -> int:
    word = key.lower()
    return FIRST.index(word) if word in FIRST else len(FIRST) + (word == LAST)


def _complete(found: Translation, config: Mapping[str, NatsValue]) -> None:
    """Decide what depends on several lines."""
    values = found.values
    if "tls.allow_non_tls" in values and "tls.cert_file" not in values:
        del values["tls.allow_non_tls"]
    if "websocket.port" in values:
        _complete_websocket(values)
    nobody = values.get("authorization.no_auth_user")
    names = set(found.users)
    names |= {values[path].value for path in ("authorization.user",) if path in values}
    if nobody is not None and nobody.value not in names:
        del values["authorization.no_auth_user"]
        why = f"{quoted(nobody.value)} is no user here; clients without credentials are refused"
        found.leave(config["no_auth_user"], "no_auth_user", why)
    if found.needs_users and not names and "authorization.token" not in values:
        values["authorization.users_file"] = Given(USERS_FILE, "")


def _complete_websocket(values: dict[str, Given]) -> None:
    """Add what nats-server does by itself, and a broker must be told."""
    host = values.get("host")
    if host is not None and host.value != EVERYWHERE:
        values.setdefault("websocket.host", Given(EVERYWHERE, ""))
    payload, frame = values.get("limits.max_payload"), SETTINGS["websocket.max_frame"].default
    if payload is not None and payload.value + FLUSHED > frame:
        values["websocket.max_frame"] = Given(payload.value + FLUSHED, payload.place)
