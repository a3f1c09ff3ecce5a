"""Listens on the clients' port while `seriatim serve` is still loading.

Loading takes ten times as long as a client needs to connect, fail, and try its next server. So the
port listens as soon as the interpreter runs. Clients wait in the socket's queue, as they do while
the journal is opened, and the broker greets them when it is ready.

The port is guessed from the flags, the environment and the file, without the modules that really
read settings. A wrong guess does no harm: the broker takes the sockets that its settings ask for,
and closes the rest. Where the words leave a doubt there is no guess. A port that is taken, or a
setting that is wrong, is reported later, by those who know how.

It imports nothing that the interpreter has not loaded, but `_socket`: `socket` alone would take as
long as all of this. So it may import no other module of ours.
"""

import _socket
import os
import stat
from _collections_abc import Mapping  # `collections` is slow to load

BACKLOG = 1024  # connections that wait to be accepted: a whole fleet may reconnect at once
FILE_BYTES_MAX = 1 << 20
# The names of flags, as broker/settings has them.
PORT_FLAGS = ("p", "port")
HOST_FLAGS = ("a", "net", "addr", "host")
CONFIG_FLAGS = ("c", "config")
# Words that make it no broker, or one that must not listen before its cluster lets it.
OTHERS = ("h", "help", "help-all", "help_all")
OTHER_PREFIXES = ("sl", "signal", "cluster")

_listening: list[_socket.socket] = []


def listen(words: list[str], environment: Mapping[str, str]) -> None:
    """Listen where a broker with these flags will; do nothing if that is in doubt, or fails."""
    place = guess(words, environment)
    if place is None:
        return
    host, port = place
    try:
        _listening.append(_listener(host, port))
    except (OSError, OverflowError):
        return


def take() -> list[int]:
    """Hand over the descriptors of the sockets; they listen."""
    taken = [one.detach() for one in _listening]
    _listening.clear()
    return taken


def guess(words: list[str], environment: Mapping[str, str]) -> tuple[str, int] | None:
    """Return the address that these words mean; None if they leave a doubt."""
    if "LISTEN_FDS" in environment or any(
        one.startswith("SERIATIM_CLUSTER") for one in environment
    ):
        return None
    flags: dict[str, str] = {}
    for at, word in enumerate(words):
        written, equals, value = word.partition("=")
        name = written.lstrip("-")
        if not word.startswith("-"):
            continue
        if name in OTHERS or name.startswith(OTHER_PREFIXES):
            return None
        for one in (PORT_FLAGS, HOST_FLAGS, CONFIG_FLAGS):
            if name in one:
                flags[one[-1]] = value if equals else "".join(words[at + 1 : at + 2])
    file: dict[str, str] | None = {}
    config = flags.get("config") or environment.get("SERIATIM_CONFIG")
    if config:
        file = _top_of(config)
    if file is None:
        return None
    port = flags.get("port") or environment.get("SERIATIM_PORT") or file.get("port") or "4222"
    host = flags.get("host") or environment.get("SERIATIM_HOST") or file.get("host") or "0.0.0.0"
    if not (port.isascii() and port.isdecimal() and len(port) <= 5 and port != "0"):
        return None
    return (host, int(port)) if _family(host) else None


def _top_of(path: str) -> dict[str, str] | None:
    """Return the host and the port at the top of a file of settings; None if there is a doubt."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                return None
            text = os.read(fd, FILE_BYTES_MAX).decode("utf-8-sig")
        finally:
            os.close(fd)
    except (OSError, ValueError):
        return None
    if "cluster" in text or '"""' in text or "'''" in text:
        return None
    found: dict[str, str] = {}
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        key = key.strip().strip("\"'")
        if key.startswith("["):
            break
        if equals and key in ("host", "port"):
            value = value.partition("#")[0].strip()
            found[key] = value.strip("\"'") if key == "host" else value
    return found


def _family(host: str) -> int:
    """Return the family of a literal address; 0 for a name."""
    for family in (_socket.AF_INET, _socket.AF_INET6):
        try:
            _socket.inet_pton(family, host)
        except (OSError, ValueError):
            continue
        return family
    return 0


def _listener(host: str, port: int) -> _socket.socket:
    """Listen as broker/addresses.py does: one socket for every interface."""
    if host in ("0.0.0.0", "::"):
        try:
            return _listening_on(_socket.AF_INET6, "::", port, v6only=False)
        except OSError:
            return _listening_on(_socket.AF_INET, "0.0.0.0", port)
    return _listening_on(_family(host), host, port)


def _listening_on(family: int, host: str, port: int, v6only: bool = True) -> _socket.socket:
    made = _socket.socket(family, _socket.SOCK_STREAM)
    try:
        made.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
        if family == _socket.AF_INET6:
            made.setsockopt(_socket.IPPROTO_IPV6, _socket.IPV6_V6ONLY, v6only)
        made.bind((host, port))
        made.listen(BACKLOG)
    except BaseException:
        made.close()
        raise
    return made
