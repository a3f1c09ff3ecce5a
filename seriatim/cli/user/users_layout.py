"""The text of a users' file, and how a user is put into it or taken out: all else stays.

Comments, blank lines, the order and the style of the file are kept. Each change is read again, and
must mean exactly what was wanted: a layout that is too unusual is refused, not damaged.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, Self

from broker.settings.user_tables import USER_WORDS, tables_of
from seriatim.cli.errors import CliError
from seriatim.settings.checked import quoted
from seriatim.settings.secret_texts import FROM_ENVIRONMENT, FROM_FILE

HEAD: Final = "# Users of a Seriatim broker. `seriatim user` changes this file, and so may you.\n"
ELSEWHERE: Final = (FROM_ENVIRONMENT, FROM_FILE)
_USER: Final = re.compile(r"""[ \t]*\[\[[ \t]*(?:users|"users"|'users')[ \t]*]]""")
_PART: Final = re.compile(r"""[ \t]*\[\[?[ \t]*(?:users|"users"|'users')[ \t]*\.""")
_TABLE: Final = re.compile(r"[ \t]*\[")
_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+")


class UsersLayout:
    """Immutable: a change makes another one. Raises `CliError`, which never shows a secret."""

    def __init__(self, path: str, content: bytes) -> None:
        problems: list[str] = []
        self.path = path
        self.tables: dict[str, Any] = tables_of(content, path, problems)
        if problems:
            raise CliError(problems[0])
        self.text = content.decode("utf-8-sig")
        self.users: list[dict[str, Any]] = self.tables.get("users", [])
        if not isinstance(self.users, list) or not all(isinstance(u, dict) for u in self.users):
            raise CliError(f"users in {path}: is a list of tables; write [[users]]")

    @classmethod
    def empty(cls, path: str) -> Self:
        """That of a new file."""
        return cls(path, HEAD.encode())

    @property
    def tables_here(self) -> dict[str, Any]:
        """The tables, without secrets that only the broker can read: in variables and files."""
        users = []
        for user in self.users:
            hidden = {
                key: "in another place"
                for key, value in user.items()
                if key in ("password", "pass")
                and isinstance(value, str)
                and value.startswith(ELSEWHERE)
            }
            users.append(user | hidden)
        return {**self.tables, **({"users": users} if "users" in self.tables else {})}

    def find(self, name: str) -> int:
        """Which of the users has this name, key, or label; -1: none."""
        for at, user in enumerate(self.users):
            if name and name in (user.get("user"), user.get("username"), user.get("nkey")):
                return at
        return self.labels.index(name) if name and name in self.labels else -1

    @property
    def labels(self) -> list[str]:
        """What the comment behind each public key says, by user; empty: nothing."""
        if not any("nkey" in user for user in self.users):
            return [""] * len(self.users)
        return [
            one.value.item("nkey").trivia.comment.lstrip("# ") if "nkey" in one else ""
            for one in self._document()["users"]
        ]

    def with_user(self, user: Mapping[str, Any], label: str = "") -> "UsersLayout":
        """One more, the last; `label` is a comment behind its key."""
        import tomlkit
        from tomlkit.items import AoT

        document = self._document()
        users = document.get("users")
        if users is not None and not isinstance(users, AoT):
            users.append(_in_one_line(user))
        else:
            table = _table(user)
            if label:
                table.value.item("nkey").comment(label)
            if users is None:
                users = document["users"] = tomlkit.aot()
            elif not users or not str(document).endswith(users.as_string()):
                table.add(tomlkit.nl())
            users.append(table)
        return self._changed(str(document), [*self.users, dict(user)])

    def with_password(self, at: int, password: str) -> "UsersLayout":
        """The same, with another password of one of them."""
        before = self.users[at]
        key = next((key for key in before if USER_WORDS.get(key, key) == "password"), "password")
        document = self._document()
        document["users"][at][key] = password
        users = [*self.users[:at], {**before, key: password}, *self.users[at + 1 :]]
        return self._changed(str(document), users)

    def without(self, at: int) -> "UsersLayout":
        """The same, without one of them and the comment right above it."""
        from tomlkit.items import AoT

        document = self._document()
        if isinstance(document["users"], AoT):
            text = self._cut(at)
        else:
            del document["users"][at]
            text = str(document)
        return self._changed(text, [*self.users[:at], *self.users[at + 1 :]])

    def _cut(self, at: int) -> str:
        """The text without the lines of a user. Comments above the next table are the next's."""
        lines = _LINE.findall(self.text)
        heads = [n for n, line in enumerate(lines) if _USER.match(line)]
        if len(heads) != len(self.users):
            raise self._unusual()
        start = end = heads[at]
        end += 1
        while end < len(lines) and (not _TABLE.match(lines[end]) or _PART.match(lines[end])):
            end += 1
        while _says_nothing(lines[end - 1]):
            end -= 1
        while start and lines[start - 1].lstrip().startswith("#"):
            start -= 1
        if start == 0:
            start = heads[at]  # what the file begins with is about all of it
        if end == len(lines) or not lines[end].strip():
            while start and not lines[start - 1].strip():
                start -= 1
        return "".join((*lines[:start], *lines[end:]))

    def _document(self) -> Any:
        """The text as tomlkit understands it, which must be all of it."""
        import tomlkit
        from tomlkit.exceptions import TOMLKitError

        try:
            document = tomlkit.parse(self.text)
        except TOMLKitError:
            raise self._unusual() from None
        if str(document) != self.text:
            raise self._unusual()
        return document

    def _changed(self, text: str, users: list[dict[str, Any]]) -> "UsersLayout":
        changed = UsersLayout(self.path, text.encode())
        if changed.tables != {**self.tables, "users": users} and (users or changed.users):
            raise self._unusual()
        return changed

    def _unusual(self) -> CliError:
        return CliError(
            f"{self.path}: its layout is too unusual to be changed by a command; put all [[users]]"
            " together, one after the other, or change it with an editor"
        )


def _says_nothing(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def _table(user: Mapping[str, Any]) -> Any:
    """A table of several lines."""
    import tomlkit

    table = tomlkit.table()
    for key, value in user.items():
        if isinstance(value, dict):
            inner = tomlkit.table()
            for name, one in value.items():
                inner.add(name, _in_one_line(one) if isinstance(one, dict) else one)
            table.add(key, inner)
        else:
            table.add(key, value)
    return table


def _in_one_line(table: Mapping[str, Any]) -> Any:
    import tomlkit

    made = tomlkit.inline_table()
    for key, value in table.items():
        made[key] = _in_one_line(value) if isinstance(value, dict) else value
    return made


def checked_name(name: str) -> str:
    """A name that can be written, read and shown. Raises `CliError`."""
    if not name or name.isspace():
        raise CliError("the name is empty; give one")
    if not name.isprintable():
        raise CliError(f"the name {quoted(name)} has a character that cannot be printed")
    return name
