"""The credentials in CONNECT. Brokers that require them: test_aio_wire.py, test_blocking.py."""

from pathlib import Path
from typing import Any

import pytest

from seriatim.client.credentials import NOBODY, Credentials, connect_fields
from seriatim.client.errors import BrokerError, InvalidArgument
from seriatim.client.server_address import read_address
from tests.support.secured import Vouching

HERE = read_address("a")


@pytest.mark.parametrize(
    ("address", "given", "fields"),
    [
        ("a", NOBODY, {}),
        ("nats://me:s3cret@a", NOBODY, {"user": "me", "pass": "s3cret"}),
        ("nats://t0ken@a", NOBODY, {"auth_token": "t0ken"}),
        ("nats://t0ken@a", Credentials(token="other"), {"auth_token": "other"}),
        ("nats://t0ken@a", Credentials("me", "p"), {"user": "me", "pass": "p"}),
        ("nats://me:s3cret@a", Credentials("you", "p"), {"user": "you", "pass": "p"}),
    ],
)
def test_given_who_we_are_then_what_is_given_wins_over_the_address(
    address: str, given: Credentials, fields: dict[str, Any]
) -> None:
    assert connect_fields(given, read_address(address), {}) == fields


def test_given_secrets_then_no_repr_shows_them() -> None:
    assert "s3cret" not in repr(Credentials("me", "s3cret", "s3cret"))
    assert "s3cret" not in repr(read_address("nats://me:s3cret@a"))


def test_given_files_that_cannot_be_used_then_they_are_named(tmp_path: Path) -> None:
    path = tmp_path / "user.creds"
    with pytest.raises(InvalidArgument, match=r"user\.creds cannot be read: No such file"):
        connect_fields(Credentials(file=str(path)), HERE, {"nonce": "n"})
    path.write_text("hello")
    with pytest.raises(
        InvalidArgument, match=r"is not a credentials file: it has no JWT, or no seed"
    ):
        connect_fields(Credentials(file=str(path)), HERE, {"nonce": "n"})
    with pytest.raises(InvalidArgument, match=r"is not an nkey file: it has no seed"):
        connect_fields(Credentials(nkey_file=str(path)), HERE, {"nonce": "n"})


def test_given_a_seed_then_the_nonce_is_signed_with_it(tmp_path: Path) -> None:
    nkeys = pytest.importorskip("nkeys", reason="credentials files need it, and nothing else does")
    vouching = Vouching(nkeys)
    both = vouching.credentials(tmp_path / "user.creds", vouching.account)
    seed = tmp_path / "user.nk"
    seed.write_bytes(vouching.user.seed + b"\n")
    fields = connect_fields(Credentials(file=str(both)), HERE, {"nonce": "n"})
    assert sorted(fields) == ["jwt", "sig"]
    signed = connect_fields(Credentials(nkey_file=str(seed)), HERE, {"nonce": "n"})
    assert signed == {"sig": fields["sig"], "nkey": vouching.user.public_key.decode()}
    with pytest.raises(BrokerError, match=r"^a:4222: the broker does not ask for credentials"):
        connect_fields(Credentials(file=str(both)), HERE, {})
