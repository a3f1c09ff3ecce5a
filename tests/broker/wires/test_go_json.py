"""JSON as Go reads it: the depth, and what is skipped without a look."""

import json

import pytest

from broker.wires.go_json import DEPTH_MAX, LEVELS_MAX, Pairs, read, shallow


def test_given_an_object_then_all_its_pairs_are_there_in_order() -> None:
    found = read(b'{"a":1,"A":{"b":[1,{"c":2}]},"a":null}')
    assert found == [("a", 1), ("A", [("b", [1, [("c", 2)]])]), ("a", None)]
    assert type(found) is type(found[1][1]) is Pairs


@pytest.mark.parametrize("levels", [LEVELS_MAX, LEVELS_MAX + 1, DEPTH_MAX - 2])
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":[],"b":', b"}")])
def test_given_many_levels_then_what_lies_beside_them_is_read(
    levels: int, opening: bytes, closing: bytes
) -> None:
    deep = opening * levels + b"1" + closing * levels
    found = dict(read(b'{"x":%b,"name":"y"}' % deep))
    assert found["name"] == "y"


def test_given_too_many_levels_then_it_is_not_json() -> None:
    with pytest.raises(ValueError, match="more than 10000 levels"):
        read(b"[" * (DEPTH_MAX + 1) + b"]" * (DEPTH_MAX + 1))
    assert read(b"[" * DEPTH_MAX + b"]" * DEPTH_MAX)


WHOLE = [
    "[]",
    "{}",
    "[1]",
    '{"a":[]}',
    '[{"a":1,"b":[null,true]},"x\\"\\u0061"]',
    " 1 ",
    '"a"',
    "{ }",
]


@pytest.mark.parametrize("text", WHOLE)
def test_given_a_shallow_text_then_it_stays_as_it_is(text: str) -> None:
    assert json.loads(shallow(text)) == json.loads(text)


def test_given_a_deep_text_then_what_is_too_deep_is_null() -> None:
    text = '{"a":[[[[[[[[1,[2],"x"],3]]]]]]],"b":1}'
    assert shallow(text) == '{"a":[[[[[[[null,3]]]]]]],"b":1}'


BROKEN = [
    *(
        "[",
        "]",
        "{",
        "}",
        "[}",
        "{]",
        "[1,]",
        "[,1]",
        '{"a"}',
        '{"a":}',
        '{"a":1,}',
        "{,}",
        "{1:2}",
    ),
    *(
        '{"a" 1}',
        "[1 2]",
        "1,",
        ":",
        ",",
        "[:]",
        '["a":1]',
        "nul",
        '"a',
        '"\n"',
        '"\\x"',
        "01",
        "-",
    ),
    *("[]]", "[] []", '{"a":1:2}', '{"a",1}', "[1]x"),
]


def test_given_nothing_then_it_is_no_json() -> None:
    with pytest.raises(ValueError, match="not JSON"):
        shallow(" ")


@pytest.mark.parametrize("text", BROKEN)
@pytest.mark.parametrize("levels", [0, 20])
def test_given_input_that_is_no_json_then_it_is_refused_at_any_depth(
    text: str, levels: int
) -> None:
    with pytest.raises(ValueError, match="not JSON"):
        shallow("[" * levels + text + "]" * levels)


def test_given_an_empty_list_at_a_depth_then_only_there_it_is_one() -> None:
    assert shallow("[" * 20 + "]" * 20) == "[[[[[[[[null]]]]]]]]"


def test_given_a_number_of_any_length_then_it_is_read() -> None:
    assert read(b"9" * 10_000) > 1 << 64
    assert read(b"-" + b"9" * 10_000) < -(1 << 64)
    assert read(b"1e99999") == float("inf")


@pytest.mark.parametrize(
    ("text", "read_as"),
    [
        (rb"\ud800", "\ufffd"),
        (rb"\uDC00x", "\ufffdx"),
        (rb"\ud83d\ude00", "\U0001f600"),
        (rb"\ud83d\ud83d\ude00", "\ufffd\U0001f600"),
        (rb"\ud83d\u0041", "\ufffdA"),
        (rb"\\ud800", "\\ud800"),
        (rb"\\\ud800", "\\\ufffd"),
        (rb"\ude00\ud83d", "\ufffd\ufffd"),
    ],
)
def test_given_half_a_surrogate_pair_then_it_is_replaced_as_in_go(
    text: bytes, read_as: str
) -> None:
    assert read(b'["%b"]' % text) == [read_as]
    assert read_as.encode()


def test_given_half_a_surrogate_that_is_cut_then_it_is_no_json() -> None:
    for text in (rb'["\ud8"]', rb'["\ud80"]', rb'["\ud800'):
        with pytest.raises(ValueError, match=r"escape|Unterminated"):
            read(text)
