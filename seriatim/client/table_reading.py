"""Reads a table from a broker: `$SEQ.READ` on a connection of its own, answers until the last.

    1. `$SEQ.INFO` says which journal it is, and between which numbers the table lies;
    2. `$SEQ.READ` asks for all of it; the chunks are kept as they come;
    3. after a break it goes on with the next number, if the broker still runs: the journal has the
       same id and the same count of openings. After a restart it begins again, for a broker that
       has crashed may have lost the end of its journal, and given those numbers once more.

The connection ends with the reading, however that ends; then the broker stops answering. Memory:
the table. An answer that is not what was asked for ends the reading: it would come again.
"""

import asyncio
import random
import secrets
from typing import Any, Final

from seriatim.client.aio_wire import Wire
from seriatim.client.errors import (
    BrokerError,
    ConnectionLost,
    JournalChanged,
    NoAnswer,
    NotABroker,
    NotSeriatim,
    Position,
    Refused,
)
from seriatim.client.message_table import Table, TableBuilder, TableWish
from seriatim.client.protocol import NO_RESPONDERS, ErrorReceived
from seriatim.client.stream_info import StreamInfo, read_info
from seriatim.client.stream_message import Message
from seriatim.client.stream_reading import (
    ANSWER_SECONDS,
    BEHIND_SECONDS,
    BEHIND_STEP,
    RETRY_MAX,
    RETRY_MIN,
    Open,
)

READ: Final = "$SEQ.READ"
INFO: Final = "$SEQ.INFO"
INFO_SID, CHUNK_SID = 1, 2


class TableReading:
    """The reading of one table: the user of its connections, one after the other."""

    def __init__(
        self, wish: TableWish, opened: Open, patience: float | None, inbox_prefix: str = "_INBOX"
    ) -> None:
        self.is_closed = False
        self._wish = wish
        self._open = opened
        self._patience = patience  # seconds to wait for a broker; None: for ever
        self._inbox = f"{inbox_prefix}.{secrets.token_hex(11)}"
        self._begun: StreamInfo | None = None  # what there was when the table was begun
        self._first = self._last = 0
        self._builder: TableBuilder | None = None
        self._waiting: asyncio.Future[Any] | None = None  # for an answer, or for the last one
        self._broken: BrokerError | None = None  # why this connection is of no more use
        self._error: BrokerError | None = None  # with which it ends

    async def read(self) -> Table:
        """Read it all. Raises `BrokerError`."""
        loop = asyncio.get_running_loop()
        begun, pause = loop.time(), RETRY_MIN
        try:
            while True:
                before = self._builder.next if self._builder else 0
                try:
                    return await self._read_once()
                except (ConnectionLost, NoAnswer):
                    if self._error is not None:
                        raise
                    if self._builder is not None and self._builder.next > before:
                        begun, pause = loop.time(), RETRY_MIN
                    if self._patience is not None and loop.time() - begun >= self._patience:
                        raise
                await asyncio.sleep(pause * random.uniform(0.5, 1))
                pause = min(pause * 2, RETRY_MAX)
        finally:
            self.is_closed = True

    def fail(self, error: BrokerError) -> None:
        """End with this error."""
        self._error = self._error or error
        self._break(self._error)

    def close(self) -> None:
        """End it, because the client is closed."""
        self.fail(ConnectionLost("the client was closed"))

    async def _read_once(self) -> Table:
        wire = await self._open()
        try:
            self._broken = self._error
            wire.protocol.subscribe(f"{self._inbox}.i", sid=INFO_SID)
            wire.protocol.subscribe(f"{self._inbox}.c", sid=CHUNK_SID)
            wire.deliver_to(self)
            if "seriatim" not in wire.protocol.info:
                raise NotSeriatim("the server has no numbers to read by: it is not Seriatim")
            builder = self._builder = await self._place(wire)
            if builder.next <= self._last:
                asked = self._wish.request(builder.next, self._last)
                wire.protocol.publish(READ, asked, f"{self._inbox}.c")
                await self._answer(wire)
            assert self._begun is not None, "it was placed"
            return builder.table(self._begun.journal)
        finally:
            wire.abort()

    async def _place(self, wire: Wire) -> TableBuilder:
        """Find out where to go on. Raises `JournalChanged`."""
        loop = asyncio.get_running_loop()
        patient_until = loop.time() + BEHIND_SECONDS
        info = await self._info(wire)
        if self._begun is None:
            wish, self._begun = self._wish, info
            self._first = wish.first or max(info.first, 1)
            self._last = info.last if wish.last is None else min(wish.last, info.last)
        begun = self._begun
        while info.journal == begun.journal and info.last < self._last:
            if loop.time() >= patient_until:
                break
            await asyncio.sleep(BEHIND_STEP)  # a member of a cluster may be behind another
            info = await self._info(wire)
        if info.journal != begun.journal or info.last < self._last:
            raise JournalChanged(
                Position(begun.journal, self._last), Position(info.journal, info.last)
            )
        if self._builder is not None and info.epoch == begun.epoch:
            return self._builder
        self._begun = info
        return TableBuilder(self._wish.names, self._first, self._last)

    async def _info(self, wire: Wire) -> StreamInfo:
        wire.protocol.publish(INFO, b"", f"{self._inbox}.i")
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return read_info(await self._answer(wire))
        except TimeoutError:
            raise NoAnswer(f"{INFO}: no answer in time").at(wire.address) from None

    async def _answer(self, wire: Wire) -> Any:
        """Send what was asked, and wait for the answer, or for the last one."""
        if self._broken is not None:
            raise self._broken
        self._waiting = asyncio.get_running_loop().create_future()
        wire.write()
        try:
            return await self._waiting
        finally:
            self._waiting = None

    # From the connection

    def messages_arrived(self, messages: list[Message], size: int) -> None:
        """Take the broker's answers."""
        try:
            for message in messages:
                self._take(message)
        except BrokerError as error:
            self.fail(error)

    def _take(self, answer: Message) -> None:
        if self._waiting is None or self._waiting.done():
            return
        if answer.status == NO_RESPONDERS and not answer.description:
            raise NotSeriatim("the server has no numbers to read by: it is not Seriatim")
        if answer.status:
            why = answer.description or f"status {answer.status}"
            raise Refused(why, answer.status, subject=READ if answer.sid == CHUNK_SID else INFO)
        if answer.sid == INFO_SID:
            self._waiting.set_result(answer)
        elif self._builder is not None and self._builder.take_answer(answer):
            self._waiting.set_result(None)

    def refused(self, refusal: ErrorReceived) -> None:
        """End with the broker's reason."""
        found = refusal.words.partition('": ')[2] or refusal.words
        self.fail(Refused(found, subject=READ))

    def wire_lost(self, wire: Wire, error: BrokerError) -> None:
        """Wake who waits for an answer; `read` connects again, if that may help."""
        if isinstance(error, NotABroker) or not isinstance(error, ConnectionLost):
            self.fail(error)
        else:
            self._break(error)

    def _break(self, error: BrokerError) -> None:
        self._broken = self._broken or error
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(error)
            self._waiting.exception()  # retrieved, in case its task was cancelled
