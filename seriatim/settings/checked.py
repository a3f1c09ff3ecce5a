"""A setting's values: from text or TOML to a checked value, and back to text.

Every refusal is a `WrongValue` that says what is wrong and what to give instead. `show` is the
inverse of `read`: its output can be put back into a file.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from seriatim.settings.frozen_fields import FrozenFields

FLAG_WORDS: Final = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}
SHOWN_MAX: Final = 60  # characters of a value in a message


class WrongValue(ValueError):
    """An invalid value; the text says why, and what is valid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting: what is allowed, and what it is for. Each table derives its own class."""

    kinds: ClassVar[Mapping[str, "SettingKind"]]

    kind: str
    default: Any
    about: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()

    def read(self, text: str) -> Any:
        """Return the value that a text means. Raises `WrongValue`."""
        return self.check(self._kind.read(self, text))

    def read_native(self, raw: object) -> Any:
        """Return the value that parsed TOML means. Raises `WrongValue`."""
        kind = self._kind
        if isinstance(raw, str) and kind.text_in_file:
            return self.read(raw)
        if isinstance(raw, bool) is (bool in kind.native) and isinstance(raw, kind.native):
            return self.check(kind.make(raw))
        quotes = isinstance(raw, str) and list not in kind.native
        hint = ", without quotes" if quotes else ""
        noun = kind.noun or f"a {self.kind}"
        shown = "this value" if kind.hidden else shown_raw(raw)
        raise WrongValue(f"{shown} is not {noun}; {self.how()}{hint}")

    def check(self, value: Any) -> Any:
        """Return `value` in its canonical form. Raises `WrongValue`."""
        if self._kind.check_first is not None:
            self._kind.check_first(self, value)
        if self.low is not None and self.high is not None and not self.low <= value <= self.high:
            side, edge = ("above", self.high) if value > self.high else ("below", self.low)
            raise WrongValue(
                f"{self.show(value)} is {side} {self.show(edge)}; give {self.allowed()}"
            )
        if self._kind.printable and isinstance(value, str) and not value.isprintable():
            raise WrongValue(f"{value!r} holds a character that cannot be printed; leave it out")
        return self._kind.check(self, value)

    def show(self, value: Any) -> str:
        """Format `value` as text that `read` understands."""
        return self._kind.show(value)

    def allowed(self) -> str:
        """Return the allowed values, in words."""
        if self.choices:
            return ", ".join(self.choices)
        if self._kind.allowed is not None:
            return self._kind.allowed(self)
        if self.low is None or self.high is None:
            return "any text"
        return f"{self.show(self.low)} to {self.show(self.high)}"

    def how(self) -> str:
        """Explain how to write a value."""
        return f"give {self.allowed()}" if self.choices or not self._kind.how else self._kind.how

    @property
    def _kind(self) -> "SettingKind":
        return self.kinds[self.kind]


def _as_it_is(setting: Setting, value: Any) -> Any:
    return value


def _show(value: Any) -> str:
    return str(value if isinstance(value, str) else int(value))


class SettingKind(FrozenFields):
    """A kind of values: how they are read, checked, shown and explained."""

    how: str  # how to write a value; empty: what is allowed
    noun: str = ""  # its name, unless "a" and the kind's name
    native: tuple[type, ...] = (str,)  # its types in TOML
    text_in_file: bool = False  # a file may also contain it as text
    read: Callable[[Setting, str], Any] = _as_it_is
    make: Callable[[Any], Any] = lambda raw: raw  # from TOML's value
    hidden: bool = False  # no message may show a value
    printable: bool = True  # texts must be printable; then a message can show them
    check_first: Callable[[Setting, Any], None] | None = None  # before the bounds are checked
    check: Callable[[Setting, Any], Any] = _as_it_is
    show: Callable[[Any], str] = _show
    allowed: Callable[[Setting], str] | None = None


def list_kind(
    how: str, check: Callable[[Setting, Any], Any], allowed: Callable[[Setting], str]
) -> SettingKind:
    """Make a kind of lists of strings; in a text, with commas or blanks between them."""
    return SettingKind(
        how=how,
        noun="a list",
        native=(list,),
        read=lambda setting, text: tuple(word for word in re.split(r"[,\s]+", text) if word),
        make=tuple,
        check=check,
        show=lambda value: ",".join(map(str, value)),
        allowed=allowed,
    )


def quoted(text: str) -> str:
    """Put `text` in quotes, fit for one line of a message."""
    shown = text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}..."
    return f'"{shown}"' if shown.isprintable() else repr(shown)


def shown_raw(raw: object) -> str:
    """Format a value from TOML for a message."""
    if isinstance(raw, bool):
        return "true" if raw else "false"
    if isinstance(raw, str):
        return quoted(raw)
    if isinstance(raw, dict):
        return "a table"
    return "this list" if isinstance(raw, list) else str(raw)


def closest(word: str, words: "tuple[str, ...] | list[str]") -> str:
    """Return the one of `words` that `word` probably means, or nothing."""
    import difflib  # only needed after an error

    found = difflib.get_close_matches(word, words, n=1)
    return found[0] if found else ""


def _read_flag(setting: Setting, text: str) -> bool:
    word = text.strip().lower()
    if word not in FLAG_WORDS:
        raise WrongValue(f"{quoted(text)} is neither true nor false; {FLAG.how}")
    return FLAG_WORDS[word]


def _check_choice(setting: Setting, value: str) -> None:
    if value not in setting.choices:
        close = closest(value, setting.choices)
        hint = f'; did you mean "{close}"?' if close else ""
        raise WrongValue(f"{quoted(value)} is not one of {', '.join(setting.choices)}{hint}")


def is_text(text: str) -> bool:
    """True if an argument was UTF-8; Python hides other bytes in lone surrogates."""
    return not re.search("[\ud800-\udfff]", text)


TEXT: Final = SettingKind(how="give a string", noun="a string")
CHOICE: Final = SettingKind(how="give one of its words", check_first=_check_choice)
FLAG: Final = SettingKind(
    how="give true or false",
    noun="a flag",
    native=(bool,),
    read=_read_flag,
    show=lambda value: "true" if value else "false",
    allowed=lambda setting: "true, false",
)
