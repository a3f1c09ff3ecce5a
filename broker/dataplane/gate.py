"""What leaves the process, and when: never before the journal has it.

    deliver, say -> outbox, dirty --(release: journal first)--> flushed
                                  `-(not safe yet)--> fenced --(let_out)--> flushed

In a read event links become dirty; its release writes the journal, then flushes them. Where
a number may be seen only when it is synced, or could not be written, the links that show
one are fenced until the store's keeper says `let_out`: nothing else waits.

An outbox that grows too large has one of three ends: the journal serves its link from now
on (`detached`), its publishers are held a little (`crowded`), or it is cut off.
"""

from typing import Any

import cython

from broker.dataplane.link import Budget, Link
from sequencer.sequencer import Sequencer

if not cython.compiled:
    from broker.dataplane.link import SEGMENT

    SPARE_MAX = 16  # stores kept for the next read event: as many links, up to 512 KiB each


class Gate:
    """One per broker, beside the plane, for the same thread."""

    def __init__(self, sequencer: Sequencer, hold_pending: int) -> None:
        self.sequencer = sequencer
        self.control: Any = None
        self.budget = Budget()  # of all links together
        self.hold_pending = hold_pending
        self.catchup_pending = 0  # unsent bytes over which the journal serves a link; 0: never
        self.crowded: list[Link] = []  # links whose publishers should wait a little
        self.dirty: list[Link] = []  # links with something to flush
        self.fenced: list[Link] = []  # links that hold what may not be seen yet
        self.slow: list[Link] = []  # to be closed at the release
        self.spare: list[bytearray] = []
        self.reader: Link | None = None  # the link whose read event this is
        self.port: Any = None  # cquencer's port, where there is one

    def soil(self, link: Link) -> None:
        """This link has something to flush."""
        link.dirty = True
        link.mark = link.position()
        self.dirty.append(link)

    def say(self, link: Link, text: bytes) -> bool:
        """Put what is no message, or a message of the broker's own, into an outbox."""
        if not link.dirty:
            self.soil(link)
        if not link.write(text):
            if not self.make_room(link, len(text), 0):
                return False
            link.write(text)
        return True

    def make_room(self, link: Link, need: int, number: int) -> bool:
        """Room in an outbox for so much more; False if its client is too slow, or closed.

        One that lags is detached, if what needs room is a message with a number: the journal
        has that one, and all that follow.
        """
        if link.closed:
            return False
        stored = link.stored()
        full = stored >= SEGMENT // 2 or link.held() + need > link.max_pending
        if link.writable and stored and full and not link.fenced:
            self.release(self.reader)  # it reads: one read event must not cut it off
            if not link.dirty:
                self.soil(link)
        held = link.held()
        most = min(self.catchup_pending, link.max_pending)
        if self.budget.is_exceeded():
            if number and most:
                most = 1  # the journal serves it from now on, unless it holds nothing
            elif held and self._relieve(link):  # an empty one takes any one message
                return False
        if number and most and held and held + need > most:
            link.detached = True
            self.control.detached(link, number)
            return False
        if link.make_room(need, self.spare):
            return True
        self.cut(link)
        return False

    def _relieve(self, link: Link) -> bool:
        """All outboxes hold too much: write what can be written, or cut off the largest."""
        if not link.fenced:
            self.release(self.reader)
            if not link.dirty:
                self.soil(link)
        if self.budget.is_exceeded():
            self.control.relieve()
        return link.closed

    def cut(self, link: Link) -> None:
        """This one is too slow: it is told so, and closed, at the release."""
        if not link.closed:
            link.closed = True
            self.slow.append(link)

    def release(self, last: Link | None) -> None:
        """Let out what was caused so far: journal, subscribers, then `last`."""
        safe = self.sequencer.release()
        for item in self.dirty:
            link = cython.cast(Link, item)
            link.dirty = False
            if link.numbered:
                link.numbered = False
                if not safe and not link.fenced:
                    link.raise_fence()
                    self.fenced.append(link)
            if link is not last:
                self._flush(link)
        self.dirty.clear()
        if last is not None:
            self._flush(last)
        if not safe:
            self.control.unsafe()
        if self.slow:
            slow = self.slow
            self.slow = []
            for item in slow:
                cython.cast(Link, item).session.cut_off()

    def seal(self) -> None:
        """What is fenced by now may be seen when all that is written by now is safe."""
        for item in self.fenced:
            cython.cast(Link, item).seal()

    def let_out(self) -> None:
        """Let out what was sealed; it is safe."""
        safe = self.sequencer.safe == self.sequencer.number
        fenced = self.fenced
        self.fenced = []
        for item in fenced:
            link = cython.cast(Link, item)
            if safe:
                link.seal()
            if not link.lower_fence():
                self.fenced.append(link)
            self._flush(link)  # one that takes in nothing more, too: the broker may be stopping
        if self.port is not None:
            self.port.let_out()

    def _flush(self, link: Link) -> None:
        if link.end or link.waiting_bytes:
            link.session.flush()
            # Of what has a number no more than `catchup_pending` is ever held: the rest has none.
            crowded = link.held() > max(self.hold_pending, self.catchup_pending)
            if crowded and not link.lagging and not link.detached:
                self.crowded.append(link)
        if link.end == 0 and link.size:
            store = link.take_store()
            if len(self.spare) < SPARE_MAX and len(store) <= 2 * SEGMENT:
                self.spare.append(store)
