"""What breaks the byte machine, and the exact bounds of its limits."""

import pytest

from parser import errors
from parser.machine import Parser
from parser.ops import FAULT, MORE, PUB
from tests.parser.reading import fault_of, read, read_bytes, read_whole

PUBLISH = b"PUB a 1\r\nx\r\n"


@pytest.mark.parametrize(
    ("wire", "fault"),
    [
        # a verb that is none, at its first wrong byte: no line feed is awaited
        (b"\r\n", "UnknownOperation"),
        (b" ", "UnknownOperation"),
        (b"X", "UnknownOperation"),
        (b"PUBx", "UnknownOperation"),
        (b"PUB\r", "UnknownOperation"),
        (b"SUB\n", "UnknownOperation"),
        (b"UNSUB\r", "UnknownOperation"),
        (b"HPUBa", "UnknownOperation"),
        (b"MSG", "UnknownOperation"),
        (b"HM", "UnknownOperation"),
        (b"RS+", "UnknownOperation"),
        (b"+OX", "UnknownOperation"),
        (b"-ERRx", "UnknownOperation"),
        (b"-ERR\r", "UnknownOperation"),
        (b"PIX", "UnknownOperation"),
        (b"CONNECX", "UnknownOperation"),
        (b"\x00", "UnknownOperation"),
        # what a client may not say
        (b"-ERR \r\n", "PeerError"),
        (b"-err 'x'\n", "PeerError"),
        # too few or too many words
        (b"SUB a\r\n", "BadArguments"),
        (b"SUB a b c d\r\n", "BadArguments"),
        (b"SUB a b c d e f\r\n", "BadArguments"),
        (b"SUB \r\n", "BadArguments"),
        (b"UNSUB \r\n", "BadArguments"),
        (b"UNSUB 1 2 3\r\n", "BadArguments"),
        (b"PUB a\r\n", "BadArguments"),
        (b"PUB \r\n", "BadArguments"),
        (b"PUB a b 1 1\r\n", "BadArguments"),
        (b"HPUB a 1\r\n", "BadArguments"),
        (b"HPUB a r 1 1 1\r\n", "BadArguments"),
        # sizes
        (b"PUB a x\r\n", "BadArguments"),
        (b"PUB a -1\r\n", "BadArguments"),
        (b"PUB a +1\r\n", "BadArguments"),
        (b"PUB a 1_0\r\n", "BadArguments"),
        (b"PUB a 1\r\r\n", "BadArguments"),
        (b"PUB a 0000000001\r\n", "BadArguments"),
        (b"PUB a 4294967297\r\n", "BadArguments"),
        (b"PUB x 18446744073709551614\r\nhello\r\n", "BadArguments"),
        (b"PUB x 18446744073709551616\r\n", "BadArguments"),
        (b"HPUB a x 1\r\n", "BadArguments"),
        (b"HPUB a 1 x\r\n", "BadArguments"),
        (b"HPUB a 18446744073709551615 1\r\n", "BadArguments"),
        (b"HPUB a 2 1\r\n", "BadArguments"),
        (b"HPUB a 2000000 1\r\n", "BadArguments"),
        (b"PUB a 999999999\r\n", "PayloadTooLarge"),
        (b"HPUB a 1 2000000\r\n", "PayloadTooLarge"),
        # the end of a payload, at its first wrong byte
        (b"PUB a 1\r\nxx", "PayloadUnended"),
        (b"PUB a 1\r\nx\n", "PayloadUnended"),
        (b"PUB a 1\r\nx\rx", "PayloadUnended"),
        (b"PUB a 0\r\nx", "PayloadUnended"),
        (b"HPUB a 1 1\r\nx\r\r", "PayloadUnended"),
    ],
    ids=lambda value: repr(value)[2:-1] if isinstance(value, bytes) else "",
)
def test_given_a_broken_rule_when_read_then_the_stream_ends_with_this_fault(
    wire: bytes, fault: str
) -> None:
    assert fault_of(wire) == fault
    assert fault_of(PUBLISH + wire) == fault


@pytest.mark.parametrize("wire", [b"X", b"PUB a x\r\n", b"PUB a 1\r\nxx", b"-ERR \r\n"])
def test_given_a_fault_when_read_then_what_stood_before_was_read_and_what_stands_after_is_not(
    wire: bytes,
) -> None:
    found = read_whole(PUBLISH * 2 + wire + PUBLISH)
    assert [said.op for said in found[:2]] == ["PUB", "PUB"]
    assert len(found) == 3


def test_given_hpub_without_headers_agreed_then_it_is_judged_at_the_end_of_its_line() -> None:
    parser = Parser()
    parser.headers = False
    assert read(parser, [b"HPUB a 1"]) == []
    parser = Parser()
    parser.headers = False
    assert read(parser, [b"HPUB a 0 0\r\n"])[0].op == "FAULT HeadersNotAgreed"


def test_given_a_fault_then_the_machine_says_what_it_was_with_what_was_seen() -> None:
    parser = Parser(max_payload=10)
    wire = bytearray(b"PUB a 11\r\n")
    parser.attach(wire, 0, len(wire))
    assert parser.next() == FAULT
    assert isinstance(parser.fault, errors.PayloadTooLarge)
    assert str(parser.fault) == "11 bytes announced"


@pytest.mark.parametrize("wire", [b"X", b"PUB a x\r\n", b"PUB a 1\r\nxx"])
def test_given_a_fault_when_read_on_then_there_is_no_way_back(wire: bytes) -> None:
    parser = Parser()
    parser.attach(bytearray(wire), 0, len(wire))
    assert parser.next() == FAULT
    fault = parser.fault
    parser.attach(bytearray(PUBLISH), 0, len(PUBLISH))
    for _ in range(2):
        assert parser.next() == FAULT
        assert parser.fault is fault


@pytest.mark.parametrize("verb", [b"PUB ", b"pub ", b"PUB\t"])
@pytest.mark.parametrize("over", [0, 1])
def test_given_a_payload_at_the_limit_then_it_passes_and_one_byte_more_does_not(
    verb: bytes, over: int
) -> None:
    size = 100 + over
    line = b"a %d\r\n" % size
    found = read_bytes(verb + line, max_payload=100)
    assert [said.op for said in found] == (["FAULT PayloadTooLarge"] if over else [])
    found = read_whole(verb + line + b"x" * size + b"\r\n", max_payload=100)
    assert [said.op for said in found] == (["FAULT PayloadTooLarge"] if over else ["PUB"])


def test_given_headers_then_the_payload_limit_is_for_the_whole() -> None:
    assert fault_of(b"HPUB a 4 10\r\n", max_payload=10) == ""
    assert fault_of(b"HPUB a 4 11\r\n", max_payload=10) == "PayloadTooLarge"


def arguments(verb: bytes, length: int) -> bytes:
    """Arguments of exactly this length, right for the verb."""
    if verb == b"PUB":
        return b"a" * (length - 2) + b" 0"
    if verb == b"HPUB":
        return b"a" * (length - 4) + b" 0 0"
    if verb == b"SUB":
        return b"a" * (length - 2) + b" 1"
    return b"1" * length


@pytest.mark.parametrize("verb", [b"CONNECT", b"SUB", b"UNSUB", b"PUB", b"HPUB", b"INFO"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("blanks", [1, 700])
def test_given_arguments_at_the_limit_then_they_pass_and_one_byte_more_does_not(
    verb: bytes, end: bytes, blanks: int
) -> None:
    for length, fault in ((600, ""), (601, "ControlLineTooLong")):
        line = verb + b" " * blanks + arguments(verb, length)
        after = b"\r\n" if verb in (b"PUB", b"HPUB") else b""
        assert fault_of(line + end + after, max_control_line=600) == fault


@pytest.mark.parametrize("verb", [b"PUB ", b"SUB ", b"CONNECT ", b"-ERR "])
def test_given_a_line_without_an_end_then_it_waits_up_to_the_limit_and_breaks_beyond(
    verb: bytes,
) -> None:
    assert fault_of(verb + b"a" * 600, max_control_line=600) == ""
    assert fault_of(verb + b"a" * 600 + b"\r", max_control_line=600) == ""
    assert fault_of(verb + b"a" * 601, max_control_line=600) == "ControlLineTooLong"
    assert fault_of(verb + b"a" * 600 + b"\ra", max_control_line=600) == "ControlLineTooLong"


def test_given_a_short_pub_over_the_line_limit_then_the_short_cut_does_not_let_it_pass() -> None:
    for length, op in ((600, "PUB"), (601, "FAULT ControlLineTooLong")):
        wire = b"PUB " + arguments(b"PUB", length) + b"\r\n\r\n"
        assert read_whole(wire, max_control_line=600)[0].op == op


@pytest.mark.parametrize("verb", [b"PING", b"PONG", b"+OK"])
def test_given_a_line_that_is_ignored_then_it_may_be_as_long_as_it_likes(verb: bytes) -> None:
    assert fault_of(verb + b"x" * 9000 + b"\r\n") == ""


def test_given_the_limits_changed_between_reads_then_the_next_operation_keeps_to_them() -> None:
    parser = Parser()
    buffer = bytearray(b"PUB a 5\r\nhello\r\n")
    parser.attach(buffer, 0, len(buffer))
    assert parser.next() == PUB
    assert parser.next() == MORE
    parser.max_payload = 4
    parser.attach(buffer, 0, len(buffer))
    assert parser.next() == FAULT
