"""Escapes of terminals and logs, wherever a client chooses a text."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.attacks.beside import USERS, beside
from tests.support.raw import RawClient
from tests.support.web import get, http_port

ESCAPES = (
    "\x1b[2J\x1b[31mred",
    "\x1b]0;title\x07",
    "a\x00b",
    "\x9b31m",
    "\u202ereversed",
    "\u2028line",
    'quote"and\\backslash',
    "</script><script>alert(1)</script>",
    "[1] 2026/01/01 00:00:00.000000 [ERR] forged",
    "new\nline",
    "carriage\rreturn",
    "%s %n %d {0}",
    "half a pair \ud800",
)
LINE = re.compile(r"\[\d+\] \d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{6} \[(DBG|INF|WRN|ERR|TRC|FTL)\] ")
UNPRINTED = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def lines_of(text: str) -> Iterator[bytes]:
    """What a client sends with this text in every place that it can choose."""
    raw = text.encode("utf-8", "surrogatepass")
    word = re.sub(rb"[ \t\r\n]", b"_", raw)
    options = {"name": text, "lang": text, "version": text, "user": "mallory", "pass": "mallory"}
    connect = b"CONNECT %b\r\n" % json.dumps(options | {"verbose": False}).encode()
    yield connect + b"SUB mallory.%b q.%b s%b\r\n" % (word, word, word)
    yield connect + b"PUB mallory.%b r.%b 3\r\n\x1b[m\r\n" % (word, word)
    yield connect + b"PUB forbidden.%b 1\r\nx\r\nSUB forbidden.%b q%b 1\r\n" % (word, word, word)
    yield connect + b"PUB $SEQ.%b 1\r\nx\r\nSUB $SEQ.FROM.%b.> 1\r\n" % (word, word)
    yield connect + b"%b\r\n" % raw
    yield connect + b"-ERR '%b'\r\n" % word
    yield b"CONNECT %b\r\n" % json.dumps(options | {"user": text}).encode()
    yield b"CONNECT %b\r\n" % json.dumps({"nkey": text, "sig": text}).encode()
    yield b"CONNECT %b\r\n" % json.dumps({"protocol": text, "frame": text, "name": text}).encode()
    yield b"CONNECT %b\r\n" % json.dumps({"user": "good", "pass": text}).encode()
    yield b"CONNECT %b\r\n" % json.dumps({"auth_token": text}).encode()
    yield b"CONNECT {%b\r\n" % word
    yield connect + b"CONNECT %b\r\n" % json.dumps({"frame": text}).encode()


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("flags", ["", "-DV"], ids=["usual", "traced"])
def test_given_escapes_in_every_text_when_logged_then_each_entry_is_one_line_without_them(
    tmp_path: Path, form: str, flags: str
) -> None:
    given = ["--log_format", form, *([flags] if flags else []), "--closings_logged", "0"]
    given += ["--auth_attempts", "0"]
    with beside(tmp_path, USERS, *given) as broker:
        for text in ESCAPES:
            for line in lines_of(text):
                with RawClient(broker.port) as client:
                    client.send(line)
                    client.half_close()
                    client.until_closed()
        said = list(broker.process.log)
    assert len(said) > 50
    for text in said:
        assert not UNPRINTED.search(text), text
        if form == "json":
            assert isinstance(json.loads(text), dict)
        else:
            assert LINE.match(text), text


def test_given_escapes_in_every_text_when_monitored_then_the_pages_are_still_what_they_are(
    tmp_path: Path,
) -> None:
    with beside(tmp_path, USERS, "--auth_attempts", "0") as broker:
        clients = []
        for text in ESCAPES:
            for line in lines_of(text):
                client = RawClient(broker.port)
                client.send(line)
                clients.append(client)
        broker.until(lambda varz: varz["subscriptions"] == len(ESCAPES) + 1)
        port = http_port(broker.process)
        for path in ("/varz", "/connz?subs=detail&auth=1", "/subsz?subs=1", "/healthz"):
            page = get(port, path)
            assert not UNPRINTED.search(page.body.decode().replace("\n", "")), path
            json.loads(page.body)
        names = {one.get("name") for one in get(port, "/connz").json["connections"]}
        assert names >= {text.replace("\ud800", "\ufffd") for text in ESCAPES}
        text = get(port, "/metrics").body.decode()
        assert len(list(text_string_to_metric_families(text))) > 20
        for client in clients:
            client.close()
