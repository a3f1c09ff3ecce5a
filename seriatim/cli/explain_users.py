"""The users in `seriatim config`: tables of the file without flags. No password is shown."""

import json
from collections.abc import Iterator
from typing import Any

from broker.settings.authorization_settings import PermissionSettings, UserSettings
from broker.settings.catalog import USER_SETTINGS
from broker.settings.permission_tables import permission_table
from broker.settings.resolve import DEFAULTS, USERS, Effective
from seriatim.cli.printable import printable_json
from seriatim.settings.secret_texts import HIDDEN

NAMES_MAX = 20  # in the table
ABOUT_USERS = "The users, each with what proves who it is, and what it may do."
ABOUT_DEFAULTS = "The permissions of users without any of their own."

MARKDOWN = """\
## Users: `[[authorization.users]]`

Each user is a table in the file. Users can also be in a file of their own, which
`authorization.users_file` names. There each is a table `[[users]]`, and the default permissions
are `[default_permissions]`. `seriatim user` writes that file:

    seriatim user add alice --file users.toml --publish 'orders.>'    # asks for a password
    seriatim user nkey backup --file users.toml --seed backup.nk      # a key instead
    seriatim user list --file users.toml                              # passwd, remove

A user has

{table}

Permissions are those of nats-server. Each list is subjects, wildcards too:

    [[authorization.users]]
    user = "alice"
    password = "$2b$11$..."               # seriatim user passwd

    [authorization.users.permissions]
    publish = ["orders.>", "jobs.*"]      # only there
    subscribe = { allow = ["orders.>", "jobs.* workers"], deny = ["orders.secret"] }
    allow_responses = { max = 5, expires = "1m" }

    [authorization.default_permissions]   # of users without permissions
    publish = { deny = ["admin.>"] }
    subscribe = ["public.>", "_INBOX.>"]

- **A list** says what is allowed, and nothing else is. `allow` and `deny` may stand together:
  `deny` wins. With `deny` alone all else is allowed. Without `publish`, or `subscribe`, everything
  is.
- **`SUBJECT QUEUE`** is about members of queue groups: for these it decides, wherever its subject
  matches. Entries without a queue are about all subscribers. The queue may have wildcards.
- **A subscription that is wider** than what is denied is accepted: what is denied is left out of
  it. One that is wider than what is allowed is refused.
- **`allow_responses`** lets a user publish to the reply subject of each message that it receives:
  once (`true`), or `max` times (-1: any number) within `expires` (2m by default, -1: for ever).
  With it, and without `publish.allow`, the user publishes responses and nothing else.
- **Subjects of the broker** are like others. A request needs the right to publish to its subject,
  such as `$SEQ.READ`; `$SEQ.PUB.orders.new` also the right to publish to `orders.new`. A replay
  needs the right to subscribe to its subject, such as `$SEQ.FROM.*.orders.>`, and to `orders.>`.
- Users without permissions, and without default permissions, may do everything.
- nats-server's other words, such as `pass`, `pub` and `sub`, are understood, too.
"""


def rows(effective: Effective) -> Iterator[tuple[str, str, str, str]]:
    """Users, and their default permissions, as texts: path, value, origin and explanation."""
    settings = effective.settings.authorization
    names = ", ".join(one.user or one.nkey for one in settings.users[:NAMES_MAX])
    more = len(settings.users) - NAMES_MAX
    names += f" and {more} more" if more > 0 else ""
    defaults = inline_toml(permission_table(settings.default_permissions or PermissionSettings()))
    shown = "none" if settings.default_permissions is None else defaults
    yield USERS, names or "none", effective.origins[USERS], ABOUT_USERS
    yield DEFAULTS, shown, effective.origins[DEFAULTS], ABOUT_DEFAULTS


def as_comments(effective: Effective) -> list[str]:
    """The users as commented-out TOML: without their passwords they would not be users."""
    settings = effective.settings.authorization
    lines = []
    if settings.users:
        lines += ["", f"# From: {effective.origins[USERS]}. Their passwords are not shown."]
        for at, one in enumerate(settings.users):
            lines += ["#"] * (at > 0) + [f"# {line}" for line in _user(one)]
    if settings.default_permissions is not None:
        lines += ["", f"# From: {effective.origins[DEFAULTS]}.", f"# [{DEFAULTS}]"]
        table = permission_table(settings.default_permissions)
        lines += [f"# {key} = {inline_toml(value)}" for key, value in table.items()]
    return lines


def _user(one: UserSettings) -> Iterator[str]:
    yield f"[[{USERS}]]"
    for name, setting in USER_SETTINGS.items():
        value = getattr(one, name)
        if value == setting.default:
            continue
        if setting.kind == "secret":
            value = HIDDEN
        elif setting.kind == "size":
            value = setting.show(value)
        yield f"{name} = {inline_toml(value)}"
    if one.permissions is not None:
        yield f"permissions = {inline_toml(permission_table(one.permissions))}"


def as_markdown() -> list[str]:
    """The section of the reference page."""
    lines = ["| key | default | allowed | |", "|---|---|---|---|"]
    for name, setting in USER_SETTINGS.items():
        zero = f" ({setting.zero[0].upper()}{setting.zero[1:]}.)" if setting.zero else ""
        about = setting.about + zero
        default = "none" if setting.default in ("", ()) else f"`{setting.show(setting.default)}`"
        lines.append(f"| `{name}` | {default} | {setting.allowed()} | {about} |")
    lines.append("| `permissions` | the default permissions | a table | What it may do: below. |")
    return MARKDOWN.replace("{table}", "\n".join(lines)).split("\n")


def inline_toml(value: Any) -> str:
    """A value in one line of TOML."""
    if isinstance(value, dict):
        inside = ", ".join(f"{key} = {inline_toml(one)}" for key, one in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, str):
        return printable_json(json.dumps(value, ensure_ascii=False))
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(inline_toml, value))}]"
    return json.dumps(value)
