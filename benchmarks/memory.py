"""Makes memory available before a run, so that the machine need not find it during the run.

On a virtual machine whose host reclaims free memory, the first write to a page of the page cache
costs ten times as much as the second. Users see this cost too, so it is measured. Only before a run
of a scenario that says "warm memory", as much memory is used and released. That helps for a
gigabyte or so, and for a second or two, until the host begins to reclaim it.
"""

import mmap

STEP = 1 << 21
RECORD_BYTES = 128  # maximum of a server's own bytes per message


def have_at_hand(messages: int, size: int) -> None:
    """Use as much memory as keeping these messages takes, and release it."""
    total = messages * (size + RECORD_BYTES)
    some = bytes(STEP)
    with mmap.mmap(-1, -(-total // STEP) * STEP) as memory:
        for _ in range(0, total, STEP):
            memory.write(some)
