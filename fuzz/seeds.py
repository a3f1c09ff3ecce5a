"""The seeds of the corpus in readable form: `python -m fuzz.seeds` writes them again.

`python -m fuzz.thin` adds inputs that fuzzing found. Inputs that once broke something are called
`bug-...` and are kept as they are.
"""

from pathlib import Path

from fuzz.build import ROOT
from fuzz.case_plane import BEAT, BRIM, REOPEN, RESUME, SEND, STALL
from fuzz.case_sublist import CHURN, COLLIDING_FROM, FLOODING, INSERT, PUBLISH, REMOVE, ROUTE
from fuzz.seeds_feed import feed_seeds
from fuzz.seeds_kept import PROGRAMS as KEPT_PROGRAMS
from fuzz.seeds_kept import journal_seeds, player_seeds
from fuzz.seeds_member import member_seeds
from fuzz.seeds_users import frame_seeds, login_seeds, rights_seeds

CORPUS = ROOT / "tests" / "corpus"
QUIET = b'CONNECT {"verbose":false,"pedantic":false}\r\n'
ABLE = b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true}\r\n'
STATUS = b"NATS/1.0\r\n"

# The wire, then how it is cut: four sizes, 0 for the rest. Settings: flags, limits.
WIRE = {
    "session": b"CONNECT {}\r\nPING\r\nSUB foo.*.test 10\r\n"
    b"PUB foo.abc.test 12\r\nhello world!\r\n",
    "every-verb": b"CONNECT{}\r\nINFO {}\r\nSUB a q 1\r\nUNSUB 1 5\r\nUNSUB 1\r\n"
    b"+OK\r\nPING\r\nPONG x\r\nPUB a 1\r\nx\r\nPUB a r 2\r\nxy\r\n"
    b"HPUB a 12 13\r\nNATS/1.0\r\n\r\nx\r\nHPUB a r 0 0\r\n\r\n-ERR x\r\n",
    "blanks": b"connect \t {}\npUb\ta\t  2 \r\n\r\n\r\nsub   \n a\r q \t1\r\r\n"
    b"UNSUB \n1\r\nHPUB \t a\t0 0\n\r\n",
    "size-2-64-minus-2": b"PUB x 18446744073709551614\r\nhello\r\n",
    "size-2-64-plus-5": b"PUB x 18446744073709551621\r\nhello\r\n",
    "size-2-63": b"PUB x 9223372036854775808\r\nhello\r\n",
    "size-2-32-plus-5": b"PUB x 4294967301\r\nhello\r\n",
    "size-nine-digits": b"PUB x 000000005\r\nhello\r\nPUB x 999999999\r\n",
    "size-ten-digits": b"PUB x 0000000005\r\nhello\r\n",
    "size-minus": b"PUB x -2\r\nhello\r\n",
    "headers-larger": b"HPUB x 6 5\r\nhello\r\n",
    "headers-huge": b"HPUB x 18446744073709551615 5\r\nhello\r\n",
    "ends-wrong": b"PUB x 5\r\nhello\n\r",
    "ends-late": b"PUB x 5\r\nhello\r",
    "line-at-limit": b"SUB "
    + b"a" * 38
    + b" 1\r\nPUB "
    + b"a" * 38
    + b" 0\r\n\r\nSUB "
    + b"a" * 39
    + b" 1",
    "blanks-only": b"PUB" + b" " * 300,
    "ping-long": b"PING" + b"x" * 300 + b"\r\nPING\r\n",
    "unknown": b"MSG a 1 1\r\nx\r\n",
    "letters": b"PUX",
}
CUTS = {"whole": bytes(4), "bytes": b"\1\1\1\1", "uneven": b"\1\7\2\5"}

# Programs of the plane: settings, then records of (client, act, size of chunks, bytes).
Record = tuple[int, int, int, bytes]
PLAIN, SMALL, MIXED, WIDE = b"\0\0\0", b"\1\3\2", b"\x08\2\0", b"\x2c\x42\0"
PROGRAMS: dict[str, tuple[bytes, list[Record]]] = {
    "verbose": (
        PLAIN,
        [
            (
                0,
                SEND,
                0,
                b"CONNECT {}\r\nSUB foo.*.test 10\r\nPUB foo.abc.test 5\r\nhello\r\nPING\r\n",
            )
        ],
    ),
    "fan-out": (
        PLAIN,
        [
            (0, SEND, 0, QUIET + b"SUB > 1\r\nSUB a.* 2\r\nSUB a.b 3\r\n"),
            (1, SEND, 0, QUIET + b"SUB a.> 1\r\nSUB a.b 12345678901234567890\r\n"),
            (
                2,
                SEND,
                0,
                QUIET + b"PUB a.b 5\r\nhello\r\n\xfe\x1ePUB a.b r 005\r\nhello\r\nPUB c 0\r\n\r\n",
            ),
        ],
    ),
    "groups": (
        PLAIN,
        [
            (0, SEND, 0, QUIET + b"SUB a q 1\r\nSUB a q 2\r\nSUB * p 3\r\n"),
            (1, SEND, 0, QUIET + b"SUB > q 1\r\n"),
            (
                2,
                SEND,
                0,
                b'CONNECT {"verbose":false,"echo":false}\r\nSUB a q 9\r\nPUB a 1\r\nx\r\n\xfe\x10',
            ),
        ],
    ),
    "group-max": (
        PLAIN,
        [(0, SEND, 0, QUIET + b"SUB a q 1\r\nSUB a q 2\r\nUNSUB 1 2\r\nPUB a 1\r\nx\r\n\xfe\x08")],
    ),
    "unsubscribe": (
        MIXED,
        [
            (0, SEND, 3, b"SUB a 1\r\nUNSUB 1 2\r\nSUB a 2\r\nUNSUB 2\r\nUNSUB 7\r\nUNSUB 1 x\r\n"),
            (
                1,
                SEND,
                0,
                b"SUB a 1\r\nUNSUB 1 2\r\nPUB a 1\r\nx\r\n\xfe\x03SUB a 1\r\nUNSUB 1 0\r\n",
            ),
        ],
    ),
    "headers": (
        MIXED,
        [
            (0, SEND, 0, ABLE + b"SUB a 1\r\n"),
            (1, SEND, 0, ABLE + b"SUB a 1\r\n"),
            (2, SEND, 0, ABLE + b"SUB a 1\r\n"),
            (3, SEND, 0, QUIET + b"SUB a 1\r\n"),
            (
                0,
                SEND,
                0,
                b"HPUB a 12 0017\r\n" + STATUS + b"\r\nhello\r\nHPUB a 005 5\r\nhello\r\n",
            ),
            (0, SEND, 0, b"HPUB a r 0 1\r\nx\r\nPUB a 01\r\nx\r\n"),
            (0, SEND, 0, b"HPUB a 10 \xfd\x20"),
        ],
    ),
    "numbers": (
        PLAIN,
        [
            (0, SEND, 0, ABLE + b"SUB r 1\r\nSUB r q 2\r\nUNSUB 1 3\r\n"),
            (1, SEND, 0, QUIET + b"SUB > 1\r\n"),
            (
                0,
                SEND,
                9,
                b"PUB $SEQ.PUB.a r 1\r\nx\r\nPUB $SEQ.PUB.a r 0\r\n\r\nPUB $SEQ.PUB. r 1\r\nx\r\n",
            ),
            (0, SEND, 0, b"PUB $SEQ.PUB.$SEQ.a r 1\r\nx\r\nPUB $SEQ.x 0\r\n\r\nSUB $SEQ.> 3\r\n"),
            (
                0,
                SEND,
                0,
                b"HPUB $SEQ.PUB.b r 12 13\r\n"
                + STATUS
                + b"\r\nx\r\nPUB _GR_.a 0\r\n\r\nPUB a _R_.b 0\r\n\r\n",
            ),
        ],
    ),
    "no-responders": (
        PLAIN,
        [
            (
                0,
                SEND,
                0,
                ABLE + b"SUB r.* 1\r\nSUB r.a q 2\r\nPUB x r.a 0\r\n\r\nHPUB a..b r.b 0 1\r\nx\r\n",
            ),
            (0, SEND, 0, b'CONNECT {"echo":false}\r\nPUB r.a r.a 1\r\nx\r\nPING\r\n'),
        ],
    ),
    "excluded": (
        WIDE,
        [
            (0, SEND, 0, ABLE + b"SUB x.> 1\r\nSUB y 2\r\n"),
            (1, SEND, 0, ABLE + b"SUB x.> 1\r\nSUB y 2\r\n"),
            (2, SEND, 0, ABLE + b"PUB x.a 005\r\nhello\r\nPUB y 1\r\nx\r\nPUB x.a 1\r\nx\r\n"),
            (
                2,
                SEND,
                0,
                b"HPUB x.a 2 003\r\nabc\r\nHPUB y 2 3\r\nabc\r\nPUB $SEQ.PUB.x.a r 1\r\nx\r\n",
            ),
        ],
    ),
    "faults": (
        SMALL,
        [
            (0, SEND, 1, b"SUB a 1\r\nPUB a..b 2\r\nabc"),
            (1, SEND, 0, b"PUB a 101\r\n"),
            (2, SEND, 0, b"SUB " + b"a" * 520),
            (3, SEND, 0, b"CONNECT {\r\n"),
            (0, REOPEN, 0, b"HPUB a 1 1\r\nx\r\n"),
            (1, REOPEN, 0, b'CONNECT {"protocol":2}\r\n'),
            (2, REOPEN, 0, b'CONNECT {"no_responders":true}\r\n'),
            (3, REOPEN, 0, b'CONNECT {"frame":"x"}\r\n'),
        ],
    ),
    "slow-cut": (
        SMALL,
        [
            (0, STALL, 0, QUIET + b"SUB a 1\r\n"),
            (1, SEND, 0, QUIET + b"SUB a 1\r\nPUB a 99\r\n" + b"x" * 99 + b"\r\n\xfe\x60"),
            (2, SEND, 0, QUIET + b"SUB a q 1\r\nPUB a r 1\r\nx\r\n"),
        ],
    ),
    "slow-itself": (
        b"\2\0\0",
        [
            (0, STALL, 0, b"SUB a 1\r\nSUB > 2\r\nPUB a \xfd\x20\xfe\x0aPING\r\n"),
            (1, SEND, 0, b"PING\r\n"),
        ],
    ),
    "slow-then-reads": (
        b"\3\1\0",
        [
            (0, STALL, 0, QUIET + b"SUB a 1\r\nSUB a 2\r\n"),
            (1, SEND, 0, QUIET + b"PUB a \xfd\x30\xfe\x03PUB a 1\r\nx\r\n\xfe\x01"),
            (0, RESUME, 0, b"PING\r\n"),
            (0, BRIM, 0, b"PING\r\n"),
            (1, SEND, 0, b"PUB a \xfd\x20PUB a \xfd\x60"),
            (0, BEAT, 0, b"PONG\r\n"),
            (0, RESUME, 0, b"PING\r\n"),
        ],
    ),
    "long": (
        b"\3\2\0",
        [
            (0, SEND, 0, QUIET + b"SUB a 1\r\n"),
            (1, SEND, 0, QUIET + b"PUB a \xfd\xf0"),
            (1, SEND, 200, b"PUB a \xfd\x40PUB a \xfd\x50PI"),
            (1, SEND, 0, b"NG\r\n"),
        ],
    ),
    "limited": (
        b"\0\x86\0",
        [
            (
                0,
                SEND,
                0,
                b"SUB a 1\r\nSUB b 2\r\nSUB c 3\r\nSUB d 4\r\n"
                b"SUB a 1\r\nUNSUB 1\r\nSUB d.> 4\r\nSUB d..e 5\r\n",
            )
        ],
    ),
    "much-work": (
        PLAIN,
        [
            (0, SEND, 0, QUIET + b"SUB a 1\r\nSUB * 2\r\nSUB > 3\r\nSUB a q 4\r\nSUB r 5\r\n"),
            (1, SEND, 0, QUIET + b"SUB a 1\r\nSUB a q 2\r\nSUB r q 3\r\n"),
            (2, SEND, 0, QUIET + b"PUB a 1\r\nx\r\n\xfe\x30HPUB"),
            (3, SEND, 0, ABLE + b"PUB a r 2\r\nyy\r\nPUB $SEQ.PUB.a r 1\r\nz\r\n\xfe\x20PUB b"),
            (1, REOPEN, 0, b"SUB a 1\r\nPING\r\n"),
            (2, SEND, 0, b" \r\n"),
        ],
    ),
    "goes-away": (
        MIXED,
        [
            (0, STALL, 0, b"SUB a 1\r\nSUB a q 2\r\n"),
            (1, SEND, 0, b"SUB a 1\r\nPUB a 1\r\nx\r\n"),
            (0, REOPEN, 0, b'CONNECT {"protocol":1}\r\nSUB a 2\r\nPING\r\nPING\r\n'),
            (1, SEND, 0, b"PUB a 1\r\nx\r\n"),
        ],
    ),
}
ACT_BYTES = {SEND: 0, STALL: 3, BRIM: 4, RESUME: 5, REOPEN: 6, BEAT: 7}

# Programs of the sublist: each op's byte, then its arguments (case_sublist.TOKENS by number).
OP_BYTES = {INSERT: 0, REMOVE: 2, PUBLISH: 3, ROUTE: 5, FLOODING: 6, CHURN: 7}
A, B, STAR, TAIL = range(4)
Subject = tuple[int, ...]
Step = tuple[int, Subject, int]


def colliding(number: int) -> Subject:
    """One of the subjects that compete for a slot, instead of tokens."""
    return (-1 - number,)


SUBLISTS: dict[str, list[Step]] = {
    "literals": [(INSERT, (A,), 0), (PUBLISH, (A,), 0), (INSERT, (A, B), 6), (ROUTE, (A, B), 0)],
    "wildcards": [
        (INSERT, (A, STAR), 0),
        (INSERT, (A, TAIL), 1),
        (INSERT, (STAR, B), 2),
        (INSERT, (TAIL,), 3),
        (PUBLISH, (A, B), 0),
        (ROUTE, (A, B, A), 0),
        (REMOVE, (), 1),
        (PUBLISH, (A, B), 0),
        (ROUTE, (A, STAR), 0),
    ],
    "groups": [(INSERT, (A,), 6), (INSERT, (STAR,), 7), (INSERT, (A,), 8), (PUBLISH, (A,), 0)],
    "churn": [
        (ROUTE, (A, B), 0),
        (CHURN, (A, STAR), 70),
        (INSERT, (A, TAIL), 0),
        (ROUTE, (A, B), 0),
        (CHURN, (STAR, STAR), 3),
        (PUBLISH, (A, B), 0),
    ],
    "flood": [(ROUTE, (A,), 0), (FLOODING, (), 31), (FLOODING, (), 31), (PUBLISH, (A,), 0)],
    "twins": [(INSERT, colliding(n), 0) for n in range(0, 8, 2)]
    + [(PUBLISH, colliding(n), 0) for n in range(8)]
    + [(ROUTE, colliding(n), 0) for n in range(8)],
    "collide": [(PUBLISH, colliding(n), 0) for n in range(8, 28)] + [(ROUTE, colliding(8), 0)],
}


def parser_seeds() -> dict[str, bytes]:
    """Make every wire with each cut in turn; headers, looking ahead and limits in turn, too."""
    cuts = list(CUTS.items())
    seeds = {}
    for turn, (name, wire) in enumerate(WIRE.items()):
        cut_name, cut = cuts[turn % len(cuts)]
        limits = 2 if name == "line-at-limit" else 0
        seeds[f"{name}-{cut_name}"] = bytes([turn % 8 | 1, limits]) + cut + wire
    return seeds


def plane_seeds() -> dict[str, bytes]:
    """The programs in the format of `case_plane`."""
    return {
        name: settings
        + b"\xff".join(
            bytes([index | ACT_BYTES[act] << 2, cut]) + text for index, act, cut, text in records
        )
        for name, (settings, records) in (PROGRAMS | KEPT_PROGRAMS).items()
    }


def _subject(tokens: Subject) -> bytes:
    if tokens and tokens[0] < 0:
        return bytes([COLLIDING_FROM, -1 - tokens[0]])
    return bytes([len(tokens) - 1, *tokens])


def sublist_seeds() -> dict[str, bytes]:
    """The programs in the format of `case_sublist`."""
    seeds = {}
    for turn, (name, steps) in enumerate(SUBLISTS.items()):
        text = bytearray([turn % 3])
        for op, tokens, choice in steps:
            text.append(OP_BYTES[op])
            if op in (INSERT, PUBLISH, ROUTE, CHURN):
                text += _subject(tokens)
            if op in (INSERT, REMOVE, FLOODING, CHURN):
                text.append(choice)
        seeds[name] = bytes(text)
    return seeds


def cardinal_seeds() -> dict[str, bytes]:
    """Each kind of message, with one entry or update; Avro as others write it; patterns."""
    entry = b"\x02a\x02x\x04\x01" + b"i" * 32
    head, pair = b"\x02\x02\x01" + b"p" * 32, b"\x02a\x02x"
    return {
        "batch": b"\x00" + head + b"\x01\x4c" + entry + b"\x00",
        "batch-unsized": b"\x00" + head + b"\x02" + entry + b"\x02\x02b" + entry[2:] + b"\x00",
        "header": b"\x01\xf2\x14",
        "sub-batch": b"\x02\x03\x08\x02b\x02c\x00\x02" + pair + b"\x00",
        "sub-batch-one": b"\x02\x00\x01\x08" + pair + b"\x00",
        "sub-batch-index": b"\x0a\x42" + b"h" * 64 + b"\x80\x01\x00\x00",
        "update": b"\x0b\x26" + b"h" * 32 + b"a/\xc3\xa9xvalue",
        "delete": b"\x0c\x23" + b"h" * 32 + b"a/b",
        "short": b"\x0b\x05hhhhh",
        "reorg": b"\x05\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        "reorg-complete": b"\x06\x80\x99\x9b\x10",
        "ping": b"\x07now",
        "pattern": b"\xf0(a|b/)[^c-]*\x00ab/",
        "pattern-repeated": b"\xf0\\d{1,2}\\w+?.\x0012x",
    }


SEEDS = {
    "cardinal": cardinal_seeds,
    "feed": feed_seeds,
    "frames": frame_seeds,
    "journal": journal_seeds,
    "logins": login_seeds,
    "member": member_seeds,
    "parser": parser_seeds,
    "plane": plane_seeds,
    "player": player_seeds,
    "rights": rights_seeds,
    "sublist": sublist_seeds,
}


def write(folder: Path, seeds: dict[str, bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in seeds.items():
        (folder / f"seed-{name}").write_bytes(data)


if __name__ == "__main__":
    for target, seeds_of in SEEDS.items():
        write(CORPUS / target, seeds_of())
