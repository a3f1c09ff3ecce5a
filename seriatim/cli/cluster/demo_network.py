"""The demo's network: all traffic to members and etcd passes it, so a member can be cut off.

    member one --dials--> door of two --> member two
    member one ---------> its own door of etcd --> etcd

A cut stops the bytes on all of a member's connections and closes none, like an unplugged cable.
After `heal`, the delayed bytes arrive. The dialler at a member's door is found by the id in its
HELLO; until then its bytes pass.
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
    """Unused ports of loopback."""
    with contextlib.ExitStack() as stack:
        found = [stack.enter_context(socket.create_server((HOST, 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in found]


class _Passage:
    """One connection through a door."""

    def __init__(self, ends: set[str]) -> None:
        self.ends = ends  # the names of the members at its ends, as far as they are known
        self.open = asyncio.Event()


class DemoNetwork:
    """The network of all doors. For the thread of the event loop."""

    def __init__(self, id_of: Callable[[str], bytes], names: tuple[str, ...]) -> None:
        """`id_of` returns a member's id as in HELLO; empty: it has none yet."""
        self._id_of = id_of
        self._names = names
        self._cut: set[str] = set()
        self._passages: set[_Passage] = set()
        self._servers: dict[tuple[str, bool], asyncio.Server] = {}
        self._doors: dict[str, Callable[[], Coroutine[Any, Any, int]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def door(self, name: str, port: int, dialled: bool) -> int:
        """Open a door to `port`, return its port; `dialled`: find out which member connects."""

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
        """Close a dead member's door, so that connections are refused as by its machine."""
        self._servers[name, True].close()

    async def unshut(self, name: str) -> None:
        """Open the door again for a restarted member."""
        await self._doors[name]()

    def cut(self, name: str) -> None:
        """Stop all bytes from and to this member."""
        self._cut.add(name)
        self._review()

    async def heal(self, name: str) -> None:
        """Let the bytes of a cut-off member flow again."""
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
            pass  # the member is down: its dialler sees the connection end
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
    """Do nothing with the bytes: both ends are known, or do not matter."""
