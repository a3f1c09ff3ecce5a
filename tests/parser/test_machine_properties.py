"""The byte machine on any stream: chunking never matters, and the plain model agrees."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from parser.machine import Parser
from parser.ops import MORE, PUB
from tests.parser.reading import Said, modelled, read, split
from tests.parser.streams import cuts, payloads, subjects, wires
from tests.support.depth import examples

many = settings(max_examples=examples(400))
some = settings(max_examples=examples(100))


@many
@given(wire=wires(), headers=st.booleans())
@example(wire=b"PUB x 18446744073709551614\r\nhello\r\n", headers=True)
@example(wire=b"SUB \na 1\r\n", headers=True)
@example(wire=b"UNSUB \nPING\r\n", headers=True)
@example(wire=b"PUB a\r1 1\r\nx\r\n", headers=True)
@example(wire=b"HPUB a 2000000 1\r\n", headers=False)
def test_given_any_stream_when_read_then_the_model_reads_the_same(
    wire: bytes, headers: bool
) -> None:
    parser = Parser(32, 24)
    parser.headers = headers
    assert read(parser, [wire]) == modelled(wire, 32, 24, headers)


@many
@given(wire=wires(), places=cuts, lead=st.integers(0, 40))
def test_given_any_chunking_when_read_then_the_operations_are_the_same(
    wire: bytes, places: list[int], lead: int
) -> None:
    whole = read(Parser(32, 24), [wire])
    assert read(Parser(32, 24), split(wire, places), lead) == whole
    assert read(Parser(32, 24), [wire[at : at + 1] for at in range(len(wire))]) == whole


@some
@given(wire=st.binary(max_size=64), places=cuts)
def test_given_any_bytes_at_all_when_read_then_chunking_does_not_matter(
    wire: bytes, places: list[int]
) -> None:
    whole = read(Parser(), [wire])
    assert whole == modelled(wire)
    assert read(Parser(), split(wire, places)) == whole


@st.composite
def encoded(draw: st.DrawFn) -> tuple[bytes, Said]:
    """An operation, and what it must be read as."""
    kind = draw(st.sampled_from(["PUB", "HPUB", "SUB", "UNSUB", "PING"]))
    subject = draw(subjects.filter(bool))
    if kind == "PING":
        return b"PING\r\n", Said("PING")
    if kind == "SUB":
        queue = draw(st.sampled_from([b"", b"q"]))
        words = b" ".join(word for word in (subject, queue, b"1") if word)
        return b"SUB %b\r\n" % words, Said("SUB", (subject, queue, b"1"))
    if kind == "UNSUB":
        most = draw(st.sampled_from([b"", b"5"]))
        return b"UNSUB %b %b\r\n" % (subject, most), Said("UNSUB", (subject, b"", most))
    reply, payload = draw(st.sampled_from([b"", b"r.1"])), draw(payloads)
    total = b"%d" % len(payload)
    if kind == "PUB":
        line = b" ".join(word for word in (b"PUB", subject, reply, total) if word)
        said = Said("PUB", (subject, reply, total), payload)
        return line + b"\r\n" + payload + b"\r\n", said
    head = draw(st.integers(0, len(payload)))
    line = b" ".join(word for word in (b"HPUB", subject, reply, b"%d" % head, total) if word)
    said = Said("HPUB", (subject, reply, b"%d" % head, total), payload, head)
    return line + b"\r\n" + payload + b"\r\n", said


@many
@given(operations=st.lists(encoded(), max_size=8), places=cuts)
def test_given_operations_when_encoded_and_read_then_they_are_what_they_were(
    operations: list[tuple[bytes, Said]], places: list[int]
) -> None:
    wire = b"".join(text for text, _ in operations)
    assert read(Parser(), split(wire, places)) == [said for _, said in operations]


SLOW_WAYS = [
    b"pub %b %d\r\n%b\r\n",
    b"PUB\t%b %d\r\n%b\r\n",
    b"PUB %b\t%d\r\n%b\r\n",
    b"PUB  %b %d\r\n%b\r\n",
    b"PUB %b  %d\r\n%b\r\n",
    b"PUB %b %d \r\n%b\r\n",
    b"PUB %b %d\n%b\r\n",
]


@pytest.mark.parametrize("way", SLOW_WAYS, ids=lambda way: repr(way)[2:-1])
@given(subject=subjects.filter(bool), payload=payloads)
@some
def test_given_a_publish_when_it_takes_the_slow_way_then_it_is_read_as_by_the_short_cut(
    way: bytes, subject: bytes, payload: bytes
) -> None:
    plain = b"PUB %b %d\r\n%b\r\n" % (subject, len(payload), payload)
    slow = way % (subject, len(payload), payload)
    assert read(Parser(), [slow]) == read(Parser(), [plain])


@some
@given(wire=wires())
def test_given_any_stream_when_peeked_at_before_each_step_then_it_is_read_the_same(
    wire: bytes,
) -> None:
    peeking, plain = Parser(), Parser()
    buffer = bytearray(wire + b"PUB z 1\r\n")
    peeking.attach(buffer, 0, len(wire))
    plain.attach(buffer, 0, len(wire))
    while plain.fault is None:
        seen = peeking.peek()
        assert seen == peeking.peek(), "to look twice changes nothing"
        at = plain.at
        op = plain.next()
        assert peeking.next() == op
        assert (peeking.at, peeking.state) == (plain.at, plain.state)
        if op == PUB:
            size = plain.subject_end - plain.subject
            short = buffer[at : at + 4] == b"PUB " and buffer[at + 4] not in b" \t"
            if short:
                assert seen in (0, size) or min(buffer[at + 4 : plain.subject_end]) <= 32
        if op == MORE:
            break
