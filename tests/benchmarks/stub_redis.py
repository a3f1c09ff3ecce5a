"""A minimal Redis for the benchmark to count: stub_redis.py PORT FAULT.

It knows SUBSCRIBE, PUBLISH, XADD and XLEN. FAULT is what it does wrong at command 5: none, lose (it
adds nothing, and says that it did), refuse (an error).
"""

import asyncio
import itertools
import sys

FAULTY_COMMAND = 5


class Stub:
    """All there is: the subscribers, and how many entries were added."""

    def __init__(self, fault: str) -> None:
        self.fault = fault
        self.entries = 0
        self.subscribers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for number in itertools.count(1):
            line = await reader.readline()
            if not line:
                break
            words = []
            for _ in range(int(line[1:])):
                size = int((await reader.readline())[1:])
                words.append((await reader.readexactly(size + 2))[:-2])
            fault = self.fault if number == FAULTY_COMMAND else "none"
            writer.write(b"-ERR no\r\n" if fault == "refuse" else self.answer(words, writer, fault))
            await writer.drain()
        writer.close()

    def answer(self, words: list[bytes], writer: asyncio.StreamWriter, fault: str) -> bytes:
        match words:
            case [b"SUBSCRIBE", channel]:
                self.subscribers.append(writer)
                return b"*3\r\n$9\r\nsubscribe\r\n$%d\r\n%b\r\n:1\r\n" % (len(channel), channel)
            case [b"PUBLISH", channel, payload]:
                sizes = (len(channel), channel, len(payload), payload)
                for subscriber in self.subscribers:
                    subscriber.write(b"*3\r\n$7\r\nmessage\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n" % sizes)
                return b":%d\r\n" % len(self.subscribers)
            case [b"XADD", *_]:
                self.entries += fault != "lose"
                return b"$3\r\n1-0\r\n"
            case _:
                return b":%d\r\n" % self.entries


async def main() -> None:
    server = await asyncio.start_server(Stub(sys.argv[2]).serve, "127.0.0.1", int(sys.argv[1]))
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
