"""The sources of a broker's settings, so that SIGHUP can read them again.

The environment is the process's own. The file in memory that a command hands to the broker has two
lines: the settings, and their sources.
"""

import json
from typing import Any, NamedTuple

from broker.settings.settings import Settings, settings_from_json, settings_to_json


class Sources(NamedTuple):
    """The sources that a command was given, besides the environment."""

    flags: dict[str, Any]  # as `resolve` takes them, by path
    config: str | None  # the file of `--config`
    warnings: tuple[str, ...] = ()  # about settings that were ignored
    lists_clients: bool = False  # at SIGUSR2, as cquencer does


def start_to_json(settings: Settings, sources: Sources) -> str:
    """Encode what a broker's process needs, in two lines."""
    return f"{settings_to_json(settings)}\n{json.dumps(sources)}\n"


def start_from_json(text: bytes) -> tuple[Settings, Sources | None]:
    """Read what `start_to_json` wrote; without sources if there is only the first line."""
    first, _, second = text.partition(b"\n")
    if not second.strip():
        return settings_from_json(first), None
    flags, config, warnings, lists_clients = json.loads(second)
    return settings_from_json(first), Sources(flags, config, tuple(warnings), lists_clients)
