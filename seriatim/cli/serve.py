"""`seriatim serve`: checks the settings, then becomes the broker.

The process runs the broker by `exec`: the pid stays, so supervisors and signals see one process,
and the command line's modules do not stay in memory. The settings are passed in a file that exists
only in memory.
"""

import os
import sys
from pathlib import Path
from typing import NoReturn

from broker.settings.settings import Settings, settings_to_json
from seriatim.cli.errors import CliError

# By default glibc raises the size from which memory is mapped (and so given back) as soon as one
# large outbox is freed: then those of a thousand dead subscribers would never be given back.
MALLOC = {"MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_TRIM_THRESHOLD_": "4194304"}
# A member keeps batches of some 256 KiB for a moment, one after another. If each were mapped, the
# pages for it would cost more than all else that is done with it.
MEMBER_MALLOC = {**MALLOC, "MALLOC_MMAP_THRESHOLD_": "1048576"}


def become_broker(settings: Settings) -> NoReturn:
    """Replace this process by the broker. Returns only by raising `CliError`."""
    if not sys.executable:
        raise CliError("cannot start the broker: this Python does not know its own path")
    settings_fd = settings_file(settings)
    command = [
        sys.executable,
        *_interpreter_flags(),
        *("-m", "broker", "--settings-fd", str(settings_fd)),
    ]
    try:
        malloc = MEMBER_MALLOC if settings.cluster.name else MALLOC
        os.execve(sys.executable, command, {**malloc, **os.environ})
    except OSError as error:
        raise CliError(f"cannot start {sys.executable}: {error.strerror}") from error


def settings_file(settings: Settings) -> int:
    """A descriptor that the broker reads its settings from, of a file in memory.

    A pipe would hold only 64 KiB of them.
    """
    settings_fd = os.memfd_create("seriatim-settings", 0)
    with open(settings_fd, "wb", closefd=False) as file:
        file.write(settings_to_json(settings).encode())
    os.lseek(settings_fd, 0, os.SEEK_SET)
    os.set_inheritable(settings_fd, True)
    return settings_fd


def _interpreter_flags() -> list[str]:
    """`-P`, so that a folder `broker` in the working directory is not imported instead of ours."""
    home = str(Path(__file__).resolve().parent.parent.parent)
    return [] if sys.path and sys.path[0] in ("", home) else ["-P"]
