"""The errors of the command line: always clear lines for a person, never a traceback."""

from seriatim.settings.usage import USAGE

FAILED = 1


class CliError(Exception):
    """The command cannot go on; `str()` is what the user reads, on standard error."""

    status = FAILED


class UsageError(CliError):
    """The arguments are wrong: unknown, incomplete, or they exclude each other."""

    status = USAGE
