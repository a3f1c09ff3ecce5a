"""`seriatim serve`: checks the settings, then is the broker, in the same process.

Importing typer takes as long as the rest of the start. So `serve` reads its flags from the one
table of settings, without typer; only its help needs it. A command that has loaded more becomes the
broker by `exec`: the pid stays, and its modules do not stay in memory. The settings are then passed
in a file that exists only in memory.
"""

import contextlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from broker.settings.catalog import LIST_KINDS, SETTINGS, TABLES
from broker.settings.resolve import Effective, resolve
from broker.settings.settings import Settings
from broker.settings.sources import start_to_json
from seriatim import first_listener
from seriatim.cli.errors import CliError
from seriatim.cli.flags import CONFIG, HELP, normalise

# A turn's outboxes are allocated and freed again and again. If the end of the heap went back to the
# system each time, the page faults would cost more than all other work. So the heap is trimmed
# every ten seconds (broker/runtime/trimming.py); longer buffers are mapped, or kept for reuse. By
# default glibc raises the size from which memory is mapped as soon as one large outbox is freed:
# the outboxes of a thousand dead subscribers would never be given back.
MALLOC = {"MALLOC_MMAP_THRESHOLD_": "262144", "MALLOC_TRIM_THRESHOLD_": "67108864"}
# A member keeps batches of some 256 KiB for a moment, one after another.
MEMBER_MALLOC = {**MALLOC, "MALLOC_MMAP_THRESHOLD_": "1048576"}
# The same two for mallopt(3): the variables are read only when a process starts.
MALLOC_PARAMETERS = {"MALLOC_MMAP_THRESHOLD_": -3, "MALLOC_TRIM_THRESHOLD_": -1}
TUNABLES = "GLIBC_TUNABLES"


def settings_of(arguments: list[str], environment: Mapping[str, str]) -> Effective | None:
    """Resolve the settings of `seriatim serve`; None if typer must answer (help, a wrong switch).

    Raises `WrongSettings`.
    """
    done = normalise(arguments, HELP | CONFIG)
    switches = {setting.flag: path for path, setting in SETTINGS.items() if setting.kind == "flag"}
    several = {table.flag: path for path, table in TABLES.items()}
    several |= {one.flag: path for path, one in SETTINGS.items() if one.kind in LIST_KINDS}
    texts = {setting.flag: path for path, setting in SETTINGS.items()}
    flags: dict[str, Any] = {}
    config = None
    for word in done.arguments:
        name, equals, text = word.partition("=")
        if equals and name == "--config":
            config = text
        elif equals and name in several:
            flags.setdefault(several[name], []).append(text)
        elif equals:
            flags[texts[name]] = text
        elif name in switches:
            flags[switches[name]] = True
        elif name.startswith("--no-") and f"--{name[5:]}" in switches:
            flags[switches[f"--{name[5:]}"]] = False
        else:
            return None
    return resolve(flags, environment, config, done.problems)


def be_broker(effective: Effective) -> int:
    """Run the broker in this process, until it ends; return its exit status."""
    tune_malloc(effective.settings, os.environ)
    from broker.launch import launch

    return launch(effective.settings, effective.sources, first_listener.take())


def tune_malloc(settings: Settings, environment: Mapping[str, str]) -> None:
    """Set by mallopt what `become_broker` sets by variables, unless the user has set it."""
    from ctypes import CDLL

    library = CDLL(None)
    for name, value in malloc_of(settings).items():
        if name not in environment and TUNABLES not in environment:
            with contextlib.suppress(AttributeError):  # other C libraries have no such thing
                library.mallopt(MALLOC_PARAMETERS[name], int(value))


def malloc_of(settings: Settings) -> dict[str, str]:
    """The variables for malloc with which a broker runs."""
    return MEMBER_MALLOC if settings.cluster.name else MALLOC


def become_broker(effective: Effective) -> NoReturn:
    """Replace this process by the broker. Returns only by raising `CliError`."""
    if not sys.executable:
        raise CliError("cannot start the broker: this Python does not know its own path")
    settings_fd = settings_file(effective)
    command = [
        sys.executable,
        *_interpreter_flags(),
        *("-m", "broker", "--settings-fd", str(settings_fd)),
    ]
    try:
        os.execve(sys.executable, command, {**malloc_of(effective.settings), **os.environ})
    except OSError as error:
        raise CliError(f"cannot start {sys.executable}: {error.strerror}") from error


def settings_file(effective: Effective) -> int:
    """A descriptor that the broker reads its settings from, of a file in memory.

    A pipe would hold only 64 KiB of them.
    """
    settings_fd = os.memfd_create("seriatim-settings", 0)
    with open(settings_fd, "wb", closefd=False) as file:
        file.write(start_to_json(effective.settings, effective.sources).encode())
    os.lseek(settings_fd, 0, os.SEEK_SET)
    os.set_inheritable(settings_fd, True)
    return settings_fd


def _interpreter_flags() -> list[str]:
    """`-P`, so that a folder `broker` in the working directory is not imported instead of ours."""
    home = str(Path(__file__).resolve().parent.parent.parent)
    return [] if sys.path and sys.path[0] in ("", home) else ["-P"]
