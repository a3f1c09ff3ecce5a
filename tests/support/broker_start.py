"""Starts a broker as `python -m broker`: its own process, with its settings in memory.

`seriatim serve` reads flags, variables and a file, and runs the broker in the same process. A test
that is about the broker skips the command's half of the start. That half is what
tests/seriatim/cli/test_serve.py is about.
"""

import sys
from collections.abc import Mapping

from broker.settings.errors import WrongSettings
from broker.settings.resolve import Effective
from seriatim.cli import serve
from seriatim.cli.serve import settings_file


def settings_of(arguments: list[str], environment: Mapping[str, str]) -> Effective | None:
    """What `seriatim serve` makes of its arguments; None if it would refuse them."""
    try:
        return serve.settings_of(arguments, environment)
    except WrongSettings:
        return None


def broker_command(effective: Effective) -> tuple[list[str], int]:
    """The broker's command line, and the descriptor that it must inherit, to be closed here."""
    descriptor = settings_file(effective)
    return [sys.executable, "-P", "-m", "broker", "--settings-fd", str(descriptor)], descriptor
