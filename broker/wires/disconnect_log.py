"""Logs why the broker closed a connection, with a limit on the number of lines.

The reasons below are nats-server's texts for /connz and for a WebSocket's close frame; those of
protocol errors are in parser/errors.py.

Each address gets `most` lines a minute; further ones are counted and reported when the minute is
over. An IPv6 network of 2^64 counts as one address. Memory: `ADDRESSES_MAX` addresses.
"""

import asyncio
import logging
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

from broker.addresses import network_of
from broker.runtime.log_bounds import BOUNDED
from broker.wires.redaction import HIDDEN, hide_object
from parser.errors import quoted

SPAN: Final = 60.0  # seconds
ADDRESSES_MAX: Final = 1024  # all others share one entry
QUOTED_MAX: Final = 64  # bytes of a client's line that are quoted
WHY_MAX: Final = 200  # characters

CLIENT_CLOSED: Final = "Client Closed"
INTERNAL_ERROR: Final = "Internal Error"
OUTCOME_UNKNOWN: Final = "Outcome Unknown"  # of its last messages in a cluster
READ_ERROR: Final = "Read Error"
SERVER_SHUTDOWN: Final = "Server Shutdown"
SLOW_WRITE: Final = "Slow Consumer (Write Deadline)"
TLS_FAILURE: Final = "TLS Handshake Failure"
WEBSOCKET_FAILURE: Final = "WebSocket Handshake Failure"
WRITE_ERROR: Final = "Write Error"

log = logging.getLogger("seriatim")


@dataclass(slots=True)
class _Reported:
    who: str
    lines: int = 0


class DisconnectLog:
    """The log of closed connections, with a limit for each address. One per broker."""

    def __init__(self, loop: asyncio.AbstractEventLoop, most: Callable[[], int]) -> None:
        """`most` returns how many lines an address has in a minute; 0: any number."""
        self._loop = loop
        self._most = most
        self._reported: dict[Hashable, _Reported] = {}
        self._timers: dict[Hashable, asyncio.TimerHandle] = {}

    def tell(self, level: int, ip: str, text: str, *values: object) -> bool:
        """Log a line about a client of this address; False if the address is over its limit."""
        most = self._most()
        if not most:
            log.log(level, text, *values, extra=BOUNDED)
            return True
        key: Hashable = network_of(ip)
        who = ip
        if key not in self._reported and len(self._reported) >= ADDRESSES_MAX:
            key, who = None, "other addresses"
        reported = self._reported.get(key)
        if reported is None:
            reported = self._reported[key] = _Reported(who)
            self._timers[key] = self._loop.call_later(SPAN, self._end, key)
        reported.lines += 1
        if reported.lines > most:
            return False
        log.log(level, text, *values, extra=BOUNDED)
        return True

    def _end(self, key: Hashable) -> None:
        """Report how many lines were left out in this minute."""
        self._timers.pop(key).cancel()
        reported = self._reported.pop(key)
        most = self._most()
        if reported.lines > most:
            log.info(
                "%s - %d more lines about closed or refused clients within a minute left out"
                " (limits.closings_logged is %d)",
                *(reported.who, reported.lines - most, most),
            )

    def stop(self) -> None:
        """Report how many lines were left out so far."""
        for key in list(self._reported):
            self._end(key)


def connect_violation(why: str) -> str:
    """Describe a protocol error in CONNECT for the log, without its arguments.

    They may be credentials.
    """
    return f'Protocol Violation: {why[:WHY_MAX]}: "CONNECT {HIDDEN}"'


def violation(why: str, buffer: bytes | bytearray, at: int, stop: int) -> str:
    """Describe any other protocol error for the log, with the start of the line at `at`.

    The buffer may lack the line's first bytes, which came in an earlier read. So never call this
    for a line that is a CONNECT. The bytes from `stop` on belong to other clients.
    """
    start = buffer.rfind(b"\n", 0, at) + 1
    line = (
        bytes(buffer[start : min(start + QUOTED_MAX + 1, stop)]).partition(b"\n")[0].rstrip(b"\r")
    )
    shown = quoted(hide_object(line[:QUOTED_MAX])).decode("utf-8", "replace")
    more = "..." if len(line) > QUOTED_MAX else ""
    return f"Protocol Violation: {why[:WHY_MAX]}: {shown}{more}"
