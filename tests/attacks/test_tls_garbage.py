"""TLS listeners: what is not TLS, half handshakes, and handshakes by the hundred."""

import os
import socket
import ssl
from pathlib import Path

from tests.attacks.beside import beside
from tests.attacks.crowd import crowd, until
from tests.support.authority import Authority
from tests.support.depth import depth

COUNT = depth(250, 3000)
HANDSHAKES = depth(100, 1000)
HELLO = bytes.fromhex("1603010200010001fc0303") + bytes(32)
GARBAGE = (
    b"CONNECT {}\r\nPING\r\n",
    b"\x16\x03\x01\xff\xff" + b"\x01" * 500,
    HELLO,
    HELLO[:6],
    b"\x15\x03\x03\x00\x02\x02\x28",
    b"\x80\x2e\x01\x03\x01" + b"\x00" * 41,  # the hello of SSL 2
    bytes(5000),
    os.urandom(5000),
    b"",
)


def config(folder: Path, first: bool, timeout: str = "1s") -> str:
    certificate = Authority(folder).issue("broker")
    key = certificate.with_suffix(".key")
    return (
        f'[tls]\ncert_file = "{certificate}"\nkey_file = "{key}"\ntimeout = "{timeout}"\n'
        f"handshake_first = {str(first).lower()}\n"
    )


def test_given_garbage_where_tls_is_spoken_when_sent_then_each_is_closed(tmp_path: Path) -> None:
    """The pair comes through TLS, too. Whoever sends nothing is closed when its time is over."""
    with beside(tmp_path, config(tmp_path, first=False)) as broker:
        with crowd(broker.port, COUNT) as clients:
            for at, one in enumerate(clients):
                one.send(GARBAGE[at % len(GARBAGE)])
            until(clients, lambda one: one.closed)
        broker.until(lambda varz: varz["connections"] == 2)
        assert len(broker.process.log) < 60


def test_given_handshakes_in_a_row_when_none_goes_on_then_nobody_waits(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with beside(tmp_path, config(tmp_path, first=False, timeout="60s")) as broker:
        for _ in range(HANDSHAKES):
            with socket.create_connection(("127.0.0.1", broker.port)) as plain:
                with plain.makefile("rb", buffering=0) as lines:  # which takes not a byte more
                    assert lines.readline().startswith(b"INFO ")
                with context.wrap_socket(plain) as made:
                    made.send(b"\x00")
        broker.until(lambda varz: varz["connections"] == 2)
