"""The attributes of a running broker that monitoring reads, and no others.

`broker.server.Server` has all of them. They are read in the broker's loop, between two events, so
a reader never sees half of a change.
"""

from collections.abc import Iterable, Mapping, Sequence, Sized
from typing import Any, Protocol

from broker.cluster_state import ClusterState
from broker.replay.replays import Replays
from broker.settings.feed_settings import FeedSettings
from broker.settings.settings import Settings
from broker.storage.keeper import Keeper
from broker.wires.closed_connections import ClosedConnections, EndedSession
from sequencer.journal.ring import Ring
from sequencer.journal.store import Store
from sequencer.msgids import Window


class TrafficView(Protocol):
    """Counts since the start; bytes are payloads with headers, as NATS counts them."""

    @property
    def in_msgs(self) -> int: ...
    @property
    def in_bytes(self) -> int: ...
    @property
    def out_msgs(self) -> int: ...
    @property
    def out_bytes(self) -> int: ...


class SubscriptionView(Protocol):
    """One subscription of one connection."""

    @property
    def subject(self) -> bytes: ...
    @property
    def sid(self) -> bytes: ...
    @property
    def queue(self) -> bytes | None: ...
    @property
    def delivered(self) -> int: ...
    @property
    def limit(self) -> int: ...


class ConnectionView(TrafficView, Protocol):
    """A connection as the data plane sees it."""

    @property
    def subs(self) -> Mapping[bytes, SubscriptionView]: ...


class SessionView(EndedSession, Protocol):
    """One client's connection. Times are seconds since 1970; `rtt` is 0.0 if unknown."""

    def certificates(self) -> list[bytes]: ...  # of the client (DER), its own first
    @property
    def pending_bytes(self) -> int: ...
    @property
    def connection(self) -> ConnectionView: ...


class ProxiesView(Protocol):
    """The proxies that may name their clients: broker/wires/trusted_proxies.py."""

    @property
    def variable(self) -> str: ...  # of WSGI
    def client(self, peer: str, values: Iterable[str]) -> str:
        """Return the client's address, for a peer that has sent these values of the header."""


class CallerView(Protocol):
    """One client of cquencer's port: broker/cquencer/cquencer_client.py."""

    @property
    def cid(self) -> int: ...
    @property
    def ip(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def started_at(self) -> float: ...  # seconds since 1970
    @property
    def heard(self) -> int: ...  # ns since 1970; 0: it has sent nothing
    @property
    def pending_bytes(self) -> int: ...
    @property
    def messages(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def queries(self) -> int: ...
    @property
    def errors(self) -> int: ...


class CallersView(Protocol):
    """All clients of cquencer's port, since the start: broker/cquencer/cquencer_port.py."""

    @property
    def connections(self) -> int: ...  # now
    @property
    def messages(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def queries(self) -> int: ...
    @property
    def errors(self) -> int: ...


class CquencerView(Protocol):
    """cquencer's port as a service: broker/cquencer/cquencer_service.py."""

    @property
    def port(self) -> CallersView: ...
    @property
    def accepted(self) -> int: ...
    @property
    def addresses(self) -> list[tuple[str, int]]: ...
    @property
    def clients(self) -> Mapping[int, CallerView]: ...  # by cid


class DatagramsView(Protocol):
    """The datagrams that a feed has sent: sequencer/feed/datagrams.py."""

    @property
    def datagrams(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def errors(self) -> int: ...


class FeedView(Protocol):
    """The counters of one feed: sequencer/feed/feed.py."""

    @property
    def previous(self) -> int: ...  # the last number that was dealt with
    @property
    def messages(self) -> int: ...
    @property
    def skipped(self) -> int: ...
    @property
    def too_long(self) -> int: ...
    @property
    def broken(self) -> int: ...
    @property
    def sent(self) -> DatagramsView: ...


class RerequestsView(Protocol):
    """A feed's port for re-requests: broker/feeds/rerequests.py."""

    @property
    def address(self) -> tuple[str, int]: ...
    @property
    def rerequests(self) -> object: ...  # counters, by the names in feed_figures.py


class OutletView(Protocol):
    """One feed with its socket: broker/feeds/outlet.py."""

    @property
    def settings(self) -> FeedSettings: ...
    @property
    def feed(self) -> FeedView: ...
    @property
    def heartbeats(self) -> int: ...
    @property
    def rerequests(self) -> RerequestsView | None: ...


class FeedsView(Protocol):
    """All feeds: broker/feeds/feeds.py."""

    @property
    def outlets(self) -> Sequence[OutletView]: ...


class StagesView(Sized, Protocol):
    """All stages: broker/staging/stages.py."""

    @property
    def bytes(self) -> int: ...
    @property
    def expired(self) -> int: ...


class ApplicationsView(Protocol):
    """The applications that have committed: broker/staging/applications.py."""

    @property
    def done(self) -> Sized: ...


class CommitsView(Sized, Protocol):
    """Commits under way, and those that are done: broker/staging/commits.py."""

    @property
    def committed(self) -> int: ...
    @property
    def repeated(self) -> int: ...


class PublishingView(Protocol):
    """The rows that commits have published: broker/staging/commit_publishing.py."""

    @property
    def rows(self) -> int: ...


class StagingView(Protocol):
    """Publishing exactly once: broker/staging/staging_service.py."""

    @property
    def stages(self) -> StagesView: ...
    @property
    def applications(self) -> ApplicationsView: ...
    @property
    def commits(self) -> CommitsView: ...
    @property
    def publishing(self) -> PublishingView: ...
    @property
    def pieces(self) -> int: ...


class ClusterView(Protocol):
    """The broker as a member of a cluster: broker/cluster/cluster_member.py."""

    def state(self) -> ClusterState:
        """Return the cluster's state at this moment."""

    def is_awaiting(self, connection: Any) -> bool:
        """True if this client has published something that is not committed."""


class Observed(Protocol):
    """The broker, as far as monitoring reads it."""

    @property
    def settings(self) -> Settings: ...
    @property
    def proxies(self) -> ProxiesView | None: ...
    @property
    def server_id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def started_at(self) -> float: ...
    @property
    def addresses(self) -> list[tuple[str, int]]: ...
    @property
    def sessions(self) -> Mapping[int, SessionView]: ...
    @property
    def total_connections(self) -> int: ...
    @property
    def slow_consumers(self) -> int: ...
    @property
    def stale_connections(self) -> int: ...  # that answered no PING
    @property
    def stalls(self) -> int: ...  # times that a publisher waited for subscribers
    @property
    def closed(self) -> ClosedConnections: ...  # the last ones
    @property
    def config_loaded_at(self) -> float: ...  # at the start, or by the last SIGHUP
    @property
    def websocket_address(self) -> tuple[str, int] | None: ...
    @property
    def auth_failures(self) -> int: ...  # attempts to authenticate
    @property
    def last_number(self) -> int: ...
    # The parts of the journal, for monitor/journal_figures.py; None if there is none.
    @property
    def journal(self) -> Store | Ring | None: ...
    @property
    def keeper(self) -> Keeper | None: ...
    @property
    def replays(self) -> Replays | None: ...
    @property
    def window(self) -> Window | None: ...
    # The cquencer port, for broker/monitor/cquencer_figures.py; None if there is none.
    @property
    def cquencer(self) -> CquencerView | None: ...
    # All feeds with their sockets, for monitor/feed_figures.py; None if there are none.
    @property
    def feeds(self) -> FeedsView | None: ...
    # Staging, for monitor/staging_figures.py; None if nothing was ever staged.
    @property
    def staging(self) -> StagingView | None: ...
    # This broker as a member, for monitor/cluster_figures.py; None: a single broker.
    @property
    def cluster(self) -> ClusterView | None: ...
    def traffic(self) -> TrafficView: ...
    def reached_by(self, subject: bytes) -> Sequence[tuple[int, SubscriptionView]]:
        """Return the subscriptions that a message would reach, with their connections' cids."""

    def limit_counts(self) -> dict[str, int]:
        """Return the counts, by the keys in monitor/limit_figures.py."""

    def sublist_statistics(self) -> dict[str, int]: ...
    def fanout_sizes(self) -> tuple[int, float]:
        """Return the largest number of subscriptions that a subject has, and the average."""
