"""What surely keeps a broker from starting is found before its store is opened."""

import socket
from pathlib import Path

import pytest

from tests.support.processes import STAND_IN, NotReadyError, SeriatimServer

pytestmark = pytest.mark.skipif(STAND_IN, reason="of our own process")
PORTS = ("--port", "--websocket_port", "--http_port", "--sequencer_port")


@pytest.mark.parametrize("flag", PORTS)
def test_given_a_port_that_is_taken_then_the_store_is_left_alone(flag: str, tmp_path: Path) -> None:
    store = tmp_path / "store"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        own = flag == "--port"
        given = ["--websocket_no_tls", *([] if own else [flag, f"{port}"])]
        broker = SeriatimServer("none", arguments=given, store=store)
        why = rf"cannot listen on 127.0.0.1:{port}.*{flag}"
        with pytest.raises(NotReadyError, match=why):
            broker.start(port if own else -1)
    assert not store.exists()


def test_given_a_certificate_that_cannot_be_read_then_the_store_is_left_alone(
    tmp_path: Path,
) -> None:
    store, file = tmp_path / "store", tmp_path / "broker.pem"
    file.write_text("no certificate")
    broker = SeriatimServer("none", arguments=["--tlscert", f"{file}"], store=store)
    with pytest.raises(NotReadyError, match="holds no PEM certificate"), broker:
        pass
    assert not store.exists()
