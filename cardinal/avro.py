"""The needed part of Avro's binary encoding: numbers, bytes, text, blocks.

Decoding accepts what any writer may produce: maps and arrays in blocks of any size, with or without
their size in bytes. Each function decodes from `at` on, and returns the value and its end. No count
is trusted: it is refused before the first entry if the remaining bytes cannot hold as many. So
decoding takes no more memory or time than its input justifies. Encoding writes blocks of 100
entries with their size, like the reference.

This is our own code, because an error must say where it is and why. The tests compare it with
fastavro, with the schemas of the specification, in both directions.
"""

from collections.abc import Iterable, Sequence

from cardinal.errors import BadAvroNumber, BadCount, BadText, RepeatedKey, TruncatedMessage

LONG_BYTES_MAX, INT_BYTES_MAX = 10, 5
INT_MIN, INT_MAX = -(2**31), 2**31 - 1
BLOCK_LENGTH = 100  # entries in a block, as the reference writes them
END = b"\x00"  # ends the blocks of a map or an array

_SHORT = [bytes([n << 1]) for n in range(64)]  # the numbers 0 to 63


def long(data: bytes, at: int) -> tuple[int, int]:
    """A zig-zag number of 64 bits. Raises `TruncatedMessage`, `BadAvroNumber`."""
    if at < len(data) and (raw := data[at]) < 0x80:
        return (raw >> 1) ^ -(raw & 1), at + 1
    raw = shift = 0
    for end in range(at, min(at + LONG_BYTES_MAX, len(data))):
        byte = data[end]
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            if raw >> 64:
                raise BadAvroNumber(at, "a number of more than 64 bits")
            return (raw >> 1) ^ -(raw & 1), end + 1
        shift += 7
    if len(data) - at < LONG_BYTES_MAX:
        raise TruncatedMessage(
            at, "the bytes end inside a number" if at < len(data) else "a number is missing"
        )
    raise BadAvroNumber(at, f"a number of more than {LONG_BYTES_MAX} bytes")


def integer(data: bytes, at: int) -> tuple[int, int]:
    """A zig-zag number of 32 bits. Raises `TruncatedMessage`, `BadAvroNumber`."""
    value, end = long(data, at)
    if not INT_MIN <= value <= INT_MAX or end - at > INT_BYTES_MAX:
        raise BadAvroNumber(at, "a number of more than 32 bits")
    return value, end


def _long_length(data: bytes, at: int, what: str) -> tuple[int, int]:
    """Return where bytes with a length prefix begin and end."""
    size, start = long(data, at)
    if size < 0:
        raise BadCount(at, f"{what} of {size} bytes")
    if size > len(data) - start:
        raise TruncatedMessage(
            at, f"{what} of {size} bytes, of which {len(data) - start} are there"
        )
    return start, start + size


def octets(data: bytes, at: int) -> tuple[bytes, int]:
    """Bytes with a length prefix. Raises what `long` does, and `BadCount`."""
    start = at + 1
    if start > len(data) or (size := data[at]) & 0x81 or (end := start + (size >> 1)) > len(data):
        start, end = _long_length(data, at, "bytes")
    return data[start:end], end


def text(data: bytes, at: int) -> tuple[str, int]:
    """Text with a length prefix. Raises what `octets` does, and `BadText`."""
    start = at + 1
    if start > len(data) or (size := data[at]) & 0x81 or (end := start + (size >> 1)) > len(data):
        start, end = _long_length(data, at, "text")
    try:
        return data[start:end].decode(), end
    except UnicodeDecodeError as error:
        raise BadText(start + error.start, f"not UTF-8: {error.reason}") from None


def fixed(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    """Exactly `size` bytes. Raises `TruncatedMessage`."""
    found = data[at : at + size]
    if len(found) < size:
        raise TruncatedMessage(at, f"{size} bytes, of which {len(found)} are there")
    return found, at + size


def block(data: bytes, at: int, least: int) -> tuple[int, int, int]:
    """The head of a block of entries of at least `least` bytes each.

    Returns how many there are (0: no more blocks), where they begin, and where they must end, or
    -1 if the writer did not say. Raises `BadCount` and what `long` does.
    """
    at_count = at
    if data[at : at + 1] == END:
        return 0, at + 1, -1
    count, at = long(data, at)
    end = -1
    if count < 0:
        count, at_size = -count, at
        size, at = long(data, at)
        if not 0 <= size <= len(data) - at:
            raise BadCount(at_size, f"a block of {size} bytes, of which {len(data) - at} are there")
        end = at + size
    room = (len(data) if end < 0 else end) - at
    if count * least > room:
        raise BadCount(at_count, f"a block of {count} entries in {room} bytes")
    return count, at, end


def check_block_end(at: int, end: int) -> None:
    """Raise `BadCount` unless a block ended where its head said."""
    if end >= 0 and at != end:
        raise BadCount(at, f"the entries of a block end here, but by its size at {end}")


def texts(data: bytes, at: int) -> tuple[list[str], int]:
    """An array of texts."""
    found: list[str] = []
    while True:
        count, at, end = block(data, at, 1)
        if not count:
            check_block_end(at, end)
            return found, at
        for _ in range(count):
            one, at = text(data, at)
            found.append(one)
        check_block_end(at, end)


def octets_map(data: bytes, at: int) -> tuple[dict[str, bytes], int]:
    """A map from text to bytes. Raises `RepeatedKey` too."""
    found: dict[str, bytes] = {}
    while True:
        count, at, end = block(data, at, 2)
        if not count:
            check_block_end(at, end)
            return found, at
        for _ in range(count):
            at_key = at
            key, at = text(data, at)
            if key in found:
                raise RepeatedKey(at_key, f"{key!r} occurs twice in the map")
            found[key], at = octets(data, at)
        check_block_end(at, end)


def write_long(value: int) -> bytes:
    """A number of 64 bits, zig-zag; the caller has checked its range."""
    if 0 <= value < 64:
        return _SHORT[value]
    raw = (value << 1) ^ (value >> 63)
    out = bytearray()
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def write_octets(value: bytes) -> bytes:
    """Bytes with a length prefix."""
    return write_long(len(value)) + value


def write_blocks(entries: Sequence[bytes]) -> bytes:
    """Encoded entries of a map or an array, in blocks like the reference's."""
    return b"".join(_blocks(entries))


def _blocks(entries: Sequence[bytes]) -> Iterable[bytes]:
    for first in range(0, len(entries), BLOCK_LENGTH):
        some = entries[first : first + BLOCK_LENGTH]
        body = b"".join(some)
        yield write_long(-len(some)) + write_long(len(body)) + body
    yield END
