"""The files of contexts: named connections, shared with the command line of NATS.

    $XDG_CONFIG_HOME/nats/context/NAME.json       one context, an object of JSON
    $XDG_CONFIG_HOME/nats/context.txt             the name of the selected one
    $XDG_CONFIG_HOME/nats/previous-context.txt    the one before, for `nats context previous`

`nats` reads what is written here. Fields that mean nothing here stay in the file.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from seriatim.cli.errors import CliError, UsageError
from seriatim.settings.checked import WrongValue, closest, quoted
from seriatim.settings.regular_file import read_regular
from seriatim.settings.secret_texts import secret_of

VARIABLE: Final = "NATS_CONTEXT"
FILE_MAX: Final = 1 << 20
# The options of a command that connects, and the fields for them.
FIELDS: Final = {
    "description": "description",
    "url": "url",
    "user": "user",
    "password": "password",
    "token": "token",
    "nkey": "nkey",
    "creds": "creds",
    "tlscacert": "ca",
    "tlscert": "cert",
    "tlskey": "key",
    "tls_first": "tls_first",
    "inbox_prefix": "inbox_prefix",
}
PATHS: Final = ("nkey", "creds", "ca", "cert", "key")
SECRETS: Final = ("password", "token", "user_jwt", "user_seed")
LOGINS: Final = ("user", "password", "token", "nkey", "creds", "nsc", "user_jwt", "user_seed")

_SCHEME: Final = re.compile(r"(env|file|op|nsc|data):")  # with which `nats` looks a value up
_VARIABLE: Final = re.compile(r"\$(?:(\w+)|\{([^}]*)\})")
# What `nats` accepts: no path, no hidden file, and nothing that is special in a subject.
_NAME: Final = re.compile(r"[^\s./\\*>\x00-\x1f\x7f]+")


@dataclass(frozen=True, slots=True)
class NatsContext:
    """One context, as its file has it."""

    name: str
    path: Path
    fields: Mapping[str, Any]

    def options(self, with_login: bool) -> dict[str, Any]:
        """Return what it says, by the names of options that commands take.

        Without its credentials unless `with_login`. Raises `CliError` for what it needs and
        Seriatim does not have.
        """
        if self._text("socks_proxy"):
            raise self._unsupported("socks_proxy")
        if not self._text("url") and self._text("nsc"):
            raise self._unsupported("nsc")
        found: dict[str, Any] = {"url": self._text("url"), "tlscacert": self._file("ca")}
        if self._text("cert") and self._text("key"):  # `nats` ignores one without the other
            found |= {"tlscert": self._file("cert"), "tlskey": self._file("key")}
        found["tls_first"] = self.fields.get("tls_first") is True
        found["inbox_prefix"] = self._text("inbox_prefix")
        if with_login:
            found |= self._login()
        return {name: value for name, value in found.items() if value}

    def _login(self) -> dict[str, str]:
        """Return the credentials: those of the first kind, in the order of `nats`."""
        if self._text("user"):
            return {"user": self._text("user"), "password": self._secret("password")}
        for name in ("creds", "nsc", "nkey", "user_jwt"):
            if self._text(name):
                if name in ("nsc", "user_jwt"):
                    raise self._unsupported(name)
                return {name: self._file(name)}
        return {"token": self._secret("token")}

    def _text(self, field: str) -> str:
        value = self.fields.get(field) or ""
        if not isinstance(value, str):
            raise CliError(f"{self.path}: {field} is not a string")
        return value

    def _file(self, field: str) -> str:
        """Return the path in a field, with ~ and variables replaced as `nats` does it."""
        text = self._text(field)
        scheme = _SCHEME.match(text)
        if scheme and scheme[1] != "file":
            raise self._unsupported(field, scheme[0])
        expanded = _VARIABLE.sub(
            lambda found: os.environ.get(found[1] or found[2], ""), text.removeprefix("file://")
        )
        return os.path.expanduser(expanded)

    def _secret(self, field: str) -> str:
        text = self._text(field)
        scheme = _SCHEME.match(text)
        try:
            if scheme and scheme[1] == "env":
                return secret_of(f"env:{text.removeprefix('env://')}")
            if scheme and scheme[1] == "file":
                return secret_of(f"file:{self._file(field)}")
        except WrongValue as wrong:
            raise CliError(f"context {self.name}: {field}: {wrong}") from None
        if scheme:
            raise self._unsupported(field, scheme[0])
        return text

    def _unsupported(self, field: str, scheme: str = "") -> CliError:
        what = f"{field}: {scheme}//" if scheme else field
        return CliError(
            f"context {self.name} has {what}, which only `nats` can use; give the connection by"
            " options, or select another context"
        )


def folder() -> Path:
    """Return the folder of the command line of NATS."""
    home = os.environ.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "nats"


def names() -> list[str]:
    """Return the names of all contexts, in order."""
    try:
        found = [
            one.name.removesuffix(".json")
            for one in os.scandir(folder() / "context")
            if one.name.endswith(".json") and one.is_file() and one.stat().st_size
        ]
    except (OSError, RuntimeError):
        return []
    return sorted(name for name in found if _is_readable(name))


def selected() -> str:
    """Return the name of the selected context; empty if there is none."""
    try:
        return (folder() / "context.txt").read_text(errors="replace").strip()
    except (OSError, RuntimeError):  # it is not there, is another user's, or there is no home
        return ""


def in_use(name: str, *, or_selected: bool) -> NatsContext | None:
    """Return the context of this name, or else the selected one. Raises `CliError`."""
    if name:
        return load(name)
    chosen = selected() if or_selected else ""
    if not chosen:
        return None
    try:
        return load(chosen)
    except UsageError:
        raise CliError(
            f"the selected context {quoted(chosen)} does not exist; select another one:"
            " seriatim context select NAME, or --none"
        ) from None


def load(name: str) -> NatsContext:
    """Read a context. Raises `CliError`."""
    path = _path(name)
    try:
        content = read_regular(str(path), FILE_MAX) if _is_readable(name) else None
    except (FileNotFoundError, NotADirectoryError):
        content = None
    except OSError as error:
        raise CliError(f"{path}: cannot be read: {error.strerror}") from None
    if content is None:
        near = closest(name, names())
        hint = f"did you mean {near}?" if near else "`seriatim context ls` lists them"
        raise UsageError(f"there is no context {quoted(name)}; {hint}")
    try:
        fields = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise CliError(f"{path}: is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise CliError(f"{path}: is not a context: it is not an object of JSON")
    return NatsContext(name, path, fields)


def save(name: str, fields: Mapping[str, Any]) -> Path:
    """Write a context that only its owner can read; return its path."""
    path = _path(name)
    _write(path, json.dumps(fields, indent=2, ensure_ascii=False) + "\n")
    return path


def select(name: str) -> None:
    """Make this context the selected one; with an empty name, none."""
    before = selected()
    if before and before != name:
        _write(folder() / "previous-context.txt", before)
    if name:
        _write(folder() / "context.txt", name)
    else:
        (folder() / "context.txt").unlink(missing_ok=True)


def remove(name: str) -> None:
    """Delete a context; if it is the selected one, none is selected then."""
    _path(name).unlink()
    if selected() == name:
        select("")


def check_name(name: str) -> None:
    """Raise `UsageError` if `nats` would not take a context with this name."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{quoted(name)} cannot name a context; give one without spaces, dots, slashes and"
            " wildcards"
        )


def _is_readable(name: str) -> bool:
    """True if this can be the name of a file there; earlier versions of `nats` allowed dots."""
    return bool(name) and ".." not in name and "/" not in name and "\0" not in name


def _path(name: str) -> Path:
    return folder() / "context" / f"{name}.json"


def _write(path: Path, text: str) -> None:
    from sequencer.journal.disk import pwrite_all, replacing

    for made in (folder(), folder() / "context"):
        made.mkdir(mode=0o700, parents=True, exist_ok=True)
    with replacing(str(path), mode=0o600) as descriptor:
        pwrite_all(descriptor, text.encode(), 0)
