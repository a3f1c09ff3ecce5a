"""A small HTTP server on a thread: bounded, silent, and quick to stop.

Rule 1  At most `REQUESTS_MAX` requests at a time. One more disconnects the oldest, so peers
        that hold their places cannot keep a health check out.
Rule 2  A peer that sends nothing, or reads nothing, is disconnected after `PEER_SECONDS_MAX`.
        A TLS handshake takes `HANDSHAKE_SECONDS_MAX` at most, in the request's own thread.
Rule 3  Nothing is written to standard error: a client that goes away is not an event.
"""

import io
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TextIO
from wsgiref.simple_server import WSGIRequestHandler

from prometheus_client.exposition import ThreadingWSGIServer

from broker.addresses import bound_to, open_sockets

if TYPE_CHECKING:
    from broker.wires.tls_contexts import ClientFacingContext

HANDSHAKE_SECONDS_MAX = 5.0
REQUESTS_MAX = 16
PEER_SECONDS_MAX = 10.0
RETRY_SECONDS = 0.1
SERVER = "Seriatim"


class Nowhere(io.StringIO):
    """A text file that keeps nothing."""

    def write(self, text: str) -> int:
        return len(text)


class Handler(WSGIRequestHandler):
    """One request, without a line in the log."""

    timeout = PEER_SECONDS_MAX

    def get_stderr(self) -> TextIO:
        """Return where wsgiref writes about peers that do not read, or reset: nowhere."""
        return Nowhere()

    def version_string(self) -> str:
        """Name the server, but no versions: they would tell an attacker what to try."""
        return SERVER

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


def named(app: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap an application, so that its answers have the header `Server` that `Handler` has."""

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        def start(status: str, headers: list[tuple[str, str]], *error: Any) -> Any:
            return start_response(status, [*headers, ("Server", SERVER)], *error)

        return app(environ, start)

    return answer


class HttpServer(ThreadingWSGIServer):
    """Serves one WSGI application from `start` to `stop`."""

    request_queue_size = 64

    def __init__(
        self,
        host: str,
        port: int,
        app: Callable[..., Any],
        context: "Callable[[], ClientFacingContext] | None" = None,
    ) -> None:
        """Bind; port -1 means any free one. With `context`, it speaks TLS. Raises OSError."""
        self._host = host
        self._context = context  # asked for each connection: the certificate may be renewed
        self._bound = open_sockets(host, max(port, 0), most=1)[0]
        self._bound.setblocking(True)
        self._open: dict[socket.socket, None] = {}  # oldest first
        self._opening = threading.Lock()
        self._stopping = False
        self._thread = threading.Thread(target=self._serve, name="monitor", daemon=True)
        super().__init__(self._bound.getsockname()[:2], Handler, bind_and_activate=False)
        self.socket.close()  # the one that the base class has made
        self.socket = self._bound
        self.server_bind()
        self.server_activate()
        self.set_app(named(app))

    def server_bind(self) -> None:
        """Keep the socket, which is already bound; do not look up our own name."""
        self.server_name, self.server_port = bound_to(self._host, self._bound)
        self.setup_environ()

    def get_request(self) -> Any:
        """Accept a connection; if no descriptor is free, wait before the next attempt."""
        try:
            return super().get_request()
        except OSError:
            if not self._stopping:  # `stop` has shut the socket, and waits for this thread
                time.sleep(RETRY_SECONDS)
            raise

    def start(self) -> tuple[str, int]:
        """Start serving; return the address that was bound."""
        self._thread.start()
        return self.server_name, self.server_port

    def stop(self) -> None:
        """Stop serving. Safe to call in the broker's loop: it does not wait."""
        self._stopping = True
        with suppress(OSError):  # a thread that was serving may have found `_stopping`, and closed
            self.socket.shutdown(socket.SHUT_RDWR)  # wakes the thread, which then finds `_stopping`
        self._thread.join(timeout=1)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Hand the request to a thread of its own."""
        with self._opening:
            while len(self._open) >= REQUESTS_MAX:
                oldest = next(iter(self._open))
                del self._open[oldest]
                with suppress(OSError):  # it may have gone already
                    oldest.shutdown(socket.SHUT_RDWR)  # wakes its thread, which closes it
            self._open[request] = None
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve the request, in its thread."""
        try:
            secured = request if self._context is None else self._secured(request, self._context())
        except OSError:  # it does not speak TLS, or too slowly
            with self._opening:
                self._open.pop(request, None)
            self.shutdown_request(request)
            return
        try:
            super().process_request_thread(secured, client_address)
        finally:
            with self._opening:
                self._open.pop(secured, None)

    def _secured(self, request: socket.socket, context: "ClientFacingContext") -> socket.socket:
        """Complete the TLS handshake in time. Raises OSError; the request may still be open."""
        request.settimeout(HANDSHAKE_SECONDS_MAX)
        with self._opening:
            if request not in self._open:
                raise OSError("it had to make room")
            del self._open[request]
            secured = context.wrap_socket(request, True, do_handshake_on_connect=False)
            self._open[secured] = None  # as the newest
        try:
            secured.do_handshake()  # the timeout is for all of it
            if context.pins:
                from broker.wires.tls_contexts import unpinned  # only if asked for

                if why := unpinned(context.pins, secured.getpeercert(binary_form=True)):
                    raise OSError(why)
        except OSError:
            with self._opening:
                self._open.pop(secured, None)
            secured.close()
            raise
        return secured

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors of peers that are late, gone, or do not speak HTTP."""

    def _serve(self) -> None:
        while not self._stopping:
            self.handle_request()
        self.server_close()  # here, because this thread may notice the stop late
