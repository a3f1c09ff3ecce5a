"""docs/protocol.md says what the broker does: its examples are run, its tables compared."""

import json
import re
from collections.abc import Iterator

import pytest

from broker.replay.bulk import KEYS, SIZES
from tests.support.places import ROOT
from tests.support.processes import SeriatimServer, ServerProcess
from tests.support.raw import HEADERS, QUIET, RawClient

PAGE = (ROOT / "docs" / "protocol.md").read_text()


@pytest.fixture(scope="module")
def broker() -> Iterator[ServerProcess]:
    with SeriatimServer("netstring") as process:
        with RawClient(process.port, QUIET) as client:
            for subject, payload in (("orders.eu", "1st"), ("orders.eu", "second")):
                client.send(f"PUB {subject} {len(payload)}\r\n{payload}\r\n".encode())
            assert client.ask(b"PUB orders.us 5\r\nthird\r\n") == []
        yield process


def block(containing: str) -> list[str]:
    """The lines of the page's one code block that holds these words."""
    blocks = re.findall(r"^```\w*\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    (found,) = [str(text).splitlines() for text in blocks if containing in text]
    return found


@pytest.mark.parametrize("example", ["SUB $SEQ.FROM.2.orders.*", "SUB $SEQ.FROM.0.>"])
def test_given_an_example_when_typed_then_the_broker_answers_as_printed(
    broker: ServerProcess, example: str
) -> None:
    asked, *answered = block(example)
    with RawClient(broker.port, QUIET, f"{asked}\r\n".encode()) as client:
        for line in answered:
            assert client.line().decode() == f"{line}\r\n"


def test_given_the_table_of_what_there_is_when_compared_then_it_has_every_field(
    broker: ServerProcess,
) -> None:
    with RawClient(broker.port, HEADERS, b"SUB answers 1\r\n") as client:
        (answer,) = client.ask(b"PUB $SEQ.INFO answers 0\r\n\r\n")
    info = json.loads(answer.payload)
    rows = re.search(r"\| field \| \|\n\|---\|---\|\n(.*?)\n\n", PAGE, re.DOTALL)
    assert rows is not None
    named = set(re.findall(r"`(\w+)`", "".join(row.split("|")[1] for row in rows[1].splitlines())))
    assert named == set(info)
    limits = rows[1].splitlines()[-1].split("|")[2]
    assert set(re.findall(r"`(\w+)`", limits)) == set(info["limits"])


def test_given_the_table_of_a_read_when_compared_then_it_has_every_key() -> None:
    rows = re.search(r"\| key \| default \| \|\n\|---\|---\|---\|\n(.*?)\n\n", PAGE, re.DOTALL)
    assert rows is not None
    assert re.findall(r"^\| `(\w+)`", rows[1], re.MULTILINE) == list(KEYS)
    assert [size for size, *_ in SIZES.values()] == [8 << 20, 1 << 17], "as the table says"


def test_given_an_error_of_the_page_when_a_disk_is_full_then_it_has_those_words() -> None:
    from parser.errors import JournalFull

    (line,) = block("the journal is full")
    assert JournalFull(b"orders.eu", b"No space left on device").reply.decode() == f"{line}\r\n"
