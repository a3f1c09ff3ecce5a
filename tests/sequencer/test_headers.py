"""Header blocks with the broker's fields in front, and no forged ones of the same name."""

import re
from email.parser import BytesParser

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sequencer.headers import with_fields
from testkit.stage import HEADS, Stage

OURS = b"Nats-Sequence: 7\r\n"
HEAD = b"NATS/1.0\r\n" + OURS


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


def numbered(block: bytes) -> bytes:
    """The headers that a subscriber with the frame `header` gets."""
    stage = Stage(number=6)
    peer = stage.join(HEADS, frame="header")
    wire = b"HPUB a %d %d\r\n%bbody\r\n" % (len(block), len(block) + 4, block)
    heard = peer.ask(b"SUB a 1\r\n", wire)
    line, _, rest = heard.partition(b"\r\n")
    verb, subject, sid, head, size = line.split()
    assert (verb, subject, sid) == (b"HMSG", b"a", b"1")
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
