"""Staging requests: every invalid field is named, with what to write instead."""

import json
import re
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.replay.requests import BadRequest
from broker.staging.operations_asked import (
    BATCH_MAX,
    AbortRequest,
    CommitRequest,
    Named,
    StagedPiece,
    read_abort,
    read_application,
    read_commit,
    read_piece,
)
from broker.storage.sealed_lines import seal, unseal

HEADERS = {"Application": "app", "Batch": "7", "Stage": "s", "Offset": "0"}
APPLICATION = "the application is 1 to 255 printable characters of ASCII"


def headers(**other: str | None) -> bytes:
    found = {**HEADERS, **other}
    lines = [f"Seriatim-{name}: {value}" for name, value in found.items() if value is not None]
    return "\r\n".join(["NATS/1.0", *lines, "Other: x", "", ""]).encode("latin-1")


def commit(**other: Any) -> bytes:
    stages = [{"stage": "a", "bytes": 3, "crc32": 4}]
    return json.dumps({"application": "app", "batch": 7, "stages": stages, **other}).encode()


def test_given_headers_when_read_then_they_say_where_a_piece_belongs() -> None:
    assert read_piece(headers()) == StagedPiece(("app", 7, "s"), 0)
    wide = headers(Application=" a b ", Batch=str(BATCH_MAX), Offset="12", Stage="A.b_c-9")
    assert read_piece(wide) == StagedPiece(("a b", BATCH_MAX, "A.b_c-9"), 12)
    assert read_piece(headers().lower()) == read_piece(headers())


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"Application": None}, "the header Seriatim-Application is missing"),
        ({"Stage": None}, "the header Seriatim-Stage is missing"),
        ({"Batch": None}, "the header Seriatim-Batch is missing"),
        ({"Offset": None}, "the header Seriatim-Offset is missing"),
        ({"Application": ""}, APPLICATION),
        ({"Application": "x" * 256}, APPLICATION),
        ({"Application": "\xe9"}, APPLICATION),
        ({"Batch": "-1"}, "Seriatim-Batch is a whole number from 0 to 9223372036854775807"),
        ({"Batch": str(BATCH_MAX + 1)}, "Seriatim-Batch is a whole number"),
        ({"Batch": "1" * 99}, "Seriatim-Batch is a whole number"),
        ({"Offset": "\xb2"}, "Seriatim-Offset is a whole number"),
        ({"Offset": "x"}, "Seriatim-Offset is a whole number"),
        ({"Stage": "a/b"}, "the name of a stage is 1 to 64 letters, digits, dots, _ and -"),
        ({"Stage": "x" * 65}, "the name of a stage is 1 to 64"),
    ],
)
def test_given_wrong_headers_when_read_then_the_words_say_which(
    wrong: dict[str, str | None], why: str
) -> None:
    with pytest.raises(BadRequest, match=re.escape(why)):
        read_piece(headers(**wrong))


def test_given_no_headers_then_the_first_missing_one_is_named() -> None:
    with pytest.raises(BadRequest, match="Seriatim-Application is missing"):
        read_piece(b"")


def test_given_endless_headers_then_they_are_refused_before_they_are_read() -> None:
    with pytest.raises(BadRequest, match="there are 900002 bytes of headers; 16384 are allowed"):
        read_piece(b"\r\n" * 450_001)


def test_given_a_commit_when_read_then_it_is_what_it_says() -> None:
    assert read_commit(commit(), 9) == CommitRequest("app", 7, (Named("a", 3, 4),), True)
    assert read_commit(commit(stages=[], remember=False), 9) == CommitRequest("app", 7, (), False)
    assert read_commit(commit(stages=[], after=6), 9) == CommitRequest("app", 7, (), True, 6)
    assert read_commit(commit(stages=[], after=None), 9) == CommitRequest("app", 7, (), True, None)
    longest = "x" * 255
    assert read_commit(commit(application=longest), 9).application == longest


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (b"", "the payload is not JSON"),
        (b"[" * 100_000, "the payload is not JSON"),
        (b"[]", "the payload is not a JSON object"),
        (
            commit(bach=7),
            '"bach" is not a valid key; the keys are application, batch, stages, remember',
        ),
        (commit(application=1), APPLICATION),
        (commit(application=" a"), APPLICATION),
        (commit(application="a\n"), APPLICATION),
        (commit(batch="7"), '"batch" is a whole number from 0 to'),
        (commit(batch=True), '"batch" is a whole number'),
        (commit(batch=-1), '"batch" is a whole number'),
        (commit(batch=7.0), '"batch" is a whole number'),
        (commit(stages=None), '"stages" is a list of'),
        (commit(stages=["a"]), 'a stage is {"stage": name, "bytes": n, "crc32": n}'),
        (commit(stages=[{"stage": "a", "bytes": 1}]), "a stage is"),
        (commit(stages=[{"stage": "", "bytes": 1, "crc32": 1}]), "the name of a stage is"),
        (commit(stages=[{"stage": "a", "bytes": -1, "crc32": 1}]), '"bytes" is a whole number'),
        (commit(stages=[{"stage": "a", "bytes": 1, "crc32": 1 << 32}]), '"crc32" is a whole'),
        (commit(stages=[{"stage": "a", "bytes": 1, "crc32": 1}] * 2), "a stage is named twice"),
        (commit(stages=[0] * 10), "10 stages are named; at most 9 are allowed"),
        (commit(remember=1), '"remember" is true or false'),
        (commit(after=-1), '"after" is a whole number'),
        (commit(after="6"), '"after" is a whole number'),
    ],
)
def test_given_a_wrong_commit_when_read_then_the_words_say_what_to_write(
    payload: bytes, why: str
) -> None:
    with pytest.raises(BadRequest, match=re.escape(why)):
        read_commit(payload, 9)


def test_given_an_abort_when_read_then_it_names_stages_or_means_all() -> None:
    assert read_abort(b'{"application":"a","batch":1}') == AbortRequest("a", 1, None)
    assert read_abort(b'{"application":"a","batch":1,"stages":["x","y","x"]}') == AbortRequest(
        "a", 1, frozenset({"x", "y"})
    )
    for wrong in (b'"x"', b"{}", b'[{"x":1}]'):
        with pytest.raises(BadRequest, match=r'"stages" is a list of names|the name of a stage'):
            read_abort(b'{"application":"a","batch":1,"stages":%b}' % wrong)


def test_given_an_application_when_read_then_nothing_else_may_be_said() -> None:
    assert read_application(b'{"application":"a"}') == "a"
    with pytest.raises(BadRequest, match='"batch" is not a valid key'):
        read_application(b'{"application":"a","batch":1}')


@given(st.binary() | st.text().map(str.encode))
def test_given_any_bytes_when_read_then_they_are_refused_in_one_line(data: bytes) -> None:
    for read in (read_piece, partial(read_commit, max_stages=9), read_abort, read_application):
        with pytest.raises(BadRequest) as refused:
            read(data)
        assert not {*"\r\n"} & {*str(refused.value)}


@given(st.dictionaries(st.text(), st.integers() | st.text()), st.integers(0), st.integers(1, 255))
def test_given_a_sealed_line_when_any_byte_is_changed_then_it_is_known(
    fields: dict[str, Any], place: int, change: int
) -> None:
    line = bytearray(seal(fields))
    assert unseal(bytes(line)) == fields
    assert unseal(bytes(line[:-2])) is None
    line[place % (len(line) - 1)] ^= change
    assert unseal(bytes(line)) is None
