"""Counts how much of one resource is in use: by each key, and in all."""

from collections.abc import Hashable, ItemsView
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class Quota(Generic[Key]):
    """The use of one resource. Memory: an entry for each key that uses it now.

    Limits are arguments, because most of them may change at any time; use above a lowered limit
    stays until it is released.
    """

    def __init__(self) -> None:
        self.total = 0
        self._used: dict[Key, int] = {}

    def __len__(self) -> int:
        return len(self._used)

    def of(self, key: Key) -> int:
        """Return how much this key uses."""
        return self._used.get(key, 0)

    def items(self) -> ItemsView[Key, int]:
        """Return the keys with what each uses, which is never 0."""
        return self._used.items()

    def add(self, key: Key, amount: int = 1) -> None:
        """Count the use by a key up, or down."""
        self.total += amount
        if used := self._used.get(key, 0) + amount:
            self._used[key] = used
        else:
            self._used.pop(key, None)
