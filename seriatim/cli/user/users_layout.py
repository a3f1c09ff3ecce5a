"""The text of a users' file; changes its users, and keeps everything else.

Comments, blank lines, the order and the style of the file are kept. Each changed text is parsed
again, and must mean exactly the wanted users: a layout that is too unusual is refused, not damaged.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, Self

from broker.settings.user_tables import USER_WORDS, tables_of
from seriatim.cli.errors import CliError, UsageError
from seriatim.settings.checked import quoted
from seriatim.settings.secret_texts import FROM_ENVIRONMENT, FROM_FILE

HEAD: Final = "# Users of a Seriatim broker. `seriatim user` changes this file, and so may you.\n"
ELSEWHERE: Final = (FROM_ENVIRONMENT, FROM_FILE)
_USER: Final = re.compile(r"""[ \t]*\[\[[ \t]*(?:users|"users"|'users')[ \t]*]]""")
_PART: Final = re.compile(r"""[ \t]*\[\[?[ \t]*(?:users|"users"|'users')[ \t]*\.""")
_TABLE: Final = re.compile(r"[ \t]*\[")
_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+")


class UsersLayout:
    """The layout of a users' file. Immutable: a change returns a new one.

    Raises `CliError`, which never shows a secret.
    """

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
        """Return the layout of a new file."""
        return cls(path, HEAD.encode())

    @property
    def tables_here(self) -> dict[str, Any]:
        """The tables, without the secrets in variables and files that only the broker can read."""
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
        """Return the index of the user with this name, key or label; -1: none."""
        for at, user in enumerate(self.users):
            if name and name in (user.get("user"), user.get("username"), user.get("nkey")):
                return at
        return self.labels.index(name) if name and name in self.labels else -1

    @property
    def labels(self) -> list[str]:
        """The comment after the public key of each user; empty if there is none."""
        if not any("nkey" in user for user in self.users):
            return [""] * len(self.users)
        return [
            one.value.item("nkey").trivia.comment.lstrip("# ") if "nkey" in one else ""
            for one in self._document()["users"]
        ]

    def with_user(self, user: Mapping[str, Any], label: str = "") -> "UsersLayout":
        """Add a user after the others; `label` is a comment after its key."""
        if self._in_one_line:
            document = self._document()
            document["users"].append(_inline(user))  # users = [ { ... }, { ... } ]
            return self._changed(document.as_string(), [*self.users, dict(user)])
        lines = _LINE.findall(self.text)
        end = self._span(lines, len(self.users) - 1)[1] if self.users else len(lines)
        above = "".join(lines[:end])
        gap = "" if not above else "\n" if above.endswith("\n") else "\n\n"
        block = gap + _block(user, label)
        if "\r\n" in self.text:
            block = block.replace("\n", "\r\n")
        text = above + block + "".join(lines[end:])
        return self._changed(text, [*self.users, dict(user)])

    def with_password(self, at: int, password: str) -> "UsersLayout":
        """Change the password of the user at this index."""
        before = self.users[at]
        key = next((key for key in before if USER_WORDS.get(key, key) == "password"), "password")
        document = self._document()
        document["users"][at][key] = password
        users = [*self.users[:at], {**before, key: password}, *self.users[at + 1 :]]
        return self._changed(document.as_string(), users)

    def without(self, at: int) -> "UsersLayout":
        """Remove the user at this index, and the comment right above it."""
        if self._in_one_line:
            document = self._document()
            del document["users"][at]
            text = document.as_string()
        else:
            text = self._cut(at)
        return self._changed(text, [*self.users[:at], *self.users[at + 1 :]])

    def _cut(self, at: int) -> str:
        """The text without the lines of a user, and without a gap where they were."""
        lines = _LINE.findall(self.text)
        start, end = self._span(lines, at)
        if end == len(lines) or not lines[end].strip():
            while start and not lines[start - 1].strip():
                start -= 1
        return "".join((*lines[:start], *lines[end:]))

    def _span(self, lines: list[str], at: int) -> tuple[int, int]:
        """The lines of a user: from the comment right above it to its last setting.

        Comments after that belong to what comes next.
        """
        heads = [n for n, line in enumerate(lines) if _USER.match(line)]
        if len(heads) != len(self.users):
            raise self._unusual()
        start, end = heads[at], heads[at] + 1
        while end < len(lines) and (not _TABLE.match(lines[end]) or _PART.match(lines[end])):
            end += 1
        while _says_nothing(lines[end - 1]):
            end -= 1
        while start and lines[start - 1].lstrip().startswith("#"):
            start -= 1
        return (start or heads[at]), end  # a comment at the file's beginning is about all of it

    @property
    def _in_one_line(self) -> bool:
        """True if the users are `users = [ { ... }, { ... } ]`, not tables."""
        return "users" in self.tables and not any(map(_USER.match, _LINE.findall(self.text)))

    def _document(self) -> Any:
        """Parse the text by tomlkit, and check that nothing is lost."""
        import tomlkit
        from tomlkit.exceptions import TOMLKitError

        try:
            document = tomlkit.parse(self.text)
        except TOMLKitError:
            raise self._unusual() from None
        if document.as_string() != self.text:
            raise self._unusual()
        return document

    def _changed(self, text: str, users: list[dict[str, Any]]) -> "UsersLayout":
        try:
            changed = UsersLayout(self.path, text.encode())
        except CliError:
            raise self._unusual() from None
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


def _block(user: Mapping[str, Any], label: str) -> str:
    """A user as a table of several lines."""
    import tomlkit

    table, parts = tomlkit.table(), []
    for key, value in user.items():
        if not isinstance(value, dict):
            made = tomlkit.item(value)
            table.add(key, made.comment(label) if label and key == "nkey" else made)
            continue
        inner = tomlkit.table()
        for name, one in value.items():
            inner.add(name, _inline(one) if isinstance(one, dict) else one)
        parts += ["", f"[users.{key}]", inner.as_string().rstrip("\n")]
    return "\n".join(["[[users]]", table.as_string().rstrip("\n"), *parts, ""])


def _inline(table: Mapping[str, Any]) -> Any:
    """A table in one line."""
    import tomlkit

    made = tomlkit.inline_table()
    for key, value in table.items():
        made[key] = _inline(value) if isinstance(value, dict) else value
    return made


def checked_name(name: str) -> str:
    """A name that can be written, read and shown. Raises `CliError`."""
    if not name or name.isspace():
        raise UsageError("the name is empty; give one")
    if not name.isprintable():
        raise UsageError(f"the name {quoted(name)} has a character that cannot be printed")
    return name
