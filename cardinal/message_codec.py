"""Encodes messages of Cardinal Streams as keys and values, and back, exactly like the reference.

A key is the kind, the hash and further fields, without separators. The values of the kinds 00, 01,
02, 05 and 06 are raw Avro, without a container or a header:

    00  record {num long, weight bytes, parent fixed(32), updates map of
        record {value bytes, count int, delete boolean, subbatch fixed(32)}}
    01  int            02  record {delete array of string, updates map of bytes}
    05, 06  long; the specification is silent and the reference writes an int: the same bytes up to
            2^31 - 1, and correct above

Rule 1  A message is decoded completely: no byte of key or value is left over, every number is
        in its range. The value of a Delete is ignored; it has no meaning.
Rule 2  Whatever the bytes are, the result is a message or a `MalformedMessage`.
Rule 3  Numbers are 0 to 2^63 - 1, weights below 2^256. The reference allows negative numbers and
        cuts off a weight's sign; both are refused here.
"""

from cardinal import avro
from cardinal.errors import (
    BadAvroNumber,
    BadFlag,
    BadText,
    LongKey,
    MalformedMessage,
    NotEncodable,
    RepeatedKey,
    ShortKey,
    TrailingFieldBytes,
    TruncatedMessage,
    UnknownType,
)
from cardinal.messages import (
    BATCH,
    DELETE,
    HASH_SIZE,
    INT_MAX,
    NUMBER_MAX,
    PING,
    REORG,
    REORG_COMPLETE,
    SUB_BATCH_HEADER,
    SUB_BATCH_MESSAGE,
    UPDATE,
    WEIGHT_MAX,
    Batch,
    Delete,
    Entry,
    Message,
    Ping,
    Reorg,
    ReorgComplete,
    SubBatchHeader,
    SubBatchMessage,
    Update,
)

HEAD = 1 + HASH_SIZE  # of every key: kind and hash
WITH_ID = HEAD + HASH_SIZE  # of the keys of sub-batches
NO_TAIL = bytes(HEAD)  # of an entry: neither deleted nor a sub-batch
WEIGHT_BYTES = 32
TWO_BYTES = 14  # bits of a number in two bytes
ENTRY_BYTES_MIN = 1 + 1 + 1 + 1 + HASH_SIZE  # of an entry of a Batch: the empty key, nothing set


def decode(key: bytes, value: bytes) -> Message:
    """Decode the message of key and value. Raises `MalformedMessage`."""
    kind = key[0] if key else -1
    if kind in (UPDATE, DELETE):
        if len(key) < HEAD:
            raise _short(key)
        if kind == UPDATE:
            return Update(key[1:HEAD], text(key, HEAD), value)
        return Delete(key[1:HEAD], text(key, HEAD))
    if kind == SUB_BATCH_MESSAGE:
        return decode_sub_batch_message(key, value)
    if kind == SUB_BATCH_HEADER:
        return decode_sub_batch_header(key, value)
    if kind == BATCH:
        return decode_batch(key, value)
    if kind in (REORG, REORG_COMPLETE):
        return decode_reorg(key, value)
    if kind == PING:
        return Ping(key[1:], value)
    if kind < 0:
        raise ShortKey(0, "the key is empty", "key")
    raise UnknownType(0, f"no message has the type {kind:02x}", "key")


def text(key: bytes, at: int) -> str:
    """The rest of a key, as text. Raises `BadText`."""
    try:
        return key[at:].decode()
    except UnicodeDecodeError as error:
        raise BadText(at + error.start, f"not UTF-8: {error.reason}", "key") from None


def decode_batch(key: bytes, value: bytes) -> Batch:
    """Decode a Batch; the kind is not checked. Raises `MalformedMessage`."""
    _check_length(key, HEAD)
    number, at = _number(value, 0)
    at_weight = at
    weight, at = avro.octets(value, at)
    if len(weight) > WEIGHT_BYTES:
        raise BadAvroNumber(
            at_weight, f"a weight of {len(weight)} bytes; the maximum is {WEIGHT_BYTES}"
        )
    parent, at = avro.fixed(value, at, HASH_SIZE)
    entries, at = _entries(value, at)
    _check_end(value, at)
    return Batch(key[1:HEAD], number, int.from_bytes(weight, "big"), parent, entries)


def decode_sub_batch_header(key: bytes, value: bytes) -> SubBatchHeader:
    """Decode a SubBatchHeader; the kind is not checked. Raises `MalformedMessage`."""
    _check_length(key, WITH_ID)
    count, at = avro.integer(value, 0)
    if count < 0:
        raise BadAvroNumber(0, f"a count of {count}")
    _check_end(value, at)
    return SubBatchHeader(key[1:HEAD], key[HEAD:WITH_ID], count)


def decode_sub_batch_message(key: bytes, value: bytes) -> SubBatchMessage:
    """Decode a SubBatchMessage; the kind is not checked. Raises `MalformedMessage`."""
    if len(key) <= WITH_ID:
        raise _short(key)
    index = key[WITH_ID]
    if index & 0x81 or len(key) != WITH_ID + 1:
        index = _index(key)
    else:
        index >>= 1
    deletes, updates = sub_batch_content(value)
    return SubBatchMessage(key[1:HEAD], key[HEAD:WITH_ID], index, deletes, updates)


def sub_batch_content(value: bytes) -> tuple[list[str], dict[str, bytes]]:
    """The deletes and updates in the value of a SubBatchMessage. Raises `MalformedMessage`."""
    if value[:2] == b"\x00\x01" and (one := _one_update(value)) is not None:
        return [], one
    deletes, at = avro.texts(value, 0)
    updates, at = avro.octets_map(value, at)
    _check_end(value, at)
    return deletes, updates


def _one_update(value: bytes) -> dict[str, bytes] | None:
    """Read the reference's most frequent value fast: no deletes, one update.

    None for any other value, valid or not.
    """
    try:
        size, at = value[2], 3
        if size > 0x7F:
            size, at = size & 0x7F | value[3] << 7, 4
        key_size, start = value[at], at + 1
        if key_size > 0x7F:
            key_size, start = key_size & 0x7F | value[start] << 7, start + 1
        end = start + (key_size >> 1)
        length, first = value[end], end + 1
        if length > 0x7F:
            length, first = length & 0x7F | value[first] << 7, first + 1
        if (size | key_size | length) & 1 or (size | key_size | length) >> TWO_BYTES:
            return None
        last = len(value) - 1
        if at + (size >> 1) != last or first + (length >> 1) != last or value[last]:
            return None
        return {value[start:end].decode(): value[first:last]}
    except (IndexError, UnicodeDecodeError):
        return None


def decode_reorg(key: bytes, value: bytes) -> Reorg | ReorgComplete:
    """Decode a Reorg, or a ReorgComplete if the kind says so. Raises `MalformedMessage`."""
    _check_length(key, HEAD)
    number, at = _number(value, 0)
    _check_end(value, at)
    kind = ReorgComplete if key[0] == REORG_COMPLETE else Reorg
    return kind(key[1:HEAD], number)


def _entries(data: bytes, at: int) -> tuple[dict[str, Entry], int]:
    """The map of a Batch."""
    found: dict[str, Entry] = {}
    while True:
        count, at, end = avro.block(data, at, ENTRY_BYTES_MIN)
        for _ in range(count):
            at_key = at
            key, at = avro.text(data, at)
            if key in found:
                raise RepeatedKey(at_key, f"{key!r} occurs twice in the map")
            value, at = avro.octets(data, at)
            at_count = at
            messages, at = avro.integer(data, at)
            if messages < 0:
                raise BadAvroNumber(at_count, f"a count of {messages}")
            tail = data[at : at + HEAD]  # the boolean, and the id
            if tail == NO_TAIL:
                found[key] = Entry(value, messages)
                at += HEAD
                continue
            if not tail:
                raise TruncatedMessage(at, "no boolean")
            if tail[0] > 1:
                raise BadFlag(at, f"{tail[0]:02x} is not a boolean")
            sub_batch, at = avro.fixed(data, at + 1, HASH_SIZE)
            found[key] = Entry(value, messages, tail[0] == 1, sub_batch)
        avro.check_block_end(at, end)
        if not count:
            return found, at


def _number(value: bytes, at: int) -> tuple[int, int]:
    number, end = avro.long(value, at)
    if number < 0:
        raise BadAvroNumber(at, f"{number} is not a valid number of a block")
    return number, end


def _index(key: bytes) -> int:
    try:
        index, end = avro.integer(key, WITH_ID)
    except TruncatedMessage as error:
        raise ShortKey(error.offset, error.reason, "key") from None
    except MalformedMessage as error:
        raise type(error)(error.offset, error.reason, "key") from None
    if index < 0:
        raise BadAvroNumber(WITH_ID, f"the index {index}", "key")
    if end != len(key):
        raise LongKey(end, f"{len(key) - end} bytes after the index", "key")
    return index


def _check_length(key: bytes, length: int) -> None:
    if len(key) < length:
        raise _short(key)
    if len(key) > length:
        raise LongKey(length, f"{len(key) - length} bytes after the last field", "key")


def _short(key: bytes) -> ShortKey:
    field = "hash" if len(key) < HEAD else "id" if len(key) < WITH_ID else "index"
    return ShortKey(len(key), f"the key ends inside its {field}", "key")


def _check_end(value: bytes, at: int) -> None:
    if at != len(value):
        raise TrailingFieldBytes(at, f"{len(value) - at} bytes after the last field")


def encode(message: Message) -> tuple[bytes, bytes]:
    """Encode a message as key and value. Raises `NotEncodable`."""
    match message:
        case Update(hash, key, value):
            return encode_update(hash, key, value)
        case Delete(hash, key):
            return encode_delete(hash, key)
        case Batch():
            return encode_batch(message)
        case SubBatchHeader(hash, id, count):
            return b"\x01" + _hash(hash) + _hash(id), avro.write_long(_int(count, "count"))
        case SubBatchMessage():
            return encode_sub_batch_message(message)
        case Reorg(hash, number):
            return b"\x05" + _hash(hash), avro.write_long(_block_number(number))
        case ReorgComplete(hash, number):
            return b"\x06" + _hash(hash), avro.write_long(_block_number(number))
        case Ping(producer, time):
            return b"\xff" + _octets(producer), _octets(time)
    raise NotEncodable(f"{type(message).__name__} is not a message")


def encode_update(hash: bytes, key: str, value: bytes) -> tuple[bytes, bytes]:
    """Key and value of an Update. Raises `NotEncodable`."""
    return b"\x03" + _hash(hash) + encode_text(key), _octets(value)


def encode_delete(hash: bytes, key: str) -> tuple[bytes, bytes]:
    """Key and value of a Delete. Raises `NotEncodable`."""
    return b"\x04" + _hash(hash) + encode_text(key), b""


def encode_batch(batch: Batch) -> tuple[bytes, bytes]:
    """Key and value of a Batch, its entries in their order. Raises `NotEncodable`."""
    weight = batch.weight
    if type(weight) is not int or not 0 <= weight <= WEIGHT_MAX:
        raise NotEncodable(f"the weight {weight!r} is not 0 to 2^256 - 1")
    entries = [
        b"".join(
            (
                _written_text(key),
                avro.write_octets(_octets(entry.value)),
                avro.write_long(_int(entry.count, "count")),
                b"\x01" if entry.delete else b"\x00",
                _hash(entry.sub_batch),
            )
        )
        for key, entry in batch.entries.items()
    ]
    value = (
        avro.write_long(_block_number(batch.number))
        + avro.write_octets(weight.to_bytes((weight.bit_length() + 7) // 8, "big"))
        + _hash(batch.parent)
        + avro.write_blocks(entries)
    )
    return b"\x00" + _hash(batch.hash), value


def encode_sub_batch_message(message: SubBatchMessage) -> tuple[bytes, bytes]:
    """Key and value of a SubBatchMessage. Raises `NotEncodable`."""
    index = avro.write_long(_int(message.index, "index"))
    deletes = [_written_text(key) for key in message.deletes]
    updates = [
        _written_text(key) + avro.write_octets(_octets(value))
        for key, value in message.updates.items()
    ]
    return (
        b"\x02" + _hash(message.hash) + _hash(message.id) + index,
        avro.write_blocks(deletes) + avro.write_blocks(updates),
    )


def encode_text(key: str) -> bytes:
    """A key as UTF-8. Raises `NotEncodable`."""
    try:
        return key.encode()
    except UnicodeEncodeError as error:
        raise NotEncodable(f"the key {key!r} is not text: {error.reason}") from None
    except AttributeError:
        raise NotEncodable(f"the key {key!r} is not text") from None


def _written_text(key: str) -> bytes:
    return avro.write_octets(encode_text(key))


def _octets(value: bytes) -> bytes:
    if not isinstance(value, bytes):
        raise NotEncodable(f"the value {value!r:.60} is not bytes")
    return value


def _hash(value: bytes) -> bytes:
    if not isinstance(value, bytes) or len(value) != HASH_SIZE:
        raise NotEncodable(f"{value!r:.80} is not {HASH_SIZE} bytes")
    return value


def _int(value: int, what: str) -> int:
    if type(value) is not int or not 0 <= value <= INT_MAX:
        raise NotEncodable(f"the {what} {value!r} is not 0 to 2^31 - 1")
    return value


def _block_number(value: int) -> int:
    if type(value) is not int or not 0 <= value <= NUMBER_MAX:
        raise NotEncodable(f"the number {value!r} is not 0 to 2^63 - 1")
    return value
