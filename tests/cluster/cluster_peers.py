"""Publishers that are the cluster's own: one that leaves without its answers, and one that floods.

Quitter   sends, and closes its connection before anything is confirmed
Flood     sends thousands of messages at once, and waits for one PONG after all of them

`replayed` is what a member has.
"""

from typing import TYPE_CHECKING

from tests.crash.ledger import Broken, Message
from tests.crash.peers import Peer, Wire, publication
from tests.support.raw import QUIET, Operation, RawClient

if TYPE_CHECKING:
    from tests.crash.trial import Lives

BURST = 60


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


def replayed(port: int, last: int) -> list[Operation]:
    """What a member has."""
    with RawClient(port) as client:
        client.ask(QUIET)
        client.send(b"SUB $SEQ.RANGE.1.%d.> 1\r\n" % last)
        found: list[Operation] = []
        while not found or found[-1].subject != b"$SEQ.END.%d" % last:
            found.append(client.operation())
        return found
