"""What the data plane calls in the rooms above it, for everything but plain messages."""

from typing import Protocol

from broker.dataplane.connection import Connection
from parser.errors import Refused
from sequencer.message import Message
from sublist.route import Route
from sublist.subscription import Subscription


class PlaneControl(Protocol):
    """The protocol's rules: broker/clients/control.py."""

    # Asked by the plane, for the current operation

    def handle(self, connection: Connection, op: int) -> None:
        """Do what one control operation says; answer what is wrong with it."""

    def publish_special(
        self, connection: Connection, message: Message, route: Route, reply: bytes
    ) -> None:
        """A message to `$SEQ.`, to a reserved subject, or with a reserved reply."""

    def lets_begin(self, connection: Connection) -> bool:
        """Whether a client may begin without CONNECT; otherwise it is closed."""

    def publish_forbidden(self, connection: Connection, subject: bytes, reply: bytes) -> None:
        """A client has no right to publish to this subject: refuse it."""

    def trace_only(self, connection: Connection, message: Message, route: Route) -> bool:
        """Whether a message is for tracing only: then it is already handled."""

    def invalid_publish_subject(self, connection: Connection) -> None:
        """Tell a pedantic client; its message goes on all the same."""

    def no_responders(self, connection: Connection, subject: bytes, reply: bytes) -> None:
        """Nobody got a request: tell its publisher."""

    def unheard(self, connection: Connection, subject: bytes, reply: bytes) -> None:
        """A message gets no number in a cluster, because no subscription can match its subject."""

    def journal_full(self, connection: Connection, subject: bytes, report: bool = True) -> None:
        """The journal has no room for a message: count it, and answer its publisher if `report`."""

    def no_room(self, connection: Connection, subject: bytes, reply: bytes) -> None:
        """The same, for a message that asks for its number."""

    def no_room_for(self, subject: bytes) -> Refused:
        """The same for cquencer's port, which answers its client itself."""

    # Asked by the gate

    def detached(self, connection: Connection, number: int) -> None:
        """From `number` on the journal serves this connection."""

    def relieve(self) -> None:
        """All outboxes together hold more than they may."""

    def unsafe(self) -> None:
        """Something waits until it is synced, or written."""

    # Asked by whoever delivers, replays or closes

    def finished(self, sub: Subscription) -> None:
        """A subscription has had as many messages as it asked for."""

    def make_live(self, sub: Subscription) -> None:
        """A subscription has had the past, and gets what comes."""

    def drop(self, connection: Connection) -> None:
        """A connection has closed: route nothing more to it."""


class NumberTable(Protocol):
    """Which numbers messages have got: sequencer/replica/forward_table.py."""

    def number_of(self, place: int) -> int:
        """The number of the message at that place."""


class WaitingPort(Protocol):
    """A port whose answers wait until their numbers are safe: broker/cquencer/cquencer_port.py."""

    def release_safe(self) -> None:
        """Send the answers whose numbers are safe."""

    def settled(self, table: NumberTable, place: int) -> None:
        """In a cluster: messages up to this place have numbers, and all members have them."""
