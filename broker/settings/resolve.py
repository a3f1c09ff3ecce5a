"""Resolves the settings: flags override the environment, then the TOML file, then defaults.

Every layer is read completely. All wrong settings are collected, even those that a stronger layer
overrides, and `WrongSettings` reports them together, each with its path. A setting that is set
nowhere has its default. The origin of each value is kept for `seriatim config`.
"""

import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from broker.settings import checks
from broker.settings.authorization_checks import authorization_relations
from broker.settings.authorization_settings import AuthorizationSettings
from broker.settings.catalog import (
    FIXED,
    PREFIX,
    SECTIONS,
    SETTINGS,
    TABLES,
    BrokerSetting,
    SettingsTable,
    fixed_words,
)
from broker.settings.cluster_settings import ClusterSettings
from broker.settings.errors import WrongSettings
from broker.settings.journal_settings import JournalSettings
from broker.settings.limits_settings import Limits
from broker.settings.permission_tables import read_permissions
from broker.settings.settings import SequencerSettings, Settings
from broker.settings.sources import Sources
from broker.settings.staging_settings import StagingSettings
from broker.settings.store_directory import default_store_dir
from broker.settings.stream_settings import StreamSettings
from broker.settings.tables import make, read_entry, read_tables
from broker.settings.tls_settings import BrokerTlsSettings
from broker.settings.user_tables import read_users, read_users_file
from broker.settings.websocket_settings import WebSocketSettings
from seriatim.settings.checked import WrongValue, closest

DEFAULT = "default"
USERS, DEFAULTS = "authorization.users", "authorization.default_permissions"
CONFIG_VARIABLE = PREFIX + "CONFIG"
FILE_BYTES_MAX = 1 << 20

# Variables of ours that are not settings of `serve`: the client's address, and the build's.
OTHER_VARIABLES = frozenset(
    PREFIX + word
    for word in (
        *("CONFIG", "TRACEBACK", "URL"),
        *("ANNOTATE", "CFLAGS", "LDFLAGS", "PURE", "REQUIRE_COMPILED"),
    )
)
# Kubernetes sets these in every container of a namespace for each service, here for one called
# "seriatim" or "seriatim-NAME". Some have the name of a setting, but never a value that it takes.
_SERVICE_LINK = re.compile(
    r"SERIATIM_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?"
    r"|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)
_SERVICE_LINK_VALUE = re.compile(r"(tcp|udp|sctp)://[^/]+:\d+")

# Lines that nats-server's own format has, and TOML does not: KEY: VALUE, KEY { and include FILE.
_OF_NATS = re.compile(rb"""^[ \t{,]*(["']?[A-Za-z_]+["']?[ \t]*[:{]|include[ \t]+['"\w./])""", re.M)

# Names from nats-server's configuration, which people will try.
ALIASES = {
    "addr": "host",
    "auth": "authorization.token",
    "config": "--config, which is a flag",
    "feed": "[[feeds]]",
    "http": "http_port",
    "jetstream": "streams.enabled",
    "listen": "host and port",
    "listeners": "[[listener]]",
    "logfile": "log_file",
    "max_conn": "limits.max_connections",
    "max_subs": "limits.max_subscriptions",
    "name": "server_name",
    "net": "host",
    "pidfile": "pid_file",
}


@dataclass(frozen=True, slots=True)
class Effective:
    """The resolved settings, where each value came from, by path, and what was given."""

    settings: Settings
    origins: dict[str, str]
    sources: Sources


@dataclass(slots=True)
class SettingsLayer:
    """The settings of one source. `written` is the name of a setting in that source."""

    values: dict[str, Any] = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def read_setting(self, setting: BrokerSetting, written: str, raw: Any, native: bool) -> None:
        """Read one setting of this source, or note why it is wrong."""
        self.written[setting.path] = written
        try:
            self.values[setting.path] = setting.read_native(raw) if native else setting.read(raw)
        except WrongValue as wrong:
            self.problems.append(f"{written}: {wrong}")

    def take_several(self, table: SettingsTable, written: str, texts: Sequence[str]) -> None:
        """Read one listener or feed from each text."""
        entries = []
        self.written[table.path] = written
        for text in texts:
            try:
                entries.append(read_entry(table, text))
            except WrongValue as wrong:
                self.problems.append(f"{written}: {wrong}")
        if len(entries) == len(texts):
            self.values[table.path] = entries

    def broken(self) -> set[str]:
        """Return the paths that were set and are wrong."""
        return set(self.written) - set(self.values)


def resolve(
    flags: Mapping[str, Any],
    environment: Mapping[str, str],
    config: str | None = None,
    problems: Iterable[str] = (),
) -> Effective:
    """Resolve the settings. Raises `WrongSettings` with `problems` and all that it finds.

    `flags` holds texts by path, a bool for a flag, and lists of texts for `listeners` and
    `feeds`.
    """
    layers = _layers(flags, environment, config)
    values = _values(layers, environment)
    origins = dict.fromkeys([*SETTINGS, *TABLES, USERS, DEFAULTS], DEFAULT)
    frame = _strongest(layers, "frame") or SETTINGS["frame"].default
    for layer in layers:
        origins |= {path: layer.written.get(path, path) for path in layer.values}
    for path, table in TABLES.items():
        values[path] = tuple(make(table, entry, frame) for entry in values.get(path, ()))
    users_problems: list[str] = []
    _take_users(values, origins, users_problems)
    if not values["http_host"]:
        values["http_host"] = values["host"]

    of_flags = [*problems, *layers[-1].problems]
    problems = [*problems, *_problems(layers), *users_problems]
    broken = set().union(*(layer.broken() for layer in layers))
    problems += checks.relations(values, origins, broken)
    if not problems:
        problems = authorization_relations(values, origins)
    if problems:
        raise WrongSettings(problems, bool(of_flags))
    warnings = tuple(warning for layer in layers for warning in layer.warnings)
    return Effective(_settings(values), origins, Sources(dict(flags), config, warnings))


def _take_users(values: dict[str, Any], origins: dict[str, str], problems: list[str]) -> None:
    """Add the users of the users' file to those of the configuration."""
    values.setdefault(USERS, ())
    values.setdefault(DEFAULTS, None)
    path = values["authorization.users_file"]
    if not path:
        return
    users, defaults = read_users_file(path, problems)
    if users:
        before = f"{origins[USERS]}, and " if values[USERS] else ""
        origins[USERS] = f"{before}users in {path}"
        values[USERS] += users
    if defaults is None:
        return
    if values[DEFAULTS] is not None:
        problems.append(
            f"{path}: default_permissions are in the configuration, too; leave out one of them"
        )
    values[DEFAULTS], origins[DEFAULTS] = defaults, f"default_permissions in {path}"


def look_up(
    flags: Mapping[str, Any], environment: Mapping[str, str], config: str | None = None
) -> dict[str, Any]:
    """Return the settings by path, from the same places, for a command that starts no broker.

    Raises `WrongSettings` for wrong values, but does not check whether they fit together.
    """
    layers = _layers(flags, environment, config)
    problems = _problems(layers)
    if problems:
        raise WrongSettings(problems, bool(layers[-1].problems))
    return _values(layers, environment)


def _layers(
    flags: Mapping[str, Any], environment: Mapping[str, str], config: str | None
) -> tuple[SettingsLayer, ...]:
    """Return all sources, the weakest first."""
    config_file = config or environment.get(CONFIG_VARIABLE)
    from_file = _file_layer(config_file) if config_file else SettingsLayer()
    return from_file, _environment_layer(environment), _flag_layer(flags)


def _problems(layers: Sequence[SettingsLayer]) -> list[str]:
    return [problem for layer in reversed(layers) for problem in layer.problems]


def _values(layers: Sequence[SettingsLayer], environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the value of each setting, from the strongest source."""
    values = {path: setting.default for path, setting in SETTINGS.items()}
    for layer in layers:
        values |= layer.values
    if not values["store_dir"]:
        values["store_dir"] = default_store_dir(environment)
    return values


def _settings(values: Mapping[str, Any]) -> Settings:
    def section(name: str) -> dict[str, Any]:
        return {k.name: values[k.path] for k in SETTINGS.values() if k.section == name}

    return Settings(
        **section(""),
        **{path: values[path] for path in TABLES},
        authorization=AuthorizationSettings(
            **section("authorization"),
            users=values[USERS],
            default_permissions=values[DEFAULTS],
        ),
        cluster=ClusterSettings(**section("cluster")),
        limits=Limits(**section("limits")),
        sequencer=SequencerSettings(**section("sequencer")),
        journal=JournalSettings(**section("journal")),
        staging=StagingSettings(**section("staging")),
        streams=StreamSettings(**section("streams")),
        tls=BrokerTlsSettings(**section("tls")),
        websocket=WebSocketSettings(**section("websocket")),
    )


def _strongest(layers: Iterable[SettingsLayer], path: str) -> Any:
    found = None
    for layer in layers:
        found = layer.values.get(path, found)
    return found


def _flag_layer(flags: Mapping[str, Any]) -> SettingsLayer:
    layer = SettingsLayer()
    for path, raw in flags.items():
        if path in TABLES:
            layer.take_several(TABLES[path], TABLES[path].flag, raw)
            continue
        setting = SETTINGS[path]
        if isinstance(raw, list):
            raw = ",".join(raw)
        layer.read_setting(setting, setting.flag, raw, native=isinstance(raw, bool))
    return layer


def is_service_link(variable: str, text: str) -> bool:
    """True for a variable that Kubernetes sets for a service, and no setting can mean."""
    if not variable.startswith(PREFIX):
        return False
    return bool(_SERVICE_LINK_VALUE.fullmatch(text) or _SERVICE_LINK.fullmatch(variable))


def _environment_layer(environment: Mapping[str, str]) -> SettingsLayer:
    layer = SettingsLayer()
    known = {setting.variable: setting for setting in SETTINGS.values()}
    several = {one.variable: one for one in TABLES.values()}
    fixed = {PREFIX + path.upper().replace(".", "_"): path for path in FIXED}
    for variable in sorted(v for v in environment if v.startswith(PREFIX)):
        text = environment[variable]
        if not text or is_service_link(variable, text):
            continue  # an empty variable counts as unset: `-e SERIATIM_PORT=` unsets it
        if variable in known:
            layer.read_setting(known[variable], variable, text, native=False)
        elif variable in several:
            layer.take_several(several[variable], variable, text.split())
        elif variable in fixed:
            layer.warnings.append(f"{variable} is ignored: it {fixed_words(fixed[variable])}")
        elif variable not in OTHER_VARIABLES:
            names = [name.removeprefix(PREFIX) for name in (*known, *several, *OTHER_VARIABLES)]
            close = closest(variable.removeprefix(PREFIX), names)
            hint = (
                f"did you mean {PREFIX}{close}?"
                if close
                else "`seriatim config` shows what there is"
            )
            layer.warnings.append(f"{variable} is ignored: there is no such setting; {hint}")
    return layer


def _file_layer(config_file: str) -> SettingsLayer:
    layer = SettingsLayer()
    import tomllib

    where = f"in {config_file}"
    try:
        with open(config_file, "rb", opener=_open_at_once) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                layer.problems.append(f"{config_file}: is not a regular file; give a file of TOML")
                return layer
            content = file.read(FILE_BYTES_MAX + 1)
        if len(content) > FILE_BYTES_MAX:
            layer.problems.append(
                f"{config_file}: is longer than 1 MiB, so it is not a file of settings"
            )
            return layer
        raw = tomllib.loads(content.decode("utf-8-sig"))  # editors write a BOM
    except OSError as error:
        layer.problems.append(f"{config_file}: cannot be read: {error.strerror}")
    except (ValueError, RecursionError) as error:
        reason = "it is not text" if isinstance(error, UnicodeDecodeError) else str(error)
        if _OF_NATS.search(content):
            layer.problems.append(
                f"{config_file}: is not TOML, but looks like a configuration of nats-server;"
                f" translate it: {_translating(config_file)} ({reason})"
            )
        else:
            layer.problems.append(f"{config_file}: is not TOML: {reason}")
    else:
        _read_table(layer, "", raw, where)
        if layer.problems and config_file.endswith(".conf"):
            layer.problems.append(
                f"{config_file}: if it is a configuration of nats-server, translate it:"
                f" {_translating(config_file)}"
            )
    return layer


def _translating(config_file: str) -> str:
    """The command that makes a file of ours of nats-server's."""
    import shlex

    return f"`seriatim config --from {shlex.quote(config_file)} > broker.toml`"


def _open_at_once(path: str, flags: int) -> int:
    """Open a file, without waiting if it is a pipe without a writer."""
    return os.open(path, flags | os.O_NONBLOCK)


def _read_table(
    layer: SettingsLayer, section: str, table: Mapping[str, object], where: str
) -> None:
    several = {one.key: one for one in TABLES.values()}
    for key, raw in table.items():
        path = f"{section}.{key}" if section else key
        if path in (USERS, DEFAULTS):
            layer.written[path] = f"{path} {where}"
        if path == USERS:
            layer.values[path] = read_users(raw, path, where, layer.problems)
        elif path == DEFAULTS:
            layer.values[path] = read_permissions(raw, path, where, layer.problems)
        elif path in SETTINGS:
            layer.read_setting(SETTINGS[path], f"{path} {where}", raw, native=True)
        elif path in several:
            _read_several(layer, several[path], raw, where)
        elif path in SECTIONS and isinstance(raw, dict):
            _read_table(layer, path, raw, where)
        elif path in SECTIONS:
            layer.problems.append(f"{path} {where}: is a table; write [{path}]")
        else:
            layer.problems.append(f"{path} {where}: {_unknown(section, key)}")


def _unknown(section: str, key: str) -> str:
    if fixed := fixed_words(f"{section}.{key}"):
        return fixed
    words = {setting.name: setting.path for setting in reversed(SETTINGS.values())}
    words |= {
        setting.name: setting.path for setting in SETTINGS.values() if setting.section == section
    }
    words |= {name: name for name in SECTIONS if name}
    words |= {one.key: f"[[{one.key}]]" for one in TABLES.values()}
    words |= ALIASES
    lowered = key.lower().replace("-", "_")
    close = lowered if lowered in words else closest(lowered, list(words))
    if not close:
        return "there is no such setting; `seriatim config` shows what there is"
    path = words[close]
    other = SETTINGS[path].section if path in SETTINGS else section
    if other == section:
        return f"there is no such setting; did you mean {path}?"
    place = f"below [{other}]" if other else "at the top, above every table"
    return f"there is no such setting; did you mean {path}? It belongs {place}"


def _read_several(layer: SettingsLayer, table: SettingsTable, raw: object, where: str) -> None:
    problems = len(layer.problems)
    entries = read_tables(table, raw, where, layer.problems)
    layer.written[table.path] = f"{table.key} {where}"
    if len(layer.problems) == problems:
        layer.values[table.path] = entries
