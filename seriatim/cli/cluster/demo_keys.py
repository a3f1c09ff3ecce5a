"""Keys pressed at the terminal, without Return after each."""

import asyncio
import os
import sys
import termios
import tty
from collections.abc import AsyncIterator

END_OF_INPUT = "q"


async def pressed_keys() -> AsyncIterator[str]:
    """Yield each key. Restores the terminal at the end."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    keys: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def read() -> None:
        data = os.read(descriptor, 64)
        for key in data.decode("utf-8", "replace") or END_OF_INPUT:
            keys.put_nowait(key)

    tty.setcbreak(descriptor)
    loop.add_reader(descriptor, read)
    try:
        while True:
            yield await keys.get()
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
