"""Addresses of this machine and of peers: how to listen on them, and how to show them.

0.0.0.0 and :: mean every interface, of IPv4 and of IPv6, as in nats-server: one socket serves both.
A peer that uses IPv4 on it is shown with its IPv4 address. A machine without IPv6 listens on IPv4.
A name may stand for several addresses; they all get the same port.

`hold` keeps sockets that clients already wait at, or soon will: those that systemd has passed, and
those that were bound before the store was opened. `open_listeners` takes them before it makes any.
"""

import errno
import socket
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final

EVERYWHERE: Final = ("", "0.0.0.0", "::")
NOT_HERE: Final = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT)
FREE_PORT_TRIES: Final = 16  # attempts for a host with several addresses
HERE: Final = bytes(15) + b"\1"  # ::1
MEANINGS: Final = {  # of the system's words
    errno.EADDRINUSE: "another process has the port",
    errno.EADDRNOTAVAIL: "this machine has no such address",
    errno.EACCES: "ports below 1024 need root, or CAP_NET_BIND_SERVICE",
}
UNRESOLVED: Final = "the name cannot be resolved"
BACKLOG: Final = 1024  # connections that wait to be accepted: a whole fleet may reconnect at once
_MAPPED = "::ffff:"  # how IPv6 writes an IPv4 address


def shown(host: str, port: int) -> str:
    """`host:port`, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def wanted(host: str, port: int) -> str:
    """An address to listen on, for an error message; port 0 or -1 means any free one."""
    return shown(host, port) if port > 0 else f"any free port of {host}"


def cannot_listen(host: str, port: int, error: OSError, flags: str, whom: str = "") -> OSError:
    """The error for an address that cannot be listened on: which, why, and what to give instead."""
    of = f" for {whom}" if whom else ""
    return OSError(
        f"cannot listen on {wanted(host, port)}{of}: {reason_of(error)}; choose another address"
        f" with {flags}"
    )


def overlap(host: str, other: str) -> bool:
    """True if two addresses to listen on would share a port."""
    return host == other or host in EVERYWHERE or other in EVERYWHERE


def is_loopback(host: str) -> bool:
    """True if only this machine can connect there; False for any name other than localhost."""
    ip = peer_ip(host.partition("%")[0])
    if ip == "localhost":
        return True
    with suppress(OSError, ValueError):
        return socket.inet_pton(socket.AF_INET, ip)[0] == 127
    with suppress(OSError, ValueError):
        return socket.inet_pton(socket.AF_INET6, ip) == HERE
    return False


def reason_of(error: OSError) -> str:
    """Return why an address cannot be listened on: the system's words, and what they mean here."""
    said = error.strerror or str(error)
    meaning = UNRESOLVED if isinstance(error, socket.gaierror) else MEANINGS.get(error.errno or 0)
    return f"{said}: {meaning}" if meaning else said


def peer_ip(ip: str) -> str:
    """A peer's address; an IPv4 one as such, even if it came through an IPv6 socket."""
    return ip[len(_MAPPED) :] if ip.startswith(_MAPPED) and "." in ip else ip


@lru_cache(4096)
def network_of(host: str) -> str:
    """Return what counts as one address for every limit: with IPv6, one owner has 2^64 of them."""
    host = peer_ip(host)
    if ":" not in host:
        return host
    packed = socket.inet_pton(socket.AF_INET6, host.partition("%")[0])
    return f"{socket.inet_ntop(socket.AF_INET6, packed[:8] + bytes(8))}/64"


def bound_to(host: str, bound: socket.socket) -> tuple[str, int]:
    """Return where a socket is bound, in its owner's form; one name for every interface."""
    ip, port = bound.getsockname()[:2]
    return (host or "0.0.0.0" if host in EVERYWHERE else ip), port


def open_sockets(
    host: str, port: int, kind: int = socket.SOCK_STREAM, most: int | None = None
) -> list[socket.socket]:
    """Return sockets bound to the host's addresses, at least one, all with the same port.

    Port 0 means any free one. `most` limits the number of addresses. Raises `OSError`.
    """
    if host in EVERYWHERE:
        try:
            return [_bound(socket.AF_INET6, kind, ("::", port), v6only=False)]
        except OSError as error:
            if host == "::" or error.errno == errno.EADDRINUSE:
                raise
            return [_bound(socket.AF_INET, kind, ("0.0.0.0", port))]
    # Python would load the tables of Unicode to encode a text, even this one.
    name = host.encode() if host.isascii() else host
    found = socket.getaddrinfo(name, port, type=kind, flags=socket.AI_PASSIVE)
    places = list(dict.fromkeys((family, place) for family, _, _, _, place in found))[:most]
    for left in reversed(range(FREE_PORT_TRIES)):
        try:
            return _open_all(places, port, kind)
        except OSError as error:
            # A port that is free on one address may be taken on another: then try another port.
            if port or error.errno != errno.EADDRINUSE or not left:
                raise
    raise AssertionError("the last attempt returns or raises")


_held: list[socket.socket] = []


def hold(sockets: Iterable[socket.socket]) -> None:
    """Keep bound sockets for `open_listeners`."""
    _held.extend(sockets)


def take_held() -> list[socket.socket]:
    """Take what was not wanted; the caller closes it."""
    left = _held[:]
    _held.clear()
    return left


def open_listeners(host: str, port: int) -> list[socket.socket]:
    """Return sockets for clients of this address: those that are held, or else new ones.

    Port 0 means any free one. Raises `OSError`.
    """
    if port:
        held = [one for one in _held if _is_at(one, host, port)]
        if held:
            for one in held:
                _held.remove(one)
            return held
    return open_sockets(host, port)


def _is_at(bound: socket.socket, host: str, port: int) -> bool:
    """True if a socket is bound to this address; a name's addresses are all looked up."""
    ip, own = bound.getsockname()[:2]
    if own != port:
        return False
    if ip in EVERYWHERE or host in EVERYWHERE:
        return ip in EVERYWHERE and host in EVERYWHERE
    found = socket.getaddrinfo(host.encode() if host.isascii() else host, port)
    return any(place[0] == ip for _, _, _, _, place in found)


def listen_at(bound: socket.socket) -> None:
    """Let clients connect. A socket that listens keeps its queue, whose length systemd may say."""
    if not bound.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        bound.listen(BACKLOG)


def _open_all(places: list[tuple[Any, Any]], port: int, kind: int) -> list[socket.socket]:
    """Open one socket for each address that this machine has."""
    made: list[socket.socket] = []
    absent: OSError | None = None
    for family, place in places:
        try:
            made.append(_bound(family, kind, (place[0], port, *place[2:])))
        except OSError as error:
            if error.errno in NOT_HERE:
                absent = error
                continue
            for one in made:
                one.close()
            raise
        port = made[0].getsockname()[1]
    if not made:
        assert absent is not None, "a name without addresses is an error of its own"
        raise absent
    return made


def _bound(family: int, kind: int, place: tuple[Any, ...], *, v6only: bool = True) -> socket.socket:
    made = socket.socket(family, kind)
    try:
        made.setblocking(False)
        if kind == socket.SOCK_STREAM:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, v6only)
        made.bind(place)
    except BaseException:
        made.close()
        raise
    return made
