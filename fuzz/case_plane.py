"""A program of several clients against the data plane, judged by a model of the whole broker.

    setting setting setting  record 0xFF record 0xFF ...         record: act cut bytes ...

A record's first byte chooses the client (bits 0-1) and the acts before it sends: on the client
(bits 2-4, see `ACTS`), and on the journal (bits 5-7, see `TROUBLES`), if there is one. Its
second byte says how its bytes are cut: 0 not at all, else into pieces of that size. Two bytes are
abbreviations, so that a small input can be a flood:

    0xFD k   a size and its payload: `<k*k*8>\\r\\n` x's `\\r\\n`
    0xFE k   k+1 times the record's bytes so far
"""

from typing import NoReturn
from unittest.mock import patch

from broker.replay import stepper
from broker.storage import keeper
from sequencer.journal import ring
from testkit.model_broker import Model
from testkit.model_frame import HEADER, NETSTRING, NONE, STAMP
from testkit.world import World

MAX_LEN = 2048
SETTINGS = 3
CLIENTS = 4
EXPANDED_MAX = 1 << 19  # bytes of one input after expansion
READ_EVENTS_MAX = 150
LINES_MAX = 200  # per record, when the bytes so far are repeated

PENDING = (64 << 20, 4096, 1 << 16, 600_000)
FRAMES = (
    [NETSTRING] * CLIENTS,
    [NONE] * CLIENTS,
    [NETSTRING, HEADER, NONE, NETSTRING],
    [STAMP, HEADER, NONE, STAMP],
)
NUMBERS = (0, 8, 98, (1 << 63) - 1_000_000)
LINES = (4096, 512)
PAYLOADS = (1 << 20, 100)
INBOXES = (1 << 18, 1 << 16, 64, 1)
ROUTES = (1 << 18, 16)
SEND, STALL, BRIM, RESUME, REOPEN, BEAT = range(6)
ACTS = (SEND, SEND, SEND, STALL, BRIM, RESUME, REOPEN, BEAT)
NOTHING, FILL, JAM, MEND, SYNC = range(5)
TROUBLES = (NOTHING, NOTHING, FILL, JAM, MEND, MEND, SYNC, SYNC)
BRIM_BYTES = 100
BUFFER = 4096  # read from the journal at once: much less than usual


def world_of(settings: bytes) -> World:
    """A world with the limits that the settings choose."""
    first, second, third = settings
    excluding, limited = bool(second & 64), bool(second & 128)
    model = Model(LINES[third & 1], PAYLOADS[third >> 1 & 1], 3 if limited else 0, excluding)
    return World(
        model,
        FRAMES[first >> 2 & 3],
        max_pending=PENDING[first & 3],
        number=NUMBERS[first >> 4 & 3],
        inbox_size=INBOXES[second & 3],
        max_routes=ROUTES[second >> 2 & 1],
        keeping=first >> 6,
    )


def expand(record: bytes, room: int) -> bytes:
    """A record's bytes with abbreviations expanded; at most `room` of them."""
    text, at = bytearray(), 0
    while at < len(record) and len(text) <= room:
        byte = record[at]
        more = record[at + 1] if at + 1 < len(record) else 0
        if byte == 0xFD:
            text += b"%d\r\n%b\r\n" % (more * more * 8, b"x" * (more * more * 8))
        elif byte == 0xFE:
            lines = text.count(b"\n") + 1
            text += text * min(more, LINES_MAX // lines, room // (len(text) or 1))
        else:
            text.append(byte)
        at += 2 if byte in (0xFD, 0xFE) else 1
    return bytes(text[:room])


def act(world: World, index: int, what: int) -> None:
    """Act on a client before it sends."""
    peer = world.peers[index]
    if what == REOPEN:
        world.reopen(index)
    elif what == BEAT:
        world.beat(index)
    elif peer.gone:
        return
    elif what == STALL:
        peer.stall()
    elif what == BRIM:
        peer.stall(BRIM_BYTES)
    elif what == RESUME:
        peer.read_on()


def trouble(world: World, what: int) -> None:
    """Act on the journal before a client sends."""
    if what == FILL:
        world.fill()
    elif what == JAM:
        world.jam()
    elif what == MEND:
        world.mend()
    elif what == SYNC:
        world.sync()


def check(data: bytes) -> None:
    """Run one program."""
    if len(data) < SETTINGS:
        return
    with (
        patch.object(stepper, "BUFFER", BUFFER),
        patch.object(ring, "PIECE_BYTES", BUFFER),
        patch.object(stepper.log, "exception", _defect),
        patch.object(keeper.log, "error"),  # of disk faults, which a program causes
    ):
        _run(data)


def _defect(words: str, exc_info: BaseException) -> NoReturn:
    """Raise for an error that a broker would log before it continues."""
    raise AssertionError(words) from exc_info


def _run(data: bytes) -> None:
    world = world_of(data[:SETTINGS])
    room, events = EXPANDED_MAX, READ_EVENTS_MAX
    for record in data[SETTINGS:].split(b"\xff"):
        if len(record) < 2:
            continue
        index, what, cut = record[0] & 3, ACTS[record[0] >> 2 & 7], record[1]
        trouble(world, TROUBLES[record[0] >> 5])
        act(world, index, what)
        text = expand(record[2:], room)
        room -= len(text)
        size = max(cut or len(text), -(-len(text) // max(events, 1)), 1)
        for at in range(0, len(text), size):
            world.feed(index, text[at : at + size])
            events -= 1
    world.finish()
