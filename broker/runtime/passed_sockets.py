"""Takes the listening sockets that systemd passes to a service (sd_listen_fds).

They are descriptors 3 and up: `$LISTEN_FDS` says how many, and `$LISTEN_PID` for which process.
They stay open in systemd while the service restarts, so clients that come meanwhile wait. The
variables are removed, and the descriptors marked, so that no child takes them for its own.

Only sockets that TCP clients can connect to are of use. Anything else is an error: a broker that
ignored a socket would leave its clients waiting for good.
"""

import os
import socket
from collections.abc import MutableMapping
from typing import Final

FIRST: Final = 3  # as in sd_listen_fds(3)
COUNT, PROCESS, NAMES = "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"
REMEDY: Final = "remove it, or start the broker by its .socket unit"


def passed_sockets(environment: MutableMapping[str, str]) -> list[socket.socket]:
    """Return the sockets, and remove the variables. Raises `OSError` if they cannot be used."""
    said = [environment.pop(name, "") for name in (COUNT, PROCESS, NAMES)]
    count, process = said[:2]
    if not count or not process:
        return []
    for name, value in ((COUNT, count), (PROCESS, process)):
        if not (value.isascii() and value.isdecimal()):
            raise OSError(f'{name}="{value[:32]}" is not a number; {REMEDY}')
    if int(process) != os.getpid():
        return []  # of a parent
    files = os.sysconf("SC_OPEN_MAX")
    if int(count) > files:
        raise OSError(f"{COUNT}={count[:32]} is more than the {files} files of a process; {REMEDY}")
    made: list[socket.socket] = []
    try:
        for fd in range(FIRST, FIRST + int(count)):
            made.append(_checked(fd))
    except BaseException:
        for one in made:
            one.close()
        raise
    return made


def _checked(fd: int) -> socket.socket:
    try:
        os.set_inheritable(fd, False)
    except OSError as error:
        why = f"{COUNT} says that descriptor {fd} is a socket"
        raise OSError(f"{why}, but it is not open: {error.strerror}; {REMEDY}") from error
    try:
        made = socket.socket(fileno=os.dup(fd))  # so that an error leaves the file as it is
    except OSError as error:
        raise OSError(f"descriptor {fd} from systemd is not a socket: {error.strerror}") from error
    is_tcp = made.family in (socket.AF_INET, socket.AF_INET6) and made.type == socket.SOCK_STREAM
    if not is_tcp or not made.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        where = str(made.getsockname())
        made.close()
        raise OSError(
            f"descriptor {fd} from systemd is no TCP socket that listens, but {where}: the .socket"
            " unit needs ListenStream=ADDRESS:PORT, and Accept=no"
        )
    os.close(fd)
    made.setblocking(False)
    return made
