"""Credentials and TLS, against a nats-server that requires them."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from pyspark_seriatim.errors import BrokerError, ConnectionLost, OptionError
from pyspark_seriatim.options import Options
from pyspark_seriatim.spark_connection import SparkConnection, tls_context
from tests.support.processes import ServerProcess
from tests.support.scripted import Scripted
from tests.support.secured import Vouching, make_certificates, nats_server, tls

PATIENT = ", timeout: 60"  # nats-server gives a client two seconds for CONNECT, and for TLS


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def serve(tmp_path: Path) -> Callable[[str], ServerProcess]:
    """A nats-server with this configuration."""
    return partial(nats_server, tmp_path)


def attempt(port: int, servers: str = "localhost:{}", **given: object) -> None:
    """Connect, and have the broker say that it hears us."""
    texts = {name: str(value) for name, value in given.items()}
    options = Options.parse({"servers": servers.format(port), **texts}, "batch")
    opened = SparkConnection.open(options)
    opened.flush()
    opened.close()


def test_given_a_user_and_password_when_connecting_then_only_the_right_ones_are_let_in(
    serve: Callable[[str], ServerProcess],
) -> None:
    with serve('authorization { user: me, password: "s3cret", timeout: 60 }') as server:
        attempt(server.port, user="me", password="s3cret")
        attempt(server.port, "nats://me:s3cret@127.0.0.1:{}")
        attempt(server.port, "nats://me:wrong@127.0.0.1:{}", user="me", password="s3cret")
        for given in ({"user": "me", "password": "n0pe"}, {}, {"token": "n0pe"}):
            with pytest.raises(BrokerError, match="refuses the login") as refused:
                attempt(server.port, **given)
            assert not isinstance(refused.value, ConnectionLost), "asking again would not help"
            assert "n0pe" not in str(refused.value)


def test_given_a_token_when_connecting_then_it_is_let_in(
    serve: Callable[[str], ServerProcess],
) -> None:
    with serve('authorization { token: "t0ken", timeout: 60 }') as server:
        attempt(server.port, token="t0ken")
        attempt(server.port, "nats://t0ken@127.0.0.1:{}")
        with pytest.raises(BrokerError, match="refuses the login"):
            attempt(server.port, "nats://other@127.0.0.1:{}")


def test_given_a_broker_with_tls_when_connecting_then_its_certificate_is_looked_at(
    serve: Callable[[str], ServerProcess], certificates: Path
) -> None:
    trusted = certificates / "server.pem"
    with serve(tls(certificates, PATIENT)) as server:
        attempt(server.port, tlsCaFile=trusted)
        attempt(server.port, "tls://127.0.0.1:{}", tlsCaFile=trusted)
        with pytest.raises(
            BrokerError, match=r"certificate is not trusted.*set tlsCaFile to the CA"
        ):
            attempt(server.port)
        with pytest.raises(BrokerError, match="certificate is not trusted"):
            attempt(server.port, tlsCaFile=certificates / "client.pem")


def test_given_a_broker_that_wants_a_certificate_when_connecting_then_ours_is_shown(
    serve: Callable[[str], ServerProcess], certificates: Path
) -> None:
    trusted, own = certificates / "server.pem", certificates / "client.pem"
    with serve(tls(certificates, f', verify: true, ca_file: "{own}"{PATIENT}')) as server:
        key = certificates / "client.key"
        attempt(server.port, tlsCaFile=trusted, tlsCertFile=own, tlsKeyFile=key)
        with pytest.raises(BrokerError, match=r"certificate|closed|reset|eof|alert"):
            attempt(server.port, tlsCaFile=trusted)


def test_given_a_broker_that_begins_with_tls_when_connecting_then_so_do_we(
    serve: Callable[[str], ServerProcess], certificates: Path
) -> None:
    trusted = certificates / "server.pem"
    with serve(tls(certificates, f", handshake_first: true{PATIENT}")) as server:
        attempt(server.port, tlsCaFile=trusted, tlsHandshakeFirst=True)


def test_given_a_broker_without_tls_when_tls_is_asked_for_then_no_password_is_sent(
    serve: Callable[[str], ServerProcess], certificates: Path
) -> None:
    with serve('authorization { user: me, password: "s3cret", timeout: 60 }') as server:
        for servers, given in (
            ("tls://127.0.0.1:{}", {}),
            ("127.0.0.1:{}", {"tlsCaFile": certificates / "server.pem"}),
        ):
            with pytest.raises(
                BrokerError, match="TLS is required, but the broker does not support it"
            ):
                attempt(server.port, servers, user="me", password="s3cret", **given)


@pytest.mark.parametrize("name", ["tlsCaFile", "tlsCertFile"])
def test_given_a_file_that_cannot_be_used_when_connecting_then_the_option_is_named(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "bad.pem").write_text("no certificate")
    for path in ("bad.pem", "missing.pem"):
        options = Options.parse({"servers": "a", name: str(tmp_path / path)}, "batch")
        with pytest.raises(OptionError, match=f"{name}: .*{path} cannot be used"):
            tls_context(options)


def test_given_credentials_that_cannot_be_used_when_connecting_then_the_option_is_named(
    tmp_path: Path,
) -> None:
    def words(text: str | None) -> None:
        path = tmp_path / "user.creds"
        path.unlink(missing_ok=True)
        if text is not None:
            path.write_text(text)
        with Scripted(lambda peer: peer.greet()) as peer:
            attempt(peer.port, "127.0.0.1:{}", credentialsFile=path)

    with pytest.raises(OptionError, match=r"credentialsFile: .*user.creds cannot be read"):
        words(None)
    with pytest.raises(OptionError, match=r"user.creds is not a credentials file: it has no JWT"):
        words("hello")


def test_given_a_credentials_file_when_connecting_then_only_who_is_vouched_for_is_let_in(
    serve: Callable[[str], ServerProcess], tmp_path: Path
) -> None:
    nkeys = pytest.importorskip("nkeys", reason="credentialsFile needs it, and nothing else does")
    vouching, path = Vouching(nkeys), tmp_path / "user.creds"
    with serve(vouching.config) as server:
        attempt(server.port, credentialsFile=vouching.credentials(path, vouching.account))
        with pytest.raises(BrokerError, match="refuses the login"):
            attempt(server.port, credentialsFile=vouching.credentials(path, vouching.operator))
    with (
        serve("max_payload: 1000") as plain,
        pytest.raises(BrokerError, match="the broker does not ask for credentials"),
    ):
        attempt(plain.port, credentialsFile=path)
