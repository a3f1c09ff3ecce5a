"""The settings of who may connect, and what each user may do. The names are nats-server's.

Users are tables below `[authorization]`, or in a file of their own; flags and variables give a
single user or a token. broker/settings/user_tables.py reads the tables.
"""

import dataclasses
from typing import Any

from seriatim.settings.frozen_fields import FrozenFields
from seriatim.settings.setting import setting

RESPONSES = 1  # with `allow_responses = true`, as in nats-server
RESPONSE_EXPIRES = 120.0  # seconds


class PermissionSettings(FrozenFields):
    """The permissions to publish and subscribe. `None`: everything that is not denied.

    An entry for subscribing may be `SUBJECT QUEUE`, for members of that queue group.
    """

    publish_allow: tuple[str, ...] | None = None
    publish_deny: tuple[str, ...] = ()
    subscribe_allow: tuple[str, ...] | None = None
    subscribe_deny: tuple[str, ...] = ()
    responses: int = 0  # how many to each request that it receives; -1: any number
    response_expires: float = RESPONSE_EXPIRES  # seconds; 0: never


class UserSettings(FrozenFields):
    """One user: with a password, a key, or the name in a certificate."""

    user: str = setting("", "text", "The name that the client gives.")
    password: str = setting(
        "",
        "secret",
        "Its password, best as the bcrypt hash that `seriatim user add` makes.",
    )
    nkey: str = setting(
        "",
        "text",
        "Instead of name and password: the public key, which begins with U. The client proves that"
        " it has the private one.",
    )
    applications: tuple[str, ...] = setting(
        (),
        "list",
        "The applications of exactly-once publishing that belong to this user, wildcards too."
        " Others cannot use their names. Names that belong to no user are open to all who may"
        " stage.",
    )
    publish_rate: int = setting(
        0,
        "count",
        "How many messages a second it may publish, over all its connections.",
        bounds=(0, 1_000_000_000),
        zero="0: `limits.publish_rate`",
    )
    publish_bytes: int = setting(
        0,
        "size",
        "How many bytes a second it may publish, over all its connections.",
        bounds=(0, 1 << 40),
        zero="0: `limits.publish_bytes`",
    )
    permissions: PermissionSettings | None = dataclasses.field(default=None)


class AuthorizationSettings(FrozenFields):
    """The authentication of clients. Without users or a token, every client may do everything."""

    user: str = setting(
        "",
        "text",
        "The name of the only user. Several users are tables, or in `authorization.users_file`.",
        flags=("--user",),
        zero="empty: none",
        reload=True,
        common=True,
    )
    password: str = setting(
        "",
        "secret",
        "Its password, plain or as a bcrypt hash (`seriatim user passwd` makes one). Other"
        " processes can see a flag: prefer a file, or a variable.",
        flags=("--pass",),
        zero="empty: none",
        reload=True,
        common=True,
    )
    token: str = setting(
        "",
        "secret",
        "A secret that clients give instead of a user and a password, plain or as a bcrypt hash.",
        flags=("--auth",),
        zero="empty: none",
        reload=True,
        common=True,
    )
    users_file: str = setting(
        "",
        "text",
        "A file with more users, which `seriatim user` writes. It is read again at SIGHUP.",
        flags=("--users_file",),
        zero="empty: none",
        reload=True,
        common=True,
    )
    no_auth_user: str = setting(
        "",
        "text",
        "The user that clients without credentials are.",
        flags=("--no_auth_user",),
        zero="empty: they are refused, if there are users",
        reload=True,
        common=True,
    )
    timeout: float = setting(
        2.0,
        "duration",
        "How long a client may take to authenticate before it is closed. NATS' default.",
        flags=("--auth_timeout",),
        bounds=(0.01, 300.0),
        reload=True,
    )
    max_attempts: int = setting(
        10,
        "count",
        "How many wrong secrets may be tried for a user from one address a minute; ten times as"
        " many for all users. Further ones wait before they are checked, up to a second each, one"
        " after the other: a guesser makes one guess a second. Those for which there is no time"
        " get `Too Many Login Attempts, Try Again Later`; monitoring says 429. The same wrong"
        " secret again does not count. Keys, certificates and secrets that were right from there"
        " before do not wait.",
        flags=("--auth_attempts",),
        bounds=(0, 1_000_000),
        zero="0: no client waits",
        reload=True,
    )
    allow_open_reload: bool = setting(
        False,
        "flag",
        "Let a reload (SIGHUP) remove all authentication: of clients, or of monitoring. Otherwise"
        " such a reload is refused, because an empty or truncated file would do the same.",
        flags=("--allow_open_reload",),
        reload=True,
    )
    users: tuple[UserSettings, ...] = dataclasses.field(default=())
    default_permissions: PermissionSettings | None = dataclasses.field(default=None)

    @property
    def is_required(self) -> bool:
        """True if clients must authenticate, or become the user of those that do not."""
        return bool(self.user or self.token or self.users)


def authorization_from_json(raw: dict[str, Any]) -> AuthorizationSettings:
    """Restore the settings from what `dataclasses.asdict` has made of them."""

    def permissions(table: object) -> PermissionSettings | None:
        if not isinstance(table, dict):
            return None
        lists = {key: tuple(one) for key, one in table.items() if isinstance(one, list)}
        return PermissionSettings(**(table | lists))

    made = [
        UserSettings(
            **one
            | {
                "applications": tuple(one["applications"]),
                "permissions": permissions(one["permissions"]),
            }
        )
        for one in raw["users"]
    ]
    defaults = permissions(raw["default_permissions"])
    return AuthorizationSettings(**raw | {"users": tuple(made), "default_permissions": defaults})
