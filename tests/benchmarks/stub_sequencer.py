"""A minimal sequencer: stub_sequencer.py PORT GROUP FEED_PORT FRAMING FAULT.

To clients it behaves like cquencer, or with FRAMING netstring like Seriatim's port. FAULT is what
it does wrong at message 5: none, lose (no datagram), repeat (the number 4 again), word (not a
number), early (the answer twice), and end (it exits, with a message).
"""

import asyncio
import os
import socket
import sys

FAULTY_MESSAGE = 5


class Stub:
    """All there is: the last number."""

    def __init__(self, group: str, port: int, framing: str, fault: str) -> None:
        self.framing = framing
        self.fault = fault
        self.number = 0
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        here = socket.inet_aton("127.0.0.1")
        self.socket.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, here)
        self.socket.connect((group, port))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while payload := await self.next(reader):
            writer.write(self.take(payload))
            await writer.drain()
        writer.close()

    async def next(self, reader: asyncio.StreamReader) -> bytes:
        if self.framing == "recv":
            return await reader.read(1500)
        try:
            size = int((await reader.readuntil(b":"))[:-1])
            return (await reader.readexactly(size + 1))[:-1]
        except asyncio.IncompleteReadError:
            return b""

    def take(self, payload: bytes) -> bytes:
        self.number += 1
        fault = self.fault if self.number == FAULTY_MESSAGE else "none"
        if fault == "end":
            print("nothing goes any more", file=sys.stderr, flush=True)
            os._exit(1)  # as cquencer ends: at once
        number = str(self.number - (fault == "repeat")).encode()
        inner = b"%d:%b,%d:%b," % (len(number), number, len(payload), payload)
        if fault != "lose":
            self.socket.send(b"%d:%b," % (len(inner), inner))
        if fault == "word":
            return b"4:oops,"
        return b"%d:%b," % (len(number), number) * (1 + (fault == "early"))


async def main() -> None:
    port, group, feed_port, framing, fault = sys.argv[1:]
    stub = Stub(group, int(feed_port), framing, fault)
    server = await asyncio.start_server(stub.serve, "127.0.0.1", int(port))
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
