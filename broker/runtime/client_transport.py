"""The transport of one client on the broker's own loop: what asyncio's does, for less.

asyncio makes a task and a future for each accepted socket, registers it to be read, and is told in
the next turn not to read it: the gatherer does. That was a third of what a connection cost. This
one is made at once. The loop watches its socket only while output waits, and while a handshake is
read. With another loop (uvloop), clients have the transports of that loop.

    write --> the socket; what it does not take waits here: `pause_writing` ... `resume_writing`
              what cannot change (bytes, a read-only view) waits as it is, all else as a copy
    close     when what waits is written --.
    abort     at once                      +--> `connection_lost`, after the turn
    an error of the socket                 |
    the peer has closed, while reading   --'
"""

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any

from broker.runtime.event_loop import BrokerLoop

Data = bytes | bytearray | memoryview
AT_ONCE = 16  # pieces in one call of the socket


class ClientTransport(asyncio.Transport):
    """The transport of one accepted client, made connected."""

    __slots__ = (
        "_ends",
        "_is_closing",
        "_is_lost",
        "_is_paused",
        "_loop",
        "_protocol",
        "_reads",
        "_reuse",
        "_socket",
        "_waiting",
        "_waiting_bytes",
        "fd",
        "peer",
    )

    def __init__(
        self,
        loop: BrokerLoop,
        protocol: asyncio.BufferedProtocol,
        accepted: socket.socket,
        peer: tuple[Any, ...],
        reuse: Callable[[bytearray], object] = lambda buffer: None,
    ) -> None:
        """Give `reuse` the buffer of each read-only view that has waited; others may have views."""
        self._loop = loop
        self._protocol = protocol
        self._socket = accepted
        self.fd = accepted.fileno()
        self.peer = peer
        self._reuse = reuse
        # Output that the socket has not taken. Most clients never have any.
        self._waiting: deque[bytes | memoryview] | None = None
        self._waiting_bytes = 0
        self._is_paused = False  # the protocol is not to read
        self._reads = False  # the loop watches for input
        self._ends = False  # the output ends after what waits
        self._is_closing = False
        self._is_lost = False  # `connection_lost` was called, or will be soon
        try:
            protocol.connection_made(self)
            self._watch()
        except Exception as error:
            self._failed(error, "connection_made")

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"socket": self._socket, "peername": self.peer}.get(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Do nothing: `pause_writing` is called once anything waits, until nothing does."""
        assert high == 0, "no other limit is needed"

    def get_write_buffer_size(self) -> int:
        return self._waiting_bytes

    def is_closing(self) -> bool:
        return self._is_closing

    # Input

    def pause_reading(self) -> None:
        self._is_paused = True
        self._unwatch()

    def resume_reading(self) -> None:
        self._is_paused = False
        self._watch()

    def _watch(self) -> None:
        if not (self._reads or self._is_paused or self._is_closing):
            self._reads = True
            self._loop.add_reader(self._socket.fileno(), self._read)

    def _unwatch(self) -> None:
        if self._reads:
            self._reads = False
            self._loop.remove_reader(self._socket.fileno())

    def _read(self) -> None:
        try:
            count = self._socket.recv_into(self._protocol.get_buffer(-1))
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._end(error)
            return
        try:
            if count:
                self._protocol.buffer_updated(count)
            elif self._protocol.eof_received():
                self._unwatch()
            else:
                self.close()
        except Exception as error:
            self._failed(error, "buffer_updated")

    # Output

    def write(self, data: Data) -> None:
        if self._is_lost or not data:
            return
        assert not self._ends, "the output has ended"
        if self._waiting:
            self._keep(data)
            return
        sent = self._sent([data])
        if 0 <= sent < len(data):
            self._keep(memoryview(data)[sent:])
            self._loop.add_writer(self._socket.fileno(), self._write_on)
            self._protocol.pause_writing()

    def _keep(self, data: Data) -> None:
        if isinstance(data, bytearray) or (isinstance(data, memoryview) and not data.readonly):
            data = bytes(data)
        if self._waiting is None:
            self._waiting = deque()
        self._waiting.append(data)
        self._waiting_bytes += len(data)

    def write_eof(self) -> None:
        """Shut down the output when all is written."""
        if not self._is_closing and not self._ends:
            self._ends = True
            if not self._waiting:
                self._socket.shutdown(socket.SHUT_WR)

    def _sent(self, pieces: list[Data]) -> int:
        """Return how many bytes the socket has taken; -1 if it has failed."""
        try:
            return self._socket.sendmsg(pieces)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:
            self._end(error)
            return -1

    def _write_on(self) -> None:
        """The socket takes output again."""
        assert self._waiting, "the socket is watched for it"
        sent = self._sent(list(islice(self._waiting, AT_ONCE)))
        if sent <= 0:
            return
        self._remove(self._waiting, sent)
        if self._waiting:
            return
        self._loop.remove_writer(self._socket.fileno())
        if self._is_closing:
            self._is_lost = True
            self._lose(None)
            return
        try:
            self._protocol.resume_writing()
            if self._ends and not self._waiting:
                self._socket.shutdown(socket.SHUT_WR)
        except OSError as error:
            self._end(error)
        except Exception as error:
            self._failed(error, "resume_writing")

    def _remove(self, waiting: deque[bytes | memoryview], count: int) -> None:
        """Remove the first `count` bytes of what waits."""
        self._waiting_bytes -= count
        while count:
            piece = waiting.popleft()
            if len(piece) > count:
                waiting.appendleft(memoryview(piece)[count:])
            count -= min(count, len(piece))
            if isinstance(piece, memoryview):
                buffer = piece.obj
                piece.release()
                if isinstance(buffer, bytearray):
                    self._reuse(buffer)

    # The end

    def close(self) -> None:
        """Close when what waits is written."""
        if self._is_closing:
            return
        self._is_closing = True
        self._unwatch()
        if not self._waiting:
            self._is_lost = True
            self._loop.after_turn(self._lose, None)

    def abort(self) -> None:
        """Close at once."""
        self._end(None)

    def _end(self, error: Exception | None) -> None:
        if self._is_lost:
            return
        self._is_lost = self._is_closing = True
        self._unwatch()
        if self._waiting:
            self._remove(self._waiting, self._waiting_bytes)
            self._loop.remove_writer(self._socket.fileno())
        self._loop.after_turn(self._lose, error)

    def _failed(self, error: Exception, what: str) -> None:
        """Report an error that the protocol has raised, and close."""
        words = f"Fatal error: a client's {what} failed"
        self._loop.call_exception_handler(
            {"message": words, "exception": error, "protocol": self._protocol}
        )
        self._end(error)

    def _lose(self, error: Exception | None) -> None:
        try:
            self._protocol.connection_lost(error)
        finally:
            self._socket.close()
