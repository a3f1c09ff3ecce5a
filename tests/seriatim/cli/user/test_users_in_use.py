"""A users' file from its first user to its last change, with a broker and clients of NATS on it."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from tests.clients.served import silent
from tests.seriatim.cli.user.users_files import add, done, tables
from tests.support.processes import SeriatimServer, ServerProcess
from tests.support.secured import nats_server

TEST_S = 60.0
REFUSED = "(?i)authorization violation"
ENDS = ("Reloaded server configuration", "Nothing is reloaded")


async def connected(server: ServerProcess, name: str, password: str) -> Client:
    return await nats.connect(
        f"nats://127.0.0.1:{server.port}", user=name, password=password, allow_reconnect=False
    )


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(work(), TEST_S)

    asyncio.run(bounded())


async def reloaded(server: ServerProcess) -> None:
    """SIGHUP, and what became of it."""
    before = len(server.log)
    server.signal(signal.SIGHUP)
    assert await asyncio.to_thread(server.await_lines, before, ENDS)
    assert any(ENDS[0] in line for line in server.log[before:]), server.log[before:]


async def refused(server: ServerProcess, name: str, password: str) -> None:
    client = Client()
    where = f"nats://127.0.0.1:{server.port}"
    options: dict[str, Any] = {
        "user": name,
        "password": password,
        "allow_reconnect": False,
        "error_cb": silent,
    }
    with pytest.raises(nats.errors.Error, match=REFUSED):
        await client.connect(where, **options)
    await client.close()  # it keeps its socket


def test_given_a_broker_when_users_are_changed_then_a_signal_makes_it_so(tmp_path: Path) -> None:
    users = tmp_path / "users.toml"
    add(users, "alice")
    with SeriatimServer("none", arguments=["--users_file", str(users)]) as server:

        async def work() -> None:
            alice = await connected(server, "alice", "s3same")
            closed = asyncio.Event()

            async def note() -> None:
                closed.set()

            alice.options["closed_cb"] = alice._closed_cb = note
            await refused(server, "alice", "another")
            await refused(server, "bob", "s3same")

            add(users, "bob", "--publish", "x", "--subscribe", "_INBOX.>")
            await reloaded(server)
            bob = await connected(server, "bob", "s3same")
            assert alice.is_connected

            done("passwd", "alice", "-f", str(users), "--password-stdin", stdin="another\n")
            await reloaded(server)
            await closed.wait()
            await refused(server, "alice", "s3same")
            await (await connected(server, "alice", "another")).close()
            assert bob.is_connected

            done("remove", "alice", "-f", str(users))
            await reloaded(server)
            await refused(server, "alice", "another")
            await bob.close()

        run(work)


def test_given_rights_when_a_user_logs_in_then_it_has_these_and_no_others(tmp_path: Path) -> None:
    users = tmp_path / "users.toml"
    add(users, "asks", "--publish", "work", "--subscribe", "_INBOX.>")
    add(users, "answers", "--subscribe", "work workers", "--allow-responses")
    with SeriatimServer("none", arguments=["--users_file", str(users)]) as server:

        async def work() -> None:
            asks = await connected(server, "asks", "s3same")
            answers = await connected(server, "answers", "s3same")
            errors: asyncio.Queue[Exception] = asyncio.Queue()
            answers._error_cb = errors.put

            async def answer(message: Msg) -> None:
                await message.respond(b"done")

            await answers.subscribe("work", queue="workers", cb=answer)
            await answers.flush()
            assert (await asks.request("work", b"please", timeout=TEST_S)).data == b"done"
            await answers.publish("work", b"more")
            assert 'permissions violation for publish to "work"' in str(await errors.get())
            await answers.subscribe("work", queue="idlers")
            assert 'subscription to "work" using queue "idlers"' in str(await errors.get())
            await asks.close()
            await answers.close()

        run(work)


def test_given_a_hash_of_the_command_when_nats_server_reads_it_then_it_is_the_password(
    tmp_path: Path,
) -> None:
    hash = done("passwd", "--password-stdin", stdin="s3same")[0].strip()
    config = f'authorization {{ user: "alice", password: "{hash}" }}\n'
    with nats_server(tmp_path, config) as server:

        async def work() -> None:
            await (await connected(server, "alice", "s3same")).close()
            await refused(server, "alice", "another")

        run(work)


def test_given_a_name_in_the_file_when_it_is_any_text_then_a_client_can_give_it(
    tmp_path: Path,
) -> None:
    users = tmp_path / "users.toml"
    name = 'Ålice "the \\ boss" #1 [[users]]'
    add(users, name, password="grüß 'dich' \"")
    assert tables(users)["users"][0]["user"] == name
    with SeriatimServer("none", arguments=["--users_file", str(users)]) as server:

        async def work() -> None:
            await (await connected(server, name, "grüß 'dich' \"")).close()

        run(work)
