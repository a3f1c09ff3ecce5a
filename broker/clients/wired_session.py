"""The session of a client with a wire: TLS, WebSocket or both. Plain clients do not use it.

The transport reads until the wire is open, because the gatherer does no handshakes. Then the
gatherer calls `receive`. All output passes through `wrap`; before the wire is open, only its own
bytes and an INFO in plain text are written.
"""

import asyncio
import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from broker.addresses import network_of
from broker.clients.roster import Roster
from broker.clients.session import Session
from broker.core import Core
from broker.limits.fair_queue import FairTurns
from broker.wires.bound_listener import BoundListener
from broker.wires.disconnect_log import (
    CLIENT_CLOSED,
    SERVER_SHUTDOWN,
    TLS_FAILURE,
    WEBSOCKET_FAILURE,
)
from broker.wires.distinguished_name import Name
from broker.wires.wire import ClientWire, FrameFault, WireFault
from parser import errors

log = logging.getLogger("seriatim")

LINGER_S: Final = 1.0  # for a refused client to read why
WRAPPED_MAX: Final = 1 << 18  # bytes wrapped at once, before they go to the socket
OPENING_BYTES: Final = 1 << 14  # bytes for one step of a handshake
REFUSED_MAX: Final = 64  # clients without room that may finish a handshake, to get the error


class Handshakes:
    """The clients in a handshake. One per broker.

    A step of TLS takes up to a millisecond; each turn of the event loop does one, and addresses
    take turns. So a thousand clients that reconnect at once, or that only pretend to, delay other
    clients by no more than that in a turn, and another address's handshake hardly at all. A client
    is not read between its steps, so it waits for one at a time.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.turns = FairTurns(loop)
        self._refused = 0

    def refuse(self) -> bool:
        """Count a client that finishes its handshake only to be refused; False if too many do."""
        if self._refused >= REFUSED_MAX:
            return False
        self._refused += 1
        return True

    def refused(self) -> None:
        """Count a refused client less: it has gone."""
        self._refused -= 1


class WiredSession(Session):
    """A session whose input and output pass through a wire."""

    __slots__ = (
        "_handshakes",
        "_is_open",
        "_is_refused",
        "_opening_timer",
        "_said_all",
        "_wire",
    )

    def __init__(
        self,
        core: Core,
        roster: Roster,
        listener: BoundListener,
        wire: ClientWire,
        handshakes: Handshakes,
    ) -> None:
        super().__init__(core, roster, listener)
        self._wire = wire
        self._handshakes = handshakes
        self._is_open = False
        self._is_refused = False  # no room for the client; the error is sent once the wire is open
        self._said_all = False  # the layers' farewell was sent
        self._opening_timer: asyncio.TimerHandle | None = None

    @property
    def tls(self) -> tuple[str, str]:
        return self._wire.tls if self._is_open else ("", "")

    @property
    def tls_first(self) -> bool:
        is_first = self.listener.kind == "nats" and not self._wire.greets_in_clear
        return self._is_open and is_first

    def certificates(self) -> list[bytes]:
        return self._wire.certificates() if self._is_open else []

    @property
    def certificate_names(self) -> tuple[Name, ...]:
        return self._wire.certificate_names

    @property
    def opening_timeout(self) -> float:
        return self._wire.timeout

    # Opening

    def _welcome(self) -> None:
        if self._wire.greets_in_clear:
            self._transport.write(self.info())
            self._pinging.greeted()
        self._await_opening()

    def _await_opening(self) -> None:
        timeout = self._wire.timeout
        self._opening_timer = self._core.loop.call_later(timeout, self._opening_timed_out)

    def _turn_away(self) -> None:
        if self._wire.greets_in_clear:
            super()._turn_away()
        elif self._handshakes.refuse():
            self._is_refused = True
            self._await_opening()
        else:
            self._abort()  # too many refused clients are in a handshake

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._roster.inbox.window[:OPENING_BYTES]

    def buffer_updated(self, nbytes: int) -> None:
        if self.connection.closed or self._reader.discards_input:
            return
        self._wire.feed(self._roster.inbox.window[:nbytes])
        if self._is_open:
            self._reader.more = True
            self._gatherer.read_on(self._reader)
        else:
            self._transport.pause_reading()
            self._handshakes.turns.add(network_of(self.ip), self.go_on_opening)

    def go_on_opening(self) -> None:
        """Do one step of the handshake."""
        if self._transport.is_closing() or self.connection.closed or self._is_open:
            return
        try:
            is_open = self._wire.open()
        except WireFault as fault:
            self._refuse(fault)
            return
        self._answer()
        if not is_open:
            self._transport.resume_reading()
            return
        self._forget_timer()
        self._is_open = True
        refused, forwarded = self._is_refused, self._wire.forwarded
        if forwarded and not refused and not self._relocate(forwarded):
            reason = errors.ConnectionsExceeded.reason
            self.blame(reason, reason)
            refused = True
        if not self._wire.greets_in_clear:
            self._write(self.info())
        if refused:
            self._write(errors.ConnectionsExceeded.reply)
            self.depart()
            return
        self.measure()
        self._pinging.start_timer(self)
        self._reader.wired = self
        self._reader.more = self._wire.more
        self._begin()

    def _relocate(self, forwarded: Sequence[str]) -> bool:
        """Count the client at the address that its proxy forwarded; False if there is no room."""
        ip = self._roster.client_of(self.ip, forwarded)
        if ip == self.ip:
            return True
        self._roster.places.release(self.ip)
        self.ip = ip
        log.debug("%s - is the client of a proxy", self.label)
        if self._roster.reserve_slot(ip, self):
            return True
        del self._roster.sessions[self.cid]
        return False

    def _opening_timed_out(self) -> None:
        self._opening_timer = None
        if self._wire.opens_late():
            self.go_on_opening()
            return
        reason = TLS_FAILURE if self.listener.kind == "nats" else WEBSOCKET_FAILURE
        self.blame(f"no handshake within {self._wire.timeout:g}s", reason)
        self._abort()

    def _refuse(self, fault: WireFault) -> None:
        """Send the wire's answer to a failed handshake, and close when the peer has read it.

        If a socket is closed with unread input, such as the body of a POST, it is reset, and the
        answer is lost. So input is discarded, until the peer closes or `LINGER_S` have passed.
        """
        self.blame(str(fault), fault.reason)
        self._forget_timer()
        self._answer()
        self._drop()
        with suppress(OSError):  # the peer may have reset it
            self._transport.write_eof()
        self._transport.resume_reading()
        self._opening_timer = self._core.loop.call_later(LINGER_S, self._transport.abort)

    def _forget_timer(self) -> None:
        if self._opening_timer is not None:
            self._opening_timer.cancel()
            self._opening_timer = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_timer()
        super().connection_lost(exc)
        self._wire.closed()
        if self._is_refused:
            self._handshakes.refused()

    # Input

    def receive(self, buffer: bytearray, at: int, most: int) -> int:
        """Read bytes for the protocol; return -1 also if the connection has failed."""
        wire = self._wire
        try:
            with memoryview(buffer)[at : at + most] as target:
                got = wire.receive(self._fd, target)
        except (BlockingIOError, InterruptedError):
            return -1
        except FrameFault as fault:
            self.blame(str(fault), fault.reason)
            return 0  # the input ends here, and earlier operations are answered
        except WireFault as fault:
            self._give_up(fault)
            return -1
        except OSError as error:
            self.was_reset(error)
            return -1
        self._reader.more = wire.more
        if self.connection.writable:  # else the peer does not read, and answers would pile up
            self._answer()
        return got

    def _answer(self) -> None:
        """Send the layers' own output."""
        if not self._transport.is_closing() and (own := self._wire.to_send()):
            self._transport.write(own)

    def resume_writing(self) -> None:
        if self._is_open:
            self._answer()
        super().resume_writing()

    def _give_up(self, fault: WireFault) -> None:
        """Send the wire's answer to a fault of the peer, and close."""
        self.blame(str(fault), fault.reason)
        self.connection.drop_output()
        self._answer()
        self._is_open = False  # so that no more output passes
        self.depart()

    # Output

    def _write(self, data: bytes | memoryview) -> None:
        if not self._is_open:
            return
        with memoryview(data) as view:
            try:
                pieces = self._wire.wrap(view)
            except WireFault as fault:
                self._ends(str(fault), fault.reason)
                self._is_open = False
                return
        self._transport.write(b"".join(pieces))

    def _send(self, view: memoryview) -> None:
        if self._transport.is_closing() or not self._is_open:
            return
        for at in range(0, len(view), WRAPPED_MAX):
            part = view[at : at + WRAPPED_MAX]
            if not self.connection.writable:
                self._write(part)
            elif not self._send_part(part):
                return

    def _send_part(self, view: memoryview) -> bool:
        """Write directly to the socket; give the transport the rest; False if the write failed."""
        try:
            pieces = self._wire.wrap(view)
            sent = (
                os.write(self._fd, pieces[0]) if len(pieces) == 1 else os.writev(self._fd, pieces)
            )
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:
            self._write_failed()
            return False
        left = b"".join(pieces)[sent:] if sent < sum(map(len, pieces)) else b""
        if left:
            self._transport.write(left)
        return True

    def _hang_up(self) -> None:
        if self._is_open and not self._transport.is_closing():
            self._say_farewell(self.closed_for or CLIENT_CLOSED)
        super()._hang_up()

    def _say_farewell(self, reason: str) -> None:
        self._said_all = True
        self._transport.write(self._wire.farewell(reason))

    def close(self, reason: str = SERVER_SHUTDOWN) -> None:
        is_silent = not self._is_open or self._said_all or self._transport.is_closing()
        if not is_silent and not self._transport.get_write_buffer_size():
            with suppress(OSError):  # at once: `close` drops the transport's buffer
                os.write(self._fd, self._wire.farewell(reason))
        super().close(reason)

    def is_drained(self) -> bool:
        """True if the client's side has acknowledged all output, including the layers' farewell."""
        is_drained = super().is_drained()
        if not is_drained or self._said_all or not self._is_open or self._transport.is_closing():
            return is_drained
        self._say_farewell(SERVER_SHUTDOWN)
        return super().is_drained()
