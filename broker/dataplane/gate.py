"""What leaves the process, and when: never before the journal has it.

    deliver, say -> outbox, dirty --(release: journal first)--> flushed
                                  `-(not safe yet)--> fenced --(release_safe)--> flushed

In a read event links become dirty; its release writes the journal, then flushes them. Where
a number may be seen only when it is synced, or could not be written, the links that show
one are fenced until the store's keeper says `release_safe`: nothing else waits.

An outbox that grows too large has one of three ends: the journal serves its link from now
on (`detached`), its publishers are held a little (`crowded`), or it is cut off.
"""

# Theory of operation
#
# All that a read event causes leaves at its end, in one order:
#
#     read event:   PUB PUB SUB PUB ...          records into the batch, frames into outboxes
#     release:      1  journal                    Sequencer.release: one write for all of them
#                   2  dirty connections          one write to each socket
#                   3  the one that was read      its +OKs and answers come after what they promise
#
# The journal comes first, always: a number that was seen and is then lost would be given twice. So
# what `release` must decide for each connection is whether it may see what it holds:
#
#     release says     the connection shows     then
#     safe             anything                 it is flushed
#     not safe         no new number            it is flushed (as far as an older fence lets it)
#     not safe         a new number             a fence is raised; flushed up to it
#
# The keeper of the journal moves the fences, always all of them at once, in this round:
#
#     release (unsafe) --> keeper: seal() --> a thread syncs --> keeper: release_safe() --> flushed
#                              ^                                     |
#                              `------ something came meanwhile -----'
#
# `numbered` says whether a connection shows a number since its last release, `dirty` whether it is
# in the list. A connection is never in `fenced` twice: `release` asks it first. connection.py draws
# the positions of one fence.

from typing import Any

import cython

from broker.dataplane.connection import Budget, Connection
from sequencer.sequencer import Sequencer

if not cython.compiled:
    from broker.dataplane.connection import SEGMENT

    SPARE_MAX = 16  # buffers kept for the next read event: as many links, up to 512 KiB each


class Gate:
    """One per broker, beside the plane, for the same thread."""

    def __init__(self, sequencer: Sequencer, hold_pending: int) -> None:
        self.sequencer = sequencer
        self.control: Any = None
        self.budget = Budget()  # of all links together
        self.hold_pending = hold_pending
        self.catchup_pending = 0  # unsent bytes over which the journal serves a link; 0: never
        self.crowded: list[Connection] = []  # links whose publishers should wait a little
        self.dirty: list[Connection] = []  # links with something to flush
        self.fenced: list[Connection] = []  # links that hold what may not be seen yet
        self.slow: list[Connection] = []  # to be closed at the release
        self.spare: list[bytearray] = []
        self.reader: Connection | None = None  # the link whose read event this is
        self.port: Any = None  # cquencer's port, where there is one

    def mark_dirty(self, connection: Connection) -> None:
        """This link has something to flush."""
        connection.dirty = True
        connection.mark = connection.position()
        self.dirty.append(connection)

    def say(self, connection: Connection, text: bytes) -> bool:
        """Put what is no message, or a message of the broker's own, into an outbox."""
        if not connection.dirty:
            self.mark_dirty(connection)
        if not connection.write(text):
            if not self.make_room(connection, len(text), 0):
                return False
            connection.write(text)
        return True

    def make_room(self, connection: Connection, need: int, number: int) -> bool:
        """Room in an outbox for so much more; False if its client is too slow, or closed.

        One that lags is detached, if what needs room is a message with a number: the journal
        has that one, and all that follow.
        """
        if connection.closed:
            return False
        buffered = connection.buffered()
        full = buffered >= SEGMENT // 2 or connection.held() + need > connection.max_pending
        if connection.writable and buffered and full and not connection.fenced:
            self.release(self.reader)  # it reads: one read event must not cut it off
            if not connection.dirty:
                self.mark_dirty(connection)
        held = connection.held()
        most = min(self.catchup_pending, connection.max_pending)
        if self.budget.is_exceeded():
            if number and most:
                most = 1  # the journal serves it from now on, unless it holds nothing
            elif held and self._relieve(connection):  # an empty one takes any one message
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
        """All outboxes hold too much: write what can be written, or cut off the largest."""
        if not connection.fenced:
            self.release(self.reader)
            if not connection.dirty:
                self.mark_dirty(connection)
        if self.budget.is_exceeded():
            self.control.relieve()
        return connection.closed

    def disconnect_slow(self, connection: Connection) -> None:
        """This one is too slow: it is told so, and closed, at the release."""
        if not connection.closed:
            connection.closed = True
            self.slow.append(connection)

    def release(self, last: Connection | None) -> None:
        """Let out what was caused so far: journal, subscribers, then `last`."""
        safe = self.sequencer.release()
        for item in self.dirty:
            connection = cython.cast(Connection, item)
            connection.dirty = False
            if connection.numbered:
                connection.numbered = False
                if not safe and not connection.fenced:
                    connection.raise_fence()
                    self.fenced.append(connection)
            if connection is not last:
                self._flush(connection)
        self.dirty.clear()
        if last is not None:
            self._flush(last)
        if not safe:
            self.control.unsafe()
        if self.slow:
            slow = self.slow
            self.slow = []
            for item in slow:
                cython.cast(Connection, item).session.cut_off()

    def seal(self) -> None:
        """What is fenced by now may be seen when all that is written by now is safe."""
        for item in self.fenced:
            cython.cast(Connection, item).seal()

    def release_safe(self) -> None:
        """Let out what was sealed; it is safe."""
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
            )  # one that takes in nothing more, too: the broker may be stopping
        if self.port is not None:
            self.port.release_safe()

    def _flush(self, connection: Connection) -> None:
        if connection.end or connection.waiting_bytes:
            connection.session.flush()
            # Of what has a number no more than `catchup_pending` is ever held: the rest has none.
            crowded = connection.held() > max(self.hold_pending, self.catchup_pending)
            if crowded and not connection.lagging and not connection.detached:
                self.crowded.append(connection)
        if connection.end == 0 and connection.size:
            buffer = connection.take_buffer()
            if len(self.spare) < SPARE_MAX and len(buffer) <= 2 * SEGMENT:
                self.spare.append(buffer)
