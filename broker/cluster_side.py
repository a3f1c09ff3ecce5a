"""The interfaces of a broker with a cluster: what each side needs of the other.

A broker that is not a member loads nothing of broker/cluster.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from broker.auth.application_claims import ApplicationClaims
from broker.clients.shared_groups import SharedGroups
from broker.dataplane.connection import Connection
from broker.dataplane.plane import Plane
from broker.replay.replays import Replays
from broker.settings.tls_settings import BrokerTlsSettings
from broker.storage.keeper import Keeper
from sequencer.journal.store import Store
from sequencer.msgids import Window
from sublist.sublist import Sublist

if TYPE_CHECKING:
    from broker.cluster_state import ClusterState
    from broker.staging.staging_service import StagingService


class MemberHost(Protocol):
    """The broker, as a member needs it: broker/server.py."""

    @property
    def addresses(self) -> list[tuple[str, int]]: ...
    @property
    def claims(self) -> ApplicationClaims: ...
    def abandon(self, origin: int) -> None:
        """Close the connection of a publisher: the outcome of its messages is unknown."""

    def delivered(self) -> None:
        """Serve those that wait for messages: more were delivered."""

    def fatal(self, why: str) -> None:
        """Stop the broker."""

    def quit(self) -> None:
        """Stop the broker, as an operator asks."""

    def stream_begun(self, stream: int) -> None:
        """Switch the feeds to this stream."""

    def addresses_changed(self) -> None:
        """Note that other members serve clients now, or at other addresses."""

    def send_away(self, why: str) -> None:
        """Ask the clients to connect to another member: this one cannot serve them."""

    def welcome_back(self) -> None:
        """Serve the clients again."""


class ClusterSide(Protocol):
    """The part that makes a broker a member of a cluster: broker/cluster/cluster_member.py."""

    @property
    def journal(self) -> Store: ...
    @property
    def run(self) -> int: ...  # in the high half of its publishers' origins
    @property
    def window(self) -> Window | None: ...
    def facts(self) -> dict[str, object]:
        """The facts of the cluster in `$SEQ.INFO`."""

    def state(self) -> "ClusterState":
        """Return what monitoring shows."""

    def await_number(self, number: int, action: Callable[[], None]) -> bool:
        """Run `action` when this number may be shown; False: it is not there either."""

    def client_addresses(self, others: bool = False) -> list[str]:
        """Return HOST:PORT of all members in sync, the coordinator last; or of the others only."""

    @property
    def staging(self) -> "StagingService": ...
    @property
    def unanswered(self) -> int: ...  # publishes of this broker's clients that wait for an answer
    def is_awaiting(self, connection: Connection) -> bool:
        """True if this client has published something that is not committed."""

    def make_plane(self, sublist: Sublist, hold_pending: int) -> Plane:
        """Make the plane of a member."""

    @property
    def groups(self) -> SharedGroups: ...  # from `keep` on
    @property
    def coordinates(self) -> bool: ...  # whether it sends the feeds
    @property
    def stream(self) -> int: ...  # which stream they are
    @property
    def ends_stream(self) -> bool: ...  # after `stop`: whether no member sends the feeds any more
    def keep(self, host: MemberHost) -> tuple[Replays, Keeper]:
        """Make the parts that keep and replay what is committed."""

    def reload_tls(self, tls: BrokerTlsSettings) -> None:
        """Read the certificates again, for new connections between members. Raises `OSError`."""

    async def start(self) -> None:
        """Take part, and return when this member has caught up. Raises `OSError`."""

    async def step_down(self) -> None:
        """Hand over or leave, if that is possible, and go on serving clients."""

    async def stop(self) -> None:
        """Hand over or leave, and take part no more."""
