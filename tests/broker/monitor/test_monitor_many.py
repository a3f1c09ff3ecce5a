"""Monitoring of very many subscriptions: in pages, at little cost to the broker."""

import json
from collections.abc import Iterator

import pytest

from broker.monitor.monitor import PIECE, pieces
from tests.broker.clients.test_relief import resident
from tests.support.processes import STAND_IN, SeriatimServer
from tests.support.raw import QUIET, RawClient
from tests.support.web import get, http_port, monitored

pytestmark = pytest.mark.skipif(STAND_IN, reason="of our own process")

MANY = 100_000


@pytest.fixture(scope="module")
def broker() -> Iterator[SeriatimServer]:
    with monitored() as running, RawClient(running.port, QUIET) as client:
        for first in range(0, MANY, 10_000):
            numbers = range(first, first + 10_000)
            client.ask(b"".join(b"SUB a.%d %d\r\n" % (n, n) for n in numbers))
        yield running


def test_given_very_many_then_a_page_lists_some_and_says_so_and_memory_stays(
    broker: SeriatimServer,
) -> None:
    port = http_port(broker)
    get(port, "/connz?subs=detail&subs_limit=1")
    before = resident(broker)
    page = get(port, "/connz?subs=detail").json
    assert resident(broker) < before + (8 << 20)
    (entry,) = page["connections"]
    assert (page["subs_cut"], entry["subscriptions_cut"]) == (True, True)
    assert (page["subs_offset"], page["subs_limit"]) == (0, 16_384)
    assert entry["subscriptions"] == MANY
    assert len(entry["subscriptions_list_detail"]) == 16_384


@pytest.mark.parametrize(("subs", "name"), [("1", ""), ("detail", "_detail")])
def test_given_very_many_then_page_after_page_has_them_all(
    broker: SeriatimServer, subs: str, name: str
) -> None:
    listed: list[object] = []
    cut = True
    while cut:
        query = f"/connz?subs={subs}&subs_limit=65536&subs_offset={len(listed)}"
        page = get(http_port(broker), query).json
        listed += page["connections"][0][f"subscriptions_list{name}"]
        cut = page["subs_cut"]
    subjects = [one["subject"] if isinstance(one, dict) else one for one in listed]
    assert subjects == [f"a.{n}" for n in range(MANY)]


def test_given_very_many_then_a_subject_is_tested_without_looking_at_all_of_them(
    broker: SeriatimServer,
) -> None:
    (found,) = get(http_port(broker), "/subsz?test=a.777").json["subscriptions_list"]
    assert (found["subject"], found["sid"]) == ("a.777", "777")
    page = get(http_port(broker), f"/subsz?subs=1&offset={MANY - 2}").json
    assert [one["sid"] for one in page["subscriptions_list"]] == [str(MANY - 2), str(MANY - 1)]


def test_given_lists_that_are_made_as_they_are_written_then_no_piece_is_long() -> None:
    made: list[int] = []

    def entries() -> Iterator[dict[str, object]]:
        for n in range(100):
            made.append(n)
            yield {"n": n, "below": iter([n] * n), "text": "x" * 10_000}

    page = {"a": 1, "none": iter([]), "entries": entries()}
    written = pieces(page)
    text = next(written)
    assert len(made) < 10
    for piece in written:
        assert len(piece) < 2 * PIECE
        text += piece
    expected = [{"n": n, "below": [n] * n, "text": "x" * 10_000} for n in range(100)]
    assert json.loads(text) == {"a": 1, "none": [], "entries": expected}
    assert json.loads(b"".join(pieces({"only": iter([1])}))) == {"only": [1]}
    assert b"".join(pieces({"a": 1})) == b'{\n  "a": 1\n}\n'
