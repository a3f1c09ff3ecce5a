"""The seeds of users and of WebSocket, in readable form; fuzz/seeds.py writes them."""

from fuzz.case_rights import ASK, CLIENTS, NUMBERED, PAST, PUB, RENEW, STEPS, SUB, UNSUB

HALF = 0x40  # a byte for an ordinary entry: a subject, for all
A, AB, ANY, ALL = b"\0\0", b"\1\0\1", b"\1\0\3", b"\x81\0\0"  # a, a.b, a.*, a.>
OF_GROUP = 0x04  # an entry about the group q


def entry(pattern: bytes, kind: int = HALF | OF_GROUP) -> bytes:
    return bytes([kind]) + pattern


def side(allow: list[bytes] | None, deny: list[bytes]) -> bytes:
    counts = 3 if allow is None else len(allow)
    return bytes([counts | len(deny) << 2]) + b"".join((allow or []) + deny)


def step(index: int, what: int, *subjects: bytes) -> bytes:
    return bytes([STEPS.index(what) * CLIENTS + index]) + b"".join(subjects)


EVERYTHING = b"\0" + side(None, []) * 2
NOTHING = b"\0" + side([], []) * 2
SOME = b"\0" + side([entry(ALL)], [entry(AB)]) + side([entry(ALL)], [entry(AB)])
RESPONDS = b"\1" + side([], []) + side([entry(ALL)], [])
ONCE = b"\0"  # after a subject to subscribe to: no group
GROUPED = b"\2"
RIGHTS = {
    "allowed": SOME + EVERYTHING + step(0, SUB, ALL, ONCE) + step(1, PUB, AB) + step(1, PUB, A),
    "refused": NOTHING + SOME + step(0, SUB, A, ONCE) + step(0, PUB, A) + step(1, SUB, AB, ONCE),
    "groups": b"\0"
    + side(None, [])
    + side([entry(ALL, OF_GROUP)], [])
    + SOME
    + step(0, SUB, ALL, GROUPED)
    + step(1, SUB, ANY, GROUPED)
    + step(2, PUB, AB)
    + step(2, UNSUB, b"\0"),
    "responses": RESPONDS
    + EVERYTHING
    + step(0, SUB, ANY, ONCE)
    + step(1, ASK, AB, A)
    + step(0, PUB, A) * 2,
    "past": SOME
    + EVERYTHING
    + step(2, PUB, AB)
    + step(2, NUMBERED, A)
    + step(0, PAST, ALL)
    + step(0, PAST, AB)
    + step(1, PAST, ALL),
    "renewed": EVERYTHING
    + EVERYTHING
    + step(0, SUB, ALL, ONCE)
    + step(0, SUB, A, GROUPED)
    + step(0, RENEW, SOME)
    + step(2, PUB, AB)
    + step(0, RENEW, NOTHING)
    + step(2, PUB, AB),
}
ALL_USERS, WITH_TOKEN, WITH_NOBODY = 0x07, 0x08, 0x17
USER, PASS, KEYED, TOKENED = 2, 4, 16, 8
LOGINS = {
    "right": bytes([ALL_USERS, USER | PASS, 1, 1, 0, 0x60, 0]),
    "hashed": bytes([ALL_USERS, USER | PASS, 3, 3, 9]),
    "wrong": bytes([ALL_USERS, USER | PASS, 1, 2, 0]),
    "token": bytes([WITH_TOKEN, TOKENED, 3, 0, 0x61, 1]),
    "signed": bytes([ALL_USERS, KEYED, 3, 0]),
    "signed-wrong": bytes([ALL_USERS, KEYED, 7, 0]),
    "nobody": bytes([WITH_NOBODY, 0x61, 0, 0, 0]),
    "first": bytes([ALL_USERS, 0x61, 0]),
    "late": bytes([ALL_USERS, 0xF3, USER | PASS, 1, 1, 0]),
    "again": bytes([ALL_USERS, USER | PASS, 1, 1, 0, USER | PASS, 2, 1, 0]),
    "half": bytes([ALL_USERS, USER | PASS, 1, 7, 1]),
}

# Cuts, room, frames: kind (opcode, FIN missing, and the fault), size, payload.
BINARY, CONT, TEXT, PING, CLOSE, UNFINISHED, LYING, BARE = 0, 1, 2, 4, 6, 8, 0xC0, 0x80
WHOLE, BYTES = b"\0\0\xff", b"\1\1\0"
HELLO = b"\5hello"
FRAMES = {
    "message": WHOLE + bytes([BINARY]) + HELLO + bytes([TEXT]) + HELLO,
    "bytes": BYTES + bytes([BINARY]) + HELLO + bytes([BINARY]) + b"\xffx" + b"y" * 30,
    "fragments": b"\3\7\1"
    + bytes([BINARY | UNFINISHED])
    + HELLO
    + bytes([PING])
    + HELLO
    + bytes([CONT])
    + HELLO,
    "fragment-of-none": WHOLE + bytes([CONT]) + HELLO,
    "message-amid": WHOLE + bytes([TEXT | UNFINISHED]) + HELLO + bytes([TEXT]) + HELLO,
    "close": WHOLE
    + bytes([BINARY])
    + HELLO
    + bytes([CLOSE])
    + b"\2\x03\xe8"
    + bytes([TEXT])
    + HELLO,
    "close-wrong": WHOLE + bytes([CLOSE]) + b"\1x",
    "huge": WHOLE + bytes([BINARY | LYING]) + HELLO + b"\x0b",
    "longer": WHOLE + bytes([BINARY | LYING]) + HELLO + b"\6",
    "unmasked": WHOLE + bytes([BINARY | BARE]) + HELLO,
    "reserved": WHOLE + bytes([0x30]) + HELLO,
    "raw": WHOLE + b"\xf6\x82\x85mask",
}


def frame_seeds() -> dict[str, bytes]:
    """The seeds in the format of fuzz/case_frames.py."""
    return FRAMES


def rights_seeds() -> dict[str, bytes]:
    """The seeds in the format of fuzz/case_rights.py."""
    return RIGHTS


def login_seeds() -> dict[str, bytes]:
    """The seeds in the format of fuzz/case_logins.py."""
    return LOGINS
