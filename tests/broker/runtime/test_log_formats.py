"""Lines of the log: as nats-server writes them and as JSON, whatever clients have chosen."""

import json
import logging
import os
import re
import sys

import pytest

from broker.runtime.log_formats import ClientLabel, JsonFormat, TextFormat, printable
from tests.support.processes import STAND_IN, SeriatimServer
from tests.support.raw import RawClient

LINE = re.compile(r"\[\d+\] \d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{6} \[([A-Z]{3})\] (.*)")
HOSTILE = "a\x1b[2Jb\nc\r\x00\u202ed\x9be\ud800"


def record_of(text: str, *values: object, level: int = logging.INFO) -> logging.LogRecord:
    return logging.LogRecord("seriatim", level, "file", 1, text, values, None)


def raised() -> logging.LogRecord:
    """An error that nobody has foreseen, with a text that a client chose."""
    record = record_of("oh")
    try:
        raise ValueError(f"seen {HOSTILE}\n[1] 2026/01/01 00:00:00.000000 [INF] forged")
    except ValueError:
        record.exc_info = sys.exc_info()
    return record


@pytest.mark.parametrize(
    ("level", "short"),
    [
        (logging.DEBUG, "DBG"),
        (logging.INFO, "INF"),
        (logging.WARNING, "WRN"),
        (logging.ERROR, "ERR"),
        (logging.CRITICAL, "FTL"),
    ],
)
def test_given_a_record_then_its_line_looks_like_nats_servers(level: int, short: str) -> None:
    record = logging.LogRecord("x", level, "file", 1, "%s is ready", ("Server",), None)
    record.created = 1_700_000_000.25
    match = LINE.fullmatch(TextFormat().format(record))
    assert match is not None
    assert match.groups() == (short, "Server is ready")
    assert TextFormat().format(record).startswith(f"[{os.getpid()}] 2023/11/1")
    assert ".250000 " in TextFormat().format(record)


def test_given_an_unforeseen_error_then_the_log_has_its_trace() -> None:
    lines = TextFormat().format(raised()).split("\n")
    assert LINE.fullmatch(lines[0])
    assert any("ValueError: seen a\\x1b[2Jb" in line for line in lines)
    assert len(lines) > 3, "it can be read"
    assert all(line.startswith("    ") and line.isprintable() for line in lines[1:])


def test_given_what_a_client_chose_then_a_text_line_shows_escapes() -> None:
    line = TextFormat().format(record_of("subject %s", HOSTILE))
    shown = "a\\x1b[2Jb\\nc\\r\\x00\\u202ed\\x9be\\ud800"
    assert line.endswith(f"[INF] subject {shown}")
    assert line.isprintable()
    assert line.encode()


@pytest.mark.parametrize("text", ["größer 漢字 \\ ' \"", ""])
def test_given_printable_text_then_it_stays(text: str) -> None:
    assert printable(text) == text


def test_given_a_record_then_its_json_has_the_time_in_utc_the_level_and_the_message() -> None:
    record = record_of("Server is %s", HOSTILE, level=logging.CRITICAL)
    record.created = 1_700_000_000.25
    line = JsonFormat().format(record)
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line) == {
        "time": "2023-11-14T22:13:20.250000Z",
        "level": "fatal",
        "message": f"Server is {HOSTILE}",
    }


def test_given_a_line_about_a_client_then_its_json_has_the_client_in_fields() -> None:
    label = ClientLabel("[::1]:4711", 7)
    record = record_of("%s - Client connection closed: %s", label, "Stale Connection")
    assert record.getMessage() == "[::1]:4711 - cid:7 - Client connection closed: Stale Connection"
    fields = json.loads(JsonFormat().format(record))
    assert (fields["client"], fields["cid"]) == ("[::1]:4711", 7)
    assert fields["message"] == "Client connection closed: Stale Connection"


def test_given_an_unforeseen_error_then_its_json_is_one_line_with_the_trace() -> None:
    line = JsonFormat().format(raised())
    assert "\n" not in line
    assert "ValueError: seen" in json.loads(line)["trace"]


def test_given_what_asyncio_explains_in_lines_then_they_stay_lines() -> None:
    record = logging.LogRecord("asyncio", logging.ERROR, "f", 1, "Exception\nhandle: x", (), None)
    assert TextFormat().format(record).endswith("[ERR] Exception\n    handle: x")


@pytest.mark.skipif(STAND_IN, reason="of our own process")
def test_given_a_broker_with_json_then_each_line_is_an_object_whatever_a_client_sends() -> None:
    arguments = ["--log_format", "json", "--debug", "--trace"]
    with SeriatimServer("none", arguments=arguments) as broker:
        with RawClient(broker.port) as client:
            client.send(
                b'SUB a\x1b[2J 1\r\nCONNECT {"name":"x\\n\\u001b[2J"}\r\nPUB a 2\r\n\x9b\x07\r\n'
            )
            client.send(b"\x1b[2Jgarbage\xff\r\n")
            assert b"Unknown Protocol Operation" in client.until_closed()
        assert broker.await_line("Protocol Violation")
        broker.stop()
        lines = [json.loads(line) for line in broker.log]
    assert all(line["time"].endswith("Z") for line in lines)
    assert lines[0]["message"].startswith("Starting seriatim ")
    about = [line for line in lines if line.get("cid") == 1]
    assert {line["level"] for line in about} >= {"debug", "info"}
    assert all(line["client"].startswith("127.0.0.1:") for line in about)
    assert any("Protocol Violation" in line["message"] for line in about)


@pytest.mark.skipif(STAND_IN, reason="of our own process")
def test_given_a_broker_then_no_line_of_its_text_has_what_a_terminal_obeys() -> None:
    with SeriatimServer("none", arguments=["-DV"]) as broker:
        with RawClient(broker.port) as client:
            client.send(
                b"SUB a\x1b[2J 1\r\nPUB a\x1b]0;x\x07 2\r\n\x9b\x07\r\n\x1b[2Jgarbage\xc2\x9b\r\n"
            )
            client.until_closed()
        assert broker.await_line("Protocol Violation")
        broker.stop()
        assert [line for line in broker.log if not line.isprintable()] == []
