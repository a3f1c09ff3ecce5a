"""The users of the settings, for look-ups by name, by key, or by token.

Users with equal permissions share a guard, which remembers the subjects that they may publish to.
After a reload, equal permissions keep their guard.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import cached_property

from broker.auth.passwords import decoy_of, digest
from broker.dataplane.guard import Guard, SubjectRights
from broker.dataplane.user import User
from broker.settings.authorization_checks import is_hash
from broker.settings.authorization_settings import (
    AuthorizationSettings,
    PermissionSettings,
    UserSettings,
)
from broker.settings.public_key import public_key_of
from broker.wires.distinguished_name import Name, Part, read_name

SECOND_NS = 1_000_000_000


class Users:
    """The users of one load of the settings. Immutable: a reload makes another one."""

    def __init__(self, settings: AuthorizationSettings, before: "Users | None" = None) -> None:
        self._guards: dict[PermissionSettings, Guard] = {}
        self._guards_before = {} if before is None else before._guards
        self._default = settings.default_permissions
        self.passwords: dict[str, str] = {}  # by name, plain or hashed
        self.keys: dict[str, bytes] = {}  # by the text of the key
        self._users: dict[str, User] = {}  # by name, or key
        self.token = settings.token
        self.tokens_user = User("", digest(settings.token), self._guard(None))
        users = list(settings.users)
        if settings.user:
            users.append(UserSettings(user=settings.user, password=settings.password))
        for one in users:
            self._add(one)
        # The user of clients without credentials.
        nobody = self._users.get(settings.no_auth_user)
        self.nobody = None if nobody is None else replace(nobody, proof=b"")
        secrets = [*self.passwords.values(), self.token]
        # Guesses that need no hash are compared with this one, so they take as long as others.
        self.decoy = decoy_of(secret for secret in secrets if is_hash(secret))
        self._guards_before = {}

    def find(self, name: str) -> User | None:
        """Return the user with this name or public key."""
        return self._users.get(name)

    def of_certificate(self, names: Iterable[Name]) -> User | None:
        """Return the user of the first of these names that a user has.

        A distinguished name matches part by part: in its own order, or else in any order.
        """
        for name in names:
            if isinstance(name, str):
                found = self.find(name)
            else:
                in_order, in_any_order = self._distinguished
                found = in_order.get(name.rdns) or in_any_order.get(name.parts)
            if found is not None:
                return found
        return None

    @cached_property
    def _distinguished(self) -> tuple[dict[tuple[Part, ...], User], dict[tuple[Part, ...], User]]:
        """The users with distinguished names, by the parts of the name: in order, and in any."""
        in_order: dict[tuple[Part, ...], User] = {}
        in_any_order: dict[tuple[Part, ...], User] = {}
        for user in self._users.values():
            with suppress(ValueError):
                if "=" in user.name:
                    name = read_name(user.name)
                    in_order.setdefault(name.rdns, user)
                    in_any_order.setdefault(name.parts, user)
        return in_order, in_any_order

    def named(self, name: str) -> User | None:
        """Return the user of this name; for an empty name, the user of the token."""
        return self.find(name) if name else self.tokens_user

    def still(self, before: User | None) -> User | None:
        """Return the current user of a client whose user was `before`, or None if it is gone.

        A changed password or key counts as gone. Without a proof, it is the `no_auth_user`.
        """
        if before is None or not before.proof:
            return self.nobody
        user = self._users.get(before.name) if before.name else self.tokens_user
        return user if user is not None and user.proof == before.proof else None

    @property
    def applications(self) -> list[bytes]:
        """The patterns of all applications that belong to users."""
        return [pattern for user in self._users.values() for pattern in user.applications]

    def _add(self, one: UserSettings) -> None:
        name = one.nkey or one.user
        if one.nkey:
            self.keys[name] = public_key_of(name)
        else:
            self.passwords[name] = one.password
        self._users[name] = User(
            name,
            digest(one.password or one.nkey),
            self._guard(one.permissions),
            tuple(pattern.encode() for pattern in one.applications),
            one.publish_rate,
            one.publish_bytes,
        )

    def _guard(self, permissions: PermissionSettings | None) -> Guard | None:
        permissions = permissions or self._default
        if permissions is None or permissions == PermissionSettings():
            return None
        guard = self._guards.get(permissions)
        if guard is None:
            guard = self._guards_before.get(permissions) or _guard_of(permissions)
            self._guards[permissions] = guard
        return guard


def _guard_of(permissions: PermissionSettings) -> Guard:
    def rights(allow: tuple[str, ...] | None, deny: tuple[str, ...]) -> SubjectRights:
        return SubjectRights(None if allow is None else _encoded(allow), _encoded(deny))

    return Guard(
        rights(permissions.publish_allow, permissions.publish_deny),
        rights(permissions.subscribe_allow, permissions.subscribe_deny),
        permissions.responses,
        int(permissions.response_expires * SECOND_NS),
    )


def _encoded(entries: tuple[str, ...]) -> list[bytes]:
    return [entry.encode() for entry in entries]
