"""CRC-32C against its RFC, an independent package, and itself: by instruction and by tables."""

from pathlib import Path
from random import Random

import google_crc32c
import pytest

from sequencer.journal.crc import crc32c
from tests.support.c_program import needs_compiler, status_of
from tests.support.places import ROOT

HEADER = ROOT / "sequencer" / "journal" / "crc32c.h"
PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include "crc32c.h"

int main(void) {
    static unsigned char data[8192], sealed[2][8192];
    for (int at = 0; at < 8192; at++) data[at] = (unsigned char)(rand() >> 7);
    for (int size = 0; size < 300; size++)
        for (int start = 0; start < 9; start++) {
            crc32c_choose(0);
            uint32_t one = crc32c_extend((uint32_t)size * 77, data + start, size);
            crc32c_choose(1);
            if (one != crc32c_extend((uint32_t)size * 77, data + start, size)) return 1;
        }
    for (int count = 1; count < 9; count++) {
        size_t size = 0;
        for (int record = 0; record < count; record++) {
            uint32_t length = 56 + (uint32_t)(rand() % 400);
            memcpy(data + size + 4, &length, 4);
            size += crc32c_record_size(data + size);
        }
        for (int tables = 0; tables < 2; tables++) {
            crc32c_choose(tables);
            memcpy(sealed[tables], data, size);
            crc32c_seal(sealed[tables], size, 4711);
        }
        if (memcmp(sealed[0], sealed[1], size)) return 2;
        for (size_t at = 0; at < size; at += crc32c_record_size(sealed[0] + at)) {
            uint32_t crc, length = (uint32_t)crc32c_record_size(sealed[0] + at);
            memcpy(&crc, sealed[0] + at, 4);
            if (crc != crc32c_extend(4711, sealed[0] + at + 4, length - 4)) return 3;
        }
    }
    return 0;
}
"""


@pytest.mark.parametrize(
    ("data", "crc"),
    [
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
        (b"123456789", 0xE3069283),
        (b"", 0),
    ],
)
def test_given_the_examples_of_the_rfc_then_the_checksums_are_theirs(data: bytes, crc: int) -> None:
    assert crc32c(data) == crc


def test_given_any_size_and_seed_then_it_is_what_the_package_says() -> None:
    random = Random(1)
    for size in range(300):
        data, seed = random.randbytes(size), random.getrandbits(32)
        assert crc32c(data, seed) == google_crc32c.extend(seed, data)


def test_given_data_in_pieces_then_the_checksum_goes_on() -> None:
    data = bytes(range(256))
    assert crc32c(memoryview(data)[100:], crc32c(bytearray(data[:100]))) == crc32c(data)


@needs_compiler
def test_given_the_header_then_instruction_and_tables_agree_on_records_too(tmp_path: Path) -> None:
    assert status_of(PROGRAM, HEADER, tmp_path) == 0
