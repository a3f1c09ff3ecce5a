"""What a feed's receiver and its tests need: parsed datagrams, and a socket for re-requests."""

import asyncio
import socket
from typing import Any

from sequencer.feed.codecs import codec_named
from sequencer.feed.feed_codec import Packet
from tests.support.multicast import WAIT_S
from tests.support.serving import Broker


def decoded(codec: str, datagrams: list[bytes], **how: Any) -> list[Packet]:
    reader = codec_named(codec, **how)
    return [reader.decode(datagram) for datagram in datagrams]


def numbers(packets: list[Packet]) -> list[int]:
    return [message.number for packet in packets for message in packet.messages]


def asking(broker: Broker) -> socket.socket:
    """A socket to ask the first feed again by."""
    answers = broker.outlets[0].rerequests
    assert answers is not None
    assert answers.address[0] == "127.0.0.1"
    asker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    asker.settimeout(WAIT_S)
    asker.connect(answers.address)
    return asker


async def turns(count: int) -> None:
    """Some turns of the loop, in which what must not happen could."""
    for _ in range(count):
        await asyncio.sleep(0.002)  # no event to await: nothing is to happen
