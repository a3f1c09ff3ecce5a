"""A table: columns and rows as they were published, on the same memory, and no damage passes."""

import json
import sys
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seriatim.client.chunk_columns import COLUMNS, ChunkError
from seriatim.client.errors import InvalidArgument, Lost
from seriatim.client.message_table import NUMBER_MAX, Table, TableBuilder, TableWish
from seriatim.client.stream_message import Message
from tests.support.chunks import Fields, chunk_of, payloads, section, spoilt

BLOCK = b"NATS/1.0\r\nColour: red\r\nColour:blue\r\nSize: 1\r\n\r\n"
MESSAGES: list[Fields] = [
    (b"orders.eu", b"", b"", b"one"),
    (b"gr\xc3\xbc\xc3\x9fe", b"_INBOX.1", BLOCK, b""),
    (b"\xff.x", b"", b"", b"\x00\xff"),
]


def table_of(*pieces: list[Fields], columns: tuple[str, ...] = COLUMNS) -> Table:
    builder = TableBuilder(columns, 1, NUMBER_MAX)
    for piece in pieces:
        builder.add(chunk_of(piece, builder.next, columns))
    return builder.table("00c0ffee00c0ffee")


def answer(chunk: bytes, *lines: str) -> Message:
    block = "NATS/1.0\r\n" + "".join(f"{line}\r\n" for line in lines) + "\r\n"
    return Message("_INBOX.1", "", block.encode(), chunk)


def test_given_messages_when_looked_at_by_columns_then_they_are_what_was_published() -> None:
    table = table_of(MESSAGES, MESSAGES[:1])
    assert len(table) == 4
    assert (table.next, table.lost, table.journal) == (5, (), "00c0ffee00c0ffee")
    assert table.column("number").tolist() == [1, 2, 3, 4]
    assert table.column("time").tolist() == [1500, 3000, 4500, 6000]
    assert table.column("number").format == "q"
    assert list(table.column("subject")) == ["orders.eu", "grüße", "\udcff.x", "orders.eu"]
    assert table.column("reply")[:] == ["", "_INBOX.1", "", ""]
    assert list(table.column("headers")) == [{}, {"Colour": "blue", "Size": "1"}, {}, {}]
    payload = table.column("payload")
    assert (len(payload), payload[0], payload[-1], payload[2]) == (4, b"one", b"one", b"\x00\xff")
    with pytest.raises(IndexError):
        payload[4]
    assert repr(table).startswith("<Table of 4 messages, numbers 1 to 4: number, time, ")


@given(st.lists(st.lists(st.sampled_from(MESSAGES), min_size=1, max_size=5), max_size=4))
def test_given_any_chunks_when_looked_at_by_rows_then_columns_say_the_same(
    pieces: list[list[Fields]],
) -> None:
    table = table_of(*pieces)
    rows = list(table.rows())
    assert [row.number for row in rows] == table.column("number").tolist()
    assert [row.time_ns for row in rows] == table.column("time").tolist()
    for name in ("subject", "reply", "headers", "payload"):
        assert [getattr(row, name) for row in rows] == list(table.column(name))
    arrow = table.to_arrow()
    arrow.validate(full=True)
    assert arrow["number"].to_pylist() == [row.number for row in rows]
    assert arrow["payload"].to_pylist() == [row.payload for row in rows]
    assert arrow["reply"].to_pylist() == [row.reply or None for row in rows]


@pytest.mark.parametrize(
    "columns", [("number",), ("number", "time"), ("number", "payload"), ("number", "subject")]
)
def test_given_some_columns_when_read_then_rows_have_these_and_the_others_say_so(
    columns: tuple[str, ...],
) -> None:
    table = table_of(MESSAGES, columns=columns)
    rows = list(table.rows())
    assert [row.number for row in rows] == [1, 2, 3]
    assert [row.time_ns for row in rows] == ([1500, 3000, 4500] if "time" in columns else [0] * 3)
    assert rows[0].payload == (b"one" if "payload" in columns else b"")
    assert rows[0].subject == ("orders.eu" if "subject" in columns else "")
    assert table.to_arrow().schema.names == list(columns)
    with pytest.raises(InvalidArgument, match=r"no column 'headers'; it has number"):
        table.column("headers")


def test_given_a_table_when_made_arrow_then_the_types_are_useful_and_nothing_is_copied() -> None:
    import pyarrow as pa

    table = table_of(MESSAGES, MESSAGES)
    arrow = table.to_arrow()
    assert {field.name: str(field.type) for field in arrow.schema} == {
        "number": "int64",
        "time": "timestamp[ns, tz=UTC]",
        "subject": "string",
        "reply": "string",
        "headers": "map<string, string>",
        "payload": "binary",
    }
    assert arrow["subject"].to_pylist()[:3] == ["orders.eu", "grüße", "\ufffd.x"]
    assert arrow["reply"].to_pylist()[:3] == [None, "_INBOX.1", None]
    assert arrow["headers"].to_pylist()[:3] == [
        *([], [("Colour", "red"), ("Colour", "blue"), ("Size", "1")], [])
    ]
    (numbers,) = arrow["number"].chunks
    assert numbers.buffers()[1].address == pa.py_buffer(table.column("number")).address
    assert arrow["payload"].num_chunks == 2
    assert pa.table(table).equals(arrow), "any program that knows Arrow can take it"


def test_given_a_table_when_made_pandas_then_it_is_a_frame_of_its_rows() -> None:
    frame = table_of(MESSAGES).to_pandas()
    assert list(frame.columns) == list(COLUMNS)
    assert str(frame["time"].dtype) == "datetime64[ns, UTC]"
    assert frame["time"][1].to_pydatetime(warn=False) == datetime(1970, 1, 1, 0, 0, 0, 3, UTC)
    assert frame["headers"].tolist() == [{}, {"Colour": "blue", "Size": "1"}, {}]
    assert frame["payload"].tolist() == [b"one", b"", b"\x00\xff"]
    assert frame["reply"].tolist() == [None, "_INBOX.1", None]


def test_given_a_table_when_made_polars_then_it_is_a_frame_of_its_rows() -> None:
    frame = table_of(MESSAGES).to_polars()
    assert frame["number"].to_list() == [1, 2, 3]
    assert str(frame["time"].dtype) == "Datetime(time_unit='ns', time_zone='UTC')"
    assert frame["payload"].to_list() == [b"one", b"", b"\x00\xff"]
    assert frame["headers"].to_list() == [{}, {"Colour": "blue", "Size": "1"}, {}]


@pytest.mark.parametrize("empty", [(), ([],)])
def test_given_no_messages_when_made_tables_then_they_are_empty(empty: Any) -> None:
    table = table_of(*empty)
    assert (len(table), list(table.rows()), list(table.column("payload"))) == (0, [], [])
    assert table.to_arrow().num_rows == len(table.to_pandas()) == len(table.to_polars()) == 0
    assert str(table.to_arrow().schema.field("headers").type) == "map<string, string>"
    assert "0 messages" in repr(table)


@pytest.mark.parametrize(
    ("package", "method", "extra"),
    [("pyarrow", "arrow", "arrow"), ("pandas", "pandas", "pandas"), ("polars", "polars", "polars")],
)
def test_given_a_package_that_is_missing_when_needed_then_the_error_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, package: str, method: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"needs {package}.*pip install 'seriatim\[{extra}\]'"):
        getattr(table_of(MESSAGES), f"to_{method}")()


# What a broker may get wrong, or a peer that is none

GOOD = chunk_of(payloads(b"one", b"two", b"three"))
PAYLOAD_ENDS, _ = section(GOOD, 8)


@pytest.mark.parametrize(
    ("at", "word", "why"),
    [
        (0, 0, "not a chunk"),
        (4, 4, "section 0 is 24 bytes"),
        (4, 0xFFFFFFFF, "section 0 is 24 bytes"),
        (8, 0x3F, "not a chunk"),
        (8, 1, "section 0 is 24 bytes"),
        (16, 0xFFFFFFF8, "section 0 is 24 bytes at 4294967288"),
        (20, 0xFFFFFFFF, "section 0 is 4294967295 bytes"),
        (16 + 8 * 9, 0xFFFFFFF8, "section 9"),
        (16 + 8 * 9 + 4, 0xFFFFFFFF, "section 9"),
        (PAYLOAD_ENDS, 1, "offsets go from 1"),
        (PAYLOAD_ENDS + 12, 12, "offsets go from 0 to 12, in 11 bytes"),
        (PAYLOAD_ENDS + 12, -1, "offsets go from 0 to -1"),
        (section(GOOD, 0)[0], 0, "numbers 0 to 3 were sent for 1 to 9"),
        (section(GOOD, 0)[0], 3, "3 numbers 3 to 3 were sent"),
        (section(GOOD, 0)[0] + 20, 1, "were sent for 1 to 9"),
        (section(GOOD, 0)[0] + 4, 0x80000000, "were sent for 1 to 9"),
    ],
)
def test_given_a_damaged_chunk_when_it_arrives_then_it_is_an_error(
    at: int, word: int, why: str
) -> None:
    builder = TableBuilder(COLUMNS, 1, 9)
    said = answer(spoilt(GOOD, at, word), "Seriatim-Next: 4", "Seriatim-Last: 1")
    with pytest.raises(ChunkError, match=rf"\$SEQ\.READ: the answer is damaged: .*{why}"):
        builder.take_answer(said)


@pytest.mark.parametrize("word", [12, -1, -(1 << 31), (1 << 31) - 1, 7])
def test_given_offsets_that_fall_when_looked_at_then_no_byte_of_another_row_is_shown(
    word: int,
) -> None:
    builder = TableBuilder(COLUMNS, 1, 9)
    builder.add(spoilt(GOOD, PAYLOAD_ENDS + 4, word))  # where "one" ends; "two" at 6
    table = builder.table("")
    with pytest.raises(ChunkError):
        list(table.column("payload"))
    with pytest.raises(ChunkError):
        table.column("payload")[1]
    with pytest.raises(ChunkError):
        list(table.rows())
    with pytest.raises(ChunkError):
        table.to_arrow()
    with pytest.raises(ChunkError):
        table.to_pandas()


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ((), "Seriatim-Next"),
        (("Seriatim-Next: x",), "is not a number"),
        (("Seriatim-Next: 3",), "it continues with 3"),
        (("Seriatim-Next: 11",), "it continues with 11"),
        (("Seriatim-Next: 99999999999999999999",), "is not a number"),
        (("Seriatim-Next: 4", "Seriatim-Lost: 5"), "is not a number"),
        (("Seriatim-Next: 4", "Seriatim-Lost: 6-5"), "out of order"),
        (("Seriatim-Next: 4", "Seriatim-Lost: 5-10"), "out of order"),
        (("Seriatim-Next: 4", "Seriatim-Lost: 5-6,6-7"), "out of order"),
    ],
)
def test_given_damaged_headers_of_an_answer_when_it_arrives_then_it_is_an_error(
    lines: tuple[str, ...], why: str
) -> None:
    with pytest.raises(ChunkError, match=f"the answer is damaged: .*{why}"):
        TableBuilder(COLUMNS, 1, 9).take_answer(answer(GOOD, *lines))


def test_given_an_answer_without_end_when_it_does_not_get_on_then_it_is_an_error() -> None:
    builder = TableBuilder(COLUMNS, 1, 9)
    nothing = chunk_of([])
    assert not builder.take_answer(answer(nothing, "Seriatim-Next: 3"))
    with pytest.raises(ChunkError, match="does not get on"):
        builder.take_answer(answer(nothing, "Seriatim-Next: 3"))
    assert builder.take_answer(answer(nothing, "Seriatim-Next: 3", "Seriatim-Last: 1"))


def test_given_other_columns_than_asked_for_when_they_arrive_then_it_is_an_error() -> None:
    with pytest.raises(ChunkError, match="not the columns number, time"):
        TableBuilder(("number", "time"), 1, 9).add(GOOD)


def test_given_losses_when_they_arrive_then_the_table_has_them() -> None:
    builder = TableBuilder(COLUMNS, 1, 9)
    said = answer(
        *(chunk_of(payloads(b"x"), 4), "Seriatim-Lost: 1-3,5-5"),
        *("Seriatim-Next: 6", "Seriatim-Last: 1"),
    )
    assert builder.take_answer(said)
    table = builder.table("")
    assert [(type(one), one.first, one.last) for one in table.lost] == [(Lost, 1, 3), (Lost, 5, 5)]
    assert (table.column("number").tolist(), table.next) == ([4], 6)


# What a user may get wrong


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((0, 5, ">", None), "first=0: the first number is 1"),
        ((1 << 63, None, ">", None), "the first number is 1"),
        ((5, 3, ">", None), "last=3 is before the first number, 5"),
        (("7", None, ">", None), "'7' is not the number of a message"),
        ((1, 2.5, ">", None), r"2\.5 is not the number"),
        ((1, 2, "a b", None), "not valid as a subject"),
        ((1, 2, ">", ["size"]), "'size' is no column; there are number, time"),
        ((1, 2, ">", "payload"), "give a list of names"),
    ],
)
def test_given_a_wrong_argument_when_a_table_is_wished_for_then_the_error_says_what_is_right(
    arguments: Any, why: str
) -> None:
    with pytest.raises(InvalidArgument, match=why):
        TableWish(*arguments)


def test_given_a_wish_when_asked_then_the_number_is_always_a_column() -> None:
    wish = TableWish(None, None, "orders.>", ["payload", "time"])
    asked = json.loads(wish.request(3, 9))
    assert asked["columns"] == ["number", "time", "payload"]
    assert (asked["from"], asked["to"], asked["subject"]) == (3, 9, "orders.>")
    assert TableWish(5, 4, ">", None).last == 4, "an empty table may be asked for"
