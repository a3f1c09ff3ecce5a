"""The UDP socket that a feed sends with, connected to its group through its interface.

Errors say which feed cannot be sent and what to do. If an interface goes away and comes back, the
system may treat it as another one: `renew` then replaces the socket.
"""

import errno
import os
import socket
import struct
import sys
from contextlib import suppress

from broker.settings.feed_settings import FeedSettings

SEND_SECONDS = 0.02  # how long a full socket may block the broker; see sequencer/feed/datagrams.py
SO_SNDBUFFORCE = 32  # Linux: beyond net.core.wmem_max, for root


def open_sender(feed: FeedSettings) -> socket.socket:
    """Return a socket that sends to the group. Raises `OSError` with a complete message."""
    six = feed.version == 6
    made = socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_DGRAM)
    try:
        made.settimeout(SEND_SECONDS)
        _enlarge(made, feed.send_buffer)
        (_set_ipv6 if six else _set_ipv4)(made, feed)
        made.connect((feed.group, feed.port))
    except OSError as error:
        made.close()
        by = f" by {feed.interface}" if feed.interface else ""
        raise OSError(f"cannot feed {feed.address}{by}: {_reason(error, feed)}") from error
    return made


def renew(sender: socket.socket, feed: FeedSettings) -> None:
    """Replace `sender` by a new socket with the same descriptor. Raises `OSError`."""
    with open_sender(feed) as fresh:
        os.dup2(fresh.fileno(), sender.fileno(), inheritable=False)


def buffer_bytes(sender: socket.socket) -> int:
    """Return the size of the send buffer, without the half that Linux adds for itself."""
    return sender.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) // 2


def source(sender: socket.socket) -> str:
    """Return the address that the datagrams come from."""
    address: str = sender.getsockname()[0]
    return address


def _enlarge(made: socket.socket, size: int) -> None:
    """Set the size of the send buffer: as root any size, else as much as the system grants."""
    made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)
    if buffer_bytes(made) < size and sys.platform == "linux":
        with suppress(PermissionError):
            made.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, size)


def _set_ipv4(made: socket.socket, feed: FeedSettings) -> None:
    made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, feed.ttl)
    made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, int(feed.loop))
    if feed.interface:
        address, index = bytes(4), 0
        try:
            address = socket.inet_pton(socket.AF_INET, feed.interface)
        except OSError:  # not an address but a name
            index = socket.if_nametoindex(feed.interface)
        by = struct.pack("@4s4si", bytes(4), address, index)  # struct ip_mreqn
        made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, by)


def _set_ipv6(made: socket.socket, feed: FeedSettings) -> None:
    made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, feed.ttl)
    made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_LOOP, int(feed.loop))
    if feed.interface:
        index = socket.if_nametoindex(feed.interface)
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)


def _reason(error: OSError, feed: FeedSettings) -> str:
    reason = error.strerror or str(error)
    if error.errno in (errno.ENODEV, errno.ENXIO) or "no interface" in reason:
        names = ", ".join(name for _, name in socket.if_nameindex())
        return f"there is no such interface; this machine has {names}"
    if error.errno == errno.EADDRNOTAVAIL and feed.interface:
        return "no interface has that address; `ip address` lists the addresses"
    if error.errno == errno.ENETUNREACH and feed.interface:
        why = f"{reason}: the interface is down, or has no address or no route"
        if feed.version == 6:
            why += "; `ip -6 route add local ff00::/8 dev lo table local` makes one on loopback"
        return why
    if error.errno == errno.ENETUNREACH:
        return f"{reason}: there is no route to it; give the interface"
    return reason
