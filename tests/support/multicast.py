"""Multicast on loopback, for tests: a listener in a group, and the socket that sends to it.

Each test has its own group and port, so that parallel tests are not heard. The interface is
127.0.0.1 (::1 for IPv6): no route and no privilege is needed.
"""

import itertools
import os
import socket
import struct
import time
from types import TracebackType
from typing import Self

from tests.support.workers import own

WAIT_S = 30.0  # for what must come
IP_MULTICAST_ALL = 49  # Linux: hear groups that other sockets have joined, too
SILENCE = b"nothing more"

PORTS = own(range(20_000, 32_000))  # who binds the wildcard, or captures, has a port alone
_groups = itertools.count()


def new_group(host: str = "239.255") -> tuple[str, int]:
    """A group and a port that no other test has.

    The workers' ids follow each other: so far apart they do not meet before 8009 groups.
    """
    which = os.getpid() * 8009 + next(_groups)
    port = PORTS[which % len(PORTS)]
    if ":" in host:
        return f"{host}:{which >> 8 & 0xFFFF:x}:{which & 0xFFFF:x}", port
    return f"{host}.{which >> 8 & 255}.{which & 255}", port


class Ear:
    """A socket that has joined a group on loopback."""

    def __init__(self, group: tuple[str, int], buffer: int = 4 << 20) -> None:
        self.group = group
        six = ":" in group[0]
        self.socket = socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        self.socket.settimeout(WAIT_S)
        self.socket.bind(group)
        if six:
            joined = socket.inet_pton(socket.AF_INET6, group[0])
            joined += struct.pack("@I", socket.if_nametoindex("lo"))
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, joined)
        else:
            self.socket.setsockopt(socket.IPPROTO_IP, IP_MULTICAST_ALL, 0)
            joined = socket.inet_aton(group[0]) + socket.inet_aton("127.0.0.1")
            self.socket.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, joined)

    def next(self) -> bytes:
        """The next datagram; `TimeoutError` if none comes."""
        return self.socket.recv(1 << 16)

    def take(self, count: int) -> list[bytes]:
        return [self.next() for _ in range(count)]

    def rest(self) -> list[bytes]:
        """All that has come so far: up to a datagram that is sent behind it."""
        with mouth(self.group) as speaker:
            speaker.send(SILENCE)
        found = []
        deadline = time.monotonic() + WAIT_S
        while (datagram := self.next()) != SILENCE:
            found.append(datagram)
            assert time.monotonic() < deadline, "it goes on and on; is its end lost?"
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.socket.close()


def mouth(group: tuple[str, int]) -> socket.socket:
    """A socket that is connected to a group by loopback, as a feed's is."""
    six = ":" in group[0]
    made = socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_DGRAM)
    if six:
        index = socket.if_nametoindex("lo")
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
    else:
        loopback = socket.inet_aton("127.0.0.1")
        made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, loopback)
    made.settimeout(0.02)
    made.connect(group)
    return made
