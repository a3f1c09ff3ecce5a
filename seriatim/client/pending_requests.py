"""A client's requests that have no answer yet, with one timer for all of them."""

import asyncio
import math
from dataclasses import dataclass

from seriatim.client.errors import BrokerError
from seriatim.client.stream_message import Message


@dataclass(slots=True)
class _Pending:
    subject: str
    end: float  # on the loop's clock
    answer: asyncio.Future[Message]


class PendingRequests:
    """The requests that wait, by their reply subjects; who asked awaits the future of `add`.

    Most are answered long before their time is over. So the timer is that of the request which
    would end first, and stays when that is answered: a timer for each would cost more than all
    else that a request needs.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._pending: dict[str, _Pending] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_end = math.inf

    def add(self, reply: str, subject: str, end: float) -> asyncio.Future[Message]:
        """Return the future of the answer; at `end` on the loop's clock it gets `TimeoutError`."""
        answer: asyncio.Future[Message] = self._loop.create_future()
        self._pending[reply] = _Pending(subject, end, answer)
        if end < self._timer_end:
            self._set_timer(end)
        return answer

    def drop(self, reply: str) -> None:
        """Expect no answer any more, if one was expected."""
        self._pending.pop(reply, None)

    def answered(self, message: Message) -> None:
        """Pass an answer on to the request that waits for it, if one does."""
        pending = self._pending.get(message.subject)
        if pending is not None and not pending.answer.done():
            pending.answer.set_result(message)

    def fail(self, error: BrokerError, subject: str = "") -> bool:
        """Fail all requests, or those to one subject; return whether there are any."""
        found = [one for one in self._pending.values() if not subject or one.subject == subject]
        for one in found:
            _fail(one.answer, error)
        return bool(found)

    def close(self, error: BrokerError) -> None:
        """Fail all requests, and stop the timer: there will be no more of them."""
        self.fail(error)
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_end = None, math.inf

    def _set_timer(self, end: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_end = self._loop.call_at(end, self._expire), end

    def _expire(self) -> None:
        """End the requests whose time is over, and wait for the next one."""
        self._timer, self._timer_end = None, math.inf
        now = self._loop.time()
        ends = []
        for pending in self._pending.values():
            if pending.end <= now:
                _fail(pending.answer, TimeoutError())
            elif not pending.answer.done():
                ends.append(pending.end)
        if ends:
            self._set_timer(min(ends))


def _fail(answer: asyncio.Future[Message], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
        answer.exception()  # retrieved, in case its task was cancelled
