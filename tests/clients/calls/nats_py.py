"""Every call of nats-py's JetStream client, with what each came to.

    python -m tests.clients.calls.nats_py nats://127.0.0.1:4222

Noise on a subject of no stream comes between the messages, so that sequences have holes where they
are the broker's numbers.
"""

import asyncio
import sys
from collections.abc import Iterable
from typing import Any

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import (
    AckPolicy,
    ConsumerConfig,
    DeliverPolicy,
    KeyValueConfig,
    ReplayPolicy,
    RetentionPolicy,
    StreamConfig,
)

from tests.clients.calls.outcomes import Outcomes

PATIENCE_S = 20.0
FETCH_S = 1.0  # for a fetch that waits for more than there is: all of that comes in time


class Calls:
    """One client, and what its calls came to."""

    def __init__(self, client: Client, outcomes: Outcomes) -> None:
        self.client = client
        self.js: JetStreamContext = client.jetstream(timeout=PATIENCE_S)
        self.outcomes = outcomes
        self.of = outcomes.of

    async def publish(self, subject: str, data: bytes = b"", **options: Any) -> int:
        """Publish what is not to be noted, after a message of no stream."""
        await self.client.publish("noise", b"noise")
        ack = await self.js.publish(subject, data, **options)
        return self.outcomes.published(ack.seq)

    async def fill(self, prefix: str, count: int, subjects: int = 3) -> list[int]:
        return [await self.publish(f"{prefix}.{at % subjects}", b"m%d" % at) for at in range(count)]

    def got(self, messages: Iterable[Msg]) -> list[Any]:
        """What a message says of itself."""
        found = []
        for one in messages:
            meta = one.metadata
            sequences = {"stream": meta.sequence.stream, "consumer": meta.sequence.consumer}
            about = [meta.num_delivered, meta.num_pending, meta.stream, meta.consumer]
            found.append([one.subject, one.data, one.headers, sequences, *about])
        return found

    async def fetched(self, name: str, sub: Any, count: int, **options: Any) -> list[Msg]:
        try:
            messages: list[Msg] = await sub.fetch(count, **options)
        except Exception as error:
            self.outcomes.note(name, f"{type(error).__name__}: {error}")
            return []
        self.outcomes.note(name, self.got(messages))
        return messages

    async def next(self, sub: Any, count: int) -> list[Msg]:
        return [await sub.next_msg(timeout=PATIENCE_S) for _ in range(count)]


async def streams(calls: Calls) -> None:
    """The manager's calls on streams."""
    js, of = calls.js, calls.of
    config = StreamConfig(name="A", subjects=["a.>"], description="first", allow_direct=True)
    await of("add", js.add_stream(config))
    await of("add again", js.add_stream(config))
    await of("add another", js.add_stream(name="A", subjects=["a.b"]))
    await of("add overlapping", js.add_stream(name="B", subjects=["a.b"]))
    await of("add without a name", js.add_stream(subjects=["a.b"]))
    await of("add with a bad name", js.add_stream(name="a.b", subjects=["c"]))
    await of("add with options", js.add_stream(name="B", subjects=["b"], max_consumers=3))
    await of("update", js.update_stream(config.evolve(subjects=["a.>", "aa"])))
    await of("update of none", js.update_stream(name="NONE", subjects=["n"]))
    await calls.fill("a", 6)
    await of("info", js.stream_info("A"))
    await of("info with subjects", js.stream_info("A", subjects_filter=">"))
    await of("info of none", js.stream_info("NONE"))
    await of("find", js.find_stream_name_by_subject("a.x"))
    await of("find none", js.find_stream_name_by_subject("nowhere"))
    await of("list", js.streams_info())
    await of("list from", js.streams_info(offset=1))
    await of("list from the end", js.streams_info(offset=2))
    calls.outcomes.note("iterator", list(await js.streams_info_iterator()))
    await of("purge a subject", js.purge_stream("A", subject="a.1"))
    await of("purge but one", js.purge_stream("A", subject="a.2", keep=1))
    await of("info then", js.stream_info("A", subjects_filter="a.*"))
    await of("purge", js.purge_stream("A"))
    await of("info at last", js.stream_info("A"))
    await of("purge of none", js.purge_stream("NONE"))
    await of("delete", js.delete_stream("B"))
    await of("delete again", js.delete_stream("B"))
    await of("delete the other", js.delete_stream("A"))
    account = await js.account_info()
    calls.outcomes.note("account", [account.streams, account.consumers])


async def publishing(calls: Calls) -> None:
    """Publishing with every option, and messages one by one."""
    js, of, outcomes = calls.js, calls.of, calls.outcomes
    await js.add_stream(name="P", subjects=["p.>"], allow_direct=True)
    first = await calls.publish("p.1", b"one")
    await of("expected stream", js.publish("p.1", b"x", stream="ELSE"))
    await of("no stream", js.publish("nowhere", b"x"))
    again = {"Nats-Msg-Id": "id"}
    second = await calls.publish("p.1", b"two", headers=dict(again), stream="P")
    await of("duplicate", js.publish("p.1", b"two", headers=dict(again)))
    for header in ("Nats-Expected-Last-Sequence", "Nats-Expected-Last-Subject-Sequence"):
        await of(f"{header} wrong", js.publish("p.1", b"x", headers={header: str(first)}))
        second = await calls.publish("p.1", b"right", headers={header: str(second)})
    await of("wrong id", js.publish("p.1", headers={"Nats-Expected-Last-Msg-Id": "other"}))
    await of("TTL", js.publish("p.1", b"x", msg_ttl=10))
    await of("roll-up", js.publish("p.1", b"x", headers={"Nats-Rollup": "sub"}))
    futures = [await js.publish_async("p.2", b"%d" % at) for at in range(5)]
    await js.publish_async_completed()
    for future in futures:
        outcomes.published(future.result().seq)
    outcomes.note("asynchronous", [js.publish_async_pending(), [f.result() for f in futures]])
    await calls.publish("p.h", b"", headers={"A": "b", "C": "d e"})
    for direct in (False, True):
        await of(f"get {direct}", js.get_msg("P", second, direct=direct))
        await of(f"next {direct}", js.get_msg("P", first, "p.2", direct=direct, next=True))
        await of(f"last {direct}", js.get_last_msg("P", "p.h", direct=direct))
        await of(f"last of none {direct}", js.get_last_msg("P", "p.none", direct=direct))
        await of(f"none {direct}", js.get_msg("P", 1 << 40, direct=direct))
    await of("get of no stream", js.get_msg("NONE", 1))
    await of("direct of no stream", js.get_msg("NONE", 1, direct=True))
    await of("delete", js.delete_msg("P", second))
    await of("delete again", js.delete_msg("P", second))
    await of("get deleted", js.get_msg("P", second))
    await of("info", js.stream_info("P", subjects_filter=">"))


async def consumers(calls: Calls) -> None:
    """The manager's calls on consumers."""
    js, of = calls.js, calls.of
    await js.add_stream(name="C", subjects=["c.>"])
    numbers = await calls.fill("c", 9)
    every = ConsumerConfig(
        name="every", durable_name="every", description="all", ack_policy=AckPolicy.EXPLICIT
    )
    await of("add", js.add_consumer("C", every))
    await of("add again", js.add_consumer("C", every))
    await of("change", js.add_consumer("C", every.evolve(ack_wait=7.5, max_deliver=4)))
    await of("refused change", js.add_consumer("C", every.evolve(ack_policy=AckPolicy.NONE)))
    legacy = ConsumerConfig(durable_name="legacy", ack_policy=AckPolicy.ALL, max_ack_pending=7)
    await of("add durable", js.add_consumer("C", legacy))
    several = ConsumerConfig(name="several", filter_subjects=["c.0", "c.2"], inactive_threshold=60)
    await of("add with filters", js.add_consumer("C", several))
    for policy in ("last", "new", "last_per_subject", "by_start_sequence", "by_start_time"):
        more: dict[str, Any] = {}
        if policy == "by_start_sequence":
            more["opt_start_seq"] = numbers[4]
        if policy == "by_start_time":
            more["opt_start_time"] = "2020-01-01T00:00:00Z"
        config = ConsumerConfig(name=policy, deliver_policy=DeliverPolicy(policy), **more)
        config = config.evolve(filter_subject="c.>", replay_policy=ReplayPolicy.ORIGINAL)
        await of(policy, js.add_consumer("C", config.evolve(headers_only=True)))
    push: dict[str, Any] = {"deliver_subject": "to.me", "deliver_group": "g", "idle_heartbeat": 5.0}
    await of("push", js.add_consumer("C", name="push", flow_control=True, **push))
    limits: dict[str, Any] = {"max_waiting": 3, "max_ack_pending": 5, "rate_limit_bps": 9000}
    await of("limits", js.add_consumer("C", name="limits", **limits))
    await of("backoff", js.add_consumer("C", name="backoff", backoff=[1.0, 2.0], max_deliver=3))
    await of("bad backoff", js.add_consumer("C", name="bad", backoff=[1.0, 2.0], max_deliver=1))
    await of("bad filter", js.add_consumer("C", name="bad", filter_subject="x.>"))
    await of("bad name", js.add_consumer("C", name="a.b"))
    await of("no stream", js.add_consumer("NONE", name="a"))
    await of("info", js.consumer_info("C", "every"))
    await of("info of none", js.consumer_info("C", "none"))
    await of("list", js.consumers_info("C"))
    await of("list from", js.consumers_info("C", offset=5))
    await of("pause", js.pause_consumer("C", "every", "2036-01-01T00:00:00Z"))
    await of("info paused", js.consumer_info("C", "every"))
    await of("resume", js.resume_consumer("C", "every"))
    await of("pause none", js.pause_consumer("C", "none", "2036-01-01T00:00:00Z"))
    sub = await js.pull_subscribe_bind("every", "C")
    for message in await sub.fetch(4, timeout=PATIENCE_S):
        await message.ack_sync(timeout=PATIENCE_S)
    await of("info then", js.consumer_info("C", "every"))
    await of("reset", js.reset_consumer("C", "every"))
    await of("reset to", js.reset_consumer("C", "every", seq=numbers[1]))
    await of("reset below", js.reset_consumer("C", "by_start_sequence", seq=numbers[1]))
    await calls.fetched("fetch", sub, 2, timeout=PATIENCE_S)
    await of("delete", js.delete_consumer("C", "every"))
    await of("delete again", js.delete_consumer("C", "every"))


async def pulling(calls: Calls) -> None:
    """Pull subscriptions: fetch in all its ways, and acks of all kinds."""
    js, of, outcomes = calls.js, calls.of, calls.outcomes
    await js.add_stream(name="L", subjects=["l.>"])
    await calls.fill("l", 12)
    sub = await js.pull_subscribe("l.>", durable="d", config=ConsumerConfig(ack_wait=60))
    (message,) = await calls.fetched("one", sub, 1, timeout=PATIENCE_S)
    await message.ack()
    try:
        await message.ack()
    except nats.errors.MsgAlreadyAckdError:
        outcomes.note("ack twice", "refused")
    first, second, third, fourth = await calls.fetched("four", sub, 4, timeout=PATIENCE_S)
    await second.nak()
    await third.term()
    await fourth.in_progress()
    await of("sync", first.ack_sync(timeout=PATIENCE_S))  # and so those before are done
    (again,) = await calls.fetched("nak", sub, 1, timeout=PATIENCE_S)
    await of("sync again", again.ack_sync(timeout=PATIENCE_S))
    await of("info", sub.consumer_info())
    rest = await calls.fetched("the rest", sub, 100, timeout=FETCH_S)
    await fourth.nak(delay=0.2)
    late = await calls.fetched("with a heartbeat", sub, 1, timeout=PATIENCE_S, heartbeat=0.1)
    await calls.fetched("none", sub, 1, timeout=0.2)
    await calls.fetched("none of many", sub, 5, timeout=0.2, heartbeat=0.05)
    for message in late + rest:
        await message.ack_sync(timeout=PATIENCE_S)
    await of("info at the end", sub.consumer_info())
    waiting = asyncio.ensure_future(calls.fetched("waited", sub, 1, timeout=PATIENCE_S))
    while not (await js.consumer_info("L", "d")).num_waiting:
        pass
    await calls.publish("l.1", b"new")
    for message in await waiting:
        await message.ack_sync(timeout=PATIENCE_S)
    outcomes.note("pending", [sub.pending_msgs, sub.pending_bytes])
    await of("unsubscribe", sub.unsubscribe())
    ephemeral = await js.pull_subscribe("l.0", stream="L")
    found = await ephemeral.fetch(10, timeout=FETCH_S)
    outcomes.note("ephemeral", [[one.subject, one.data] for one in found])
    waiting = asyncio.ensure_future(ephemeral.fetch(2, timeout=2 * FETCH_S))
    name = (await ephemeral.consumer_info()).name
    while not (await js.consumer_info("L", name)).num_waiting:
        pass
    await js.delete_consumer("L", name)
    await of("deleted under a fetch", waiting)
    both = ConsumerConfig(filter_subjects=["l.0", "l.2"], ack_policy=AckPolicy.ALL)
    sub = await js.pull_subscribe("", "both", "L", config=both)
    found = await calls.fetched("filters", sub, 5, timeout=PATIENCE_S)
    await found[-1].ack_sync(timeout=PATIENCE_S)
    await of("all acked", js.consumer_info("L", "both"))
    limited = ConsumerConfig(max_waiting=1, max_ack_pending=1)
    sub = await js.pull_subscribe("l.>", "limited", config=limited)
    await calls.fetched("one pending", sub, 2, timeout=FETCH_S)
    few = await js.pull_subscribe("l.1", "few", config=ConsumerConfig(max_deliver=2, ack_wait=0.2))
    await calls.fetched("unacked", few, 1, timeout=PATIENCE_S)
    while (message := (await few.fetch(1, timeout=PATIENCE_S))[0]).metadata.num_delivered == 1:
        pass
    outcomes.note("redelivered", [message.subject, message.data, message.metadata.num_delivered])
    headers = ConsumerConfig(headers_only=True, deliver_policy=DeliverPolicy.LAST)
    sub = await js.pull_subscribe("l.>", "headers", config=headers)
    await calls.fetched("headers only", sub, 1, timeout=PATIENCE_S)


async def pushing(calls: Calls) -> None:
    """Push subscriptions: plain, durable, in groups, ordered, with flow control."""
    js, of, outcomes = calls.js, calls.of, calls.outcomes
    await js.add_stream(name="U", subjects=["u.>"])
    await calls.fill("u", 8)
    sub = await js.subscribe("u.>", durable="d", manual_ack=True)
    found = await calls.next(sub, 8)
    outcomes.note("durable", calls.got(found))
    for message in found[:4]:
        await message.ack_sync(timeout=PATIENCE_S)
    await of("info", sub.consumer_info())
    await of("second", js.subscribe("u.>", durable="d"))
    await sub.unsubscribe()
    while (info := await js.consumer_info("U", "d")).push_bound:  # nats-server hears of it later
        pass
    outcomes.note("unbound", info)

    done, seen = asyncio.Event(), []

    async def note(message: Msg) -> None:
        seen.append(message.data)
        if len(seen) == 8:
            done.set()

    sub = await js.subscribe("u.>", cb=note, stream="U")
    async with asyncio.timeout(PATIENCE_S):
        await done.wait()
    outcomes.note("callback", seen)
    await sub.unsubscribe()

    members = [await js.subscribe("u.>", queue="workers", manual_ack=True) for _ in range(2)]
    while not (info := await js.consumer_info("U", "workers")).push_bound:
        pass
    outcomes.note("queue", [info.name, info.config])
    got: list[bytes] = []
    while len(got) < 8:
        for member in members:
            try:
                message = await member.next_msg(timeout=0.1)
            except nats.errors.TimeoutError:
                continue
            got.append(message.data)
            await message.ack_sync(timeout=PATIENCE_S)
    outcomes.note("queue got", sorted(got))
    for member in members:
        await member.unsubscribe()

    ordered = await js.subscribe("u.>", ordered_consumer=True, idle_heartbeat=0.3)
    outcomes.note("ordered", [[one.subject, one.data] for one in await calls.next(ordered, 8)])
    await calls.publish("u.x", b"late")
    outcomes.note("ordered, late", [(await calls.next(ordered, 1))[0].data])
    info = await ordered.consumer_info()
    await js.delete_consumer("U", info.name)  # the client makes another after missed heartbeats
    number = await calls.publish("u.y", b"after it was deleted")
    (message,) = await calls.next(ordered, 1)
    again = message.metadata.sequence
    outcomes.note("ordered, made again", [message.data, again.stream == number, again.consumer])
    await ordered.unsubscribe()

    flowing = await js.subscribe(
        "u.>", flow_control=True, idle_heartbeat=0.2, deliver_policy=DeliverPolicy.NEW
    )
    acks = [await js.publish_async("u.big", bytes(20_000)) for _ in range(300)]  # two windows
    for future in acks:
        outcomes.published((await future).seq)
    outcomes.note("flow control", sum(len(one.data) for one in await calls.next(flowing, 300)))
    await flowing.unsubscribe()
    headers = await js.subscribe("u.y", headers_only=True, ordered_consumer=True)
    (message,) = await calls.next(headers, 1)
    outcomes.note("headers only", [message.data, message.headers])
    await headers.unsubscribe()
    await of("no stream", js.subscribe("nowhere"))
    bound = ConsumerConfig(durable_name="b", deliver_subject="to.b", ack_policy=AckPolicy.NONE)
    await js.add_consumer("U", bound)
    sub = await js.subscribe_bind("U", bound, "b")
    outcomes.note("bound", [one.data for one in await calls.next(sub, 8)])
    await sub.unsubscribe()


async def later(calls: Calls) -> None:
    """What the broker refuses, and nats-server does not."""
    js, of = calls.js, calls.of
    await of("a limit", js.add_stream(name="X", subjects=["x"], max_msgs=5))
    work = RetentionPolicy.WORK_QUEUE
    await of("a work queue", js.add_stream(name="W", subjects=["w"], retention=work))
    await of("a bucket", js.create_key_value(KeyValueConfig(bucket="K")))
    await of("an object store", js.create_object_store("O"))


async def main(url: str) -> None:
    outcomes = Outcomes()
    for section in (streams, publishing, consumers, pulling, pushing, later):
        client = await nats.connect(url)
        outcomes.begin(section.__name__)
        async with asyncio.timeout(4 * PATIENCE_S):
            await section(Calls(client, outcomes))
        await client.close()
    outcomes.print()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
