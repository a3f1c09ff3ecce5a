"""Seriatim: a broker that gives every message one number in one order. This is its client.

    import asyncio
    import seriatim

    async def main():
        async with seriatim.connect("nats://localhost:4222") as stream:
            number = await stream.publish("orders.eu", b"10 apples")
            async for message in stream.read("orders.>"):       # the past, then live
                print(message.number, message.subject, message.payload)

    asyncio.run(main())

Without asyncio, the same words block:

    with seriatim.connect() as stream:
        for message in stream.read("orders.>", position="orders.position"):
            ...

    connect                      a Client (`async with`) or a BlockingClient (`with`)
    Message, Reader              what is read; Lost and JournalChanged, if it is not there
    Table                        millions of messages as columns: `stream.table(first, last)`
    table, tail                  the same, and messages live, from a broker's directory
    Expect, Refused, ...         conditions for publishing, and the errors: see BrokerError
    Receiver                     a multicast feed, in order
    encode_frame, decode_frame   number and payload as other clients get them

`import seriatim` loads each name when it is first used, and its client imports none of `parser`,
`broker`, `sublist` and `sequencer`: a user's own module of that name does no harm.
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
    from sequencer.netstring import (
        FrameDecoder,
        NetstringError,
        decode_frame,
        decode_number,
        encode_frame,
    )
    from seriatim.client.blocking_client import (
        BlockingBatch,
        BlockingClient,
        BlockingReader,
        BlockingSubscription,
    )
    from seriatim.client.chunk_columns import Columns
    from seriatim.client.client_event import ClientEvent
    from seriatim.client.connecting import Connecting, connect
    from seriatim.client.credentials import Credentials
    from seriatim.client.errors import (
        BrokerError,
        ConnectionLost,
        InvalidArgument,
        JournalChanged,
        Lost,
        MessageTooLarge,
        NoAnswer,
        NoResponders,
        NotABroker,
        NotAllPublished,
        NotAuthorized,
        NotFound,
        NotSeriatim,
        Position,
        Refused,
        SlowSubscriber,
        Unconfirmed,
        WrongLastNumber,
    )
    from seriatim.client.expect import Expect
    from seriatim.client.message_table import Table
    from seriatim.client.stream_batch import StreamBatch
    from seriatim.client.stream_client import Client, Subscription
    from seriatim.client.stream_info import StreamInfo
    from seriatim.client.stream_message import Message
    from seriatim.client.stream_reading import Reader
    from seriatim.client.tls import TlsSettings
    from seriatim.receiver.receiver import Receiver
    from seriatim.store.store_table import table
    from seriatim.store.tailing import Tail, tail

    __version__: str

_WHERE = {
    "BlockingBatch": "seriatim.client.blocking_client",
    "BlockingClient": "seriatim.client.blocking_client",
    "BlockingReader": "seriatim.client.blocking_client",
    "BlockingSubscription": "seriatim.client.blocking_client",
    "BrokerError": "seriatim.client.errors",
    "Client": "seriatim.client.stream_client",
    "ClientEvent": "seriatim.client.client_event",
    "Columns": "seriatim.client.chunk_columns",
    "Connecting": "seriatim.client.connecting",
    "ConnectionLost": "seriatim.client.errors",
    "Credentials": "seriatim.client.credentials",
    "Expect": "seriatim.client.expect",
    "FrameDecoder": "sequencer.netstring",
    "InvalidArgument": "seriatim.client.errors",
    "JournalChanged": "seriatim.client.errors",
    "Lost": "seriatim.client.errors",
    "Message": "seriatim.client.stream_message",
    "MessageTooLarge": "seriatim.client.errors",
    "NetstringError": "sequencer.netstring",
    "NoAnswer": "seriatim.client.errors",
    "NoResponders": "seriatim.client.errors",
    "NotABroker": "seriatim.client.errors",
    "NotAllPublished": "seriatim.client.errors",
    "NotAuthorized": "seriatim.client.errors",
    "NotFound": "seriatim.client.errors",
    "NotSeriatim": "seriatim.client.errors",
    "Position": "seriatim.client.errors",
    "Reader": "seriatim.client.stream_reading",
    "Receiver": "seriatim.receiver.receiver",
    "Refused": "seriatim.client.errors",
    "SlowSubscriber": "seriatim.client.errors",
    "StreamBatch": "seriatim.client.stream_batch",
    "StreamInfo": "seriatim.client.stream_info",
    "Subscription": "seriatim.client.stream_client",
    "Table": "seriatim.client.message_table",
    "Tail": "seriatim.store.tailing",
    "TlsSettings": "seriatim.client.tls",
    "Unconfirmed": "seriatim.client.errors",
    "WrongLastNumber": "seriatim.client.errors",
    "connect": "seriatim.client.connecting",
    "decode_frame": "sequencer.netstring",
    "decode_number": "sequencer.netstring",
    "encode_frame": "sequencer.netstring",
    "table": "seriatim.store.store_table",
    "tail": "seriatim.store.tailing",
}

__all__ = [
    "BlockingBatch",
    "BlockingClient",
    "BlockingReader",
    "BlockingSubscription",
    "BrokerError",
    "Client",
    "ClientEvent",
    "Columns",
    "Connecting",
    "ConnectionLost",
    "Credentials",
    "Expect",
    "FrameDecoder",
    "InvalidArgument",
    "JournalChanged",
    "Lost",
    "Message",
    "MessageTooLarge",
    "NetstringError",
    "NoAnswer",
    "NoResponders",
    "NotABroker",
    "NotAllPublished",
    "NotAuthorized",
    "NotFound",
    "NotSeriatim",
    "Position",
    "Reader",
    "Receiver",
    "Refused",
    "SlowSubscriber",
    "StreamBatch",
    "StreamInfo",
    "Subscription",
    "Table",
    "Tail",
    "TlsSettings",
    "Unconfirmed",
    "WrongLastNumber",
    "__version__",
    "connect",
    "decode_frame",
    "decode_number",
    "encode_frame",
    "table",
    "tail",
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
