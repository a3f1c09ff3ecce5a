"""Messages as tests write them, and as subscribers must receive them, by the model's slow rules."""

from collections.abc import Iterable
from dataclasses import dataclass

from testkit.model_frame import Sequenced, delivery


@dataclass(frozen=True, slots=True)
class Message:
    """A publisher's message. `sizes` is the text of its size, or of its two sizes."""

    subject: bytes
    payload: bytes
    headers: bytes = b""
    reply: bytes = b""
    sizes: bytes = b""
    headed: bool = False  # HPUB, even if its headers are empty

    @property
    def written(self) -> bytes:
        """The sizes as the publisher wrote them."""
        if self.sizes:
            return self.sizes
        total = len(self.headers) + len(self.payload)
        return b"%d %d" % (len(self.headers), total) if self.has_verb_hpub else b"%d" % total

    @property
    def has_verb_hpub(self) -> bool:
        return self.headed or bool(self.headers)

    @property
    def wire(self) -> bytes:
        """The operation that publishes the message."""
        verb = b"HPUB" if self.has_verb_hpub else b"PUB"
        words = (verb, self.subject, self.reply, self.written)
        line = b" ".join(word for word in words if word)
        return line + b"\r\n" + self.headers + self.payload + b"\r\n"


def message(
    sent: Message, sid: bytes, number: int, frame: str, takes_headers: bool, time: int = 0
) -> bytes:
    """Return what one subscription receives of a message; `number` 0: it has no number."""
    sizes = sent.written.split(b" ")
    sequenced = Sequenced(
        number, sent.subject, sent.reply, sizes[-1], sizes[0], sent.headers, sent.payload, time
    )
    return delivery(sequenced, sid, frame, takes_headers)


def pieces(wire: bytes, cuts: Iterable[int]) -> list[bytes]:
    """The bytes cut at these places, in any order."""
    edges = sorted({0, len(wire), *(cut % (len(wire) + 1) for cut in cuts)})
    return [wire[edges[at] : edges[at + 1]] for at in range(len(edges) - 1)]
