"""Control subjects: what they request, and the errors for those that are not valid."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.replay.requests import (
    MS_MAX,
    PAST,
    BadRequest,
    From,
    Get,
    Info,
    Last,
    Range,
    Read,
    Request,
    Since,
    parse,
)
from parser.errors import PublishForbidden, ReplayRefused
from sequencer.sequencer import NUMBER_MAX
from sublist.subject import is_pattern


@pytest.mark.parametrize(
    ("subject", "request_"),
    [
        (b"$SEQ.FROM.1.>", From(1, b">")),
        (b"$SEQ.FROM.88485.orders.*.new", From(88485, b"orders.*.new")),
        (b"$SEQ.FROM.9223372036854775807.a", From(NUMBER_MAX, b"a")),
        (b"$SEQ.FROM.007.a", From(7, b"a")),
        (b"$SEQ.RANGE.1.1.>", Range(1, 1, b">")),
        (b"$SEQ.RANGE.5.12.a.5.12", Range(5, 12, b"a.5.12")),
        (b"$SEQ.SINCE.0.>", Since(0, b">")),
        (b"$SEQ.SINCE.1767225600000.a.>", Since(1767225600000, b"a.>")),
        (b"$SEQ.SINCE.9223372036854.a", Since(MS_MAX, b"a")),
        (b"$SEQ.LAST.>", Last(b">")),
        (b"$SEQ.LAST.5.>", Last(b"5.>")),
        (b"$SEQ.GET.7", Get(7)),
        (b"$SEQ.INFO", Info()),
        (b"$SEQ.READ", Read()),
    ],
)
def test_given_a_control_subject_when_read_then_it_asks_for_this(
    subject: bytes, request_: Request
) -> None:
    found = parse(subject)
    assert (type(found), found) == (type(request_), request_)


@pytest.mark.parametrize(
    "subject",
    [
        b"orders.new",
        b"$SEQ",
        b"$SEQ.",
        b"$SEQ.>",
        b"$SEQ.*",
        b"$SEQ.FROMAGE.5.>",
        b"$SEQ.from.5.>",
        b"$SEQ.INFO.x",
        b"$SEQ.INFO.",
        b"$SEQ.READ.5",
        b"$SEQ.PUB.orders",
        b"$SEQ.END.5",
        b"$SEQ.LOST.1.5",
        b"$JS.FROM.5.>",
        b"$seq.FROM.5.>",
    ],
)
def test_given_another_subject_when_read_then_it_asks_for_nothing(subject: bytes) -> None:
    assert parse(subject) is None


FROM = "write $SEQ.FROM.<number>.<subject>, such as $SEQ.FROM.88485.> for every subject"
RANGE = "write $SEQ.RANGE.<first>.<last>.<subject>, such as $SEQ.RANGE.1.1000.> for every subject"


@pytest.mark.parametrize(
    ("subject", "why"),
    [
        (b"$SEQ.FROM", FROM),
        (b"$SEQ.FROM.", FROM),
        (b"$SEQ.FROM.5", FROM),
        (b"$SEQ.FROM.5.", FROM),
        (b"$SEQ.FROM..>", FROM),
        (b"$SEQ.FROM.>", FROM),
        (b"$SEQ.FROM.*.>", '"*" is not a valid message number'),
        (b"$SEQ.FROM.orders.>", '"orders" is not a valid message number'),
        (b"$SEQ.FROM.-1.>", '"-1" is not a valid message number'),
        (b"$SEQ.FROM.+1.>", '"+1" is not a valid message number'),
        (b"$SEQ.FROM.1_0.>", '"1_0" is not a valid message number'),
        (b"$SEQ.FROM.\xc2\xb2.>", '"²" is not a valid message number'),
        (b"$SEQ.FROM.\xff'.>", '"\\xff\'" is not a valid message number'),
        (b"$SEQ.FROM.0.>", "0 is not a valid message number; the first is 1"),
        (
            b"$SEQ.FROM.9223372036854775808.>",
            '"9223372036854775808" is above the largest number, 9223372036854775807',
        ),
        (
            b"$SEQ.FROM." + b"9" * 4000 + b".>",
            f'"{"9" * 40}..." is above the largest number, 9223372036854775807',
        ),
        (b"$SEQ.FROM.5.a..b", '"a..b" is not a subject that can be subscribed to'),
        (b"$SEQ.FROM.5.>.a", '">.a" is not a subject that can be subscribed to'),
        (b"$SEQ.FROM.5.$SEQ.>", "subjects below $SEQ. are not kept, so they cannot be replayed"),
        (b"$SEQ.RANGE", RANGE),
        (b"$SEQ.RANGE.5", RANGE),
        (b"$SEQ.RANGE.5.9", RANGE),
        (b"$SEQ.RANGE.5.x.>", '"x" is not a valid message number'),
        (b"$SEQ.RANGE.9.5.>", "9 is above 5; write the smaller number first"),
        (
            b"$SEQ.SINCE.now",
            "write $SEQ.SINCE.<unix ms>.<subject>, such as $SEQ.SINCE.1767225600000.>"
            " for every subject",
        ),
        (b"$SEQ.SINCE.10m.>", '"10m" is not a valid time; write milliseconds since 1970'),
        (
            b"$SEQ.SINCE.1767225600000000.>",
            '"1767225600000000" is after the year 2262; write milliseconds since 1970',
        ),
        (b"$SEQ.LAST", "write $SEQ.LAST.<subject>, such as $SEQ.LAST.>"),
        (b"$SEQ.LAST.", "write $SEQ.LAST.<subject>, such as $SEQ.LAST.>"),
        (b"$SEQ.LAST.a.", '"a." is not a subject that can be subscribed to'),
        (b"$SEQ.GET", "write $SEQ.GET.<number>, such as $SEQ.GET.88485"),
        (b"$SEQ.GET.x", '"x" is not a valid message number'),
        (b"$SEQ.GET.5.a", '"5.a" is not a valid message number'),
    ],
)
def test_given_a_wrong_request_when_read_then_it_says_what_to_write(
    subject: bytes, why: str
) -> None:
    with pytest.raises(BadRequest) as refused:
        parse(subject)
    assert str(refused.value) == why


words = st.sampled_from(
    [b"FROM", b"RANGE", b"SINCE", b"LAST", b"GET", b"INFO", b"1", b"0", b">", b"*", b"", b"$SEQ"]
) | st.binary(max_size=6)


@given(st.lists(words, max_size=6))
def test_given_any_words_when_read_then_a_request_or_one_line_that_says_why(
    words: list[bytes],
) -> None:
    subject = b".".join([b"$SEQ", *words])
    try:
        request = parse(subject)
    except BadRequest as refused:
        why = str(refused)
        for error in (PublishForbidden(subject, why), ReplayRefused(subject, why.encode())):
            reply = error.reply
            assert reply.startswith(b"-ERR 'Permissions Violation for ")
            assert reply.count(b"\n") == 1
            assert reply.endswith(b"'\r\n")
    else:
        match request:
            case From(number=number) | Range(first=number) | Get(number=number):
                assert 1 <= number <= NUMBER_MAX
        if isinstance(request, PAST):
            assert is_pattern(request.filter)
