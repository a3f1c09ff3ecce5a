r"""Reads nats-server's own configuration format.

    port: 4222                       # `=`, `:` or a blank between key and value
    authorization {                  // comments begin with # or //
        PASS = "s\x65cret"           # "..." has escapes, '...' and bare words have not
        users = [ {user: a, pass: $PASS}, {user: b, pass: $B_PASS} ]
    }
    max_payload: 8MB; debug: yes     # sizes: k is 1000, kb, ki and kib are 1024
    include 'limits.conf'            # relative to this file

It accepts what nats-server 2.15.1 accepts, and gives every value its meaning there; the tests
compare both by nats-server's digest of a configuration. Some nonsense that nats-server takes for
something odd is an error here: a key in braces without a value, a quote at the end of the file, a
size such as `1kbb` or one above 64 bits.

`$NAME` is a key of the same block or of one around it that was read before, else a variable of the
environment, whose text is read like a value. So variables need no second pass. `$2a$...` is no
variable but a bcrypt hash.

Files, depth and includes are bounded; all errors are `NatsConfigError` with file and line.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from seriatim.cli.errors import CliError
from seriatim.settings.checked import quoted
from seriatim.settings.regular_file import read_regular

FILE_BYTES_MAX: Final = 16 << 20  # a configuration with 100 000 users
DEPTH_MAX: Final = 50  # of blocks and lists, one in another; nobody writes more than ten
FILES_MAX: Final = 20  # that include each other, and variables whose value names another one
INTEGERS: Final = range(-(1 << 63), 1 << 63)
POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5, "e": 6}
YES, NO = ("true", "yes", "on"), ("false", "no", "off")
BCRYPT: Final = "2a$"
KEY_OF_VARIABLE: Final = "pk"  # the name does not matter: nats-server's own

_BLANKS = re.compile(r"[ \t]*")
_SPACES = re.compile(r"\s*")
_SPACES_AND_COMMENTS = re.compile(r"(?:\s++|(?:#|//)[^\r\n]*+)*+")
_COMMENT = re.compile(r"(?:#|//)[^\r\n]*")
_BARE_KEY = re.compile(r"[^=:][^\s=:]*")
_BARE_END = "\r\n;,]} \t'"
_BARE_PART = re.compile(r"[^\\\r\n;,\]} \t']*")
_BARE_PATH = re.compile(r"[^\r\n;} \t']*'?")
_DOUBLE_PART = re.compile(r'[^\\"]*')
_ESCAPE = re.compile(r'\\(?:x([0-9A-Fa-f]{2})|([tnr"\\]))')
_ESCAPED = {"t": b"\t", "n": b"\n", "r": b"\r", '"': b'"', "\\": b"\\"}
_DIGITS = re.compile(r"-?[0-9]+")
_SUFFIX = re.compile(r"[kKmMgGtTpPeE][bBiI]*")
_AFTER_NUMBER = re.compile(r"[\r\n};, \t]|\Z")
_FLOAT = re.compile(r"-?[0-9]+\.[0-9]+")
_ADDRESS = re.compile(r"-?[0-9]+\.[0-9]+\.[0-9.:-]*")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
_LAST_BRACE = re.compile(r"\}\s*\Z")
_BLOCK_END = re.compile(r"(?<=\n)\)(?=\n|\Z)")


class NatsConfigError(CliError):
    """A file that nats-server would not accept either."""


@dataclass(slots=True)
class NatsValue:
    """A value, and where it is: at its key, or in a list at itself."""

    raw: "str | int | float | bool | datetime | list[NatsValue] | dict[str, NatsValue]"
    file: str
    line: int
    last_line: int
    variable: str = ""  # of the environment, if that has the whole text
    is_used: bool = False  # as a variable, so its key need not be a setting

    @property
    def place(self) -> str:
        """The file, and the line or the lines."""
        lines = f"{self.line}-{self.last_line}" if self.last_line > self.line else f"{self.line}"
        return f"{self.file}:{lines}"


def read_nats_config(path: str, environment: Mapping[str, str]) -> dict[str, NatsValue]:
    """Read a file and what it includes. Raises `NatsConfigError`."""
    return _read_file(path, environment, (), f"{path}: ")


def _read_file(
    path: str, environment: Mapping[str, str], opened: tuple[str, ...], where: str
) -> dict[str, NatsValue]:
    try:
        content = read_regular(path, FILE_BYTES_MAX)
    except OSError as error:
        raise NatsConfigError(f"{where}cannot be read: {error.strerror}") from None
    except ValueError:
        raise NatsConfigError(f"{where}has a zero byte in its name") from None
    if content is None:
        raise NatsConfigError(f"{where}is not a regular file")
    if len(content) > FILE_BYTES_MAX:
        raise NatsConfigError(f"{where}is longer than 16 MiB, so it is not a configuration")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise NatsConfigError(f"{path}:{line}: is not text in UTF-8") from None
    return _NatsReader(text, path, environment, (*opened, path)).top()


class _NatsReader:
    """One file, or the value of one variable. A method reads what stands at `at`, and moves it."""

    def __init__(
        self, text: str, file: str, environment: Mapping[str, str], opened: tuple[str, ...]
    ) -> None:
        self.text, self.at = text, 0
        self.file, self.environment = file, environment
        self.opened = opened  # the files, and variables, that led here
        self.blocks: list[dict[str, NatsValue]] = []  # those around, the innermost last
        self.depth = 0
        self._counted = (0, 1)  # a place in the text, and its line

    def top(self) -> dict[str, NatsValue]:
        """Read a whole file: as a block without braces, or with braces around a part of it."""
        table: dict[str, NatsValue] = {}
        self.blocks.append(table)
        while True:
            self._skip(_SPACES_AND_COMMENTS)
            if self._here == "{":
                self.at += 1
            elif not self._here:
                return table
            elif _LAST_BRACE.match(self.text, self.at):
                return table  # the end of JSON
            elif self._here == "/":
                raise self._error("a / stands where a key should; a comment begins with //")
            else:
                self._entry(table, "")

    def _block(self) -> dict[str, NatsValue]:
        """Read `{ ... }`."""
        table: dict[str, NatsValue] = {}
        self.blocks.append(table)
        begin = self.line
        self.at += 1
        while True:
            self._skip(_SPACES_AND_COMMENTS)
            if self._here == "}":
                self.at += 1
                break
            if not self._here:
                raise self._error(f"the {{ of line {begin} is not closed; add a }}")
            if self._here == "]":
                raise self._error(f"a ] stands inside the {{ of line {begin}; close that by a }}")
            if self._entry(table, "}"):
                break
        self.blocks.pop()
        return table

    def _entry(self, table: dict[str, NatsValue], closing: str) -> bool:
        """Read a key, its value, and what ends that. Return True if it was the block's end."""
        line = self.line
        bare = self._here not in "\"'"
        key = self._key()
        if bare and key.lower() == "include" and self._here.isspace():
            table.update(self._include())
            return self._end_of_entry(key, closing)
        self._skip(_SPACES)
        if not self._here:
            raise self._error(f"{quoted(key)} has no value; write one after it", line)
        if self._here in "=:":
            self.at += 1
            self._skip(_SPACES if closing else _BLANKS)
            if self._here and self._here in "\r\n":
                raise self._error(f"{quoted(key)} has no value in its line; write it there")
        if closing and self._here and self._here in ",}":
            raise self._error(f"{quoted(key)} has no value; write one after it")
        value = self._value()
        value.last_line = self.line
        value.line = line
        table[key] = value
        return self._end_of_entry(key, closing)

    def _key(self) -> str:
        if self._here in "=:":
            raise self._error(f"a {self._here} stands where a key should; write a key before it")
        if self._here in "\"'":
            return self._until_quote(self._here, "key")
        found = _BARE_KEY.match(self.text, self.at)
        assert found is not None, "there is a character, and it is no separator"
        self.at = found.end()
        return found[0]

    def _end_of_entry(self, key: str, closing: str) -> bool:
        """Go past what stands between two entries. Return True if the block ends here."""
        while True:
            self._skip(_BLANKS)
            if self._skip(_COMMENT):
                continue
            if not self._here:
                return False
            if self._here in "\r\n;," or (self._here == "}" and not closing):
                self.at += 1
                return False
            if self._here == closing:
                self.at += 1
                return True
            if self._here != "/":  # alone it means nothing, as in nats-server
                raise self._error(
                    f"{quoted(self._here)} stands right after the value of {quoted(key)}; put a"
                    " comma or a new line between, or quotes around the whole value"
                )
            self.at += 1

    def _include(self) -> dict[str, NatsValue]:
        self._skip(_BLANKS)
        if not self._here or self._here in "[{(-\\\r\n" or self._here.isdigit():
            raise self._error("include needs the name of a file; write it in quotes")
        line = self.line
        if self._here in "\"'":
            name = self._until_quote(self._here, "name of the file")
        else:
            found = _BARE_PATH.match(self.text, self.at)
            assert found is not None, "it may be empty"
            self.at = found.end()
            name = found[0].removesuffix("'")
        # As in nats-server, even if the name begins with a slash.
        path = os.path.normpath(os.path.join(os.path.dirname(self.file), f"./{name}"))
        if len(self.opened) >= FILES_MAX or path in self.opened:
            raise self._error(f"{quoted(name)} includes itself, or too many files include others")
        where = f"{self.file}:{line}: {quoted(name)}, which is included, "
        return _read_file(path, self.environment, self.opened, where)

    def _value(self) -> NatsValue:
        line = self.line
        here = self._here
        raw: str | int | float | bool | datetime | list[NatsValue] | dict[str, NatsValue]
        if here and here in "[{":
            if self.depth >= DEPTH_MAX:
                raise self._error(f"more than {DEPTH_MAX} blocks and lists are in one another")
            self.depth += 1
            raw = self._list() if here == "[" else self._block()
            self.depth -= 1
        elif here == "'":
            raw = self._until_quote(here, "value")
        elif here == '"':
            raw = self._double_quoted()
        elif here == "(":
            raw = self._lines()
        elif here == ".":
            raise self._error("a value begins with a dot; write a 0 before it, or quotes around it")
        elif here == "-" or (here.isascii() and here.isdigit()):
            raw = self._number_or_word()
        else:
            return self._bare_word(line)
        return NatsValue(raw, self.file, line, self.line)

    def _list(self) -> list[NatsValue]:
        found: list[NatsValue] = []
        begin = self.line
        self.at += 1
        while True:
            self._skip(_SPACES_AND_COMMENTS)
            if self._here == "]":
                self.at += 1
                return found
            if not self._here:
                raise self._error(f"the [ of line {begin} is not closed; add a ]")
            if self._here == ",":
                raise self._error("a comma stands where a value should; take it out")
            found.append(self._value())
            while self._skip(_BLANKS) or self._skip(_COMMENT):
                pass
            if self._here == "]":
                self.at += 1
                return found
            if not self._here:
                raise self._error(f"the [ of line {begin} is not closed; add a ]")
            if self._here not in ",\r\n/":
                raise self._error(
                    f"{quoted(self._here)} stands right after a value in a list; put a comma"
                    " between them"
                )
            self.at += 1

    def _until_quote(self, quote: str, noun: str) -> str:
        end = self.text.find(quote, self.at + 1)
        if end < 0:
            raise self._error(f"the {noun} that begins here has no {quote} at its end")
        found = self.text[self.at + 1 : end]
        self.at = end + 1
        return found

    def _double_quoted(self) -> str:
        begin = self.line
        self.at += 1
        parts: list[bytes] = []
        while True:
            parts.append(self._skip(_DOUBLE_PART).encode())
            if self._here == "\\":
                parts.append(self._escape())
            elif self._here == '"':
                self.at += 1
                return self._joined(parts)
            else:
                raise self._error('the value that begins here has no " at its end', begin)

    def _escape(self) -> bytes:
        found = _ESCAPE.match(self.text, self.at)
        if found is None:
            raise self._error(
                r"only x and two hexadecimal digits, t, n, r, a quote or a backslash may follow a"
                r" backslash; write \\ for a backslash"
            )
        self.at = found.end()
        return bytes.fromhex(found[1]) if found[1] else _ESCAPED[found[2]]

    def _joined(self, parts: list[bytes]) -> str:
        try:
            return b"".join(parts).decode()
        except UnicodeDecodeError:
            raise self._error(r"the bytes that \x gives are not text in UTF-8") from None

    def _lines(self) -> str:
        """Read `(`, lines, and `)` in a line of its own."""
        end = _BLOCK_END.search(self.text, self.at + 1)
        if end is None:
            raise self._error("the ( here has no ) in a line of its own after it")
        found = self.text[self.at + 1 : end.start()]
        self.at = end.end()
        return found

    def _bare_word(self, line: int) -> NatsValue:
        """Read a word without quotes: text, a flag, or a variable."""
        begin = self.at
        text, has_escapes = self._bare_text()
        ends_by_quote = self.text[begin : self.at].endswith("'")
        raw: str | bool = text
        if not has_escapes and not ends_by_quote:
            if text.lower() in (*YES, *NO):
                raw = text.lower() in YES
            elif text.startswith("$") and not text.startswith(f"${BCRYPT}"):
                return self._variable(text[1:], line)
        return NatsValue(raw, self.file, line, self.line)

    def _bare_text(self) -> tuple[str, bool]:
        """Return the text of a word, and whether it had escapes. A ' ends it, and goes with it."""
        parts: list[bytes] = []
        while True:
            parts.append(self._skip(_BARE_PART).encode())
            if self._here == "\\":
                parts.append(self._escape())
                continue
            self.at += self._here == "'"
            return self._joined(parts), len(parts) > 1

    def _number_or_word(self) -> str | int | float | datetime:
        """Read what begins with a digit: a number, a size, a date, an address, or a word."""
        begin = self.at
        digits = self._skip(_DIGITS)
        if not digits:
            raise self._error("a minus is not followed by a digit; put quotes around the value")
        if self._here == ".":
            return self._float_or_address(begin)
        if self._here == "-" and digits[0] != "-":
            return self._date(begin)
        if suffix := self._skip(_SUFFIX):
            if _AFTER_NUMBER.match(self.text, self.at):
                return self._integer(digits, suffix)
        elif digits[0] == "-" or self._here == "]" or _AFTER_NUMBER.match(self.text, self.at):
            return self._integer(digits, "")
        else:
            self.at += 1  # as in nats-server, even if it is a quote
        begun = self.text[begin : self.at]
        return begun + self._bare_text()[0]

    def _integer(self, digits: str, suffix: str) -> int:
        power, unit = POWERS[suffix[:1].lower()], suffix[1:].lower()
        if unit not in ("", "b", "i", "ib"):
            raise self._error(f"{quoted(digits + suffix)} is not a size; give {digits}{suffix[0]}b")
        factor: int = (1024 if unit else 1000) ** power
        number = int(digits[:30]) * factor
        if number not in INTEGERS or len(digits) > 30:
            raise self._error(f"{quoted(digits + suffix)} does not fit into 64 bits")
        return number

    def _float_or_address(self, begin: int) -> str | float:
        for pattern in (_ADDRESS, _FLOAT):
            found = pattern.match(self.text, begin)
            if found is not None:
                self.at = found.end()
                return found[0] if pattern is _ADDRESS else float(found[0])
        raise self._error("the dot of a number is not followed by a digit")

    def _date(self, begin: int) -> datetime:
        found = _DATE.match(self.text, begin)
        try:
            if found is None:
                raise ValueError
            self.at = found.end()
            return datetime.strptime(found[0], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
        except ValueError:
            raise self._error(
                "a value begins like a date, and is none such as 2027-01-31T23:59:59Z; put quotes"
                " around it"
            ) from None

    def _variable(self, name: str, line: int) -> NatsValue:
        for block in reversed(self.blocks):
            if name in block:
                found = block[name]
                found.is_used = True
                return NatsValue(found.raw, self.file, line, line, found.variable)
        if name not in self.environment:
            hint = "put quotes around it, if it is a bcrypt hash; else " if "$" in name else ""
            raise self._error(
                f"{quoted('$' + name)} is neither a key above it nor a variable of the environment;"
                f" {hint}set the variable for this command, too"
            )
        if len(self.opened) >= FILES_MAX:
            raise self._error(f"{quoted('$' + name)} is a variable that leads to too many others")
        text = self.environment[name]
        inner = _NatsReader(f"{KEY_OF_VARIABLE}={text}", self.file, self.environment, self.opened)
        inner.opened = (*self.opened, f"${name}")
        try:
            value = inner.top().get(KEY_OF_VARIABLE)
        except NatsConfigError:
            value = None
        if value is None:
            raise self._error(
                f"the value of the environment variable {quoted(name)} is not one value; put quotes"
                " around it, inside the variable"
            )
        return NatsValue(value.raw, self.file, line, line, name if value.raw == text else "")

    @property
    def _here(self) -> str:
        """The next character; empty at the end."""
        return self.text[self.at : self.at + 1]

    def _skip(self, pattern: re.Pattern[str]) -> str:
        """Go past what matches here; return it."""
        found = pattern.match(self.text, self.at)
        if found is None:
            return ""
        self.at = found.end()
        return found[0]

    @property
    def line(self) -> int:
        """The line of `at`."""
        at, line = self._counted
        if at > self.at:
            at, line = 0, 1
        line += self.text.count("\n", at, self.at)
        self._counted = (self.at, line)
        return line

    def _error(self, what: str, line: int = 0) -> NatsConfigError:
        return NatsConfigError(f"{self.file}:{line or self.line}: {what}")
