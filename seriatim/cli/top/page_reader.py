"""Reads monitoring pages over one HTTP connection, which is kept if the broker keeps it.

`PageAsker` does it on a thread of its own, so that keys work while a broker hangs.
"""

import base64
import http.client
import queue
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self

import orjson

from seriatim.cli.printable import printable
from seriatim.cli.top.page_values import Page, text
from seriatim.client.errors import describe

ANSWER_S: Final = 5.0  # a broker that hangs is asked again after this
PAGE_MAX: Final = 64 << 20  # bytes; 10,000 connections are some 5 MB


class NoAnswer(Exception):
    """The broker did not answer with its pages; `str()` says why, in one line."""


@dataclass(frozen=True, slots=True)
class PageAddress:
    """The place of the pages, and the user who asks for them."""

    host: str
    port: int
    secure: bool = False
    user: str = ""
    password: str = field(default="", repr=False)
    context: Callable[[], ssl.SSLContext] = ssl.create_default_context

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Answers:
    """Pages by name, those that the broker does not have left out; all of one round."""

    at: float  # monotonic seconds of the first page
    time: float  # seconds since 1970
    pages: Mapping[str, Page]


class PageReader:
    """Reads rounds of pages; used by one thread at a time."""

    def __init__(self, address: PageAddress) -> None:
        self._address = address
        self._connection: http.client.HTTPConnection | None = None
        self._headers = {"Accept": "application/json"}
        if address.user:
            plain = f"{address.user}:{address.password}".encode()
            self._headers["Authorization"] = f"Basic {base64.b64encode(plain).decode()}"

    def read(self, paths: Mapping[str, str]) -> Answers:
        """Read the pages at these paths; the first one must be there. Raises `NoAnswer`."""
        pages: dict[str, Page] = {}
        at = now = 0.0
        try:
            for name, path in paths.items():
                status, page = self._get(path)
                at, now = at or time.monotonic(), now or time.time()
                if status == http.client.OK:
                    pages[name] = page
                elif not pages:
                    raise NoAnswer(_refusal(status, page))
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            raise NoAnswer(_trouble(error)) from error
        return Answers(at, now, pages)

    def close(self) -> None:
        """Close the connection; the next round opens another one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _get(self, path: str) -> tuple[int, Page]:
        kept = self._connection is not None
        try:
            return self._ask(path)
        except (ConnectionError, http.client.BadStatusLine):
            if not kept:
                raise
            self.close()  # the broker had closed it meanwhile, as it may
            return self._ask(path)

    def _ask(self, path: str) -> tuple[int, Page]:
        if self._connection is None:
            self._connection = self._connect()
        self._connection.request("GET", path, headers=self._headers)
        with self._connection.getresponse() as answer:
            body = answer.read(PAGE_MAX)
            if len(body) == PAGE_MAX:
                raise ValueError(f"{path} has more than {PAGE_MAX >> 20} MiB")
            try:
                page = orjson.loads(body)
            except ValueError:
                page = None
            if isinstance(page, dict):
                return answer.status, page
            if answer.status != http.client.OK:
                return answer.status, {}
            raise ValueError(f"{path} has something else")

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._address.host, self._address.port
        if self._address.secure:
            context = self._address.context()
            return http.client.HTTPSConnection(host, port, timeout=ANSWER_S, context=context)
        return http.client.HTTPConnection(host, port, timeout=ANSWER_S)


def _refusal(status: int, page: Page) -> str:
    if status == http.client.UNAUTHORIZED:
        return "401: give the right --user and --password, those of http_user"
    words = text(page, "error") or http.client.responses.get(status, "")
    return f"it answered {status} {printable(words)}".rstrip()


def _trouble(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        why = f"the broker's certificate is not trusted ({error.verify_message})"
        return f"{why}; give --tlscacert FILE"
    if isinstance(error, ConnectionResetError):  # http.client's own among them
        return "it closed the connection"
    if isinstance(error, OSError):
        return describe(error)
    if isinstance(error, http.client.HTTPException):
        return (
            "this is not monitoring: it does not speak HTTP; give the port of `seriatim serve -m`"
        )
    return f"these are not the pages of a broker: {error}"


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
