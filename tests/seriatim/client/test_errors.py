"""Errors of the client: their texts, and pickling."""

import errno
import pickle
import ssl

import pytest

from seriatim.client.errors import BrokerError, ConnectionLost, NoAnswer, describe


def test_given_an_error_with_an_address_then_it_is_in_front_and_stays_there() -> None:
    error = ConnectionLost("gone", 503).at("127.0.0.1:4222")
    for one in (error, pickle.loads(pickle.dumps(error)), error.at("other:1")):
        assert type(one) is ConnectionLost
        assert str(one) == "127.0.0.1:4222: gone"
        assert (one.reason, one.status) == ("gone", 503)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ConnectionRefusedError(), "connection refused: no broker listens there"),
        (TimeoutError(), "no answer in time"),
        (OSError(errno.EHOSTUNREACH, "x"), "no route to host"),
        (OSError(-2, "Name or service not known"), "name or service not known"),
        (ssl.SSLEOFError(ssl.SSL_ERROR_EOF, "EOF in the handshake"), "eof in the handshake"),
        (NoAnswer("no answer in time"), "no answer in time"),
        (BrokerError("the broker said so", address="a:1"), "the broker said so"),
        (ValueError("other"), "other"),
        (ValueError(), "ValueError"),
    ],
)
def test_given_an_error_then_it_is_described_in_words(error: Exception, text: str) -> None:
    assert describe(error) == text
