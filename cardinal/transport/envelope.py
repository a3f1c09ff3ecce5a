r"""A message of Cardinal Streams as a message of the broker: its subject, payload and id.

subject   cardinal.<application>.<topic>      cardinal.evm.block
payload   <key><value>, both netstrings       33:....,5:hello,
id        Nats-Msg-Id, a digest of subject and payload: redundant producers and retries send
          copies with the same id; the broker accepts the first and numbers it once
"""

import re
from hashlib import blake2b

from cardinal.transport.errors import BadEnvelope, BadTopic

ROOT = "cardinal"
APPLICATION = re.compile(r"[A-Za-z0-9_-]+")
TOPIC = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
ID_BYTES = 16
LENGTH_DIGITS_MAX = 10


def subject_of(application: str, topic: str) -> str:
    """The subject of a topic. Raises `BadTopic`."""
    if not TOPIC.fullmatch(topic):
        raise BadTopic(f"topic {topic!r}: words of letters, digits, - and _, with dots between")
    return f"{prefix_of(application)}{topic}"


def prefix_of(application: str) -> str:
    """The prefix of the subjects of all topics. Raises `BadTopic`."""
    if not APPLICATION.fullmatch(application):
        raise BadTopic(f"application {application!r}: one word of letters, digits, - and _")
    return f"{ROOT}.{application}."


def message_id(subject: str, payload: bytes) -> str:
    """Return a message's id: the same from every sender."""
    digest = blake2b(subject.encode() + b"\0", digest_size=ID_BYTES)
    digest.update(payload)
    return digest.hexdigest()


def pack(key: bytes, value: bytes) -> bytes:
    """The payload of a message."""
    return b"%d:%b,%d:%b," % (len(key), key, len(value), value)


def packed_bytes(key: bytes, value: bytes) -> int:
    """The length of a message's payload."""
    return len(str(len(key))) + len(key) + len(str(len(value))) + len(value) + 4


def unpack(payload: bytes) -> tuple[bytes, bytes]:
    """Key and value. Raises `BadEnvelope`."""
    key, at = netstring(payload, 0)
    value, at = netstring(payload, at)
    if at != len(payload):
        raise BadEnvelope(at, f"{len(payload) - at} bytes after the value")
    return key, value


def netstring(data: bytes, at: int) -> tuple[bytes, int]:
    """The content of the netstring that begins at `at`, and its end. Raises `BadEnvelope`."""
    colon = data.find(b":", at, at + LENGTH_DIGITS_MAX + 1)
    digits = data[at : max(colon, at)]
    if not digits.isdigit() or (digits[0] == 48 and len(digits) > 1):
        raise BadEnvelope(at, "a netstring has no length")
    end = colon + 1 + int(digits)
    if data[end : end + 1] != b",":
        raise BadEnvelope(min(end, len(data)), "a netstring does not end with a comma")
    return data[colon + 1 : end], end + 1
