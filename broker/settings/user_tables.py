"""Users: reads their TOML tables, of the configuration or of the users' file.

    [[authorization.users]]                     in the users' file: [[users]]
    user = "alice"
    password = "$2b$11$..."
    permissions = { publish = "orders.>", subscribe = { allow = ["orders.>"], deny = ["*.a"] } }

    [authorization.default_permissions]         of users without any
    publish = []

Every problem is noted, with its place, and none of them shows a secret.
"""

from collections.abc import Mapping
from typing import Any, Final

from broker.settings.authorization_settings import PermissionSettings, UserSettings
from broker.settings.catalog import USER_SETTINGS
from broker.settings.permission_tables import Problems, named, read_permissions, shown_key
from seriatim.settings.checked import WrongValue, closest
from seriatim.settings.regular_file import read_regular

FILE_BYTES_MAX: Final = 64 << 20  # a million users
# Other words of nats-server for a setting.
USER_WORDS: Final = {
    "pass": "password",
    "username": "user",
    "permission": "permissions",
    "authorization": "permissions",
}


def read_users(raw: object, place: str, where: str, problems: Problems) -> tuple[UserSettings, ...]:
    """Read the users of a list of tables; `place` is its name, `where` says in which file."""
    if not isinstance(raw, list) or not all(isinstance(one, dict) for one in raw):
        problems.append(f"{place} {where}: is a list of tables; write [[{place}]]")
        return ()
    return tuple(_user(one, f"{place}[{at}]", where, problems) for at, one in enumerate(raw, 1))


def _user(table: Mapping[str, Any], place: str, where: str, problems: Problems) -> UserSettings:
    values: dict[str, Any] = {}
    for key, name, raw in named(table, USER_WORDS, place, where, problems):
        if name == "permissions":
            values[name] = read_permissions(raw, f"{place}.{key}", where, problems)
        elif name not in USER_SETTINGS:
            hint = closest(name, [*USER_SETTINGS, "permissions"])
            more = f"did you mean {hint}?" if hint else f"a user has {', '.join(USER_SETTINGS)}"
            problems.append(f"{place}.{shown_key(key)} {where}: there is no such setting; {more}")
        else:
            try:
                values[name] = USER_SETTINGS[name].read_native(raw)
            except WrongValue as wrong:
                problems.append(f"{place}.{key} {where}: {wrong}")
    return UserSettings(**values)


def read_users_file(
    path: str, problems: Problems
) -> tuple[tuple[UserSettings, ...], PermissionSettings | None]:
    """Read the users of a file, and the permissions of those without any."""
    try:
        content = content_of(path)
    except WrongValue as wrong:
        problems.append(f"{path}: {wrong}")
        return (), None
    return users_of(tables_of(content, path, problems), path, problems)


def content_of(path: str) -> bytes:
    """Read the content of a file of users. Raises `WrongValue`."""
    try:
        content = read_regular(path, FILE_BYTES_MAX)
    except FileNotFoundError as error:
        raise WrongValue(
            f"cannot be read: {error.strerror}; `seriatim user add` makes it"
        ) from None
    except OSError as error:
        raise WrongValue(f"cannot be read: {error.strerror}") from None
    if content is None:
        raise WrongValue("is not a regular file; give a file of TOML")
    if len(content) > FILE_BYTES_MAX:
        raise WrongValue("is longer than 64 MiB, so it is not a file of users")
    return content


def tables_of(content: bytes, path: str, problems: Problems) -> dict[str, Any]:
    """Parse the tables in the content of a file of users."""
    import tomllib

    try:
        return tomllib.loads(content.decode("utf-8-sig"))  # editors write a BOM
    except (ValueError, RecursionError) as error:
        problems.append(f"{path}: is not TOML: {_without_values(error)}")
        return {}


def users_of(
    tables: Mapping[str, Any], path: str, problems: Problems
) -> tuple[tuple[UserSettings, ...], PermissionSettings | None]:
    """Read the users as `read_users_file` does, from the tables in a file."""
    where, defaults = f"in {path}", None
    for key in sorted(set(tables) - {"users", "default_permissions"}):
        problems.append(
            f"{shown_key(key)} {where}: a file of users has [[users]] and [default_permissions]"
        )
    if "default_permissions" in tables:
        defaults = read_permissions(
            tables["default_permissions"], "default_permissions", where, problems
        )
    return read_users(tables.get("users", []), "users", where, problems), defaults


def _without_values(error: Exception) -> str:
    """Explain what is wrong in a file, without quoting it: it could contain a secret."""
    if isinstance(error, UnicodeDecodeError):
        return "it is not text"
    if isinstance(error, RecursionError):
        return "its values are nested too deeply"
    place = str(error).rpartition("(")[2].removesuffix(")")
    return f"there is a mistake {place}" if place.startswith("at ") else "a value is too large"
