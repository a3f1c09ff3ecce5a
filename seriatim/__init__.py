"""Seriatim's public names. Each is loaded when it is first used.

    from seriatim import decode_frame, encode_frame     numbers and payloads of messages
    from seriatim import connect, connect_blocking      a client: asyncio, or blocking
    from seriatim import Reader                         the journal, read from another process
    from seriatim import Receiver                       a multicast feed, in order

`import seriatim` and its client import none of `parser`, `broker`, `sublist` and `sequencer`, so
a user's own module of that name, next to a script, does no harm.
"""

import sys

if sys.argv and sys.argv[0].endswith("/seriatim"):  # the command, which loads much
    # An interrupt ends it without a traceback, until it can handle one. `signal` itself is slow to
    # load.
    import _signal  # type: ignore[import-not-found]

    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    if sys.argv[1:2] == ["serve"]:
        import os

        from seriatim import first_listener

        first_listener.listen(sys.argv[2:], os.environ)

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sequencer.journal.chunk import Columns
    from sequencer.journal.journal_tail import Lost
    from sequencer.journal.reader import Reader
    from sequencer.netstring import (
        FrameDecoder,
        NetstringError,
        decode_frame,
        decode_number,
        encode_frame,
    )
    from seriatim.client.aio import connect
    from seriatim.client.blocking import connect_blocking
    from seriatim.client.errors import BrokerError
    from seriatim.receiver.receiver import Receiver

    __version__: str

_WHERE = {
    "BrokerError": "seriatim.client.errors",
    "Columns": "sequencer.journal.chunk",
    "FrameDecoder": "sequencer.netstring",
    "Lost": "sequencer.journal.journal_tail",
    "NetstringError": "sequencer.netstring",
    "Reader": "sequencer.journal.reader",
    "Receiver": "seriatim.receiver.receiver",
    "connect": "seriatim.client.aio",
    "connect_blocking": "seriatim.client.blocking",
    "decode_frame": "sequencer.netstring",
    "decode_number": "sequencer.netstring",
    "encode_frame": "sequencer.netstring",
}

__all__ = [
    "BrokerError",
    "Columns",
    "FrameDecoder",
    "Lost",
    "NetstringError",
    "Reader",
    "Receiver",
    "__version__",
    "connect",
    "connect_blocking",
    "decode_frame",
    "decode_number",
    "encode_frame",
]


def __getattr__(name: str) -> Any:
    found: Any
    if name == "__version__":
        from importlib.metadata import version

        found = version("seriatim")
    elif name in _WHERE:
        found = getattr(import_module(_WHERE[name]), name)
    else:
        raise AttributeError(f"seriatim has no {name}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
