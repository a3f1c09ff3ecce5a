"""Tells systemd what the broker does (sd_notify): ready, reloading, stopping, and in words.

A service of `Type=notify` or `notify-reload` gets `$NOTIFY_SOCKET`, a datagram socket in the file
system or, with a first byte of `@`, in the abstract namespace. Without it nothing happens. A
service manager that does not listen must not stop a broker, so errors are ignored.
"""

import socket
import time
from collections.abc import Mapping
from contextlib import suppress

VARIABLE = "NOTIFY_SOCKET"


class Notifier:
    """The notifier of one process."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        name = environment.get(VARIABLE, "")
        self._address = f"\0{name[1:]}" if name.startswith("@") else name

    def ready(self, status: str) -> None:
        """Report that the start, or a reload, is done."""
        self._send("READY=1", f"STATUS={status}")

    def reloading(self) -> None:
        """Report that the settings are read again; `ready` must follow."""
        self._send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def status(self, status: str) -> None:
        """Report something else that an operator should see."""
        self._send(f"STATUS={status}")

    def stopping(self, status: str) -> None:
        """Report that the broker stops, which may take a while."""
        self._send("STOPPING=1", f"STATUS={status}")

    def _send(self, *lines: str) -> None:
        if not self._address:
            return
        with suppress(OSError, ValueError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
            one.setblocking(False)
            one.sendto("\n".join(lines).encode(), self._address)
