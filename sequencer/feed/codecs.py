"""The codecs by name, as settings and receivers give them."""

import importlib
from typing import Final

from sequencer.feed.binary import BinaryCodec
from sequencer.feed.errors import CodecNotFound
from sequencer.feed.feed_codec import Codec
from sequencer.feed.moldudp64 import MoldUDP64Codec
from sequencer.feed.netstrings import NetstringCodec, NetstringSubjectCodec

BUILT_IN: Final[dict[str, type[Codec]]] = {
    "netstring": NetstringCodec,
    "netstring-subject": NetstringSubjectCodec,
    "binary": BinaryCodec,
    "moldudp64": MoldUDP64Codec,
}
CODECS: Final = tuple(BUILT_IN)


def codec_named(name: str, *, filtered: bool = False) -> Codec:
    """Make the codec of that name: one of `CODECS`, or a user's own as `package.module:Class`.

    Receivers set `filtered` if the feed has a filter: then a MoldUDP64 block of length 0 is a
    number that was left out, not an empty message. Imports the module of a user's codec.
    Raises `CodecNotFound`.
    """
    if name == "moldudp64":
        return MoldUDP64Codec(filtered)
    if name in BUILT_IN:
        built_in: Codec = BUILT_IN[name]()
        return built_in
    module, colon, attribute = name.partition(":")
    if not (colon and module and attribute):
        known = ", ".join(CODECS)
        raise CodecNotFound(f"{name!r} is not a codec; give {known}, or package.module:Class")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # importing a module can raise anything
        raise CodecNotFound(f"codec {name!r}: {type(error).__name__}: {error}") from error
    if not (isinstance(found, type) and issubclass(found, Codec)):
        raise CodecNotFound(f"codec {name!r}: not a subclass of sequencer.feed.feed_codec.Codec")
    try:
        made = found()
    except Exception as error:
        raise CodecNotFound(
            f"codec {name!r}: cannot be made: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(made, Codec):  # `__new__` may return anything
        raise CodecNotFound(f"codec {name!r}: it makes {type(made).__name__}, not a Codec")
    return made
