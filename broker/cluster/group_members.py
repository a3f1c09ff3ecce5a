"""The subscribers of this member in queue groups, as other members must know of them.

    SUB with a group --joined--> weight in `takers` --pulse--> coordinator --GROUPS note--> in force
    PING after it    --in_force--> PONG when that is so
    UNSUB of the last one --leave--> it stays in the group until that is in force, then it ends

So a message published after the PONG reaches the group, and none is lost because its subscriber has
just left. A client that closes its connection gives no such notice: its share reaches no subscriber
until the weights without it are in force, some 0.2 s.

A lagging subscriber counts for almost nothing, as a single broker serves it last.

One user, or one connection if there are no users, may make only a part of the groups, so that
others can make some, too. A group counts for its maker while it is remembered.
"""

from collections.abc import Callable, Iterable
from typing import Final

from broker.cluster.group_shares import GroupShares
from broker.dataplane.connection import Connection
from broker.dataplane.ownership import connection_of
from sublist.subscription import Subscription

ABLE: Final = 1024  # the weight of a subscriber
LAGGING: Final = 1  # of all that lag together, if there are no others
GROUPS_MAX: Final = 4096  # different ones of one member: one message announces them all
GROUP_BYTES_MAX: Final = 1 << 19  # of their patterns and names
OWN_GROUPS: Final = 1024  # of one user: a quarter, so that three others have as many
OWN_BYTES: Final = GROUP_BYTES_MAX // 4
REVIEW_SECONDS: Final = 1.0  # between two reviews of lagging subscribers
LOOKED_MAX: Final = 10_000  # subscriptions in one such review
KNOWN_SECONDS: Final = 1.0  # a withdrawn announcement may come into force for so long
LOOK_SECONDS: Final = 0.1  # between two checks of what waits, while no weights come into force
LEAVING_MAX: Final = 4096  # subscriptions that stay after their UNSUB; more end at once
FORGET_SECONDS: Final = 2.0  # a cluster that takes nothing also writes no weights

Key = tuple[bytes, bytes]  # pattern, group
BEGIN: Final = (b"", b"")  # no group: a client waits until its subscriptions begin
Maker = str | int  # a user's name; or a connection's origin, where there are no users


class GroupMembers:
    """The group subscribers of one member, for its one thread."""

    def __init__(
        self,
        member: str,
        shares: GroupShares,
        takers: dict[Key, int],
        lagging: Callable[[], Iterable[Connection]] = lambda: (),
    ) -> None:
        """`takers` are counted here, and announced by `Member`.

        `lagging` returns the connections that the journal serves.
        """
        self.takers = takers
        self.lagging = lagging
        self._member = member
        self._shares = shares
        self._counts: dict[Key, int] = {}
        self._lags: dict[Key, int] = {}  # how many of them lag
        self._bytes = 0
        self._makers: dict[Key, Maker] = {}
        self._made: dict[Maker, tuple[int, int]] = {}  # how many, and bytes of their names
        self._leaving: dict[Subscription, Callable[[], None]] = {}
        self._announced: dict[Key, float] = {}  # since when, if not seen in force yet
        self._open: dict[Connection, tuple[set[Key], list[Callable[[], None]]]] = {}
        self._waited_for: dict[Key, set[Connection]] = {}  # the same, by group
        self._begun = 0  # how many times weights have come into force
        self._look_at = 0.0
        self._now = 0.0
        self._review_at = 0.0
        self._asked_at = 0.0  # when this member began to wait for its first client

    # Called by the protocol's rules

    def refusal(self, connection: Connection, subject: bytes, queue: bytes) -> bytes:
        if (subject, queue) in self._counts:
            return b""
        if why := self._over(_maker(connection), len(subject) + len(queue)):
            return why
        if len(self._counts) >= GROUPS_MAX:
            return b"this member has %d queue groups, as many as it may" % GROUPS_MAX
        if self._bytes + len(subject) + len(queue) > GROUP_BYTES_MAX:
            return b"the names of this member's queue groups take %d bytes" % GROUP_BYTES_MAX
        if len(self._announced) >= GROUPS_MAX:
            return b"%d new queue groups are not known everywhere yet; try again soon" % GROUPS_MAX
        return b""

    def _over(self, maker: Maker, size: int) -> bytes:
        """Return why one more group of this user or connection is too many; empty if it is not."""
        count, held = self._made.get(maker, (0, 0))
        whose = b"connection" if isinstance(maker, int) else b"user"
        if count >= OWN_GROUPS:
            return b"this %b has made %d queue groups, as many as one may" % (whose, OWN_GROUPS)
        if held + size > OWN_BYTES:
            return b"the names of this %b's queue groups take %d bytes" % (whose, OWN_BYTES)
        return b""

    def joined(self, sub: Subscription) -> None:
        key = _key(sub)
        if key not in self._counts:
            self._attribute(key, _maker(connection_of(sub)))
            self._bytes += len(key[0]) + len(key[1])
            self._announced[key] = self._now
        self._counts[key] = self._counts.get(key, 0) + 1
        self._weigh(key)
        self._wait(connection_of(sub), key)

    def left(self, sub: Subscription) -> None:
        if self._leaving.pop(sub, None) is None:
            self._uncount(_key(sub))

    def end_subscription(self, sub: Subscription, then: Callable[[], None]) -> bool:
        key = _key(sub)
        if sub in self._leaving:
            return True
        if self._counts[key] > 1 or not self._is_known(key) or len(self._leaving) >= LEAVING_MAX:
            return False
        self._leaving[sub] = then
        self._uncount(key)
        self._wait(connection_of(sub), key)
        return True

    def in_force(self, connection: Connection, action: Callable[[], None]) -> None:
        waits = self._open.get(connection)
        if waits is None:
            action()
        else:
            waits[1].append(action)

    def await_begin(self, connection: Connection) -> None:
        """Let a client wait until it is known where its subscription begins; see rule 15."""
        self._add_wait(connection, BEGIN)

    # Called by the driver

    def begun(self) -> bool:
        """End the waits for where subscriptions begin. True: clients were answered."""
        self._forget_closed()
        return BEGIN in self._waited_for and self._settle(BEGIN)

    def advance(self, now: float, delivered: int, note_watermark: int) -> bool:
        """Act on new commits, or on time that has passed. True: clients were answered."""
        self._now = now
        self._shares.settle(delivered, note_watermark)
        if self._begun == self._shares.begun and now < self._look_at:
            return False  # nothing has changed: this is called at the end of each turn
        self._begun, self._look_at = self._shares.begun, now + LOOK_SECONDS
        self._confirm()
        self._let_go()
        if now >= self._review_at:
            self._review_at = now + REVIEW_SECONDS
            self._review()
        return bool(self._open) and self._answer()

    def is_forgotten(self, now: float) -> bool:
        """True if no weights of an earlier process of this member are left, or after a wait."""
        self._asked_at = self._asked_at or now
        newest = self._shares.weights.newest.values()
        if now - self._asked_at > FORGET_SECONDS:
            return True
        return not any(self._member in weights for weights in newest)

    def _confirm(self) -> None:
        for key, since in list(self._announced.items()):
            is_stale = key not in self._counts and self._now - since > KNOWN_SECONDS
            if is_stale or self._is_in_force(key):
                del self._announced[key]
                self._forget_maker(key)

    def _let_go(self) -> None:
        for sub, then in list(self._leaving.items()):
            key = _key(sub)
            if key in self._counts or not self._is_known(key):
                then()

    def _answer(self) -> bool:
        self._forget_closed()
        settled = [key for key in self._waited_for if key != BEGIN and self._is_settled(key)]
        return any([self._settle(key) for key in settled])

    def _forget_closed(self) -> None:
        for connection in [one for one in self._open if one.closed]:
            for key in self._open.pop(connection)[0]:
                self._waited_for[key].discard(connection)

    def _settle(self, key: Key) -> bool:
        """End the clients' waits for this group. True: some of them were answered."""
        answered = False
        for connection in self._waited_for.pop(key):
            keys, actions = self._open[connection]
            keys.remove(key)
            if not keys:
                del self._open[connection]
                for action in actions:
                    action()
                    answered = True
        return answered

    def _review(self) -> None:
        """Change the weights of groups in which other subscribers lag than before."""
        lags: dict[Key, int] = {}
        looked = 0
        for connection in self.lagging():
            for sub in connection.subs.values():
                looked += 1
                if sub.queue is not None and sub not in self._leaving:
                    lags[_key(sub)] = lags.get(_key(sub), 0) + 1
            if looked > LOOKED_MAX:
                break
        changed = [
            key for key in lags.keys() | self._lags.keys() if lags.get(key) != self._lags.get(key)
        ]
        self._lags = lags
        for key in changed:
            if key in self._counts:
                self._weigh(key)

    # State

    def _weigh(self, key: Key) -> None:
        able = self._counts[key] - self._lags.get(key, 0)
        self.takers[key] = able * ABLE if able > 0 else LAGGING

    def _uncount(self, key: Key) -> None:
        self._counts[key] -= 1
        if self._counts[key]:
            self._weigh(key)
            return
        self._bytes -= len(key[0]) + len(key[1])
        del self._counts[key], self.takers[key]
        self._forget_maker(key)

    def _attribute(self, key: Key, maker: Maker) -> None:
        """Count this group for `maker`, unless it is remembered as another one's."""
        if key not in self._makers:
            self._makers[key] = maker
            self._count_made(maker, 1, len(key[0]) + len(key[1]))

    def _forget_maker(self, key: Key) -> None:
        if key not in self._counts and key not in self._announced:
            self._count_made(self._makers.pop(key), -1, -len(key[0]) - len(key[1]))

    def _count_made(self, maker: Maker, groups: int, size: int) -> None:
        count, held = self._made.get(maker, (0, 0))
        if count + groups:
            self._made[maker] = count + groups, held + size
        else:
            del self._made[maker]

    def _wait(self, connection: Connection, key: Key) -> None:
        if not self._is_settled(key):
            self._add_wait(connection, key)

    def _add_wait(self, connection: Connection, key: Key) -> None:
        self._open.setdefault(connection, (set(), []))[0].add(key)
        self._waited_for.setdefault(key, set()).add(connection)

    def _is_in_force(self, key: Key) -> bool:
        text = key[0].decode("latin-1"), key[1].decode("latin-1")
        return self._member in self._shares.weights.in_force.get(text, ())

    def _is_known(self, key: Key) -> bool:
        """True if messages may come for this group: it is in force, or may be soon."""
        return key in self._announced or self._is_in_force(key)

    def _is_settled(self, key: Key) -> bool:
        return self._is_in_force(key) if key in self._counts else not self._is_known(key)


def _maker(connection: Connection) -> Maker:
    user = connection.session.user
    return connection.origin if user is None else user.name


def _key(sub: Subscription) -> Key:
    assert sub.queue is not None, "it is in a group"
    return sub.subject, sub.queue
