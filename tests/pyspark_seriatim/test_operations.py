"""Rows to operations: compared with a loop over the rows; and rows that are refused."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from broker.dataplane.kinds import ORDINARY, Classifier, is_reserved_reply
from parser.machine import Parser
from parser.ops import PUB
from pyspark_seriatim import operations
from pyspark_seriatim.errors import ColumnError, RowError
from pyspark_seriatim.operations import Layout, layout_of, taken_apart

MAX = 1 << 20
TYPES = {
    "subject": pa.string(),
    "payload": pa.binary(),
    "reply": pa.string(),
    "headers": pa.map_(pa.string(), pa.list_(pa.string())),
}
ALL = layout_of(
    {
        "subject": "string",
        "payload": "binary",
        "reply": "string",
        "headers": "map<string,array<string>>",
    }
)

words = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters=" \t\r\n.*>$"), max_size=4
)
subjects = st.lists(words.filter(bool), min_size=1, max_size=3).map(".".join)
values = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), max_size=5)
names = st.text(
    st.characters(min_codepoint=33, max_codepoint=126, exclude_characters=":"), min_size=1
)
headers = st.dictionaries(names, st.none() | st.lists(values, max_size=3), max_size=3)
rows = st.fixed_dictionaries(
    {
        "subject": subjects,
        "payload": st.binary(max_size=12),
        "reply": st.none() | st.just("") | subjects,
        "headers": st.none() | headers.map(lambda d: list(d.items())),
    }
)


def batch_of(rows: list[dict[str, Any]], types: dict[str, pa.DataType] = TYPES) -> pa.RecordBatch:
    names = [name for name in types if not rows or name in rows[0]]
    arrays = [pa.array([row[name] for row in rows], types[name]) for name in names]
    return pa.RecordBatch.from_arrays(arrays, names)


def one_by_one(rows: list[dict[str, Any]]) -> bytes:
    """What the rows are on the wire, by a loop."""
    wire = b""
    for row in rows:
        lines = [
            f"{name}: {value}\r\n".encode()
            for name, each in row.get("headers") or []
            for value in each or []
        ]
        head = b"NATS/1.0\r\n" + b"".join(lines) + b"\r\n" if lines else b""
        words = [b"HPUB" if head else b"PUB", row["subject"].encode()]
        words += [row["reply"].encode()] if row.get("reply") else []
        words += [b"%d" % len(head)] if head else []
        words += [b"%d" % (len(head) + len(row["payload"]))]
        wire += b" ".join(words) + b"\r\n" + head + row["payload"] + b"\r\n"
    return wire


def wire(batch: pa.RecordBatch, layout: Layout, max_payload: int = MAX) -> bytes:
    return b"".join(map(bytes, operations.operations(batch, layout, max_payload)))


@given(rows=st.lists(rows, max_size=8), cut=st.data())
def test_given_any_rows_when_encoded_then_they_are_what_a_loop_makes_of_them(
    rows: list[dict[str, Any]], cut: st.DataObject
) -> None:
    batch = batch_of(rows)
    assert wire(batch, ALL) == one_by_one(rows)
    first = cut.draw(st.integers(0, len(rows)))
    last = cut.draw(st.integers(first, len(rows)))
    assert wire(batch.slice(first, last - first), ALL) == one_by_one(rows[first:last])
    found = list(taken_apart(operations.operations(batch, ALL, MAX)))
    assert [one.subject for one in found] == [repr(row["subject"]) for row in rows]
    assert [one.size for one in found] == [len(one_by_one([row])) for row in rows]


@pytest.mark.parametrize("subject", [pa.string(), pa.large_string(), pa.binary()], ids=str)
@pytest.mark.parametrize("payload", [pa.binary(), pa.large_binary(), pa.string()], ids=str)
def test_given_text_or_bytes_of_any_width_then_the_wire_is_the_same(
    subject: pa.DataType, payload: pa.DataType
) -> None:
    rows: list[dict[str, Any]] = [
        {"subject": "orders.eu", "payload": b"one"},
        {"subject": "orders.us", "payload": b""},
    ]
    batch = batch_of(rows, {"subject": subject, "payload": payload})
    expected = b"PUB orders.eu 3\r\none\r\nPUB orders.us 0\r\n\r\n"
    assert wire(batch, Layout(None, False, False)) == expected


def test_given_a_subject_for_all_then_the_column_is_not_looked_at() -> None:
    layout = layout_of({"subject": "string", "payload": "binary"}, "audit.all")
    rows: list[dict[str, Any]] = [
        {"subject": None, "payload": b"1"},
        {"subject": "no such *", "payload": b"2"},
    ]
    assert wire(batch_of(rows), layout) == b"PUB audit.all 1\r\n1\r\nPUB audit.all 1\r\n2\r\n"


def test_given_more_rows_than_one_buffer_takes_then_each_buffer_ends_with_a_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(operations, "ROWS_MAX", 3)
    monkeypatch.setattr(operations, "BYTES_MAX", 200)
    rows: list[dict[str, Any]] = [
        {"subject": f"s.{n}", "payload": b"x" * (n * n)} for n in range(20)
    ]
    buffers = list(operations.operations(batch_of(rows), Layout(None, False, False), MAX))
    assert len(buffers) > 7
    assert all(bytes(buffer).startswith(b"PUB s.") for buffer in buffers)
    assert b"".join(map(bytes, buffers)) == one_by_one(rows)


def test_given_a_null_map_with_entries_under_it_then_they_are_nobodys() -> None:
    whole = pa.array([[("a", ["1"])], [("b", ["2"])], [("c", ["3"])]], TYPES["headers"])
    valid = pa.py_buffer(b"\x05")  # the second one is null; its entry lies there still
    entries = pa.StructArray.from_arrays([whole.keys, whole.items], ["key", "value"])
    column = pa.Array.from_buffers(whole.type, 3, [valid, whole.buffers()[1]], children=[entries])
    assert column.null_count == 1
    batch = pa.RecordBatch.from_arrays(
        [pa.array(["s"] * 3), pa.array([b""] * 3), column], ["subject", "payload", "headers"]
    )
    found = wire(batch, Layout(None, False, True))
    assert found == (
        b"HPUB s 18 18\r\nNATS/1.0\r\na: 1\r\n\r\n\r\nPUB s 0\r\n\r\n"
        b"HPUB s 18 18\r\nNATS/1.0\r\nc: 3\r\n\r\n\r\n"
    )


NAMES = [b"$SEQ", b"$NRG", b"_GR_", b"$GR", b"_R_", b"$JS.ACK", b"a", b"1", b"\xff", b"\x00"]
SIGNS = [b".", b"*", b">", b" ", b"\t", b"\r", b"\n"]
parts_of_names = st.lists(st.sampled_from(NAMES + SIGNS), max_size=5).map(b"".join)


@given(subject=parts_of_names, reply=parts_of_names)
@example(subject=b"a..x", reply=b"..")
@example(subject=b"a.*", reply=b">")
@example(subject=b"\na", reply=b"\r")
@example(subject=b"$SEQ", reply=b"$SEQ.x")
@example(subject=b"_GR_.", reply=b"$JS.ACK.")
def test_given_any_subject_and_reply_then_they_are_taken_just_where_pub_takes_them(
    subject: bytes, reply: bytes
) -> None:
    store = bytearray(b"PUB %b 1\r\nx\r\n" % (b"%b %b" % (subject, reply) if reply else subject))
    parser = Parser()
    parser.attach(store, 0, len(store))
    numbered = parser.next() == PUB and parser.at == len(store)
    numbered = numbered and store[parser.subject : parser.subject_end] == subject
    numbered = numbered and store[parser.reply : parser.reply_end] == reply
    numbered = (
        numbered and Classifier().kind_of(subject) == ORDINARY and not is_reserved_reply(reply)
    )
    try:
        row = {"subject": subject, "reply": reply, "payload": b"x"}
        found = wire(batch_of([row], dict.fromkeys(row, pa.binary())), Layout(None, True, False))
    except RowError:
        found = b""
    assert (found == store) == numbered


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"subject": None, "payload": b"xyz"}, "'subject' is null in a row with the payload 'xyz'"),
        ({"subject": "a.b", "payload": None}, "'payload' is null in a row of subject 'a.b'"),
        ({"subject": "", "payload": b""}, "subject '' cannot be published to: it is empty"),
        (
            {"subject": "a..b", "payload": b""},
            "subject 'a..b' cannot be published to: it has an empty token, so no subscription",
        ),
        ({"subject": "_GR_.", "payload": b""}, "subject '_GR_.' cannot be published to: it has an"),
        (
            {"subject": "a b", "payload": b""},
            r"a blank; .* regexp_replace\(subject, '\\\\s', '_'\)",
        ),
        ({"subject": "a\r\nPUB b 0", "payload": b""}, "it has a blank"),
        ({"subject": "$SEQ.INFO", "payload": b""}, "subjects below $SEQ. are reserved"),
        ({"subject": "$NRG.x", "payload": b""}, "subjects below $NRG. are reserved"),
        ({"subject": "_GR_.x", "payload": b""}, "subjects below _GR_. are reserved"),
        ({"subject": "x" * 99, "payload": b"y" * 200}, "'x{60}'... has 200 bytes, but .* most 100"),
        (
            {"subject": "s", "payload": b"", "reply": "a b"},
            r"reply 'a b' cannot be published to: it has a blank; .* regexp_replace\(reply, ",
        ),
        (
            {"subject": "s", "payload": b"", "reply": "$JS.ACK.x"},
            "subjects below $JS. are reserved",
        ),
        (
            {"subject": "s", "payload": b"", "headers": [("a:", ["1"])]},
            "'s' has the header name 'a:'",
        ),
        ({"subject": "s", "payload": b"", "headers": [("", ["1"])]}, "the header name ''"),
        ({"subject": "s", "payload": b"", "headers": [("ä", ["1"])]}, "the header name 'ä'"),
        ({"subject": "s", "payload": b"", "headers": [("a", ["1\r\nb: 2"])]}, "line break .* 'a'"),
        ({"subject": "s", "payload": b"", "headers": [("a", ["1", None])]}, "null .* header 'a'"),
        (
            {"subject": "s", "payload": b"y" * 50, "headers": [("a", ["z" * 50])]},
            "has 1[12]. bytes",
        ),
    ],
    ids=lambda value: None if isinstance(value, dict) else value[:30],
)
def test_given_a_row_that_cannot_be_published_then_the_error_names_it(
    row: dict[str, Any], words: str
) -> None:
    good = {
        "subject": "good",
        "payload": b"",
        "reply": None,
        "headers": [("g", ["g", "g"]), ("h", [])],
    }
    rows: list[dict[str, Any]] = [good, {"reply": None, "headers": None} | row, good]
    with pytest.raises(RowError, match=words.replace("$", r"\$").replace("*' ", r"\*' ")):
        wire(batch_of(rows), ALL, 100)


@pytest.mark.parametrize(
    ("types", "subject", "words"),
    [
        ({"subject": "string"}, None, "'payload' is missing; there are: subject"),
        ({}, "s", "'payload' is missing; there are: none"),
        ({"payload": "binary"}, None, "'subject' is missing.*option 'subject'"),
        ({"subject": "int", "payload": "binary"}, None, "'subject' is int; cast it to string or"),
        (
            {"subject": "string", "payload": "bigint"},
            None,
            "'payload' is bigint; cast it to string",
        ),
        (
            {"payload": "binary", "headers": "map<string,string>"},
            "s",
            "cast it to map<string,array",
        ),
        ({"payload": "binary", "reply": "date"}, "s", "'reply' is date"),
        ({"payload": "binary", "value": "binary"}, "s", "'value' is not one of subject, payload, "),
    ],
    ids=str,
)
def test_given_columns_that_cannot_be_then_the_error_names_column_and_type(
    types: dict[str, str], subject: str | None, words: str
) -> None:
    with pytest.raises(ColumnError, match=words):
        layout_of(types, subject)


def test_given_an_invalid_subject_option_then_it_is_an_error_at_once() -> None:
    with pytest.raises(RowError, match=r"'orders eu' cannot be published to"):
        layout_of({"payload": "binary"}, "orders eu")


def test_given_what_the_reader_gives_then_it_can_be_written_as_it_is() -> None:
    read = {
        "sequence": "bigint",
        "subject": "string",
        "payload": "binary",
        "timestamp": "timestamp",
    }
    assert layout_of(read) == Layout(None, False, False)
    assert layout_of({"subject": "varchar(9)", "payload": "string collate UTF8_LCASE"}) is not None


@pytest.mark.parametrize("name", ["subject", "payload", "headers"])
def test_given_an_array_of_another_type_then_the_error_names_the_column(name: str) -> None:
    arrays = {"subject": pa.array(["s"]), "payload": pa.array([b""]), "headers": pa.nulls(1)}
    arrays[name] = pa.array([1.5])
    with pytest.raises(ColumnError, match=f"'{name}' is double"):
        wire(pa.RecordBatch.from_pydict(arrays), Layout(None, False, True))
