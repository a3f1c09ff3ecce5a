"""The demo's network: members and etcd are reached through it, so a member can be cut off.

    member one --dials--> door of two --> member two
    member one ---------> its own door of etcd --> etcd

Cutting a member off stops the bytes on all its connections and closes none, as a dead cable does.
When it is healed, what was under way arrives. Who has dialled a member's door is read from HELLO,
in which each member says its id; until then its bytes pass.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any, Final

HOST: Final = "127.0.0.1"
CHUNK_BYTES: Final = 1 << 16


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody uses now."""
    with contextlib.ExitStack() as stack:
        found = [stack.enter_context(socket.create_server((HOST, 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in found]


class _Passage:
    """One connection through a door."""

    def __init__(self, ends: set[str]) -> None:
        self.ends = ends  # the names of the members at its ends, as far as they are known
        self.open = asyncio.Event()


class DemoNetwork:
    """All doors. For the thread of the event loop."""

    def __init__(self, id_of: Callable[[str], bytes], names: tuple[str, ...]) -> None:
        """`id_of` says a member's id as HELLO has it; empty: it has none yet."""
        self._id_of = id_of
        self._names = names
        self._cut: set[str] = set()
        self._passages: set[_Passage] = set()
        self._servers: dict[tuple[str, bool], asyncio.Server] = {}
        self._doors: dict[str, Callable[[], Coroutine[Any, Any, int]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def door(self, name: str, port: int, dialled: bool) -> int:
        """The port of a new door to `port`; `dialled`: its other end is a member, to be found."""

        def accept(near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(self._pass(name, port, dialled, near, back))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        async def listen(at: int) -> int:
            server = self._servers[name, dialled] = await asyncio.start_server(accept, HOST, at)
            bound: int = server.sockets[0].getsockname()[1]
            return bound

        number = await listen(0)
        if dialled:
            self._doors[name] = partial(listen, number)
        return number

    def shut(self, name: str) -> None:
        """The member's process is dead: its machine refuses connections."""
        self._servers[name, True].close()

    async def unshut(self, name: str) -> None:
        """The process is there again."""
        await self._doors[name]()

    def cut(self, name: str) -> None:
        """From now on nothing comes from or to this member."""
        self._cut.add(name)
        self._review()

    async def heal(self, name: str) -> None:
        """It is connected again."""
        self._cut.discard(name)
        self._review()

    def close(self) -> None:
        """Close all doors."""
        for server in self._servers.values():
            server.close()
        for task in self._tasks:
            task.cancel()

    def _review(self) -> None:
        for passage in self._passages:
            if passage.ends & self._cut:
                passage.open.clear()
            else:
                passage.open.set()

    @contextlib.contextmanager
    def _passage(self, name: str) -> Iterator[_Passage]:
        passage = _Passage({name})
        self._passages.add(passage)
        self._review()
        try:
            yield passage
        finally:
            self._passages.discard(passage)

    async def _pass(
        self,
        name: str,
        port: int,
        dialled: bool,
        near: asyncio.StreamReader,
        back: asyncio.StreamWriter,
    ) -> None:
        try:
            with self._passage(name) as passage:
                far, onward = await asyncio.open_connection(HOST, port)
                look = self._find_dialler if dialled else _know
                up = asyncio.ensure_future(self._pump(passage, near, onward, look))
                down = asyncio.ensure_future(self._pump(passage, far, back, _know))
                try:
                    await asyncio.wait({up, down}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    up.cancel()
                    down.cancel()
                    onward.close()
        except OSError:
            pass  # the member is not there: its dialler sees the connection end
        finally:
            back.close()

    async def _pump(
        self,
        passage: _Passage,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        look: Callable[[_Passage, bytes], None],
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(CHUNK_BYTES):
                look(passage, data)
                await passage.open.wait()
                sink.write(data)
                await sink.drain()

    def _find_dialler(self, passage: _Passage, data: bytes) -> None:
        if len(passage.ends) > 1:
            return
        for name in self._names:
            if name not in passage.ends and (own := self._id_of(name)) and own in data:
                passage.ends.add(name)
                self._review()


def _know(passage: _Passage, data: bytes) -> None:
    """Both ends are known, or it does not matter."""
