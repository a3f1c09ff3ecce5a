"""`seriatim sub`: show what arrives on some subjects, in the one order."""

import asyncio
from collections.abc import Callable

from nats.aio.msg import Msg

from broker.cli.client import Link, connected
from broker.cli.view import Message, understand

# What may wait unseen here before nats-py drops: the pace is the terminal's, not the broker's.
PENDING_BYTES_MAX = 256 << 20
SETTLE_SECONDS_MAX = 5.0


def subscribe(
    url: str,
    subjects: list[str],
    queue: str,
    count: int,
    show: Callable[[Message], None],
    ready: Callable[[], None],
) -> None:
    """Show messages until `count` were shown (0: for ever). Raises `CliError`."""
    asyncio.run(_subscribe(url, subjects, queue, count, show, ready))


async def _subscribe(
    url: str,
    subjects: list[str],
    queue: str,
    count: int,
    show: Callable[[Message], None],
    ready: Callable[[], None],
) -> None:
    async with connected(url) as link:
        inbox = Inbox(link)
        for subject in subjects:
            await inbox.subscribe(subject, queue)
        await link.during(link.settle(SETTLE_SECONDS_MAX))
        ready()
        shown = 0
        while not count or shown < count:
            batch = await link.during(inbox.take())
            for message in batch[: count - shown] if count else batch:
                show(message)
                shown += 1


class Inbox:
    """What arrived on every subject, put back into one order."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._messages: list[Message] = []
        self._arrived = asyncio.Event()

    async def subscribe(self, subject: str, queue: str) -> None:
        """Let messages on `subject` arrive here too."""
        await self._link.during(
            self._link.client.subscribe(
                subject, queue, cb=self._on_message, pending_bytes_limit=PENDING_BYTES_MAX
            )
        )

    async def take(self) -> list[Message]:
        """Everything that has arrived, at least one message, by number.

        nats-py has a queue per subscription, so messages of several subjects come here out of
        step. All that was read from the socket is in the queues at once, and one turn of the
        loop empties them: sorting what came is then the order of the wire. What has no number
        stays behind the message that came before it.
        """
        await self._arrived.wait()
        await asyncio.sleep(0)
        batch, self._messages = self._messages, []
        self._arrived.clear()
        if all(message.number is not None for message in batch):
            batch.sort(key=lambda message: message.number or 0)
        return batch

    async def _on_message(self, message: Msg) -> None:
        self._messages.append(understand(message, self._link.frame))
        self._arrived.set()
