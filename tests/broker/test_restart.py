"""A broker that takes the place of another: clients wait for it, and it waits for the store."""

import os
import signal
import socket
from pathlib import Path

import pytest

from sequencer.journal.store import Store
from tests.support.processes import READY_S, STAND_IN, NotReadyError, SeriatimServer
from tests.support.raw import RawClient
from tests.support.readable import is_readable

pytestmark = pytest.mark.skipif(STAND_IN, reason="of our own process")
WAITS = "is stopping: waiting for it"


class Starting(SeriatimServer):
    """A broker whose start is watched before it is ready."""

    def begin(self, port: int) -> None:
        """Start the process, and return when it waits for the store."""
        begun = self._spawn([*self.command, "-a", self.host, "-p", str(port)], self.env)
        self._process = begun
        assert begun.stderr is not None
        line = ""
        while WAITS not in line:
            line = str(begun.stderr.readline())
            assert len(line) > len(str(b"")), "it ended"

    def rest(self) -> str:
        assert self._process is not None
        assert self._process.stderr is not None
        return str(self._process.stderr.read())


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_given_a_predecessor_that_stops_then_clients_wait_until_the_journal_is_open(
    loop: str, tmp_path: Path
) -> None:
    store = Store.open(str(tmp_path / "store"), 1)
    store.say_leaving()
    broker = Starting("none", arguments=["--loop", loop], store=tmp_path / "store")
    port = broker._keep_port()
    try:
        broker.begin(port)
        with socket.create_connection(("127.0.0.1", port)) as client:
            assert not is_readable(client, 0)
            store.close()
            assert is_readable(client, READY_S)
            assert client.recv(4) == b"INFO"
        broker.signal(signal.SIGTERM)
        assert broker.wait() == 0
    finally:
        broker.__exit__(None, None, None)


def test_given_a_predecessor_that_stops_when_interrupted_then_the_start_ends(
    tmp_path: Path,
) -> None:
    store = Store.open(str(tmp_path / "store"), 1)
    store.say_leaving()
    broker = Starting("none", store=tmp_path / "store")
    try:
        broker.begin(broker._keep_port())
        broker.signal(signal.SIGTERM)
        assert "SIGTERM while the journal was opened" in broker.rest()
        assert broker.wait() == 0
    finally:
        store.close()
        broker.__exit__(None, None, None)


def test_given_a_broker_that_does_not_stop_then_another_is_refused_at_once(
    tmp_path: Path,
) -> None:
    store = Store.open(str(tmp_path / "store"), 1)
    with pytest.raises(NotReadyError, match=f"process {os.getpid()} writes this store") as caught:
        SeriatimServer("none", store=tmp_path / "store").start()
    assert WAITS not in str(caught.value)
    store.close()


def test_given_a_broker_that_still_delivers_then_the_next_one_waits_for_it(tmp_path: Path) -> None:
    size, count = 1 << 20, 32  # more than the buffers of a socket hold
    store = tmp_path / "store"
    before = SeriatimServer("none", {"drain_timeout": "60s"}, store=store)
    after = Starting("none", store=store)
    with before, RawClient(before.port) as reader, RawClient(before.port) as writer:
        reader.ask(b"SUB a 1\r\n")
        writer.ask(b"PUB a %d\r\n%b\r\n" % (size, bytes(size)) * count)
        port = before.port
        before.signal(signal.SIGTERM)
        assert before.await_line("Stopping")
        try:
            after.begin(port)
            with socket.create_connection(("127.0.0.1", port)) as client:
                assert len(reader.until_closed()) > size * count
                assert before.wait() == 0
                assert is_readable(client, READY_S)
                assert client.recv(4) == b"INFO"
            assert after.stop() == 0
        finally:
            after.__exit__(None, None, None)
