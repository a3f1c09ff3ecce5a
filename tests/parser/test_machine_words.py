"""The short cut reads 8 and 16 bytes at a time: every size, place and end, against the model."""

import pytest

from parser.machine import Parser
from parser.ops import PUB
from tests.parser.reading import modelled, read

SIZES = range(1, 41)
LEADS = range(17)
CONTROLS = range(33)
PLAIN = bytes(range(33, 256))


def named(size: int, first: int = 0) -> bytes:
    """A subject of that size; each of its bytes differs from those around it."""
    return (PLAIN * 2)[first : first + size]


@pytest.mark.parametrize("line", [b"PUB %b 5\r\n", b"PUB %b re.ply 5\r\n", b"PUB a %b 5\r\n"])
def test_given_a_word_of_any_size_at_any_place_then_it_is_read_whole(line: bytes) -> None:
    for size in SIZES:
        wire = line % named(size, size) + b"hello\r\n"
        want = modelled(wire * 2)
        for lead in LEADS:
            assert read(Parser(), [wire * 2], lead) == want


def test_given_a_subject_of_any_size_when_the_buffer_ends_anywhere_then_it_is_read_the_same() -> (
    None
):
    for size in SIZES:
        wire = b"PUB %b 0\r\n\r\n" % named(size, 2 * size)
        want = modelled(wire)
        for cut in range(len(wire) + 1):
            assert read(Parser(), [wire[:cut], wire[cut:]], cut % 16) == want
            peeking = Parser()
            buffer = bytearray(wire)
            peeking.attach(buffer, 0, cut)
            assert peeking.peek() == (min(size, cut - 4) if cut > 8 else 0)


@pytest.mark.parametrize("size", [1, 7, 8, 9, 15, 16, 17, 33])
def test_given_any_control_byte_anywhere_in_a_subject_then_the_model_reads_the_same(
    size: int,
) -> None:
    for control in CONTROLS:
        for at in range(size + 1):
            subject = bytearray(named(size))
            subject.insert(at, control)
            for end in (b" 1\r\nx\r\n", b" r 1\r\nx\r\n", b" 1\r\nx\r\nPING\r\n" + b"z" * 40):
                wire = b"PUB " + bytes(subject) + end
                assert read(Parser(), [wire], at % 9) == modelled(wire)


@pytest.mark.parametrize("high", [0x7F, 0x80, 0x81, 0xA0, 0xFF])
def test_given_bytes_that_are_no_letters_then_they_are_part_of_a_subject(high: int) -> None:
    for size in SIZES:
        wire = b"PUB %b 0\r\n\r\n" % (bytes([high]) * size)
        parser = Parser()
        parser.attach(bytearray(wire), 0, len(wire))
        assert parser.peek() == size
        assert parser.next() == PUB
        assert parser.subject_end - parser.subject == size


def test_given_sizes_with_any_number_of_digits_then_the_model_reads_the_same() -> None:
    for digits in range(12):
        for last in (b"0", b"5", b"x", b" 5", b"\t5", b" ", b"/", b":"):
            for end in (b"\r\n", b"\n", b"\r", b" \r\n", b"\r\r\n"):
                wire = b"PUB a " + b"0" * digits + last + end + b"hello\r\nPING\r\n"
                assert read(Parser(), [wire]) == modelled(wire)
