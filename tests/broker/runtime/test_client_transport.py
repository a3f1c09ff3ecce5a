"""The transport of a client on the broker's own loop, at real sockets."""

import asyncio
import socket
import struct
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from broker.runtime.client_transport import ClientTransport
from broker.runtime.event_loop import BrokerLoop

LARGE = bytes(range(256)) * (1 << 15)  # 8 MiB, more than the buffers of a socket hold
WAIT_S = 60.0
RESET = struct.pack("ii", 1, 0)


class Noted(asyncio.BufferedProtocol):
    """A protocol that notes what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.came = b""
        self.buffer = bytearray(64)
        self.changed = asyncio.Event()
        self.error: Exception | None = None
        self.stays_half_open = False
        self.fails = ""

    def _tell(self, what: str) -> None:
        self.told.append(what)
        self.changed.set()
        if what == self.fails:
            raise RuntimeError(what)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._tell("made")

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.came += self.buffer[:nbytes]
        self._tell("came")

    def eof_received(self) -> bool:
        self._tell("end")
        return self.stays_half_open

    def pause_writing(self) -> None:
        self._tell("pause")

    def resume_writing(self) -> None:
        self._tell("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.error = exc
        self._tell("lost")

    async def until(self, what: str) -> None:
        while what not in self.told:
            self.changed.clear()
            await asyncio.wait_for(self.changed.wait(), WAIT_S)


Joined = tuple[ClientTransport, Noted, socket.socket]
Scenario = Callable[[BrokerLoop], Coroutine[Any, Any, None]]


def run(scenario: Scenario) -> None:
    async def with_loop() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, BrokerLoop)
        await scenario(loop)

    with asyncio.Runner(loop_factory=BrokerLoop) as runner:
        runner.run(with_loop())


def joined(loop: BrokerLoop, fails: str = "", reuse: Callable[[bytearray], object] = id) -> Joined:
    """A transport, its protocol, and the client's end."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        peer = socket.create_connection(door.getsockname())
        accepted, address = door.accept()
    accepted.setblocking(False)
    peer.setblocking(False)
    protocol = Noted()
    protocol.fails = fails
    return ClientTransport(loop, protocol, accepted, address, reuse), protocol, peer


async def received(loop: BrokerLoop, peer: socket.socket, size: int) -> bytes:
    got = bytearray()
    while len(got) < size and (part := await loop.sock_recv(peer, 1 << 20)):
        got += part
    return bytes(got)


def test_given_a_client_that_lags_then_output_waits_in_order_and_the_protocol_knows() -> None:
    async def scenario(loop: BrokerLoop) -> None:
        transport, protocol, peer = joined(loop)
        with peer:
            transport.write(b"first")
            assert transport.get_write_buffer_size() == 0
            assert protocol.told == ["made"]
            transport.write(LARGE)
            transport.write(b"last")
            assert protocol.told == ["made", "pause"]
            assert transport.get_write_buffer_size() > 4
            want = b"first" + LARGE + b"last"
            assert await received(loop, peer, len(want)) == want
            await protocol.until("resume")
            assert protocol.told == ["made", "pause", "resume"]
            assert transport.get_write_buffer_size() == 0
            transport.abort()
            await protocol.until("lost")

    run(scenario)


def test_given_pieces_that_wait_then_only_what_can_change_is_copied_and_buffers_come_back() -> None:
    async def scenario(loop: BrokerLoop) -> None:
        back: list[bytearray] = []
        transport, _, peer = joined(loop, reuse=back.append)
        fixed, changing = bytearray(LARGE), bytearray(b"before")
        with peer:
            transport.write(memoryview(fixed).toreadonly())
            transport.write(changing)
            transport.write(memoryview(changing))
            transport.write(memoryview(fixed).toreadonly()[:1])
            changing[:] = b"after."
            with pytest.raises(BufferError):
                fixed.clear()  # the transport has views of it, not copies
            want = LARGE + b"beforebefore" + LARGE[:1]
            assert await received(loop, peer, len(want)) == want
            assert {id(one) for one in back} == {id(fixed)}
            fixed.clear()
            transport.abort()

    run(scenario)


def test_given_buffers_that_wait_when_aborted_then_they_come_back() -> None:
    async def scenario(loop: BrokerLoop) -> None:
        back: list[bytearray] = []
        transport, protocol, peer = joined(loop, reuse=back.append)
        with peer:
            fixed = bytearray(LARGE)
            transport.write(memoryview(fixed).toreadonly())
            transport.abort()
            assert len(back) == 1
            assert back[0] is fixed
            fixed.clear()
            await protocol.until("lost")

    run(scenario)


def test_given_output_that_waits_when_closed_then_it_is_sent_first() -> None:
    async def scenario(loop: BrokerLoop) -> None:
        transport, protocol, peer = joined(loop)
        with peer:
            transport.write(LARGE)
            transport.close()
            transport.close()
            assert transport.is_closing()
            assert await received(loop, peer, len(LARGE)) == LARGE
            await protocol.until("lost")
            assert (protocol.told, protocol.error) == (["made", "pause", "lost"], None)
            transport.write(b"dropped")
            transport.abort()
            assert transport.get_write_buffer_size() == 0

    run(scenario)


def test_given_output_that_waits_when_aborted_then_it_is_dropped() -> None:
    async def scenario(loop: BrokerLoop) -> None:
        transport, protocol, peer = joined(loop)
        with peer:
            transport.write(LARGE)
            transport.close()
            transport.abort()
            assert transport.get_write_buffer_size() == 0
            await protocol.until("lost")
            assert len(await received(loop, peer, len(LARGE))) < len(LARGE)
            assert protocol.told.count("lost") == 1

    run(scenario)


def test_given_input_then_it_is_read_unless_that_is_paused() -> None:
    async def scenario(loop: BrokerLoop) -> None:
        transport, protocol, peer = joined(loop)
        with peer:
            peer.send(b"one")
            await protocol.until("came")
            transport.pause_reading()
            transport.pause_reading()
            peer.send(b"two")
            peer.shutdown(socket.SHUT_WR)
            await asyncio.sleep(0)
            assert protocol.came == b"one"
            transport.resume_reading()
            await protocol.until("lost")
            assert (protocol.came, protocol.error) == (b"onetwo", None)
            assert protocol.told[-2:] == ["end", "lost"]

    run(scenario)


def test_given_an_end_of_input_that_the_protocol_outlives_then_output_goes_on() -> None:
    async def scenario(loop: BrokerLoop) -> None:
        transport, protocol, peer = joined(loop)
        protocol.stays_half_open = True
        with peer:
            peer.shutdown(socket.SHUT_WR)
            await protocol.until("end")
            transport.write(LARGE)
            transport.write_eof()
            assert await received(loop, peer, len(LARGE) + 1) == LARGE
            assert not transport.is_closing()
            transport.abort()
            await protocol.until("lost")

    run(scenario)


def test_given_a_reset_then_the_protocol_learns_the_error() -> None:
    async def scenario(loop: BrokerLoop) -> None:
        transport, protocol, peer = joined(loop)
        transport.write(LARGE)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        peer.close()
        await protocol.until("lost")
        assert isinstance(protocol.error, ConnectionError)
        assert transport.is_closing()
        assert transport.get_write_buffer_size() == 0

    run(scenario)


@pytest.mark.parametrize("what", ["made", "came", "end", "resume"])
def test_given_a_protocol_that_fails_then_it_is_reported_and_only_its_client_closed(
    what: str,
) -> None:
    async def scenario(loop: BrokerLoop) -> None:
        reported: list[dict[str, Any]] = []
        loop.set_exception_handler(lambda _, context: reported.append(context))
        transport, protocol, peer = joined(loop, what)
        with peer:
            if what == "resume":
                transport.write(LARGE)
                await received(loop, peer, len(LARGE))
            elif what == "came":
                peer.send(b"x")
            elif what == "end":
                peer.shutdown(socket.SHUT_WR)
            await protocol.until("lost")
        assert [str(one["exception"]) for one in reported] == [what]

    run(scenario)
