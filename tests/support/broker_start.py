"""Starts a broker as `seriatim serve` leaves it: its own process, with its settings in memory.

`seriatim serve` reads flags, variables and a file, and becomes this process by exec. A test that is
about the broker skips the command's half of the start, which is the dearer one. That half is what
tests/seriatim/cli/test_serve.py is about; it also compares both ways to read the arguments.
"""

import sys
from collections.abc import Mapping
from typing import Any

from broker.settings.catalog import SETTINGS, TABLES
from broker.settings.errors import WrongSettings
from broker.settings.resolve import resolve
from broker.settings.settings import Settings
from seriatim.cli.flags import Flag, normalise
from seriatim.cli.serve import settings_file

CONFIG = {"c": Flag("--config", True), "config": Flag("--config", True)}


def settings_of(arguments: list[str], environment: Mapping[str, str]) -> Settings | None:
    """What `seriatim serve` makes of its arguments; None if it would refuse them."""
    done = normalise(arguments, CONFIG)
    flags: dict[str, Any] = {}
    config = None
    switches = {setting.flag: path for path, setting in SETTINGS.items()}
    switches |= {table.flag: path for path, table in TABLES.items()}
    for word in done.arguments:
        name, equals, text = word.partition("=")
        if name == "--config":
            config = text
        elif not equals:
            on = name in switches
            flags[switches[name if on else f"--{name.removeprefix('--no-')}"]] = on
        elif switches[name] in TABLES or SETTINGS[switches[name]].kind in ("list", "endpoints"):
            flags.setdefault(switches[name], []).append(text)
        else:
            flags[switches[name]] = text
    try:
        return resolve(flags, environment, config, done.problems).settings
    except WrongSettings:
        return None


def broker_command(settings: Settings) -> tuple[list[str], int]:
    """The broker's command line, and the descriptor that it must inherit, to be closed here."""
    descriptor = settings_file(settings)
    return [sys.executable, "-P", "-m", "broker", "--settings-fd", str(descriptor)], descriptor
