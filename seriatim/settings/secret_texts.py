"""The kind of setting that is secret: a text that appears in no output.

password = "env:BROKER_PASSWORD"        the value of an environment variable
password = "file:/run/secrets/broker"   the content of a file, without its last line end
password = "anything else"              itself
"""

import os
from typing import Final

from seriatim.settings.checked import Setting, SettingKind, WrongValue, quoted
from seriatim.settings.regular_file import read_regular


class ReferencedSecret(str):
    """A secret that the configuration only refers to, by `env:` or `file:`."""

    __slots__ = ()


HIDDEN: Final = "[REDACTED]"
FROM_ENVIRONMENT, FROM_FILE = "env:", "file:"
FILE_MAX: Final = 1 << 16  # bytes


def secret_of(text: str) -> str:
    """Return the secret that a text stands for. Raises `WrongValue`, which never shows one."""
    if text.startswith(FROM_ENVIRONMENT):
        name = text.removeprefix(FROM_ENVIRONMENT)
        found = os.environ.get(name, "")
        if not found:
            raise WrongValue(f"the environment variable {quoted(name)} is not set, or empty")
        return ReferencedSecret(found)
    if text.startswith(FROM_FILE):
        return ReferencedSecret(_content_of(text.removeprefix(FROM_FILE)))
    return text


def _content_of(path: str) -> str:
    try:
        content = read_regular(path, FILE_MAX)
    except OSError as error:
        raise WrongValue(f"{quoted(path)} cannot be read: {error.strerror}") from None
    except ValueError:  # a zero byte in it
        raise WrongValue(f"{quoted(path)} cannot be the name of a file") from None
    if content is None:
        raise WrongValue(f"{quoted(path)} is not a regular file; give a file with the secret")
    if len(content) > FILE_MAX:
        raise WrongValue(f"{quoted(path)} is longer than 64 KiB, so it does not hold a secret")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise WrongValue(f"{quoted(path)} is not a file of text") from None
    secret = text.removesuffix("\n").removesuffix("\r")
    if not secret:
        raise WrongValue(f"{quoted(path)} is empty")
    return secret


def _check(setting: Setting, value: str) -> str:
    if value == HIDDEN:
        raise WrongValue(f"{HIDDEN} stands for a secret that is not shown; give the secret itself")
    secret = secret_of(value)
    if not secret.isprintable():
        raise WrongValue("it holds a character that cannot be printed; leave it out")
    return secret


SECRET: Final = SettingKind(
    how="give a string, or env:NAME or file:PATH that holds it",
    noun="a string",
    hidden=True,
    printable=False,
    check=_check,
    show=lambda value: HIDDEN if value else "",
    allowed=lambda setting: "any text, env:NAME, file:PATH",
)
