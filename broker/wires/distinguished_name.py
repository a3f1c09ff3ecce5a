"""Distinguished names (RFC 4514): the subject of a certificate, and as people write it.

Two names are equal if their parts are, in order: whatever the blanks around a part, the case of a
type, and the order of several values in one part. The case of a value counts. All of this is as
in nats-server, which then also accepts the parts in any order: `parts` is for that.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from broker.wires.certificate_subject import KNOWN, escaped

Pair = tuple[str, str]  # type, as 2.5.4.3, and value
Part = tuple[Pair, ...]  # sorted; most have one pair

TYPES: Final = KNOWN | {
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
    "1.2.840.113549.1.9.1": "EMAILADDRESS",
}
_OIDS: Final = {short: oid for oid, short in TYPES.items()}
_SPECIAL: Final = b' "#+,;<=>\\'


@dataclass(frozen=True, slots=True)
class DistinguishedName:
    """The parts in the order of RFC 4514: the last of the certificate comes first."""

    rdns: tuple[Part, ...]
    shown: str = field(compare=False)  # as it is written

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts, sorted: the same for all orders."""
        return tuple(sorted(self.rdns))

    def __str__(self) -> str:
        return self.shown


Name = str | DistinguishedName  # of a certificate


def of_subject(subject: Iterable[Iterable[Pair]]) -> DistinguishedName:
    """The name that a certificate has: its parts, each of types and values, in its own order."""
    parts = [list(part) for part in subject]
    parts.reverse()
    rdns = tuple(tuple(sorted(part)) for part in parts)
    return DistinguishedName(rdns, ",".join("+".join(map(_written, part)) for part in parts))


def read_name(text: str) -> DistinguishedName:
    """Read a name. Raises `ValueError` if it is not one."""
    parts: list[Part] = []
    part: list[Pair] = []
    kind, word = "", _Word()
    data = text.encode("utf-8", "surrogateescape")
    at = 0
    while at < len(data):
        char = data[at]
        at += 1
        if char == ord("\\"):
            at += word.escape(data[at : at + 2])
        elif char == ord("=") and not kind:
            kind = _oid_of(word.taken())
            if data[at : at + 1] == b"#":
                raise ValueError("a value in hexadecimal is not supported")
        elif char in b",+":
            part.append(_pair(kind, word.taken()))
            kind = ""
            if char == ord(","):
                parts.append(tuple(sorted(part)))
                part = []
        else:
            word.add(char)
    if word or kind or part or parts:
        part.append(_pair(kind, word.taken()))
        parts.append(tuple(sorted(part)))
    return DistinguishedName(tuple(parts), text)


class _Word:
    """A type or a value, as far as it was read: without the blanks around it."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._blanks = 0  # at the end, and not escaped

    def __bool__(self) -> bool:
        return bool(self._bytes)

    def add(self, char: int) -> None:
        if char == ord(" ") and not self._bytes:
            return
        self._blanks = self._blanks + 1 if char == ord(" ") else 0
        self._bytes.append(char)

    def escape(self, after: bytes) -> int:
        """Take what follows a backslash; return how many bytes that is."""
        self._blanks = 0
        if after[:1] and after[0] in _SPECIAL:
            self._bytes.append(after[0])
            return 1
        try:
            self._bytes += bytes.fromhex(after.decode("ascii"))
        except (ValueError, UnicodeDecodeError):
            raise ValueError("a backslash is not followed by what it may escape") from None
        if len(after) < 2:
            raise ValueError("it ends with a backslash")
        return 2

    def taken(self) -> str:
        """Return the word, and begin another one."""
        word = self._bytes[: len(self._bytes) - self._blanks].decode("utf-8", "surrogateescape")
        self._bytes.clear()
        self._blanks = 0
        return word


def _written(pair: Pair) -> str:
    kind, value = pair
    return f"{TYPES.get(kind, kind)}={escaped(value)}"


def _oid_of(kind: str) -> str:
    upper = kind.upper()
    return _OIDS.get(upper) or upper.removeprefix("OID.")


def _pair(kind: str, value: str) -> Pair:
    if not kind:
        raise ValueError("a part of it is not TYPE=VALUE")
    return kind, value
