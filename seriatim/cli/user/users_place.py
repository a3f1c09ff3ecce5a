"""Finds the users' file, and the users and rules in the settings."""

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from broker.settings.authorization_checks import authorization_relations, users_problems
from broker.settings.authorization_settings import PermissionSettings, UserSettings
from broker.settings.resolve import CONFIG_VARIABLE, DEFAULTS, USERS, look_up
from seriatim.cli.errors import CliError

FILE = "authorization.users_file"


@dataclass(frozen=True, slots=True)
class UsersPlace:
    """The users' file, and the settings of its broker, if known."""

    path: str  # absolute, of the file itself if a link leads to it; empty: there is none
    values: dict[str, Any] = field(default_factory=dict)  # by path; empty: unknown
    config: str = ""  # the file that these come from; empty: none

    @property
    def users(self) -> tuple[UserSettings, ...]:
        """The users in the settings, not in the file, including a single `authorization.user`."""
        found: tuple[UserSettings, ...] = self.values.get(USERS, ())
        name = self.values.get("authorization.user")
        if not name:
            return found
        return (*found, UserSettings(user=name, password=self.values["authorization.password"]))

    @property
    def default_permissions(self) -> PermissionSettings | None:
        """The default permissions in the settings, not in the file."""
        return self.values.get(DEFAULTS)

    def problems(self, users: Sequence[UserSettings]) -> list[str]:
        """Return the problems of the settings if the file has these users."""
        if not self.values:
            return users_problems(users, by_certificate=True)
        together = (*self.values.get(USERS, ()), *users)
        return authorization_relations({**self.values, USERS: together}, {})

    @property
    def reload(self) -> str:
        """The command that applies the change to a running broker."""
        pid_file = self.values.get("pid_file")
        number = f"$(cat {shlex.quote(os.path.abspath(pid_file))})" if pid_file else "PID"
        return f"to apply it, run `kill -HUP {number}`, or `systemctl reload seriatim`"


def find_place(
    file: str | None,
    config: str | None,
    needed: bool = True,
    environment: Mapping[str, str] = os.environ,
) -> UsersPlace:
    """The file given, or that of the settings. Raises `CliError`, `WrongSettings`.

    The settings are read if a file of settings is given, or no users' file.
    """
    if file and not config:
        return UsersPlace(os.path.realpath(file))
    values = look_up({}, environment, config)
    path = file or values[FILE]
    if needed and not path:
        raise CliError(
            "which file of users? Give --file FILE, or let the settings name it:"
            f" {FILE} in the file of --config, or SERIATIM_AUTHORIZATION_USERS_FILE"
        )
    named = config or environment.get(CONFIG_VARIABLE, "")
    return UsersPlace(os.path.realpath(path) if path else "", values, named)
