"""Decides what leaves the process, and when: never before the journal has it.

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
# Everything that a turn of the event loop causes leaves at its end, in this order. In one turn the
# gatherer reads all clients that have sent something by then (broker/clients/gatherer.py):
#
#     one client:   PUB PUB SUB PUB ...          records into the batch, frames into outboxes
#     the next:     PUB PING                     the same batch, the same outboxes
#     release:      1  journal                    Sequencer.release: one write for all of them
#                   2  dirty connections          one write to each socket
#                   3  those that were read       +OKs and answers come after what they promise
#
# The journal always comes first: a number that was seen and then lost would be given twice. So
# `release` must decide for each connection whether it may see what it holds:
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
# `numbered` says whether a connection shows a number since its last release, and `dirty` whether it
# is in the list. A connection is never in `fenced` twice, because `release` checks. connection.py
# draws the positions of one fence.

import cython

from broker.dataplane.connection import Budget, Connection
from broker.dataplane.plane_control import PlaneControl, WaitingPort
from sequencer.sequencer import Sequencer

if not cython.compiled:
    from broker.dataplane.connection import SEGMENT

    SPARE_MAX = 16  # buffers kept for the next turn, up to 512 KiB each


class Gate:
    """One per broker, used together with the plane in the same thread."""

    def __init__(self, sequencer: Sequencer, hold_pending: int) -> None:
        self.sequencer = sequencer
        self.control: PlaneControl  # Plane.attach sets it
        self.budget = Budget()  # of all connections together
        self.hold_pending = hold_pending
        self.catchup_pending = 0  # unsent bytes above which the journal serves it; 0: never
        self.crowded: list[Connection] = []  # connections whose publishers should wait a little
        self.dirty: list[Connection] = []  # connections with something to flush
        self.fenced: list[Connection] = []  # connections that hold what may not be seen yet
        self.slow: list[Connection] = []  # to be disconnected at the release
        self.readers: list[Connection] = []  # that were read in this turn: they are flushed last
        self.spare: list[bytearray] = []
        self.reader: Connection | None = None  # the connection whose input is being served
        self.sync_failed = False  # a sync; the keeper sets it, until one succeeds
        self.port: WaitingPort | None = None  # the cquencer port, if there is one

    def mark_dirty(self, connection: Connection) -> None:
        """Note that this connection has something to flush."""
        connection.dirty = True
        connection.mark = connection.position()
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
        """As `say`, for what shows no number: it does not wait for a sync that cannot come.

        While the disk fails, it passes what is fenced. The answers to a verbose client stay in
        order, because it counts them.
        """
        if not (connection.fenced and self.is_failing()) or connection.verbose:
            return self.say(connection, text)
        if not connection.dirty:
            self.mark_dirty(connection)
        return connection.overtake(text) or self.say(connection, text)

    def is_failing(self) -> bool:
        """Whether nothing that is not safe becomes so before the disk is well again."""
        return self.sync_failed or self.sequencer.stuck

    def make_room(self, connection: Connection, need: int, number: int) -> bool:
        """Make room in an outbox for `need` more bytes; False if the client is too slow, or closed.

        A lagging client is detached if the room is for a numbered message: the journal has that
        one and all that follow.
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
        most = min(self.catchup_pending, connection.max_pending)
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
        """All outboxes together hold too much: write what can be written, or cut the largest."""
        if not connection.fenced:
            self.release(self.reader)
            if not connection.dirty:
                self.mark_dirty(connection)
        if self.budget.is_exceeded():
            self.control.relieve()
        return connection.closed

    def disconnect_slow(self, connection: Connection) -> None:
        """This client is too slow: it gets an error and is disconnected at the release."""
        if not connection.closed:
            connection.closed = True
            self.slow.append(connection)

    def release(self, last: Connection | None) -> None:
        """Release what was caused so far: journal, subscribers, those that were read, `last`."""
        safe = self.sequencer.release()
        for item in self.dirty:
            connection = cython.cast(Connection, item)
            connection.dirty = False
            if connection.numbered:
                connection.numbered = False
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
        """This connection is read in this turn: it gets its output after the others."""
        if not connection.reading:
            connection.reading = True
            self.readers.append(connection)
        return 0

    def release_turn(self) -> None:
        """Release what all connections have caused that were read in this turn."""
        try:
            self.release(None)
        finally:
            for item in self.readers:
                connection = cython.cast(Connection, item)
                connection.reading = False
            self.readers.clear()

    def seal(self) -> None:
        """Everything fenced now may be sent once everything written so far is safe."""
        for item in self.fenced:
            cython.cast(Connection, item).seal()

    def release_safe(self) -> None:
        """Send what was sealed: it is safe."""
        safe = self.sequencer.safe == self.sequencer.number
        fenced = self.fenced
        self.fenced = []
        for item in fenced:
            connection = cython.cast(Connection, item)
            if safe:
                connection.seal()
            if not connection.lower_fence():
                self.fenced.append(connection)
            self._flush(
                connection
            )  # even to one that takes in nothing more: the broker may be stopping
        if self.port is not None:
            self.port.release_safe()

    def _flush(self, connection: Connection) -> None:
        if connection.end or connection.waiting_bytes:
            if not connection.send_at_once():
                connection.session.flush()
            # At most `catchup_pending` of what it holds is numbered: the rest has no numbers.
            crowded = connection.held() > max(self.hold_pending, self.catchup_pending)
            if crowded and not connection.lagging and not connection.detached:
                self.crowded.append(connection)
        if connection.end == 0 and connection.size:
            buffer = connection.take_buffer()
            if len(self.spare) < SPARE_MAX and len(buffer) <= 2 * SEGMENT:
                self.spare.append(buffer)
