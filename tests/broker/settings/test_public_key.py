"""Public keys as NATS writes them, and what is signed with the private ones."""

import base64
import os

import nkeys
import pytest

from broker.settings.public_key import is_public_key, is_signed, public_key_of

SEED = nkeys.encode_seed(bytes(range(32)), nkeys.PREFIX_BYTE_USER)
PAIR = nkeys.from_seed(SEED)
TEXT = PAIR.public_key.decode()


def sign(text: bytes, pair: nkeys.KeyPair = PAIR) -> bytes:
    return bytes(pair.sign(text))


def test_given_keys_of_the_nkeys_library_then_their_bytes_are_read() -> None:
    for _ in range(20):
        pair = nkeys.from_seed(nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER))
        raw = public_key_of(pair.public_key.decode())
        assert is_signed(raw, b"nonce", base64.b64encode(sign(b"nonce", pair)).decode())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (SEED.decode(), "secret"),
        ("", "not the public key"),
        ("U", "not the public key"),
        (TEXT.lower(), "not the public key"),
        (TEXT + "A", "not the public key"),
        (TEXT[:-1] + "1", "not the public key"),
        (TEXT[:-1] + "\n", "not the public key"),
        (TEXT[:10] + ("A" if TEXT[10] != "A" else "B") + TEXT[11:], "checksum"),
        ("A" + TEXT[1:], "not the public key"),
    ],
)
def test_given_input_that_is_no_public_key_of_a_user_then_the_error_says_what_is_wrong(
    text: str, why: str
) -> None:
    with pytest.raises(ValueError, match=why) as raised:
        public_key_of(text)
    assert not is_public_key(text) or why == "checksum"
    assert len(text) < 2 or text not in str(raised.value), "it may be a secret"


def test_given_every_letter_changed_then_the_checksum_finds_it() -> None:
    for at in range(1, len(TEXT)):
        wrong = TEXT[:at] + ("A" if TEXT[at] != "A" else "B") + TEXT[at + 1 :]
        with pytest.raises(ValueError, match=r"checksum|not the public key"):
            public_key_of(wrong)


@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
@pytest.mark.parametrize("padded", [True, False])
def test_given_a_signature_in_any_alphabet_then_it_is_verified(
    encode: object, padded: bool
) -> None:
    assert callable(encode)
    raw = public_key_of(TEXT)
    seen = ""
    for number in range(200):  # so that both letters that differ occur
        text = b"nonce%d" % number
        signature = encode(sign(text)).decode()
        seen += signature
        assert is_signed(raw, text, signature if padded else signature.rstrip("="))
    assert {"+", "/"} <= set(seen) or {"-", "_"} <= set(seen)


@pytest.mark.parametrize(
    "alter",
    [
        lambda signature: "",
        lambda signature: "=",
        lambda signature: signature[:-4],
        lambda signature: signature + "AAAA",
        lambda signature: signature[:5] + "\n" + signature[5:],
        lambda signature: signature[:5] + "\0" + signature[5:],
        lambda signature: "\N{GREEK SMALL LETTER ALPHA}" * 86,
        lambda signature: "\ud800" * 86,
        lambda signature: "A" * 86,
        lambda signature: "A" * 1_000_000,
        lambda signature: signature.swapcase(),
    ],
)
def test_given_input_that_is_no_signature_then_it_is_wrong_and_raises_nothing(
    alter: object,
) -> None:
    assert callable(alter)
    signature = base64.b64encode(sign(b"nonce")).decode()
    assert not is_signed(public_key_of(TEXT), b"nonce", alter(signature))


def test_given_a_signature_of_something_else_or_by_another_then_it_is_wrong() -> None:
    other = nkeys.from_seed(nkeys.encode_seed(bytes(32), nkeys.PREFIX_BYTE_USER))
    raw = public_key_of(TEXT)
    assert not is_signed(raw, b"new", base64.b64encode(sign(b"old")).decode())
    assert not is_signed(raw, b"new", base64.b64encode(sign(b"new", other)).decode())
