"""A broker in the test's own process: a real `Server`, whose parts can be examined.

    with serving(path, "239.1.2.3:4567,interface=127.0.0.1") as broker:
        client = broker.client()
        client.publish(b"orders", b"one", b"two")

The loop runs in the test's thread, and only while something is awaited: `broker.run(...)`, or a
client's methods, which return when the broker has answered and its output has been sent.
"""

import asyncio
from collections.abc import Awaitable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from broker.feeds.outlet import Outlet
from broker.runtime.event_loop import BrokerLoop
from broker.server import Server
from broker.settings.resolve import resolve
from tests.support.raw import QUIET, Operation, next_operation

WAIT_S = 120.0  # a bound for what hangs
Result = TypeVar("Result")


def feed_text(group: tuple[str, int], **options: object) -> str:
    """The text of --feed for a group on loopback."""
    place = f"[{group[0]}]" if ":" in group[0] else group[0]
    given = {"interface": "127.0.0.1", **options}
    return ",".join([f"{place}:{group[1]}", *(f"{key}={value}" for key, value in given.items())])


class Client:
    """One connection to the broker."""

    def __init__(
        self, broker: "Broker", reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._broker, self._reader, self._writer = broker, reader, writer
        self._inbox = b""

    def ask(self, data: bytes) -> list[Operation]:
        """Send, and what the broker says before the PONG behind it."""
        return self._broker.run(self._ask(data))

    def publish(self, subject: bytes, *payloads: bytes) -> None:
        """Publish, all in one write; the broker has handled all of it then."""
        self.ask(b"".join(b"PUB %b %d\r\n%b\r\n" % (subject, len(p), p) for p in payloads))

    def send(self, data: bytes) -> None:
        """Send, and wait for nothing."""
        self._writer.write(data)

    async def _ask(self, data: bytes) -> list[Operation]:
        self._writer.write(data + b"PING\r\n")
        found: list[Operation] = []
        while True:
            step = next_operation(self._inbox, 0)
            if step is None:
                more = await self._reader.read(1 << 18)
                assert more, f"the broker has closed: {self._inbox!r}"
                self._inbox += more
                continue
            operation, at = step
            self._inbox = self._inbox[at:]
            if operation.verb == "PONG":
                return found
            if operation.verb not in ("INFO", "PING"):
                found.append(operation)

    def close(self) -> None:
        self._writer.close()


class Broker:
    """A server that has started."""

    def __init__(self, runner: asyncio.Runner, server: Server) -> None:
        self._runner = runner
        self.server = server
        self.clients: list[Client] = []
        self.stopped = False

    @property
    def outlets(self) -> list[Outlet]:
        assert self.server.feeds is not None
        return self.server.feeds.outlets

    def run(self, work: Awaitable[Result]) -> Result:
        """Run the loop until this is done."""
        return self._runner.run(_bounded(work))

    def client(self, connect: bytes = QUIET, source: str = "") -> Client:
        """One more connection, greeted; from the address `source`."""
        host, port = self.server.addresses[0]
        local = (source, 0) if source else None
        reader, writer = self.run(asyncio.open_connection(host, port, local_addr=local))
        client = Client(self, reader, writer)
        client.ask(connect)
        self.clients.append(client)
        return client

    def until(self, true: Any) -> None:
        """Run the loop until this is so: what it waits for tells nobody."""
        self.run(_poll(true))

    def stop(self) -> None:
        """Stop as a broker does, while its clients are still there."""
        self.stopped = True
        self.run(self.server.stop())
        for client in self.clients:
            client.close()
        self.run(asyncio.sleep(0))


async def _bounded(work: Awaitable[Result]) -> Result:
    return await asyncio.wait_for(work, WAIT_S)


async def _poll(true: Any) -> None:
    while not true():
        await asyncio.sleep(0.002)  # no event to await


@contextmanager
def serving(
    store_dir: Path, *feeds: str, flags: Mapping[str, Any] | None = None, config: str | None = None
) -> Iterator[Broker]:
    """A broker with these feeds, and `flags` by path as `seriatim serve` reads them.

    `config`: a file with other settings.
    """
    given = {"host": "127.0.0.1", "port": "-1", "store_dir": str(store_dir), **(flags or {})}
    settings = resolve({**given, "feeds": list(feeds)}, {}, config).settings

    async def start() -> Server:
        server = Server(settings)
        await server.start()
        return server

    with asyncio.Runner(loop_factory=BrokerLoop) as runner:
        work: Coroutine[Any, Any, Server] = start()
        broker = Broker(runner, runner.run(work))
        try:
            yield broker
        finally:
            if not broker.stopped:
                broker.stop()
