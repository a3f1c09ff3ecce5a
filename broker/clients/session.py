"""One client's connection: output, waiting and closing. Input is read by the gatherer.

asyncio calls the methods of `BufferedProtocol`; clients/gatherer.py serves its input. The
data plane calls `flush` at a release, and `cut_off` for a client that is too slow. The rules of the
protocol are in clients/control.py.
Output goes to the socket at once. The rest that the socket does not take waits in the transport,
which calls `pause_writing` and `resume_writing`; these set `connection.writable`.
"""

import asyncio
import fcntl
import logging
import os
import sys
import termios
import time
from typing import Any, cast

from broker.addresses import peer_ip, shown
from broker.clients.gatherer import ClientInput
from broker.clients.pinging import Pinging
from broker.clients.roster import Roster
from broker.core import Core
from broker.dataplane.backpressure import PausedPublishers
from broker.dataplane.client_session import HeldPublisher
from broker.dataplane.connection import Connection
from broker.dataplane.user import User
from broker.limits.principal import principal_of
from broker.runtime.client_transport import ClientTransport
from broker.runtime.log_formats import ClientLabel
from broker.settings.limits_settings import Limits
from broker.wires.bound_listener import BoundListener
from broker.wires.disconnect_log import (
    CLIENT_CLOSED,
    INTERNAL_ERROR,
    READ_ERROR,
    SERVER_SHUTDOWN,
    SLOW_WRITE,
    WRITE_ERROR,
)
from broker.wires.distinguished_name import Name
from broker.wires.redaction import RedactedReads
from parser import errors
from parser.machine import Parser
from parser.table import START

log = logging.getLogger("seriatim")

DRAINED = 4  # an outbox smaller than this fraction of `hold_pending` has drained


class Session(asyncio.BufferedProtocol):
    """One client's session, from `connection_made` to `connection_lost`."""

    __slots__ = (
        "_backlog",
        "_core",
        "_fd",
        "_gatherer",
        "_held",
        "_late",
        "_linger_timer",
        "_logged",
        "_paused",
        "_pinging",
        "_reader",
        "_reads",
        "_roster",
        "_stall_timer",
        "_stalled_bytes",
        "_transport",
        "_why",
        "cid",
        "claimed",
        "closed_for",
        "connection",
        "cut_reason",
        "held_by",
        "introduced",
        "ip",
        "listener",
        "nonce",
        "options",
        "port",
        "started_at",
        "subscribed",
        "user",
        "wants_streams",
    )

    def __init__(self, core: Core, roster: Roster, listener: BoundListener) -> None:
        self._core = core
        self._roster = roster
        limits = core.settings.limits
        self.listener = listener
        self.cid = 0  # until it is connected
        self.cut_reason = ""  # why it is cut off, unless its own outbox is too large
        self.ip, self.port = "", 0
        self.options: dict[str, Any] = {}
        self.claimed: dict[str, Any] = {}  # the credentials of its last CONNECT with any
        self.introduced = False  # it has sent CONNECT
        self.user: User | None = None  # once it is authenticated
        self.nonce = ""  # for the client to sign, if users have nkeys
        self.started_at = time.time()
        parser = Parser(limits.max_control_line, limits.max_payload)
        self.connection = Connection(self, parser, limits.max_pending, core.plane.gate.budget)
        self.connection.settle(listener.frame)
        self._gatherer = roster.gatherer
        self._reader = ClientInput(
            *(self, self.connection, roster.inbox), core.loop.time(), core.settings.trace
        )
        self._paused = False  # its input stays in the socket
        self._backlog: bytearray | None = None  # input to be served in a later turn
        self._reads = RedactedReads() if core.settings.trace else None  # its input, for the log
        self._why = ""  # why it was closed, for the log
        self.closed_for = ""  # the same in nats-server's words
        self.subscribed = 0  # the number of its subscriptions when it ended
        self.wants_streams = False  # it has asked for JetStream, which is off
        self._logged = False  # the reason was logged at the usual level
        self._late = False  # to be closed when its fenced output may be sent
        self._pinging = Pinging(core, roster.heartbeat)
        self._stalled_bytes = 0
        self._held: PausedPublishers | None = None  # publishers that wait for it
        self.held_by = 0  # how many subscribers or requests this client waits for
        self._linger_timer: asyncio.TimerHandle | None = None
        self._stall_timer: asyncio.TimerHandle | None = None

    # Facts, for the log, monitoring and authentication

    @property
    def label(self) -> ClientLabel:
        """The name of this client in the log."""
        return ClientLabel(shown(self.ip, self.port), self.cid)

    @property
    def listener_frame(self) -> str:
        """The frame of a client that does not choose one."""
        return self.listener.frame

    @property
    def frame(self) -> str:
        """The frame of this client's messages."""
        return self.connection.frame

    @property
    def name(self) -> str:
        """The name that the client gave in CONNECT; `lang` and `version` are similar."""
        return str(self.options.get("name", ""))

    @property
    def user_name(self) -> str:
        """The name of its user; empty without authentication, or with a token."""
        return "" if self.user is None else self.user.name

    @property
    def lang(self) -> str:
        return str(self.options.get("lang", ""))

    @property
    def version(self) -> str:
        return str(self.options.get("version", ""))

    @property
    def kind(self) -> str:
        """`nats` or `websocket`."""
        return self.listener.kind

    @property
    def tls(self) -> tuple[str, str]:
        """The version and the cipher suite of TLS; empty without."""
        return "", ""

    @property
    def tls_first(self) -> bool:
        """True if TLS preceded INFO (`tls_first`); always False for WebSocket."""
        return False

    def certificates(self) -> list[bytes]:
        """Return the certificates that the client has sent (DER), its own first."""
        return []

    @property
    def certificate_names(self) -> tuple[Name, ...]:
        """The user names that its certificate can match."""
        return ()

    @property
    def opening_timeout(self) -> float:
        """The seconds that its handshakes may take; 0 if it has none."""
        return 0.0

    @property
    def pending_bytes(self) -> int:
        """Bytes for this client that its socket has not taken."""
        return self.connection.held() + self._transport.get_write_buffer_size()

    @property
    def last_activity(self) -> float:
        """The time of the client's last input, in Unix time."""
        return time.time() - (self._core.loop.time() - self.heard)

    @property
    def heard(self) -> float:
        """The time of its last input on the loop's clock, which is precise enough for sorting."""
        return self._reader.heard

    # asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        if isinstance(transport, ClientTransport):
            self._fd, peer = transport.fd, transport.peer
        else:
            self._fd = transport.get_extra_info("socket").fileno()
            transport.set_write_buffer_limits(high=0)  # `pause_writing` once anything waits there
            peer = transport.get_extra_info("peername") or (self.ip, 0)
        self.ip, self.port = peer_ip(str(peer[0])), int(peer[1])
        self.cid, self.connection.origin = self._roster.new_client()
        if self._roster.admit(self):
            if log.isEnabledFor(logging.DEBUG):
                log.debug("%s - Client connection created", self.label)
            self._roster.admission.start_timeout(self)
            self._welcome()
        else:
            self._ends(errors.ConnectionsExceeded.reason, errors.ConnectionsExceeded.reason)
            self._turn_away()

    def _welcome(self) -> None:
        """Begin to serve an admitted client."""
        self.connection.fd = self._fd
        self._write(self.info())
        self.measure()
        self._pinging.start_timer(self)
        if isinstance(self._transport, ClientTransport):
            self._begin()
        else:  # uvloop reads after this call, even if paused here
            self._core.loop.call_soon(self._begin)

    def _turn_away(self) -> None:
        """Close a client for which there is no room."""
        self._transport.write(self.info() + errors.ConnectionsExceeded.reply)
        self.depart()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer for the transport, which reads until the gatherer does."""
        reader = self._reader
        if self.connection.closed or reader.discards_input:
            return self._roster.inbox.window  # the input is discarded
        intake = reader.intake
        return memoryview(intake.target())[intake.end : intake.end + intake.room()]

    def buffer_updated(self, nbytes: int) -> None:
        reader = self._reader
        if self.connection.closed or reader.discards_input:
            return  # its input is discarded
        buffer = reader.intake.target()
        stop = reader.intake.filled(nbytes)
        if reader.traced:
            self.log_read(bytes(buffer[stop - nbytes : stop]))
        self._gatherer.serve(reader, buffer, stop)

    def eof_received(self) -> bool:
        self.hung_up()
        return self._late or self.connection.awaited > 0

    def connection_lost(self, exc: Exception | None) -> None:
        self._gatherer.unwatch(self._reader)
        self._fd = self._reader.fd = -1
        self._drop()
        self._ends(str(exc or CLIENT_CLOSED), READ_ERROR if exc else CLIENT_CLOSED)
        self._roster.admission.end(self)
        self._roster.metering.end(self._reader)
        self._roster.session_ended(self)
        self.connection.part()
        self._backlog = None
        if self._stall_timer is not None:
            self._stall_timer.cancel()
        if self._linger_timer is not None:
            self._linger_timer.cancel()
        self._let_publishers_go()
        if not self._logged and log.isEnabledFor(logging.DEBUG):  # a label is made for it
            log.debug("%s - Client connection closed: %s", self.label, self._why)

    def pause_writing(self) -> None:
        self.connection.writable = False
        self._stalled_bytes = self._transport.get_write_buffer_size()
        self.connection.note_unsent(self._stalled_bytes)
        deadline = self._core.settings.limits.write_deadline
        self._stall_timer = self._core.loop.call_later(deadline, self._stalled)

    def resume_writing(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None
        self.connection.note_unsent(0)
        self.connection.writable = True
        self.flush()
        if self._core.replays is not None:
            self._core.replays.wake(self.connection)
        most = self._core.plane.gate.hold_pending // DRAINED
        if self._held is not None and self.connection.held() < most:
            self._held.drained()

    # Input

    def _begin(self) -> None:
        """Hand the socket to the gatherer for reading."""
        if not self._transport.is_closing():
            self._transport.pause_reading()
            self._reader.fd = self._fd
            if not self._paused:
                self._gatherer.watch(self._reader)

    def _pause(self) -> None:
        """Stop reading: leave the client's input in its socket."""
        self._paused = True
        self._transport.pause_reading()
        self._gatherer.unwatch(self._reader)

    def _resume(self) -> None:
        """Read again."""
        self._paused = False
        if self._reader.fd < 0:
            self._transport.resume_reading()
        elif not self._transport.is_closing():
            self._gatherer.watch(self._reader)

    def measure(self) -> None:
        """Start metering the client's messages."""
        self._roster.metering.measure(self._reader)

    def trace(self, on: bool) -> None:
        """Start or stop logging the client's input."""
        if on and self._reads is None:
            amid = self.connection.parser.state != START
            self._reads = RedactedReads(amid, bytes(self._backlog or b""))
        self._reader.traced = on

    def log_read(self, read: bytes) -> None:
        """Log input, without credentials."""
        if self._reads is not None:
            shown = repr(self._reads.shown(read))[1:]  # without the b
            log.debug("%s - <<- %s", self.label, shown)

    def set_aside(self, rest: bytearray) -> None:
        """Keep the rest of the input for a later turn."""
        self._backlog = rest
        self._pause()
        self._gatherer.work_queue.add(principal_of(self), self.resume)

    def outran(self) -> None:
        """Let crowded subscribers hold this publisher, which has outrun them."""
        self._core.hold(self)
        if self.held_by:
            self._pause()

    def resume(self) -> None:
        """Serve the input that was set aside, unless this client must wait; then read again."""
        if self.held_by or self.connection.closed or self._reader.discards_input:
            return
        backlog, self._backlog = self._backlog, None
        if backlog is not None:
            self._gatherer.serve(self._reader, backlog, len(backlog))
        if self.held_by == 0 and self._backlog is None:
            self._resume()

    def hung_up(self) -> None:
        """Send the remaining output and close: the client has closed its side.

        In a cluster this waits for outstanding answers, for `write_deadline` at most.
        """
        self._core.plane.in_order(self.connection, self._leave)
        if not self._transport.is_closing() and self._linger_timer is None:
            deadline = self._core.settings.limits.write_deadline
            self._linger_timer = self._core.loop.call_later(deadline, self._transport.abort)
        self._gatherer.unwatch(self._reader)

    def _leave(self) -> None:
        self._core.plane.release(None)
        self.depart()

    def was_reset(self, error: OSError) -> None:
        """Close: the connection was reset."""
        self._ends(str(error), READ_ERROR)
        self._abort()

    def failed(self, error: Exception) -> None:
        """Close: serving the client has raised an error, which asyncio logs."""
        words = "Fatal error: a client could not be served"
        context = {"message": words, "exception": error, "protocol": self}
        self._core.loop.call_exception_handler(context)
        self._ends(words, INTERNAL_ERROR)
        self._abort()

    # Output

    def flush(self) -> None:
        """Write the outbox as far as the socket takes it; the transport keeps a buffer's rest."""
        self.connection.drain(self._send)
        if self._late and not self.connection.held():
            self.depart()

    def _write(self, data: bytes | memoryview) -> None:
        """Give the transport a copy."""
        self._transport.write(bytes(data))

    def _send(self, view: memoryview) -> None:
        """Write directly to the socket, which saves a copy; give the transport the rest."""
        if self._transport.is_closing():
            return
        try:
            sent = os.write(self._fd, view)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:
            self._write_failed()
            return
        rest = view[sent:]
        if rest:
            # All of its buffer stays with the view: a small rest is copied in any case.
            kept = view.readonly and 4 * len(rest) >= 3 * len(view.obj)  # type: ignore[arg-type]
            self._transport.write(rest if kept else bytes(rest))
            if kept:
                return
        if view.readonly:
            rest.release()
            buffer = view.obj
            view.release()
            if isinstance(buffer, bytearray):
                self._core.plane.gate.spare.keep(buffer)

    def _write_failed(self) -> None:
        self.connection.closed = True
        self._ends(WRITE_ERROR, WRITE_ERROR)
        self._abort()

    def finish(self, why: str, reason: str) -> None:
        """Close after the output so far; the data plane may still be serving the client's input."""
        self._reader.leaving = True
        self.blame(why, reason)

    def warn(self, what: str) -> None:
        """Log an operation that the client has no right to, within `closings_logged` lines."""
        self._roster.closings.tell(logging.WARNING, self.ip, "%s - %s", self.label, what)

    def _ends(self, why: str, reason: str) -> None:
        """Set the reason of the end, unless there is one already."""
        if not self._why:
            self._why, self.closed_for = why, reason

    def blame(self, why: str, reason: str) -> None:
        """Log why the broker closes this connection; `reason` is for /connz and the client."""
        self._why, self.closed_for = why, reason
        text = "%s - Client connection closed: %s"
        self._logged = self._roster.closings.tell(logging.INFO, self.ip, text, self.label, why)

    def cut_off(self, limit: str = "", reason: str = errors.SlowConsumer.reason) -> None:
        """Disconnect a slow consumer: drop its output, and send an error after the last message."""
        most = self._core.settings.limits.max_pending
        why = limit or self.cut_reason or f"MaxPending of {most} Exceeded"
        why = f"Slow Consumer Detected: {why}"
        self._roster.cut_off(self, why)
        self._why, self.closed_for = why, reason
        self.connection.drop_output()
        self._let_publishers_go()
        if not self._transport.is_closing():
            self._write(errors.SlowConsumer.reply)
        self.depart()

    def depart(self) -> None:
        """Give all output to the transport and close, within `write_deadline`.

        Fenced output is sent first if it becomes safe within that time.
        """
        connection = self.connection
        self._drop()
        if self._transport.is_closing():
            return
        connection.fd = -1
        connection.drain(self._write, stalled=True)
        unwritten = self._transport.get_write_buffer_size()
        connection.note_unsent(unwritten)
        self._late = connection.held() > 0
        if not self._late:
            self._gatherer.unwatch(self._reader)
            self._hang_up()
        unwritten = self._transport.get_write_buffer_size()
        if (self._late or unwritten) and self._linger_timer is None:
            deadline = self._core.settings.limits.write_deadline
            self._linger_timer = self._core.loop.call_later(deadline, self._transport.abort)

    def _drop(self) -> None:
        """Stop delivering messages to the client."""
        self.subscribed = self.subscribed or len(self.connection.subs)
        self._core.plane.control.drop(self.connection)

    def _hang_up(self) -> None:
        """Close when the transport has written its buffer."""
        self._transport.close()

    def _stalled(self) -> None:
        """Cut off the client if its socket has taken nothing for `write_deadline`."""
        self._stall_timer = None
        if self._core.keeper is not None:
            return  # the journal can serve it later; PINGs check if it is alive
        waiting = self._transport.get_write_buffer_size()
        deadline = self._core.settings.limits.write_deadline
        if waiting < self._stalled_bytes:
            self._stalled_bytes = waiting
            self._stall_timer = self._core.loop.call_later(deadline, self._stalled)
        elif not self._transport.is_closing():
            self.cut_off(f"WriteDeadline of {deadline:g}s exceeded", SLOW_WRITE)

    # Waiting: a publisher for slow subscribers, a client for its own request

    def wait(self) -> None:
        """Stop serving input until `proceed`."""
        self.held_by += 1

    def proceed(self) -> None:
        """End one `wait`."""
        self.held_by -= 1
        if self.held_by == 0:
            self._core.loop.call_soon(self.resume)

    def staged(self, rows: int) -> None:
        """Count rows that the client has staged as published messages."""
        if self._reader.meter is not None:
            self._reader.meter.charge(rows)

    def hold_back(self) -> None:
        """Stop serving and reading input until `proceed`."""
        self.wait()
        self._pause()

    def hold(self, publisher: HeldPublisher, seconds: float) -> None:
        """Make a publisher wait for this subscriber, for `seconds` at most."""
        if self._held is None:
            self._held = PausedPublishers(self._core.loop, self.connection)
        self._held.hold(publisher, seconds)

    def _let_publishers_go(self) -> None:
        if self._held is not None:
            self._held.release()

    def expel(self, error: type[errors.Fatal], why: str) -> None:
        """Close the client with this error, outside of an operation of its own."""
        self.blame(why, error.reason)
        self._core.plane.send_control(self.connection, error.reply)
        self._core.plane.release(None)
        self.depart()

    def limit(self, limits: Limits) -> None:
        """Apply changed limits to this client."""
        self.connection.max_pending = limits.max_pending
        self.connection.parser.limit(limits.max_control_line, limits.max_payload)

    # INFO, PING and PONG

    def info(self, greeting: bool = False) -> bytes:
        """Return the INFO line for this client."""
        return self._roster.info(self, greeting)

    def connected(self) -> None:
        self._pinging.connected(self)

    def pinged(self) -> None:
        self._pinging.pinged(self)

    def ponged(self) -> None:
        self._pinging.ponged()

    def push_info(self) -> None:
        """Send INFO again, to a client that understands it."""
        self._pinging.push_info(self)

    def beat(self, now: float) -> float:
        """PING a silent client, close a stale one; return when to call again, 0 for never."""
        return self._pinging.beat(self, now)

    @property
    def rtt(self) -> float:
        """The last round trip in seconds, 0 if there was none."""
        return self._pinging.rtt

    # The end

    def take_nothing_more(self) -> None:
        """Discard input from now on. The client still gets answers and messages."""
        self._reader.discards_input = True
        self._resume()

    def start_draining(self) -> None:
        """Put no new output into the outbox, and discard input, which is still read.

        If a socket is closed with unread input, it is reset, and the client loses the output that
        it has not yet received. That would hit every client that is publishing. A lagging client
        is served from the journal until it has everything that was accepted.
        """
        self._reader.discards_input = True
        self.connection.closed = not self.connection.detached
        self._resume()

    def is_drained(self) -> bool:
        """True if the client's side has acknowledged all of the output."""
        if self._fd < 0:
            return True
        if self.pending_bytes or (self.connection.detached and not self.connection.closed):
            return False
        if self._transport.is_closing():
            return True
        unacknowledged = fcntl.ioctl(self._fd, termios.TIOCOUTQ, b"\0\0\0\0")
        return int.from_bytes(unacknowledged, sys.byteorder) == 0

    def close(self, reason: str = SERVER_SHUTDOWN) -> None:
        """Close without an error, as nats-server does when it stops; unsent output is dropped."""
        self._ends(reason, reason)
        self._abort()

    def _abort(self) -> None:
        self.connection.fd = -1
        self._gatherer.unwatch(self._reader)
        self._transport.abort()
