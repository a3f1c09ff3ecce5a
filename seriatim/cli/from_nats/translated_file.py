"""Writes a translation as a TOML file of settings, and checks that a broker would take it.

The file goes to standard output. What has no equivalent goes to standard error, where it is seen
although the output is redirected; and to the end of the file, for those who read that later.
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

from broker.settings.catalog import SECTIONS, SETTINGS, USER_SETTINGS
from broker.settings.errors import WrongSettings
from broker.settings.permission_tables import permission_table
from broker.settings.resolve import FILE_BYTES_MAX, resolve
from seriatim.cli.explain import toml_value
from seriatim.cli.explain_users import inline_toml
from seriatim.cli.from_nats.nats_blocks import USERS_FILE, translate
from seriatim.cli.from_nats.nats_syntax import read_nats_config
from seriatim.cli.from_nats.translation import Given, TranslatedUser, Translation
from seriatim.cli.printable import printable, printable_json
from seriatim.settings.setting import GIB

INCOMPLETE: Final = 2  # the exit status, as of `seriatim check` with warnings
SECRETS: Final = ("authorization.password", "authorization.token")

# What a nats-server does without being told, and a broker must be: path, value, the reason.
AS_NATS: Final = (
    (
        "frame",
        "none",
        "Clients get payloads as they were published. Each message has a number all the same:"
        ' "header" adds it as a header, "netstring" puts number and payload into a frame.',
    ),
    ("sequencer.exclude", ["_INBOX.>"], "Replies to requests get no number, and are not kept."),
    (
        "journal.retain_bytes",
        10 * GIB,
        "Every other message is kept in store_dir, and can be read again; the oldest above this"
        " size are deleted. `enabled = false` keeps none.",
    ),
)


def print_translation(path: str, environment: Mapping[str, str] = os.environ) -> int:
    """Translate a file, print the result and what is left out; return the exit status."""
    found = translate(read_nats_config(path, environment))
    text = as_toml_file(path, found)
    problems = [*(one.text for one in found.left_out), *refusals(text, environment)]
    if problems:
        lines = "\n".join(f"# {printable(one)}" for one in problems)
        text += f"\n# Not as in {printable(path)}:\n{lines}\n"
    print(text, end="", flush=True)
    for one in problems:
        print(printable(one), file=sys.stderr)
    if problems:
        print(
            f"seriatim: {printable(path)} is not translated completely: {len(problems)}"
            f" line{'s' * (len(problems) > 1)} above",
            file=sys.stderr,
        )
    return INCOMPLETE if problems else 0


def refusals(text: str, environment: Mapping[str, str]) -> list[str]:
    """Return what would keep a broker from starting with this file."""
    if len(text.encode()) > FILE_BYTES_MAX:
        return [
            "a broker would refuse the result: it is longer than 1 MiB; move the users into a file"
            " of their own (authorization.users_file), where each is [[users]]"
        ]
    # Variables of ours would override the file; the others decide where a journal is by default.
    others = {name: one for name, one in environment.items() if not name.startswith("SERIATIM_")}
    # In memory, because it may hold passwords.
    with open(os.memfd_create("seriatim-translation"), "wb") as file:
        file.write(text.encode())
        file.flush()
        path = f"/proc/self/fd/{file.fileno()}"
        try:
            resolve({}, others, path)
        except WrongSettings as wrong:
            return [
                f"a broker would refuse the result: {one.replace(f' in {path}', '')}"
                for one in wrong.problems
            ]
    return []


def as_toml_file(path: str, found: Translation) -> str:
    """The file, without the lines that are left out."""
    lines = [f"# The settings of a Seriatim broker, translated from {printable(path)}."]
    if _has_secrets(found):
        lines.append("# It holds passwords: let only the broker's user read it (chmod 600).")
    values = dict(found.values)
    for setting_path, value, _ in AS_NATS:
        values.setdefault(setting_path, Given(value, ""))
    reasons = {setting_path: reason for setting_path, _, reason in AS_NATS}
    for section in SECTIONS:
        paths = [one for one in values if _section(one) == section]
        if not paths:
            continue
        lines += ["", f"[{section}]"] if section else [""]
        for one in sorted(paths, key=_order):
            lines += _comment(reasons.get(one, ""))
            if one == "authorization.users_file":
                lines += _comment(
                    "No user could be translated. Add some: `seriatim user add NAME -f"
                    f" {USERS_FILE}`. Without this line everybody could do everything."
                )
            lines.append(f"{one.rpartition('.')[2]} = {_value(one, values[one])}")
    if found.defaults is not None:
        permissions, place = found.defaults
        lines += ["", f"# {printable(place)}", "[authorization.default_permissions]"]
        lines += [
            f"{key} = {inline_toml(one)}" for key, one in permission_table(permissions).items()
        ]
    for user in found.users.values():
        lines += ["", f"# {printable(user.place)}", "[[authorization.users]]", *_user(user)]
    if found.needless:
        lines += ["", "# Nothing need be set for:"]
        lines += [f"# {printable(one.text)}" for one in found.needless]
    return "\n".join(lines) + "\n"


def _section(path: str) -> str:
    return path.rpartition(".")[0]


def _order(path: str) -> int:
    """The place of a setting in our table; one that is not there is the last."""
    paths = list(SETTINGS)
    return paths.index(path) if path in SETTINGS else len(paths)


def _value(path: str, given: Given) -> str:
    """A value in TOML, and where it comes from."""
    place = f"  # {printable(given.place)}" if given.place else ""
    if path in SECRETS or path not in SETTINGS:
        return f"{_text(given.value)}{place}"
    return f"{toml_value(SETTINGS[path], given.value)}{place}"


def _text(value: Any) -> str:
    return printable_json(json.dumps(value, ensure_ascii=False))


def _user(user: TranslatedUser) -> Iterator[str]:
    for key in ("user", "password", "nkey"):
        assert key in USER_SETTINGS, "a user has that"
        if value := getattr(user, key):
            yield f"{key} = {_text(value)}"
    if user.permissions is not None:
        yield f"permissions = {inline_toml(permission_table(user.permissions))}"


def _has_secrets(found: Translation) -> bool:
    given = [*(one.password for one in found.users.values())]
    given += [found.values[path].value for path in SECRETS if path in found.values]
    return any(given)


def _comment(text: str) -> list[str]:
    import textwrap

    return textwrap.wrap(text, 98, initial_indent="# ", subsequent_indent="# ")
