"""Messages with number and time in their headers, and whether they are those of `$SEQ.GET`."""

import re

from tests.support.raw import HEADERS, Operation, RawClient

STAMPS = b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"frame":"stamp"}\r\n'
FORGED = b"Nats-Sequence: 9\r\nnats-time-stamp : never\r\n"
LINES = re.compile(
    rb"NATS/1\.0\r\nNats-Sequence: (\d+)\r\n"
    rb"Nats-Time-Stamp: (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z)\r\n"
)
# Headers of a publisher, and what a subscriber gets of them.
BLOCKS = {
    b"": b"\r\n",
    b"NATS/1.0\r\nNats-Msg-Id: %d\r\n\r\n": b"Nats-Msg-Id: %d\r\n\r\n",
    b"NATS/1.0\r\n" + FORGED + b"A: %d\r\n\r\n": b"A: %d\r\n\r\n",
    b"junk of %d bytes": b"Seriatim-Left-Out: 15\r\n\r\n",
}


def publish_blocks(port: int, subject: bytes, first: int) -> None:
    """Publish a message with each of the blocks, the first as this number."""
    with RawClient(port, HEADERS) as client:
        for number, block in enumerate(BLOCKS, first):
            head = block % number if b"%" in block else block
            body = b"%b%d" % (head, number)
            sizes = b"%d %d" % (len(head), len(body))
            client.ask(b"HPUB %b %b\r\n%b\r\n" % (subject, sizes, body))


def dated(port: int, number: int) -> bytes:
    """The time that `$SEQ.GET` answers with."""
    with RawClient(port, HEADERS) as client:
        client.send(b"SUB _INBOX.1 1\r\nPUB $SEQ.GET.%d _INBOX.1 0\r\n\r\n" % number)
        found = re.search(rb"Nats-Time-Stamp: (\S+)\r\n", client.operation().header)
        assert found
        return found[1]


def check_stamps(port: int, heard: list[Operation], first: int) -> None:
    """Check messages of `publish_blocks`, numbers and times included; a broker keeps them."""
    kept = [
        kept % number if b"%" in kept else kept
        for number, kept in enumerate(BLOCKS.values(), first)
    ]
    assert len(heard) == len(kept)
    for number, (one, rest) in enumerate(zip(heard, kept, strict=True), first):
        lines = LINES.match(one.header)
        assert lines, one.header
        assert lines.groups() == (b"%d" % number, dated(port, number))
        assert (one.header[lines.end() :], one.payload) == (rest, b"%d" % number)
