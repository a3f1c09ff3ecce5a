"""Waits until a descriptor is readable, whatever its number: `select` fails above 1023."""

import select
from typing import Protocol


class HasDescriptor(Protocol):
    def fileno(self) -> int: ...


def is_readable(file: int | HasDescriptor, seconds: float) -> bool:
    """Wait for so long until `file` can be read, or is at its end."""
    waiting = select.poll()
    waiting.register(file, select.POLLIN)
    return bool(waiting.poll(seconds * 1000))
