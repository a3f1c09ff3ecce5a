"""Short spans are copied inline: every size, and no byte outside."""

from pathlib import Path

from tests.support.c_program import needs_compiler, status_of
from tests.support.places import ROOT

HEADER = ROOT / "sequencer" / "copy.h"
PROGRAM = """
#include <stdlib.h>
#include "copy.h"

int main(void) {
    for (size_t size = 0; size < 200; size++) {
        unsigned char *from = malloc(size + 1), *to = malloc(size + 2), guard = 0xA5;
        from += 1, to += 1;  /* any place; the sanitizer watches what is beyond the last byte */
        for (size_t at = 0; at < size; at++) from[at] = (unsigned char)(rand() >> 7);
        to[-1] = to[size] = guard;
        copy_span(to, from, size);
        if (to[-1] != guard || to[size] != guard || memcmp(to, from, size)) return 1;
        free(from - 1);
        free(to - 1);
    }
    return 0;
}
"""


@needs_compiler
def test_given_any_size_then_so_many_bytes_are_copied_and_no_others_touched(tmp_path: Path) -> None:
    assert status_of(PROGRAM, HEADER, tmp_path) == 0
