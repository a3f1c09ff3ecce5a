"""The plane of a member: publishes go to the order of the cluster, and come back when committed.

    receive  PUB --> submit --> Numbering.take       a place in the forward table, and no number yet
    direct   to an excluded subject --> here at once, and to the other members (DirectExchange)
    deliver  committed records --> _fan_out          as a single broker does, in the same order
             answers: +OK, the number, PONG          as soon as the publish before them is committed
    in_order whatever else a client sends            after the answers to what it sent before

A client gets the same bytes as from a single broker. So after a publish that is not committed yet,
its other operations wait in line: SUB, requests, and every refusal. Only publishes go on.

Only committed messages enter an outbox, because nothing can be taken back from there. So this
plane's own sequencer has no journal. It counts the delivered messages, and the parts around it
(replays, `$SEQ.` requests, INFO) see only those.

Published messages are often not delivered here yet. A subscription made meanwhile is *late* for
them: it is in the sublist, for the broker's own answers, but gets only the messages after them
(rule 15 of sequencer.replica.member). Its `last_seen` says where it begins.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

import cython

from broker.cluster.direct_block import DirectBlock, DirectWalk
from broker.cluster.group_shares import GroupShares
from broker.dataplane.connection import Connection
from broker.dataplane.plane import Plane
from sequencer.journal.record import Walk
from sequencer.message import Message
from sequencer.msgids import id_of
from sequencer.replica.numbering import Numbering
from sequencer.sequencer import Sequencer
from sublist.route import Route
from sublist.sublist import Sublist
from sublist.subscription import Subscription

if not cython.compiled:
    from broker.cluster.direct_block import packed_group
    from broker.dataplane.kinds import EXCLUDED, ORDINARY
    from broker.dataplane.reply_publisher import under
    from sequencer.journal.layout import ID_FLAG, RECORD

    SCOPED_ID = 3  # ID_FLAG, and the flag of an id that counts for its subject only
    CONTROL_WORK = 64
    WORK_MAX = 1 << 17
    TURN_BYTES = 1 << 20  # published in one turn; then the driver sends and receives
    OVERFULL = 4  # times the bytes at which publishers wait; beyond, publishes are refused
    LATE_MIN = 1024  # late subscriptions that are kept before a review
    ANSWER_BYTES = 128  # counted for each waiting answer: a tuple, and its reply subject
    LINE_MAX = 64  # actions of one client that wait in line; then the rest of its input waits
    MASK32 = 0xFFFFFFFF
    COPY_SHIFT = 7
    COPY_MAX = 1024  # bytes of a request that is copied to wait; after more, the input waits

UNKNOWN = (1 << 63) - 1  # where a subscription begins, until the member knows it
CONFIRM = 0  # +OK
NUMBER = 1  # the number, to a reply subject
ACTION = 2  # a call


class ClusterPlane(Plane):
    """The plane of a cluster member. One per member, for its one thread."""

    def __init__(self, sublist: Sublist, hold_pending: int) -> None:
        super().__init__(sublist, Sequencer(), hold_pending)
        self.numbering: Numbering  # from `join` on
        self.run = 0
        self.bytes_max = 0
        self.walk = Walk(0, False)  # the log has checked what it reads
        self.asked = Message()  # only its number and reply are used
        self.waiting: deque[tuple[int, int, Connection, Any]] = deque()  # answers, by place
        self.answer_bytes = 0
        self.actions: dict[Connection, int] = {}  # how many actions are in `waiting`
        self.crowding: set[Connection] = set()  # clients whose input waits for their actions
        self.paused: dict[Connection, deque[tuple[int, Any, int]]] = {}  # answers after a PONG
        self.is_behind_own = False  # the action has waited for its client's own publish
        self.acting: Connection | None = None  # the client whose action is running
        self.forgotten = 0  # the table keeps no numbers up to this place
        self.mutes: dict[int, Connection] = {}  # publishers that do not get their own messages
        self.held: list[Connection] = []  # publishers that wait for room in the forward table
        self.is_full = False  # the core can take no more, so publishers wait
        self.turn_bytes = 0  # published since the driver's last flush
        self.flushing = False  # `flush_soon` was called, and the flush has not run yet
        self.flush_soon: Callable[[], None]  # from `join` on: something was published
        self.shares: GroupShares  # from `join` on
        # From `join` on.
        self.published: Callable[[], int] = lambda: self.sequencer.number
        self.await_begin: Callable[[Connection], None] = lambda connection: None
        self.late: list[Subscription] = []  # those that begin after a number not delivered yet
        self.late_max = 0
        self.late_until = 0  # the last number for which any of them is late
        self.passing = DirectBlock()  # messages without a number, for the other members
        self.passed: DirectWalk  # from `join_direct` on
        self.member = ""
        self.hearing: set[str] = set()  # the other members that are connected directly
        self.ask_others: Callable[[Connection, bytes, bytes], int]
        self.heard: list[tuple[int, int]] = []  # keys of other members' messages, and who got them
        self.is_passing_slowed = False  # another member takes less than what comes
        self.slowed: list[Connection] = []  # publishers that wait for that

    def join(
        self,
        numbering: Numbering,
        run: int,
        bytes_max: int,
        flush_soon: Callable[[], None],
        shares: GroupShares,
        published: Callable[[], int],
        await_begin: Callable[[Connection], None],
    ) -> None:
        """Publish through `numbering` as process `run`. Once, before the first client comes.

        Publishers wait while unanswered publishes take more than `bytes_max`. `published` returns
        the newest number known to be published, or UNKNOWN; until that is known, `await_begin`
        holds back a client's PONG.
        """
        self.numbering = numbering
        self.run = run
        self.bytes_max = bytes_max
        self.flush_soon = flush_soon
        self.shares = shares
        self.published = published
        self.await_begin = await_begin

    def join_direct(
        self, member: str, ask_others: Callable[[Connection, bytes, bytes], int]
    ) -> None:
        """Exchange messages without a number, as `member`. Once, before the first client comes.

        `ask_others` returns the key of a request that nobody here has got: 0 if no other member is
        connected, else the answers to the key decide.
        """
        self.member = member
        self.passed = DirectWalk(int(member, 16))
        self.ask_others = ask_others

    def skip_to(self, number: int) -> None:
        """Skip the numbers up to `number`: they are gone, or no client here waits for them."""
        self.sequencer.skip_to(number)

    # New subscriptions

    def begin_live(self, sub: Subscription) -> None:
        """Begin a new subscription after everything that may have been shown elsewhere by now.

        If it waited for a publish of its own connection, it begins here: all later messages were
        numbered after that publish, so they are new to its client.
        """
        number = self.sequencer.number if self.is_behind_own else self.published()
        sub.last_seen = number
        if number <= self.sequencer.number:
            return
        if len(self.late) >= self.late_max:
            self._review_late()
        self.late.append(sub)
        if number > self.late_until:
            self.late_until = number
        if number == UNKNOWN:
            self.await_begin(cython.cast(Connection, sub.owner))

    def begin_waiting(self, number: int) -> None:
        """Begin the subscriptions whose beginning was unknown: it is after `number`."""
        for sub in self.late:
            if sub.last_seen == UNKNOWN:
                sub.last_seen = number
        self._review_late()

    def cut(self, number: int) -> None:
        """Let late subscriptions begin after `number`: those above are cut, and given again."""
        for sub in self.late:
            if number < sub.last_seen < UNKNOWN:
                sub.last_seen = number
        self._review_late()

    def _review_late(self) -> int:
        """Forget the subscriptions that have ended or are no longer late."""
        kept = []
        number = 0
        for sub in self.late:
            if sub.owner is not None and sub.last_seen > self.sequencer.number:
                kept.append(sub)
                if sub.last_seen > number:
                    number = sub.last_seen
        self.late = kept
        self.late_until = number
        self.late_max = max(LATE_MIN, 2 * len(kept))
        return 0

    # Publishes

    def submit(self, message: Message, route: Route) -> int:
        """Give a message a place in the cluster's order; 0 if it is refused."""
        if self.unavailable:
            return 0
        if self.numbering.table.copies.held > OVERFULL * self.bytes_max:
            # Each new client may publish once before it must wait, and may leave then.
            self.unavailable = b"too much waits to be committed"
            return 0
        clock = self.sequencer  # it has no journal: this clock's time is not kept
        place = self.numbering.submit(message, clock.now, clock.steady)
        if place:
            self._placed(place, message.size)
        return place

    def submit_from_port(self, message: Message, route: Route) -> int:
        self.entered = self.submit(message, route)
        return 0  # no number yet: `WaitingPort.settled` gives it

    def _publish_ordinary(
        self, connection: Connection, message: Message, route: Route, reply: bytes
    ) -> int:
        if route.kind == EXCLUDED:
            return self._publish_direct(connection, message, route, reply)
        if route.kind != ORDINARY:  # no client can get it
            self.control.unheard(connection, route.subject, reply)
            return 0
        self._mark_id(connection, message)
        place = self.submit(message, route)
        if place == 0:
            return self._refuse(connection, route)
        if connection.verbose:
            self._await(place, CONFIRM, connection, None)
        return 0

    def _acknowledge(
        self, connection: Connection, message: Message, route: Route, reply_size: int
    ) -> int:
        reply = bytes(message.buffer[message.reply : message.reply + reply_size])
        self._mark_id(connection, message)
        place = self.submit(message, route)
        if place == 0:
            self.work += CONTROL_WORK
            self.control.no_room(connection, route.subject, reply)
        elif reply:
            self._await(place, NUMBER, connection, reply)
        return 0

    def acknowledge(
        self, connection: Connection, message: Message, route: Route, reply: bytes
    ) -> bool:
        under(message, route)
        self._mark_id(connection, message)
        place = self.submit(message, route)
        if place == 0:
            return False
        if connection.verbose:
            self._await(place, CONFIRM, connection, None)
        if reply:
            self._await(place, NUMBER, connection, reply)
        return True

    # Messages without a number: shown at once, here and by the members that are connected now

    def _publish_direct(
        self, connection: Connection, message: Message, route: Route, reply: bytes
    ) -> int:
        """Deliver a message without a number, and pass it on to the other members."""
        message.number = 0
        if connection.verbose:
            if connection.awaited:
                self._await(connection.placed, CONFIRM, connection, None)
            else:
                self._confirm(connection)
        chosen, own, known = [], [], set()
        for group, weights in self.shares.takers(route.subject):
            known.add(group)
            member = self._draw(weights)
            if member == self.member:
                own.append(group)
            elif member:
                chosen.append(packed_group(int(member, 16), group))
        fanout = route.fanout
        for members in fanout.groups or ():
            sub = cython.cast(Subscription, members[0])
            if sub.queue is not None and sub.queue not in known:
                own.append(sub.queue)  # no member knows of it yet
        reached = self._offer_direct(message, route, own)
        key = 0
        if reached == 0 and reply and connection.no_responders:
            key = self.ask_others(connection, route.subject, reply)
        if self.hearing:
            self.passing.add(message, key, len(chosen), b"".join(chosen))
            self._flush_later()
            if self.is_passing_slowed:
                self.slowed.append(connection)
                connection.session.wait()
                self.work += 2 * WORK_MAX
        return 0

    def _draw(self, weights: tuple[tuple[str, int], ...]) -> str:
        """Draw the member whose subscriber gets the message, of those that can be reached."""
        total = 0
        for member, weight in weights:
            if member in self.hearing or member == self.member:
                total += weight
        if total == 0:
            return ""
        self.random ^= (self.random << 13) & MASK32
        self.random ^= self.random >> 17
        self.random ^= (self.random << 5) & MASK32
        left = self.random % total
        for member, weight in weights:
            if member in self.hearing or member == self.member:
                if left < weight:
                    return member
                left -= weight
        return ""

    def _offer_direct(self, message: Message, route: Route, own: list[bytes]) -> int:
        """Offer to all plain subscriptions here, and to one of each group that is this member's."""
        fanout = route.fanout
        reached = 0
        self.outbox_writer.expire()  # the frames cannot see that this is another message
        copy = 1 + (message.payload_size >> COPY_SHIFT)
        self.work += (1 + len(fanout.plain)) * copy
        for item in fanout.plain:
            reached += self._offer(message, route, cython.cast(Subscription, item))
        if own and fanout.groups is not None:
            for members in fanout.groups:
                sub = cython.cast(Subscription, members[0])
                if sub.queue in own:
                    reached += Plane._offer_group(self, message, route, members)
        return reached

    def deliver_direct(self, data: bytes, at: int) -> int:
        """Deliver another member's messages without a number, from `at` on; return how far it got.

        It stops early to give others their turn. Call `release` afterwards, and answer what is in
        `heard`. Raises `BadRecords`.
        """
        walk = self.passed
        walk.attach(data, at)
        self.begin_turn()
        while not self.is_spent() and walk.next():
            route = self.sublist.find(walk.data, walk.subject, walk.subject_size)
            reached = self._offer_direct(walk, route, walk.groups)
            if walk.key:
                self.heard.append((walk.key, reached))
        return walk.at

    def resume_slowed(self) -> None:
        """Resume the publishers that waited for other members to take more."""
        slowed, self.slowed = self.slowed, []
        for item in slowed:
            if not item.closed:
                item.session.proceed()

    # The line

    def waits(self, connection: Connection) -> bool:
        """True if an operation of this client, other than a publish, must wait: see `in_order`.

        While the cluster refuses publishes, it waits only for answers: the client must learn why.
        """
        if connection is self.acting:
            return False
        if connection.awaited:
            return True
        return connection.placed > self.numbering.table.settled and not self.unavailable

    def in_order(self, connection: Connection, action: Callable[[], None], copied: int = 0) -> None:
        """Run an action after the answers to everything that this client has sent before.

        `copied`: the bytes of input that the action holds meanwhile.
        """
        settled = connection.placed <= self.numbering.table.settled
        if connection is self.acting or (settled and not connection.awaited):
            action()
            return
        self._await(connection.placed, ACTION, connection, action)
        count = self.actions.get(connection, 0) + 1
        self.actions[connection] = count
        if (count >= LINE_MAX or copied > COPY_MAX) and connection not in self.crowding:
            self.crowding.add(connection)
            connection.session.wait()
            self.work += 2 * WORK_MAX

    def kept(self, message: Message) -> Message:
        """Copy a request's headers and payload, so that they outlive the read event."""
        own = bytearray(message.buffer[message.body : message.body + message.size])
        copy = Message()
        copy.buffer = own
        copy.data = own
        copy.size = message.size
        copy.header_size = copy.payload = message.header_size
        copy.payload_size = message.payload_size
        return copy

    def pause(self, connection: Connection) -> None:
        """Hold back this client's PONG and the answers after it until `resume`."""
        self.paused[connection] = deque()
        connection.awaited += 1

    def resume(self, connection: Connection) -> None:
        """Give the answers that have waited since `pause`."""
        connection.awaited -= 1
        behind = self.paused.pop(connection, None)
        while behind:
            kind, what, number = behind.popleft()
            self._give(connection, kind, what, number)
            if connection in self.paused:
                self.paused[connection] = behind
                return

    def drop_answers(self, connection: Connection) -> None:
        """Drop the answers to a connection that has closed."""
        self.paused.pop(connection, None)
        self.actions.pop(connection, None)
        self.crowding.discard(connection)

    def _mark_id(self, connection: Connection, message: Message) -> int:
        """Mark a message with a Nats-Msg-Id: the coordinator looks for the mark."""
        ours = message.header_size and message.mentions_nats
        if not ours or not connection.parser.mentions(b"Nats-Msg-Id", 11):
            return 0
        if id_of(bytes(message.buffer[message.body : message.payload])):
            message.flags = ID_FLAG if connection.guard is None else SCOPED_ID
        return 0

    def _placed(self, place: int, size: int) -> int:
        """Record that a publish of the current connection has this place and `size` bytes."""
        self.turn_bytes += size
        self._flush_later()
        connection = self.gate.reader
        if connection is None:
            return 0
        connection.placed = place
        if not connection.echo:
            self.mutes[connection.origin] = connection
        if self._is_full():
            self.held.append(connection)
            connection.session.wait()
            self.work += 2 * WORK_MAX  # the rest of what was read waits, too
        return 0

    def _flush_later(self) -> int:
        if not self.flushing:
            self.flushing = True
            self.flush_soon()
        return 0

    def _is_full(self) -> bool:
        """True if publishers must wait."""
        if self.is_full or self.turn_bytes > TURN_BYTES:
            return True
        return self.numbering.table.copies.held + self.answer_bytes > self.bytes_max

    def _await(self, place: int, kind: int, connection: Connection, what: Any) -> int:
        self.waiting.append((place, kind, connection, what))
        self.answer_bytes += ANSWER_BYTES
        connection.awaited += 1
        return 0

    @property
    def is_waiting(self) -> bool:
        """True if publishers wait, for an answer or for room."""
        return bool(self.waiting or self.held) or self.numbering.table.placed > self.forgotten

    def resume_publishers(self) -> None:
        """Resume the publishers that wait for room, if there is room again."""
        if not self.held or self._is_full():
            return
        held, self.held = self.held, []
        for item in held:
            if not item.closed:
                item.session.proceed()

    # Committed records

    def deliver(self, buffer: bytes, until: int) -> bool:
        """Fan out the committed records in `buffer`, up to number `until`.

        True: it stopped early, to give others their turn. Call `release` afterwards.
        """
        walk, table = self.walk, self.numbering.table
        walk.attach(buffer, 0, len(buffer))
        self.begin_turn()
        self.shares.reload_notes()
        while walk.skim() == RECORD and walk.number <= until:
            number = walk.number
            assert number == self.sequencer.number + 1, "committed numbers have no gap"
            is_own = walk.origin >> 32 == self.run
            if is_own and self.answer_bytes:
                self._answer(table.settle(number), True)  # an answer may be a waiting SUB
            route = self.sublist.find(walk.data, walk.subject, walk.subject_size)
            self.sequencer.pass_on(walk)
            self.numbering.committed(walk, self.sequencer.steady)
            if is_own:
                if self.mutes:
                    self.excluded = self.mutes.get(walk.origin)
                self._fan_out(walk, route)
                self.excluded = None
                if self.answer_bytes:
                    self._answer(table.settled, False)
            elif route.fanout.plain or route.fanout.groups is not None:
                self._fan_out(walk, route)
            if self.is_spent():
                return True
        if self.late and self.sequencer.number >= self.late_until:
            self._review_late()
        return False

    def _fan_out(self, message: Message, route: Route) -> int:
        if 0 < message.number <= self.late_until:
            return self._fan_out_to_earlier(message, route)
        return Plane._fan_out(self, message, route)

    def _fan_out_to_earlier(self, message: Message, route: Route) -> int:
        """Offer to the subscriptions that are not late for this message."""
        number, fanout = message.number, route.fanout
        reached = 0
        self.work += len(fanout.plain)
        for item in fanout.plain:
            sub = cython.cast(Subscription, item)
            if sub.last_seen < number:
                reached += self._offer(message, route, sub)
        for members in fanout.groups or ():
            earlier = []
            for item in members:
                sub = cython.cast(Subscription, item)
                if sub.last_seen < number:
                    earlier.append(sub)
            if earlier:
                reached += self._offer_group(message, route, tuple(earlier))
        return reached

    def _offer_group(
        self, message: Message, route: Route, members: tuple[Subscription, ...]
    ) -> bool:
        """Offer to one of this member's subscribers, if the group's draw chose this member."""
        sub = cython.cast(Subscription, members[0])
        assert sub.queue is not None, "a group has a name"
        if not self.shares.takes(message.number, route.subject, sub.queue):
            return False
        return Plane._offer_group(self, message, route, members)

    def settle(self) -> None:
        """Answer all publishes that are committed now, also those whose id had a number before."""
        settled = self.numbering.table.settle(self.sequencer.number)
        self._answer(settled, False)
        if self.gate.port is not None:
            self.gate.port.settled(self.numbering.table, settled)
        self.numbering.table.free_up_to(settled)
        self.forgotten = settled
        if self.mutes:
            self._forget_mutes(settled)
        self.resume_publishers()

    def _forget_mutes(self, settled: int) -> int:
        for origin in list(self.mutes):
            item = self.mutes[origin]
            if item.placed <= settled:
                del self.mutes[origin]
        return 0

    def _answer(self, settled: int, before: bool) -> int:
        """Give the answers to the publishes up to place `settled`.

        `before`: the last of these is not delivered yet, so it gets only its +OK.
        """
        while self.waiting:
            place, kind, connection, what = self.waiting[0]
            if place > settled or (before and place == settled and kind != CONFIRM):
                break
            self.waiting.popleft()
            self.answer_bytes -= ANSWER_BYTES
            number = self.numbering.table.number_of(place) if kind == NUMBER else place
            if self.paused and connection in self.paused:
                self.paused[connection].append((kind, what, number))
            else:
                self._give(connection, kind, what, number)
        return 0

    def _give(self, connection: Connection, kind: int, what: Any, number: int) -> int:
        """Give one answer, whose turn it is. `number`: of the message, or the action's place."""
        connection.awaited -= 1
        if connection.closed:
            return 0
        if kind == CONFIRM:
            self.send_control(connection, b"+OK\r\n")
        elif kind == NUMBER:
            self._say_number(connection, what, number)
        else:
            before, self.acting = self.acting, connection
            self.is_behind_own = number > 0
            try:
                what()
            finally:
                self.acting = before
                self.is_behind_own = False
            self._acted(connection)
        return 0

    def _acted(self, connection: Connection) -> int:
        """Count an action that has run; after the last one, resume the client's waiting input."""
        left = self.actions.pop(connection, 0) - 1
        if left > 0:
            self.actions[connection] = left
        elif connection in self.crowding:
            self.crowding.remove(connection)
            if not connection.closed:
                connection.session.proceed()
        return 0

    def _say_number(self, connection: Connection, reply: bytes, number: int) -> int:
        asked = self.asked
        asked.buffer = reply
        asked.data = reply
        asked.reply_size = len(reply)
        asked.number = number
        self.work += self.reply_publisher.acknowledge(connection, asked)
        return 0
