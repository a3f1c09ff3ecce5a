"""`seriatim sub`: show what arrives on some subjects, in the one order."""

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass

from nats.aio.msg import Msg

from broker.cli.client import Link, connected
from broker.cli.errors import CliError
from broker.cli.past import Past, is_end, lost, takes_in
from broker.cli.view import Message, understand

# What may wait unseen here before nats-py drops: the pace is the terminal's, not the broker's.
PENDING_BYTES_MAX = 256 << 20
SETTLE_SECONDS_MAX = 5.0


@dataclass(frozen=True, slots=True)
class Wish:
    """What to show: `count` messages (0: for ever), from the past on where there is one."""

    subjects: list[str]
    queue: str = ""
    count: int = 0
    past: Past | None = None


def subscribe(
    url: str, wish: Wish, show: Callable[[Message], None], ready: Callable[[], None]
) -> None:
    """Show messages until there were as many as wished, or the end. Raises `CliError`."""
    asyncio.run(_subscribe(url, wish, show, ready))


async def _subscribe(
    url: str, wish: Wish, show: Callable[[Message], None], ready: Callable[[], None]
) -> None:
    async with connected(url) as link:
        if wish.past is not None and not link.frame:
            raise CliError(f"{link.url}: the server there keeps no messages")
        inbox = Inbox(link)
        past = wish.past
        for subject in wish.subjects if past is None else [past.subject(wish.subjects)]:
            await inbox.subscribe(subject, wish.queue)
        await link.during(link.settle(SETTLE_SECONDS_MAX))
        ready()
        shown = 0
        while not wish.count or shown < wish.count:
            for message in await link.during(inbox.take()):
                if past is not None and message.number is None and _is_event(message.subject):
                    if is_end(message.subject):
                        return
                elif past is None or takes_in(wish.subjects, message.subject):
                    show(message)
                    shown += 1
                    if shown == wish.count:
                        return


def _is_event(subject: str) -> bool:
    """Whether the broker itself says something; what is lost is told."""
    text = lost(subject)
    if text:
        print(f"seriatim: {text}", file=sys.stderr, flush=True)
    return bool(text) or is_end(subject)


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
