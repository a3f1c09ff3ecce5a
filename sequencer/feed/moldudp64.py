"""The codec `moldudp64`: Nasdaq's MoldUDP64, which many programs read and tshark dissects.

     0 session, 10 ASCII      10 number of the first message u64      18 count u16
    20 count blocks: length u16, payload                              big-endian

A count of 0 is a heartbeat, and 0xFFFF is the end of the session; the number is then the next one
to come. A request for messages is only a head: session, first number wanted, count.

The blocks are numbered from the first number on. A number that the feed's filter left out is a
block of length 0. A receiver of a filtered feed takes such a block as left out (`filtered`), even
if it was an empty message.
"""

import base64

import cython

from sequencer.feed.errors import CodecError
from sequencer.feed.feed_codec import DATA, END, HEARTBEAT, Codec, Packet
from sequencer.feed.feed_message import FeedMessage
from sequencer.journal.record import Walk

if not cython.compiled:
    from sequencer.feed.feed_codec import copy
    from sequencer.feed.network import read_number, write_number

    HEAD_SIZE = 20
    SESSION_SIZE = 10
    END_COUNT = 0xFFFF
    BLOCK_MAX = 0xFFFF
    NUMBER_MAX = (1 << 63) - 1

BROTHERS = 8  # first characters of a session, the same for all epochs of a journal
DIGITS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"


def session_name(journal: str, epoch: int) -> bytes:
    """The session of a journal's epoch: 40 bits of the journal's digest, 10 bits of the epoch."""
    from hashlib import sha256  # imports OpenSSL, so only if there is such a feed

    name = base64.b32encode(bytes.fromhex(sha256(journal.encode()).hexdigest()[:10]))
    return b"%b%c%c" % (name, DIGITS[epoch >> 5 & 31], DIGITS[epoch & 31])


def request(session: bytes, first: int, count: int) -> bytes:
    """Return the datagram that requests `count` messages from number `first` on."""
    out = bytearray(HEAD_SIZE)
    _head(out, 0, session, first, count)
    return bytes(out)


def parse_request(datagram: bytes) -> tuple[bytes, int, int]:
    """Return session, first number and count of a request. Raises `CodecError`."""
    data = datagram
    if len(datagram) != HEAD_SIZE:
        raise CodecError(min(len(datagram), HEAD_SIZE), f"a request has {HEAD_SIZE} bytes")
    first = read_number(data, 10, 8)
    count = read_number(data, 18, 2)
    if not 0 < first <= NUMBER_MAX:
        raise CodecError(10, f"{first} is not a valid message number")
    if count == 0:
        raise CodecError(18, "a request for 0 messages")
    return datagram[:SESSION_SIZE], first, count


class MoldUDP64Codec(Codec):
    """The codec `moldudp64`. `open` makes `session` of journal and epoch; it may be set later."""

    def __init__(self, filtered: bool = False) -> None:
        super().__init__(head_size=HEAD_SIZE, skip_size=2, contiguous=True)
        self.filtered = filtered
        self.session = b" " * SESSION_SIZE

    def open(self, journal: str, epoch: int) -> None:
        super().open(journal, epoch)
        self.session = session_name(journal, epoch)

    def measure(self, walk: Walk, data: bytes | bytearray) -> int:
        return 2 + walk.payload_size

    def put(self, out: bytearray, at: int, walk: Walk, data: bytes | bytearray) -> int:
        assert walk.payload_size <= BLOCK_MAX, "the feed does not send messages that long"
        at = write_number(out, at, 2, walk.payload_size)
        return copy(out, at, data, walk.payload, walk.payload_size)

    def seal(
        self,
        out: bytearray,
        start: int,
        end: int,
        previous: int,
        first: int,
        last: int,
        count: int,
    ) -> int:
        assert count == last - first + 1 < END_COUNT, "the numbers in a datagram are contiguous"
        return _head(out, start, self.session, first, count)

    def heartbeat(self, previous: int, after: int) -> bytes:
        return request(self.session, after, 0)

    def end(self, previous: int, after: int) -> bytes:
        return request(self.session, after, END_COUNT)

    def decode(self, datagram: bytes) -> Packet:
        return _decode(datagram, self.filtered)


def _head(out: bytearray, at: int, session: bytes, number: int, count: int) -> int:
    assert len(session) == SESSION_SIZE, "a session has 10 characters"
    at = copy(out, at, session, 0, SESSION_SIZE)
    at = write_number(out, at, 8, number)
    write_number(out, at, 2, count)
    return 0


def _decode(datagram: bytes, filtered: bool) -> Packet:
    """Read the head and the number of blocks that it gives."""
    data = datagram
    size = len(datagram)
    if size < HEAD_SIZE:
        raise CodecError(size, f"the head has {HEAD_SIZE} bytes: cut off?")
    first = read_number(data, 10, 8)
    count = read_number(data, 18, 2)
    blocks = 0 if count == END_COUNT else count
    if first == 0 or first - 1 > NUMBER_MAX - blocks:
        raise CodecError(10, f"{first} is not a valid message number")
    session = datagram[:SESSION_SIZE]
    messages: list[FeedMessage] = []
    if blocks == 0:
        if size != HEAD_SIZE:
            raise CodecError(HEAD_SIZE, "bytes after a heartbeat, or after the end of the session")
        return Packet(END if count else HEARTBEAT, messages, first - 1, first, session)
    at = HEAD_SIZE
    for number in range(first, first + count):
        if size - at < 2:
            raise CodecError(at, f"{first + count - number} blocks are missing: cut off?")
        length = read_number(data, at, 2)
        at += 2
        if length > size - at:
            raise CodecError(at - 2, f"the block ends {length - size + at} bytes later: cut off?")
        if length or not filtered:
            messages.append(FeedMessage(number, datagram[at : at + length]))
        at += length
    if at != size:
        raise CodecError(at, f"{size - at} bytes after the last block")
    return Packet(DATA, messages, first - 1, first + count, session)
