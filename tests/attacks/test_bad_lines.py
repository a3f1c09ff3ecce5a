"""Floods of lines that the protocol does not know, or does not allow."""

from pathlib import Path
from typing import Any

from tests.attacks.beside import beside
from tests.attacks.crowd import crowd, is_answered, send_all, until
from tests.attacks.footprint import MIB
from tests.support.depth import depth
from tests.support.raw import QUIET, RawClient

COUNT = depth(600, 10_000)
LINES = depth(20_000, 500_000)
LONG_LINES = depth(2000, 20_000)
PATIENT = 4  # connections that send so many lines each
FATAL = (
    b"\x00\xff\xfe\x1b[2J\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"PUB\r\n",
    b"PUB a 99999999999999999999\r\n",
    b"PUB a -1\r\n",
    b"PUB a 5\r\nlonger than that\r\n",
    b"HPUB a 9 5\r\n",
    b"SUB a b c d\r\n",
    b"SUB " + b"a" * 8192,
    b"CONNECT " + b"{" * 4000 + b"\r\n",
    b"CONNECT " + b'{"a":' * 700 + b"\r\n",
    b'CONNECT {"user":1}\r\n',
    b"-ERR '" + b"x" * 1000 + b"'\r\n",
    b"\r\n" * 1000,
    b"MSG a 1 1\r\nx\r\n",
    b"PUB a 999999999\r\n",
)
REFUSED = b"SUB a..b 1\r\n", b"PUB $SEQ.NO 0\r\n\r\n", b"UNSUB 7\r\n", b"SUB $SEQ.FROM.x.> 1\r\n"
LOG_LINES = 60  # whatever the clients do: ten a minute of an address, and those of the start


def test_given_lines_that_break_the_protocol_when_sent_then_each_connection_is_closed(
    tmp_path: Path,
) -> None:
    with beside(tmp_path) as broker:
        for begin in range(0, COUNT, 500):
            with crowd(broker.port, min(COUNT - begin, 500)) as clients:
                for at, one in enumerate(clients):
                    one.send(FATAL[at % len(FATAL)])
                until(clients, lambda one: one.closed)
        assert len(broker.process.log) < LOG_LINES, broker.process.log[-5:]


def test_given_refused_lines_in_a_flood_when_the_errors_are_read_then_all_are_answered(
    tmp_path: Path,
) -> None:
    with beside(tmp_path) as broker, crowd(broker.port, PATIENT) as clients:
        send_all(clients, QUIET + b"".join(REFUSED) * (LINES // len(REFUSED)) + b"PING\r\n")
        until(clients, is_answered)
        for one in clients:
            assert one.heard.count(b"-ERR") == LINES // len(REFUSED) * 3
        assert len(broker.process.log) < LOG_LINES


def test_given_refused_lines_in_a_flood_when_nobody_reads_the_errors_then_they_are_cut_off(
    tmp_path: Path,
) -> None:
    """A long subject comes back in its error: as many bytes as were sent."""
    limits: dict[str, Any] = {"max_pending": MIB, "write_deadline": "1s"}
    long = b"PUB $SEQ.%b 0\r\n\r\n" % (b"s" * 4000)
    with beside(tmp_path, limits=limits) as broker:
        with crowd(broker.port, PATIENT, receive_buffer=4096) as clients:
            send_all(clients, QUIET + long * LONG_LINES, reading=False)
            broker.until(lambda varz: varz["slow_consumers"] == PATIENT)  # they read only then
            until(clients, lambda one: one.closed)
        with RawClient(broker.port, QUIET) as another:
            assert another.ask(b"") == []
