"""The interfaces that the data plane calls in the rooms above it, except for plain messages."""

from typing import TYPE_CHECKING, NamedTuple, Protocol

from broker.dataplane.connection import Connection
from broker.dataplane.ledger import Ledger
from parser.errors import Refused
from sequencer.message import Message
from sublist.route import Route
from sublist.subscription import Subscription

if TYPE_CHECKING:
    from sequencer.replica.forward_table import ForwardTable


class GuardRefusal(NamedTuple):
    """Why a guarded message is refused: its status, in words, and as a pub ack with an error."""

    status: int
    words: str
    answer: bytes
    may_pass: bool  # the same message may be taken a little later


class PlaneControl(Protocol):
    """The protocol's rules: broker/clients/control.py."""

    # Called by the plane, for the current operation

    def handle(self, connection: Connection, op: int) -> None:
        """Handle one control operation; send the client an error if it is wrong."""

    def unsubscribe(self, connection: Connection) -> None:
        """Handle an UNSUB."""

    def publish_special(
        self, connection: Connection, message: Message, route: Route, reply: bytes
    ) -> None:
        """Handle a message to `$SEQ.`, to a reserved subject, or with a reserved reply."""

    def lets_begin(self, connection: Connection) -> bool:
        """Return True if a client may begin without CONNECT; otherwise it is closed."""

    def publish_forbidden(self, connection: Connection, subject: bytes, reply: bytes) -> None:
        """Refuse a message that its client has no right to publish."""

    def trace_only(self, connection: Connection, message: Message, route: Route) -> bool:
        """Handle a message that asks for a trace only; False if it does not."""

    def invalid_publish_subject(self, connection: Connection) -> None:
        """Send a pedantic client an error; its message is still published."""

    def no_responders(self, connection: Connection, subject: bytes, reply: bytes) -> None:
        """Tell the publisher of a request that there was no receiver."""

    def unheard(self, connection: Connection, subject: bytes, reply: bytes) -> None:
        """Confirm a message without a number, in a cluster: no subscription can match it."""

    def journal_full(self, connection: Connection, subject: bytes, report: bool = True) -> None:
        """Count a message that the journal has no room for; send an error if `report`."""

    def no_room(self, connection: Connection, subject: bytes, reply: bytes) -> None:
        """Answer a refused message that asked for its number."""

    def refuse_guarded(
        self,
        connection: Connection,
        message: Message,
        subject: bytes,
        ledger: Ledger | None,
        acknowledged: bool,
    ) -> bool:
        """Refuse a message whose headers say what must hold, if it does not; True if so."""

    def no_room_in_stream(
        self, connection: Connection, subject: bytes, reply: bytes, ledger: Ledger
    ) -> None:
        """Answer a refused message of a stream: the journal has no room."""

    def no_room_for(self, subject: bytes) -> Refused:
        """Count a refused message; return the error for its publisher."""

    # Called by the gate

    def detached(self, connection: Connection, number: int) -> None:
        """Serve this connection from the journal, from `number` on."""

    def relieve(self) -> None:
        """Free memory: all outboxes together hold more than allowed."""

    def unsafe(self) -> None:
        """Ask for a sync, or a write: output waits for it."""

    # Called by the parts that deliver, replay or close

    def finished(self, sub: Subscription) -> None:
        """End a subscription that has received as many messages as it asked for."""

    def make_live(self, sub: Subscription) -> None:
        """Give a subscription live messages, after its replay."""

    def drop(self, connection: Connection) -> None:
        """Stop routing to a connection that has closed."""


class WaitingPort(Protocol):
    """A port whose answers wait until their numbers are safe: broker/cquencer/cquencer_port.py."""

    def release_safe(self) -> None:
        """Send the answers whose numbers are safe."""

    def settled(self, table: "ForwardTable", place: int) -> None:
        """Number the answers up to this place: a cluster has committed their messages."""
