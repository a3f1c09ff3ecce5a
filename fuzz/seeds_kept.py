"""The seeds that need a journal, in readable form; fuzz/seeds.py writes them."""

from fuzz.case_journal import BATCH, CHUNK, RAW, RECORDS
from fuzz.case_plane import BEAT, REOPEN, RESUME, SEND, STALL, TROUBLES
from fuzz.case_plane import FILL as FILL_ACT
from fuzz.case_plane import JAM as JAM_ACT
from fuzz.case_plane import MEND as MEND_ACT
from fuzz.case_plane import SYNC as SYNC_ACT
from fuzz.model_journal import Record, encode
from fuzz.records import SALT

Program = tuple[bytes, list[tuple[int, int, int, bytes]]]
FILL, JAM, MEND, SYNC = (
    TROUBLES.index(act) << 5 for act in (FILL_ACT, JAM_ACT, MEND_ACT, SYNC_ACT)
)
QUIET = b'CONNECT {"verbose":false,"pedantic":false}\r\n'
ABLE = b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true}\r\n'
ID = b"NATS/1.0\r\nNats-Msg-Id: 7\r\n\r\n"
TWICE = b"HPUB a 28 29\r\n" + ID + b"x\r\n"
IN_MEMORY, ON_DISK, SYNCED = b"\x40\0\0", b"\x84\0\0", b"\xc0\0\0"
LONG = b"PUB a 99\r\n" + b"x" * 99 + b"\r\n"

# Programs of the plane, as in fuzz/seeds.py: the client, and the disk's act before it.
PROGRAMS: dict[str, Program] = {
    "past": (
        IN_MEMORY,
        [
            (0, SEND, 0, QUIET + b"PUB a 1\r\nx\r\nPUB b r 2\r\nyy\r\nPUB a 1\r\nz\r\n"),
            (1, SEND, 0, QUIET + b"SUB $SEQ.FROM.2.> 1\r\nSUB $SEQ.RANGE.1.2.* 2\r\nSUB a 7\r\n"),
            (1, SEND, 0, b"SUB $SEQ.LAST.a 3\r\nSUB $SEQ.SINCE.1.> 4\r\nSUB $SEQ.FROM.6.> 6\r\n"),
            (2, SEND, 0, QUIET + b"SUB $SEQ.RANGE.3.5.> 5\r\nSUB $SEQ.SINCE.9.> 4\r\n"),
            (0, SEND, 0, b"PUB a 1\r\nx\r\nPUB b r 2\r\nyy\r\n\xfe\x04"),
            (1, SEND, 0, b"UNSUB 1\r\nUNSUB 4 9\r\nPING\r\n"),
        ],
    ),
    "past-lost": (
        b"\x90\0\0",
        [
            (0, SEND, 0, QUIET + b"SUB $SEQ.FROM.1.> 1\r\nSUB $SEQ.RANGE.1.4.> 2\r\n"),
            (0, SEND, 0, b"PUB a 1\r\nx\r\nSUB $SEQ.SINCE.0.> 3\r\nSUB $SEQ.RANGE.5.9.> 4\r\n"),
        ],
    ),
    "past-wrong": (
        ON_DISK,
        [
            (0, SEND, 0, b"SUB $SEQ.FROM.x.> 1\r\nSUB $SEQ.FROM.1 1\r\nSUB $SEQ.LAST. 1\r\n"),
            (0, SEND, 0, b"SUB $SEQ.RANGE.5.1.> 1\r\nSUB $SEQ.FROM.1.> q 1\r\nSUB $SEQ.X 1\r\n"),
        ],
    ),
    "lags": (
        ON_DISK,
        [
            (0, STALL, 0, ABLE + b"SUB a 1\r\nSUB > 2\r\nSUB a q 3\r\n"),
            (1, SEND, 0, ABLE + b"SUB a q 1\r\n" + LONG + b"\xfe\x20"),
            (0, BEAT, 0, b"PING\r\nPUB b 1\r\nx\r\nUNSUB 2\r\nPING\r\n"),
            (1, SEND, 0, b"PUB a r 3\r\nyyy\r\nHPUB a 12 013\r\nNATS/1.0\r\n\r\nz\r\n"),
            (0, RESUME, 0, b"PING\r\n"),
            (1, SEND, 0, b"PUB a 1\r\nx\r\n"),
        ],
    ),
    "lags-with-many": (
        ON_DISK,
        [
            (0, STALL, 0, QUIET + b"".join(b"SUB a %d\r\n" % sid for sid in range(11))),
            (1, SEND, 0, QUIET + b"SUB a q 1\r\n" + LONG + b"\xfe\x09"),
            (0, RESUME, 0, b"SUB $SEQ.LAST.> 20\r\n"),
        ],
    ),
    "lags-alone-in-its-group": (
        ON_DISK,
        [
            (0, STALL, 0, QUIET + b"SUB a q 1\r\nSUB a q 2\r\n"),
            (1, SEND, 0, QUIET + LONG + b"\xfe\x40"),
            (0, SEND, 0, b"UNSUB 1\r\n"),
            (0, RESUME, 0, b"PING\r\n"),
        ],
    ),
    "synced": (
        SYNCED,
        [
            (0, SEND, 0, QUIET + b"SUB a 1\r\nSUB r 2\r\nPUB $SEQ.PUB.a r 1\r\nx\r\nPING\r\n "),
            (1, SEND, 0, b"SUB a 1\r\nPUB a 1\r\nx\r\nPING \r\n"),
            (1 | SYNC, SEND, 0, b"PUB a 1\r\nx\r\n\xfe\x40"),
            (0 | SYNC, SEND, 0, b"PING\r\n"),
        ],
    ),
    "full": (
        ON_DISK,
        [
            (0, SEND, 0, ABLE + b"SUB a 1\r\nSUB r 2\r\n" + LONG + b"\xfe\x09"),
            (
                1 | FILL,
                SEND,
                0,
                b"PUB a 1\r\nx\r\n" + LONG + LONG + b"PUB $SEQ.PUB.a r 99\r\n" + LONG[10:],
            ),
            (0, SEND, 0, b"PUB $SEQ.PUB.a r 99\r\n" + LONG[10:] + b"PUB a r 99\r\n" + LONG[10:]),
            (0 | MEND, SEND, 0, LONG),
        ],
    ),
    "jammed": (
        ON_DISK,
        [
            (0, SEND, 0, QUIET + b"SUB a 1\r\n"),
            (1 | JAM, SEND, 0, QUIET + b"PUB a 1\r\nx\r\nPUB a 1\r\ny\r\n"),
            (1, SEND, 0, b"PUB a 1\r\nz\r\n"),
            (0, SEND, 0, b"SUB $SEQ.FROM.1.> 4\r\n"),
            (1 | MEND, SEND, 0, b"PUB a 1\r\nx\r\n"),
        ],
    ),
    "ids": (
        ON_DISK,
        [
            (0, SEND, 0, ABLE + b"SUB > 1\r\n" + TWICE + TWICE),
            (0, SEND, 0, b"HPUB $SEQ.PUB.a r 28 29\r\n" + ID + b"x\r\n"),
            (1, SEND, 0, b'CONNECT {"headers":true}\r\n' + TWICE),
            (1, REOPEN, 0, b"PING\r\n"),
        ],
    ),
}


def _record(number: int, subject: bytes = b"a.b", payload: bytes = b"hello") -> bytes:
    return encode(Record(number, 5, 9, 1, 1, 0, subject, b"r", b"", payload), SALT)


# A few records in the format of fuzz/records.py: plain, with all fields, long, with gaps, damaged.
PLAIN = bytes((0, 0, 5)) + bytes((0, 2, 9)) + bytes((0, 3, 0))
FULL = bytes((0x1C, 3, 40, 1)) + bytes((0x58, 2, 7, 0)) + bytes((0x10, 4, 3, 4)) + PLAIN
LONGER = bytes((0x80, 0, 9)) + bytes((0x80, 2, 200)) + FULL
GAPS = bytes((2, 0, 5, 3)) + bytes((3, 2, 9)) + bytes((2, 2, 9, 200)) + PLAIN
SEALED_LENGTH = PLAIN + bytes((0x20, 3, 9, 1, 0, 60)) + PLAIN
SEALED_HEADERS = PLAIN + bytes((0x30, 3, 9, 1, 2, 49, 9)) + PLAIN
BAD = PLAIN + bytes((0x20, 3, 9, 0xFF, 20, 9)) + PLAIN
RECORD_PROGRAMS = {
    "plain": PLAIN,
    "full": FULL,
    "longer": LONGER,
    "gaps": GAPS,
    "sealed-length": SEALED_LENGTH,
    "sealed-headers": SEALED_HEADERS,
    "bad": BAD,
}


def journal_seeds() -> dict[str, bytes]:
    """The programs in the format of fuzz/case_journal.py: mode, flags, filter, start, cut."""
    seeds = {
        "raw": bytes((RAW, 0, 0, 0, 100)) + _record(1) + _record(2, payload=b"x" * 70),
        "raw-unaligned": bytes((RAW, 4, 0, 0, 0)) + b" " + _record(1),
        "batch": bytes((BATCH, 0, 0, 0, 0, 0, 9, 40, 1, 33, 5, 0, 0, 2, 70, 9, 0, 3, 1, 2, 9, 1)),
        "batch-unchecked": bytes((BATCH, 1, 0, 0, 0, 0, 9, 40, 1, 7, 33, 5, 0, 0, 2, 70, 9, 0)),
        "chunk": bytes((CHUNK, 0, 0, 0, 0)),
        "chunk-damaged": bytes((CHUNK, 0, 0, 0, 0, 4, 2)),
        "chunk-cut": bytes((CHUNK, 0, 0, 0, 0, 255, 1)),
        "offsets-damaged": bytes((CHUNK, 0, 0, 0, 0, 148, 255)),
    }
    for turn, (name, records) in enumerate(RECORD_PROGRAMS.items()):
        settings = (RECORDS, turn & 2, turn * 37 & 255, turn & 1, turn * 11)
        seeds[name] = bytes(settings) + records
    return seeds


def player_seeds() -> dict[str, bytes]:
    """The programs in the format of case_player: flags, connection, numbers, cut, subs, records."""
    seeds = {}
    for turn, (name, records) in enumerate(RECORD_PROGRAMS.items()):
        connection = (turn * 16 | 0x0C) & 0xFF
        seeds[f"{name}-replayed"] = bytes((2, connection, turn, turn * 5, 0, 0)) + records
        subs = bytes((3, 0, 0, 1, 0, 0, 0x18, 1))
        seeds[f"{name}-live"] = bytes((4, connection | 1, 0, turn)) + subs + records
    seeds["many-live"] = bytes((0, 0x0D, 0, 9, 11)) + b"\0\0" * 8 + b"\1\0\0" * 3 + FULL
    return seeds
