"""One connection of a stage: a session to the broker, a client to the test.

A Peer takes the place of the socket. It accepts output while its client reads, leaves it in the
outbox while that is stalled, and feeds input through the broker's own inbox, in any pieces. Other
duties of a session (timers, PING, holding publishers back) are not simulated.
"""

from typing import TYPE_CHECKING

from broker.clients.inbox import Intake
from broker.dataplane.client_session import HeldPublisher
from broker.dataplane.connection import Connection
from broker.dataplane.user import User
from parser import errors
from parser.machine import Parser
from testkit.fence import fenced

if TYPE_CHECKING:
    from testkit.stage import Stage

SLOW = errors.SlowConsumer.reply


class Peer:
    """A connection of a stage. The test calls `send` and `ask` for its client; the plane and the
    control call the rest, as they do with a session.
    """

    label = "peer"
    ip = "192.0.2.1"

    def __init__(self, stage: "Stage", frame: str, max_pending: int) -> None:
        self.stage = stage
        self.listener_frame = frame
        self.options: dict[str, object] = {}
        self.introduced = False
        self.user: User | None = None
        self.warnings: list[str] = []  # what it tried, but is not allowed to
        self.cut_reason = ""
        self.wants_streams = False
        self.connection = Connection(self, Parser(*stage.limits), max_pending)
        self.connection.settle(frame)
        self.connection.origin = self.cid = stage.joined = stage.joined + 1
        self.intake = Intake(stage.inbox)
        self.backlog: bytearray | None = None  # read, to be served in a later turn
        self.socket_room: int | None = None  # bytes that its socket accepts; None: no limit
        self.heard = bytearray()
        self.finished = self.slow = self.gone = False
        self.why = ""  # the broker closed the connection
        self.connects = self.pings = self.pongs = 0
        self.rows = 0  # that it has staged
        self.waits = 0  # until its subscriptions are removed
        self.interruptions = 0  # turns that were cut short because of too much work

    # The part of a session that the plane and the control use

    def flush(self) -> None:
        self.stage.flushed.append(self)
        self.connection.drain(self.write)

    def finish(self, why: str = "", reason: str = "") -> None:
        self.finished = True
        self.why = why

    def depart(self) -> None:
        self.close()

    def warn(self, what: str) -> None:
        self.warnings.append(what)

    def cut_off(self, reason: str = "") -> None:
        self.slow = True
        self.connection.drop_output()
        if not self.gone:
            self.heard += SLOW
        self.close()

    def staged(self, rows: int) -> None:
        self.rows += rows

    def hold(self, publisher: HeldPublisher, seconds: float) -> None:
        raise AssertionError("only a server holds publishers, and a stage has none")

    def wait(self) -> None:
        self.waits += 1

    def proceed(self) -> None:
        self.waits -= 1

    def connected(self) -> None:
        self.connects += 1

    def pinged(self) -> None:
        self.pings += 1

    def ponged(self) -> None:
        self.pongs += 1

    # The session's own part

    def write(self, view: memoryview) -> None:
        """Accept all of it, like a transport, and say whether the socket would accept more."""
        if self.gone:
            return
        self.heard += view
        if self.socket_room is not None:
            self.socket_room -= len(view)
            self.connection.writable = self.socket_room > 0

    def close(self) -> None:
        """Write the rest, and close."""
        self.stage.control.drop(self.connection)
        self.socket_room = None
        self.connection.writable = True
        self.flush()
        self.gone = True

    def read(self, chunk: bytes) -> int:
        """Do one read event, with as much of a chunk as there is room for; return how much."""
        target = self.intake.target()
        at = self.intake.end
        count = min(self.intake.room(), len(chunk))
        assert count > 0, "there is always room to read into"
        target[at : at + count] = chunk[:count]
        self.serve(target, self.intake.filled(count), chunk[:count])
        return count

    def go_on(self) -> None:
        """Serve the input that was left because of too much work."""
        while self.backlog is not None and not self.connection.closed:
            backlog, self.backlog = self.backlog, None
            self.serve(backlog, len(backlog), b"")

    def serve(self, data: bytearray, stop: int, brought: bytes) -> None:
        """Let the plane serve `data[:stop]`, whose last bytes this read event `brought`."""
        plane, parser = self.stage.plane, self.connection.parser
        with fenced(data, 0, stop):
            rest = plane.receive(self.connection, data, stop)
        assert 0 <= rest <= stop, "what is kept lies in the buffer"
        if plane.interrupted:
            self.interruptions += 1
            self.backlog = data[rest:stop]
            self.intake.keep(data, stop, stop, parser)
        elif not self.connection.closed:
            self.intake.keep(data, rest, stop, parser)
        self.served(brought, stop - rest)
        if self.finished and not self.gone:
            self.close()

    def served(self, brought: bytes, left: int) -> None:
        """End a turn that brought these bytes, and left `left` bytes for the next one."""
        if self.stage.replays is not None and self.stage.replays.waits:
            self.stage.replays.advance()

    # The client's part

    def send(self, *chunks: bytes) -> None:
        """Send these chunks as read events; a chunk that is too long comes in several."""
        for chunk in chunks:
            at = 0
            while at < len(chunk) and not self.connection.closed:
                at += self.read(chunk[at:])
                self.go_on()

    def ask(self, *chunks: bytes) -> bytes:
        """Send, and take everything received."""
        self.send(*chunks)
        return self.take()

    def take(self) -> bytes:
        """Return what was received since the last `take`."""
        heard = bytes(self.heard)
        self.heard.clear()
        return heard

    def stall(self, room: int = 0) -> None:
        """Stop reading; the socket still accepts `room` bytes."""
        self.socket_room = room
        self.connection.writable = room > 0

    def resume(self, room: int | None = None) -> bytes:
        """Read again, `room` bytes or everything; returns what had waited."""
        self.read_on(room)
        return self.take()

    def read_on(self, room: int | None = None) -> None:
        """Let the socket accept `room` bytes, or everything."""
        self.socket_room = room
        self.connection.writable = True
        self.flush()
        if self.stage.replays is not None:
            self.stage.replays.wake(self.connection)

    def leave(self) -> None:
        """Disconnect."""
        self.gone = True
        self.stage.control.drop(self.connection)
        self.connection.part()
