"""A multicast group, and the socket that listens to it."""

import contextlib
import errno
import os
import socket
import struct
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

from seriatim.receiver.arrivals import RUNS
from seriatim.receiver.errors import GroupError

BUFFER_BYTES = 4 << 20  # 1 MiB holds some 2500 datagrams of 160 bytes: 25 ms of 100 000 a second
BUFFER_MAX = (1 << 31) - 1  # the maximum of the socket option
# Linux has these; Python's socket module does not.
IP_MULTICAST_ALL = 49
IPV6_MULTICAST_ALL = 29
SO_RXQ_OVFL = 40
UDP_GRO = 104
IN6_ADDRESSES = Path("/proc/net/if_inet6")


@dataclass(frozen=True, slots=True)
class Group:
    """The group to listen to.

    `interface` is an address of this machine, or the name of an interface; if it is empty, the
    routing table decides. `buffer_bytes` is the size of the kernel's buffer, at most
    net.core.rmem_max. Raises `GroupError` if this is not a multicast group and port.
    """

    group: str
    port: int
    interface: str = ""
    buffer_bytes: int = BUFFER_BYTES

    def __post_init__(self) -> None:
        for name, kind in (
            ("group", str),
            ("port", int),
            ("interface", str),
            ("buffer_bytes", int),
        ):
            value = getattr(self, name)
            if not isinstance(value, kind) or isinstance(value, bool):
                wanted = "a string" if kind is str else "a number"
                raise GroupError(f"a group's {name} must be {wanted}, not {value!r}")
        try:
            address = ip_address(self.group)
        except ValueError as error:
            raise GroupError(
                f'"{self.group}" is not an address; groups are 224.0.0.0 to'
                " 239.255.255.255, and ff00::/8"
            ) from error
        if not address.is_multicast:
            raise GroupError(
                f"{self.group} is not a multicast group; these are 224.0.0.0 to"
                " 239.255.255.255, and ff00::/8"
            )
        if not 0 < self.port < 65536:
            raise GroupError(f"{self.port} is not a port; give 1 to 65535")
        if not 0 < self.buffer_bytes <= BUFFER_MAX:
            raise GroupError(f"buffer_bytes is {self.buffer_bytes}; give 1 to {BUFFER_MAX}")

    def __str__(self) -> str:
        host = f"[{self.group}]" if ":" in self.group else self.group
        return f"{host}:{self.port}" + (f" by {self.interface}" if self.interface else "")


def join(group: Group) -> socket.socket:
    """Return a non-blocking socket that has joined the group, and receives nothing else.

    Other programs may listen to the same group and port, even if they set only SO_REUSEPORT, or
    only SO_REUSEADDR. Raises `GroupError`.
    """
    six = ":" in group.group
    made = socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_DGRAM)
    try:
        made.setblocking(False)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _try(made, socket.SOL_SOCKET, getattr(socket, "SO_REUSEPORT", 15), 1)
        _try(made, socket.SOL_SOCKET, socket.SO_RCVBUF, group.buffer_bytes)
        _try(made, socket.SOL_SOCKET, SO_RXQ_OVFL, 1)
        if RUNS:
            _try(made, socket.IPPROTO_UDP, UDP_GRO, 1)
        index = _index_of(group.interface, six)
        _join(made, group, index)
        made.bind((group.group, group.port, 0, index) if six else (group.group, group.port))
    except OSError as error:
        made.close()
        raise GroupError(f"{group}: {_said(error, group)}") from error
    except GroupError:
        made.close()
        raise
    return made


def rejoined(made: socket.socket, group: Group) -> socket.socket | None:
    """Return a new socket, if the old one hears nothing since its interface was recreated.

    None if the interface is the same one, or there is none now.
    """
    try:
        _join(made, group, _index_of(group.interface, ":" in group.group))
        return join(group)
    except (OSError, GroupError):  # EADDRINUSE: it has already joined on this very interface
        return None


def _join(made: socket.socket, group: Group, index: int) -> None:
    if ":" in group.group:
        _try(made, socket.IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0)
        wanted = socket.inet_pton(socket.AF_INET6, group.group) + struct.pack("@I", index)
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, wanted)
        return
    _try(made, socket.IPPROTO_IP, IP_MULTICAST_ALL, 0)
    wanted = struct.pack("@4s4si", socket.inet_aton(group.group), _local(group.interface), index)
    made.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, wanted)


def _local(interface: str) -> bytes:
    """Return the IPv4 address that selects the interface; 0.0.0.0 if something else does."""
    try:
        return IPv4Address(interface).packed
    except ValueError:
        return bytes(4)


def _index_of(interface: str, six: bool) -> int:
    """Return the interface's index; 0 if an IPv4 address selects it, or nothing."""
    if not interface:
        return 0
    try:
        address = ip_address(interface)
    except ValueError:
        try:
            return socket.if_nametoindex(interface)
        except OSError as error:
            raise GroupError(
                f'there is no interface "{interface}"; there are {_interfaces()}'
            ) from error
    if isinstance(address, IPv6Address) != six:
        family = "IPv6" if six else "IPv4"
        raise GroupError(
            f"{interface} has another address family than the group; give an {family} address"
        )
    if not six:
        return 0
    for line in IN6_ADDRESSES.read_text().splitlines() if IN6_ADDRESSES.exists() else ():
        packed, index, *_ = line.split()
        if bytes.fromhex(packed) == address.packed:
            return int(index, 16)
    raise GroupError(f"{interface} is not an address of this machine; there are {_interfaces()}")


def _interfaces() -> str:
    return ", ".join(name for _, name in socket.if_nameindex())


def _said(error: OSError, group: Group) -> str:
    """Describe the system's error, in words for the user."""
    match error.errno:
        case errno.ENODEV | errno.EADDRNOTAVAIL if group.interface:
            return f"{group.interface} is not an address of this machine, or cannot do multicast"
        case errno.ENODEV | errno.ENETUNREACH | errno.EADDRNOTAVAIL:
            return "no route leads there; give the interface to listen on"
        case errno.EADDRINUSE:
            return "the port is taken by a program that does not share it"
        case errno.ENOBUFS:
            return "the system allows no more groups (net.ipv4.igmp_max_memberships)"
    return os.strerror(error.errno or 0).lower()


def _try(made: socket.socket, level: int, option: int, value: int) -> None:
    """Set an option that some systems do not know, or do not permit."""
    with contextlib.suppress(OSError):
        made.setsockopt(level, option, value)
