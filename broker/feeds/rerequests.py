"""The UDP port where receivers of one feed request datagrams that they missed.

`sequencer.feed.rerequest` finds the answers; the socket and the clock are here. Messages in memory
or in the system's cache are sent at once, for a few requests in each turn of the event loop. For
those on the disk a thread reads, for `FETCHES` requests at a time. A request above that gets no
answer: the receiver asks again, as if the network had lost it.

The time that requests take is counted, even for those that get no answer. When their share of the
time is used up, the socket is not read until it has recovered: a flood waits in the kernel, or is
dropped there.
"""

import asyncio
import logging
import socket
import time
from typing import Any, Final

from broker import addresses
from sequencer.feed.rerequest import HEAD_SIZE, Rerequests, Search
from sequencer.sequencer import Sequencer

log = logging.getLogger("seriatim")

AT_ONCE: Final = 32  # requests in one turn of the event loop
TURN_SECONDS: Final = 20e-6  # what a turn of the event loop takes, roughly
FETCHES: Final = 4  # requests that wait for the disk
RECEIVE_BUFFER: Final = 1 << 20  # a few thousand requests: many receivers miss the same datagram


class RerequestServer:
    """The server of one feed's re-requests; made and used in one event loop, by its thread."""

    def __init__(
        self, rerequests: Rerequests, sequencer: Sequencer, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.rerequests = rerequests
        self.address: tuple[str, int] = ("", 0)
        self._sequencer = sequencer
        self._loop = loop
        self._socket: socket.socket | None = None
        self._fetching: set[asyncio.Future[None]] = set()
        self._reported: set[int | None] = set()
        self._rest: asyncio.TimerHandle | None = None  # while it runs, the socket is not read

    async def start(self, host: str, port: int) -> None:
        """Answer at an address from now on; port -1 means any free one.

        Raises OSError, with the address, if that is not possible.
        """
        try:
            (made,) = addresses.open_sockets(host, max(port, 0), socket.SOCK_DGRAM, most=1)
        except OSError as error:
            where, reason = addresses.wanted(host, port), addresses.reason_of(error)
            raise OSError(
                f"cannot answer re-requests on {where}: {reason}; choose others with the feed's"
                " rerequest_port and rerequest_host"
            ) from error
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
        self._socket = made
        self.address = addresses.bound_to(host, made)
        self._loop.add_reader(made.fileno(), self._readable, made)

    async def stop(self) -> None:
        """Stop answering; after this the journal is not read any more."""
        if self._rest is not None:
            self._rest.cancel()
        if self._socket is not None:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None
        if self._fetching:
            await asyncio.wait(self._fetching)
        await asyncio.sleep(0)  # the finished reads have been handled

    def _readable(self, udp: socket.socket) -> None:
        """Answer some of the requests that have arrived."""
        asked, begin = self.rerequests, time.thread_time() - TURN_SECONDS
        for _ in range(AT_ONCE):
            try:
                datagram, peer = udp.recvfrom(HEAD_SIZE + 1)
            except OSError:  # there are no more, or the system reports an unreachable peer
                return
            now = self._loop.time()
            network = addresses.network_of(peer[0])
            search = asked.begin_search(datagram, network, now, self._sequencer.safe)
            if search is not None:
                self._go_on(search, peer)
            end = time.thread_time()
            asked.spent(network, end - begin, now, search is not None)
            begin = end
            if (seconds := asked.tired(now)) > 0:
                self._loop.remove_reader(udp.fileno())
                self._rest = self._loop.call_later(seconds, self._wake, udp)
                return

    def _wake(self, udp: socket.socket) -> None:
        """Read the socket again."""
        self._rest = None
        self._loop.add_reader(udp.fileno(), self._readable, udp)

    def _go_on(self, search: Search, peer: Any) -> None:
        """Answer a request, or let a thread read for it first."""
        if self._socket is None:
            search.release()
            return
        try:
            answer = search.run()
        except OSError as error:
            self._fail(error)
            return
        if answer is not None:
            self.rerequests.sent(search, answer, self._loop.time())
            try:
                self._socket.sendto(answer, peer)
            except OSError as error:
                self._fail(error)
        elif len(self._fetching) < FETCHES:
            self._fetch(search, peer)
        else:
            search.release()
            self.rerequests.limited += 1

    def _fetch(self, search: Search, peer: Any) -> None:
        def done(future: "asyncio.Future[None]") -> None:
            self._fetching.discard(future)
            error = future.exception()
            if error is None:
                self._go_on(search, peer)
                return
            search.release()
            if not isinstance(error, OSError):
                raise error
            self._fail(error)

        future = self._loop.run_in_executor(None, search.fetch)
        self._fetching.add(future)
        future.add_done_callback(done)

    def _fail(self, error: OSError) -> None:
        """Count a failure to read the disk or to send an answer, and log each error once."""
        self.rerequests.failed += 1
        if error.errno not in self._reported:
            self._reported.add(error.errno)
            where = addresses.shown(*self.address)
            log.warning("Re-request on %s not answered: %s", where, error)
