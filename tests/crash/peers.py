"""Publishers and subscribers that survive a broker's crashes, on sockets of their own.

    Careless   fire and forget; what PONG did not confirm may be lost, and is not sent again
    Asker      `$SEQ.PUB` with ids and many in flight; sends again until it knows each number
    Verbose    `+OK` for each, with ids; sends again what was not answered, and sometimes what was
    Live       a subscription to `>`: no gap while a connection lasts, and nothing twice in all
    Follower   `$SEQ.FROM` its next number: no gap at all, over all crashes and its own reconnects
    Slow       a Follower that reads a little, then waits until others are far ahead

Each runs until it is stopped, and raises Broken for what must never happen.
"""

import asyncio
import contextlib
import socket
import ssl
from collections import deque
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from testkit.model_frame import split_frame
from tests.crash.ledger import Broken, Ledger, Message, checked
from tests.order.traffic import matches
from tests.support.raw import Operation, next_operation

if TYPE_CHECKING:
    from tests.crash.trial import Lives

OPTIONS = b'CONNECT {"verbose":%s,"pedantic":false,"headers":true,"frame":"netstring"}\r\n'
AHEAD = 64  # messages under way at most: a crash must find some


class Wire:
    """One connection; `operation` is None when the broker is gone."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._data, self._at = b"", 0
        self.chunk = 1 << 16

    @classmethod
    async def open(
        cls,
        port: int,
        verbose: bool = False,
        buffer: int = 0,
        inside: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
        tls: ssl.SSLContext | None = None,
    ) -> "Wire":
        """Connect and greet, in a network. Raises OSError when nobody is there.

        `tls`: shake hands before INFO.
        """
        with inside():
            sock = socket.socket()
        try:
            if buffer:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
            sock.setblocking(False)
            await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
        except BaseException:
            sock.close()
            raise
        name = None if tls is None else "localhost"
        wire = cls(
            *await asyncio.open_connection(
                sock=sock, limit=buffer or 1 << 16, ssl=tls, server_hostname=name
            )
        )
        wire.chunk = buffer or wire.chunk
        wire.send(OPTIONS % (b"true" if verbose else b"false"))
        return wire

    def send(self, data: bytes) -> None:
        if not self._writer.is_closing():
            self._writer.write(data)

    async def drain(self) -> None:
        with contextlib.suppress(ConnectionError):
            await self._writer.drain()

    async def operation(self) -> Operation | None:
        """The next thing the broker says, its PINGs answered."""
        while True:
            step = next_operation(self._data, self._at)
            if step is None:
                try:
                    more = await self._reader.read(self.chunk)
                except ConnectionError:
                    more = b""
                if not more:
                    return None
                self._data, self._at = self._data[self._at :] + more, 0
                continue
            operation, self._at = step
            if operation.verb == "PING":
                self.send(b"PONG\r\n")
            elif operation.verb != "INFO":
                return operation

    def close(self) -> None:
        self._writer.transport.abort()


def publication(message: Message, *, to: bytes = b"", reply: bytes = b"", id: bool = True) -> bytes:
    """The operation that publishes it, to its own subject or behind the prefix `to`."""
    words = b" ".join(part for part in (to + message.subject, reply) if part)
    headers, payload = message.headers, message.payload
    if not id:
        return b"PUB %s %d\r\n%s\r\n" % (words, len(payload), payload)
    size = len(headers) + len(payload)
    return b"HPUB %s %d %d\r\n%s%s\r\n" % (words, len(headers), size, headers, payload)


class Peer:
    """What all have in common: a life is a connection, and a new one after each crash."""

    verbose = False
    buffer = 0

    def __init__(self, name: str, lives: "Lives", seed: int) -> None:
        self.name = name.encode()
        self.lives, self.ledger, self.chance = lives, lives.ledger, Random(seed)

    async def run(self) -> None:
        life = 0
        while not self.lives.over:
            life = await self.lives.next(life)
            try:
                wire = await self.open()
            except OSError:
                continue  # killed already
            try:
                while not self.lives.over and await self.live(wire):
                    wire.close()
                    wire = await self.open()
                if not self.lives.over and self.lives.is_up(life):
                    raise Broken(f"{self.name!r} was disconnected by a broker that lives on")
            except OSError:
                pass
            finally:
                wire.close()

    async def open(self) -> Wire:
        """A connection to the broker."""
        lives = self.lives
        return await Wire.open(lives.port, self.verbose, self.buffer, lives.inside, lives.tls)

    async def live(self, wire: Wire) -> bool:
        """One connection to its end; whether another is wanted at once."""
        raise NotImplementedError

    def refuse(self, operation: Operation) -> bool:
        """What no peer is told, but by a broker whose disk has just lost its power."""
        if not self.lives.is_dying:
            raise Broken(f"{self.name!r} was told {operation}")
        return False


class Careless(Peer):
    def __init__(self, name: str, lives: "Lives", seed: int) -> None:
        super().__init__(name, lives, seed)
        self.count = 0

    async def live(self, wire: Wire) -> bool:
        while not self.lives.over:
            burst = [
                Message(self.name, self.count + at) for at in range(self.chance.randint(1, 80))
            ]
            self.count += len(burst)
            await self.lives.pause(len(burst))
            wire.send(b"".join(publication(one, id=False) for one in burst) + b"PING\r\n")
            operation = await wire.operation()
            if operation is None:
                return False
            if operation.verb != "PONG":
                return self.refuse(operation)
            if self.lives.pong_confirms:
                for message in burst:
                    self.ledger.accepted(message)
            else:  # nothing else holds it back, and the readers here are slow
                await self.ledger.more(2 * len(burst))
        return False


class Repeating(Peer):
    """A publisher with ids: what is not answered when its connection ends is sent again."""

    def __init__(self, name: str, lives: "Lives", seed: int) -> None:
        super().__init__(name, lives, seed)
        self.count = 0
        self.waiting: deque[Message] = deque()  # sent and not answered, in order

    def again(self) -> Message | None:
        """Sometimes a message that was answered already."""
        if self.count <= AHEAD or self.chance.random() > 0.03:
            return None
        answered = self.count - len({*self.waiting})
        return Message(self.name, self.chance.randrange(max(0, answered - 500), answered))

    def some(self) -> list[Message]:
        """What is to be sent next."""
        found: list[Message] = []
        while len(self.waiting) + len(found) < AHEAD:
            old = self.again()
            if old is None:
                old = Message(self.name, self.count)
                self.count += 1
            found.append(old)
            if self.chance.random() < 0.1:
                break
        return found

    def resend(self) -> list[Message]:
        """What is to be sent first on a new connection: each once, in the order of counts."""
        pending = sorted({*self.waiting}, key=lambda message: message.count)
        self.waiting.clear()
        return pending


class Asker(Repeating):
    async def live(self, wire: Wire) -> bool:
        wire.send(b"SUB _INBOX.%s.* 1\r\n" % self.name)
        batch = self.resend() or self.some()
        while True:
            self.waiting.extend(batch)
            for message in batch:
                reply = b"_INBOX.%s.%d" % (self.name, message.count)
                wire.send(publication(message, to=b"$SEQ.PUB.", reply=reply))
            if self.lives.over and not self.waiting:
                return False
            operation = await wire.operation()
            if operation is None:
                return False
            if operation.verb != "MSG":
                return self.refuse(operation)
            self.answered(operation)
            await self.lives.pause()
            batch = [] if self.lives.over else self.some()

    def answered(self, operation: Operation) -> None:
        message = Message(self.name, int(operation.subject.rpartition(b".")[2]))
        colon = operation.payload.index(b":")
        digits = operation.payload[colon + 1 : -1]
        if operation.payload != b"%d:%d," % (len(digits), int(digits)):
            self.refuse(operation)
        self.ledger.acked(message, int(digits))
        if self.waiting.popleft() != message:
            raise Broken(f"{message} was answered out of turn")


class Verbose(Repeating):
    verbose = True

    async def live(self, wire: Wire) -> bool:
        if await wire.operation() is None:  # CONNECT's own
            return False
        batch = self.resend() or self.some()
        while True:
            self.waiting.extend(batch)
            wire.send(b"".join(publication(message) for message in batch))
            if self.lives.over and not self.waiting:
                return False
            operation = await wire.operation()
            if operation is None:
                return False
            if operation.verb != "+OK":
                return self.refuse(operation)
            self.ledger.accepted(self.waiting.popleft())
            await self.lives.pause()
            batch = [] if self.lives.over else self.some()


class Live(Peer):
    newest = 0  # in all lives: what came once does not come again as new

    async def live(self, wire: Wire) -> bool:
        wire.send(b"SUB > 1\r\n")
        last = 0
        while not self.lives.over:
            operation = await wire.operation()
            if operation is None:
                return False
            number = hear(self.ledger, operation)
            if not number:
                continue
            if last and number != last + 1:
                raise Broken(f"{self.name!r} got {number} after {last}")
            if number <= self.newest:
                raise Broken(f"{self.name!r} got {number} again: it had {self.newest}")
            last = self.newest = number
        return False


class Follower(Peer):
    """Of one filter, from one number on; `run` of numbers as it heard them."""

    def __init__(
        self, name: str, lives: "Lives", seed: int, pattern: str = ">", first: int = 1
    ) -> None:
        super().__init__(name, lives, seed)
        self.pattern, self.first = pattern, first
        self.heard: list[int] = []
        self.next = first

    async def live(self, wire: Wire) -> bool:
        wire.send(b"SUB $SEQ.FROM.%d.%s 7\r\n" % (self.next, self.pattern.encode()))
        leaves_after = self.chance.choice((20, 300, 2000, 1 << 30))
        while not self.lives.over:
            await self.pause()
            operation = await wire.operation()
            if operation is None:
                return False
            number = hear(self.ledger, operation)
            if not number:
                continue
            if number < self.next or (self.pattern == ">" and number != self.next):
                raise Broken(f"{self.name!r} got {number}, asked was from {self.next}")
            self.heard.append(number)
            self.next = number + 1
            leaves_after -= 1
            if leaves_after == 0:
                return True
        return False

    async def pause(self) -> None:
        """Before each read."""

    def judge(self, journal: dict[int, Message]) -> None:
        """It heard exactly its part of the journal, as far as it came."""
        stop = self.next
        due = [
            number
            for number, message in journal.items()
            if self.first <= number < stop and matches(self.pattern, message.subject.decode())
        ]
        if self.heard != due:
            wrong = sorted({*self.heard} ^ {*due})[:5]
            raise Broken(f"{self.name!r} heard {len(self.heard)} of {len(due)}, wrong are {wrong}")


class Slow(Follower):
    buffer = 4096

    async def pause(self) -> None:
        """Now and then wait until the others are far ahead, or the broker is gone."""
        if self.chance.random() < 0.02:
            await self.lives.ahead(self.next + 2000)


def hear(ledger: Ledger, operation: Operation) -> int:
    """Note a delivery; its number, and 0 for what the broker itself told another peer."""
    if operation.subject.startswith(b"_INBOX."):
        return 0
    if operation.verb not in ("MSG", "HMSG") or operation.subject.startswith(b"$SEQ."):
        raise Broken(f"no message: {operation}")
    number, payload = split_frame(operation.payload)
    message = checked(operation.subject, operation.header, payload)
    ledger.delivered(number, message)
    return number


async def replayed(wire: Wire, first: int, last: int) -> dict[int, Message]:
    """All messages that a broker has, from `first` to `last`; it closes the connection."""
    replay, found = Ledger(), {}
    wire.send(b"SUB $SEQ.RANGE.%d.%d.> 1\r\n" % (first, last))
    while True:
        operation = await wire.operation()
        if operation is None:
            raise Broken("the replay was cut off")
        if operation.subject == b"$SEQ.END.%d" % last:
            break
        number = hear(replay, operation)
        if number in found:
            raise Broken(f"{number} was replayed twice")
        found[number] = replay.seen[number]
    wire.close()
    return found
