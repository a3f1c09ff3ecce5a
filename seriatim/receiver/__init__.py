"""Receives a feed: each number once, in order; missing ones are fetched or reported as lost.

    from seriatim.receiver import Ended, FeedMessage, Group, MessagesLost, NewStream, Receiver

docs/multicast.md shows how. Names are loaded when they are first used: the broker, which only
checks whether the hot modules here are compiled, does not load sockets and an event loop.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sequencer.feed.codecs import codec_named
    from sequencer.feed.feed_message import FeedMessage
    from seriatim.receiver.counters import Counters
    from seriatim.receiver.errors import FillError, GroupError, ReceiverError
    from seriatim.receiver.events import Ended, MessagesLost, NewStream
    from seriatim.receiver.group import Group
    from seriatim.receiver.order import Event
    from seriatim.receiver.receiver import Receiver

_WHERE = {
    "Counters": "seriatim.receiver.counters",
    "Ended": "seriatim.receiver.events",
    "Event": "seriatim.receiver.order",
    "FillError": "seriatim.receiver.errors",
    "Group": "seriatim.receiver.group",
    "GroupError": "seriatim.receiver.errors",
    "MessagesLost": "seriatim.receiver.events",
    "FeedMessage": "sequencer.feed.feed_message",
    "NewStream": "seriatim.receiver.events",
    "Receiver": "seriatim.receiver.receiver",
    "ReceiverError": "seriatim.receiver.errors",
    "codec_named": "sequencer.feed.codecs",
}

__all__ = [
    "Counters",
    "Ended",
    "Event",
    "FeedMessage",
    "FillError",
    "Group",
    "GroupError",
    "MessagesLost",
    "NewStream",
    "Receiver",
    "ReceiverError",
    "codec_named",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"seriatim.receiver has no {name}")
    found = globals()[name] = getattr(import_module(_WHERE[name]), name)
    return found
