"""A receiver that checks what it delivers, and reports.

    python -m tests.network.listener CODEC FILL START UNTIL (GROUP:PORT[,INTERFACE] | KEY=VALUE)..

FILL is a URL or "-", START a number or "live", UNTIL the number with which it ends, 0 for none; KEY
is one more argument of `Receiver`. It prints "ready", then "at N" every hundred numbers, "rejoined"
after rejoining a group, and at the end one line of JSON: what was delivered, lost and wrong, and
the counters. A line `stop` on stdin ends it early.

Numbers must come in order, and without a gap unless the feed has a filter (`subject`). What
publishers (tests/network/publisher.py) wrote must arrive complete, and in order for each of them.
The first few errors are in the report.
"""

import asyncio
import dataclasses
import json
import sys
from typing import Any

from seriatim.receiver import (
    Ended,
    FeedMessage,
    Group,
    MessagesLost,
    NewStream,
    Receiver,
    codec_named,
)
from tests.network.publisher import payload

FAULTS_MAX = 10
SECONDS = {"patience", "answer", "idle"}
LOOK_SECONDS = 0.02  # between two looks at whether a group was joined again
STEP = 100


class Judge:
    """What was delivered, and what is wrong with it."""

    def __init__(self, until: int, filtered: bool) -> None:
        self.until, self.filtered = until, filtered
        self.delivered = self.first = self.last = 0
        self.lost: list[tuple[int, int]] = []
        self.others: list[str] = []  # ends and new streams
        self.wrong: list[str] = []
        self._indexes: dict[str, int] = {}

    def hear(self, event: object) -> None:
        match event:
            case FeedMessage():
                self._follow(event.number, event.number)
                self.delivered += 1
                self._check(event)
            case MessagesLost():
                self._follow(event.first, event.last)
                self.lost.append((event.first, event.last))
                self._indexes.clear()  # whose they were is not known
            case NewStream():
                self.others.append("new stream")
                self.first = self.last = 0
                self._indexes.clear()
            case Ended():
                self.others.append(f"ended {event.after}")

    def _follow(self, first: int, last: int) -> None:
        if self.first == 0:
            self.first = first
        elif first <= self.last or (first > self.last + 1 and not self.filtered):
            self._fault(f"{first} follows {self.last}")
        if last // STEP > self.last // STEP:
            print("at", last, flush=True)
        self.last = last

    def _check(self, message: FeedMessage) -> None:
        name, index, _ = message.payload.split(b" ", 2)
        publisher, at = name.decode(), int(index)
        if message.payload != payload(publisher, at, len(message.payload)):
            self._fault(f"{message.number} is not what {publisher} wrote as its {at}")
        if publisher in self._indexes and at != self._indexes[publisher] + 1:
            self._fault(
                f"{message.number} is {publisher}'s {at}, after its {self._indexes[publisher]}"
            )
        self._indexes[publisher] = at

    def _fault(self, text: str) -> None:
        if len(self.wrong) < FAULTS_MAX:
            self.wrong.append(text)

    @property
    def done(self) -> bool:
        return 0 < self.until <= self.last


async def listen(receiver: Receiver, judge: Judge) -> None:
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[None] = loop.create_future()

    def told() -> None:
        sys.stdin.readline()
        loop.remove_reader(sys.stdin)
        stop.set_result(None)

    async def hear() -> None:
        async for events in receiver.batches():
            for event in events:
                judge.hear(event)
            if judge.done:
                return

    def look(before: int) -> None:
        rejoins = receiver.counters.rejoins
        if rejoins > before:
            print("rejoined", flush=True)
        loop.call_later(LOOK_SECONDS, look, rejoins)

    async with receiver:
        print("ready", flush=True)
        look(0)
        loop.add_reader(sys.stdin, told)
        hearing = loop.create_task(hear())
        await asyncio.wait([hearing, stop], return_when=asyncio.FIRST_COMPLETED)
        if not hearing.cancel():
            hearing.result()  # raises what went wrong in there


def main(codec: str, fill: str, start: str, until: str, *more: str) -> None:
    groups: list[Group] = []
    options: dict[str, Any] = {}
    for feed in more:
        key, equals, value = feed.partition("=")
        if equals:
            options[key] = int(value) if value.isdigit() else value
            if key in SECONDS:
                options[key] = float(value)
            continue
        address, _, interface = feed.partition(",")
        group, _, port = address.rpartition(":")
        groups.append(Group(group.strip("[]"), int(port), interface or "eth0"))
    receiver = Receiver(
        groups,
        codec=codec_named(codec, filtered="subject" in options),
        fill=None if fill == "-" else fill,
        start=int(start) if start.isdigit() else start,
        **options,
    )
    judge = Judge(int(until), "subject" in options)
    asyncio.run(listen(receiver, judge))
    said: dict[str, Any] = {
        "delivered": judge.delivered,
        "first": judge.first,
        "last": judge.last,
        "lost": judge.lost,
        "others": judge.others,
        "wrong": judge.wrong,
        "troubles": receiver.troubles,
        "counters": dataclasses.asdict(receiver.counters),
    }
    print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
