"""The errors of the command line: always clear lines for a person, never a traceback."""

from seriatim.settings.usage import USAGE

FAILED = 1


class CliError(Exception):
    """An error that ends the command; its `str()` is printed on standard error."""

    status = FAILED


class UsageError(CliError):
    """An error of the arguments: unknown, incomplete, or mutually exclusive."""

    status = USAGE
