"""A receiver like a user's program, which counts messages: receiver.py GROUP PORT.

It speaks the protocol of the programs in C (programs/program.h), and takes lists of events from
`seriatim.receiver`. A gap is a loss here, because there is no server to ask.
"""

import asyncio
import sys
import time

from seriatim.receiver import FeedMessage, Group, MessagesLost, Receiver


class Counts:
    """The counts of received and missing messages."""

    def __init__(self) -> None:
        self.messages = self.missing = self.first = self.last = 0

    async def count(self, receiver: Receiver) -> None:
        """Take everything until the receiver is closed."""
        async for events in receiver.batches():
            for event in events:
                if isinstance(event, FeedMessage):
                    assert event.number > self.last, f"{event.number} came after {self.last}"
                    self.first = self.first or event.number
                    self.last = event.number
                    self.messages += 1
                elif isinstance(event, MessagesLost):
                    self.missing += event.last - event.first + 1


async def drained(receiver: Receiver) -> None:
    """Wait until everything sent has been read: nothing came in two turns of the loop."""
    before = -1
    while receiver.counters.datagrams != before:
        before = receiver.counters.datagrams
        await asyncio.sleep(0)
        await asyncio.sleep(0)


async def main(group: str, port: int) -> None:
    loop = asyncio.get_running_loop()
    told = asyncio.Event()
    counts = Counts()
    loop.add_reader(sys.stdin, told.set)
    async with Receiver([Group(group, port, "127.0.0.1")]) as receiver:
        counting = loop.create_task(counts.count(receiver))
        print("ready", flush=True)
        await told.wait()
        loop.remove_reader(sys.stdin)
        await drained(receiver)
        datagrams = receiver.counters.datagrams
    await counting
    print(
        f"datagrams={datagrams} messages={counts.messages} missing={counts.missing}"
        f" first={counts.first} last={counts.last} cpu={time.process_time()}",
        flush=True,
    )


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
    sys.stdin.read()
