"""`seriatim serve`: check the settings here, then become the broker.

The process that runs the broker is this one with a new program in it (`exec`): the pid
stays, so supervisors and signals see one process, and what the command line needed is
gone from its memory. The settings go through a file that only exists in memory.
"""

import os
import sys
from pathlib import Path
from typing import NoReturn

from broker.settings.settings import Settings, settings_to_json
from seriatim.cli.errors import CliError

# Without these glibc raises the size above which memory is mapped by itself, and so given back, as
# soon as one large outbox is freed; those of a thousand dead readers would never be given back.
MALLOC = {"MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_TRIM_THRESHOLD_": "4194304"}


def become_broker(settings: Settings) -> NoReturn:
    """Replace this process by the broker. Returns only by raising `CliError`."""
    if not sys.executable:
        raise CliError("cannot start the broker: this Python does not know its own path")
    settings_fd = _settings_file(settings_to_json(settings).encode())
    command = [
        sys.executable,
        *_interpreter_flags(),
        *("-m", "broker", "--settings-fd", str(settings_fd)),
    ]
    try:
        os.execve(sys.executable, command, {**MALLOC, **os.environ})
    except OSError as error:
        raise CliError(f"cannot start {sys.executable}: {error.strerror}") from error


def _settings_file(content: bytes) -> int:
    """A descriptor to read `content` from. In memory: a pipe would hold only 64 KiB of it."""
    settings_fd = os.memfd_create("seriatim-settings", 0)
    with open(settings_fd, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(settings_fd, 0, os.SEEK_SET)
    os.set_inheritable(settings_fd, True)
    return settings_fd


def _interpreter_flags() -> list[str]:
    """`-P`, so that a folder `broker` where the user stands is not taken for ours."""
    home = str(Path(__file__).resolve().parent.parent.parent)
    return [] if sys.path and sys.path[0] in ("", home) else ["-P"]
