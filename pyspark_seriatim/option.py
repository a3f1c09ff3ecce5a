"""How one option of the data source is declared, and how its text becomes a value.

name     as the user writes it
kind     servers, text, secret, file, count, ms, bytes, flag, choice, position, subjects,
         subject, pattern
where    all; read (batch and stream); batch; stream; write
kafka    the option of Spark's Kafka source with the same meaning
bounds   of a number, or of a text's length
shown    its default in words, where the value does not tell it
"""

import dataclasses
from collections.abc import Callable
from typing import Any, Final

from pyspark_seriatim import values
from pyspark_seriatim.errors import OptionError
from pyspark_seriatim.values import NUMBER_MAX

TEXT_MAX: Final = 4096


def option(
    name: str,
    kind: str,
    default: Any,
    about: str,
    *,
    where: str = "all",
    kafka: str = "",
    bounds: tuple[int, int] = (1, NUMBER_MAX),
    choices: tuple[str, ...] = (),
    shown: str = "",
) -> Any:
    """Declare one option, with its documentation. A secret is in no repr."""
    metadata = {
        "name": name,
        "kind": kind,
        "about": about,
        "where": where,
        "kafka": kafka,
        "bounds": bounds,
        "choices": choices,
        "shown": shown,
    }
    return dataclasses.field(default=default, metadata=metadata, repr=kind != "secret")


def read_option(field: "dataclasses.Field[Any]", text: str) -> Any:
    """The value of a text. Raises `OptionError`, which never shows a secret."""
    about = field.metadata
    try:
        return READ[about["kind"]](text, about)
    except ValueError as error:
        raise OptionError(f"{about['name']}: {error}") from None


def _read_file(text: str, about: Any) -> str:
    if not text:
        raise ValueError("it is empty; leave it out, or give a value")
    return text


READ: Final[dict[str, Callable[[str, Any], Any]]] = {
    "servers": lambda text, about: values.read_servers(text),
    "count": lambda text, about: values.read_count(text, *about["bounds"]),
    "ms": lambda text, about: values.read_ms(text, *about["bounds"]),
    "bytes": lambda text, about: values.read_bytes(text, *about["bounds"]),
    "flag": lambda text, about: values.read_flag(text),
    "choice": lambda text, about: values.read_choice(text, about["choices"]),
    "position": lambda text, about: values.read_position(text, about["choices"]),
    "subjects": lambda text, about: values.read_subjects(text),
    "subject": lambda text, about: values.read_subject(text),
    "pattern": lambda text, about: values.read_pattern(text),
    "text": lambda text, about: values.read_text(text, 1, min(about["bounds"][1], TEXT_MAX)),
    "file": _read_file,
    "secret": _read_file,
}


def table_line(field: "dataclasses.Field[Any]") -> str:
    """An option's line of the table in the manual."""
    about = field.metadata
    kafka = f"`{about['kafka']}`" if about["kafka"] else ""
    return f"| `{about['name']}` | {_default(field)} | {about['about']} | {kafka} |"


def _default(field: "dataclasses.Field[Any]") -> str:
    if field.metadata["shown"]:
        return str(field.metadata["shown"])
    if isinstance(field.default, bool):
        return str(field.default).lower()
    if isinstance(field.default, tuple):
        return f"`{','.join(field.default)}`"
    return str(field.default) if field.default != "" else "none"
