"""The slowest clients, by name, as metrics.

    take_slowest    in the broker's loop: the slowest connections, `SLOWEST` at most
    SlowNames       in the monitor's threads: which of their names may be labels

Clients choose their names, and Prometheus keeps each label that it has ever seen. So a name is cut
and escaped, and only `NAMES_MAX` new ones are shown in a day, however many clients come and go.
"""

import heapq
import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from prometheus_client.core import Metric

from broker.monitor.figures import PREFIX, Gauge, Table
from broker.runtime.clocks import steady_ns
from broker.runtime.log_formats import printable
from broker.server import Server

if TYPE_CHECKING:
    from broker.clients.session import Session

SLOWEST: Final = 10  # connections: as many as a person looks at. /connz?sort=pending has all
SLOW_BYTES: Final = 256 << 10  # unsent. A client that keeps up has less, or has it for a moment
NAME_MAX: Final = 64  # characters, as of closed connections
NAMES_MAX: Final = 64  # a day: in the 15 days that Prometheus keeps, a thousand at most
NAME_KEPT_NS: Final = 24 * 3600 * 1_000_000_000
Who = tuple[str, str]  # the client's name, or else its address; its user
OTHER: Final[Who] = ("(other)", "")
LABELS: Final = ("client", "user")


class SlowClient(NamedTuple):
    """One slow connection, or all those of the same name together."""

    who: Who
    pending: int
    lag: int
    catchups: int


def take_slowest(server: Server, unsent: Iterable[int]) -> list[SlowClient]:
    """Take the slowest connections; `unsent` are the bytes that each session has not sent."""
    behind = {} if server.replays is None else server.replays.behind()
    slow: list[tuple[int, int, Session]] = []
    for session, pending in zip(server.sessions.values(), unsent, strict=True):
        lag = behind.get(session.connection) if behind else None
        if lag is not None or pending > SLOW_BYTES:
            slow.append((-1 if lag is None else lag, pending, session))
    slowest = heapq.nlargest(SLOWEST, slow, key=lambda one: one[:2])
    return [
        SlowClient(_who(session), pending, max(lag, 0), int(lag >= 0))
        for lag, pending, session in slowest
    ]


def _who(session: "Session") -> Who:
    name = session.name or session.ip
    return _label(name), _label(session.user_name)


def _label(text: str) -> str:
    return printable(text[:NAME_MAX])[:NAME_MAX]


SLOW_CLIENT: Table[SlowClient] = (
    Gauge(
        *("pending", "slow_client_pending_bytes", "Bytes not yet sent, of the slowest clients."),
        lambda of: of.pending,
    ),
    Gauge(
        *("lag", "slow_client_lag_messages"),
        "By how many numbers a client that catches up is behind the newest.",
        lambda of: of.lag,
    ),
    Gauge(
        *("catchups", "slow_client_catchups"),
        "Connections of a slow client that the journal serves now.",
        lambda of: of.catchups,
    ),
)


class SlowNames:
    """The names that are shown: `NAMES_MAX`, each for a day from when it was last seen."""

    def __init__(self) -> None:
        self._seen: dict[Who, int] = {}  # when; the one not seen for longest comes first
        self._lock = threading.Lock()  # requests have threads of their own

    def shown(self, who: Who, now: int) -> Who:
        """Return who is shown in place of this client; `now` is in ns, of a steady clock."""
        with self._lock:
            known = self._seen.pop(who, None) is not None
            if not known and len(self._seen) >= NAMES_MAX:
                oldest = next(iter(self._seen))
                if now - self._seen[oldest] < NAME_KEPT_NS:
                    return OTHER
                del self._seen[oldest]
            self._seen[who] = now
            return who

    def metrics(self, slowest: list[SlowClient]) -> Iterator[Metric]:
        """Yield the metrics; those of one name are added up, but for the greatest lag."""
        now, named = steady_ns(), dict[Who, SlowClient]()
        for one in slowest:
            who = self.shown(one.who, now)
            had = named.get(who, SlowClient(who, 0, 0, 0))
            catchups = had.catchups + one.catchups
            named[who] = SlowClient(who, had.pending + one.pending, max(had.lag, one.lag), catchups)
        for figure in SLOW_CLIENT:
            family = figure.family(PREFIX + figure.metric, figure.about, labels=LABELS)
            for one in named.values():
                family.add_metric(one.who, figure.read(one))
            yield family
