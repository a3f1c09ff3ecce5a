"""A lean publisher: real NATS over TCP, prebuilt blocks, at a steady rate.

    python -m tests.network.publisher HOST PORT NAME SIZE

For each line of stdin, `COUNT RATE`, it publishes so many messages at so many per second (0: as
fast as possible); when the broker has them all, it prints `COUNT SECONDS`. Payloads are
predictable: `payload(name, i, size)` for i = 1, 2, 3 ..; the subject is `t.NAME`.
"""

import select
import socket
import sys
import time

BLOCKS_A_SECOND = 200
FILLER = bytes(range(256)) * 1024


def payload(name: str, index: int, size: int) -> bytes:
    """What the index-th message of a publisher holds: readable, then bytes of all kinds."""
    start = b"%b %d " % (name.encode(), index)
    at = index % 251
    return (start + FILLER[at : at + size])[:size]


class Publisher:
    """One connection, which has said CONNECT."""

    def __init__(self, host: str, port: int, name: str, size: int) -> None:
        self.name, self.size, self.index = name, size, 0
        self.socket = socket.create_connection((host, port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(b'CONNECT {"verbose":false,"pedantic":false}\r\n')

    def block(self, count: int) -> bytes:
        line = b"PUB t.%b %d\r\n" % (self.name.encode(), self.size)
        parts: list[bytes] = []
        for _ in range(count):
            self.index += 1
            parts += (line, payload(self.name, self.index, self.size), b"\r\n")
        return b"".join(parts)

    def publish(self, count: int, rate: int) -> float:
        """Publish, and wait until the broker has it all; the seconds that the publishing took."""
        size = max(1, rate // BLOCKS_A_SECOND) if rate else 1000
        sent, start = 0, time.monotonic()
        while sent < count:
            block = self.block(min(size, count - sent))
            if rate and (ahead := start + sent / rate - time.monotonic()) > 0:
                select.select([], [], [], ahead)
            self.socket.sendall(block)
            sent += min(size, count - sent)
        seconds = time.monotonic() - start
        self.socket.sendall(b"PING\r\n")
        said = b""
        while b"PONG\r\n" not in said:
            data = self.socket.recv(65536)
            if not data:
                raise ConnectionError(f"the broker closed, it said {said[-200:]!r}")
            said = said[-4096:] + data
            if b"PING\r\n" in data:
                self.socket.sendall(b"PONG\r\n")
            if b"-ERR" in said:
                raise ConnectionError(f"the broker said {said[-200:]!r}")
        return seconds


def main(host: str, port: str, name: str, size: str) -> None:
    publisher = Publisher(host, int(port), name, int(size))
    print("ready", flush=True)
    for line in sys.stdin:
        count, rate = map(int, line.split())
        print(count, f"{publisher.publish(count, rate):.3f}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
