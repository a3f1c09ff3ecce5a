"""A user's program that uses every word of the client, in both faces."""

import asyncio
import contextlib
from collections.abc import Awaitable
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta

import seriatim
from seriatim import (
    BlockingClient,
    Client,
    ClientEvent,
    Expect,
    JournalChanged,
    Lost,
    Message,
    Position,
    Reader,
    StreamInfo,
    Table,
)


def told(event: ClientEvent) -> None:
    print(event.kind, event.server, event.error)


async def publishing(stream: Client) -> None:
    number: int = await stream.publish(
        "a", b"x", headers={"A": "b"}, id="1", expect=Expect(last=0), timeout=1.5
    )
    number = await stream.publish("a", bytearray(b"x"), expect=number)
    sent: asyncio.Future[int] = await stream.send("a", memoryview(b"x"))
    number = await sent
    await stream.publish_unconfirmed("a", b"x", reply="b", headers={})
    async with stream.batch("import", 7, timeout=3) as batch:
        await batch.publish("a", b"x", headers={"A": "b"}, reply="r")
    first: int = batch.first
    print(number, first, batch.last, batch.rows, batch.is_repeated)


async def reading(stream: Client) -> None:
    reader: Reader[Message] = stream.read("a.>", start=1, until=10)
    async for message in reader:
        text: str = message.subject + message.reply
        at: datetime = message.time
        print(text, at, message.number, message.time_ns, message.headers["A"], message.json())
    position: Position = reader.position
    async with stream.read(position="p", or_now=True, losses="yield") as items:
        async for item in items:
            match item:
                case Lost():
                    print(item.first, item.last)
                case JournalChanged():
                    print(item.before, item.now.journal)
                case _:
                    print(item.payload)
    async for batch in stream.read(since=timedelta(hours=1), until="now").batches():
        print([one.number for one in batch])

    def load() -> Position | None:
        return None

    async def save(position: Position) -> None:
        print(position.number)

    stream.read(position=(load, save))
    stream.read(start=position)
    stream.read(last=True)
    stream.read(since="10m", until=datetime.now(UTC))
    await reader.aclose()
    one: Message = await stream.get(1)
    last: Message | None = await stream.last("a", timeout=1)
    info: StreamInfo = await stream.info()
    table: Table = await stream.table(1, 2, subject="a", columns=["number"])
    print(one, last, info.oldest, info.limits["dedupe_window"], len(table))


async def plain(stream: Client) -> None:
    def at_once(message: Message) -> None:
        print(message)

    async def in_turn(message: Message) -> None:
        await stream.respond(message, b"answer", headers={})

    await stream.subscribe("a", at_once, queue="q", confirm=False)
    subscription = await stream.subscribe("a", in_turn)
    async for message in subscription:
        print(message.payload)
    message = await subscription.next(timeout=1)
    await subscription.unsubscribe(after=1)
    await subscription.drain()
    answer: Message = await stream.request("a", b"", headers={}, timeout=1)
    print(answer.status, answer.description, stream.new_inbox(), stream.is_connected)
    print(stream.is_closed, stream.server["version"], stream.max_payload)
    await stream.flush(timeout=1)
    await stream.drain(timeout=1)
    await stream.close()


async def main() -> None:
    async with seriatim.connect(
        ["a", "b"],
        wait=True,
        reconnect=10.0,
        user="u",
        password="p",
        tls=True,
        name="n",
        on_event=told,
        discover=False,
        connect_timeout=1,
        ping_interval=1,
        pings_max=3,
        inbox_prefix="_INBOX.me",
    ) as stream:
        await publishing(stream)
    opened: Awaitable[Client] = seriatim.connect()
    await plain(await opened)
    await reading(await seriatim.connect(creds="file", frame=None))


def blocking(stream: BlockingClient) -> None:
    number: int = stream.publish("a", b"x", headers={}, id="1", expect=1, timeout=1)
    sent: Future[int] = stream.send("a", b"x")
    number = sent.result()
    stream.publish_unconfirmed("a", b"x", reply="r")
    with stream.batch("import", number) as batch:
        batch.publish("a", b"x")
    with stream.read("a", start=number) as reader:
        for message in reader:
            text: str = message.subject
            print(text)
    for item in stream.read(losses="yield"):
        if isinstance(item, Lost):
            print(item.first)
        elif isinstance(item, JournalChanged):
            print(item.now)
        else:
            print(item.payload)
    for many in stream.read(until="now").batches():
        print(many[0].number)

    def told_of(message: Message) -> None:
        print(message)

    subscription = stream.subscribe("a", told_of, queue="q")
    for message in subscription:
        print(message)
    print(subscription.next(timeout=1))
    subscription.unsubscribe(after=1)
    subscription.drain()
    answer: Message = stream.request("a", b"", timeout=1)
    stream.respond(answer, b"")
    info: StreamInfo = stream.info()
    found: Message | None = stream.last("a")
    print(info.last, found, stream.get(1), stream.table(1, 2), batch.first, batch.is_repeated)
    stream.flush()
    stream.drain()
    stream.close()


def main_blocking() -> None:
    with (
        contextlib.suppress(seriatim.ConnectionLost, seriatim.Refused),
        seriatim.connect("a", token="t") as stream,
    ):
        blocking(stream)
    opened: BlockingClient = seriatim.connect().open()
    opened.close()
    try:
        raise seriatim.WrongLastNumber("wrong last sequence: 7")
    except seriatim.WrongLastNumber as error:
        last: int = error.last
        print(last, error.subject, error.status)
