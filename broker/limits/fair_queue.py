"""Queues in which keys take turns: one with much to do does not delay the others.

    FairQueue    items by key; `pop` takes the first item of the next key
    FairTurns    actions by key; each turn of the event loop runs one

The key is what is treated fairly: a user, an address, or a connection.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from operator import itemgetter
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item", bound=Hashable)


class FairQueue(Generic[Key, Item]):
    """Items by key: the keys take turns, and the items of a key keep their order.

    An item is in the queue at most once, and can be removed at any moment, in O(1). So those that
    are no longer wanted leave nothing behind. Memory: an entry for each item, and for each key.
    """

    def __init__(self, key: Callable[[Item], Key]) -> None:
        """`key` returns an item's key, which must not change while the item is queued."""
        self._key = key
        self._lines: OrderedDict[Key, OrderedDict[Item, None]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._lines)

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def __iter__(self) -> Iterator[Item]:
        for line in self._lines.values():
            yield from line

    @property
    def keys(self) -> list[Key]:
        """The keys that have items, in the order of their turns."""
        return list(self._lines)

    def put(self, item: Item) -> None:
        """Append an item to its key's line."""
        key = self._key(item)
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = OrderedDict()
        line[item] = None

    def put_first(self, item: Item) -> None:
        """Put an item before all others; its key has the next turn."""
        self.put(item)
        key = self._key(item)
        self._lines[key].move_to_end(item, last=False)
        self._lines.move_to_end(key, last=False)

    def pop(self) -> Item:
        """Take the next item; its key goes to the end."""
        key, line = self._lines.popitem(last=False)
        item, _ = line.popitem(last=False)
        if line:
            self._lines[key] = line
        return item

    def discard(self, item: Item) -> None:
        """Remove an item; its key keeps its turn."""
        key = self._key(item)
        line = self._lines[key]
        del line[item]
        if not line:
            del self._lines[key]

    def pop_key(self, key: Key) -> list[Item]:
        """Take all items of one key."""
        return list(self._lines.pop(key, ()))

    def firsts(self) -> list[Item]:
        """Return the first item of each key, in the order of their turns."""
        return [next(iter(line)) for line in self._lines.values()]

    def pop_this(self, item: Item) -> None:
        """Take this item, whoever's turn it is; its key goes to the end."""
        self.discard(item)
        key = self._key(item)
        if key in self._lines:
            self._lines.move_to_end(key)

    def pop_newest(self) -> Item:
        """Take the newest item of the key that has the most: what a full queue should drop."""
        key = max(self._lines, key=lambda one: len(self._lines[one]))
        item = next(reversed(self._lines[key]))
        self.discard(item)
        return item


class FairTurns:
    """Runs one action in each turn of the event loop, and the keys take turns.

    What else is ready waits for one action then, and not for all: a thousand clients that bring
    much work at the same time delay only each other, and those of one key only one another.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: FairQueue[Hashable, tuple[Hashable, Callable[[], None]]] = FairQueue(
            itemgetter(0)
        )
        self._scheduled = False

    def add(self, key: Hashable, action: Callable[[], None]) -> None:
        """Run the action when its turn comes."""
        self._waiting.put((key, action))
        self._schedule()

    def _schedule(self) -> None:
        if self._waiting and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        _, action = self._waiting.pop()
        try:
            action()  # which may call `add` again
        finally:
            self._schedule()
