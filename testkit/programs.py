"""Random programs, the same for every build that runs them, for comparing two builds.

`python -m testkit.programs FIRST STOP` runs those of these seeds and prints a digest of each.
"""

from collections.abc import Iterable
from hashlib import sha256
from random import Random
from sys import argv

from testkit.messages import Message, pieces
from testkit.peer import Peer
from testkit.stage import Stage

SUBJECTS = (b"a", b"a.b", b"a.c", b"b.b", b"long." + b"x" * 40, b"a..b", b"$SEQ.x", b"_GR_.x")
PATTERNS = (b"a", b"a.*", b"*.b", b">", b"a.>", b"long.>", b"*", b"a.b", b"a..b", b"$SEQ.>")
FRAMES = ("netstring", "header", "stamp", "none")


class Run:
    """A program drawn from a seed: what many connections send, in pieces, and receive."""

    def __init__(self, seed: int, peers: int = 4) -> None:
        self.random = Random(seed)
        exponent = self.random.randrange(0, 18)
        number = max(10**exponent - self.random.randrange(1, 60), 0)
        self.stage = Stage(number=number, exclude=[b"a.c"], max_routes=16, receive_buffer=8192)
        self.heard: list[bytes] = []
        self.peers = [self._join() for _ in range(peers)]

    def play(self, steps: int) -> bytes:
        """Run the program; return everything that was received, and all counters."""
        for _ in range(steps):
            index = self.random.randrange(len(self.peers))
            self._step(index)
            if self.peers[index].finished or self.peers[index].slow:
                self._replace(index)
        for index in range(len(self.peers)):
            self._replace(index)
        figures = sorted(self.stage.sublist.statistics().items())
        return b"".join(self.heard) + repr((self.stage.number, figures)).encode()

    def _join(self) -> Peer:
        pending = self.random.choice([2000, 300_000, 1 << 24])
        return self.stage.join(frame=self.random.choice(FRAMES), max_pending=pending)

    def _replace(self, index: int) -> None:
        peer = self.peers[index]
        connection = peer.connection
        self.heard.append(peer.resume() if not peer.slow else peer.take())
        counts = (
            connection.in_msgs,
            connection.in_bytes,
            connection.out_msgs,
            connection.out_bytes,
            connection.frame,
        )
        self.heard.append(repr((counts, sorted(connection.subs))).encode())
        peer.leave()
        self.peers[index] = self._join()

    def _step(self, index: int) -> None:
        peer, random = self.peers[index], self.random
        kind = random.randrange(24)
        if kind == 0:
            peer.stall()
        elif kind == 1:
            self.heard.append(peer.resume())
        else:
            wire = b"".join(self._operation() for _ in range(random.randrange(1, 6)))
            if kind == 2:
                at = random.randrange(len(wire))
                wire = wire[:at] + random.choice([b"", b"\n", b" ", b"9", b"x"]) + wire[at + 1 :]
            cuts = [random.randrange(len(wire)) for _ in range(random.randrange(4))]
            peer.send(*pieces(wire, cuts))

    def _operation(self) -> bytes:
        random = self.random
        kind = random.randrange(12)
        if kind == 0:
            fields = [
                f'"{name}":{random.choice(["true", "false"])}' for name in ("verbose", "echo")
            ]
            fields += ['"pedantic":false,"headers":true,"no_responders":true']
            fields += [f'"frame":"{random.choice(FRAMES)}"'] if random.randrange(2) else []
            return b"CONNECT {" + ",".join(fields).encode() + b"}\r\n"
        if kind <= 3:
            queue = random.choice([b"", b"", b"q "])
            return b"SUB %b %b%d\r\n" % (random.choice(PATTERNS), queue, random.randrange(9))
        if kind == 4:
            most = random.choice([b"", b" 3", b" 50"])
            return b"UNSUB %d%b\r\n" % (random.randrange(9), most)
        if kind == 5:
            return b"PING\r\n"
        return self._message().wire * random.choice([1, 1, 1, 7])

    def _message(self) -> Message:
        random = self.random
        subject = random.choice(SUBJECTS[:5] * 3 + SUBJECTS)
        if random.randrange(6) == 0:
            subject = b"$SEQ.PUB." + subject
        size = random.choice([0, 1, 9, 10, 99, 100, random.randrange(3000), 30_000])
        headers = b"NATS/1.0\r\n\r\n" if random.randrange(12) == 0 else b""
        reply = random.choice([b"", b"", b"", b"a.b", b"_R_.x"])
        zeros = random.choice([b"", b"", b"0"])
        total = zeros + b"%d" % (len(headers) + size)
        sizes = b"%d %b" % (len(headers), total) if headers else total
        return Message(subject, random.randbytes(1) * size, headers, reply, sizes)


def digests(seeds: Iterable[int], steps: int = 60) -> list[str]:
    """Return one line for each seed's run, for comparing builds."""
    return [f"{seed} {sha256(Run(seed).play(steps)).hexdigest()}" for seed in seeds]


if __name__ == "__main__":
    print("\n".join(digests(range(int(argv[1]), int(argv[2])))))
