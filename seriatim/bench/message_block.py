r"""Ready PUB operations of one publisher, one behind the other: only their stamps change.

    PUB bench.0 16\r\n<key><time>\r\nPUB bench.1 16\r\n<key><time>\r\n ...

A publisher sends a piece of the block with one system call, and comes back to it for the next
messages. The stamp is the first 16 bytes of a payload, two numbers, most significant byte first:

    key     the run (15 bits), the publisher (12 bits), how many it has sent before (36 bits)
    time    when it was to be sent, by the monotonic clock, in ns; 0 if no latency is measured

So a subscriber knows whose message it is, whether one is missing or came twice, and how long it
took, without a number of the broker's.
"""

from collections.abc import Sequence

import cython

STAMP = 16  # bytes
RUN_SHIFT = 48
PUBLISHER_SHIFT = 36
PIECE_BYTES = 256 * 1024  # fits in the cache, and is one system call for many messages
FILLER = b"0123456789abcdef"
PLACE = 8  # bytes
KEY_BYTES = 8


def key_of(run: int, publisher: int) -> int:
    """Return the key of the first message of a publisher."""
    return run << RUN_SHIFT | publisher << PUBLISHER_SHIFT


def payload_of(size: int) -> bytes:
    """Return a payload of `size` bytes, in which there is no stamp yet."""
    return (FILLER * (size // len(FILLER) + 1))[:size]


class MessageBlock:
    """The block of one publisher, whose subjects take turns. `key`: of its first message."""

    def __init__(self, subjects: Sequence[str], size: int, key: int) -> None:
        heads = [f"PUB {subject} {size}\r\n".encode() for subject in subjects]
        once = sum(map(len, heads)) + len(heads) * (size + 2)
        rounds = max(1, PIECE_BYTES // once)
        tail = payload_of(size) + b"\r\n"
        self.data = bytearray(b"".join([head + tail for head in heads]) * rounds)
        self.bytes = memoryview(self.data)
        self.key = key
        self.messages = rounds * len(heads)
        self.piece = max(1, PIECE_BYTES * len(heads) // once)
        self.tail = len(tail)
        self.table = bytearray(PLACE * self.messages)
        places = memoryview(self.table).cast("q")
        end = 0
        for index in range(self.messages):
            places[index] = end + len(heads[index % len(heads)])
            end = places[index] + len(tail)
        if cython.compiled:
            self.raw = self.data
            self.places = cython.cast("long long *", cython.cast("unsigned char *", self.table))
        else:
            self.raw, self.places = self.data, places

    def stamp(self, sent: int, most: int, start: float, interval: float) -> int:
        """Stamp the messages that follow the first `sent` ones, at most `most`; return how many.

        Message n was to be sent at `start + n * interval`, in ns; without an interval it has no
        time. There are fewer where the block ends, or a piece is full.
        """
        index = sent % self.messages
        count = min(most, self.messages - index, self.piece)
        due = 0
        for at in range(index, index + count):
            if interval:
                if cython.compiled:
                    due = cython.cast("long long", start + sent * interval)
                else:
                    due = int(start + sent * interval)
            self._write(self.places[at], self.key + sent)
            self._write(self.places[at] + 8, due)
            sent += 1
        return count

    def stamped(self, sent: int, count: int) -> memoryview:
        """Return the bytes of `count` messages that follow the first `sent` ones."""
        index = sent % self.messages
        begin = self.places[index - 1] + self.tail if index else 0
        return self.bytes[begin : self.places[index + count - 1] + self.tail]

    def _write(self, at: int, value: int) -> int:
        for place in range(at + 7, at - 1, -1):
            self.raw[place] = value & 255
            value >>= 8
        return 0
