"""Users and permissions: reads their TOML tables, of the configuration or of the users' file.

    [[authorization.users]]                     in the users' file: [[users]]
    user = "alice"
    password = "$2b$11$..."
    permissions = { publish = "orders.>", subscribe = { allow = ["orders.>"], deny = ["*.a"] } }

    [authorization.default_permissions]         of users without any
    publish = []

Every problem is noted, with its place, and none of them shows a secret.
"""

import os
from collections.abc import Mapping
from typing import Any, Final

from broker.settings.authorization_settings import (
    RESPONSE_EXPIRES,
    RESPONSES,
    PermissionSettings,
    UserSettings,
)
from broker.settings.catalog import USER_SETTINGS
from seriatim.settings.amounts import read_duration
from seriatim.settings.checked import WrongValue, closest, quoted, shown_raw
from seriatim.settings.subjects import check_subject

FILE_BYTES_MAX: Final = 64 << 20  # a million users
PUBLISH, SUBSCRIBE = ("publish", "pub"), ("subscribe", "sub")
RESPONSE_WORDS = ("allow_responses", "allow_response")
RESPONSES_MAX: Final = 1_000_000_000

Problems = list[str]


def read_users(raw: object, place: str, where: str, problems: Problems) -> tuple[UserSettings, ...]:
    """The users of a list of tables; `place` is its name, `where` says in which file it is."""
    if not isinstance(raw, list) or not all(isinstance(one, dict) for one in raw):
        problems.append(f"{place} {where}: is a list of tables; write [[{place}]]")
        return ()
    return tuple(_user(one, f"{place}[{at}]", where, problems) for at, one in enumerate(raw, 1))


def _user(table: Mapping[str, Any], place: str, where: str, problems: Problems) -> UserSettings:
    values: dict[str, Any] = {}
    for key, raw in table.items():
        name = {"pass": "password", "username": "user"}.get(key, key)
        if name in ("permissions", "permission", "authorization"):
            values["permissions"] = read_permissions(raw, f"{place}.{key}", where, problems)
        elif name not in USER_SETTINGS:
            hint = closest(name, [*USER_SETTINGS, "permissions"])
            more = f"did you mean {hint}?" if hint else "a user has " + ", ".join(USER_SETTINGS)
            problems.append(f"{place}.{key} {where}: there is no such setting; {more}")
        else:
            try:
                values[name] = USER_SETTINGS[name].read_native(raw)
            except WrongValue as wrong:
                problems.append(f"{place}.{key} {where}: {wrong}")
    return UserSettings(**values)


def read_permissions(raw: object, place: str, where: str, problems: Problems) -> PermissionSettings:
    """The permissions of a table, as nats-server understands it."""
    values: dict[str, Any] = {}
    if not isinstance(raw, dict):
        problems.append(f"{place} {where}: is a table with publish, subscribe and allow_responses")
        raw = {}
    for key, given in raw.items():
        try:
            if key in PUBLISH:
                values |= _subjects("publish", given, queues=False)
            elif key in SUBSCRIBE:
                values |= _subjects("subscribe", given, queues=True)
            elif key in RESPONSE_WORDS:
                values |= _responses(given)
            else:
                raise WrongValue(
                    "there is no such setting; permissions have publish, subscribe and"
                    " allow_responses"
                )
        except WrongValue as wrong:
            problems.append(f"{place}.{key} {where}: {wrong}")
    if values.get("responses") and values.get("publish_allow") is None:
        values["publish_allow"] = ()  # as in nats-server: then only responses are allowed
    return PermissionSettings(**values)


def _subjects(verb: str, given: object, queues: bool) -> dict[str, Any]:
    """`allow` and `deny` of a table, or those allowed, as a list or one subject."""
    if not isinstance(given, dict):
        return {f"{verb}_allow": _entries(given, queues)}
    values = {}
    for key, entries in given.items():
        if key not in ("allow", "deny"):
            raise WrongValue(f"{quoted(key)} is neither allow nor deny")
        values[f"{verb}_{key}"] = _entries(entries, queues)
    return values


def _entries(given: object, queues: bool) -> tuple[str, ...]:
    entries: list[Any] = given if isinstance(given, list) else [given]
    for entry in entries:
        if not isinstance(entry, str):
            raise WrongValue(f"{shown_raw(entry)} is not a string; give a subject in quotes")
        subject, _, queue = entry.partition(" ")
        if queue and not queues:
            raise WrongValue(f"{quoted(entry)} has a blank; queue groups go with subscribe")
        check_subject(subject)
        if queue or entry.endswith(" "):
            check_subject(queue.strip())
    return tuple(" ".join(entry.split()) for entry in entries)


def _responses(given: object) -> dict[str, Any]:
    if isinstance(given, bool):
        return {"responses": RESPONSES if given else 0}
    if not isinstance(given, dict):
        raise WrongValue('give true, false, or a table such as { max = 5, expires = "1m" }')
    most, expires = given.get("max", RESPONSES), given.get("expires", RESPONSE_EXPIRES)
    unknown = sorted(set(given) - {"max", "expires"})
    if unknown:
        raise WrongValue(f"{quoted(unknown[0])} is neither max nor expires")
    if type(most) is not int or not -1 <= most <= RESPONSES_MAX:
        raise WrongValue(f"max is {shown_raw(most)}; give a whole number, -1 for no limit")
    if isinstance(expires, bool) or not isinstance(expires, str | int | float):
        raise WrongValue(f"expires is {shown_raw(expires)}; give a duration such as 2m")
    seconds = read_duration(expires) if isinstance(expires, str) else float(expires)
    if seconds < 0:
        raise WrongValue("expires is below 0; give a duration, 0 for no limit")
    return {"responses": most or RESPONSES, "response_expires": seconds}


def read_users_file(
    path: str, problems: Problems
) -> tuple[tuple[UserSettings, ...], PermissionSettings | None]:
    """The users of a file, and the permissions of those without any."""
    import tomllib  # only if there is such a file

    where = f"in {path}"
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
        if len(content) > FILE_BYTES_MAX:
            problems.append(f"{path}: is longer than 64 MiB, so it is not a file of users")
            return (), None
        raw = tomllib.loads(content.decode("utf-8-sig"))
    except OSError as error:
        problems.append(f"{path}: cannot be read: {error.strerror}; `seriatim user add` makes it")
        return (), None
    except (ValueError, RecursionError) as error:
        problems.append(f"{path}: is not TOML: {_without_values(error)}")
        return (), None
    defaults = None
    for key in sorted(set(raw) - {"users", "default_permissions"}):
        problems.append(f"{key} {where}: a file of users has [[users]] and [default_permissions]")
    if "default_permissions" in raw:
        defaults = read_permissions(
            raw["default_permissions"], "default_permissions", where, problems
        )
    return read_users(raw.get("users", []), "users", where, problems), defaults


def _without_values(error: Exception) -> str:
    """What is wrong in a file, without a piece of it: that could be a secret."""
    place = str(error).rpartition("(")[2].removesuffix(")")
    return f"see {place}" if place.startswith("at ") else "it is not text"
