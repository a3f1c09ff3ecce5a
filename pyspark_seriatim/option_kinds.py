"""A setting of the data source: the texts it accepts, and its line in the manual.

In Spark a setting is an option: `.option("servers", "127.0.0.1:4222")`. Amounts are written as in
Spark and Kafka: 8m is 8 MiB, and 500 is 500 ms.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from pyspark_seriatim import values
from pyspark_seriatim.errors import OptionError
from pyspark_seriatim.values import NUMBER_MAX
from seriatim.settings.checked import CHOICE, FLAG, Setting, SettingKind, WrongValue, quoted

TEXT_MAX: Final = 4096


def _bounds(setting: Setting) -> tuple[int, int]:
    """The bounds of a number; from 1 on if none are given."""
    return int(setting.low or 0) if setting.low is not None else 1, int(setting.high or NUMBER_MAX)


def _check_text(setting: Setting, text: str) -> str:
    most = getattr(setting, "length_max", TEXT_MAX)
    if not 1 <= len(text) <= most or not text.isprintable():
        raise WrongValue(f"{quoted(text)} is not a string of 1 to {most} printable characters")
    return text


def _check_given(setting: Setting, text: str) -> str:
    """Check a text that may be secret, so it appears in no message."""
    if not text:
        raise WrongValue("it is empty; leave it out, or give a value")
    return text


KINDS: Final[dict[str, SettingKind]] = {
    "flag": FLAG,
    "choice": dataclasses.replace(CHOICE, read=lambda setting, text: text.strip().lower()),
    "count": SettingKind(
        how="give a whole number",
        read=lambda setting, text: values.read_count(text, *_bounds(setting)),
    ),
    "ms": SettingKind(
        how="give milliseconds, or a time such as 30s or 15m",
        read=lambda setting, text: values.read_ms(text, *_bounds(setting)),
    ),
    "bytes": SettingKind(
        how="give bytes, or a size such as 512k or 8m",
        read=lambda setting, text: values.read_bytes(text, *_bounds(setting)),
    ),
    "text": SettingKind(how="give a string", noun="a string", check=_check_text, printable=False),
    "secret": SettingKind(
        how="give a string", noun="a string", check=_check_given, printable=False
    ),
    "file": SettingKind(how="give a path", check=_check_given, printable=False),
    "servers": SettingKind(
        how=f"give {values.ADDRESSES}", read=lambda setting, text: values.read_servers(text)
    ),
    "position": SettingKind(
        how="give a word, a number, or an offset as Spark shows it",
        read=lambda setting, text: values.read_position(text, setting.choices),
    ),
    "subjects": SettingKind(
        how="give subjects with commas between",
        read=lambda setting, text: values.read_subjects(text),
    ),
    "subject": SettingKind(
        how="give a subject",
        read=lambda setting, text: values.read_subject(text),
        printable=False,
    ),
    "regex": SettingKind(
        how="give a regular expression",
        read=lambda setting, text: values.read_regex(text),
        printable=False,
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSetting(Setting):
    """One option: a field of `Options`, and its form for a user of Spark."""

    kinds: ClassVar[Mapping[str, SettingKind]] = KINDS

    field: str  # of `Options`
    name: str  # as the user writes it
    where: str = "all"  # all; read (batch and stream); batch; stream; write
    kafka: str = ""  # the equivalent option of Spark's Kafka source
    shown: str = ""  # its default in words, if the value is not self-explanatory
    length_max: int = TEXT_MAX  # of a text

    def read_option(self, text: str) -> Any:
        """The value of a text. Raises `OptionError`, which never shows a secret."""
        try:
            return self.read(text)
        except WrongValue as error:
            raise OptionError(f"{self.name}: {error}") from None

    def table_line(self) -> str:
        """Return the option's line of the table in the manual."""
        kafka = f"`{self.kafka}`" if self.kafka else ""
        return f"| `{self.name}` | {self._default()} | {self.about} | {kafka} |"

    def _default(self) -> str:
        if self.shown:
            return self.shown
        if isinstance(self.default, bool):
            return str(self.default).lower()
        if isinstance(self.default, tuple):
            return f"`{','.join(self.default)}`"
        return str(self.default) if self.default != "" else "none"


def settings_of(table: type) -> tuple[SparkSetting, ...]:
    """The settings that the fields of a class declare."""
    return tuple(
        SparkSetting(field=field.name, default=field.default, **field.metadata)
        for field in dataclasses.fields(table)
        if field.metadata
    )
