"""Header blocks with the broker's fields in front, and no forged ones of the same name."""

import re
from email.parser import BytesParser

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sequencer.headers import with_fields, without_fields
from testkit.stage import HEADS, Stage

OURS = b"Nats-Sequence: 7\r\n"
HEAD = b"NATS/1.0\r\n" + OURS
STAMP = OURS + b"Nats-Time-Stamp: 2026-01-31T12:00:00.000000007Z\r\n"
TIME = 1_769_860_800_000_000_007
NAMES = {b"nats-sequence", b"nats-time-stamp"}


@pytest.mark.parametrize(
    ("block", "made"),
    [
        (b"", HEAD + b"\r\n"),
        (b"NATS/1.0\r\n\r\n", HEAD + b"\r\n"),
        (b"NATS/1.0\r\nA: b\r\n\r\n", HEAD + b"A: b\r\n\r\n"),
        (b"NATS/1.0 503 Why\r\n\r\n", b"NATS/1.0 503 Why\r\n" + OURS + b"\r\n"),
        (b"NATS/1.0\r\nNats-Sequence: 9\r\n\r\n", HEAD + b"\r\n"),
        (
            b"NATS/1.0\r\nnATS-sEQUENCE:9\r\nA: b\r\nNATS-SEQUENCE : 8\r\n\r\n",
            HEAD + b"A: b\r\n\r\n",
        ),
        (b"NATS/1.0\r\n Nats-Sequence: 9\r\n\r\n", HEAD + b"\r\n"),
        (b"NATS/1.0\r\n\tmore\r\nA: b\r\n c\r\n\r\n", HEAD + b"A: b\r\n c\r\n\r\n"),
        (b"NATS/1.0\r\nNats-Sequence:\r\n 9\r\n\t8\r\nA: b\r\n\r\n", HEAD + b"A: b\r\n\r\n"),
        (b"NATS/1.0\r\nA: b\nNats-Sequence: 9\r\n\r\n", HEAD + b"A: b\n\r\n"),
        (b"NATS/1.0\r\nA: b\rNats-Sequence: 9\r\n\r\n", HEAD + b"A: b\r\r\n"),
        (b"NATS/1.0\r\n\r\nNats-Sequence: 9\r\n", HEAD + b"\r\n"),
        (b"NATS/1.0\r\nNats-Sequence: 9", HEAD),
        (b"NATS/1.0\r\nNats-Sequence", HEAD),
        (b"NATS/1.0\r\nNats-Sequences: 9\r\n\r\n", HEAD + b"Nats-Sequences: 9\r\n\r\n"),
        (b"NATS/1.0\r\nA: Nats-Sequence: 9\r\n\r\n", HEAD + b"A: Nats-Sequence: 9\r\n\r\n"),
    ],
)
def test_given_a_block_then_the_brokers_field_is_the_only_one_of_its_name(
    block: bytes, made: bytes
) -> None:
    assert with_fields(block, OURS) == made
    assert numbered(block) == made


@pytest.mark.parametrize(
    "block",
    [
        b"junk",
        b"junk\r\nNats-Sequence: 9\r\n\r\n",
        b"NATS/1.0",
        b"NATS/1.0\n\n",
        b"NATS/1.01\r\n\r\n",
        b"nats/1.0\r\n\r\n",
    ],
)
def test_given_what_is_not_a_block_then_the_brokers_stands_for_it_and_says_its_size(
    block: bytes,
) -> None:
    made = HEAD + b"Seriatim-Left-Out: %d\r\n\r\n" % len(block)
    assert with_fields(block, OURS) == made
    assert numbered(block) == made


def test_given_several_fields_then_each_is_the_only_one_of_its_name() -> None:
    block = b"NATS/1.0\r\nNats-Subject: forged\r\nB: c\r\nnats-time-stamp: never\r\n\r\n"
    fields = b"Nats-Subject: a\r\nNats-Time-Stamp: now\r\n"
    assert with_fields(block, fields) == b"NATS/1.0\r\n" + fields + b"B: c\r\n\r\n"


STAMPED = b"NATS/1.0\r\n" + STAMP
FORGED = [
    (b"NATS/1.0\r\nNats-Time-Stamp: 9\r\n\r\n", b"\r\n"),
    (b"NATS/1.0\r\nNats-Sequence: 9\r\nNats-Time-Stamp: 9\r\nA: b\r\n\r\n", b"A: b\r\n\r\n"),
    (b"NATS/1.0\r\nnATS-tIME-sTAMP:9\r\nNATS-SEQUENCE : 8\r\nA: b\r\n\r\n", b"A: b\r\n\r\n"),
    (b"NATS/1.0\r\n Nats-Time-Stamp: 9\r\n\r\n", b"\r\n"),
    (b"NATS/1.0\r\nNats-Time-Stamp:\r\n 9\r\n\t8\r\nA: b\r\n\r\n", b"A: b\r\n\r\n"),
    (b"NATS/1.0\r\nA: b\nNats-Time-Stamp: 9\r\n\r\n", b"A: b\n\r\n"),
    (b"NATS/1.0\r\nA: b\rNats-Time-Stamp: 9\r\n\r\n", b"A: b\r\r\n"),
    (b"NATS/1.0\r\n\r\nNats-Time-Stamp: 9\r\n", b"\r\n"),
    (b"NATS/1.0\r\n\x00Nats-Time-Stamp: 9\r\n\r\n", b"\r\n"),
    (b"NATS/1.0\r\nNats-Time-Stamps: 9\r\n\r\n", b"Nats-Time-Stamps: 9\r\n\r\n"),
    (
        b"NATS/1.0\r\nNats-Schedule: 9\r\nNats-TTL: 1\r\n\r\n",
        b"Nats-Schedule: 9\r\nNats-TTL: 1\r\n\r\n",
    ),
    (b"NATS/1.0\r\nNats-Msg-Id: a-b\r\n\r\n", b"Nats-Msg-Id: a-b\r\n\r\n"),
    (b"NATS/1.0\r\nNats-Time-Stam", b"Nats-Time-Stam"),
    (b"NATS/1.0\r\nNats-S", b"Nats-S"),
    (b"NATS/1.0\r\nNats-", b"Nats-"),
    (b"NATS/1.0\r\n-s-", b"-s-"),
    (b"junk\r\nNats-Time-Stamp: 9\r\n\r\n", b"Seriatim-Left-Out: 28\r\n\r\n"),
]


@pytest.mark.parametrize(("block", "rest"), FORGED)
def test_given_forged_lines_then_number_and_time_are_the_brokers_and_the_first(
    block: bytes, rest: bytes
) -> None:
    assert with_fields(block, STAMP) == STAMPED + rest
    assert numbered(block, "stamp") == STAMPED + rest


@pytest.mark.parametrize(("block", "rest"), FORGED)
def test_given_forged_lines_without_a_number_then_there_are_none(block: bytes, rest: bytes) -> None:
    made = b"NATS/1.0\r\n" + rest
    assert without_fields(block, NAMES) == made
    assert numbered(block, "stamp", b"x.a") == made


def test_given_the_frame_header_then_a_time_of_the_publisher_stays() -> None:
    block = b"NATS/1.0\r\nNats-Time-Stamp: mine\r\nnats-sequence: 9\r\n\r\n"
    kept = b"Nats-Time-Stamp: mine\r\n\r\n"
    assert numbered(block) == HEAD + kept
    assert numbered(block, "header", b"x.a") == b"NATS/1.0\r\n" + kept


def numbered(block: bytes, frame: str = "header", subject: bytes = b"a") -> bytes:
    """The headers that a subscriber with this frame gets; `x.a` is excluded from the order."""
    stage = Stage(number=6, exclude=[b"x.>"])
    stage.sequencer.tick(TIME)
    peer = stage.join(HEADS, frame=frame)
    wire = b"HPUB %b %d %d\r\n%bbody\r\n" % (subject, len(block), len(block) + 4, block)
    heard = peer.ask(b"SUB > 1\r\n", wire)
    line, _, rest = heard.partition(b"\r\n")
    verb, name, sid, head, size = line.split()
    assert (verb, name, sid) == (b"HMSG", subject, b"1")
    assert rest[int(head) :] == b"body\r\n"
    assert int(size) == int(head) + 4
    return rest[: int(head)]


pieces = st.sampled_from(
    [
        *(
            b"NATS/1.0\r\n",
            b"NATS/1.0 5\r\n",
            b"Nats-Sequence",
            b"nats-SEQUENCE",
            b": 9",
            b":",
            b" ",
        ),
        *(b"\t", b"\r\n", b"\r", b"\n", b"A: b", b"\0", b"equ", b"\x0b", b"sequence: 3"),
        *(b"nats-", b"NATS-TIME-", b"stamp", b"Nats-Time-Stamp", b"s-", b"-", b"tim", b"seq"),
    ]
)
blocks = st.lists(pieces, max_size=12).map(b"".join)


@given(blocks | blocks.map(b"NATS/1.0\r\n".__add__))
@example(b"NATS/1.0\r\nA: b\r\nNats-Sequence")
def test_given_any_bytes_for_headers_then_readers_of_all_kinds_find_the_brokers_number(
    block: bytes,
) -> None:
    made = numbered(block)
    assert made == with_fields(block, OURS)
    first, _, rest = made.partition(b"\r\n")
    assert first.startswith(b"NATS/1.0")
    assert rest.startswith(OURS)
    assert not rest[len(OURS) :].startswith((b" ", b"\t")), "nothing continues ours"
    # As clients read them: by CRLF, by any line end, and with Python's own parser of headers.
    for ends in (rb"\r\n", rb"\r\n|\r|\n"):
        names = [line.partition(b":")[0].strip().lower() for line in re.split(ends, rest)]
        assert names.count(b"nats-sequence") == 1
    assert BytesParser().parsebytes(rest).get_all("Nats-Sequence") == ["7"]


@given(blocks.filter(bool) | blocks.map(b"NATS/1.0\r\n".__add__))
@example(b"NATS/1.0\r\nA: b\r\nNats-Time-Stamp")
def test_given_any_bytes_for_headers_then_number_and_time_are_read_as_the_brokers(
    block: bytes,
) -> None:
    made = numbered(block, "stamp")
    assert made == with_fields(block, STAMP)
    first, _, rest = made.partition(b"\r\n")
    assert first.startswith(b"NATS/1.0")
    assert rest.startswith(STAMP)
    assert not rest[len(STAMP) :].startswith((b" ", b"\t")), "nothing continues ours"
    for ends in (rb"\r\n", rb"\r\n|\r|\n"):
        names = [line.partition(b":")[0].strip().lower() for line in re.split(ends, rest)]
        assert [names.count(name) for name in NAMES] == [1, 1]
    unnumbered = numbered(block, "stamp", b"x.a")
    assert unnumbered == without_fields(block, NAMES)
    lines = re.split(rb"\r\n|\r|\n", unnumbered)
    assert not NAMES & {line.partition(b":")[0].strip().lower() for line in lines}
