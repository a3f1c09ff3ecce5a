"""Credentials stay out of the log, however a client writes them and TCP cuts them."""

import random

import pytest

from broker.wires.redaction import RedactedReads, hide, hide_object
from tests.support.processes import STAND_IN, SeriatimServer
from tests.support.raw import RawClient

SECRET = b"hunter2"
CONNECTS = [
    b'CONNECT {"verbose":false,"user":"u","pass":"hunter2"}\r\n',
    b'connect\t{"PASS":"hunter2"}\n',
    b'CONNECT {"p\\u0061ss":"hunter2"}\r\n',
    b'CONNECT {"auth_token":"hunter2","jwt":"hunter2","sig":"hunter2","nkey":"hunter2"}\r\n',
    b'CONNECT {"proxy_sig":"hunter2","password":"hunter2","x":{"pass":["hunter2"]}}\r\n',
    b'CONNECT{"pass":"hunter2","pass":"hunter2"}\r\n',
    b'CONNECTx {"pass":"hunter2"}\r\n',
    b'CONNECT {"pass":"hunter2"\r\n',
    b"CONNECT {pass:hunter2}\r\n",
    b'CONNECT ["hunter2"]\r\n',
    b"CONNECT hunter2\r\n",
    b' CONNECT {"pass":"hunter2"}\r\n',
    b'xCONNECT{"pass":"hunter2"}\r\n',
]


TORN = [  # what follows may be the rest of it
    b'CONNECT {"pass":"hunter2"\r\n',
    b"CONNECT {pass:hunter2}\r\n",
]
PRETTY = b'CONNECT {\r\n  "user": "u",\r\n  "pass":\n"hunter2"\r\n}\r\n'


@pytest.mark.parametrize("text", CONNECTS, ids=repr)
def test_given_credentials_when_they_come_whole_then_they_are_hidden(text: bytes) -> None:
    shown = RedactedReads().shown(b"PING\r\n" + text + b"SUB a 1\r\n")
    assert SECRET not in shown
    assert shown.startswith(b"PING\r\n")
    assert shown.endswith(b"\n[REDACTED]\r\n" if text in TORN else b"\nSUB a 1\r\n")
    assert b"[REDACTED]" in shown
    assert SECRET not in hide(text)


@pytest.mark.parametrize("text", [one for one in CONNECTS if one[:1] in b"Cc"], ids=repr)
def test_given_credentials_when_they_come_in_pieces_then_no_piece_shows_any_of_them(
    text: bytes,
) -> None:
    chance = random.Random(text)
    script = b"PUB a 3\r\nxyz\r\n" + text + b"PING\r\n"
    for _ in range(50):
        cuts = sorted(chance.sample(range(1, len(script)), chance.randrange(1, 9)))
        reads, said = RedactedReads(), b""
        for start, end in zip([0, *cuts], [*cuts, len(script)], strict=True):
            said += reads.shown(script[start:end])
        for size in range(3, len(SECRET) + 1):
            assert SECRET[:size] not in said
        assert said.startswith(b"PUB a 3\r\nxyz\r\n")
        assert (b"PING" in said) is (text not in TORN)


@pytest.mark.parametrize("size", [1, 7, 8, 9, 20, len(PRETTY)])
def test_given_a_connect_over_several_lines_then_no_line_of_it_is_shown(size: int) -> None:
    reads = RedactedReads()
    pieces = [PRETTY[at : at + size] for at in range(0, len(PRETTY), size)]
    shown = b"".join(reads.shown(piece) for piece in pieces)
    assert b"user" not in shown
    assert b"ter2" not in shown
    assert shown.lower().startswith(b"connect")


def test_given_a_whole_connect_in_pieces_then_what_follows_is_shown() -> None:
    reads = RedactedReads()
    shown = reads.shown(b'CONNECT {"pass":') + reads.shown(b'"hunter2"}\r\nPING\r\n')
    assert shown == b"CONNECT [REDACTED][REDACTED]\r\nPING\r\n"


@pytest.mark.parametrize("key", ["verbose", "protocol", "name", "frame", "user"])
def test_given_a_value_of_the_wrong_type_then_it_is_hidden(key: str) -> None:
    value = "5" if key in ("name", "frame", "user") else '"hunter2"'
    shown = RedactedReads().shown(b'CONNECT {"%b":%b}\r\n' % (key.encode(), value.encode()))
    assert shown == b'CONNECT {"%b":"[REDACTED]"}\r\n' % key.encode()


@pytest.mark.parametrize(
    "line",
    [
        b'CONNECCT {"pass":"hunter2"}',
        b'CONN { "pass":"hunter2"}',
        b"AUTH {pass: hunter2}",
        b"{'pass':'hunter2'}",
        b'SUB {"hunter2"',
    ],
    ids=repr,
)
def test_given_a_misspelt_connect_then_a_closing_shows_none_of_its_object(line: bytes) -> None:
    assert hide_object(line) == line[: line.index(b"{")] + b"[REDACTED]"
    assert hide_object(b"PUB {a}.b 5x") == b"PUB {a}.b 5x"


def test_given_harmless_options_then_they_are_shown() -> None:
    text = b'CONNECT {"verbose":false,"name":"n","user":"u","pass":"p","x":1}\r\n'
    assert RedactedReads().shown(text) == (
        b'CONNECT {"verbose":false,"name":"n","user":"u","pass":"[REDACTED]","x":"[REDACTED]"}\r\n'
    )


@pytest.mark.parametrize(
    "text", [b"PUB connect 3\r\nabc\r\n", b"PUB a 9\r\nreconnect\r\n", b"\xff"]
)
def test_given_input_that_is_no_connect_then_all_of_it_is_shown(text: bytes) -> None:
    assert RedactedReads().shown(text) == text


@pytest.mark.skipif(STAND_IN, reason="of our own log")
def test_given_a_trace_then_the_log_has_no_credentials() -> None:
    with SeriatimServer(arguments=["-DV"]) as broker:
        for text in CONNECTS:
            for cuts in ([], [5, 30]):
                with RawClient(broker.port) as client:
                    client.answer(text + b"PING\r\n", 1, cuts)
                    client.leave()
        with RawClient(broker.port) as client:
            client.send(b'CONNECT {"pass":1234567}\r\n')
            client.until_closed()
        with RawClient(broker.port) as client:
            client.send(PRETTY)
            client.until_closed()
        with RawClient(broker.port) as client:
            client.send(b'CONNECT {"pass":1234567}\r\n')
            client.until_closed()
            cid = client.info["client_id"]
        assert broker.await_line(f"cid:{cid} - Client connection closed: ")
        log = "\n".join(broker.log)
    assert "hunter2" not in log
    assert "1234567" not in log
    assert log.count("[REDACTED]") > len(CONNECTS)


MISSPELT = [
    b'CONEKT {"user":"u","pass":"hunter2"}\r\n',
    b'CONNET{"pass":"hunter2"}\r\n',
    b'CONNEKT\t{pass:"hunter2"}\r\n',
    b'\xd0\xa1ONNECT {"pass":"hunter2"}\r\n',
    b'{"user":"u","pass":"hunter2"}\r\n',
    b'CONEKT {"user":"u",\r\n"pass":"hunter2"}\r\n',
]


@pytest.mark.parametrize("text", MISSPELT, ids=repr)
def test_given_a_misspelt_connect_when_cut_anywhere_then_its_values_are_hidden(text: bytes) -> None:
    for cut in range(len(text)):
        reads = RedactedReads()
        shown = reads.shown(text[:cut]) + reads.shown(text[cut:])
        for size in range(3, len(SECRET) + 1):
            assert SECRET[:size] not in shown, cut
        assert b"[REDACTED]" in shown


def test_given_payloads_of_a_client_that_is_known_then_they_are_shown() -> None:
    script = b'CONNECT {"verbose":false}\r\nPUB a 9\r\n{"a":"xyz"}\r\nPUB {"a" 1\r\nx\r\n'
    assert RedactedReads().shown(script) == script


def test_given_a_misspelt_connect_when_traced_then_the_log_has_no_password() -> None:
    with SeriatimServer(arguments=["-DV"]) as broker:
        with RawClient(broker.port, MISSPELT[0]) as client:
            client.until_closed()
        assert broker.await_line("CONEKT")
        assert broker.await_line("Client connection closed")
        assert not any("hunter2" in line for line in broker.log)
