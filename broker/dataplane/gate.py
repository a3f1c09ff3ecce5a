"""Decides when output leaves the process: never before its messages are in the journal.

    deliver, say -> outbox, dirty --(release: journal first)--> flushed
                                  `-(not safe yet)--> fenced --(release_safe)--> flushed

A turn makes connections dirty. Its release writes the journal, then flushes them. If a number may
be seen only after a sync, or could not be written, the connections that show one are fenced until
the journal's keeper calls `release_safe`. All others are flushed.

If an outbox grows too large, one of three things happens: the journal serves the connection from
now on (`detached`), its publishers are held briefly (`crowded`), or it is disconnected.
"""

# Theory of operation
#
# All output of a turn of the event loop leaves at its end, in this order. In one turn the gatherer
# reads all clients that have sent something by then (broker/clients/gatherer.py):
#
#     one client:   PUB PUB SUB PUB ...          records into the batch, frames into outboxes
#     the next:     PUB PING                     the same batch, the same outboxes
#     release:      1  journal                    Sequencer.release: one write for all of them
#                   2  dirty connections          one write to each socket
#                   3  those that were read       +OKs and answers come after the messages
#
# The journal always comes first: a number that was seen and then lost would be given twice. So
# `release` must decide for each connection if its output may be sent:
#
#     release says     the connection shows     then
#     safe             anything                 it is flushed
#     not safe         no new number            it is flushed (as far as an older fence lets it)
#     not safe         a new number             a fence is raised; flushed up to it
#
# The keeper of the journal moves all fences at once, in this cycle:
#
#     release (unsafe) --> keeper: seal() --> a thread syncs --> keeper: release_safe() --> flushed
#                              ^                                     |
#                              `------ something came meanwhile -----'
#
# `shows_number` is set if a connection shows a number since its last release, and `dirty` if it is
# in the list. A connection is never in `fenced` twice, because `release` checks. connection.py
# draws the positions of one fence.

import cython

from broker.dataplane.connection import Budget, Connection, SpareBuffers
from broker.dataplane.plane_control import PlaneControl, WaitingPort
from broker.runtime.durations import Durations
from sequencer.sequencer import Sequencer

if not cython.compiled:
    from broker.dataplane.connection import SEGMENT
    from broker.runtime.clocks import steady_ns

    LARGE_MIN = 8  # messages that an outbox takes in any case before the journal serves it
    SECOND_NS = 1_000_000_000


class Gate:
    """The flushing of all outboxes. One per broker, in the plane's thread."""

    def __init__(self, sequencer: Sequencer, hold_pending: int) -> None:
        self.sequencer = sequencer
        self.control: PlaneControl  # Plane.attach sets it
        self.budget = Budget()  # of all connections together
        self.hold_pending = hold_pending
        self.catchup_pending = 0  # unsent bytes above which the journal serves it; 0: never
        self.crowded: list[Connection] = []  # connections whose publishers should wait a little
        self.dirty: list[Connection] = []  # connections with something to flush
        self.fenced: list[Connection] = []  # connections with output that may not be seen yet
        self.slow: list[Connection] = []  # to be disconnected at the release
        self.readers: list[Connection] = []  # were read in this turn: they are flushed last
        self.spare = SpareBuffers()
        self.reader: Connection | None = None  # the connection whose input is being served
        self.sync_failed = False  # the keeper sets it when a sync fails, until one succeeds
        self.port: WaitingPort | None = None  # the cquencer port, if there is one
        self.writing = Durations()  # from a message's turn to its place in the journal
        self.counted = 0  # the last number that is among them

    def limit(self, hold_pending: int, catchup_pending: int, pending_total: int) -> None:
        """Change the limits of outboxes: of each, and of all together; 0: none."""
        self.hold_pending = hold_pending
        self.catchup_pending = catchup_pending
        self.budget.limit = pending_total

    def mark_dirty(self, connection: Connection) -> None:
        """Note that this connection has something to flush."""
        connection.dirty = True
        connection.turn_start = connection.position()
        self.dirty.append(connection)

    def say(self, connection: Connection, text: bytes) -> bool:
        """Put bytes that are not a message, or a message of the broker's own, into an outbox."""
        if not connection.dirty:
            self.mark_dirty(connection)
        if not connection.write(text):
            if not self.make_room(connection, len(text), 0):
                return False
            connection.write(text)
        return True

    def say_now(self, connection: Connection, text: bytes) -> bool:
        """Say text that shows no number: it does not wait for a sync that cannot come.

        While the disk fails, it overtakes the fenced bytes. The answers to a verbose client stay
        in order, because it counts them.
        """
        if not (connection.fenced and self.is_failing()) or connection.verbose:
            return self.say(connection, text)
        if not connection.dirty:
            self.mark_dirty(connection)
        return connection.overtake(text) or self.say(connection, text)

    def is_failing(self) -> bool:
        """True while the disk fails: no number becomes safe until it recovers."""
        return self.sync_failed or self.sequencer.stuck

    def is_in_trouble(self) -> bool:
        """True if the disk fails, or publishers are refused: a sync under way may fail.

        Then answers show safe numbers only. One with a newer number might wait for very long.
        """
        return self.is_failing() or self.sequencer.full

    def make_room(self, connection: Connection, need: int, number: int) -> bool:
        """Make room in an outbox for `need` more bytes; False if the client is too slow, or closed.

        A lagging client is detached if the room is for a numbered message: the journal then serves
        that message and all later ones.
        """
        if connection.closed:
            return False
        buffered = connection.buffered()
        full = buffered >= SEGMENT // 2 or connection.held() + need > connection.max_pending
        if connection.writable and buffered and full and not connection.fenced:
            self.release(self.reader)  # it reads: a single turn must not disconnect it
            if not connection.dirty:
                self.mark_dirty(connection)
        held = connection.held()
        most = self.catchup_pending
        if most and number:
            # A reader that keeps up has some large messages on their way.
            most = connection.most_numbered = max(most, LARGE_MIN * need)
        most = min(most, connection.max_pending)
        if self.budget.is_exceeded():
            if number and most:
                most = 1  # detach it, unless it holds nothing
            elif held and self._relieve(connection):  # an empty outbox takes any one message
                return False
        if number and most and held and held + need > most:
            connection.detached = True
            self.control.detached(connection, number)
            return False
        if connection.make_room(need, self.spare):
            return True
        self.disconnect_slow(connection)
        return False

    def _relieve(self, connection: Connection) -> bool:
        """Reduce the memory of all outboxes: write them, then cut off the largest if necessary.

        Return True if this connection was closed by that.
        """
        if not connection.fenced:
            self.release(self.reader)
            if not connection.dirty:
                self.mark_dirty(connection)
        if self.budget.is_exceeded():
            self.control.relieve()
        return connection.closed

    def disconnect_slow(self, connection: Connection) -> None:
        """Disconnect a client that is too slow, at the release, with an error."""
        if not connection.closed:
            connection.closed = True
            self.slow.append(connection)

    def release(self, last: Connection | None) -> None:
        """Release the output so far: journal, subscribers, those that were read, `last`."""
        safe = self.sequencer.release()
        for item in self.dirty:
            connection = cython.cast(Connection, item)
            connection.dirty = False
            if connection.shows_number:
                connection.shows_number = False
                if not safe and not connection.fenced:
                    connection.raise_fence()
                    self.fenced.append(connection)
            if connection is not last and not connection.reading:
                self._flush(connection)
        self.dirty.clear()
        for item in self.readers:
            self._flush(cython.cast(Connection, item))
        if last is not None:
            self._flush(last)
        if not safe:
            self.control.unsafe()
        if self.slow:
            slow = self.slow
            self.slow = []
            for item in slow:
                cython.cast(Connection, item).session.cut_off()

    def reads(self, connection: Connection) -> int:
        """Note that this connection is read in this turn, to flush it after all others."""
        if not connection.reading:
            connection.reading = True
            self.readers.append(connection)
        return 0

    def write_turn(self) -> int:
        """Write what clients have published in this turn, and count how long it waited for that.

        The clock is read once, and only if something was written. What was numbered before the
        turn, such as rows of a batch, came at another time: it is left out.
        """
        sequencer = self.sequencer
        sequencer.release()
        first = max(sequencer.ticked, self.counted)
        if sequencer.written > first and sequencer.batch is not None:
            self.counted = sequencer.written
            waited = (self._steady_ns() - sequencer.steady) * 1e-9
            self.writing.observe(waited, sequencer.written - first)
        return 0

    def _steady_ns(self) -> int:
        if cython.compiled:
            clock_gettime(CLOCK_BOOTTIME, cython.address(now))
            return now.tv_sec * SECOND_NS + now.tv_nsec
        else:
            return steady_ns()

    def release_turn(self) -> None:
        """Release the output caused by all connections that were read in this turn."""
        try:
            self.write_turn()
            self.release(None)
        finally:
            for item in self.readers:
                connection = cython.cast(Connection, item)
                connection.reading = False
            self.readers.clear()

    def seal(self) -> None:
        """Mark all bytes fenced now, to be sent once the records written so far are safe."""
        for item in self.fenced:
            cython.cast(Connection, item).seal()

    def release_safe(self) -> None:
        """Send the sealed bytes, which are safe now."""
        safe = self.sequencer.safe == self.sequencer.number
        fenced = self.fenced
        self.fenced = []
        for item in fenced:
            connection = cython.cast(Connection, item)
            if safe:
                connection.seal()
            if not connection.lower_fence():
                self.fenced.append(connection)
            self._flush(connection)  # even if it takes no new output: the broker may be stopping
        if self.port is not None:
            self.port.release_safe()

    def _flush(self, connection: Connection) -> None:
        if connection.end or connection.waiting_bytes:
            if not connection.send_at_once():
                connection.session.flush()
            # At most `most_numbered` of its bytes are numbered, and what fits into its last buffer:
            # above that the journal serves it, and it must hold no publisher. The rest shows no
            # numbers.
            most = max(self.catchup_pending, connection.most_numbered)
            most = max(self.hold_pending, most + SEGMENT if most else 0)
            crowded = connection.held() > most
            if crowded and not connection.lagging and not connection.detached:
                self.crowded.append(connection)
        if connection.end == 0 and connection.size:
            self.spare.keep(connection.take_buffer())
