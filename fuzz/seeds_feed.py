"""Seeds for the codecs: each codec's messages, heartbeat and end, and invalid variants."""

import struct

HEAD = struct.Struct(">4sBBHQQQI")
RECORD = struct.Struct(">IQQIH")
SESSION = b"SESSION001"


def binary(kind: int, count: int, previous: int, after: int) -> bytes:
    return HEAD.pack(b"SERI", 1, kind, count, 0x00C0FFEE00C0FFEE, previous, after, 3)


def record(number: int, subject: bytes, headers: bytes, payload: bytes) -> bytes:
    text = subject + headers + payload
    sizes = (len(headers), len(subject))
    return RECORD.pack(RECORD.size + len(text), number, 1_700_000_000, *sizes) + text


def mold(first: int, count: int, *blocks: bytes) -> bytes:
    head = SESSION + struct.pack(">QH", first, count)
    return head + b"".join(struct.pack(">H", len(block)) + block for block in blocks)


def feed_seeds() -> dict[str, bytes]:
    """Make datagrams to read, after a zero; then programs that write, one for each codec."""
    headers = b"NATS/1.0\r\nA: b\r\n\r\n"
    read = {
        "frame": b"23:5:88485,11:hello world,,",
        "frames": b"12:1:1,5:hello,,8:2:10,0:,,",
        "frame-largest": b"30:19:9223372036854775807,4:last,,",
        "frame-too-large": b"30:19:9223372036854775808,4:last,,",
        "frame-zero": b"12:1:0,5:hello,,",
        "frame-leading-zero": b"13:1:1,05:hello,,",
        "subject": b"34:5:88485,11:hello world,8:orders.x,,",
        "subject-next": b"23:5:88486,0:,9:$SEQ.NEXT,,",
        "subject-end": b"22:5:88486,0:,8:$SEQ.END,,",
        "subject-next-with-payload": b"20:1:1,1:x,9:$SEQ.NEXT,,",
        "binary": binary(0, 2, 3, 10) + record(5, b"a", headers, b"x") + record(9, b"b", b"", b""),
        "binary-heartbeat": binary(1, 0, 9, 12),
        "binary-end": binary(2, 0, 9, 12),
        "binary-backwards": binary(0, 2, 0, 6) + record(5, b"a", b"", b"") * 2,
        "mold": mold(1, 2, b"hello", b""),
        "mold-heartbeat": mold(3, 0),
        "mold-end": mold(3, 0xFFFF),
        "mold-request": mold(5, 10),
        "mold-cut": mold(1, 2, b"hello"),
        "mold-more": mold(1, 1, b"hello") + b"\0\0",
        "mold-largest": mold(2**63 - 2, 2, b"", b"last"),
        "mold-too-large": mold(2**63 - 2, 3, b"", b"", b""),
    }
    seeds = {name: b"\0" + datagram for name, datagram in read.items()}
    program = bytes((1, 0, 1, 1, 0, 200, 129, 9, 3, 77, 2, 5, 255))
    for which, name in enumerate(("netstring", "subject", "binary", "mold", "mold-filtered")):
        seeds[f"write-{name}"] = bytes((128, which)) + program
    return seeds
