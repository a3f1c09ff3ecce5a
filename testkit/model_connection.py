"""A client's connection and its subscriptions, as the model of the broker sees them."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from testkit.model_kept import Past
from testkit.model_stream import Event


@dataclass(eq=False, slots=True)
class ModelSubscription:
    """A subscription."""

    connection: "ModelConnection"
    subject: bytes
    sid: bytes
    queue: bytes
    delivered: int = 0
    limit: int = 0
    past: Past | None = None  # if it begins in the past


class Copy(NamedTuple):
    """A message for one subscription."""

    sub: ModelSubscription
    text: bytes
    size: int  # bytes that count: headers and payload, without the frame


@dataclass(eq=False, slots=True)
class ModelConnection:
    """A client's connection: its options, its requests, and what it must receive."""

    frame: str
    options: dict[str, Any] = field(default_factory=dict)
    subs: dict[bytes, ModelSubscription] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    buffer: bytes = b""
    consumed: int = 0  # bytes of whole operations so far
    closed: bool = False
    cut: bool = False
    greeted: bool = False
    introduced: bool = False  # CONNECT was received
    in_msgs: int = 0
    in_bytes: int = 0
    out_bytes: int = 0  # bytes that were certainly sent to it
    origin: int = 0
    lagging: bool = False  # served from the journal now, according to the plane
    lagged: bool = False  # it was, at some time
    lasts: int = 0  # requests for last messages so far
    asked: bool = False  # whether it asked for the past
    loose: bool = False  # whether its output depends on its progress with the past
    spent: set[bytes] = field(default_factory=set)  # sids that end after their replay

    def has(self, option: str) -> bool:
        """Return an option of CONNECT, or its default."""
        return bool(self.options.get(option, option in ("verbose", "pedantic", "echo")))

    def tell(self, text: bytes, stream: str = "told") -> None:
        self.events.append(Event([text], stream=stream))

    def refuse(self, words: bytes) -> None:
        self.tell(b"-ERR '%b'\r\n" % words)

    def oblige(self) -> None:
        if self.has("verbose"):
            self.tell(b"+OK\r\n")

    def chosen_frame(self) -> str:
        return str(self.options.get("frame", self.frame))
