"""Consumers as applications use them, with nats-py and bare sockets, also when the broker dies."""

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import nats
import nats.errors
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

from tests.support.jetstream import Dialogue, Step
from tests.support.processes import SeriatimServer, url

API = "$JS.API."
Use = Callable[[Client, JetStreamContext], Awaitable[None]]
WAIT_S = 60.0


def serving(store: Path, *arguments: str) -> SeriatimServer:
    return SeriatimServer(arguments=["--jetstream", *arguments], store=store)


def with_client(broker: SeriatimServer, use: Use) -> None:
    async def run() -> None:
        client = await nats.connect(url(broker), max_reconnect_attempts=1000)
        try:
            await use(client, client.jetstream(timeout=WAIT_S))
        finally:
            await client.close()

    asyncio.run(asyncio.wait_for(run(), 4 * WAIT_S))


def asked(dialogue: Dialogue, subject: str, body: Any = b"") -> dict[str, Any]:
    (answer,) = dialogue.ask(Step(API + subject, body))
    parsed: dict[str, Any] = json.loads(answer.payload)
    return parsed


async def fill(jetstream: JetStreamContext, count: int, subjects: int = 3) -> None:
    for at in range(count):
        await jetstream.publish(f"s.{at % subjects}", b"%d" % at)


def test_given_a_pull_request_whose_inbox_is_left_then_it_gets_nothing(tmp_path: Path) -> None:
    """A client that ends its iterator unsubscribes, and its request is still there."""

    async def use(client: Client, jetstream: JetStreamContext) -> None:
        await jetstream.add_stream(name="S", subjects=["s.>"])
        await jetstream.add_consumer("S", name="c")
        left = await client.subscribe("left")
        there = await client.subscribe("there")
        for inbox in ("left", "there"):
            request = json.dumps({"batch": 2, "expires": 60 * 10**9}).encode()
            await client.publish(f"{API}CONSUMER.MSG.NEXT.S.c", request, reply=inbox)
        await left.unsubscribe()
        await fill(jetstream, 2)
        assert [(await there.next_msg(WAIT_S)).data for _ in range(2)] == [b"0", b"1"]

    with serving(tmp_path) as broker:
        with_client(broker, use)


def test_given_a_push_consumer_when_its_listener_leaves_then_it_is_unbound_at_once(
    tmp_path: Path,
) -> None:
    """Another client that asks is not told that the consumer is taken."""

    async def use(client: Client, jetstream: JetStreamContext) -> None:
        await jetstream.add_stream(name="S", subjects=["s.>"])
        for _ in range(5):
            first = await jetstream.subscribe("s.>", durable="d", manual_ack=True)
            assert (await jetstream.consumer_info("S", "d")).push_bound
            await first._sub.unsubscribe()
            assert not (await jetstream.consumer_info("S", "d")).push_bound

    with serving(tmp_path) as broker:
        with_client(broker, use)


def test_given_a_push_consumer_with_a_group_then_its_members_share_the_messages(
    tmp_path: Path,
) -> None:
    async def use(client: Client, jetstream: JetStreamContext) -> None:
        await jetstream.add_stream(name="S", subjects=["s.>"])
        got: dict[str, list[bytes]] = {"a": [], "b": []}
        done = asyncio.Event()

        def member(name: str) -> Callable[[Any], Awaitable[None]]:
            async def take(message: Any) -> None:
                got[name].append(message.data)
                await message.ack()
                if len(got["a"]) + len(got["b"]) == 300:
                    done.set()

            return take

        for name in got:
            await jetstream.subscribe(
                "s.>", "workers", durable="workers", cb=member(name), manual_ack=True
            )
        await fill(jetstream, 300)
        await asyncio.wait_for(done.wait(), WAIT_S)
        assert sorted(got["a"] + got["b"]) == sorted(b"%d" % at for at in range(300))
        assert got["a"]
        assert got["b"]

    with serving(tmp_path) as broker:
        with_client(broker, use)


def test_given_a_push_consumer_without_a_group_then_one_member_of_each_queue_group_gets_it_too(
    tmp_path: Path,
) -> None:
    count = 300

    async def use(client: Client, jetstream: JetStreamContext) -> None:
        await jetstream.add_stream(name="S", subjects=["s.>"])
        names = ("", "", "a", "a", "b")
        found: list[list[int]] = [[] for _ in names]
        done = asyncio.Event()

        def taking(at: int) -> Callable[[Msg], Awaitable[None]]:
            async def take(message: Msg) -> None:
                found[at].append(message.metadata.sequence.stream)
                if sum(map(len, found)) == 4 * count:
                    done.set()

            return take

        for at, name in enumerate(names):
            await client.subscribe("to", queue=name, cb=taking(at))
        await jetstream.add_consumer("S", durable_name="c", deliver_subject="to")
        await fill(jetstream, count)
        await asyncio.wait_for(done.wait(), WAIT_S)
        numbers = list(range(1, count + 1))
        assert found[0] == found[1] == found[4] == numbers
        assert sorted(found[2] + found[3]) == numbers
        assert found[2]
        assert found[3]

    with serving(tmp_path) as broker:
        with_client(broker, use)


def test_given_an_ordered_consumer_when_the_broker_is_killed_then_it_misses_nothing(
    tmp_path: Path,
) -> None:
    with serving(tmp_path) as broker:

        async def use(client: Client, jetstream: JetStreamContext) -> None:
            await jetstream.add_stream(name="S", subjects=["s.>"])
            got: list[int] = []
            reached = asyncio.Event()

            async def take(message: Any) -> None:
                got.append(message.metadata.sequence.stream)
                if message.data == b"last":
                    reached.set()

            await jetstream.subscribe("s.>", ordered_consumer=True, cb=take, idle_heartbeat=0.2)
            await fill(jetstream, 100)
            await asyncio.to_thread(broker.kill)
            await asyncio.to_thread(broker.restart)
            while not client.is_connected:
                await asyncio.sleep(0.01)  # no event to await: it reconnects in its own time
            await fill(jetstream, 100)
            await jetstream.publish("s.1", b"last")
            await asyncio.wait_for(reached.wait(), WAIT_S)
            assert got == list(range(1, 202))

        with_client(broker, use)


@pytest.mark.parametrize("seed", range(3))
def test_given_kills_then_confirmed_acks_are_never_again_and_all_others_at_least_once(
    seed: int, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    with serving(tmp_path) as broker:
        dialogue = Dialogue(broker.port)
        asked(dialogue, "STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
        config = {"durable_name": "C", "ack_policy": "explicit", "ack_wait": 300_000_000}
        body = {"stream_name": "S", "config": config}
        asked(dialogue, "CONSUMER.DURABLE.CREATE.S.C", body)
        confirmed: set[int] = set()
        seen: set[int] = set()
        total = 0
        for _ in range(4):
            for _ in range(50):
                total += 1
                dialogue.client.send(b"PUB s 1\r\nx\r\n")
            dialogue.client.ask(b"")
            for _ in range(20):
                (message,) = dialogue.ask(Step(API + "CONSUMER.MSG.NEXT.S.C", "1"))
                number = int(message.reply.split(b".")[5])
                assert number not in confirmed, "it was confirmed, and came again"
                seen.add(number)
                if chance.randrange(2):
                    dialogue.ask(Step(message.reply.decode()))
                    confirmed.add(number)
                elif chance.randrange(2):
                    dialogue.client.send(b"PUB %b 0\r\n\r\n" % message.reply)
            dialogue.close()
            broker.kill()
            broker.restart()
            dialogue = Dialogue(broker.port)
        left = set(range(1, total + 1)) - confirmed
        while left - seen:
            (message,) = dialogue.ask(Step(API + "CONSUMER.MSG.NEXT.S.C", "1"))
            number = int(message.reply.split(b".")[5])
            assert number not in confirmed
            seen.add(number)
            dialogue.ask(Step(message.reply.decode()))
            confirmed.add(number)
        assert seen == set(range(1, total + 1))
        dialogue.close()


def test_given_durable_consumers_when_restarted_then_they_go_on_where_they_were(
    tmp_path: Path,
) -> None:
    with serving(tmp_path) as broker:

        async def begin(client: Client, jetstream: JetStreamContext) -> None:
            await jetstream.add_stream(name="S", subjects=["s.>"])
            await fill(jetstream, 30)
            pull = await jetstream.pull_subscribe("s.1", "one", stream="S")
            for message in await pull.fetch(4, timeout=WAIT_S):
                await message.ack_sync()
            await jetstream.add_consumer(
                "S",
                ConsumerConfig(
                    durable_name="last",
                    deliver_policy=DeliverPolicy.LAST_PER_SUBJECT,
                    filter_subject="s.>",
                    ack_policy=AckPolicy.EXPLICIT,
                ),
            )
            await jetstream.add_consumer("S", ConsumerConfig(name="gone"))

        async def go_on(client: Client, jetstream: JetStreamContext) -> None:
            names = [one.name for one in await jetstream.consumers_info("S")]
            assert names == ["last", "one"], "ephemeral ones are gone"
            pull = await jetstream.pull_subscribe_bind("one", "S")
            messages = await pull.fetch(10, timeout=1)
            assert [one.data for one in messages] == [b"%d" % at for at in range(13, 30, 3)]
            info = await jetstream.consumer_info("S", "one")
            assert (info.num_pending, info.num_ack_pending) == (0, 6)

        with_client(broker, begin)
        broker.stop()
        broker.restart()
        with_client(broker, go_on)


def test_given_a_client_that_does_not_read_then_its_messages_stay_in_the_journal(
    tmp_path: Path,
) -> None:
    with serving(tmp_path) as broker:
        dialogue, greedy = Dialogue(broker.port), Dialogue(broker.port)
        asked(dialogue, "STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
        for _ in range(60):
            dialogue.client.send(b"PUB s 1000000\r\n%b\r\n" % bytes(1_000_000))
        dialogue.client.ask(b"")
        before = broker.peak_memory()
        for name in ("A", "B", "C"):
            config = {"name": name, "ack_policy": "none"}
            asked(dialogue, f"CONSUMER.CREATE.S.{name}", {"stream_name": "S", "config": config})
        next_one = f"PUB {API}CONSUMER.MSG.NEXT.S.%s {greedy.inbox}.%s 2\r\n60\r\n"
        greedy.client.send("".join(next_one % (name, name) for name in "ABC").encode())
        end = time.monotonic() + WAIT_S
        while not any(
            asked(dialogue, f"CONSUMER.INFO.S.{name}")["delivered"]["consumer_seq"]
            for name in "ABC"
        ):
            assert time.monotonic() < end, "it got nothing"
        assert broker.peak_memory() - before < 40 << 20
        for _ in range(180):  # it reads after all
            greedy.client.operation()
        for name in "ABC":
            assert asked(dialogue, f"CONSUMER.INFO.S.{name}")["num_pending"] == 0
        dialogue.close()
        greedy.close()


def test_given_acks_that_are_forged_then_they_do_nothing(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:
        dialogue, other = Dialogue(broker.port), Dialogue(broker.port)
        asked(dialogue, "STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
        config = {"name": "C", "ack_policy": "explicit"}
        asked(dialogue, "CONSUMER.CREATE.S.C", {"stream_name": "S", "config": config})
        dialogue.client.ask(b"PUB s 1\r\nx\r\n")
        (message,) = dialogue.ask(Step(API + "CONSUMER.MSG.NEXT.S.C", "1"))
        words = message.reply.decode().split(".")
        for place, value in ((5, "9"), (6, "9"), (7, "1"), (7, "x"), (5, "-1"), (7, "9" * 40)):
            forged = [value if at == place else word for at, word in enumerate(words)]
            other.client.send(f"PUB {'.'.join(forged)} 0\r\n\r\n".encode())
        other.client.ask(b"")
        assert asked(dialogue, "CONSUMER.INFO.S.C")["num_ack_pending"] == 1
        dialogue.ask(Step(message.reply.decode()))
        assert asked(dialogue, "CONSUMER.INFO.S.C")["num_ack_pending"] == 0
        dialogue.close()
        other.close()


def test_given_many_consumers_then_above_the_limit_they_are_refused(tmp_path: Path) -> None:
    with serving(tmp_path, "--max_consumers", "20") as broker:
        dialogue = Dialogue(broker.port)
        asked(dialogue, "STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
        answers = [
            asked(dialogue, "CONSUMER.CREATE.S", {"stream_name": "S", "config": {}})
            for _ in range(25)
        ]
        codes = [one.get("error", {}).get("err_code", 0) for one in answers]
        assert codes == [0] * 20 + [10026] * 5
        dialogue.close()


RIGHTS = """
[[authorization.users]]
user = "admin"
password = "a"

[[authorization.users]]
user = "reader"
password = "b"
[authorization.users.permissions]
publish = ["$JS.API.CONSUMER.>", "$JS.ACK.>"]
subscribe = { allow = ["s.>", "_INBOX.>"], deny = ["s.secret"] }
"""


def test_given_a_user_with_few_rights_then_no_consumer_brings_it_more(tmp_path: Path) -> None:
    config = tmp_path / "broker.toml"
    config.write_text(RIGHTS)
    with serving(tmp_path / "store", "-c", str(config)) as broker:
        admin = Dialogue(broker.port, "admin", "a")
        reader = Dialogue(broker.port, "reader", "b")
        asked(admin, "STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"]})
        for subject in ("s.secret", "s.open"):
            admin.ask(Step(subject, "x"))

        def made(dialogue: Dialogue, name: str, **more: Any) -> int:
            body = {"stream_name": "S", "config": {"name": name} | more}
            answer = asked(dialogue, f"CONSUMER.CREATE.S.{name}", body)
            code: int = answer.get("error", {}).get("code", 200)
            return code

        assert made(reader, "A", filter_subject="s.open") == 200
        assert made(reader, "B", filter_subject="s.secret") == 403
        assert made(reader, "C") == 403, "a part of it is denied"
        assert made(admin, "D") == 200
        (message,) = reader.ask(Step(API + "CONSUMER.MSG.NEXT.S.A", "1"))
        assert message.subject == b"s.open"
        (status,) = reader.ask(Step(API + "CONSUMER.MSG.NEXT.S.D", "1"))
        assert status.header == b"NATS/1.0 403 Permissions Violation\r\n\r\n"
        admin.close()
        reader.close()


def test_given_messages_while_consumers_are_made_then_each_gets_all(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:
        dialogue, publisher = Dialogue(broker.port), Dialogue(broker.port)
        asked(dialogue, "STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
        total = 0
        for at in range(30):
            publisher.client.send(b"PUB s 1\r\nx\r\n" * 10)
            total += 10
            name = f"C{at}"
            config = {"durable_name": name, "ack_policy": "explicit"}
            body = {"stream_name": "S", "config": config}
            asked(dialogue, f"CONSUMER.DURABLE.CREATE.S.{name}", body)
        publisher.client.ask(b"")
        for at in range(30):
            assert asked(dialogue, f"CONSUMER.INFO.S.C{at}")["num_pending"] == total
        dialogue.close()
        publisher.close()


def test_given_a_restart_when_clients_come_back_at_once_then_they_are_served_all_the_same(
    tmp_path: Path,
) -> None:
    """While the journal is read for the streams: a pull request, a confirmed ack, a direct get."""
    with serving(tmp_path) as broker:
        dialogue = Dialogue(broker.port)
        config = {"durable_name": "C", "ack_policy": "explicit"}
        stream = {"name": "S", "subjects": ["s"], "allow_direct": True}
        asked(dialogue, "STREAM.CREATE.S", stream)
        asked(dialogue, "CONSUMER.DURABLE.CREATE.S.C", {"stream_name": "S", "config": config})
        for _ in range(200):  # long enough to be read
            dialogue.client.send(b"PUB s 1\r\nx\r\n" * 1000)
        (first,) = dialogue.ask(Step(API + "CONSUMER.MSG.NEXT.S.C", "1"))
        dialogue.ask(Step(API + "CONSUMER.INFO.S.C"))
        dialogue.close()
        broker.stop()
        broker.restart()
        dialogue = Dialogue(broker.port)
        (confirmation,) = dialogue.ask(Step(first.reply.decode()))
        assert (confirmation.header, confirmation.payload) == (b"", b"")
        (second,) = dialogue.ask(Step(API + "CONSUMER.MSG.NEXT.S.C", "1"))
        assert second.reply.startswith(b"$JS.ACK.S.C.1.2.2.")
        dialogue.close()
        broker.restart()
        dialogue = Dialogue(broker.port)
        (got,) = dialogue.ask(Step(API + "DIRECT.GET.S", {"seq": 1}))
        assert b"Nats-Sequence: 1\r\n" in got.header
        (nobody,) = dialogue.ask(Step(API + "CONSUMER.MSG.NEXT.S.other", "1"))
        assert nobody.header.startswith(b"NATS/1.0 503")
        assert asked(dialogue, "CONSUMER.INFO.S.C")["num_ack_pending"] == 1
        dialogue.close()
