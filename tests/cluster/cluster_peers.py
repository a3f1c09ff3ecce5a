"""Peers that are the cluster's own.

Quitter   sends, and closes its connection before anything is confirmed
Flood     sends thousands of messages at once, and waits for one PONG after all of them
Patient   an Asker that may be refused: it sends that again until it is taken
Counting  the same with `+OK`; among its messages are some that are always refused. Each answer must
          be that of the oldest message without one, or a client that counts would be wrong
Taker     one of a queue group that is on all members: no number comes to two of them, or twice

`replayed` is what a member has.
"""

import asyncio
import re
from typing import TYPE_CHECKING

from tests.crash.ledger import Broken, Message
from tests.crash.peers import Peer, Repeating, Wire, hear, publication
from tests.support.raw import QUIET, Operation, RawClient

if TYPE_CHECKING:
    from tests.crash.trial import Lives

BURST = 60
AGAIN_S = 0.2  # between two attempts of what is refused
NEVER = b"$SEQ.bad"  # no client may publish it
NEVER_OF = 0.1
ANSWER = re.compile(rb"\d+:(\d+),")
STATUS = re.compile(rb"NATS/1\.0 [45]\d\d")
REFUSED = re.compile(rb'Permissions Violation for Publish to "([^"]+)"')


class Quitter(Peer):
    """What it sent may be numbered or not: nothing of it twice, and in its order.

    Each connection is another publisher: a member that stood still finds many of them at once, and
    may read a later one first.
    """

    def __init__(self, name: str, lives: "Lives", seed: int) -> None:
        super().__init__(name, lives, seed)
        self.connections = 0

    async def live(self, wire: Wire) -> bool:
        self.connections += 1
        name, size = b"%b/%d" % (self.name, self.connections), self.chance.randint(1, BURST)
        burst = [Message(name, at) for at in range(size)]
        wire.send(b"".join(publication(one, id=False) for one in burst))
        await wire.drain()
        await self.lives.pause(size)
        return True


class Flood:
    """A publisher on one connection, which lasts: none of its messages may be missing."""

    def __init__(self, name: str, lives: "Lives", seed: int) -> None:
        self.name = name.encode()
        self.lives = lives
        self.sent: list[Message] = []
        self.wire: Wire | None = None

    async def send(self, messages: int) -> None:
        """Send them all at once."""
        self.wire = await Wire.open(self.lives.port, inside=self.lives.inside, tls=self.lives.tls)
        self.sent = [Message(self.name, at) for at in range(messages)]
        self.wire.send(b"".join(publication(one, id=False) for one in self.sent) + b"PING\r\n")

    async def confirmed(self) -> None:
        """Wait until all are confirmed."""
        assert self.wire is not None, "sent"
        operation = await self.wire.operation()
        if operation is None or operation.verb != "PONG":
            raise Broken(f"{self.name!r} was told {operation}")
        for message in self.sent:
            self.lives.ledger.accepted(message)
        self.wire.close()


class Rounds(Repeating):
    """Sends some, reads all their answers, and sends again what was refused, until it is taken."""

    async def live(self, wire: Wire) -> bool:
        if not await self.greet(wire):
            return False
        while True:
            batch = self.resend() + ([] if self.lives.over else self.some())
            if not batch:
                return False
            self.waiting.extend(batch)
            sent = self.mixed(batch)
            wire.send(b"".join(map(self.packed, sent)))
            for message in sent:
                operation = await wire.operation()
                if operation is None:
                    return False
                if not self.answers(operation, message):
                    return self.refuse(operation)
            await self.lives.pause(len(batch))
            if self.waiting:
                await asyncio.sleep(AGAIN_S)  # no event to await: the cluster says nothing of it

    async def greet(self, wire: Wire) -> bool:
        """What comes first; whether the broker is there."""
        raise NotImplementedError

    def mixed(self, batch: list[Message]) -> list[Message | None]:
        """The messages, and among them some (None) that are never taken."""
        return [*batch]

    def packed(self, message: Message | None) -> bytes:
        """The operation that publishes it."""
        raise NotImplementedError

    def answers(self, operation: Operation, message: Message | None) -> bool:
        """Whether this answers that message; note what it says."""
        raise NotImplementedError


class Patient(Rounds):
    async def greet(self, wire: Wire) -> bool:
        wire.send(b"SUB _INBOX.%s.* 1\r\n" % self.name)
        return True

    def packed(self, message: Message | None) -> bytes:
        assert message is not None, "it sends nothing else"
        return publication(message, to=b"$SEQ.PUB.", reply=self._inbox(message))

    def _inbox(self, message: Message) -> bytes:
        return b"_INBOX.%s.%d" % (self.name, message.count)

    def answers(self, operation: Operation, message: Message | None) -> bool:
        assert message is not None, "it sends nothing else"
        if operation.subject != self._inbox(message):
            raise Broken(f"{message} was answered out of turn: {operation}")
        if operation.verb == "MSG":
            number, digits = ANSWER.fullmatch(operation.payload), operation.payload
            if number is None:
                raise Broken(f"{message} was answered {digits!r}")
            self.ledger.acked(message, int(number[1]))
            self.waiting.remove(message)
            return True
        return bool(STATUS.match(operation.header))


class Counting(Rounds):
    verbose = True

    async def greet(self, wire: Wire) -> bool:
        return await wire.operation() is not None  # CONNECT's own

    def mixed(self, batch: list[Message]) -> list[Message | None]:
        sent: list[Message | None] = []
        for message in batch:
            sent += [message] if self.chance.random() > NEVER_OF else [None, message]
        return sent

    def packed(self, message: Message | None) -> bytes:
        return b"PUB %s 0\r\n\r\n" % NEVER if message is None else publication(message)

    def answers(self, operation: Operation, message: Message | None) -> bool:
        wanted = NEVER if message is None else message.subject
        if operation.verb == "+OK" and message is not None:
            self.ledger.accepted(message)
            self.waiting.remove(message)
            return True
        refused = REFUSED.search(operation.text)
        if operation.verb == "+OK" or refused is None or refused[1] != wanted:
            raise Broken(f"{self.name!r}: {wanted!r} was answered {operation}")
        return True


class Taker(Peer):
    async def live(self, wire: Wire) -> bool:
        wire.send(b"SUB > workers 1\r\n")
        while not self.lives.over:
            operation = await wire.operation()
            if operation is None:
                return False
            number = hear(self.ledger, operation)
            if not number:
                continue
            if number in self.had:
                raise Broken(f"{self.name!r} got {number} twice")
            self.had.add(number)
            self.ledger.taken_from_group(number, self.name)
        return False

    def __init__(self, name: str, lives: "Lives", seed: int) -> None:
        super().__init__(name, lives, seed)
        self.had: set[int] = set()


def replayed(port: int, last: int) -> list[Operation]:
    """What a member has."""
    with RawClient(port) as client:
        client.ask(QUIET)
        client.send(b"SUB $SEQ.RANGE.1.%d.> 1\r\n" % last)
        found: list[Operation] = []
        while not found or found[-1].subject != b"$SEQ.END.%d" % last:
            found.append(client.operation())
        return found
