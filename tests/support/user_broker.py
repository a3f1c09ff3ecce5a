"""A broker in the test's own process with users in a file, which is reloaded as SIGHUP does."""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from broker.settings.resolve import resolve
from tests.support.raw import Operation
from tests.support.serving import Broker, Client, serving
from tests.support.twin_users import TwinUsers, connect

Reload = Callable[[TwinUsers | None], None]


@contextmanager
def serving_users(
    folder: Path, users: TwinUsers | None, flags: Mapping[str, Any] | None = None
) -> Iterator[tuple[Broker, Reload]]:
    """A broker, and how it takes other users; None: nobody need authenticate."""
    path = folder / "users.toml"
    given = {"frame": "none", **(flags or {})}

    def write(users: TwinUsers | None) -> None:
        path.write_text("" if users is None else users.toml())

    write(users)
    with serving(folder / "store", flags=given, config=str(path)) as broker:

        def reload(users: TwinUsers | None) -> None:
            write(users)
            settings = resolve(given, {}, str(path)).settings

            async def work() -> None:
                broker.server.reload_users(settings)

            broker.run(work())

        yield broker, reload


class Stranger:
    """A connection that has sent nothing yet."""

    def __init__(self, broker: Broker, source: str = "") -> None:
        self.broker = broker
        host, port = broker.server.addresses[0]
        local = (source, 0) if source else None
        self.reader, self.writer = broker.run(asyncio.open_connection(host, port, local_addr=local))
        self.info = broker.run(self.reader.readline())
        broker.clients.append(Client(broker, self.reader, self.writer))  # closed at the end

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    def until(self, end: bytes) -> bytes:
        return self.broker.run(self.reader.readuntil(end))

    def rest(self) -> bytes:
        """What it says until it closes."""

        async def read() -> bytes:
            try:
                return await self.reader.read()
            except ConnectionResetError:
                return b""

        return self.broker.run(read())

    def close(self) -> None:
        self.writer.close()


def login(broker: Broker, user: str, password: str = "", **options: Any) -> Client:
    """A client that is this user."""
    return broker.client(connect(user, password, **options))


def errors(found: list[Operation]) -> list[str]:
    """The texts of the errors among them, without quotes around them."""
    return [one.text.decode()[1:-1] for one in found if one.verb == "-ERR"]


def payloads(found: list[Operation]) -> list[bytes]:
    """What the messages among them hold."""
    return [one.payload for one in found if one.verb in ("MSG", "HMSG")]


def subjects(found: list[Operation]) -> list[str]:
    """The subjects of the messages among them."""
    return [one.subject.decode() for one in found if one.verb in ("MSG", "HMSG")]


def json_of(found: list[Operation]) -> Any:
    """The JSON in the one message among them."""
    (payload,) = payloads(found)
    return json.loads(payload)
