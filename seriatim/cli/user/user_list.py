"""`seriatim user list`: who the users are, how each proves it, and what each may do; no secret."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from broker.settings.authorization_checks import is_hash
from broker.settings.authorization_settings import PermissionSettings, UserSettings
from broker.settings.user_tables import users_of
from seriatim.cli.errors import CliError
from seriatim.cli.printable import print_table, printable
from seriatim.cli.user.users_change import layout_of
from seriatim.cli.user.users_layout import ELSEWHERE
from seriatim.cli.user.users_place import UsersPlace
from seriatim.settings.amounts import show_duration, show_size

PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class ListedUser:
    """One user, and the place where it is defined."""

    name: str  # or its public key
    label: str  # the comment after the key
    proof: str
    place: str
    settings: UserSettings
    permissions: PermissionSettings
    are_default: bool  # the permissions are the default ones


def listed_users(place: UsersPlace) -> list[ListedUser]:
    """All users: of the file, then of the settings. Raises `CliError`."""
    problems: list[str] = []
    users: Sequence[UserSettings] = ()
    labels: list[str] = []
    given: list[Any] = []
    defaults = place.default_permissions
    if place.path:
        layout = layout_of(place)
        users, own = users_of(layout.tables_here, place.path, problems)
        defaults = own or defaults
        labels = layout.labels
        given = [user.get("password", user.get("pass", "")) for user in layout.users]
    if problems:
        raise CliError(f"{place.path} cannot be used:" + "".join(f"\n  {one}" for one in problems))
    here = [
        _listed(one, place.path, _proof(one, text), label, defaults)
        for one, text, label in zip(users, given, labels, strict=True)
    ]
    beside = place.config or "the settings"
    return here + [_listed(one, beside, _proof(one), "", defaults) for one in place.users]


def _listed(
    one: UserSettings, place: str, proof: str, label: str, defaults: PermissionSettings | None
) -> ListedUser:
    permissions = one.permissions or defaults or PermissionSettings()
    are_default = one.permissions is None and defaults is not None
    return ListedUser(one.nkey or one.user, label, proof, place, one, permissions, are_default)


def _proof(one: UserSettings, text: str = "") -> str:
    """How a user authenticates; `text` is its password's entry in the file."""
    if one.nkey:
        return "nkey"
    if text.startswith(ELSEWHERE):
        return text.partition(":")[0]
    if not one.password:
        return "certificate"
    return "bcrypt" if is_hash(one.password) else PLAIN


def warnings(users: Sequence[ListedUser]) -> list[str]:
    """Warn about users with plain passwords, in one line; empty if there are none."""
    plain = [printable(one.name) for one in users if one.proof == PLAIN]
    if not plain:
        return []
    return [
        f"anyone who can read the file knows the password of {', '.join(plain)};"
        " `seriatim user passwd NAME` stores a hash instead"
    ]


def as_json(users: Sequence[ListedUser]) -> str:
    """A list of objects; numbers are messages, bytes and seconds."""
    return json.dumps([_object(one) for one in users], indent=2)


def _object(one: ListedUser) -> dict[str, Any]:
    settings, rights = one.settings, one.permissions
    return {
        "name": one.name,
        "label": one.label,
        "proof": one.proof,
        "publish": {"allow": rights.publish_allow, "deny": rights.publish_deny},
        "subscribe": {"allow": rights.subscribe_allow, "deny": rights.subscribe_deny},
        "default_permissions": one.are_default,
        "responses": rights.responses,
        "response_expires": rights.response_expires,
        "applications": settings.applications,
        "publish_rate": settings.publish_rate,
        "publish_bytes": settings.publish_bytes,
        "file": one.place,
    }


def print_users(users: Sequence[ListedUser]) -> None:
    """Print the users for a terminal."""
    titles = ("user", "proof", "publish", "subscribe", "responses", "applications", "rate", "file")
    print_table(titles, [list(_cells(one)) for one in users])


def _cells(one: ListedUser) -> Iterator[str]:
    settings, rights = one.settings, one.permissions
    default = " (default)" if one.are_default else ""
    yield f"{one.name} ({one.label})" if one.label else one.name
    yield one.proof
    yield subjects(rights.publish_allow, rights.publish_deny) + default
    yield subjects(rights.subscribe_allow, rights.subscribe_deny) + default
    yield responses(rights)
    yield ", ".join(settings.applications) or "-"
    rates = [f"{settings.publish_rate:,}/s"] if settings.publish_rate else []
    rates += [f"{show_size(settings.publish_bytes)}/s"] if settings.publish_bytes else []
    yield ", ".join(rates) or "-"
    yield one.place


def subjects(allow: tuple[str, ...] | None, deny: tuple[str, ...]) -> str:
    """Describe the subjects that may be published or subscribed to."""
    said = "everything" if allow is None else ", ".join(allow) or "nothing"
    return f"{said} except {', '.join(deny)}" if deny else said


def responses(rights: PermissionSettings) -> str:
    """Describe how many responses to a request are allowed, and how long."""
    if not rights.responses:
        return "-"
    many = "any number" if rights.responses < 0 else f"{rights.responses}"
    within = f" in {show_duration(rights.response_expires)}" if rights.response_expires else ""
    return many + within
