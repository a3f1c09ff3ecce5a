"""The counters of a receiver, each with its meaning."""

from dataclasses import dataclass, field, fields
from typing import Any


def _count(about: str) -> Any:
    return field(default=0, metadata={"about": about})


@dataclass(frozen=True, slots=True)
class Counters:
    """Counters since the receiver began; `lag`, `held`, `next` and `away` are current values."""

    datagrams: int = _count("datagrams received, of any kind and from any feed")
    messages: int = _count("messages that were delivered, in order")
    duplicates: int = _count("messages received before, from the other feed or repeated")
    late: int = _count("messages received from a feed after one with a larger number")
    holes: int = _count("gaps in the numbers, however short")
    requests: int = _count("requests for missing messages")
    filled: int = _count("messages received in reply to these requests")
    lost: int = _count("numbers that were not available: reported as MessagesLost")
    dropped: int = _count("messages dropped after a gap for lack of memory, to be requested again")
    malformed: int = _count("datagrams that the codec could not read")
    strangers: int = _count("datagrams of another stream than the current one")
    heartbeats: int = _count("datagrams that only announced the next number")
    streams: int = _count("streams that replaced another one: reported as NewStream")
    kernel_drops: int = _count("buffers of datagrams for which the kernel had no room")
    held: int = _count("bytes that wait for a gap to be filled")
    next: int = _count("the number to be delivered next; 0 when none is known")
    rejoins: int = _count("groups joined again because their interface was recreated")
    away: int = _count("seconds since the server that fills gaps was last reachable")
    lag: int = _count("numbers that were published but not delivered yet")

    def lines(self, *names: str) -> list[str]:
        """Return one line for each counter, or for these: name, count, meaning."""
        return [
            f"{one.name:<13}{getattr(self, one.name):>12}  {one.metadata['about']}"
            for one in fields(self)
            if not names or one.name in names
        ]
