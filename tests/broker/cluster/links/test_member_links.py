"""Connections between members, and strangers on their port."""

import asyncio
import logging
import socket
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from broker.cluster.links import member_connection
from broker.cluster.links.member_connection import MemberConnection
from broker.cluster.links.member_links import STRANGERS_MAX, LinkOwner, MemberLinks
from sequencer.replica import member_messages as m

SECRET = b"a secret of sixteen bytes"


class Owner(LinkOwner):
    """Of the connections of one member."""

    def __init__(self) -> None:
        self.there: asyncio.Queue[MemberConnection] = asyncio.Queue()
        self.lost: asyncio.Queue[MemberConnection] = asyncio.Queue()

    def joined(self, connection: MemberConnection) -> None:
        self.there.put_nowait(connection)

    def received(self, connection: MemberConnection, messages: Sequence[Any]) -> None: ...

    def gone(self, connection: MemberConnection) -> None:
        self.lost.put_nowait(connection)

    def dial_failed(self, member: str, refused: bool) -> None: ...


def links(port: list[int], secret: bytes = SECRET) -> tuple[MemberLinks, Owner]:
    loop = asyncio.get_running_loop()
    made = MemberLinks(secret, "orders", lambda member: ("127.0.0.1", port[0]), loop)
    owner = Owner()
    made.report_to(owner, owner)
    return made, owner


async def stop(*pairs: tuple[MemberLinks, Owner]) -> None:
    """Close everything, and wait until it is closed."""
    for made, owner in pairs:
        there = len(made._connections)
        made.stop()
        for _ in range(there):
            await owner.lost.get()


def test_given_strangers_that_say_nothing_then_they_are_few_and_keep_no_member_out() -> None:
    async def work() -> None:
        loop = asyncio.get_running_loop()
        port: list[int] = []
        listener, owner = links(port)
        port.append(await listener.listen("127.0.0.1", 0))
        with ExitStack() as stack:
            strangers = []
            for _ in range(STRANGERS_MAX + 20):
                made = stack.enter_context(socket.socket())
                made.setblocking(False)
                await loop.sock_connect(made, ("127.0.0.1", port[0]))
                assert await loop.sock_recv(made, 100), "it is accepted"
                strangers.append(made)
            for one in strangers[:20]:  # the oldest
                with suppress(ConnectionResetError):
                    assert await loop.sock_recv(one, 100) == b"", "it is closed"
                await owner.lost.get()
            dialler, member = links(port)
            dialler.dial("one")
            await member.there.get()
            await owner.there.get()
            await stop((dialler, member), (listener, owner))

    asyncio.run(asyncio.wait_for(work(), 30))


def test_given_a_member_with_another_secret_that_tries_again_then_the_log_says_it_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def work() -> None:
        port: list[int] = []
        listener, owner = links(port)
        port.append(await listener.listen("127.0.0.1", 0))
        dialler, member = links(port, b"another secret, of a stranger")
        for _ in range(10):
            dialler.dial("one")
            await owner.lost.get()
            await member.lost.get()
        await stop((dialler, member), (listener, owner))

    caplog.set_level(logging.INFO, "seriatim")
    asyncio.run(asyncio.wait_for(work(), 30))
    words = "another cluster.secret_file, or another cluster.name"
    said = [record.getMessage().partition(": no connection with ")[2] for record in caplog.records]
    assert [words in one for one in said] == [True, True], "once at each of the two"


def test_given_a_member_that_reads_nothing_when_closed_then_what_waits_for_it_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work() -> None:
        port: list[int] = []
        listener, owner = links(port)
        port.append(await listener.listen("127.0.0.1", 0))
        dialler, member = links(port)
        dialler.dial("one")
        await member.there.get()
        connection = await owner.there.get()
        (other,) = dialler._connections.values()
        other._transport.pause_reading()  # as if that process were stopped
        for _ in range(12):
            connection.send(m.Forward(1, bytes(1 << 20)))
        connection.close()
        assert await owner.lost.get() is connection
        await stop((dialler, member), (listener, owner))

    monkeypatch.setattr(member_connection, "CLOSE_SECONDS", 0.1)
    asyncio.run(asyncio.wait_for(work(), 30))
