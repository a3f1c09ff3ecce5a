"""The events of a client and of its readers; readers that are interrupted, or lack a right."""

import asyncio
import json
import threading
from collections.abc import Iterator

import pytest

import seriatim
from tests.clients.served import run
from tests.support.processes import SeriatimServer, url
from tests.support.raw import QUIET, RawClient

ANSWER_S = 30.0  # a bound for what hangs


def publish(server: SeriatimServer, subject: bytes, count: int = 1) -> None:
    with RawClient(server.port, QUIET) as client:
        assert client.ask(b"PUB %b 1\r\nx\r\n" % subject * count) == []


def said(event: seriatim.ClientEvent) -> tuple[str, str, int]:
    return event.kind, event.subject, event.number


BREAK = [("reading", "a", 1), ("interrupted", "a", 3), ("reading", "a", 3)]


def of_readers(events: list[seriatim.ClientEvent]) -> list[seriatim.ClientEvent]:
    return [event for event in events if event.subject]


def test_given_a_break_when_reading_then_the_reader_tells_where_it_was_and_goes_on() -> None:
    async def scenario(server: SeriatimServer) -> None:
        events: list[seriatim.ClientEvent] = []
        publish(server, b"a", 2)
        async with seriatim.connect(url(server), on_event=events.append) as stream:
            reader = stream.read("a")
            assert [(await anext(reader)).number for _ in range(2)] == [1, 2]
            port = server.port
            waiting = asyncio.ensure_future(anext(reader))
            await asyncio.to_thread(server.restart)
            assert server.port == port
            await asyncio.to_thread(publish, server, b"a")
            async with asyncio.timeout(ANSWER_S):
                assert (await waiting).number == 3
            await reader.aclose()
        told = of_readers(events)
        assert [said(event) for event in told] == BREAK
        assert isinstance(told[1].error, seriatim.ConnectionLost)
        assert told[2].server == f"127.0.0.1:{port}"
        assert str(told[2]) == f"reading a, from number 3 on: 127.0.0.1:{port}"

    with SeriatimServer("netstring") as server:
        run(scenario(server))


def test_given_a_break_when_reading_without_asyncio_then_it_is_told_all_the_same() -> None:
    events: list[seriatim.ClientEvent] = []
    with SeriatimServer("netstring") as server:
        publish(server, b"a", 2)
        with seriatim.connect(url(server), on_event=events.append) as stream:
            reader = stream.read("a")
            assert [next(reader).number for _ in range(2)] == [1, 2]
            breaking = threading.Thread(target=lambda: (server.restart(), publish(server, b"a")))
            breaking.start()
            assert next(reader).number == 3
            breaking.join()
            reader.close()
    assert [said(event) for event in of_readers(events)] == BREAK


def test_given_no_reconnecting_when_the_connection_breaks_then_the_reader_ends() -> None:
    async def scenario(server: SeriatimServer) -> None:
        events: list[seriatim.ClientEvent] = []
        async with seriatim.connect(url(server), reconnect=False, on_event=events.append) as stream:
            reader = stream.read("a", start=1)
            waiting = asyncio.ensure_future(anext(reader))
            while not of_readers(events):
                await asyncio.sleep(0.01)  # no event to await: it is what is looked for
            await asyncio.to_thread(server.stop)
            with pytest.raises(seriatim.ConnectionLost, match="the broker closed the connection"):
                await waiting
        assert [said(event) for event in of_readers(events)] == [("reading", "a", 1)]

    with SeriatimServer("netstring") as server:
        run(scenario(server))


def test_given_a_restart_while_a_number_is_awaited_then_it_is_still_the_same_journal() -> None:
    async def scenario(server: SeriatimServer) -> None:
        publish(server, b"a", 2)
        interrupted = asyncio.Event()
        told = {"interrupted": interrupted.set}
        async with seriatim.connect(
            url(server), on_event=lambda event: told.get(event.kind, lambda: None)()
        ) as stream:
            waiting = asyncio.ensure_future(anext(stream.read("a", start=4)))
            await stream.info()
            await asyncio.to_thread(server.restart)
            await interrupted.wait()
            await asyncio.to_thread(publish, server, b"a", 2)
            async with asyncio.timeout(ANSWER_S):
                assert (await waiting).number == 4

    with SeriatimServer("netstring") as server:
        run(scenario(server))


# Rights


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeriatimServer]:
    """A broker whose users may do little."""
    config = tmp_path_factory.mktemp("rights") / "broker.toml"
    users = {
        "deaf": (["a", "$SEQ.>"], ["a"]),
        "publisher": (["a", "$SEQ.PUB.a"], ["_INBOX.>"]),
        "reader": (["$SEQ.INFO"], ["a", "$SEQ.FROM.*.a", "_INBOX.>"]),
    }
    lines = ["[authorization]"]
    for name, (publish, subscribe) in users.items():
        lines.append(f'[[authorization.users]]\nuser = "{name}"\npassword = "x"')
        lines.append(f"permissions = {{ publish = {publish}, subscribe = {subscribe} }}")
    config.write_text("\n".join(lines))
    with SeriatimServer("netstring", arguments=["-c", str(config)]) as server:
        yield server


def test_given_a_user_without_an_inbox_then_it_publishes_and_subscribes_but_gets_no_answers(
    guarded: SeriatimServer,
) -> None:
    async def scenario() -> None:
        async with seriatim.connect(url(guarded), user="deaf", password="x") as stream:
            heard = await stream.subscribe("a")
            await stream.publish_unconfirmed("a", b"x")
            assert (await heard.next(ANSWER_S)).payload == b"x"
            with pytest.raises(seriatim.Unconfirmed, match="number cannot come: Permissions Viol"):
                await stream.publish("a", b"y")
            with pytest.raises(seriatim.Refused, match="Permissions Violation for Subscription"):
                await stream.request("$SEQ.INFO")

    run(scenario())


def test_given_a_publisher_who_may_ask_nothing_when_the_broker_restarts_then_it_publishes_once(
    guarded: SeriatimServer,
) -> None:
    async def scenario() -> None:
        async with seriatim.connect(url(guarded), user="publisher", password="x") as stream:
            first = await stream.publish("a", b"x")
            sent = [await stream.send("a", b"x") for _ in range(500)]
            await asyncio.to_thread(guarded.restart)
            numbers = [await one for one in sent]
        assert numbers == list(range(first + 1, first + 501))

    run(scenario())


def test_given_a_reader_who_may_not_get_when_the_broker_restarts_then_it_reads_on(
    guarded: SeriatimServer,
) -> None:
    async def scenario() -> None:
        async with seriatim.connect(url(guarded), user="publisher", password="x") as stream:
            await stream.publish("a", b"x")
        async with seriatim.connect(url(guarded), user="reader", password="x") as stream:
            reader = stream.read("a", start=1)
            one = await anext(reader)
            waiting = asyncio.ensure_future(_next_after(reader))
            await asyncio.to_thread(guarded.restart)
            async with seriatim.connect(url(guarded), user="publisher", password="x") as other:
                last = await other.publish("a", b"z")
            async with asyncio.timeout(ANSWER_S):
                seen = await waiting
            assert one.number < seen == last

    async def _next_after(reader: seriatim.Reader[seriatim.Message]) -> int:
        async for message in reader:
            if message.payload == b"z":
                return message.number
        return 0

    run(scenario())


def test_given_an_id_in_the_headers_then_the_message_is_published_once() -> None:
    async def scenario(server: SeriatimServer) -> None:
        headers = {"Nats-Msg-Id": "7", "Desk": "3"}
        async with seriatim.connect(url(server)) as stream:
            assert await stream.publish("a", b"x", headers=headers) == 1
            assert await stream.publish("a", b"x", id="7") == 1
            assert (await stream.get(1)).headers == headers

    with SeriatimServer("netstring") as server:
        run(scenario(server))


# A journal that was cut and has grown again; and a broker that sends nonsense


def test_given_a_journal_that_has_lost_its_end_and_grown_then_the_error_says_so() -> None:
    before, now = seriatim.Position("j", 7, 1), seriatim.Position("j", 9)
    assert "number 7 is another message now" in str(seriatim.JournalChanged(before, now))


INFO = b'INFO {"server_id":"x","headers":true,"seriatim":"1","max_payload":1000}\r\n'
STATE = {
    **{"journal": "j", "epoch": 1, "first": 1, "last": 7, "messages": 7, "bytes": 7, "oldest": 1},
    **{"newest": 1, "time": 1, "store": "disk", "sync": "always", "full": False, "limits": {}},
    "restricted": False,
}


@pytest.mark.parametrize("event", ["a.b", "5", "0.2.3", "1.²"])
def test_given_a_loss_that_no_broker_would_tell_then_it_is_an_error(event: str) -> None:
    async def talk(lines: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(INFO)
        while line := await lines.readline():
            if line.startswith(b"PING"):
                writer.write(b"PONG\r\n")
            elif line.startswith(b"PUB $SEQ.INFO"):
                text = json.dumps(STATE).encode()
                writer.write(b"MSG %b 2 %d\r\n%b\r\n" % (line.split()[2], len(text), text))
            elif line.startswith(b"SUB $SEQ.FROM.1.>"):
                writer.write(b"MSG $SEQ.LOST.%b 1 0\r\n\r\n" % event.encode())
        writer.close()

    async def scenario() -> None:
        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        async with seriatim.connect(f"127.0.0.1:{server.sockets[0].getsockname()[1]}") as stream:
            with pytest.raises(seriatim.NotABroker, match=r"it says \$SEQ\.LOST"):
                await anext(stream.read(">", start=1))
        server.close()

    run(scenario())
