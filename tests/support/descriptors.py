"""A process that may open no more files."""

import gc
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def no_descriptors() -> Iterator[None]:
    """This process has no descriptor left."""
    gc.collect()  # what holds one and is not used any more must not let it go meanwhile
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = [os.dup(0)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))), hard))
    try:
        with suppress(OSError):
            while True:
                taken.append(os.dup(0))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in taken:
            os.close(descriptor)
