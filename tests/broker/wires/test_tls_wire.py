"""TLS in memory: what goes in comes out, whatever the pieces and the room are."""

import random
import ssl
from pathlib import Path
from typing import Any

import pytest

from broker.settings.tls_settings import BrokerTlsSettings
from broker.wires.tls_contexts import client_facing_context
from broker.wires.tls_wire import RECORD, TlsWire
from broker.wires.wire import WireFault
from tests.support.authority import Authority
from tests.support.wires import TlsClient, WireEnds

SCRATCH = memoryview(bytearray(1 << 18))
SEED = 7


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    made = Authority(tmp_path_factory.mktemp("authority"))
    made.issue("server")
    made.issue("alice", "/O=Acme/CN=alice", "email:alice@example.com")
    return made


def wire(authority: Authority, **given: Any) -> TlsWire:
    certificate = authority.folder / "server.pem"
    tls = BrokerTlsSettings(
        cert_file=str(certificate), key_file=str(certificate.with_suffix(".key")), **given
    )
    return TlsWire(client_facing_context(tls), SCRATCH, 2.0, True)


def client(ends: WireEnds, authority: Authority, newest: str = "1.3", own: str = "") -> TlsClient:
    context = authority.context(own)
    if newest == "1.2":
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    made = TlsClient(ends, context)
    made.open()
    return made


@pytest.mark.parametrize("newest", ["1.2", "1.3"])
def test_given_data_in_any_pieces_then_all_of_it_arrives(authority: Authority, newest: str) -> None:
    chosen = random.Random(SEED)
    with WireEnds(wire(authority)) as ends:
        peer = client(ends, authority, newest)
        for _ in range(60):
            data = chosen.randbytes(chosen.choice((1, 100, RECORD - 1, RECORD, RECORD + 1, 50_000)))
            sealed, got, room = peer.wrapped(data), b"", chosen.choice((1, 7, 5000, 16384, 1 << 18))
            while sealed:
                size = chosen.choice((1, 5, 1000, 16384, len(sealed)))
                ends.far.sendall(sealed[:size])
                sealed = sealed[size:]
                got += ends.receive_all(room)
            assert got == data
            assert not ends.wire.more
            ends.send(data)
            assert peer.read() == data


def test_given_less_room_than_came_then_more_says_so_until_all_is_taken(
    authority: Authority,
) -> None:
    with WireEnds(wire(authority)) as ends:
        peer = client(ends, authority)
        assert ends.receive() is None, "nothing came behind the handshake"
        peer.send(b"x" * 30_000)
        taken = 0
        while taken < 30_000:
            got = ends.receive(1000)
            assert got is not None
            taken += len(got)
        assert not ends.wire.more
        assert ends.receive() is None


def test_given_data_right_after_the_handshake_then_it_waits_for_the_first_receive(
    authority: Authority,
) -> None:
    with WireEnds(wire(authority)) as ends:
        peer = client(ends, authority)
        peer.send(b"CONNECT {}\r\n")
        assert ends.wire.more
        ends.wire.feed(memoryview(ends.near.recv(1000)))  # as the transport read it
        assert ends.receive() == b"CONNECT {}\r\n"


def test_given_the_peer_ends_then_what_came_before_is_received_first(authority: Authority) -> None:
    with WireEnds(wire(authority)) as ends:
        peer = client(ends, authority)
        ends.receive()
        peer.send(b"last words")
        with pytest.raises(ssl.SSLError):
            peer.tls.unwrap()  # it would wait for ours
        peer.flush()
        assert ends.receive() == b"last words"
        assert ends.wire.more
        assert ends.receive() == b""
        assert ends.receive() == b""


def test_given_a_socket_that_ends_without_goodbye_then_that_is_the_end(
    authority: Authority,
) -> None:
    with WireEnds(wire(authority)) as ends:
        client(ends, authority)
        ends.receive()
        ends.far.close()
        assert ends.receive() == b""


def test_given_a_forged_record_then_the_connection_is_broken(authority: Authority) -> None:
    with WireEnds(wire(authority)) as ends:
        peer = client(ends, authority)
        ends.receive()
        sealed = bytearray(peer.wrapped(b"PUB a 1\r\nx\r\n"))
        sealed[-1] ^= 1
        ends.far.sendall(sealed)
        with pytest.raises(WireFault, match="TLS error: decryption failed or bad record mac"):
            ends.receive()
        assert ends.wire.to_send(), "the peer is told"
        with pytest.raises(WireFault):
            ends.wire.wrap(memoryview(b"more"))


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b'CONNECT {"verbose":false}\r\n', "what it sent is not TLS"),
        (b"PING\r\nPING\r\n", "what it sent is not TLS"),
        (b"GET / HTTP/1.1\r\n\r\n", "what it sent is HTTP, not TLS"),
        (b"\0" * 100, "what it sent is not TLS"),
        (b"\x16\x03\x01\xff\xff" + b"x" * 100, "packet length too long"),
    ],
)
def test_given_something_else_than_tls_then_the_handshake_fails(
    authority: Authority, sent: bytes, said: str
) -> None:
    with WireEnds(wire(authority)) as ends:
        ends.far.sendall(sent)
        with pytest.raises(WireFault, match=f"TLS handshake error: {said}"):
            ends.open_step()


def test_given_a_client_certificate_then_its_names_are_known(authority: Authority) -> None:
    asks = {"verify_and_map": True, "ca_file": str(authority.certificate)}
    with WireEnds(wire(authority, **asks)) as ends:
        client(ends, authority, own="alice")
        names = [str(name) for name in ends.wire.certificate_names]
        assert names == ["alice@example.com", "CN=alice,O=Acme", "CN=alice,O=Acme"]
        assert ends.wire.tls[0] == "1.3"
        assert ends.wire.tls[1].startswith("TLS_")


def test_given_a_certificate_of_strangers_then_the_reason_is_reported(
    authority: Authority, tmp_path: Path
) -> None:
    strangers = Authority(tmp_path, "strangers")
    strangers.issue("mallory", "/CN=mallory", "")
    asks = {"verify": True, "ca_file": str(authority.certificate)}
    context = authority.context()
    certificate = tmp_path / "mallory.pem"
    context.load_cert_chain(certificate, certificate.with_suffix(".key"))
    refused = pytest.raises(WireFault, match="its certificate is refused: unable to get local")
    with WireEnds(wire(authority, **asks)) as ends, refused:
        TlsClient(ends, context).open()
    without = pytest.raises(WireFault, match="it sent no certificate")
    with WireEnds(wire(authority, **asks)) as ends, without:
        client(ends, authority)


def test_given_a_suite_of_tls_1_2_then_it_has_nats_servers_name(authority: Authority) -> None:
    with WireEnds(wire(authority)) as ends:
        client(ends, authority, "1.2")
        assert ends.wire.tls[0] == "1.2"
        assert ends.wire.tls[1].startswith("TLS_ECDHE_ECDSA_WITH_")
