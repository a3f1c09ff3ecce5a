"""The errors of the command line: always clear lines for a person, never a traceback."""


class CliError(Exception):
    """The command cannot go on; `str()` is what the user reads, on standard error."""
