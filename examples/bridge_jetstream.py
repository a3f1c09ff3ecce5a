"""A bridge from a stream of JetStream: each of its messages gets one number, whatever is killed.

    python bridge_jetstream.py nats://localhost:4222 ORDERS nats://localhost:4333

The id of a message in Seriatim is its stream and sequence, `ORDERS/17`, so the target itself knows
how far the bridge is. If anything fails at the source the bridge ends: let systemd start it again.
"""

import argparse
import asyncio

import nats
from nats.aio.msg import Msg
from nats.errors import TimeoutError as NothingNew
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

import seriatim

FETCH = 500
FETCH_SECONDS = 5.0


async def reached(target: seriatim.Client, name: str) -> int:
    """Return the last sequence that is in the target: as noted, or of a message behind the note."""
    note = await target.last(f"bridges.{name}")
    sequence = int(note.payload) if note else 0
    async for message in target.read(start=note.number if note else None, until="now"):
        stream, _, digits = message.headers.get("Nats-Msg-Id", "").partition("/")
        if stream == name:
            sequence = int(digits)
    return sequence


async def copy(message: Msg, name: str, target: seriatim.Client) -> None:
    """Publish a message. Raises `Refused`: those behind it must not be published before it."""
    id, headers = f"{name}/{message.metadata.sequence.stream}", dict(message.headers or {})
    for own in [one for one in headers if one.startswith("Nats-")]:  # Seriatim would obey them
        del headers[own]
    await target.publish(message.subject, message.data, headers=headers, id=id)


async def bridge(source: JetStreamContext, name: str, target: seriatim.Client) -> None:
    """Copy without end. Raises an error if the source is away, or has left something out."""
    config = ConsumerConfig(
        ack_policy=AckPolicy.NONE,
        deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
        opt_start_seq=await reached(target, name) + 1,
    )
    consumer = await source.pull_subscribe("", stream=name, config=config)
    count = 0
    while True:
        try:
            messages = await consumer.fetch(FETCH, timeout=FETCH_SECONDS)
        except NothingNew:
            await consumer.consumer_info()  # an error, if it is gone
            continue
        for message in messages:
            count += 1
            if message.metadata.sequence.consumer != count:
                raise RuntimeError("a message was lost on its way from the source: begin again")
            await copy(message, name, target)
        await target.publish(f"bridges.{name}", b"%d" % message.metadata.sequence.stream)


async def main() -> None:
    parser = argparse.ArgumentParser(description="Copy a stream of JetStream to Seriatim.")
    parser.add_argument("source", help="nats://host:port, of the nats-server")
    parser.add_argument("stream", help="its name, such as ORDERS")
    parser.add_argument("target", help="nats://host:port, of Seriatim")
    arguments = parser.parse_args()
    source = await nats.connect(arguments.source, allow_reconnect=False)
    async with seriatim.connect(arguments.target, wait=True) as target:
        await bridge(source.jetstream(), arguments.stream, target)


if __name__ == "__main__":
    asyncio.run(main())
