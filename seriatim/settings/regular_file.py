"""Reads a file that a setting names: no pipe is waited for, and no memory is filled."""

import os
import stat


def read_regular(path: str, most: int) -> bytes | None:
    """The content, cut off one byte after `most`; None if it is not a regular file.

    Raises `OSError`, and `ValueError` for a path with a zero byte.
    """
    # Without O_NONBLOCK a named pipe would be waited for.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        is_regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
        return file.read(most + 1) if is_regular else None
