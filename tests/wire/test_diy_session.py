"""diy-message-broker's dialogue: what its telnet users type works here, line by line.

Two judges: the example flow of its README, typed into our broker; and the 60 recorded cases of
diy_session.json (in this folder), each sent to our broker and to nats-server. Where the recording
and NATS agree, our answer is the recorded one; where they differ, `DIFFERS` says why, and NATS'
answer counts.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from testkit.model_frame import split_frame
from tests.support.processes import STAND_IN, SeriatimServer
from tests.support.raw import Operation, RawClient, WireError, operations
from tests.wire.conftest import Choose
from tests.wire.normal import normal

RECORDING = json.loads((Path(__file__).parent / "diy_session.json").read_text())
CASES: list[dict[str, Any]] = RECORDING["cases"]

NO_ORDER = "NATS takes commands without waiting for CONNECT, and PING at any time"
NO_PING = "NATS does not answer CONNECT with a PING; its first PING comes by the clock"
SILENT = "NATS closes without a word on wrong arguments"
RICHER = "NATS knows this command or form: headers, queue groups, reply-to, any sid, UNSUB max"
KEPT = "the rest of the packet is not thrown away after an error that keeps the connection"
QUIET_SID = "NATS ignores the same sid again, and an unknown one"
DOT = "a trailing dot is an empty token, and invalid"
BYTES = "payloads are any bytes, CR and LF too"
CUTS = "where TCP cuts the bytes means nothing"
WORDS = "the same refusal in NATS' words"
JUDGED = "a wildcard in PUB is an error only to pedantic clients, and published all the same"
SPACES = "blanks after PING are ignored, tabs part words"

DIFFERS: dict[str, str] = {
    "PING before CONNECT": NO_ORDER,
    "PONG before CONNECT": NO_ORDER,
    "SUB before CONNECT": NO_ORDER,
    "CONNECT no arg": SILENT,
    "CONNECT {}": NO_PING,
    "connect lower": NO_PING,
    "CONNECT then PING (no PONG)": NO_ORDER,
    "CONNECT bad json": SILENT,
    "CONNECT trailing junk json": SILENT,
    "CONNECT split": NO_PING,
    "PING with space": SPACES,
    "blank line": WORDS,
    "garbage": WORDS,
    "INFO from client": RICHER,
    "HPUB": SILENT,
    "SUB dup sid": QUIET_SID,
    "SUB sid alpha": RICHER,
    "SUB queue group": RICHER,
    "SUB tab": SPACES,
    "SUB sid neg": RICHER,
    "SUB sid 2^31": RICHER,
    "SUB empty token": KEPT,
    "SUB > middle": KEPT,
    "SUB trailing dot": DOT,
    "SUB lead dot": KEPT,
    "UNSUB unknown": QUIET_SID,
    "UNSUB max": RICHER,
    "PUB wildcard": JUDGED,
    "PUB reply-to": RICHER,
    "PUB short payload": WORDS,
    "PUB long payload": WORDS,
    "PUB neg": SILENT,
    "PUB payload with CR": BYTES,
    "PUB payload with LF": BYTES,
    "PUB payload end LF only": WORDS,
    "PUB size junk": SILENT,
    "split before final LF of args": CUTS,
    "split between payload CR and LF": CUTS,
    "split after PUB header CR": CUTS,
}

README_FLOW: list[tuple[bytes, list[bytes]]] = [
    (b"CONNECT {}", [b"+OK"]),
    (b"PING", [b"PONG"]),
    (b"SUB foo.*.test 10", [b"+OK"]),
    (b"PUB foo.abc.test 12\r\nHello World!", [b"+OK", b"MSG foo.abc.test 10 12", b"Hello World!"]),
    (b"UNSUB 10", [b"+OK"]),
]


def lines(client: RawClient, count: int) -> list[bytes]:
    return [client.line().removesuffix(b"\r\n") for _ in range(count)]


def test_given_the_readme_flow_when_typed_then_each_line_is_answered_as_written(
    tested: Choose,
) -> None:
    with RawClient(tested("default").port) as telnet:
        for typed, answers in README_FLOW:
            telnet.send(typed + b"\r\n")
            assert lines(telnet, len(answers)) == answers


@pytest.mark.skipif(STAND_IN, reason="nats-server writes no frames")
def test_given_the_readme_flow_when_framed_then_only_the_payload_differs() -> None:
    with SeriatimServer("netstring") as framed, RawClient(framed.port) as telnet:
        for typed, answers in README_FLOW:
            telnet.send(typed + b"\r\n")
            heard = lines(telnet, len(answers))
            if len(answers) == 1:
                assert heard == answers
                continue
            number, payload = split_frame(heard[2])
            assert (number, payload) == (1, answers[2])
            assert heard[:2] == [b"+OK", b"MSG foo.abc.test 10 %d" % len(heard[2])]


def say(port: int, case: dict[str, Any]) -> tuple[list[Operation], bool]:
    """What a server says to the recorded sends, and whether it closed."""
    sends = [bytes.fromhex(text) for text in case["sends_hex"]]
    with RawClient(port) as client:
        if case["handshake_done"]:
            client.send(b"CONNECT {}\r\n")
            assert client.line() == b"+OK\r\n"
            client.send(b"PONG\r\n")
        for data in sends:
            client.send(data)
        pongs = 1 + b"".join(sends).upper().count(b"PING")
        said, closed = client.answer(b"PING\r\n", pongs)
        client.leave()
        return operations(said), closed


def recorded(case: dict[str, Any]) -> tuple[list[Operation], bool] | None:
    """The recorded answer, and the PONG of the PING that ends our script; None: not NATS' words."""
    try:
        said = operations(bytes.fromhex(case["reply_hex"]))
    except WireError:
        return None
    return (said if case["closed"] else [*said, Operation("PONG")]), case["closed"]


def plain(answer: tuple[list[Operation], bool]) -> tuple[list[Any], bool]:
    return normal(answer[0]), answer[1]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_given_a_recorded_case_then_we_answer_as_nats_does_and_as_recorded_unless_listed(
    case: dict[str, Any], oracle: Choose, tested: Choose
) -> None:
    ours = plain(say(tested("default").port, case))
    theirs = plain(say(oracle("default").port, case))
    assert ours == theirs
    then = recorded(case)
    as_recorded = then is not None and ours == plain(then)
    assert as_recorded == (case["case"] not in DIFFERS), then


def test_given_the_list_of_differences_then_it_names_recorded_cases_only() -> None:
    assert set(DIFFERS) <= {case["case"] for case in CASES}
