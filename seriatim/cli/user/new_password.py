"""A new password and its bcrypt hash.

The password is given as a secret, read from a pipe, generated, or asked for on the terminal.
"""

import os
import sys
from typing import Final

from seriatim.cli.errors import CliError, UsageError
from seriatim.settings.checked import WrongValue
from seriatim.settings.secret_texts import ReferencedSecret, secret_of

SIZE_MAX: Final = 72  # bytes that bcrypt takes into account
INPUT_MAX: Final = 1 << 12
GENERATED: Final = 18  # random bytes: 24 letters


def read_password(given: str, from_stdin: bool, generate: bool) -> str:
    """The new password. `given` is the value of `--password`. Raises `CliError`."""
    ways = {"--password": given, "--password-stdin": from_stdin, "--generate": generate}
    several = [flag for flag, value in ways.items() if value]
    if len(several) > 1:
        raise UsageError(f"give one of {' and '.join(several)}, not both")
    if generate:
        import secrets

        return secrets.token_urlsafe(GENERATED)
    if given:
        return _checked(_secret(given))
    return _checked(_from_stdin() if from_stdin else _asked())


def hashed(password: str, cost: int) -> str:
    """Return the bcrypt hash of a password."""
    import bcrypt

    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(cost)).decode()


def _secret(given: str) -> str:
    """Resolve `file:PATH` or `env:NAME`; plain text is accepted with a warning."""
    try:
        password = secret_of(given)
    except WrongValue as wrong:
        raise CliError(f"--password: {wrong}") from None
    if not isinstance(password, ReferencedSecret):
        print(
            "seriatim: warning: other users of this machine can see a password on the command"
            " line, and the shell keeps it; better give --password file:PATH or env:NAME",
            file=sys.stderr,
        )
    return password


def _from_stdin() -> str:
    content = sys.stdin.buffer.read(INPUT_MAX + 1)
    try:
        return content.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise CliError("the password on standard input is not UTF-8") from None


def _asked() -> str:
    import getpass

    if not sys.stdin.isatty():
        raise CliError(
            "standard input is not a terminal to ask for the password; give --password-stdin to"
            " read it there, or --generate"
        )
    try:
        password = getpass.getpass("Password: ")
        _checked(password)
        if getpass.getpass("Again: ") != password:
            raise CliError("the two passwords differ; nothing is changed")
    except UnicodeDecodeError:
        print(file=sys.stderr)  # the prompt's line has not ended
        raise CliError("the password is not UTF-8") from None
    except KeyboardInterrupt:
        print(file=sys.stderr)
        raise
    return password


def _checked(password: str) -> str:
    if not password:
        raise CliError("the password is empty; give one")
    if not password.isprintable():
        raise CliError(
            "the password has a character that cannot be printed, such as a line end; leave it out"
        )
    size = len(os.fsencode(password))
    if size > SIZE_MAX:
        raise CliError(
            f"the password has {size} bytes; bcrypt takes only the first {SIZE_MAX} into account,"
            " so give a shorter one"
        )
    return password
