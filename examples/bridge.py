"""A bridge: what is published to a nats-server gets numbers from Seriatim, and is kept.

    python bridge.py nats://localhost:4222 "orders.>" nats://localhost:4333

Start two of them, if the messages have ids (`Nats-Msg-Id`): each message is published once, by
the faster one, and nothing is missed while one of them is down.
"""

import argparse
import asyncio
import contextlib
import logging
import math
import signal

import seriatim

log = logging.getLogger("bridge")


async def copy(message: seriatim.Message, target: seriatim.Client) -> None:
    """Publish a message; it gets one number, however long the target is away."""
    subject, headers, id = message.subject, dict(message.headers), ""
    for name in [one for one in headers if one.startswith("Nats-")]:  # Seriatim would obey them
        if name == "Nats-Msg-Id":
            id = f"{subject}/{headers[name]}"  # ids of all subjects are in one place there
        del headers[name]
    sent = await target.send(subject, message.payload, headers=headers, id=id, timeout=math.inf)

    def judge(sent: "asyncio.Future[int]") -> None:
        if not sent.cancelled() and (error := sent.exception()):
            log.error("A message to %s is not bridged: %s", subject, error)

    sent.add_done_callback(judge)


async def stop(messages: seriatim.Subscription) -> None:
    """Let what the source has sent arrive, and no more."""
    with contextlib.suppress(seriatim.BrokerError):  # the source is away: there is no more
        await messages.drain(math.inf)  # as long as publishing it takes
    await messages.unsubscribe()


async def main() -> None:
    parser = argparse.ArgumentParser(description="Copy from a nats-server to Seriatim.")
    parser.add_argument("source", help="nats://host:port, of the nats-server")
    parser.add_argument("subject", help="what to copy, such as orders.>")
    parser.add_argument("target", help="nats://host:port, of Seriatim")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    stopping: list[asyncio.Task[None]] = []
    async with (
        seriatim.connect(arguments.target, wait=True) as target,
        seriatim.connect(arguments.source, wait=True) as source,
    ):
        messages = await source.subscribe(arguments.subject)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(
            signal.SIGTERM, lambda: stopping.append(loop.create_task(stop(messages)))
        )
        log.info("Bridging %s", arguments.subject)
        async for message in messages:
            await copy(message, target)


if __name__ == "__main__":
    asyncio.run(main())
