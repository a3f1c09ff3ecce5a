"""Reads pages on a thread of its own, so that keys work while a broker hangs."""

import queue
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Self

from seriatim.cli.top.page_reader import Answers, NoAnswer, PageReader


class PageAsker:
    """Asks for a round of pages at a time. Its file descriptor is readable when one has ended.

    The thread is a daemon: one that waits for a broker that hangs does not hold up the end.
    """

    def __init__(self, reader: PageReader) -> None:
        self.is_busy = False
        self._reader = reader
        self._asked: queue.SimpleQueue[Mapping[str, str] | None] = queue.SimpleQueue()
        self._heard: queue.SimpleQueue[Answers | NoAnswer | Exception] = queue.SimpleQueue()
        self._bell, self._rope = socket.socketpair()
        threading.Thread(target=self._read, name="pages", daemon=True).start()

    def fileno(self) -> int:
        """Return the descriptor to select on."""
        return self._bell.fileno()

    def ask(self, paths: Mapping[str, str]) -> None:
        """Begin a round."""
        assert not self.is_busy, "one round at a time"
        self.is_busy = True
        self._asked.put(paths)

    def take(self) -> Answers | NoAnswer | None:
        """Return what the round brought; None if it has not ended. Raises a defect's exception."""
        try:
            heard = self._heard.get_nowait()
        except queue.Empty:
            return None
        self._bell.recv(1)
        self.is_busy = False
        if isinstance(heard, Answers | NoAnswer):
            return heard
        raise heard

    def _read(self) -> None:
        while (paths := self._asked.get()) is not None:
            try:
                self._heard.put(self._reader.read(paths))
            except Exception as error:  # NoAnswer, or a defect, which is the other thread's to show
                self._heard.put(error)
            with suppress(OSError):  # it has ended
                self._rope.send(b".")
        self._reader.close()
        self._rope.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._asked.put(None)
        self._bell.close()
