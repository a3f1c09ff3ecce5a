"""The interface of fillers, which fetch missing messages, and what a codec carries of a message."""

from collections.abc import Callable
from dataclasses import dataclass

from sequencer.feed.feed_codec import Codec, packet_of
from sequencer.feed.feed_message import FeedMessage
from seriatim.receiver.order import Order, WantedRange

PROBE = FeedMessage(1, b"payload", b"subject", b"NATS/1.0\r\nA: b\r\n\r\n", 1)


@dataclass(frozen=True, slots=True)
class JournalHead:
    """The state of the broker's journal: id, epoch, and the last number assigned."""

    journal: str
    epoch: int
    last: int


@dataclass(frozen=True, slots=True)
class Carried:
    """The fields of a message that a codec carries besides number and payload.

    Answers are reduced to these: a message is the same, whichever way it came.
    """

    subject: bool = True
    headers: bool = True
    time: bool = True


class Filler:
    """Base of all fillers. It runs in the receiver's event loop.

    `piece` is how many numbers a request may cover, and `bridge` how far apart holes may be that
    share one request. Answers go to `order`; then `wake` is called. While the filler is `away`,
    requests do not count as tries; afterwards it calls `order.retry`. While it is `pressed`, the
    server answers but leaves many requests unanswered, and tries count less.
    """

    piece = 1
    bridge = 0
    pressed = False

    def __init__(self) -> None:
        self.trouble = ""  # the last problem, in words

    def attach(self, order: Order, wake: Callable[[], None], ask_head: Callable[[], None]) -> None:
        """Work for this order. `ask_head` is called when the broker may be a different one."""
        self.order = order
        self.wake = wake
        self.ask_head = ask_head

    async def open(self) -> None:
        """Get ready to send requests. Raises `FillError`."""

    async def close(self) -> None:
        """Release everything."""

    def use(self, carried: Carried) -> None:
        """Reduce messages to what the codec carries."""

    async def head(self) -> JournalHead | None:
        """Return the journal's state; None if it cannot be requested."""
        return None

    def away(self) -> float:
        """Return for how many seconds the server could not be reached; 0 if it can."""
        return 0.0

    def room(self) -> int:
        """Return how many requests may be sent now."""
        raise NotImplementedError

    def send_request(self, wanted: WantedRange) -> None:
        """Send a request; the order repeats unanswered ones."""
        raise NotImplementedError


def probe(codec: Codec) -> tuple[Carried, bytes]:
    """Return the fields that the codec carries, and its name for the stream it was opened for.

    A codec that can only read is assumed to carry everything, and to have no name.
    """
    try:
        packet = packet_of(codec, codec.datagram([PROBE], 0))
        (message,) = packet.messages
    except Exception:  # the codec may be the user's own
        return Carried(), b""
    carried = Carried(message.subject != b"", message.headers != b"", message.time != 0)
    return carried, packet.session
