"""Receiving a feed: in order, each number once, and what misses fetched or told as lost.

    from sequencer.receiver import Ended, Group, Lost, Message, NewStream, Receiver

docs/multicast.md shows how. Alone of the sequencer this package has sockets and an event loop.
What is named here is loaded when it is first asked for, so that the broker, which only looks
whether the hot modules are compiled, has none of it in its memory.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sequencer.feed.codecs import codec_named
    from sequencer.feed.message import Message
    from sequencer.receiver.counters import Counters
    from sequencer.receiver.errors import FillError, GroupError, ReceiverError
    from sequencer.receiver.events import Ended, Lost, NewStream
    from sequencer.receiver.group import Group
    from sequencer.receiver.order import Event
    from sequencer.receiver.receiver import Receiver

_WHERE = {
    "Counters": "sequencer.receiver.counters",
    "Ended": "sequencer.receiver.events",
    "Event": "sequencer.receiver.order",
    "FillError": "sequencer.receiver.errors",
    "Group": "sequencer.receiver.group",
    "GroupError": "sequencer.receiver.errors",
    "Lost": "sequencer.receiver.events",
    "Message": "sequencer.feed.message",
    "NewStream": "sequencer.receiver.events",
    "Receiver": "sequencer.receiver.receiver",
    "ReceiverError": "sequencer.receiver.errors",
    "codec_named": "sequencer.feed.codecs",
}

__all__ = [
    "Counters",
    "Ended",
    "Event",
    "FillError",
    "Group",
    "GroupError",
    "Lost",
    "Message",
    "NewStream",
    "Receiver",
    "ReceiverError",
    "codec_named",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"sequencer.receiver has no {name}")
    found = globals()[name] = getattr(import_module(_WHERE[name]), name)
    return found
