"""`seriatim version`: prints the versions of Seriatim and Python, the build, and the event loop."""

import platform

from broker.version import VERSION, MixedBuild, is_compiled
from seriatim.cli.errors import CliError


def facts() -> dict[str, str]:
    """What `seriatim version` prints, line by line. Raises `CliError`."""
    try:
        build = "compiled" if is_compiled() else "uncompiled"
    except MixedBuild as error:
        raise CliError(str(error)) from error
    return {
        "seriatim": VERSION,
        "build": build,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "loop": _loop(),
    }


def _loop() -> str:
    """The event loop that `loop = "auto"` chooses here."""
    from importlib import metadata

    try:
        return f"uvloop {metadata.version('uvloop')}"
    except metadata.PackageNotFoundError:
        return "asyncio"
