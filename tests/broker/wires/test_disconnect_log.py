"""The log says why the broker has closed a connection, without flooding."""

import asyncio
import logging
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from broker.wires import disconnect_log as closings
from broker.wires.disconnect_log import ADDRESSES_MAX, DisconnectLog, violation
from testkit.stage import Stage
from tests.support.processes import STAND_IN, SeriatimServer
from tests.support.raw import QUIET, RawClient

CLOSED = "Client connection closed: "
OWN = pytest.mark.skipif(STAND_IN, reason="of our own log")


@OWN
@pytest.mark.parametrize(
    ("script", "why"),
    [
        (
            b"PUB foo 5x\r\n",
            'Protocol Violation: the size is not a number of 1 to 9 digits: "PUB foo 5x"',
        ),
        (
            b"CONNECT {bad}\r\n",
            "Protocol Violation: not valid JSON: Expecting property name enclosed in",
        ),
        (b"foo\x1b[31m\r\n", 'Protocol Violation: byte 102 in a verb: "foo\\x1b[31m"'),
        (b"SUB a\r\n", 'Protocol Violation: 1 words after the verb: "SUB a"'),
        (b"-ERR 'x'\r\n", "Protocol Violation: the client reported an error: \"-ERR 'x'\""),
        (b"PUB a 1\r\nxx\r\n", 'a payload does not end with CR LF: "PUB a 1"'),
        (b"PING\r\nSUB %b 1\r\n" % (b"a" * 5000), '5002 bytes of arguments: "SUB aaa'),
        (b"PUB a 2000000\r\n", '2000000 bytes announced: "PUB a 2000000"'),
        (b"HPUB a 1 1\r\n", 'HPUB without headers in CONNECT: "HPUB a 1 1"'),
        (b'CONNECT {"protocol":2}\r\n', "Protocol Violation: protocol 2: "),
        (b'CONNECT {"pass":"hunter2"\r\n', '"CONNECT [REDACTED]"'),
        (b'CONNECCT {"pass":"hunter2"}\r\n', '"CONNECCT [REDACTED]"'),
    ],
    ids=repr,
)
def test_given_a_protocol_fault_then_the_usual_log_says_who_why_and_what(
    usual: SeriatimServer, script: bytes, why: str
) -> None:
    with RawClient(usual.port, QUIET) as client:
        client.send(script)
        client.until_closed()
        who = f"cid:{client.info['client_id']} - {CLOSED}"
        assert usual.await_line(who)
        (line,) = (line for line in usual.log if who in line)
    assert "[INF] 127.0.0.1:" in line
    assert why in line
    assert line.isprintable()
    assert "hunter2" not in line


FAULTY_CONNECTS = [
    b"CONNECT hunter2\r\n",
    b"connect\thunter2\n",
    b'CONNECT ["hunter2"]\r\n',
    b'CONNECT {"pass":"hunter2"\r\n',
    b'CONNECT {\r\n"pass":\n"hunter2"\r\n}\r\n',
    b'CONNECT {"pass":"hunter2","protocol":2}\r\n',
    b'CONNECT {"pass":"hunter2","verbose":1}\r\n',
    b"CONNECT hunter2" + b" " * 200 + b"\r\n",
    b"PUB a 1\r\nxCONNECT hunter2\r\n",
]


@OWN
@pytest.mark.parametrize("text", FAULTY_CONNECTS, ids=repr)
@pytest.mark.parametrize("before", [b"", b"PING\r\n"], ids=repr)
def test_given_a_faulty_connect_cut_anywhere_then_the_reason_shows_none_of_it(
    before: bytes, text: bytes
) -> None:
    whole = before + text
    cuts = range(len(whole))
    for first in cuts:
        for second in [cut for cut in cuts if cut >= first and cut < first + 16]:
            peer = Stage(max_control_line=100).join()
            peer.send(*filter(None, (whole[:first], whole[first:second], whole[second:])))
            assert peer.finished
            for size in range(4, len("hunter2") + 1):
                assert "hunter2"[:size] not in peer.why, (first, second)
                assert "hunter2"[-size:] not in peer.why, (first, second)


@pytest.fixture(scope="module")
def usual() -> Iterator[SeriatimServer]:
    with SeriatimServer(arguments=["--closings_logged", "0"]) as broker:
        yield broker


@OWN
def test_given_a_client_that_goes_by_itself_then_only_the_debug_log_says_so() -> None:
    with SeriatimServer(arguments=["-D"]) as broker:
        with RawClient(broker.port, QUIET) as client:
            client.ask(b"")
            client.leave()
        assert broker.await_line(f"{CLOSED}Client Closed")
        (line,) = (line for line in broker.log if CLOSED in line)
    assert "[DBG]" in line


@OWN
def test_given_a_debug_log_when_the_broker_closes_then_one_line_says_so() -> None:
    with SeriatimServer(arguments=["-D", "--closings_logged", "1"]) as broker:
        for _ in range(2):
            with RawClient(broker.port, b"foo\r\n") as client:
                client.until_closed()
        broker.stop()
        levels = [line.split("[")[2][:3] for line in broker.log if CLOSED in line]
    assert levels == ["INF", "DBG"]  # the second is over what the usual log takes


@OWN
def test_given_a_stale_client_then_the_log_says_so() -> None:
    limits: dict[str, Any] = {"ping_interval": "100ms", "ping_max": 1}
    with SeriatimServer(limits=limits) as broker, RawClient(broker.port) as client:
        client.until_closed()
        assert broker.await_line(f"{CLOSED}Stale Connection: 1 PINGs unanswered")


@OWN
def test_given_a_client_of_cquencers_port_that_sends_no_netstring_then_the_log_says_so() -> None:
    arguments = ["--sequencer_port", "-1", "--sequencer_framing", "netstring"]
    with SeriatimServer(arguments=arguments) as broker:
        (line,) = (line for line in broker.log if "Listening for cquencer's clients" in line)
        port = int(line.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=30) as caller:
            caller.sendall(b"1:a,nonsense")
            assert broker.await_line("cquencer's client closed: -ERR 'Not a Netstring: at byte 4")


@OWN
def test_given_a_client_that_tries_for_ever_then_its_lines_are_bounded_and_counted() -> None:
    with SeriatimServer(arguments=["--closings_logged", "3"]) as broker:
        for _ in range(20):
            with RawClient(broker.port, b"foo\r\n") as client:
                client.until_closed()
        with RawClient(broker.port) as client:
            client.ask(b"")  # all before it have ended
        broker.stop()
        assert len([line for line in broker.log if CLOSED in line]) == 3
        assert broker.said(
            "127.0.0.1 - 17 more lines about closed or refused clients within a minute"
        )


def test_given_many_addresses_then_few_are_remembered_and_a_minute_forgets_them(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def tell() -> None:
        told = DisconnectLog(asyncio.get_running_loop(), lambda: 2)
        for at in range(ADDRESSES_MAX + 10):
            told.tell(logging.INFO, f"10.0.{at >> 8}.{at & 255}", "one")
        assert len(told._reported) == len(told._timers) == ADDRESSES_MAX + 1
        assert caplog.messages == ["one"] * (ADDRESSES_MAX + 2)
        caplog.clear()
        while told._reported:
            await asyncio.sleep(0.01)  # its timers: no event to await
        assert told._timers == {}
        (line,) = caplog.messages
        assert line.startswith("other addresses - 8 more lines about closed or refused")
        told.tell(logging.INFO, "2001:db8::1", "again")
        told.tell(logging.INFO, "2001:db8::2", "again")
        told.tell(logging.INFO, "2001:db8::3", "again")
        assert caplog.messages[1:] == ["again", "again"]
        told.stop()
        assert "2001:db8::1 - 1 more" in caplog.messages[-1]

    caplog.set_level(logging.INFO, "seriatim")
    monkeypatch.setattr(closings, "SPAN", 0.05)
    asyncio.run(tell())


@pytest.mark.parametrize(
    ("buffer", "at", "seen"),
    [
        (b"PING\r\nfoo\r\nPING\r\n", 6, '"foo"'),
        (b"PING\r\nSUB a\r\n", 10, '"SUB a"'),
        (b"rest", 0, '"rest"'),
        (b"\x00\x07\xff\xe2\x80\xae\r\n", 0, '"\\x00\\a\\xff\\u202e"'),
        (b"x" * 200, 0, '"' + "x" * 64 + '"...'),
    ],
)
def test_given_a_place_in_what_was_read_then_its_line_is_shown_escaped_and_short(
    buffer: bytes, at: int, seen: str
) -> None:
    assert violation("why", buffer, at, len(buffer)) == f"Protocol Violation: why: {seen}"


def test_given_bytes_after_what_was_read_then_they_are_not_shown() -> None:
    assert violation("why", b"foo others'", 0, 3) == 'Protocol Violation: why: "foo"'
