"""Steps through a batch of messages: the fast half of a reader, for `for` and for `async for`.

Compiled, a message that is there is handed over without a coroutine: `__anext__` returns an
awaitable that is done. Only when the batch has ended, or a place must be noted, a method of the
reader is called.
"""

from collections.abc import Awaitable
from typing import Any

import cython

from seriatim.client.stream_message import Message


class BatchStepper:
    """The batch that is being handed over, and how far."""

    def __init__(self, keeps: bool) -> None:
        self._keeps = keeps  # the place of each message is noted
        self._batch: list[Message] = []
        self._at = 0
        self._current: Any = None  # handed over last
        self._is_noted = True  # the keeper has its place
        self._given: Any = None  # the awaitable of the last step: it can be used again

    def __next__(self) -> Any:
        if self._keeps or self._at >= len(self._batch):
            return self._step()
        message = self._current = self._batch[self._at]
        self._at += 1
        return message

    if cython.compiled:

        def __anext__(self) -> Awaitable[Any]:
            if self._keeps or self._at >= len(self._batch):
                return self._step()
            message = self._current = self._batch[self._at]
            self._at += 1
            self._given = given_of(message, self._given)
            return self._given
    else:

        async def __anext__(self) -> Any:
            if self._keeps or self._at >= len(self._batch):
                return await self._step()
            message = self._current = self._batch[self._at]
            self._at += 1
            return message

    def _step(self) -> Any:
        """Go on when the batch has ended: the next item, or an awaitable of it."""
        raise NotImplementedError
