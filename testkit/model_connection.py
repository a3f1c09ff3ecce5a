"""A client's connection and its subscriptions, as the model of the broker knows them."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from testkit.model_kept import Past
from testkit.model_stream import Event


@dataclass(eq=False, slots=True)
class Wish:
    """A subscription."""

    connection: "ModelConnection"
    subject: bytes
    sid: bytes
    queue: bytes
    delivered: int = 0
    limit: int = 0
    past: Past | None = None  # of one that begins with the past


class Copy(NamedTuple):
    """A message as one subscription gets it."""

    wish: Wish
    text: bytes
    size: int  # what counts of it: headers and payload, not the frame


@dataclass(eq=False, slots=True)
class ModelConnection:
    """A client's connection: what it chose and asked for, and what it must be told."""

    frame: str
    options: dict[str, Any] = field(default_factory=dict)
    wishes: dict[bytes, Wish] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    buffer: bytes = b""
    consumed: int = 0  # bytes of whole operations so far
    closed: bool = False
    cut: bool = False
    greeted: bool = False
    introduced: bool = False  # it has said CONNECT
    in_msgs: int = 0
    in_bytes: int = 0
    out_bytes: int = 0  # of what it was surely sent
    origin: int = 0
    lagging: bool = False  # the journal serves it; so the plane says
    lagged: bool = False  # it did, once
    lasts: int = 0  # wishes for the last messages so far
    asked: bool = False  # for the past
    loose: bool = False  # what it is told hangs on how far it has come with the past
    spent: set[bytes] = field(default_factory=set)  # sids that end when the past was played

    def has(self, option: str) -> bool:
        """An option of CONNECT, or what it is before any."""
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
