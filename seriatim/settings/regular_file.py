"""Reads a file that a setting names, without waiting for a pipe or filling the memory."""

import os
import stat


def read_regular(path: str, most: int) -> bytes | None:
    """Read the content, cut off one byte after `most`; None if it is not a regular file.

    Raises `OSError`, and `ValueError` for a path with a zero byte.
    """
    # Without O_NONBLOCK this would wait for a named pipe.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        is_regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
        return file.read(most + 1) if is_regular else None
