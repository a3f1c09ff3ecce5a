"""A small HTTP server on a thread: bounded, silent, and stopped at once.

Rule 1  At most `REQUESTS_MAX` requests at a time. For one more the oldest is hung up on: so
        peers that hold their places cannot keep a health check out.
Rule 2  A peer that sends nothing, or reads nothing, is let go after `PEER_SECONDS_MAX`.
Rule 3  Nothing it does reaches standard error: a client that goes away is no event.
"""

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler

from prometheus_client.exposition import ThreadingWSGIServer

from broker.addresses import bound_to, open_sockets

REQUESTS_MAX = 16
PEER_SECONDS_MAX = 10.0
RETRY_SECONDS = 0.1


class Handler(WSGIRequestHandler):
    """One request, without a line in the log."""

    timeout = PEER_SECONDS_MAX

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


class HttpServer(ThreadingWSGIServer):
    """Serves one WSGI application from `start` to `stop`."""

    request_queue_size = 64

    def __init__(self, host: str, port: int, app: Callable[..., Any]) -> None:
        """Bind; port -1 is any free one. Raises OSError."""
        self._host = host
        self._bound = open_sockets(host, max(port, 0), most=1)[0]
        self._bound.setblocking(True)
        self._open: dict[socket.socket, None] = {}  # oldest first
        self._opening = threading.Lock()
        self._stopping = False
        self._thread = threading.Thread(target=self._serve, name="monitor", daemon=True)
        super().__init__(self._bound.getsockname()[:2], Handler, bind_and_activate=False)
        self.socket.close()  # the one that the base has made
        self.socket = self._bound
        self.server_bind()
        self.server_activate()
        self.set_app(app)

    def server_bind(self) -> None:
        """It is bound by now; the name service is not asked for our own name."""
        self.server_name, self.server_port = bound_to(self._host, self._bound)
        self.setup_environ()

    def get_request(self) -> Any:
        """Accept; where no descriptor is left, the next try is not at once."""
        try:
            return super().get_request()
        except OSError:
            time.sleep(RETRY_SECONDS)
            raise

    def start(self) -> tuple[str, int]:
        """Serve from now on; the address that was bound."""
        self._thread.start()
        return self.server_name, self.server_port

    def stop(self) -> None:
        """Take no more requests. Safe to be called in the broker's loop: it waits for nobody."""
        self._stopping = True
        self.socket.shutdown(socket.SHUT_RDWR)  # wakes the thread, which then finds `_stopping`
        self._thread.join(timeout=1)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Hand the request to a thread of its own."""
        with self._opening:
            while len(self._open) >= REQUESTS_MAX:
                oldest = next(iter(self._open))
                del self._open[oldest]
                with suppress(OSError):  # it may have gone by itself
                    oldest.shutdown(socket.SHUT_RDWR)  # wakes its thread, which ends it
            self._open[request] = None
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve the request, in its thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._opening:
                self._open.pop(request, None)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A peer that is late, gone, or speaks no HTTP: its own affair."""

    def _serve(self) -> None:
        while not self._stopping:
            self.handle_request()
        self.server_close()  # here, for this thread may be late to look whether it should stop
