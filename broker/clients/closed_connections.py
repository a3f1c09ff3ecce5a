"""The last connections that have ended, for /connz: `state=closed`.

As many as nats-server keeps. Names that clients chose are cut, so each entry takes 1.2 KiB at
most, and all of them 12 MiB. Their subscriptions are counted, not listed.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from broker.clients.session import Session

KEPT: Final = 10_000
TEXT_BYTES: Final = 64  # of a name, in UTF-8


@dataclass(frozen=True, slots=True)
class ClosedConnection:
    """The record of one connection. Times are Unix time; `heard` is on the loop's clock."""

    cid: int
    ip: str
    port: int
    started_at: float
    stopped_at: float
    last_activity: float
    heard: float
    rtt: float
    reason: str
    kind: str
    frame: str
    tls: tuple[str, str]
    tls_first: bool
    texts: tuple[bytes, bytes, bytes, bytes]  # name, lang, version and user
    in_msgs: int
    out_msgs: int
    in_bytes: int
    out_bytes: int
    subscriptions: int

    @property
    def name(self) -> str:
        return self.texts[0].decode()

    @property
    def lang(self) -> str:
        return self.texts[1].decode()

    @property
    def version(self) -> str:
        return self.texts[2].decode()

    @property
    def user_name(self) -> str:
        return self.texts[3].decode()


class ClosedConnections:
    """The closed connections of a broker, for its one thread; the oldest come first."""

    def __init__(self, most: int = KEPT) -> None:
        """Keep the last `most`; 0: none, because there is no monitoring to show them."""
        self._kept: deque[ClosedConnection] = deque(maxlen=most)

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[ClosedConnection]:
        return iter(self._kept)

    def add(self, session: "Session", now: float) -> None:
        """Keep the record of a session that has ended."""
        if self._kept.maxlen == 0:
            return
        connection = session.connection
        texts = (session.name, session.lang, session.version, session.user_name)
        name, lang, version, user = map(_cut, texts)
        self._kept.append(
            ClosedConnection(
                cid=session.cid,
                ip=session.ip,
                port=session.port,
                started_at=session.started_at,
                stopped_at=now,
                last_activity=session.last_activity,
                heard=session.heard,
                rtt=session.rtt,
                reason=session.closed_for,
                kind=session.kind,
                frame=session.frame,
                tls=session.tls,
                tls_first=session.tls_first,
                texts=(name, lang, version, user),
                in_msgs=connection.in_msgs,
                out_msgs=connection.out_msgs,
                in_bytes=connection.in_bytes,
                out_bytes=connection.out_bytes,
                subscriptions=session.subscribed,
            )
        )


def _cut(text: str) -> bytes:
    """The beginning of a text: whole characters, at most `TEXT_BYTES`."""
    data = text.encode("utf-8", "replace")
    if len(data) <= TEXT_BYTES:
        return data
    return data[: TEXT_BYTES - 3].decode("utf-8", "ignore").encode() + b"..."
