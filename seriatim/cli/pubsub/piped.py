"""Reads the lines of a pipe or a terminal in a thread: the loop stays free, and Ctrl-C works.

The thread reads a chunk when it is asked for one, so at most a chunk and a line are held. It reads
the descriptor, not Python's file object, whose lock would block the interpreter's exit.
"""

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from queue import SimpleQueue

from seriatim.cli.errors import CliError

CHUNK_BYTES = 1 << 16  # the capacity of a pipe

Asked = asyncio.Future[bytes]


async def lines(descriptor: int, bytes_max: int) -> AsyncIterator[bytes]:
    """The lines, with their ends. Raises `CliError` for one that is too long, and `OSError`."""
    held, searched = bytearray(), 0
    async for chunk in chunks(descriptor):
        held += chunk
        while end := held.find(b"\n", searched) + 1:
            yield bytes(held[:end])
            del held[:end]
            searched = 0
        searched = len(held)
        if searched >= bytes_max:
            raise CliError(f"a line is longer than {bytes_max} bytes: this is not a file of blocks")
    if held:
        yield bytes(held)


async def chunks(descriptor: int) -> AsyncGenerator[bytes, None]:
    """Yield what is read, up to the end: each piece when it is asked for. Raises `OSError`."""
    asked: SimpleQueue[Asked] = SimpleQueue()
    loop = asyncio.get_running_loop()
    threading.Thread(target=_serve, args=(descriptor, asked, loop), daemon=True).start()
    while True:
        answer = loop.create_future()
        asked.put(answer)
        if not (chunk := await answer):
            return
        yield chunk


def _serve(descriptor: int, asked: SimpleQueue[Asked], loop: asyncio.AbstractEventLoop) -> None:
    chunk = b"."
    while chunk:
        answer, error = asked.get(), None
        try:
            chunk = os.read(descriptor, CHUNK_BYTES)
        except OSError as caught:
            chunk, error = b"", caught
        with suppress(RuntimeError):  # the loop is closed: no reader waits
            loop.call_soon_threadsafe(_give, answer, chunk, error)


def _give(answer: Asked, chunk: bytes, error: OSError | None) -> None:
    if answer.done():
        return
    if error is None:
        answer.set_result(chunk)
    else:
        answer.set_exception(error)
