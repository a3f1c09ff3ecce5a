"""Publishes messages and learns their numbers: in order, many in flight, each exactly once.

    send      the message goes out as `$SEQ.PUB.<subject>`, with an id, and is kept
    send_all  many of them: a group, with one future for all numbers
    answer    its number: it is forgotten; or a refusal
    a break   on the next connection all that are kept go out again, in their order

An id makes a repeated message harmless: the broker answers with the number it has. It remembers ids
for `journal.dedupe_window` (2 minutes), and a limited number of them. So a message that may have
been forgotten is not repeated blindly: its id is looked for in the journal first, behind the last
number that was known when it was sent.

A cluster that cannot order messages answers 504, and a broker whose streams are still being read
after a start cannot judge a condition: those messages go out again a little later, and newer ones
wait behind them. What is on its way behind a refused message must not overtake it, though the
cluster may recover between the two: after `$SEQ.ORDERED` the broker refuses that, too, until the
next `$SEQ.ORDERED`. That one goes out when each message has its answer, and all that were refused
follow it. Bounds: `OPEN_MAX` messages and `OPEN_BYTES` bytes in flight. A caller
that sends more waits.
"""

import asyncio
import re
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from time import monotonic
from typing import Any, Final

import cython

from seriatim.client.aio_wire import OVERHEAD_BYTES, WRITE_BYTES, Wire
from seriatim.client.errors import (
    BrokerError,
    ConnectionLost,
    InvalidArgument,
    NotABroker,
    NotAllPublished,
    NotSeriatim,
    Refused,
    Unconfirmed,
    WrongLastNumber,
)
from seriatim.client.expect import Expect
from seriatim.client.protocol import (
    NO_RESPONDERS,
    Headers,
    check_sendable,
    publish_head,
    size_of,
    too_large,
    with_fields,
)
from seriatim.client.stream_info import StreamInfo
from seriatim.client.stream_message import Message, read_headers

ACK_SID: Final = 1  # of the subscription to the numbers
OPEN_MAX: Final = 1 << 14
OPEN_BYTES: Final = 16 << 20
LINE_MAX: Final = 4096  # the broker's limits.max_control_line; a longer line closes the connection
REPEAT_BYTES: Final = 1 << 12  # of the first piece that is repeated after a break; then twice that
SWEEP_SECONDS: Final = 0.25
AGAIN_SECONDS: Final = 0.1  # until a message is repeated that a cluster could not order
UNASKED_SECONDS: Final = 60.0  # a message this old is not repeated without asking for the journal
ID_HEADER: Final = "Nats-Msg-Id"
NOT_NOW: Final = 504
NOT_READ: Final = "the streams are still being read"  # with 503
PREFIX: Final = "$SEQ.PUB."
ORDERED: Final = b"PUB $SEQ.ORDERED 0\r\n\r\n"
PREFIXES_MAX: Final = 1 << 12
ID_FORMAT: Final = b"%b%d %d %d\r\nNATS/1.0\r\nNats-Msg-Id: %b\r\n\r\n%b\r\n"
ID_HEAD: Final = len(b"NATS/1.0\r\nNats-Msg-Id: \r\n\r\n")
WRONG: Final = "wrong last "
WRONG_LAST: Final = re.compile(r"wrong last sequence: (\d+)")
Data = bytes | bytearray | memoryview
Outgoing = tuple[str, Data] | tuple[str, Data, Headers | None]

if not cython.compiled:
    NETSTRING: Final = re.compile(rb"(\d{1,2}):(\d{1,18}),").fullmatch

    def token_of(subject: str, cut: int) -> int:
        """Return the token at the end of a reply subject; -1 if there is none."""
        digits = subject[cut:]
        return int(digits) if digits.isdecimal() else -1

    def number_of(payload: Data) -> int:
        """Return the number in the netstring `5:88485,`; -1 if it is none."""
        found = NETSTRING(payload)
        return int(found[2]) if found and int(found[1]) == len(found[2]) else -1


def announced_size(data: bytes) -> int:
    """Return the size that a message announces: the last word of its line."""
    return int(data[: data.index(b"\r\n")].rpartition(b" ")[2])


def outgoing(message: Outgoing) -> tuple[str, Data, Headers | None]:
    """Return subject, payload and headers of a message. Raises `InvalidArgument`."""
    if isinstance(message, tuple) and 2 <= len(message) <= 3 and isinstance(message[0], str):
        return message[0], message[1], message[2] if len(message) == 3 else None
    raise InvalidArgument(
        f"{message!r:.60} is not a message: give (subject, payload) or (subject, payload, headers)"
    )


class MessageGroup:
    """Messages that are published by one call; the future is done when none is in flight.

    Messages are added until `all_numbers` is called.
    """

    def __init__(self, future: "asyncio.Future[None]") -> None:
        self.future = future
        self.numbers: list[int] = []  # 0: none yet
        self.errors: dict[int, BrokerError] = {}  # by the same places
        self._open = 1  # messages in flight, and 1 for the one who adds more

    def add(self) -> int:
        """Add a message; return its place."""
        self._open += 1
        self.numbers.append(0)
        return len(self.numbers) - 1

    def settle(self, place: int, number: int) -> int:
        """Take the number of a message."""
        self.numbers[place] = number
        return self.end()

    def has_errors(self) -> bool:
        """True if one of its messages has no number, and will have none."""
        return bool(self.errors)

    def refuse(self, error: BrokerError) -> None:
        """Take the error of a message that was not sent."""
        self.fail(self.add(), error)

    def fail(self, place: int, error: BrokerError) -> int:
        """Take the error of a message."""
        self.errors[place] = error
        return self.end()

    def end(self) -> int:
        """Count one less that is open."""
        self._open -= 1
        if not self._open and not self.future.done():
            self.future.set_result(None)
        return 0

    async def all_numbers(self) -> list[int]:
        """Return the numbers when all are there. Raises `NotAllPublished`."""
        self.end()
        await self.future
        if self.errors:
            raise NotAllPublished(self.numbers, self.errors)
        return self.numbers


class OpenMessage:
    """A message in flight; times are of `monotonic`."""

    __slots__ = (
        "data",
        "deadline",
        "floor",
        "future",
        "group",
        "id",
        "is_again",
        "place",
        "sent_at",
        "subject",
    )

    # Made by `Publishing._begin`, attribute by attribute: an `__init__` would be slower.
    subject: str
    id: str
    data: bytes
    future: "asyncio.Future[Any]"  # of the number, or of the group
    group: MessageGroup | None
    place: int  # in the group
    deadline: float
    sent_at: float  # first; 0: not yet
    floor: int  # its number is above this one
    is_again: bool  # it was sent more than once


class Publishing:
    """The messages of one client that wait for their numbers."""

    def __init__(
        self,
        inbox: str,
        ask_info: Callable[[], Awaitable[StreamInfo]],
        find_ids: Callable[[set[str], str, int, int], Awaitable[dict[str, int]]],
    ) -> None:
        self._inbox = f"{inbox}."
        self._token_at = len(self._inbox)
        self._ask_info = ask_info
        self._find_ids = find_ids  # (ids, subject, first, last) -> their numbers
        self._nonce = secrets.token_urlsafe(9)
        self._loop = asyncio.get_running_loop()
        self._wire: Wire | None = None
        self._sends = False  # what is sent goes out at once; it is only kept otherwise
        self._hears = False  # this connection is subscribed to the numbers
        self._open: dict[int, OpenMessage] = {}  # in the order in which they were sent
        self._bytes = 0
        self._token = 0
        self._again: set[int] = set()  # refused for the moment, or behind such a message
        self._not_yet: dict[int, str] = {}  # why messages could not be ordered when they were sent
        self._room: deque[asyncio.Future[None]] = deque()  # who waits for room, in their order
        self._emptied = asyncio.Event()
        self._create_future = self._loop.create_future
        self._open_max, self._bytes_max = OPEN_MAX, OPEN_BYTES
        self._put: Callable[[bytes], None]  # queues the bytes of a message on the wire
        self._writes = False  # a call of `_write` is scheduled
        self._gathered = 0  # bytes until then
        self._max_payload = 1 << 30
        self._nonce_bytes = self._nonce.encode()
        self._prefixes: dict[str, bytes] = {}  # of the subjects that were published to lately
        self._sweeper: asyncio.TimerHandle | None = None
        self._learning: asyncio.Task[None] | None = None
        self._journal = ""  # whose numbers we have seen
        self._floor = 0  # the highest of them
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed: BrokerError | None = None

    async def send(
        self,
        subject: str,
        payload: Data,
        headers: Headers | None,
        id: str,
        expect: Expect | int | None,
        timeout: float,
    ) -> "asyncio.Future[int]":
        """Send a message when there is room; return the future of its number."""
        if self._room or len(self._open) >= self._open_max or self._bytes >= self._bytes_max:
            begun = monotonic()
            await self._wait_for_room(subject, timeout)
            timeout -= monotonic() - begun
        if self._closed is not None:
            raise self._closed
        future = self._create_future()
        if self._begin(subject, payload, headers, id, expect, timeout, future, None):
            try:
                await self._write_out()
            except asyncio.CancelledError:
                future.cancel()  # the caller never gets it
                raise
        return future

    def group(self) -> MessageGroup:
        """Return a group for `send_all`."""
        return MessageGroup(self._create_future())

    async def send_all(
        self, group: MessageGroup, messages: Iterable[Outgoing], timeout: float
    ) -> None:
        """Send messages when there is room, until one of them is known to be refused."""
        try:
            for message in messages:
                try:
                    subject, payload, headers = outgoing(message)
                    if (
                        self._room
                        or len(self._open) >= self._open_max
                        or self._bytes >= self._bytes_max
                    ):
                        await self._wait_for_room(subject, timeout)
                        if group.has_errors():
                            return
                    if self._closed is not None:
                        raise self._closed
                    much = self._begin(
                        subject, payload, headers, "", None, timeout, group.future, group
                    )
                except BrokerError as error:
                    group.refuse(error)
                    return
                if much:
                    await self._write_out()
                    if group.has_errors():
                        return
        except asyncio.CancelledError:
            group.future.cancel()
            raise

    def _begin(
        self,
        subject: str,
        payload: Data,
        headers: Headers | None,
        id: str,
        expect: Expect | int | None,
        timeout: float,
        future: "asyncio.Future[Any]",
        group: MessageGroup | None,
    ) -> int:
        """Keep a message, and send it if there is a connection. Raises `InvalidArgument`.

        Return 1 if `_write_out` must follow.
        """
        token = self._token + 1
        if headers is None and expect is None and not id:
            data = self._plain(subject, payload, token)
        else:
            given = read_headers(headers) if isinstance(headers, bytes) else headers or {}
            id = id or given.get(ID_HEADER, "") or f"{self._nonce}.{token}"
            data = self._headed(subject, payload, headers, id, expect, token)
        now = monotonic()
        entry = OpenMessage.__new__(OpenMessage)
        if cython.compiled:
            PyObject_GC_UnTrack(entry)  # no cycle leads through it
        entry.subject = subject
        entry.id = id
        entry.data = data
        entry.future = future
        entry.group = group
        entry.place = group.add() if group is not None else 0
        entry.deadline = now + timeout
        entry.sent_at = 0.0
        entry.floor = 0
        entry.is_again = False
        self._token = token
        self._open[token] = entry
        size = len(data)
        self._bytes += size
        if self._sweeper is None:
            self._watch()
        if not self._sends:
            return 0
        entry.sent_at, entry.floor = now, self._floor
        if not self._hears:
            assert self._wire is not None, "it sends"
            self._listen(self._wire)
        self._put(data)
        self._gathered += size + OVERHEAD_BYTES
        if not self._writes:
            self._writes = True
            self._loop.call_soon(self._write)
        return self._gathered >= WRITE_BYTES

    def _watch(self) -> int:
        """Look at the messages in flight regularly, and learn whose numbers they get."""
        self._sweeper = self._loop.call_later(SWEEP_SECONDS, self._sweep)
        if not self._journal and self._learning is None:
            self._learning = self._loop.create_task(self._learn())
        return 0

    def _write(self) -> None:
        """Write what was sent."""
        self._writes, self._gathered = False, 0
        if self._wire is not None:
            self._wire.write()

    async def _write_out(self) -> None:
        """Write what was sent, and wait for room to write more; other tasks run meanwhile."""
        self._write()
        if self._wire is not None:
            await self._wire.drain_quietly()

    def _plain(self, subject: str, payload: Data, token: int) -> bytes:
        """Return the bytes of a message that has no header but the id that we give it."""
        prefix = self._prefixes.get(subject)
        if prefix is None:
            prefix = self._prefix(subject)
        size = len(payload) if type(payload) is bytes else size_of(payload)
        if cython.compiled:
            head = ID_HEAD + len(self._nonce_bytes) + 1 + decimal_width(token)
        else:
            id = b"%b.%d" % (self._nonce_bytes, token)
            head = ID_HEAD + len(id)
        if head + size > self._max_payload:
            raise too_large(head + size, self._max_payload)
        if cython.compiled:
            nonce = self._nonce_bytes
            plain: bytes = payload if type(payload) is bytes else bytes(payload)
            return message_bytes(
                prefix, len(prefix), nonce, len(nonce), token, head, plain, len(plain)
            )
        else:
            return ID_FORMAT % (prefix, token, head, head + size, id, bytes(payload))

    def _prefix(self, subject: str) -> bytes:
        """Return the beginning of the lines of a subject. Raises `InvalidArgument`."""
        check_sendable(subject)
        if len(subject) > LINE_MAX // 2:
            raise InvalidArgument(f"{subject[:40]!r}... is too long for a subject")
        if len(self._prefixes) >= PREFIXES_MAX:
            self._prefixes.clear()
        made = f"HPUB {PREFIX}{subject} {self._inbox}".encode("utf-8", "surrogateescape")
        self._prefixes[subject] = made
        return made

    def _headed(
        self,
        subject: str,
        payload: Data,
        headers: Headers | None,
        id: str,
        expect: Expect | int | None,
        token: int,
    ) -> bytes:
        """Return the bytes of a message with headers. Raises `InvalidArgument`."""
        self._prefix(subject)
        added = {ID_HEADER: id}
        if expect is not None:
            wanted = Expect(subject_last=expect) if isinstance(expect, int) else expect
            added |= wanted.headers()
        if isinstance(headers, bytes):
            fields: Headers = with_fields(headers, added)
        else:
            fields = {**(headers or {}), **added}
        size = size_of(payload)
        head = publish_head(
            PREFIX + subject, size, f"{self._inbox}{token}", fields, self._max_payload
        )
        return b"%b%b\r\n" % (head, bytes(payload))

    def _listen(self, wire: Wire) -> int:
        """Subscribe to the numbers: only one who publishes so needs the right to it."""
        wire.protocol.subscribe(f"{self._inbox}*", sid=ACK_SID)
        wire.protocol.send(ORDERED)
        self._hears = True
        return 0

    def _transmit(self, token: int, entry: OpenMessage, wire: Wire) -> int:
        """Send what was kept, if it is still wanted; return its bytes."""
        if entry.future.done():
            self._forget(token, entry)
            return 0
        most = wire.protocol.max_payload
        if len(entry.data) > most and (size := announced_size(entry.data)) > most:
            self._fail(token, entry, too_large(size, most))
            return 0
        if entry.sent_at:
            entry.is_again = True
        else:
            entry.sent_at, entry.floor = monotonic(), self._floor
        if not self._hears:
            self._listen(wire)
        wire.protocol.send(entry.data)
        return len(entry.data)

    async def _wait_for_room(self, subject: str, timeout: float) -> None:
        waiting: asyncio.Future[None] = self._loop.create_future()
        self._room.append(waiting)
        timer = self._loop.call_later(timeout, self._give_no_room, waiting, subject)
        try:
            await waiting
        finally:
            timer.cancel()
            self._room.remove(waiting)
            self._let_in()  # one lets in the next, for as long as there is room

    def _give_no_room(self, waiting: "asyncio.Future[None]", subject: str) -> None:
        if not waiting.done():
            why = "too many messages wait for their numbers; it was not sent"
            waiting.set_exception(Unconfirmed(why, subject))

    def _let_in(self) -> int:
        """Let the next one send that waits for room."""
        if self._room and len(self._open) < self._open_max and self._bytes < self._bytes_max:
            waiting = self._room[0]
            if not waiting.done():
                waiting.set_result(None)
        return 0

    def _id(self, token: int, entry: OpenMessage) -> str:
        return entry.id or f"{self._nonce}.{token}"

    async def wait_empty(self) -> None:
        """Wait until each message that was sent has its answer, or has given up."""
        while self._open or self._room:
            self._emptied.clear()
            await self._emptied.wait()

    # Answers

    def answered(self, messages: list[Message]) -> list[Message]:
        """Take answers; return the messages that are none."""
        others, sid = list[Message](), ACK_SID
        for message in messages:
            if message.sid != sid:
                others.append(message)
                continue
            token = token_of(message.subject, self._token_at)
            entry = self._open.get(token)
            if entry is None or message._number:
                continue  # it gave up, this is a second answer, or somebody else's message
            payload = message.payload
            if not payload:
                self._refused(token, entry, message)
                continue
            number = number_of(payload)
            if number < 0:
                self._fail(token, entry, NotABroker("the answer to a message is not a number"))
            else:
                self._settle(token, entry, number)
        return others

    def _settle(self, token: int, entry: OpenMessage, number: int) -> int:
        self._forget(token, entry)
        if number > self._floor:
            self._floor = number
        if entry.group is not None:
            entry.group.settle(entry.place, number)
        elif not entry.future.done():
            entry.future.set_result(number)
        return 0

    def _fail(self, token: int, entry: OpenMessage, error: BrokerError) -> int:
        self._forget(token, entry)
        if entry.group is not None:
            entry.group.fail(entry.place, error)
        elif not entry.future.done():
            entry.future.set_exception(error)
        return 0

    def _forget(self, token: int, entry: OpenMessage) -> int:
        del self._open[token]
        if self._not_yet:
            self._not_yet.pop(token, None)
        self._bytes -= len(entry.data)
        if self._room:
            self._let_in()
        if not self._open:
            self._emptied.set()
        return 0

    def _refused(self, token: int, entry: OpenMessage, answer: Message) -> int:
        """Take an answer that is a status."""
        why, status = answer.description, answer.status
        if status == NOT_NOW or why == NOT_READ:
            if self._sends:
                assert self._wire is not None, "it sends"
                self._sends = False
                self._start(self._repeat_refused(self._wire))
            self._again.add(token)
            self._not_yet[token] = why
            return 0
        error: BrokerError
        if status == NO_RESPONDERS and not why:
            error = NotSeriatim("the server gives no numbers: it is not Seriatim")
        elif WRONG_LAST.search(why):
            error = WrongLastNumber(why, status, subject=entry.subject)
        else:
            error = Refused(why or f"status {status}", status, subject=entry.subject)
        if entry.is_again and why.startswith(WRONG):
            # The broker looks at conditions before ids: the one that was first may be ours.
            self._start(self._settle_doubt(token, entry, error))
        else:
            self._fail(token, entry, error)
        return 0

    def _start(self, work: Coroutine[Any, Any, None]) -> int:
        """Start what `close` cancels."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return 0

    async def _settle_doubt(self, token: int, entry: OpenMessage, error: BrokerError) -> None:
        """Look in the journal whether a message was published before its condition was refused."""
        id, number = self._id(token, entry), 0
        try:
            info = await self._ask_info()
            last = error.last if isinstance(error, WrongLastNumber) else 0
            if entry.floor + 1 < info.first:
                raise Refused("its place in the journal is deleted")
            found = await self._find_ids({id}, entry.subject, entry.floor + 1, max(info.last, last))
            number = found.get(id, 0)
        except ConnectionLost:
            return  # it is sent once more
        except BrokerError as why:
            reason = f"it may have been published, or not: {why.reason}"
            error = Unconfirmed(reason, entry.subject, id)
        if self._open.get(token) is not entry:
            return
        if number:
            self._settle(token, entry, number)
        else:
            self._fail(token, entry, error)

    async def _repeat_refused(self, wire: Wire) -> None:
        """Repeat what was refused for the moment until it is taken; then send what was kept."""
        with suppress(BrokerError):  # the connection broke, and the next one goes on
            while self._again:
                await asyncio.sleep(AGAIN_SECONDS)
                await wire.ping()  # each message in flight has its answer then
                tokens = sorted(self._again)
                self._again.clear()
                await self._repeat(wire, tokens)
            if self._wire is wire:
                self._send_kept(wire)

    def _send_kept(self, wire: Wire) -> None:
        """Send what came while messages were only kept."""
        for token, entry in list(self._open.items()):
            if not entry.sent_at:
                self._transmit(token, entry, wire)
        wire.write()
        self._sends = True

    def _sweep(self) -> None:
        """Give up what has waited too long."""
        self._sweeper = None
        now = monotonic()
        for token in [token for token, entry in self._open.items() if entry.deadline <= now]:
            entry = self._open[token]
            why = "no answer in time; it may have been published, or not"
            if not entry.sent_at:
                why = "there was no connection in time; it was not sent"
            elif token in self._not_yet:
                why += f"; before that the broker refused: {self._not_yet[token]}"
            self._fail(token, entry, Unconfirmed(why, entry.subject, self._id(token, entry)))
        if self._open:
            self._sweeper = self._loop.call_later(SWEEP_SECONDS, self._sweep)

    # Connections

    def disconnected(self) -> None:
        """Keep what is in flight, for the next connection."""
        self._wire, self._sends = None, False

    async def connected(self, wire: Wire) -> None:
        """Send what is kept, in its order; what may be there already is looked for first.

        Raises `ConnectionLost` if this connection breaks, too.
        """
        if any(entry.sent_at for entry in self._open.values()):
            await self._compare()
            if wire.is_lost:
                raise ConnectionLost("the connection broke")
        self._hears = False
        self._again.clear()
        await self._repeat(wire, list(self._open))
        self._wire, self._max_payload = wire, wire.protocol.max_payload
        self._put = wire.protocol.send
        if self._again:
            self._start(self._repeat_refused(wire))
        else:
            self._send_kept(wire)

    async def _repeat(self, wire: Wire, tokens: list[int]) -> None:
        """Repeat messages in pieces that grow: each has its answers before the next.

        So there is progress even where each connection breaks early, and a cluster that cannot
        order messages gets few of them in vain. Raises `ConnectionLost`.
        """
        if self._hears:
            wire.protocol.send(ORDERED)
        piece, most = 0, REPEAT_BYTES
        for at, token in enumerate(tokens, 1):
            if token in self._open:
                piece += self._transmit(token, self._open[token], wire)
            if piece >= most or at == len(tokens):
                await wire.ping()
                if self._again:  # what is behind a refused message waits for it
                    self._again.update(tokens[at:])
                    return
                piece, most = 0, 2 * most

    async def _compare(self) -> None:
        """Find out what became of the messages that were sent before. Raises `ConnectionLost`."""
        try:
            info = await self._ask_info()
        except ConnectionLost:
            raise
        except BrokerError as error:  # it may not ask: what is recent can be repeated in any case
            self._give_up(f"the broker does not say what it has: {error.reason}", UNASKED_SECONDS)
            return
        if self._journal and info.journal != self._journal:
            self._give_up(f"the broker has another journal now, {info.journal or 'none'}")
        else:
            await self._look_up(info)
        self._journal = info.journal

    async def _learn(self) -> None:
        """Learn whose numbers these are, and where they are, before there is a break."""
        try:
            info = await self._ask_info()
        except BrokerError:
            return  # it may not ask: after a break it is taken to be the same journal
        self._journal = info.journal
        self._floor = max(self._floor, info.last)

    def _give_up(self, why: str, age: float = 0.0) -> int:
        """Give up what was sent more than `age` seconds ago."""
        now = monotonic()
        for token, entry in list(self._open.items()):
            if entry.sent_at and now - entry.sent_at >= age:
                why_it = f"{why}; it may have been published before that, or not"
                self._fail(token, entry, Unconfirmed(why_it, entry.subject, self._id(token, entry)))
        return 0

    async def _look_up(self, info: StreamInfo) -> None:
        """Look in the journal for messages whose ids the broker may have forgotten."""
        window = info.limits.get("dedupe_window", 0)
        ids = info.limits.get("dedupe_ids", 0)
        now = monotonic()
        doubtful: dict[str, dict[int, OpenMessage]] = {}  # by subject
        for token, entry in self._open.items():
            is_fresh = now - entry.sent_at < window / 2 and info.last - entry.floor < ids / 2
            if entry.sent_at and not entry.future.done() and not is_fresh:
                doubtful.setdefault(entry.subject, {})[token] = entry
        for subject, entries in doubtful.items():
            first = min(entry.floor for entry in entries.values()) + 1
            wanted = {self._id(token, entry) for token, entry in entries.items()}
            why, found = "", dict[str, int]()
            try:
                if first < info.first:
                    raise Refused("its place in the journal is deleted")
                found = await self._find_ids(wanted, subject, first, info.last)
            except ConnectionLost:
                raise
            except BrokerError as error:
                why = f"it may have been published, or not: {error.reason}"
            for token, entry in entries.items():
                if token not in self._open:
                    continue
                number = found.get(self._id(token, entry), 0)
                if why:
                    self._fail(token, entry, Unconfirmed(why, subject, self._id(token, entry)))
                elif number:
                    self._settle(token, entry, number)
                else:
                    entry.sent_at = 0.0  # it is surely not there: as if it were new
                    entry.is_again = True

    def unheard(self, why: str) -> None:
        """Give up what is in flight: the broker lets us have no answers."""
        self._give_up(f"its number cannot come: {why}")
        self._hears = False  # the next one tries again

    def close(self, error: BrokerError) -> None:
        """Fail what is in flight, and everything sent from now on."""
        self._closed = error
        self._wire, self._sends = None, False
        for token, entry in list(self._open.items()):
            why = f"{error.reason} before an answer came; it may have been published, or not"
            self._fail(token, entry, Unconfirmed(why, entry.subject, self._id(token, entry)))
        for waiting in self._room:
            if not waiting.done():
                waiting.set_exception(error)
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._learning is not None:
            self._learning.cancel()
        for task in self._tasks:
            task.cancel()
