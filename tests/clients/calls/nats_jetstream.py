"""Every call of the package `nats-jetstream`, nats-py's second JetStream client, in strict mode.

    python3.13 nats_jetstream.py nats://127.0.0.1:4222

It needs Python 3.13 and does not live beside `nats-py`, so it runs in an environment of its own,
and this folder is where it finds `outcomes`. In strict mode it raises an error for each field that
it does not know.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import nats.client
import nats.jetstream
from nats.jetstream.consumer import ConsumerConfig, OrderedConsumerConfig
from nats.jetstream.stream import StreamConfig
from outcomes import Outcomes

PATIENCE_S = 20.0


class Calls:
    """One client, and what its calls came to."""

    def __init__(self, client: Any, outcomes: Outcomes) -> None:
        self.client = client
        self.js = nats.jetstream.new(client, strict=True)
        self.outcomes = outcomes
        self.of = outcomes.of

    async def publish(self, subject: str, data: bytes = b"", **options: Any) -> int:
        await self.client.publish("noise", b"noise")
        ack = await self.js.publish(subject, data, **options)
        return self.outcomes.published(ack.sequence)

    async def fill(self, prefix: str, count: int, subjects: int = 3) -> list[int]:
        return [await self.publish(f"{prefix}.{at % subjects}", b"m%d" % at) for at in range(count)]

    async def info(self, name: str, call: Any) -> Any:
        """Note the info that a stream or a consumer came with."""
        try:
            found = await call
        except Exception as error:
            self.outcomes.note(name, f"{type(error).__name__}: {error}")
            return None
        self.outcomes.note(name, found.info)
        return found

    def got(self, messages: list[Any]) -> list[Any]:
        found = []
        for one in messages:
            meta = one.metadata
            place = {"stream": meta.sequence.stream, "consumer": meta.sequence.consumer}
            about = [meta.num_delivered, meta.num_pending, meta.stream, meta.consumer]
            headers = one.headers.asdict() if one.headers is not None else None
            found.append([one.subject, one.data, headers, place, *about])
        return found

    async def batch(self, name: str, batch: Any) -> list[Any]:
        found = [one async for one in await batch]
        self.outcomes.note(name, self.got(found))
        return found


async def all_of(iterator: AsyncIterator[Any]) -> list[Any]:
    return [one async for one in iterator]


async def taken(messages: Any, count: int) -> list[Any]:
    return [await anext(messages) for _ in range(count)]


async def streams(calls: Calls) -> None:
    js, of, info = calls.js, calls.of, calls.info
    config = StreamConfig(name="A", subjects=["a.>"], description="first", allow_direct=True)
    stream = await info("create", js.create_stream(config))
    await info("create again", js.create_stream(config))
    await info("create another", js.create_stream(name="A", subjects=["a.b"]))
    await info("overlapping", js.create_stream(name="B", subjects=["a.b"]))
    await info("with options", js.create_stream(name="B", subjects=["b"], max_consumers=3))
    await of("update", js.update_stream(name="A", subjects=["a.>", "aa"], allow_direct=True))
    await of("update none", js.update_stream(name="NONE", subjects=["n"]))
    first = await calls.publish("a.h", b"", headers={"A": "b", "Nats-Msg-Id": "1"})
    await of("duplicate", js.publish("a.h", b"", headers={"Nats-Msg-Id": "1"}))
    wrong = {"Nats-Expected-Last-Subject-Sequence": str(first + 1)}
    await of("wrong last", js.publish("a.h", b"", headers=wrong))
    await of("no stream", js.publish("nowhere", b"x", retry_attempts=1, retry_wait=0.01))
    numbers = await calls.fill("a", 6)
    await of("names", all_of(js.stream_names()))
    await of("names of a subject", all_of(js.stream_names("a.x")))
    await of("names of no subject", all_of(js.stream_names("nowhere")))
    await of("list", all_of(js.list_streams()))
    await of("list of a subject", all_of(js.list_streams("b")))
    await of("info", js.get_stream_info("A", subjects_filter=">"))
    await of("info from", js.get_stream_info("A", subjects_filter=">", offset=2))
    await of("info of none", js.get_stream_info("NONE"))
    await info("get", js.get_stream("A"))
    for one in (stream, await js.get_stream("A")):  # by direct get
        await of("message", one.get_message(numbers[0]))
        await of("message of none", one.get_message(1 << 40))
        await of("last", one.get_last_message_for_subject("a.h"))
        await of("last of none", one.get_last_message_for_subject("a.none"))
    await of("message by the API", js.get_message("A", numbers[1]))
    await of("last by the API", js.get_last_message_for_subject("A", "a.2"))
    await of("delete message", stream.delete_message(numbers[3]))
    await of("secure delete", stream.secure_delete_message(numbers[4]))
    await of("delete message again", stream.delete_message(numbers[3]))
    await of("details", stream.get_info(deleted_details=True))
    await of("purge subject", stream.purge(filter="a.0"))
    await of("purge below", stream.purge(sequence=numbers[2]))
    await of("purge but one", stream.purge(keep=1))
    await of("at last", stream.get_info())
    account = await js.account_info()
    calls.outcomes.note("account", [account.streams, account.consumers])
    await of("delete", js.delete_stream("A"))
    await of("delete again", js.delete_stream("A"))
    await js.delete_stream("B")


async def consumers(calls: Calls) -> None:
    js, of, info = calls.js, calls.of, calls.info
    stream = await js.create_stream(name="C", subjects=["c.>"])
    numbers = await calls.fill("c", 9)
    config = ConsumerConfig(name="d", durable_name="d", ack_policy="explicit")
    await info("create", stream.create_consumer(config))
    await info("create again", stream.create_consumer(config))
    await info("create another", stream.create_consumer(name="d", ack_policy="all"))
    changed: dict[str, Any] = {"durable_name": "d", "ack_policy": "explicit", "max_deliver": 4}
    await info("update", stream.update_consumer(name="d", **changed))
    await info("update none", stream.update_consumer(name="none"))
    more: dict[str, Any] = {"ack_wait": timedelta(seconds=7), "filter_subject": "c.1"}
    await info("create or update", stream.create_or_update_consumer(name="e", **more))
    await info("by the context", js.create_consumer("C", "f", filter_subjects=["c.0", "c.2"]))
    await info("update by it", js.update_consumer("C", "f", filter_subjects=["c.0"]))
    await info("either by it", js.create_or_update_consumer("C", name="f", headers_only=True))
    since = datetime(2020, 1, 1, tzinfo=UTC)
    limits: dict[str, Any] = {"max_batch": 5, "max_bytes": 1000, "max_waiting": 3}
    for name, one in {
        "last": {"deliver_policy": "last"},
        "new": {"deliver_policy": "new"},
        "each": {"deliver_policy": "last_per_subject", "filter_subject": "c.>"},
        "number": {"deliver_policy": "by_start_sequence", "opt_start_seq": numbers[4]},
        "time": {"deliver_policy": "by_start_time", "opt_start_time": since},
        "limits": limits | {"max_expires": timedelta(seconds=9), "max_ack_pending": 7},
        "backoff": {"backoff": [1_000_000_000, 2_000_000_000], "max_deliver": 3},
        "bad": {"filter_subject": "x"},
        "push": {"deliver_subject": "to.me"},
    }.items():
        await info(name, stream.create_consumer(name=name, **one))
    await of("names", all_of(js.consumer_names("C")))
    await of("list", all_of(js.list_consumers("C")))
    await info("get", stream.get_consumer("d"))
    await info("get push", stream.get_consumer("push"))
    await info("get none", js.get_consumer("C", "none"))
    await of("info", js.get_consumer_info("C", "each"))
    await of("info of none", stream.get_consumer_info("none"))
    far = datetime(2036, 1, 1, tzinfo=UTC).timestamp()
    await of("pause", stream.pause_consumer("d", far))
    await of("paused", stream.get_consumer_info("d"))
    await of("resume", stream.resume_consumer("d"))
    consumer = await stream.get_consumer("d")
    for message in [one async for one in await consumer.fetch(max_messages=4, max_wait=PATIENCE_S)]:
        await message.double_ack(timeout=PATIENCE_S)
    await of("reset", stream.reset_consumer("d"))
    await of("reset to", consumer.reset(numbers[1]))
    await of("reset below", stream.reset_consumer("number", numbers[0]))
    await calls.batch("fetch", consumer.fetch(max_messages=2, max_wait=PATIENCE_S))
    await of("delete", stream.delete_consumer("d"))
    await of("delete again", js.delete_consumer("C", "d"))


async def pulling(calls: Calls) -> None:
    js, of, batch = calls.js, calls.of, calls.batch
    stream = await js.create_stream(name="L", subjects=["l.>"])
    await calls.fill("l", 12)
    consumer = await stream.create_consumer(name="d", durable_name="d", ack_policy="explicit")
    one, two, three, four = await batch("four", consumer.fetch(max_messages=4, max_wait=PATIENCE_S))
    await two.nak()
    await three.term()
    await four.in_progress()
    await of("confirmed", one.double_ack(timeout=PATIENCE_S))
    (again,) = await batch("again", consumer.fetch_nowait(max_messages=1))
    await again.term_with_reason("of no use")
    rest = await batch("at once", consumer.fetch_nowait(max_messages=100))
    await four.nak_with_delay(0.2)
    (late,) = await batch("later", consumer.fetch(max_messages=1, max_wait=9, heartbeat=0.05))
    for message in [*rest, late]:
        await message.ack()
    await of("confirmed at last", late.double_ack(timeout=PATIENCE_S))
    await of("info", consumer.get_info())
    await batch("none", consumer.fetch(max_messages=5, max_wait=0.2, heartbeat=0.05))
    await batch("none at once", consumer.fetch_nowait(max_messages=5))
    waiting = asyncio.ensure_future(consumer.next(max_wait=PATIENCE_S, heartbeat=0.1))
    while not (await js.get_consumer_info("L", "d")).num_waiting:
        pass
    await calls.publish("l.1", b"new")
    calls.outcomes.note("next", calls.got([await waiting]))
    await of("none next", consumer.next(max_wait=0.2))
    size = await stream.create_consumer(name="size", ack_policy="explicit")
    await batch("bytes", size.fetch(max_bytes=200, max_wait=1))
    await batch("bytes at once", size.fetch_nowait(max_bytes=200))
    limited = await stream.create_consumer(name="limited", max_batch=2, ack_policy="explicit")
    found = await limited.fetch(max_messages=3, max_wait=1)
    calls.outcomes.note("too many", [calls.got([one async for one in found]), str(found.error)])
    await stream.delete_consumer("d")
    found = await consumer.fetch(max_messages=3, max_wait=1)
    calls.outcomes.note("of none", [calls.got([one async for one in found]), str(found.error)])

    for options in ({"max_messages": 4}, {"max_bytes": 600}):
        flowing = await stream.create_consumer(name=min(options), ack_policy="explicit")
        messages = await flowing.messages(heartbeat=0.5, max_wait=2, **options)
        for message in calls.got(found := await taken(messages, 6)):
            calls.outcomes.note("stream of messages", message[:4])
        for message in found:
            await message.double_ack(timeout=PATIENCE_S)
        await messages.stop()
        await of("close", flowing.close())


async def ordered(calls: Calls) -> None:
    js, of = calls.js, calls.of
    stream = await js.create_stream(name="O", subjects=["o.>"])
    numbers = await calls.fill("o", 9)
    async with await stream.ordered_consumer(OrderedConsumerConfig(name_prefix="p")) as consumer:
        found = [one async for one in await consumer.fetch(max_messages=4, max_wait=PATIENCE_S)]
        calls.outcomes.note("fetch", [[one.subject, one.data] for one in found])
        await js.delete_consumer("O", (await consumer.get_info()).name)
        found = [one async for one in await consumer.fetch(max_messages=2, max_wait=1)]
        found += [one async for one in await consumer.fetch(max_messages=9, max_wait=1)]
        calls.outcomes.note("after it was deleted", [[one.subject, one.data] for one in found])
    config: dict[str, Any] = {"filter_subjects": ["o.1"], "headers_only": True}
    config |= {"deliver_policy": "by_start_sequence", "opt_start_seq": numbers[3]}
    consumer = await js.ordered_consumer("O", **config)
    found = [one async for one in await consumer.fetch_nowait(max_messages=9)]
    sizes = [[one.subject, one.headers.asdict()] for one in found]
    calls.outcomes.note("filtered", sizes)
    await of("reset", consumer.reset())
    await consumer.close()
    consumer = await js.ordered_consumer("O")
    messages = await consumer.messages(max_messages=4, heartbeat=0.5, max_wait=2)
    found = await taken(messages, 9)
    await calls.publish("o.x", b"late")
    found += await taken(messages, 1)
    calls.outcomes.note("messages", [[one.subject, one.data] for one in found])
    await messages.stop()
    await consumer.close()


async def main(url: str) -> None:
    outcomes = Outcomes()
    for section in (streams, consumers, pulling, ordered):
        client = await nats.client.connect(url, timeout=PATIENCE_S)
        outcomes.begin(section.__name__)
        async with asyncio.timeout(4 * PATIENCE_S):
            await section(Calls(client, outcomes))
        await client.close()
    outcomes.print()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
