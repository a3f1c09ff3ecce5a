"""The state of a cluster at one moment, as a member knows it: numbers and text for monitoring."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class MemberFigures:
    """One member, as this one sees it. None: unknown, or known to the coordinator only."""

    id: str
    name: str = ""  # for people; empty: the engine's list does not have it
    role: str = ""  # coordinator, follower or learner
    in_sync: bool = False
    address: str = ""  # HOST:PORT for other members
    clients: tuple[str, ...] = ()
    http: str = ""
    version: str = ""
    is_connected: bool = False  # to this member
    tls_version: str = ""  # of the connection with this member; empty: no TLS
    tls_cipher: str = ""
    tls_names: tuple[str, ...] = ()  # that its certificate is for
    last: int | None = None  # the newest number that it has acknowledged
    lag_bytes: int | None = None
    lag_seconds: float | None = None
    clock_seconds: float | None = None  # by which its clock is ahead of the coordinator's
    pulse_seconds: float | None = None  # since its last sign of life


@dataclass(frozen=True, slots=True)
class ClusterState:
    """The cluster. `figures` has the keys of broker/monitor/cluster_figures.py."""

    cluster: str
    member: str
    role: str
    coordinator: str  # its id; empty: unknown
    unhealthy: str  # why this member is not healthy; empty: it is
    members: list[MemberFigures] = field(default_factory=list)
    figures: dict[str, float] = field(default_factory=dict)
    swaps: dict[str, int] = field(default_factory=dict)  # by result
    members_tls: str = "off"  # between members: on, optional or off
