"""Loaded by a broker that tests.support.counted has started: on a signal it writes its counts."""

import os

if fifo := os.environ.get("COUNTED_FIFO"):
    import ctypes
    import gc
    import json
    import signal
    import sys
    from collections import Counter

    class _Malloc(ctypes.Structure):
        """`struct mallinfo2` of glibc 2.33 and later."""

        _fields_ = [
            (name, ctypes.c_size_t)
            for name in (
                *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
                *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
            )
        ]

    _libc = ctypes.CDLL(None)

    def _malloc() -> int:
        """Bytes that are in use; 0 where the C library does not tell."""
        if not hasattr(_libc, "mallinfo2"):
            return 0
        _libc.mallinfo2.restype = _Malloc
        found = _libc.mallinfo2()
        return int(found.uordblks + found.hblkhd)

    def _tell(*_: object) -> None:
        gc.collect()  # cycles wait for the collector, which comes rarely
        blocks, used = sys.getallocatedblocks(), _malloc()
        types = Counter(
            f"{type(one).__module__}.{type(one).__qualname__}" for one in gc.get_objects()
        )
        with open(str(fifo), "w") as file:
            json.dump({"blocks": blocks, "malloc": used, "types": types}, file)

    signal.signal(signal.SIGRTMIN + 3, _tell)
