"""`seriatim version`: prints the versions of Seriatim and Python, the build, and the event loop."""

import platform

from broker.version import VERSION, MixedBuild, is_compiled
from seriatim.cli.errors import CliError


def facts() -> dict[str, str]:
    """Return the lines that `seriatim version` prints. Raises `CliError`."""
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
    """The event loop that a broker uses by default, and the other one if it is installed."""
    from importlib import metadata

    try:
        return f"asyncio; uvloop {metadata.version('uvloop')} is installed (--loop uvloop)"
    except metadata.PackageNotFoundError:
        return "asyncio"
