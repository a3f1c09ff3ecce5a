"""The broker's loop serves clients in its selector, and all else that a loop does as any other."""

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from broker.runtime.event_loop import BrokerLoop
from tests.support.raw import QUIET
from tests.support.serving import Broker, serving

FLOOD = b"PUB flood 4096\r\n%b\r\n" % bytes(4096) * 50  # long, so that a turn has few of them


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with serving(tmp_path) as made:
        yield made


@contextmanager
def flooding(broker: Broker) -> Iterator[None]:
    """A client that publishes all the time, from a thread of its own."""
    ended = threading.Event()

    def flood(client: socket.socket) -> None:
        with suppress(OSError):
            while not ended.is_set():
                client.sendall(FLOOD)

    with closing(socket.create_connection(broker.server.addresses[0])) as client:
        client.sendall(QUIET)
        thread = threading.Thread(target=flood, args=(client,))
        thread.start()
        try:
            yield
        finally:
            ended.set()
            client.shutdown(socket.SHUT_RDWR)
            thread.join()


def connected(broker: Broker) -> socket.socket:
    """A client whose first commands the broker has served."""
    client = socket.create_connection(broker.server.addresses[0])
    client.sendall(QUIET)
    broker.until(lambda: any(one.introduced for one in broker.server.sessions.values()))
    return client


def test_given_a_flood_then_timers_threads_and_new_clients_are_served_beside_it(
    broker: Broker,
) -> None:
    server = broker.server

    async def others() -> None:
        for _ in range(10):
            timer = server.loop.create_future()
            server.loop.call_later(0.001, timer.set_result, None)
            await timer
            assert await server.loop.run_in_executor(None, lambda: 7) == 7
            reader, writer = await asyncio.open_connection(*server.addresses[0])
            assert (await reader.readline()).startswith(b"INFO ")
            writer.close()

    with flooding(broker):
        broker.until(lambda: server.last_number > 100)
        before = server.last_number
        broker.run(others())
        assert server.last_number > before


@pytest.mark.parametrize("delay", [None, 0.0, 0.01])
def test_given_a_call_that_a_client_has_caused_then_the_loop_makes_it_without_another_event(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, delay: float | None
) -> None:
    loop = broker.server.loop
    with closing(connected(broker)) as client:
        called = loop.create_future()

        def handle(self: Any, *given: Any) -> None:
            if delay is None:
                loop.call_soon(called.set_result, 1)
            else:
                loop.call_later(delay, called.set_result, 1)

        monkeypatch.setattr(type(broker.server.control), "handle", handle)
        client.sendall(b"PING\r\n")
        broker.run(called)


def test_given_a_signal_while_it_waits_for_clients_then_its_handler_is_called(
    broker: Broker,
) -> None:
    loop = broker.server.loop
    called = loop.create_future()
    loop.add_signal_handler(signal.SIGUSR2, called.set_result, None)
    sender = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR2))
    sender.start()
    broker.run(called)
    sender.join()
    loop.remove_signal_handler(signal.SIGUSR2)


def test_given_a_stopped_broker_then_its_loop_goes_on(broker: Broker) -> None:
    broker.stop()
    here, there = socket.socketpair()
    with here, there:

        async def heard() -> None:
            loop = asyncio.get_running_loop()
            read = loop.create_future()
            loop.add_reader(here, read.set_result, None)
            there.send(b"x")
            await read
            loop.remove_reader(here)

        broker.run(heard())


class Failing:
    """It waits for nobody, and fails."""

    asked = False

    def serve_for(self, timeout: float) -> bool:
        raise RuntimeError("planted")

    def defer(self, action: Callable[[Any], object], value: Any) -> bool:
        return False


def test_given_an_error_while_clients_are_served_then_it_is_reported_and_the_loop_goes_on() -> None:
    reported: list[str] = []
    with asyncio.Runner(loop_factory=BrokerLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, BrokerLoop)
        loop.set_exception_handler(lambda _, context: reported.append(str(context["exception"])))
        loop.wait_with(Failing())
        runner.run(asyncio.sleep(0))
        loop.wait_with(None)
    assert set(reported) == {"planted"}
