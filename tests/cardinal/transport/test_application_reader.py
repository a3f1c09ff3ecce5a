"""The reader on a real broker: every number once, whatever breaks, and its events."""

import asyncio
import contextlib
from pathlib import Path

import nats
import pytest

from cardinal.follower import Row
from cardinal.transport.application_reader import (
    ApplicationReader,
    Happening,
    Interrupted,
    JournalChanged,
    NumbersLost,
    Rewound,
    Unreadable,
    _changed,
)
from cardinal.transport.envelope import pack
from cardinal.transport.errors import BrokerRefused, Unreachable
from cardinal.transport.publisher import Publisher
from tests.clients.served import run
from tests.support.processes import SeriatimServer, url
from tests.support.scripted import Peer, Scripted

TIMEOUT_S = 30.0


async def publish(server: SeriatimServer, application: str, first: int, count: int) -> int:
    """Publish messages whose keys are their numbers here; the last number of the broker."""
    async with Publisher(application, url(server)) as publisher:
        rows = [(b"%d" % at, b"v%d" % at) for at in range(first, first + count)]
        return await publisher.send({"t": rows})


async def read(reader: ApplicationReader, count: int) -> tuple[list[Row], list[Happening]]:
    """So many rows, and what happened before the last of them."""
    found: list[Row] = []
    told: list[Happening] = []
    while len(found) < count:
        rows, happened = await reader.read(TIMEOUT_S)
        found += rows
        told += happened
    return found, told


@pytest.mark.parametrize("turns", range(4))
def test_given_an_end_that_comes_together_with_a_message_then_it_is_not_forgotten(
    broker: SeriatimServer, turns: int
) -> None:
    async def scenario() -> None:
        async with ApplicationReader("ended", url(broker)) as reader:
            changed = reader._changed
            waiting = asyncio.create_task(_changed(changed, TIMEOUT_S))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            changed.set()
            for _ in range(turns):
                await asyncio.sleep(0)
            is_too_late = not waiting.cancel()
            await asyncio.wait([waiting])
            assert waiting.cancelled() is not is_too_late

    run(scenario())


def test_given_the_past_and_the_present_when_read_then_every_number_comes_once(
    broker: SeriatimServer,
) -> None:
    async def scenario() -> None:
        name = "once"
        last = await publish(broker, name, 0, 40)
        async with ApplicationReader(name, url(broker)) as reader:
            rows, told = await read(reader, 40)
            later = asyncio.create_task(read(reader, 20))
            await publish(broker, "another", 0, 7)
            await publish(broker, name, 40, 20)
            more, told_later = await later
        assert [row[:3] for row in rows + more] == [
            ("t", b"%d" % at, b"v%d" % at) for at in range(60)
        ]
        numbers = [row[3] for row in rows + more]
        assert numbers[:40] == list(range(last - 39, last + 1))
        assert numbers[40:] == list(range(last + 8, last + 28))
        assert told == told_later == []

    run(scenario())


def test_given_a_first_and_a_last_number_when_read_then_it_ends_there(
    broker: SeriatimServer,
) -> None:
    async def scenario() -> None:
        last = await publish(broker, "range", 0, 10)
        async with ApplicationReader("range", url(broker), first=last - 5, last=last - 2) as reader:
            found: list[Row] = []
            while not reader.ended:
                found += (await reader.read(TIMEOUT_S))[0]
            assert [row[3] for row in found] == list(range(last - 5, last - 1))
            assert await reader.read(0.0) == ([], [])

    run(scenario())


def test_given_nothing_new_when_read_then_it_waits_no_longer_than_it_should(
    broker: SeriatimServer,
) -> None:
    async def scenario() -> None:
        async with ApplicationReader("silent", url(broker)) as reader:
            assert await reader.read(0.05) == ([], [])
            assert await reader.read(0.0) == ([], [])

    run(scenario())


@pytest.mark.parametrize("frame", ["header", "stamp", "none"])
def test_given_a_listener_with_another_frame_when_read_then_the_numbers_are_there_too(
    frame: str,
) -> None:
    async def scenario(server: SeriatimServer) -> None:
        await publish(server, "header", 0, 10)
        async with ApplicationReader("header", url(server)) as reader:
            rows, _ = await read(reader, 10)
        assert [row[3] for row in rows] == list(range(1, 11))
        assert rows[3][:3] == ("t", b"3", b"v3")

    with SeriatimServer(frame) as server:
        run(scenario(server))


def test_given_foreign_messages_when_read_then_they_are_reported_and_skipped(
    broker: SeriatimServer,
) -> None:
    async def scenario() -> None:
        client = await nats.connect(url(broker))
        await client.publish("cardinal.mixed.t", b"nonsense")
        await client.publish("cardinal.mixed.t", pack(b"k", b"v"))
        await client.flush()
        await client.flush()
        async with ApplicationReader("mixed", url(broker)) as reader:
            rows, told = await read(reader, 1)
        await client.close()
        (unreadable,) = told
        assert isinstance(unreadable, Unreadable)
        assert (unreadable.number, unreadable.subject) == (rows[0][3] - 1, "cardinal.mixed.t")
        assert rows[0][1:3] == (b"k", b"v")

    run(scenario())


def test_given_a_number_after_the_last_when_read_then_it_ends_and_is_not_asked_for(
    broker: SeriatimServer,
) -> None:
    async def scenario() -> None:
        last = await publish(broker, "behind", 0, 3)
        async with ApplicationReader("behind", url(broker)) as reader:
            await read(reader, 1)
            journal = reader.stream
        for begin, expected in ((last + 1, []), (last + 99, [Rewound(last + 99, last)])):
            streams = {journal: begin}
            async with ApplicationReader(
                "behind", url(broker), streams=streams, last=last
            ) as reader:
                assert not reader.ended
                assert await reader.read(TIMEOUT_S) == ([], expected)
                assert reader.ended
        async with ApplicationReader("behind", url(broker), streams={"other": 7}, last=0) as reader:
            assert await reader.read(TIMEOUT_S) == ([], [JournalChanged("other", journal)])
            assert reader.ended

    run(scenario())


def test_given_a_broker_that_is_killed_when_reading_then_it_goes_on_after_the_last() -> None:
    async def scenario(server: SeriatimServer) -> None:
        await publish(server, "killed", 0, 300)
        async with ApplicationReader("killed", url(server)) as reader:
            rows, told = await read(reader, 100)
            assert told == []
            port = server.port
            await asyncio.to_thread(server.kill)
            while not told:
                more, told = await reader.read(TIMEOUT_S)
                rows += more
            assert [type(one) for one in told] == [Interrupted]
            assert (await reader.read(0.2)) == ([], []), "said once"
            await asyncio.to_thread(server.start, port)
            await publish(server, "killed", 300, 50)
            more, told = await read(reader, 350 - len(rows))
            assert told == []
            assert [row[1] for row in rows + more] == [b"%d" % at for at in range(350)]

    with SeriatimServer("netstring") as server:
        run(scenario(server))


def test_given_a_connection_that_breaks_again_and_again_when_reading_then_nothing_is_missing(
    broker: SeriatimServer,
) -> None:
    async def scenario() -> None:
        """A relay that lets some bytes pass, more each time, and then hangs up."""
        patience = iter(range(3000, 10**9, 9000))

        async def pump(source: asyncio.StreamReader, to: asyncio.StreamWriter, left: int) -> None:
            try:
                with contextlib.suppress(OSError):
                    while left > 0 and (data := await source.read(min(left, 1024))):
                        to.write(data)
                        await to.drain()
                        left -= len(data)
            finally:
                to.close()

        async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            upstream = await asyncio.open_connection("127.0.0.1", broker.port)
            down = pump(upstream[0], writer, next(patience))
            await asyncio.gather(pump(reader, upstream[1], 10**9), down)

        await publish(broker, "relay", 0, 1000)
        server = await asyncio.start_server(relay, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        reader = ApplicationReader("relay", f"nats://127.0.0.1:{port}")
        rows, told = await read(reader, 1000)
        await reader.close()
        server.close()
        assert [row[1] for row in rows] == [b"%d" % at for at in range(1000)]
        assert len([one for one in told if isinstance(one, Interrupted)]) > 1

    run(scenario())


def test_given_another_journal_when_reading_then_it_is_reported_and_read_from_its_begin() -> None:
    async def scenario(first: SeriatimServer, second: SeriatimServer) -> None:
        await publish(first, "journal", 0, 10)
        async with ApplicationReader("journal", url(first)) as reader:
            rows, _ = await read(reader, 10)
            old, port = reader.stream, first.port
            await asyncio.to_thread(first.kill)
            await asyncio.to_thread(second.start, port)
            await publish(second, "journal", 100, 5)
            more, told = await read(reader, 5)
        assert [type(one) for one in told] == [Interrupted, JournalChanged]
        assert told[1] == JournalChanged(old, reader.stream)
        assert [row[3] for row in more] == [1, 2, 3, 4, 5]
        streams = {old: 11, "0123456789abcdef": 7}
        async with ApplicationReader("journal", url(second), streams=streams) as reader:
            rows, told = await read(reader, 5)
            assert told == [JournalChanged(f"{old},0123456789abcdef", reader.stream)]
            assert len(rows) == 5
            known = {**streams, reader.stream: 4}
        async with ApplicationReader("journal", url(second), streams=known) as reader:
            rows, told = await read(reader, 2)
            assert told == []
            assert [row[3] for row in rows] == [4, 5]
        async with ApplicationReader("journal", url(second), streams={reader.stream: 99}) as reader:
            async with asyncio.timeout(TIMEOUT_S / 2):  # it is told before there is a row
                assert await reader.read(TIMEOUT_S) == ([], [Rewound(99, 5)])
            assert reader.next == 6

    with SeriatimServer("netstring") as first, contextlib.ExitStack() as later:
        second = SeriatimServer("netstring")
        later.callback(second.stop)
        run(scenario(first, second))


def test_given_numbers_that_were_deleted_when_read_then_they_are_reported_as_lost() -> None:
    async def scenario(server: SeriatimServer) -> None:
        last = await publish(server, "lost", 0, 3000)
        async with ApplicationReader("lost", url(server)) as reader:
            rows, told = await reader.read(TIMEOUT_S)
            while not rows:
                rows, more = await reader.read(TIMEOUT_S)
                told += more
            (lost,) = told
            assert isinstance(lost, NumbersLost)
            assert (lost.first, lost.last + 1) == (1, rows[0][3])
            rows += (await read(reader, last - lost.last - len(rows)))[0]
            assert [row[3] for row in rows] == list(range(lost.last + 1, last + 1))

    limits = ["--no-journal", "--ring_bytes", "65536"]
    with SeriatimServer("netstring", arguments=limits) as server:
        run(scenario(server))


def test_given_no_broker_when_opened_then_it_is_reported_and_without_opening_it_is_waited_for() -> (
    None
):
    async def scenario(server: SeriatimServer) -> None:
        with pytest.raises(Unreachable, match="no broker listens there"):
            async with ApplicationReader("late", "nats://127.0.0.1:1"):
                pass
        server.start()
        port = server.port
        await publish(server, "late", 0, 3)
        server.stop()
        reader = ApplicationReader("late", f"nats://127.0.0.1:{port}")
        rows, told = await reader.read(TIMEOUT_S)
        assert (rows, [type(one) for one in told]) == ([], [Interrupted])
        await asyncio.to_thread(server.start, port)
        rows, told = await read(reader, 3)
        assert told == []
        await reader.close()

    server = SeriatimServer("netstring")
    with contextlib.ExitStack() as later:
        later.callback(server.stop)
        run(scenario(server))


def test_given_a_broker_that_keeps_nothing_when_read_then_it_is_refused() -> None:
    async def scenario(server: SeriatimServer) -> None:
        async with ApplicationReader("nothing", url(server)) as reader:
            with pytest.raises(BrokerRefused):
                await reader.read(TIMEOUT_S)

    with SeriatimServer("netstring", arguments=["--no-journal", "--ring_bytes", "0"]) as server:
        run(scenario(server))


def test_given_what_is_forbidden_when_reading_then_it_is_refused_and_nothing_is_missing(
    tmp_path: Path,
) -> None:
    config = tmp_path / "broker.toml"
    users = {"reader": ["cardinal.mine.>", "$SEQ.FROM.*.cardinal.mine.>", "_INBOX.>"]}
    users["other"] = ["cardinal.mine.>", "_INBOX.>"]
    lines = ["[authorization]", 'timeout = "60s"']
    for name, subscribe in users.items():
        lines.append(f'[[authorization.users]]\nuser = "{name}"\npassword = "x"')
        publish = ["$SEQ.INFO", "$SEQ.PUB.cardinal.mine.>", "cardinal.mine.>"]
        lines.append(f"permissions = {{ publish = {publish}, subscribe = {subscribe} }}")
    config.write_text("\n".join(lines))

    async def scenario(server: SeriatimServer) -> None:
        async with Publisher("mine", url(server), user="reader", password="x") as publisher:
            await publisher.send({"t": [(b"%d" % at, b"") for at in range(10)]})
        async with ApplicationReader("mine", url(server), user="other", password="x") as reader:
            for _ in range(2):
                with pytest.raises(BrokerRefused, match="Permissions Violation"):
                    await reader.read(TIMEOUT_S)
            reader._options["user"] = "reader"
            rows, _ = await read(reader, 10)
        assert [row[1] for row in rows] == [b"%d" % at for at in range(10)]

    with SeriatimServer("netstring", arguments=["-c", str(config)]) as server:
        run(scenario(server))


INFO = b'INFO {"server_id":"x","headers":true,"max_payload":1048576,"seriatim":"1"}\r\n'


@pytest.mark.parametrize(
    ("info", "told", "error"),
    [
        (b"", b"$SEQ.LOST.a.b", BrokerRefused),
        (b"", b"$SEQ.LOST.1", BrokerRefused),
        (b"", b"$SEQ.LOST.2.1", BrokerRefused),
        (b"", b"$SEQ.LOST.1.99", BrokerRefused),
        (b"", b"$SEQ.END.x", BrokerRefused),
        (b"", b"$SEQ.END.3", BrokerRefused),
        (b"", b"$SEQ.END." + b"9" * 5000, BrokerRefused),
        (b'{"journal":"j","last":"5"}', b"", BrokerRefused),
        (b'{"journal":"j","last":-1}', b"", BrokerRefused),
        (b"[]", b"", BrokerRefused),
    ],
)
def test_given_a_broker_that_says_what_none_would_then_that_is_the_error(
    info: bytes, told: bytes, error: type[Exception]
) -> None:
    def talk(peer: Peer) -> None:
        peer.say(INFO)
        peer.expect(b"PING")
        peer.say(b"PONG\r\n")
        sid = peer.expect(b"SUB _INBOX").split()[-1]
        reply = peer.expect(b"PUB $SEQ.INFO").split()[2]
        text = info or b'{"journal":"j","last":5}'
        peer.say(b"MSG %b %b %d\r\n%b\r\n" % (reply, sid, len(text), text))
        sid = peer.expect(b"SUB $SEQ.RANGE.1.9.").split()[-1]
        peer.say(b"MSG %b %b 0\r\n\r\n" % (told, sid))
        peer.expect(b"never")

    async def talked(port: int) -> None:
        async with ApplicationReader("app", f"nats://127.0.0.1:{port}", last=9) as reader:
            with pytest.raises(error, match=r"the broker sent|this broker is not Seriatim"):
                await read(reader, 1)

    with Scripted(talk) as peer:
        run(talked(peer.port))
