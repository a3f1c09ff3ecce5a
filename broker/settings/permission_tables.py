"""Permissions of users: reads their TOML tables as nats-server understands them, and writes them.

publish = "orders.>"                    a subject, or a list of them: those allowed
subscribe = { allow = ["orders.>", "jobs.* workers"], deny = ["*.secret"] }
allow_responses = { max = 5, expires = "1m" }
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from broker.settings.authorization_settings import (
    RESPONSE_EXPIRES,
    RESPONSES,
    PermissionSettings,
)
from seriatim.settings.amounts import read_duration, show_duration
from seriatim.settings.checked import SHOWN_MAX, WrongValue, quoted, shown_raw
from seriatim.settings.subjects import check_subject

RESPONSES_MAX: Final = 1_000_000_000
RESPONSE_EXPIRES_MAX: Final = 31_536_000.0  # seconds: a year
RESPONSE_KEY: Final = "allow_responses"
# Other words of nats-server for a setting.
PERMISSION_WORDS: Final = {
    "pub": "publish",
    "sub": "subscribe",
    "allow_response": RESPONSE_KEY,
    "publish_allow_responses": RESPONSE_KEY,
}
RESPONSE_WORDS: Final = {
    **dict.fromkeys(("max_msgs", "max_messages", "max_responses"), "max"),
    **dict.fromkeys(("expiration", "ttl"), "expires"),
}

Problems = list[str]


def read_permissions(raw: object, place: str, where: str, problems: Problems) -> PermissionSettings:
    """Read the permissions of a table, as nats-server understands it."""
    values: dict[str, Any] = {}
    if not isinstance(raw, dict):
        problems.append(f"{place} {where}: is a table with publish, subscribe and allow_responses")
        raw = {}
    for key, name, given in named(raw, PERMISSION_WORDS, place, where, problems):
        read = _PERMISSIONS.get(name)
        try:
            if read is None:
                raise WrongValue(
                    "there is no such setting; permissions have publish, subscribe and"
                    " allow_responses"
                )
            values |= read(given)
        except WrongValue as wrong:
            problems.append(f"{place}.{shown_key(key)} {where}: {wrong}")
    if values.get("responses") and values.get("publish_allow") is None:
        values["publish_allow"] = ()  # as in nats-server: then only responses are allowed
    return PermissionSettings(**values)


def _subjects(verb: str, given: object, queues: bool) -> dict[str, Any]:
    """Read `allow` and `deny` of a table, or only the allowed: a list or one subject."""
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
            raise WrongValue(f"{quoted(entry)} has a space; queue groups go with subscribe")
        check_subject(subject)
        if queue or entry.endswith(" "):
            check_subject(queue.strip())
    return tuple(" ".join(entry.split()) for entry in entries)


def _responses(given: object) -> dict[str, Any]:
    if isinstance(given, bool):
        return {"responses": RESPONSES if given else 0}
    if not isinstance(given, dict):
        raise WrongValue('give true, false, or a table such as { max = 5, expires = "1m" }')
    problems: Problems = []
    given = {name: raw for _, name, raw in named(given, RESPONSE_WORDS, "", "", problems)}
    if problems:
        raise WrongValue("has max or expires twice, by several names; leave out one of them")
    unknown = sorted(set(given) - {"max", "expires"})
    if unknown:
        raise WrongValue(f"{quoted(unknown[0])} is neither max nor expires")
    most = given.get("max", RESPONSES)
    if type(most) is not int or not -1 <= most <= RESPONSES_MAX:
        raise WrongValue(
            f"max is {shown_raw(most)}; give a whole number up to {RESPONSES_MAX}, -1 for no limit"
        )
    expires = _expires(given.get("expires", RESPONSE_EXPIRES))
    return {"responses": most or RESPONSES, "response_expires": expires}


def _expires(given: object) -> float:
    """Read seconds, 0 for no limit. In the file 0 is the default and -1 no limit, as in NATS."""
    if isinstance(given, bool) or not isinstance(given, str | int | float):
        raise WrongValue(f"expires is {shown_raw(given)}; give a duration such as 2m")
    seconds = read_duration(given) if isinstance(given, str) else given
    if seconds == -1:
        return 0.0
    if not 0 <= seconds <= RESPONSE_EXPIRES_MAX:
        raise WrongValue(
            f"expires is {shown_raw(given)}; give a duration up to 365d, -1 for no limit"
        )
    return float(seconds) or RESPONSE_EXPIRES


_PERMISSIONS: Final[dict[str, Callable[[object], dict[str, Any]]]] = {
    "publish": lambda given: _subjects("publish", given, queues=False),
    "subscribe": lambda given: _subjects("subscribe", given, queues=True),
    RESPONSE_KEY: _responses,
}


def permission_table(permissions: PermissionSettings) -> dict[str, Any]:
    """Make the table from which `read_permissions` reads these permissions."""
    table: dict[str, Any] = {}
    for verb in ("publish", "subscribe"):
        allow = getattr(permissions, f"{verb}_allow")
        deny = getattr(permissions, f"{verb}_deny")
        if deny:
            table[verb] = {} if allow is None else {"allow": list(allow)}
            table[verb]["deny"] = list(deny)
        elif allow is not None:
            table[verb] = list(allow)
    if permissions.responses:
        expires = permissions.response_expires
        shown: dict[str, Any] = {} if expires == RESPONSE_EXPIRES else {"expires": -1}
        if shown and expires:
            shown["expires"] = show_duration(expires)
        if permissions.responses != RESPONSES:
            shown = {"max": permissions.responses, **shown}
        table[RESPONSE_KEY] = shown or True
    return table


def named(
    table: Mapping[str, Any], words: Mapping[str, str], place: str, where: str, problems: Problems
) -> list[tuple[str, str, Any]]:
    """Return each key of a table, the setting that it names, and its value; none of them twice."""
    found: dict[str, tuple[str, str, Any]] = {}
    for key, raw in table.items():
        name = words.get(key, key)
        if name in found:
            other = found[name][0]
            problems.append(f"{place}.{key} {where}: is the same as {other}; leave out one of them")
        else:
            found[name] = (key, name, raw)
    return list(found.values())


def shown_key(key: str) -> str:
    """Format an unexpected key for one line of a message."""
    return key if key.isprintable() and len(key) <= SHOWN_MAX else quoted(key)
