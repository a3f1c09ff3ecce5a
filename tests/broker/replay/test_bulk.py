"""`$SEQ.READ`: what may be asked; chunks leave nothing out without reporting it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.replay import bulk
from broker.replay.bulk import Bulk, ReadRequest, read_request
from broker.replay.requests import BadRequest
from sequencer.journal.chunk import HEADERS, NUMBER, PAYLOAD, REPLY, SUBJECT, TIME
from sequencer.netstring import FrameDecoder
from sequencer.sequencer import NUMBER_MAX
from seriatim.client.chunk_columns import Columns
from tests.support.asked import Kept, NotedPlane, OnePiece, Turns, asker, serve

EIGHT, SMALL = 8 << 20, 1 << 17


@pytest.mark.parametrize(
    ("payload", "wish"),
    [
        (b'{"from": 1}', ReadRequest(1, 100, (b">",), "columns", EIGHT, SMALL)),
        (b'{"from": 7, "to": 9}', ReadRequest(7, 9, (b">",), "columns", EIGHT, SMALL)),
        (b'{"from": 7, "to": null}', ReadRequest(7, 100, (b">",), "columns", EIGHT, SMALL)),
        (b'{"from": 7, "to": 101}', ReadRequest(7, 100, (b">",), "columns", EIGHT, SMALL)),
        (b'{"from": 500}', ReadRequest(500, 100, (b">",), "columns", EIGHT, SMALL)),
        (
            b'{"from": 1, "subject": "a.*", "format": "frames", "max_bytes": 5}',
            ReadRequest(1, 100, (b"a.*",), "frames", 5, 5),
        ),
        (
            b'{"from": 1, "max_bytes": 1000000, "chunk_bytes": 4096}',
            ReadRequest(1, 100, (b">",), "columns", 1_000_000, 4096),
        ),
        (
            b'{"from": 1, "subject": ["a.*", "b"]}',
            ReadRequest(1, 100, (b"a.*", b"b"), "columns", EIGHT, SMALL),
        ),
        (
            b'{"from": 1, "columns": ["subject", "number", "subject"]}',
            ReadRequest(1, 100, (b">",), "columns", EIGHT, SMALL, TIME | REPLY | HEADERS | PAYLOAD),
        ),
    ],
)
def test_given_a_request_when_read_then_it_wants_this(payload: bytes, wish: ReadRequest) -> None:
    assert read_request(payload, 100) == wish


KEYS = "from, to, subject, format, columns, max_bytes, chunk_bytes"
COLUMNS = "number, time, subject, reply, headers, payload"


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (b"", 'the payload is not JSON; write {"from": 1}'),
        (b"from 1", 'the payload is not JSON; write {"from": 1}'),
        (b"\xff", 'the payload is not JSON; write {"from": 1}'),
        (b"[" * 100_000, 'the payload is not JSON; write {"from": 1}'),
        (b"[1]", 'the payload is not a JSON object; write {"from": 1}'),
        (b"{}", '"from" is missing, the first number wanted; write {"from": 1}'),
        (b'{"form": 1}', f'"form" is not a valid key; the keys are {KEYS}'),
        (b'{"\\r\\n": 1}', f'"\\r\\n" is not a valid key; the keys are {KEYS}'),
        (b'{"from": "1"}', '"from" must be a whole number, not "1"'),
        (b'{"from": true}', '"from" must be a whole number, not "true"'),
        (b'{"from": 1.5}', '"from" must be a whole number, not "1.5"'),
        (b'{"from": null}', '"from" must be a whole number, not "null"'),
        (b'{"from": 0}', f'"from" is "0"; give 1 to {NUMBER_MAX}'),
        (b'{"from": 5, "to": 4}', '"to" is 4, which is below "from"'),
        (b'{"from": 1, "subject": "a..b"}', '"a..b" is not a subject that can be subscribed to'),
        (b'{"from": 1, "subject": 5}', '"5" is not a subject that can be subscribed to'),
        (b'{"from": 1, "subject": ["a", "b."]}', '"b." is not a subject that can be subscribed to'),
        (
            b'{"from": 1, "subject": [["a"]]}',
            '"[\\"a\\"]" is not a subject that can be subscribed to',
        ),
        (b'{"from": 1, "subject": []}', '"subject" is a list of 0; give 1 to 64'),
        (
            b'{"from": 1, "format": "csv"}',
            '"csv" is not a valid format; the formats are columns, frames, times',
        ),
        (
            b'{"from": 1, "format": []}',
            '"[]" is not a valid format; the formats are columns, frames, times',
        ),
        (b'{"from": 1, "columns": []}', f'"columns" must be a list of one or more of {COLUMNS}'),
        (
            b'{"from": 1, "columns": "time"}',
            f'"columns" must be a list of one or more of {COLUMNS}',
        ),
        (b'{"from": 1, "columns": null}', f'"columns" must be a list of one or more of {COLUMNS}'),
        (
            b'{"from": 1, "columns": ["time", "size"]}',
            f'"size" is not a column; the columns are {COLUMNS}',
        ),
        (b'{"from": 1, "columns": [5]}', f'"5" is not a column; the columns are {COLUMNS}'),
        (
            b'{"from": 1, "columns": ["time"], "format": "times"}',
            '"columns" goes with the format columns, not with times',
        ),
        (b'{"from": 1, "max_bytes": 0}', f'"max_bytes" is "0"; give 1 to {1 << 40}'),
        (b'{"from": 1, "chunk_bytes": 5}', f'"chunk_bytes" is "5"; give 4096 to {1 << 24}'),
    ],
)
def test_given_a_wrong_request_when_read_then_it_says_what_to_write(
    payload: bytes, why: str
) -> None:
    with pytest.raises(BadRequest) as refused:
        read_request(payload, 100)
    assert str(refused.value) == why


class Answer:
    """One answer, its headers read."""

    def __init__(self, headers: bytes, body: bytes) -> None:
        first, *lines, last, end = headers.decode().split("\r\n")
        assert (first, last, end) == ("NATS/1.0", "", "")
        self.headers = dict(line.split(": ") for line in lines)
        self.body = body

    @property
    def next(self) -> int:
        return int(self.headers["Seriatim-Next"])

    @property
    def lost(self) -> list[int]:
        ranges = [word for word in self.headers.get("Seriatim-Lost", "").split(",") if word]
        ends = [[int(end) for end in word.split("-")] for word in ranges]
        return [number for first, last in ends for number in range(first, last + 1)]

    @property
    def numbers(self) -> list[int]:
        return [row.number for row in Columns(self.body)]


def ask(store: OnePiece, wish: ReadRequest, buffer_size: int = 1 << 16) -> list[Answer]:
    """All answers to a request."""
    plane = NotedPlane(store.last)
    turns = Turns(plane, store)
    read = Bulk(turns, asker(), b"inbox", wish)  # type: ignore[arg-type]
    serve(read, turns, buffer_size)
    assert {reply for reply, _, _ in plane.answers} == {b"inbox"}
    answers = [Answer(headers, body) for _, body, headers in plane.answers]
    assert ["Seriatim-Last" in one.headers for one in answers] == [False] * (len(answers) - 1) + [
        True
    ]
    return answers


def wish(first: int, last: int, **more: object) -> ReadRequest:
    fields = {
        "filters": (b">",),
        "format": "columns",
        "max_bytes": EIGHT,
        "chunk_bytes": SMALL,
        **more,
    }
    return ReadRequest(first, last, **fields)  # type: ignore[arg-type]


def test_given_a_range_when_read_then_one_chunk_has_it_and_says_where_to_go_on() -> None:
    store = OnePiece([Kept(number, b"s.%d" % number) for number in range(1, 21)])
    (answer,) = ask(store, wish(5, 9))
    assert answer.numbers == [5, 6, 7, 8, 9]
    assert answer.headers == {
        "Seriatim-Rows": "5",
        "Seriatim-First": "5",
        "Seriatim-Next": "10",
        "Seriatim-Last": "1",
    }


def test_given_nothing_that_far_when_read_then_there_is_an_empty_last_chunk() -> None:
    (answer,) = ask(OnePiece([Kept(1)]), wish(2, 1))
    assert answer.headers == {"Seriatim-Rows": "0", "Seriatim-Next": "2", "Seriatim-Last": "1"}
    assert answer.numbers == []


def test_given_columns_when_asked_for_then_the_others_are_not_sent() -> None:
    kept = [Kept(number, b"s.%d" % number, b"x" * 1000) for number in range(1, 101)]
    absent = TIME | REPLY | HEADERS | PAYLOAD
    (answer,) = ask(OnePiece(kept), wish(1, 100, chunk_bytes=4096, absent=absent))
    columns = Columns(answer.body)
    assert columns.names == ("number", "subject")
    assert [(row.number, row.subject) for row in columns] == [
        (one.number, one.subject) for one in kept
    ]
    assert answer.headers["Seriatim-Rows"] == "100"
    assert len(answer.body) < 96 + 100 * (8 + 4 + 5) + 32


def test_given_reads_of_other_columns_when_they_take_turns_then_each_gets_its_own() -> None:
    store = OnePiece([Kept(number, payload=b"%d" % number) for number in range(1, 1001)])
    plane = NotedPlane(store.last)
    turns = Turns(plane, store)
    for absent in (0, PAYLOAD, NUMBER | TIME | SUBJECT | REPLY | HEADERS, 0, NUMBER):
        wanted = wish(1, 1000, chunk_bytes=4096, absent=absent)
        read = Bulk(turns, asker(), b"inbox", wanted)  # type: ignore[arg-type]
        serve(read, turns, 1 << 12)
        read.free()
        rows = [row for _, body, _ in plane.answers for row in Columns(body)]
        plane.answers.clear()
        assert [row.number for row in rows] == [
            0 if absent & NUMBER else number for number in range(1, 1001)
        ]
        assert [bytes(row.payload) for row in rows] == [
            b"" if absent & PAYLOAD else b"%d" % number for number in range(1, 1001)
        ]


def test_given_frames_when_asked_for_then_they_stand_one_after_the_other() -> None:
    store = OnePiece([Kept(number, payload=b"%d" % number**9) for number in range(1, 8)])
    (answer,) = ask(store, wish(2, 6, format="frames"))
    assert list(FrameDecoder().feed(answer.body)) == [
        (number, b"%d" % number**9) for number in range(2, 7)
    ]


def test_given_times_when_asked_for_then_numbers_and_after_them_when_they_were() -> None:
    store = OnePiece([Kept(number, payload=b"x" * 1000) for number in range(1, 101)])
    wanted = {
        row.number: row.time for row in Columns(ask(store, wish(1, 100, chunk_bytes=EIGHT))[0].body)
    }
    found: dict[int, int] = {}
    at = 1
    while at <= 100:
        (answer,) = ask(store, wish(at, 100, format="times", max_bytes=5_000, chunk_bytes=5_000))
        values = memoryview(answer.body).cast("q").tolist()
        rows = int(answer.headers["Seriatim-Rows"])
        assert 0 < rows < 6, "the messages that were read are bounded, and not what is said of them"
        found |= zip(values[:rows], values[rows:], strict=True)
        at = answer.next
    assert found == wanted


def test_given_a_limit_when_it_is_reached_then_the_last_chunk_says_where_to_go_on() -> None:
    store = OnePiece([Kept(number, payload=b"x" * 1000) for number in range(1, 101)])
    numbers: list[int] = []
    at = 1
    while at <= 100:
        answers = ask(store, wish(at, 100, max_bytes=20_000, chunk_bytes=5_000))
        assert sum(len(one.body) for one in answers) <= 20_000
        numbers += [number for one in answers for number in one.numbers]
        at = answers[-1].next
    assert numbers == list(range(1, 101))


def test_given_much_that_nobody_wants_when_read_then_there_is_an_answer_in_between(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bulk, "SCAN_MAX", 4096)
    store = OnePiece([Kept(number, b"noise") for number in range(1, 200)] + [Kept(200, b"a")])
    answers = ask(store, wish(1, 200, filters=(b"a",)), buffer_size=1000)
    assert [one.numbers for one in answers][-1] == [200]
    assert len(answers) > 2
    assert [one.next for one in answers] == sorted(one.next for one in answers)


def test_given_no_listener_when_a_chunk_is_full_then_the_read_ends() -> None:
    store = OnePiece([Kept(number, payload=b"x" * 1000) for number in range(1, 101)])
    plane = NotedPlane(100, deaf=True)
    turns = Turns(plane, store)
    read = Bulk(turns, asker(), b"inbox", wish(1, 100, chunk_bytes=5_000))  # type: ignore[arg-type]
    assert serve(read, turns, 1000) < 20
    assert plane.answers == []


@given(
    missing=st.sets(st.integers(1, 40)),
    ends=st.tuples(st.integers(1, 45), st.integers(1, 45)).map(sorted),
    buffer_size=st.sampled_from([64, 100, 1000, 1 << 16]),
    chunk_bytes=st.sampled_from([4096, SMALL]),
    filters=st.sampled_from(
        [(b">",), (b"s.1",), (b"s.*",), (b"t",), (b"t", b"s.1"), (b"s.1", b">")]
    ),
)
def test_given_any_journal_when_read_then_every_number_is_there_or_reported_lost(
    missing: set[int],
    ends: list[int],
    buffer_size: int,
    chunk_bytes: int,
    filters: tuple[bytes, ...],
) -> None:
    kept = [
        Kept(number, b"s.%d" % (number % 3), b"x" * (number * 37 % 900))
        for number in range(1, 41)
        if number not in missing
    ]
    if not kept:
        return
    store = OnePiece(kept)
    first, last = ends[0], min(ends[1], store.last)
    answers = ask(store, wish(first, last, filters=filters, chunk_bytes=chunk_bytes), buffer_size)
    every = b">" in filters or b"s.*" in filters
    wanted = [one.number for one in kept if every or one.subject in filters]
    found = [number for one in answers for number in one.numbers]
    assert found == [number for number in wanted if first <= number <= last]
    lost = [number for one in answers for number in one.lost]
    assert lost == [number for number in range(first, last + 1) if number in missing]
    assert answers[-1].next == max(first, last + 1)
    rows = [json.loads(one.headers["Seriatim-Rows"]) for one in answers]
    assert rows == [len(one.numbers) for one in answers]


def test_given_a_damaged_record_when_read_then_it_is_reported_lost_and_the_others_are_there() -> (
    None
):
    store = OnePiece([Kept(number) for number in range(1, 11)])
    store.data[len(store.data) // 2 + 65] ^= 1
    (answer,) = ask(store, wish(1, 10))
    assert answer.numbers == [1, 2, 3, 4, 5, 7, 8, 9, 10]
    assert answer.lost == [6]


@pytest.mark.parametrize("key", ["from", "max_bytes", "subject", "format"])
def test_given_a_value_so_deep_that_it_can_just_be_read_then_it_is_refused_as_any_other(
    key: str,
) -> None:
    for depth in range(900, 1010):
        payload = b'{"from": 1, "%b": %b}' % (key.encode(), b"[" * depth + b"]" * depth)
        with pytest.raises(BadRequest):
            read_request(payload, 5)
