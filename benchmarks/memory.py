"""Memory at hand: what a run is to write, the machine must not first have to find.

On a virtual machine whose host takes back free memory, the first write to a page of the page
cache costs ten times the second. A server that has run for a while writes to pages that were
others before; so before a run that keeps messages, as much memory is used and given back.
That lasts for a gigabyte or so, and for a second or two: then the host has begun to take it.
"""

import mmap

STEP = 1 << 21
RECORD_BYTES = 128  # a server's own bytes for each message, at most


def have_at_hand(messages: int, size: int) -> None:
    """Use as much memory as keeping these messages takes, and give it back."""
    total = messages * (size + RECORD_BYTES)
    some = bytes(STEP)
    with mmap.mmap(-1, -(-total // STEP) * STEP) as memory:
        for _ in range(0, total, STEP):
            memory.write(some)
