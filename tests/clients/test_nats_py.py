"""nats-py against the broker: what applications do most, in each frame mode."""

import asyncio

import nats.errors
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.js.errors import NoStreamResponseError, ServiceUnavailableError

from tests.clients.served import Served, run, settle

TIMEOUT_S = 30.0


async def take(subscription: Subscription, count: int) -> list[Msg]:
    return [await subscription.next_msg(timeout=TIMEOUT_S) for _ in range(count)]


async def nothing_more(client: Client, subscription: Subscription) -> bool:
    """After a round trip, whatever was meant for the subscription is here."""
    await settle(client)
    return subscription.pending_msgs == 0


def test_given_a_subscription_when_published_then_it_gets_subject_and_payload(
    served: Served,
) -> None:
    async def scenario() -> None:
        async with served.client() as publisher, served.client() as subscriber:
            subscription = await subscriber.subscribe("py.plain")
            await settle(subscriber)
            for text in (b"hello", b"", b"\r\n", bytes(range(256))):
                await publisher.publish("py.plain", text)
            got = await take(subscription, 4)
            assert [served.payload(message) for message in got] == [
                b"hello",
                b"",
                b"\r\n",
                bytes(range(256)),
            ]
            assert {message.subject for message in got} == {"py.plain"}
            assert {message.reply for message in got} == {""}

    run(scenario())


def test_given_wildcards_then_each_gets_what_it_matches(served: Served) -> None:
    async def scenario() -> None:
        async with served.client() as client:
            patterns = ("py.wild.*", "py.wild.>", "py.*.a", "py.wild.a", "py.wild.a.*")
            subscriptions = {pattern: await client.subscribe(pattern) for pattern in patterns}
            for subject in ("py.wild.a", "py.wild.b", "py.wild.a.b", "py.other.a", "py.wild"):
                await client.publish(subject, subject.encode())
            await settle(client)
            got = {
                pattern: [served.payload(m).decode() for m in await take(s, s.pending_msgs)]
                for pattern, s in subscriptions.items()
            }
        assert got == {
            "py.wild.*": ["py.wild.a", "py.wild.b"],
            "py.wild.>": ["py.wild.a", "py.wild.b", "py.wild.a.b"],
            "py.*.a": ["py.wild.a", "py.other.a"],
            "py.wild.a": ["py.wild.a"],
            "py.wild.a.*": ["py.wild.a.b"],
        }

    run(scenario())


def test_given_two_queue_groups_then_each_message_once_per_group_and_all_members_work(
    served: Served,
) -> None:
    count = 300

    async def scenario() -> None:
        async with served.client() as one, served.client() as two, served.client() as publisher:
            groups = {"red": [one, one, two], "blue": [two, one]}
            members = {
                group: [await client.subscribe("py.queue", queue=group) for client in clients]
                for group, clients in groups.items()
            }
            plain = await one.subscribe("py.queue")
            await settle(one)
            await settle(two)
            for at in range(count):
                await publisher.publish("py.queue", b"%d" % at)
            await settle(publisher)
            await settle(one)
            await settle(two)
            for group in members.values():
                shares = [await take(member, member.pending_msgs) for member in group]
                assert all(shares), "every member gets some of 300"
                texts = [int(served.payload(message)) for share in shares for message in share]
                assert sorted(texts) == list(range(count))
            assert len(await take(plain, count)) == count

    run(scenario())


def test_given_a_responder_when_asked_then_the_reply_comes_back(served: Served) -> None:
    async def scenario() -> None:
        async with served.client() as server, served.client() as asker:

            async def answer(message: Msg) -> None:
                await message.respond(served.payload(message).upper())

            await server.subscribe("py.ask", cb=answer)
            await settle(server)
            one = await asker.request("py.ask", b"hello", timeout=TIMEOUT_S)
            assert served.payload(one) == b"HELLO"
            asked = [asker.request("py.ask", b"n%d" % n, timeout=TIMEOUT_S) for n in range(50)]
            answers = await asyncio.gather(*asked)
            assert [served.payload(a) for a in answers] == [b"N%d" % n for n in range(50)]
            old = await asker.request("py.ask", b"old", timeout=TIMEOUT_S, old_style=True)
            assert served.payload(old) == b"OLD"

    run(scenario())


def test_given_nobody_answers_then_no_responders_error_comes_at_once(served: Served) -> None:
    async def scenario() -> None:
        async with served.client() as asker:
            with pytest.raises(nats.errors.NoRespondersError):
                await asker.request("py.nobody", b"hello?", timeout=TIMEOUT_S)
            with pytest.raises(nats.errors.NoRespondersError):
                await asker.request("py.nobody", b"", timeout=TIMEOUT_S, old_style=True)

    run(scenario())


def test_given_headers_then_they_pass_unchanged(served: Served) -> None:
    async def scenario() -> None:
        async with served.client() as client:
            subscription = await client.subscribe("py.headers")
            sent = {"Color": "red", "Empty-ish": "x", "Trace": "a:b:c", "Size": "groß"}
            await client.publish("py.headers", b"body", headers=sent)
            await client.publish("py.headers", b"", headers={"Only": "header"})
            await client.publish("py.headers", b"none")
            first, second, third = await take(subscription, 3)
            assert first.headers == sent
            assert served.payload(first) == b"body"
            assert second.headers == {"Only": "header"}
            assert served.payload(second) == b""
            assert third.headers is None
            assert served.payload(third) == b"none"

    run(scenario())


def test_given_headers_on_a_request_then_responder_and_asker_see_them(served: Served) -> None:
    async def scenario() -> None:
        async with served.client() as client:

            async def answer(message: Msg) -> None:
                assert message.headers is not None
                await client.publish(
                    message.reply, b"done", headers={"Echo": message.headers["Ask"]}
                )

            await client.subscribe("py.headers.ask", cb=answer)
            reply = await client.request(
                "py.headers.ask", b"", timeout=TIMEOUT_S, headers={"Ask": "7"}
            )
            assert reply.headers == {"Echo": "7"}
            assert served.payload(reply) == b"done"

    run(scenario())


def test_given_a_limit_when_reached_then_the_subscription_ends_by_itself(served: Served) -> None:
    async def scenario() -> None:
        async with served.client() as client:
            limited = await client.subscribe("py.max")
            witness = await client.subscribe("py.max")
            await limited.unsubscribe(limit=3)
            for at in range(6):
                await client.publish("py.max", b"%d" % at)
            got = await take(limited, 3)
            assert [served.payload(message) for message in got] == [b"0", b"1", b"2"]
            assert len(await take(witness, 6)) == 6
            with pytest.raises(nats.errors.Error):
                await limited.next_msg(timeout=0.01)

    run(scenario())


def test_given_an_unsubscribe_then_nothing_more_comes(served: Served) -> None:
    async def scenario() -> None:
        async with served.client() as client:
            got: list[bytes] = []

            async def note(message: Msg) -> None:
                got.append(served.payload(message))

            gone = await client.subscribe("py.unsub", cb=note)
            stays = await client.subscribe("py.unsub")
            await client.publish("py.unsub", b"1")
            await take(stays, 1)
            await settle(client)  # its own copy has come, too
            await gone.unsubscribe()
            await client.publish("py.unsub", b"2")
            await take(stays, 1)
            assert await nothing_more(client, stays)
            assert got == [b"1"]

    run(scenario())


def test_given_no_echo_then_own_messages_stay_away(served: Served) -> None:
    async def scenario() -> None:
        async with served.client(no_echo=True) as deaf, served.client() as other:
            own = await deaf.subscribe("py.echo")
            theirs = await other.subscribe("py.echo")
            await settle(other)
            await deaf.publish("py.echo", b"mine")
            assert served.payload((await take(theirs, 1))[0]) == b"mine"
            assert await nothing_more(deaf, own)
            await other.publish("py.echo", b"yours")
            assert served.payload((await take(own, 1))[0]) == b"yours"

    run(scenario())


@pytest.mark.parametrize("options", [{"verbose": True}, {"pedantic": True}], ids=str)
def test_given_verbose_or_pedantic_then_the_client_works_alike(
    served: Served, options: dict[str, bool]
) -> None:
    async def scenario() -> None:
        async with served.client(**options) as client:
            subscription = await client.subscribe("py.loud.>")
            await client.publish("py.loud.a", b"1")
            await settle(client)
            assert served.payload((await take(subscription, 1))[0]) == b"1"
            with pytest.raises(nats.errors.NoRespondersError):
                await client.request("py.nobody", b"", timeout=TIMEOUT_S)

    run(scenario())


def test_given_many_subscriptions_then_each_gets_its_own(served: Served) -> None:
    count = 2000

    async def scenario() -> None:
        async with served.client() as client, served.client() as publisher:
            got: dict[str, list[bytes]] = {}

            async def note(message: Msg) -> None:
                got.setdefault(message.subject, []).append(served.payload(message))

            subscriptions = [
                await client.subscribe(f"py.many.{at}", cb=note) for at in range(count)
            ]
            everything = await client.subscribe("py.many.>")
            await settle(client)
            for at in range(count):
                await publisher.publish(f"py.many.{at}", b"%d" % at)
            await take(everything, count)
            for subscription in subscriptions[::2]:
                await subscription.unsubscribe()
            await settle(client)
            for at in range(count):
                await publisher.publish(f"py.many.{at}", b"again")
            await take(everything, count)
            await client.drain()
        assert got == {
            f"py.many.{at}": [b"%d" % at, *([b"again"] if at % 2 else [])] for at in range(count)
        }

    run(scenario())


def test_given_a_round_trip_then_flush_and_rtt_answer(served: Served) -> None:
    async def scenario() -> None:
        async with served.client() as client:
            await client.flush(timeout=int(TIMEOUT_S))
            assert 0 < await client.rtt(timeout=int(TIMEOUT_S)) < TIMEOUT_S

    run(scenario())


def test_given_the_version_when_compared_then_nothing_is_taken_to_be_missing(
    served: Served,
) -> None:
    async def scenario() -> None:
        async with served.client() as client:
            version = client.connected_server_version
            assert (version.major, version.minor) >= (2, 15)

    run(scenario())


def test_given_jetstream_when_asked_for_then_it_fails_at_once_and_says_why(
    served: Served,
) -> None:
    async def scenario() -> None:
        async with served.client() as client:
            jetstream = client.jetstream(timeout=TIMEOUT_S)
            with pytest.raises(NoStreamResponseError):
                await jetstream.publish("py.js", b"x", timeout=TIMEOUT_S)
            with pytest.raises(ServiceUnavailableError):
                await jetstream.add_stream(name="s", subjects=["py.js"])
            with pytest.raises(ServiceUnavailableError):
                await jetstream.pull_subscribe("py.js", "d", stream="s")
            with pytest.raises(ServiceUnavailableError):
                await jetstream.key_value("bucket")

    run(scenario())
