"""What a receiver has seen and done, each count with its meaning."""

from dataclasses import dataclass, field, fields
from typing import Any


def _count(about: str) -> Any:
    return field(default=0, metadata={"about": about})


@dataclass(frozen=True, slots=True)
class Counters:
    """Of one receiver, since it began; `lag`, `held`, `next` and `away` are of this moment."""

    datagrams: int = _count("datagrams that came, of any kind and by any feed")
    messages: int = _count("messages that were delivered, in order")
    duplicates: int = _count("messages that had come already, by the other feed or once more")
    late: int = _count("messages that came by a feed after one with a larger number")
    holes: int = _count("gaps in the numbers, however short")
    requests: int = _count("requests for missing messages")
    filled: int = _count("messages received in reply to these requests")
    lost: int = _count("numbers that nobody had: reported as MessagesLost")
    dropped: int = _count("messages dropped after a gap for lack of memory, to be requested again")
    malformed: int = _count("datagrams that the codec could not read")
    strangers: int = _count("datagrams of another stream than the one that is heard")
    heartbeats: int = _count("datagrams that said which number comes next")
    streams: int = _count("streams that replaced another one: reported as NewStream")
    kernel_drops: int = _count("buffers of datagrams for which the kernel had no room")
    held: int = _count("bytes that wait for a gap to be filled")
    next: int = _count("the number to be delivered next; 0 when none is known")
    rejoins: int = _count("groups joined again, since their interface was created again")
    away: int = _count("seconds for which nobody that fills gaps can be reached")
    lag: int = _count("numbers that were published and are not delivered yet")

    def lines(self, *names: str) -> list[str]:
        """One line for each, or for these: its name, the count, what it means."""
        return [
            f"{one.name:<13}{getattr(self, one.name):>12}  {one.metadata['about']}"
            for one in fields(self)
            if not names or one.name in names
        ]
