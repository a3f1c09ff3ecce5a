"""`seriatim.tail`: the messages of a store on this machine, from the past on and live.

    Tail               what the user iterates over, with `for` or `async for`
    `-- StoreReading   the state: the files, and how far it has got

The broker does not notice it. A tail that waits is woken by the broker, through the memory that
both have mapped, and looks by itself only for another broker or journal. With `async for`, reading
and waiting are done in a thread of its own, one step at a time, so files are never closed while
they are read. Nothing happens unless the user asks for the next message.

If the store is cut or replaced, it is opened again. If the numbers seen so far may be other
messages now, `JournalChanged` says so.
"""

import asyncio
import os
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final, Generic, Literal, Self, TypeVar, overload

from sequencer.journal import Lost as StoreLost
from sequencer.journal import Reader, Record, StoreError
from sequencer.journal.reader import ColumnFollower
from seriatim.client.chunk_columns import Columns
from seriatim.client.errors import BrokerError, InvalidArgument, JournalChanged, Lost, Position
from seriatim.client.message_table import NUMBER_MAX, messages_of
from seriatim.client.stream_message import Message
from seriatim.store.store_table import open_store, wanted_of

ROWS_MAX: Final = 1 << 10  # at a time: they become objects while the event loop waits
CHUNK_BYTES: Final = 1 << 17
LOOK_SECONDS: Final = 0.25  # after which a wait ends, whatever happens; closing takes as long
AGAIN_SECONDS: Final = 5.0  # for a store that is being cut, or moved
AGAIN_STEP: Final = 0.02

Losses = Literal["raise", "yield"]
StoreItem = list[Message] | Lost | JournalChanged
Got = TypeVar("Got", bound=Message | Lost | JournalChanged)


class StoreReading:
    """The state of one tail. One thread at a time calls `take` and `close`."""

    def __init__(
        self,
        reader: Reader,
        wanted: Callable[[bytes], bool] | None,
        start: int | Position | None,
        until: int | None,
        follow: bool,
    ) -> None:
        self.journal = ""
        self.reached = 0  # the number up to which all was handed over
        self.reached_time = 0  # ns, of the message of that number; 0: not known
        self.is_closed = False
        self._path = reader.view.path
        self._reader: Reader | None = reader
        self._wanted = wanted
        self._begin = 0 if start is None or isinstance(start, Position) else start
        self._until = until
        self._follow = follow
        self._follower: ColumnFollower | None = None
        if isinstance(start, Position) and start.journal:
            self.journal, self.reached, self.reached_time = start
            self._begin = start.number + 1

    def take(self) -> StoreItem | None:
        """Return what is next; an empty list if nothing has come, None at the end."""
        if self.is_closed:
            return None
        again_until = time.monotonic() + AGAIN_SECONDS
        while True:
            try:
                return self._take_once()
            except StoreError as error:
                self._drop()
                if time.monotonic() >= again_until:
                    raise BrokerError(str(error)) from None
            except BaseException:
                self._drop()
                raise
            time.sleep(AGAIN_STEP)

    def _take_once(self) -> StoreItem | None:
        if self._follower is None:
            changed = self._open()
            if changed is not None:
                return changed
        follower = self._follower
        assert follower is not None, "it was opened"
        found = follower.poll()
        if found is None:
            if follower.done or not self._follow:
                self.close()
                return None
            follower.wait(LOOK_SECONDS)
            found = follower.poll()
        if found is None:
            return []
        if isinstance(found, StoreLost):
            self.reached, self.reached_time = found.last, 0
            self._begin = found.last + 1
            return Lost(found.first, found.last)
        messages = list(messages_of(Columns(found)))
        self.reached, self.reached_time = messages[-1].number, messages[-1].time_ns
        self._begin = self.reached + 1
        return messages

    def _open(self) -> JournalChanged | None:
        """Open the store, and compare it with what was seen."""
        reader = self._reader = self._reader or Reader(self._path)
        changed = None
        if self.journal and self.reached:
            changed = self._change(reader)
        self.journal = reader.journal
        if changed is not None:
            self.reached = self.reached_time = self._begin = 0
            self._until = None
            return changed
        self._follower = reader.follow_columns(
            *(self._begin, self._until, self._wanted, ROWS_MAX, CHUNK_BYTES)
        )
        return None

    def _change(self, reader: Reader) -> JournalChanged | None:
        """Return the change, if what was seen is not there, or is something else now."""
        last = reader.bounds()[1]
        until = time.monotonic() + AGAIN_SECONDS
        while reader.view.is_member and last < self.reached and time.monotonic() < until:
            time.sleep(AGAIN_STEP)  # a member of a cluster may be behind another
            last = reader.bounds()[1]
        same = reader.journal == self.journal and last >= self.reached
        if same and self.reached_time:
            for item in reader.records(self.reached, self.reached):
                same = not isinstance(item, Record) or item.time == self.reached_time
        if same:
            return None
        before = Position(self.journal, self.reached, self.reached_time)
        return JournalChanged(before, Position(reader.journal, last))

    def _drop(self) -> None:
        """Close the files; the next `take` opens them again."""
        follower, self._follower, self._reader = self._follower, None, None
        if follower is not None:
            follower.close()

    def close(self) -> None:
        """End it, in any state."""
        self.is_closed = True
        self._drop()


class Tail(Generic[Got]):
    """The messages of a store: `for message in tail`, or `async for`, and where it has got to.

    Iterating yields `Message`s; with `losses="yield"` also `Lost` and `JournalChanged`. Otherwise
    these are raised, and iterating may go on behind them. `with tail` or `async with tail`,
    `close` or `aclose`, and losing the last reference to it close the files.
    """

    def __init__(self, reading: StoreReading, yields: bool) -> None:
        self._reading = reading
        self._yields = yields
        self._batch: list[Message] = []
        self._at = 0
        self._current: Message | Lost | None = None  # handed over last
        self._threads: ThreadPoolExecutor | None = None  # of one thread, for `async for`
        self._job: Future[StoreItem | None] | None = None  # goes on if who waits is cancelled
        self._is_closed = False

    @property
    def position(self) -> Position:
        """The place behind what was handed over last; to be kept with its effect."""
        current, reading = self._current, self._reading
        if current is None:
            return Position(reading.journal, reading.reached, reading.reached_time)
        if isinstance(current, Lost):
            return Position(reading.journal, current.last)
        return Position(reading.journal, current.number, current.time_ns)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Got:
        """Return the next item. Raises `BrokerError`, and `StopIteration` at the end."""
        at = self._at
        if at < len(self._batch):
            self._at = at + 1
            message = self._current = self._batch[at]
            return message  # type: ignore[return-value]
        while not self._is_closed:
            if self._threads is None:
                item = self._reading.take()
            else:  # it was iterated over with `async for` before
                item = self._start().result()
                self._job = None
            if item != []:
                return self._hand_over(item, StopIteration)
        raise StopIteration

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Got:
        """Return the next item. Raises `BrokerError`, and `StopAsyncIteration` at the end."""
        at = self._at
        if at < len(self._batch):
            self._at = at + 1
            message = self._current = self._batch[at]
            return message  # type: ignore[return-value]
        while not self._is_closed:
            job = self._start()
            await _finished(job)
            if self._job is not job:
                continue  # another task was faster
            self._job = None
            item = job.result()
            if item != []:
                return self._hand_over(item, StopAsyncIteration)
        raise StopAsyncIteration

    def _start(self) -> "Future[StoreItem | None]":
        """Have the next step done in the thread, unless it is under way."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(1, "seriatim-tail")
        if self._job is None:
            self._job = self._threads.submit(self._reading.take)
        return self._job

    def _hand_over(self, item: StoreItem | None, end: type[Exception]) -> Got:
        """Return what came next. Raises a loss, if losses are to be raised, and `end`."""
        self._batch, self._at = [], 0
        if item is None:
            self.close()
            raise end
        if isinstance(item, list):
            self._batch, self._at, self._current = item, 1, item[0]
            return item[0]  # type: ignore[return-value]
        self._current = item if isinstance(item, Lost) else None
        if self._yields:
            return item  # type: ignore[return-value]
        raise item

    def close(self) -> None:
        """End it, in any state, and close the files: behind a step that is under way."""
        self._close()

    async def aclose(self) -> None:
        """End it, in any state; when it returns, the files are closed."""
        closing = self._close()
        if closing is not None:
            await _finished(closing)

    def _close(self) -> "Future[None] | None":
        if self._is_closed:
            return None
        self._is_closed = True
        self._batch, self._at = [], 0
        if self._threads is None:
            self._reading.close()
            return None
        closing = self._threads.submit(self._reading.close)
        self._threads.shutdown(wait=False)
        return closing

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __del__(self) -> None:
        self._close()


async def _finished(job: "Future[Any]") -> None:
    """Wait for a job of a thread; the job goes on if the wait is cancelled."""
    if job.done():
        return
    loop, done = asyncio.get_running_loop(), asyncio.Event()

    def tell(_: object) -> None:
        with suppress(RuntimeError):  # the loop is closed by now
            loop.call_soon_threadsafe(done.set)

    job.add_done_callback(tell)
    await done.wait()


@overload
def tail(
    directory: str | os.PathLike[str],
    subject: str = ">",
    *,
    start: int | Position | None = None,
    until: int | None = None,
    follow: bool = True,
    losses: Literal["raise"] = "raise",
) -> Tail[Message]: ...


@overload
def tail(
    directory: str | os.PathLike[str],
    subject: str = ">",
    *,
    start: int | Position | None = None,
    until: int | None = None,
    follow: bool = True,
    losses: Literal["yield"],
) -> Tail[Message | Lost | JournalChanged]: ...


def tail(
    directory: str | os.PathLike[str],
    subject: str = ">",
    *,
    start: int | Position | None = None,
    until: int | None = None,
    follow: bool = True,
    losses: Losses = "raise",
) -> Any:
    """Read the store of a broker on this machine, from its files: `for` or `async for`.

        with seriatim.tail("/var/lib/seriatim", "orders.>") as tail:
            for message in tail:
                print(message.number, message.subject, message.payload)

    The broker does not notice it, and need not run. It begins with the first message there is, or

    start     with this number, or behind this `Position`

    and goes on without end, waiting for more; or up to

    until     this number
    follow    False: the last message there is

    Numbers that do not exist any more raise `Lost`, and another journal `JournalChanged`; with
    `losses="yield"` these are items, and reading goes on behind them. Raises `InvalidArgument` if
    there is no store.
    """
    for name, number in (("start", start), ("until", until)):
        if isinstance(number, int) and not 1 <= number <= NUMBER_MAX:
            raise InvalidArgument(f"{name}={number}: the first number is 1")
    wanted = wanted_of(subject)
    reading = StoreReading(open_store(directory), wanted, start, until, follow)
    return Tail[Message](reading, losses == "yield")
