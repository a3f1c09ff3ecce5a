"""Accepts clients, and pauses when file descriptors run short: the journal must always get one.

The number of open files of a process is limited, and sockets count. The last few are reserved for
the journal, staging, monitoring and the log. When a client gets the last one before these, or none
is left, the listening sockets leave the event loop, and clients wait in the kernel's queue. They
are accepted again when a connection has closed. The system always gives the lowest free descriptor,
so the descriptor of a new connection shows how many are in use; nothing is counted.
"""

import asyncio
import errno
import logging
import os
import resource
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from broker.clients.gatherer import Gatherer

log = logging.getLogger("seriatim")

RESERVED = 64  # the journal, staging, monitoring and the log need about 40
ACCEPT_AT_ONCE = 64  # in one turn of the event loop
EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
RETRY_SECONDS = 1.0  # between checks: a file other than a connection may have been closed
CALM = 16  # the shortage is over when a sixteenth of all, or this many, are free again

Admit = Callable[[socket.socket, Any], None]


class Acceptor:
    """The acceptor of all listening sockets. One per broker, for its one thread.

    Clients never get the last `RESERVED` descriptors: half of all at most.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, gatherer: Gatherer) -> None:
        self._loop = loop
        self._gatherer = gatherer  # it waits at the listening sockets
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self.limit = limit if limit != resource.RLIM_INFINITY else 1 << 30
        self.reserved = min(RESERVED, self.limit // 2)
        self.accepting = True
        self._doors: dict[socket.socket, Admit] = {}
        self._at_once = 1  # clients that are likely to wait: each attempt is a system call
        self._reported = False  # in this shortage
        self._timer: asyncio.TimerHandle | None = None
        self._scheduled = False

    @property
    def places(self) -> int:
        """The first reserved descriptor."""
        return self.limit - self.reserved

    def watch(self, listener: socket.socket, admit: Admit) -> None:
        """Accept the clients of this listening socket; the acceptor now owns it.

        Their sockets do not block. On Linux they have TCP_NODELAY from the listening one.
        """
        listener.setblocking(False)
        with suppress(OSError):
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._doors[listener] = admit
        if self.accepting:
            self._open(listener)

    def _open(self, listener: socket.socket) -> None:
        accept = partial(self._accept, listener, int(listener.family))
        self._gatherer.open_door(listener.fileno(), accept)

    def close_listener(self, listener: socket.socket) -> None:
        """Accept no more clients on this socket, and close it."""
        if self._doors.pop(listener, None) is not None:
            self._gatherer.close_door(listener.fileno())
        listener.close()

    def close(self) -> None:
        """Accept no more clients."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for listener in list(self._doors):
            self.close_listener(listener)

    def freed(self) -> None:
        """Accept again soon: a closing connection frees its descriptor in the next turn."""
        if self._reported and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._accept_again)

    def _accept(self, listener: socket.socket, family: int) -> None:
        """Accept those that wait, up to `ACCEPT_AT_ONCE`; most come alone."""
        admit = self._doors[listener]
        for accepted in range(self._at_once):
            try:
                # `accept` does the same, and converts constants to enums: half of its time.
                fd, peer = listener._accept()  # type: ignore[attr-defined]
            except (BlockingIOError, InterruptedError, ConnectionError):
                self._at_once = max(accepted, 1)
                return
            except OSError as error:
                if error.errno not in EXHAUSTED:
                    raise
                self._pause(os.strerror(error.errno))
                return
            connection = socket.socket(family, socket.SOCK_STREAM, 0, fd)
            connection.setblocking(False)
            admit(connection, peer)
            if fd + 1 >= self.places:
                self._pause(f"{self.places} of {self.limit} files are open")
                return
        self._at_once = min(2 * self._at_once, ACCEPT_AT_ONCE)

    def _pause(self, reason: str) -> None:
        if self.accepting:
            self.accepting = False
            for listener in self._doors:
                self._gatherer.close_door(listener.fileno())
        if not self._reported:
            self._reported = True
            log.warning(
                "%s: new clients wait until others have left; the last %d are kept for journal,"
                " monitoring and log; raise the limit (ulimit -n)",
                *(reason, self.reserved),
            )
        if self._timer is None:
            self._timer = self._loop.call_later(RETRY_SECONDS, self._look_again)

    def _look_again(self) -> None:
        self._timer = None
        self._accept_again()

    def _accept_again(self) -> None:
        """Accept clients again if a descriptor is free for one."""
        self._scheduled = False
        if not self._doors:
            return
        free = self._lowest_free()
        if not self.accepting and free < self.places:
            self.accepting = True
            for listener in self._doors:
                self._open(listener)
        elif not self.accepting and self._timer is None:
            self._timer = self._loop.call_later(RETRY_SECONDS, self._look_again)
        if self._reported and free < self.places - min(CALM, self.places // CALM + 1):
            self._reported = False
            log.info("New clients are accepted again")

    def _lowest_free(self) -> int:
        """Return the descriptor that the next client would get."""
        try:
            free = os.dup(next(iter(self._doors)).fileno())
        except OSError:
            return self.limit
        os.close(free)
        return free
