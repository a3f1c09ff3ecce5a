"""Waits until a descriptor is readable, whatever its number: `select` fails above 1023."""

import select
from collections.abc import Iterable
from typing import Protocol


class HasDescriptor(Protocol):
    def fileno(self) -> int: ...


def is_readable(file: int | HasDescriptor, seconds: float) -> bool:
    """Wait for so long until `file` can be read, or is at its end."""
    waiting = select.poll()
    waiting.register(file, select.POLLIN)
    return bool(waiting.poll(seconds * 1000))


def readable(sockets: Iterable[HasDescriptor], seconds: float) -> int:
    """Wait for so long until one of them can be read, or is at its end; return how many can."""
    waiting = select.poll()
    for one in sockets:
        waiting.register(one, select.POLLIN)
    return len(waiting.poll(seconds * 1000))
