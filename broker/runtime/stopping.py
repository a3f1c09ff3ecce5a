"""The stop of a broker: when, and whether at once or after its clients were sent elsewhere.

SIGINT    stop: deliver what was accepted, close; ends a lame duck at once
SIGTERM   the same; a member of a cluster is a lame duck first
SIGUSR2   lame duck, then stop; nats-server's signal

A lame duck carries on at SIGTERM and SIGUSR2, as nats-server does: Kubernetes sends SIGUSR2 before
the stop (preStop), and then SIGTERM.
"""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any

ENDS = (signal.SIGTERM, signal.SIGINT)
SIGNALS = (*ENDS, signal.SIGUSR2)


class Stopping:
    """The requests to stop a broker, for its one thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, is_member: bool) -> None:
        self._loop = loop
        self._retire = asyncio.Event()
        self._stop = asyncio.Event()
        loop.add_signal_handler(signal.SIGINT, self._stop.set)
        loop.add_signal_handler(signal.SIGUSR2, self._retire.set)
        loop.add_signal_handler(signal.SIGTERM, self._retire.set if is_member else self._terminate)

    def instead_of_retiring(self, act: Callable[[], None]) -> None:
        """Call `act` at SIGUSR2: cquencer lists its clients then."""
        self._loop.add_signal_handler(signal.SIGUSR2, act)

    def _terminate(self) -> None:
        if not self._retire.is_set():
            self._stop.set()

    async def asked(self) -> None:
        """Wait until the broker is to stop, in either way."""
        await self._first(self._retire.wait())

    @property
    def is_gentle(self) -> bool:
        """True if the broker is to be a lame duck first."""
        return self._retire.is_set() and not self._stop.is_set()

    async def retire(self, retiring: Coroutine[Any, Any, None]) -> None:
        """Let the clients go, until SIGINT ends that."""
        await self._first(retiring)

    async def _first(self, waiting: Coroutine[Any, Any, Any]) -> None:
        """Wait for this, or until the broker is to stop at once."""
        tasks = {self._loop.create_task(one) for one in (waiting, self._stop.wait())}
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        for task in done:
            task.result()

    def ignore_signals(self) -> None:
        """Ignore further signals: the stop is done, and they must not spoil it."""
        for number in SIGNALS:
            self._loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN)
