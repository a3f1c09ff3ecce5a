"""Who fills holes: what a receiver asks of them, and what a codec carries of their answers."""

from collections.abc import Callable
from dataclasses import dataclass

from sequencer.feed.feed_codec import Codec, packet_of
from sequencer.feed.feed_message import FeedMessage
from seriatim.receiver.order import Order, WantedRange

PROBE = FeedMessage(1, b"payload", b"subject", b"NATS/1.0\r\nA: b\r\n\r\n", 1)


@dataclass(frozen=True, slots=True)
class JournalHead:
    """What there is: the journal's id and epoch, and the last number given."""

    journal: str
    epoch: int
    last: int


@dataclass(frozen=True, slots=True)
class Carried:
    """What a codec brings of a message beside number and payload.

    An answer is cut down to that: a message is the same, however it came.
    """

    subject: bool = True
    headers: bool = True
    time: bool = True


class Filler:
    """Base of all. It lives in the receiver's event loop.

    `piece` is how many numbers a question may have, `bridge` how many numbers apart holes may be
    to be asked for in one. Answers go to `order`; `wake` is called when they have. While it is
    `away`, questions do not count as tries; when that ends it calls `order.retry`. While it is
    `pressed`, whoever is asked answers, but leaves many questions unanswered: then they count less.
    """

    piece = 1
    bridge = 0
    pressed = False

    def __init__(self) -> None:
        self.trouble = ""  # the last thing that went wrong, in words

    def attach(self, order: Order, wake: Callable[[], None], ask_head: Callable[[], None]) -> None:
        """Work for this order. `ask_head` is called when it may not be the same broker any more."""
        self.order = order
        self.wake = wake
        self.ask_head = ask_head

    async def open(self) -> None:
        """Be ready to ask. Raises `FillError`."""

    async def close(self) -> None:
        """Let go of everything."""

    def use(self, carried: Carried) -> None:
        """Bring messages as the codec does."""

    async def head(self) -> JournalHead | None:
        """What there is; None where that cannot be asked."""
        return None

    def away(self) -> float:
        """For how many seconds whoever is asked could not be reached by now; 0 when it can."""
        return 0.0

    def room(self) -> int:
        """How many questions may be asked now."""
        raise NotImplementedError

    def ask(self, wanted: WantedRange) -> None:
        """Ask; the order asks again for what is not answered."""
        raise NotImplementedError


def probe(codec: Codec) -> tuple[Carried, bytes]:
    """What the codec carries, and its name of the stream that it was opened for.

    A codec that only reads carries all, and names none.
    """
    try:
        packet = packet_of(codec, codec.datagram([PROBE], 0))
        (message,) = packet.messages
    except Exception:  # of whoever wrote the codec
        return Carried(), b""
    carried = Carried(message.subject != b"", message.headers != b"", message.time != 0)
    return carried, packet.session
