"""A minimal broker for the benchmark to count: stub_broker.py PORT FAULT.

It numbers and frames as Seriatim does. FAULT is what it does wrong at message 5:
none, lose (no delivery), repeat (the number 4 again), again (the payload of message 4), damage (the
payload), close (the subscriber's connection), and ping (nothing wrong: a PING of its own, among
the messages).
"""

import asyncio
import sys

FAULTY_MESSAGE = 5


class Stub:
    """All there is: the subscriptions and the last number."""

    def __init__(self, fault: str) -> None:
        self.fault = fault
        self.number = 0
        self.before = b""  # the payload of the message before
        self.subscriptions: list[tuple[bytes, bytes, asyncio.StreamWriter]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"server_id":"stub"}\r\n')
        while line := await reader.readline():
            verb, *words = line.split()
            if verb == b"PING":
                writer.write(b"PONG\r\n")
            elif verb == b"SUB":
                self.subscriptions.append((words[0], words[1], writer))
            elif verb == b"PUB":
                payload = await reader.readexactly(int(words[1]) + 2)
                self.publish(words[0], payload[:-2])
            await writer.drain()
        writer.close()

    def publish(self, subject: bytes, payload: bytes) -> None:
        self.number += 1
        number = self.number
        fault = self.fault if number == FAULTY_MESSAGE else "none"
        if fault == "repeat":
            number -= 1
        if fault == "again":
            payload = self.before
        self.before = payload
        if fault == "damage":
            payload = payload[::-1]
        digits = str(number).encode()
        inner = b"%d:%b,%d:%b," % (len(digits), digits, len(payload), payload)
        frame = b"%d:%b," % (len(inner), inner)
        for pattern, sid, writer in self.subscriptions:
            if pattern != subject and not pattern.endswith(b">"):
                continue
            if fault == "ping":
                writer.write(b"PING\r\n")
            if fault == "close":
                writer.close()
            elif fault != "lose":
                writer.write(b"MSG %b %b %d\r\n%b\r\n" % (subject, sid, len(frame), frame))


async def main() -> None:
    server = await asyncio.start_server(Stub(sys.argv[2]).serve, "127.0.0.1", int(sys.argv[1]))
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
