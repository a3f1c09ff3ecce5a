"""What a receiver has seen and done, each count with its meaning."""

from dataclasses import dataclass, field, fields
from typing import Any


def _count(about: str) -> Any:
    return field(default=0, metadata={"about": about})


@dataclass(frozen=True, slots=True)
class Counters:
    """Of one receiver, since it began; `lag`, `held`, `next` and `away` are of this moment."""

    datagrams: int = _count("datagrams that came, of any kind and by any feed")
    messages: int = _count("messages that were handed on, in order")
    duplicates: int = _count("messages that had come already, by the other feed or once more")
    late: int = _count("messages that came by a feed after one with a larger number")
    holes: int = _count("places where numbers missed, for however short a time")
    requests: int = _count("questions to whoever fills holes")
    filled: int = _count("messages that came as an answer")
    lost: int = _count("numbers that nobody had: told as Lost")
    dropped: int = _count("messages let go behind a hole for want of room, to be asked for again")
    malformed: int = _count("datagrams that the codec could not read")
    strangers: int = _count("datagrams of another stream than the one that is heard")
    heartbeats: int = _count("datagrams that said which number comes next")
    streams: int = _count("streams that took another one's place: told as NewStream")
    kernel_drops: int = _count("buffers of datagrams for which the kernel had no room")
    held: int = _count("bytes that wait behind a hole")
    next: int = _count("the number to be handed on next; 0 when none is known")
    rejoins: int = _count("groups joined again, since their interface was made anew")
    away: int = _count("seconds for which whoever fills holes cannot be reached")
    lag: int = _count("numbers that were given, and are not handed on yet")

    def lines(self, *names: str) -> list[str]:
        """One line for each, or for these: its name, the count, what it means."""
        return [
            f"{one.name:<13}{getattr(self, one.name):>12}  {one.metadata['about']}"
            for one in fields(self)
            if not names or one.name in names
        ]
