"""A new user's permissions, from the options of `seriatim user`."""

from dataclasses import dataclass
from typing import Any

from broker.settings.authorization_settings import RESPONSE_EXPIRES, PermissionSettings
from broker.settings.catalog import USER_SETTINGS
from broker.settings.permission_tables import permission_table, read_permissions
from seriatim.cli.errors import UsageError
from seriatim.cli.user.user_options import RESPONSES_FLAG
from seriatim.settings.checked import WrongValue
from seriatim.settings.subjects import check_subject


@dataclass(frozen=True, slots=True)
class UserRights:
    """The options for permissions, as given."""

    publish: list[str] | None
    subscribe: list[str] | None
    deny_publish: list[str] | None
    deny_subscribe: list[str] | None
    responses: int | None
    applications: list[str] | None
    publish_rate: str | None
    publish_bytes: str | None

    def table(self) -> dict[str, Any]:
        """The user's settings that these options mean. Raises `UsageError`."""
        table: dict[str, Any] = {}
        for pattern in self.applications or ():
            try:
                check_subject(pattern)
            except WrongValue as wrong:
                raise UsageError(f"--application: {wrong}") from None
        if self.applications:
            table["applications"] = list(self.applications)
        for name in ("publish_rate", "publish_bytes"):
            text = getattr(self, name)
            if text is None:
                continue
            setting = USER_SETTINGS[name]
            try:
                value = setting.read(text)
            except WrongValue as wrong:
                raise UsageError(f"--{name.replace('_', '-')}: {wrong}") from None
            table[name] = setting.show(value) if setting.kind == "size" else value
        permissions = self._permissions()
        return {**table, "permissions": permissions} if permissions else table

    def _permissions(self) -> dict[str, Any]:
        if self.responses == 0:
            raise UsageError(f"{RESPONSES_FLAG}: give 1 or more, or -1 for any number")
        for flag, verb, key, entries in (
            ("--publish", "publish", "allow", self.publish),
            ("--subscribe", "subscribe", "allow", self.subscribe),
            ("--deny-publish", "publish", "deny", self.deny_publish),
            ("--deny-subscribe", "subscribe", "deny", self.deny_subscribe),
        ):
            _check({verb: {key: entries or []}}, flag)
        given = PermissionSettings(
            publish_allow=tuple(self.publish or ()) or None,
            publish_deny=tuple(self.deny_publish or ()),
            subscribe_allow=tuple(self.subscribe or ()) or None,
            subscribe_deny=tuple(self.deny_subscribe or ()),
            responses=self.responses or 0,
            response_expires=RESPONSE_EXPIRES,
        )
        table = permission_table(given)
        _check(table, RESPONSES_FLAG)
        return table


def _check(permissions: dict[str, Any], flag: str) -> None:
    """Refuse what the broker would refuse; the error names the option."""
    problems: list[str] = []
    read_permissions(permissions, "", "", problems)
    if problems:
        raise UsageError(f"{flag}: {problems[0].partition(': ')[2]}")
