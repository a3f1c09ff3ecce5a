"""Writes records of the journal into one connection's outbox, for replay and catch-up.

    play(connection, sub, number, ...)   from a buffer of records, until the outbox has enough
      walk.next()                        the record, with the right checksum and the next number
      _covered                           True if the filter matches its subject
      outbox_writer.offer                to the outbox, as for a live message

A subscription never gets a number at or below `last_seen`: live messages are not delivered again. A
member of a queue group gets only those messages of the group that were deferred for it. For a
connection with very many subscriptions, one record may be as much work as a thousand; so work is
counted, and bounded.
"""

import cython

from broker.dataplane.connection import Connection
from broker.dataplane.gate import Gate
from broker.dataplane.guard import OpenRequests
from broker.dataplane.outbox_writer import OutboxWriter
from sequencer.journal.record import Walk
from sublist.pattern_set import hears
from sublist.sublist import Sublist
from sublist.subscription import Subscription

if not cython.compiled:
    from broker.dataplane.outcomes import ENDED, FULL, GAP
    from sequencer.journal.layout import RECORD
    from sublist.subject import takes

    OUTBOX = 1 << 18  # bytes in an outbox above which nothing is added
    FEW = 8  # up to this many subscriptions are compared with a subject one by one
    LOOKS_MAX = 1 << 15  # subscriptions looked at in one `play`, in about 3 ms


class ReplayWriter:
    """The writer of journal records into outboxes. One per broker.

    `outcome`, `number` and `found` are the results of the last `play`.
    """

    def __init__(self, gate: Gate, sublist: Sublist, salt: int, checked: bool = True) -> None:
        self.gate = gate
        self.sublist = sublist
        self.walk = Walk(salt, checked)
        self.outbox_writer = OutboxWriter(gate, patient=True)
        self.outcome = 0
        self.number = 0  # the next one wanted
        self.found = 0  # after GAP, the number that came instead
        self.looked = 0  # work of the last `play` apart from that for each record, in offers
        self.messages = 0  # delivered by all replays so far

    def know_salt(self, salt: int) -> None:
        """Set the salt of a new journal. Only while nothing is played."""
        self.walk = Walk(salt, self.walk.checked)

    def play(
        self,
        connection: Connection,
        sub: Subscription | None,
        number: int,
        until: int,
        since: int,
        buffer: bytearray,
        start: int,
        stop: int,
    ) -> int:
        """Deliver from `buffer[start:stop]`, from `number` on; return where it stopped.

        Delivers to `sub`, or without one to all live subscriptions of the connection. `number` 0
        means the first record. Nothing after `until` is delivered (0: no end), and nothing before
        the time `since` (ns). After `LOOKS_MAX` of work it stops as if there were no room, but only
        after at least one record.
        """
        walk = self.walk
        walk.attach(buffer, start, stop)
        self.gate.reader = None
        few = (
            tuple(connection.subs.values()) if sub is None and len(connection.subs) <= FEW else None
        )
        self.looked = -self.sublist.work
        while True:
            if self.looked + self.sublist.work > LOOKS_MAX:
                outcome = FULL
                break
            outcome = walk.next()
            if outcome != RECORD:
                break
            if walk.number != number:
                if walk.number < number:
                    continue
                if number != 0:
                    self.found = walk.number
                    outcome = GAP
                    break
            if until and walk.number > until:
                outcome = ENDED
                break
            if connection.closed or (sub is not None and sub.owner is None):
                outcome = FULL
                break
            heard = walk.time >= since and (connection.echo or walk.origin != connection.origin)
            if heard and not self._hand_out(connection, sub, few):
                outcome = FULL
                break
            number = walk.number + 1
        self.looked += self.sublist.work
        self.outcome = outcome
        self.number = number
        return walk.at

    def _hand_out(
        self, connection: Connection, sub: Subscription | None, few: tuple[Subscription, ...] | None
    ) -> bool:
        """Offer the current record to its subscribers; False if some of them had no room.

        In that case it is offered again later; subscribers that got it do not get it twice.
        """
        if sub is not None:
            return not self._covered(sub) or self._offer(connection, sub)
        if few is None:
            return self._offer_all(connection)
        room = True
        for item in few:
            room = room and self._offer_live(connection, cython.cast(Subscription, item))
        return room

    def _covered(self, sub: Subscription) -> bool:
        """True if a subscription's filter matches the subject of the current record.

        A replay of `>` takes every record, even a subject with an empty token in an older journal.
        """
        walk = self.walk
        subject, size = walk.subject, walk.subject_size
        if sub.denied is not None:
            return hears(sub, bytes(walk.buffer[subject : subject + size]))
        if sub.replay is not None and len(sub.subject) == 1 and sub.subject[0] == ord(">"):
            return True
        return takes(sub.subject, len(sub.subject), walk.data, subject, size)

    def _offer_all(self, connection: Connection) -> bool:
        """Offer to the subscriptions of a connection with many, using the routes to find them."""
        walk = self.walk
        subject = bytes(walk.buffer[walk.subject : walk.subject + walk.subject_size])
        fanout = self.sublist.route(subject).fanout
        count = len(fanout.plain)
        for group in fanout.groups or ():
            count += len(group)
        if len(connection.subs) < count:
            wanted = list(connection.subs.values())
        else:
            wanted = list(fanout.plain)
            for group in fanout.groups or ():
                wanted += group
        self.looked += len(wanted)
        for item in wanted:
            sub = cython.cast(Subscription, item)
            if sub.owner is connection and not self._offer_live(connection, sub):
                return False
        return True

    def _offer_live(self, connection: Connection, sub: Subscription) -> bool:
        """Offer a record to a subscription, unless it got it live; False if there is no room."""
        number = self.walk.number
        if sub.owner is None or sub.replay is not None:
            return True
        if sub.queue is None:
            return number <= sub.last_seen or not self._covered(sub) or self._offer(connection, sub)
        if sub.deferred_numbers:
            while sub.deferred_numbers and sub.deferred_numbers[0] < number:
                sub.deferred_numbers.popleft()
                connection.deferred_numbers -= 1
            if sub.deferred_numbers and sub.deferred_numbers[0] == number:
                heard = sub.denied is None or self._covered(sub)  # the rights may have changed
                if heard and not self._offer(connection, sub):
                    return False
                if sub.deferred_numbers:  # it may have ended with this one
                    sub.deferred_numbers.popleft()
                    connection.deferred_numbers -= 1
        return True

    def _offer(self, connection: Connection, sub: Subscription) -> bool:
        """Put the current record into the outbox; return False, and do nothing, if it is full."""
        if connection.held() > OUTBOX:
            return False
        if not self.outbox_writer.offer(connection, sub, self.walk, None):
            return False
        self.messages += 1
        if self.walk.reply_size and connection.requests is not None and sub.replay is None:
            self._note_request(connection)
        return True

    def _note_request(self, connection: Connection) -> int:
        """Remember a request that a client has received and may respond to; not for a replay."""
        walk, now = self.walk, self.gate.sequencer.steady
        reply = bytes(walk.buffer[walk.reply : walk.reply + walk.reply_size])
        cython.cast(OpenRequests, connection.requests).note(reply, now)
        return 0
