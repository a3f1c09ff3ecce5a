"""A translation of nats-server's settings: values of ours, users, lines without an equivalent.

Two rules decide what is done with a line that has no exact equivalent:

1. It is named, with its file and line, and with what to do instead.
2. Nothing that protects a broker is dropped silently: rather the new broker refuses to start. So a
   user whose rights cannot be translated is left out, and a broker never becomes open to everybody.

No text here shows a value that may be secret.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from broker.settings.authorization_settings import PermissionSettings
from broker.settings.catalog import SETTINGS, BrokerSetting
from seriatim.cli.from_nats.nats_syntax import NatsValue
from seriatim.settings.checked import WrongValue, closest, quoted
from seriatim.settings.secret_texts import FROM_ENVIRONMENT, FROM_FILE, HIDDEN

# Durations as Go writes them; nats-server takes a bare number as seconds.
_GO_DURATION: Final = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h)){1,8}|0")
_GO_PART: Final = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
NANOSECONDS: Final = {
    **{"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3},
    **{"ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9},
}
DURATION_LENGTH_MAX: Final = 100
# Durations without quotes that are minutes to everybody else.
MINUTES: Final = range(10**6, 10**10, 10**6)
# What nats-server understands as its default, which is also ours.
ZERO_IS_DEFAULT: Final = frozenset(
    (
        *("port", "limits.max_payload", "limits.max_control_line", "limits.max_pending"),
        *("limits.max_connections", "limits.ping_interval", "limits.ping_max"),
        *("limits.write_deadline", "tls.timeout", "authorization.timeout"),
    )
)
# A negative number is no limit in nats-server: what comes closest.
NEGATIVE: Final = {
    "limits.max_subscriptions": 0,
    "limits.max_subscriptions_total": 0,
    "limits.max_connections": 1_000_000,
}
# Kinds whose value in nats-server is text.
TEXT_KINDS: Final = ("text", "host", "advertised", "choice")


@dataclass(frozen=True, slots=True)
class Given:
    """The value of a setting, as TOML has it, and the place that it comes from."""

    value: Any
    place: str


@dataclass(frozen=True, slots=True, order=True)
class Remark:
    """A line, and the text about it."""

    file: str
    line: int
    text: str


@dataclass(slots=True)
class TranslatedUser:
    """A user; its permissions are `None` if it has none of its own."""

    user: str
    password: str
    nkey: str
    permissions: PermissionSettings | None
    place: str


Rule = Callable[["Translation", NatsValue], None]


@dataclass(frozen=True, slots=True)
class KnownKeys:
    """The keys of one kind of block, and what becomes of each."""

    name: str  # with a dot at its end; empty for the file itself
    same: Mapping[str, str] = field(default_factory=dict)  # the path of a setting of ours
    special: Mapping[str, Rule] = field(default_factory=dict)
    needless: Mapping[str, str] = field(default_factory=dict)  # why nothing need be set
    missing: Mapping[str, str] = field(default_factory=dict)  # what to do instead


@dataclass(slots=True)
class Translation:
    """Everything found so far."""

    values: dict[str, Given] = field(default_factory=dict)
    users: dict[str, TranslatedUser] = field(default_factory=dict)  # by name, or key
    defaults: tuple[PermissionSettings, str] | None = None  # and the place
    left_out: list[Remark] = field(default_factory=list)  # for people: must be looked at
    needless: list[Remark] = field(default_factory=list)  # need not
    system_account: str = "$SYS"
    needs_users: bool = False  # nats-server would not let in everybody

    def walk(self, table: Mapping[str, NatsValue], block: KnownKeys) -> None:
        """Translate each key of a block."""
        for key, value in table.items():
            word = key.lower()
            name = f"{block.name}{key}"
            if word in block.same:
                self.take(block.same[word], value, name)
            elif word in block.special:
                block.special[word](self, value)
            elif word in block.needless:
                self.need_not(value, name, block.needless[word])
            elif word in block.missing:
                self.leave(value, name, block.missing[word])
            elif not value.is_used:
                words = [*block.same, *block.special, *block.needless, *block.missing]
                close = closest(word, words)
                hint = f"; did you mean {close}?" if close else ""
                self.leave(value, name, f"nats-server has no such setting either{hint}")

    def leave(self, value: NatsValue, name: str, why: str) -> None:
        """Note a line that has no equivalent, or another one than it seems."""
        self.left_out.append(_remark(value, name, why))

    def need_not(self, value: NatsValue, name: str, why: str) -> None:
        """Note a line without an effect that is missed."""
        self.needless.append(_remark(value, name, why))

    def take(self, path: str, value: NatsValue, name: str) -> None:
        """Set one of our settings to what a value means."""
        setting = SETTINGS[path]
        if setting.kind == "secret":
            if secret := self.secret(value, name):
                self.values[path] = Given(secret, value.place)
            return
        try:
            found = native(setting, value.raw)
        except WrongValue as wrong:
            self.leave(value, name, str(wrong))
            return
        if setting.kind == "duration" and isinstance(value.raw, int) and value.raw in MINUTES:
            self.leave(
                value,
                name,
                f"is {value.raw} seconds in nats-server, because m is a million without quotes; put"
                " the duration into quotes",
            )
        elif found == 0 and path in ZERO_IS_DEFAULT:
            self.need_not(value, name, "0 is the default, here too")
        elif isinstance(found, int | float) and found < 0 and path in NEGATIVE:
            self.values[path] = Given(NEGATIVE[path], value.place)
            if NEGATIVE[path]:
                self.leave(value, name, f"there is always a limit; it is now {NEGATIVE[path]}")
        else:
            self._take_checked(setting, found, value, name)

    def _take_checked(
        self, setting: BrokerSetting, found: Any, value: NatsValue, name: str
    ) -> None:
        try:
            setting.check(found)
        except WrongValue as wrong:
            nearest = self._nearest(setting, found)
            if nearest is None:
                self.leave(value, name, str(wrong))
                return
            self.leave(value, name, f"{wrong}; it is set to {setting.show(nearest)}")
            found = nearest
        self.values[setting.path] = Given(found, value.place)

    @staticmethod
    def _nearest(setting: BrokerSetting, found: Any) -> float | None:
        """The closest bound to a number that is too small or too large."""
        is_number = isinstance(found, int | float) and not isinstance(found, bool)
        if not is_number or setting.low is None or setting.high is None or found < 0:
            return None
        if setting.kind == "port" or setting.low <= found <= setting.high:
            return None
        edge = setting.high if found > setting.high else setting.low
        return edge if setting.kind == "duration" else int(edge)

    def secret(self, value: NatsValue, name: str) -> str:
        """Return a secret as it is written here; empty if it cannot be."""
        if value.variable and value.variable.isprintable():
            return f"{FROM_ENVIRONMENT}{value.variable}"
        raw = value.raw
        if not isinstance(raw, str):
            self.leave(value, name, "is not text; put quotes around it")
        elif raw.startswith((FROM_ENVIRONMENT, FROM_FILE)) or raw == HIDDEN:
            self.leave(
                value, name, "begins with env: or file:, which has a meaning here; change it"
            )
        elif not raw.isprintable():
            self.leave(value, name, "has a character that cannot be printed; change it")
        else:
            return raw
        return ""

    def text(self, value: NatsValue, name: str) -> str:
        """Return a value that must be text; empty, and noted, if it is none."""
        if isinstance(value.raw, str) and value.raw.isprintable():
            return value.raw
        self.leave(value, name, "is not text that can be printed")
        return ""

    def table(self, value: NatsValue, name: str) -> dict[str, NatsValue]:
        """Return a value that must be a block; empty, and noted, if it is none."""
        if isinstance(value.raw, dict):
            return value.raw
        self.leave(value, name, "is not a block; write { }")
        return {}

    def texts(self, value: NatsValue, name: str) -> tuple[str, ...]:
        """Return the texts of a list, or the one text."""
        entries = value.raw if isinstance(value.raw, list) else [value]
        return tuple(text for one in entries if (text := self.text(one, name)))


def _remark(value: NatsValue, name: str, why: str) -> Remark:
    return Remark(value.file, value.line, f"{value.place}: {name}: {why}")


def native(setting: BrokerSetting, raw: Any) -> Any:
    """Return what nats-server takes a value for. Raises `WrongValue`."""
    if setting.kind == "flag":
        if isinstance(raw, bool):
            return raw
        raise WrongValue("is neither true nor false")
    if setting.kind in ("count", "port", "size"):
        if isinstance(raw, int) and not isinstance(raw, bool):
            return raw
        raise WrongValue("is not a whole number, and may not be in quotes")
    if setting.kind == "duration":
        return seconds(raw)
    assert setting.kind in TEXT_KINDS, f"no rule takes a {setting.kind}"
    if isinstance(raw, str):
        return raw
    raise WrongValue("is not text; put quotes around it")


def seconds(raw: Any) -> float:
    """Return a duration in seconds: text such as 1m30s, or a number of seconds."""
    if isinstance(raw, int | float) and not isinstance(raw, bool):
        return float(raw)
    if (
        not isinstance(raw, str)
        or len(raw) > DURATION_LENGTH_MAX
        or not _GO_DURATION.fullmatch(raw)
    ):
        raise WrongValue("is not a duration such as 1m30s or 500ms")
    whole = sum(Decimal(number) * NANOSECONDS[unit] for number, unit in _GO_PART.findall(raw))
    return float(whole / 10**9) * (-1 if raw.startswith("-") else 1)


def host_and_port(raw: Any) -> tuple[str, int]:
    """Split what nats-server takes to listen on: PORT, HOST:PORT, [ADDRESS]:PORT. `WrongValue`."""
    if isinstance(raw, int) and not isinstance(raw, bool):
        return "", raw
    if isinstance(raw, str):
        host, colon, port = raw.rpartition(":")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            colon = ""
        if colon and re.fullmatch(r"[+-]?[0-9]{1,9}", port):
            return host, int(port)
    shown = quoted(raw) if isinstance(raw, str) else "this"
    raise WrongValue(f"{shown} is not an address to listen on; write HOST:PORT, or PORT")
