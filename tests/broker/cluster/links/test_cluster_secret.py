"""The handshake between members: who knows the secret gets in, and nothing else does."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.cluster.links.cluster_secret import (
    GREETING_BYTES,
    PROOF_AT,
    BadSecret,
    HandshakeFailed,
    SecretHandshake,
    read_secret,
)

SECRET = b"0123456789abcdef"
any_cuts = st.lists(st.integers(1, 200), max_size=6)


def sides(secret: bytes = SECRET, cluster: str = "c") -> tuple[SecretHandshake, SecretHandshake]:
    """A dialler, and a listener that has `SECRET` and is of the cluster c."""
    return SecretHandshake(secret, cluster, True), SecretHandshake(SECRET, "c", False)


def pass_on(data: bytes, to: SecretHandshake, cuts: list[int]) -> None:
    """Have a side receive something in pieces."""
    for cut in cuts:
        to.receive(data[:cut])
        data = data[cut:]
    to.receive(data)


@given(any_cuts, st.binary(max_size=50))
def test_given_both_know_the_secret_when_they_meet_then_both_are_done(
    cuts: list[int], after: bytes
) -> None:
    dialler, listener = sides()
    pass_on(listener.take_output(), dialler, cuts)
    pass_on(dialler.take_output(), listener, cuts)
    assert listener.done
    assert not dialler.done
    pass_on(listener.take_output() + after, dialler, cuts)
    assert dialler.done
    assert dialler.rest == after
    listener.receive(after)
    assert listener.rest == after
    assert dialler.take_output() == listener.take_output() == b""


@pytest.mark.parametrize(("secret", "cluster"), [(b"another secret of 16", "c"), (SECRET, "d")])
def test_given_another_secret_or_cluster_when_it_dials_then_both_say_so(
    secret: bytes, cluster: str
) -> None:
    dialler, listener = sides(secret, cluster)
    dialler.receive(listener.take_output())
    with pytest.raises(HandshakeFailed, match=r"another cluster\.secret_file"):
        listener.receive(dialler.take_output())
    assert not listener.done
    refusal = listener.take_output()
    assert len(refusal) == 1, "nothing made with the secret is shown to who has not proven it"
    with pytest.raises(HandshakeFailed, match="it refused this member"):
        dialler.receive(refusal)
    assert not dialler.done


def test_given_a_listener_without_the_secret_when_it_answers_then_the_dialler_finds_out() -> None:
    dialler, _ = sides()
    greeting = SecretHandshake(b"not the secret 16", "c", False).take_output()
    dialler.receive(greeting)
    dialler.take_output()
    with pytest.raises(HandshakeFailed, match="does not know the secret"):
        dialler.receive(b"\x01" + bytes(32))


def test_given_an_earlier_proof_when_it_is_sent_again_then_refused() -> None:
    dialler, listener = sides()
    dialler.receive(listener.take_output())
    proof = dialler.take_output()
    _, other = sides()
    with pytest.raises(HandshakeFailed):
        other.receive(proof)


def test_given_our_own_bytes_when_they_are_sent_back_then_refused() -> None:
    """Who does not know the secret has a listener's challenge answered by another connection."""
    _, listener = sides()
    greeting = listener.take_output()
    dialler, _ = sides()
    dialler.receive(greeting)
    proof = dialler.take_output()
    listener.receive(proof)
    answer = listener.take_output()
    mirrored, _ = sides()
    mirrored.receive(greeting)
    own = mirrored.take_output()
    with pytest.raises(HandshakeFailed, match="does not know the secret"):
        mirrored.receive(b"\x01" + own[PROOF_AT:])  # its own proof
    again, _ = sides()
    again.receive(greeting)
    with pytest.raises(HandshakeFailed, match="does not know the secret"):
        again.receive(answer)  # the listener's, for another dialler


@given(st.integers(0, PROOF_AT + 31), st.integers(1, 255))
def test_given_a_proof_when_one_byte_of_it_is_changed_then_refused(at: int, by: int) -> None:
    dialler, listener = sides()
    dialler.receive(listener.take_output())
    proof = bytearray(dialler.take_output())
    proof[at] ^= by
    with pytest.raises(HandshakeFailed):
        listener.receive(bytes(proof))
    assert not listener.done


@given(st.binary(min_size=1, max_size=200), st.booleans())
def test_given_any_bytes_when_received_then_nobody_gets_in(data: bytes, dials: bool) -> None:
    side = SecretHandshake(SECRET, "c", dials)
    with contextlib.suppress(HandshakeFailed):
        side.receive(data)
    assert not side.done
    assert len(side._inbox) <= 200


@pytest.mark.parametrize(
    ("greeting", "what"),
    [
        (b"INFO {}\r\n", "not a member"),
        (b"SERISECR\x02", "speaks version 2"),
        (b"SERISECR\x01" + bytes(33), "before it was asked"),
    ],
)
def test_given_something_else_that_listens_when_dialled_then_the_error_says_so(
    greeting: bytes, what: str
) -> None:
    dialler, _ = sides()
    with pytest.raises(HandshakeFailed, match=what):
        dialler.receive(greeting)


def test_given_challenges_when_they_are_drawn_then_no_two_are_equal() -> None:
    drawn = {SecretHandshake(SECRET, "c", False).take_output() for _ in range(100)}
    assert len(drawn) == 100
    assert {len(one) for one in drawn} == {GREETING_BYTES}


def test_given_a_file_when_it_is_read_then_only_a_long_secret_is_taken(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_bytes(b"  " + SECRET + b"\r\n")
    assert read_secret(str(file)) == SECRET
    file.write_bytes(b"short\n")
    with pytest.raises(BadSecret, match=r"5 bytes are not a secret; make one .*openssl rand"):
        read_secret(str(file))
    with pytest.raises(BadSecret, match="No such file"):
        read_secret(str(tmp_path / "none"))
