"""Blocks of a stream and their messages as rows for an assembler."""

from collections.abc import Iterable, Mapping

from cardinal.block import Block
from cardinal.message_codec import encode
from cardinal.messages import Batch, Entry, Message
from cardinal.producer import Messages

Row = tuple[bytes, bytes, int]


def named(name: str | int) -> bytes:
    """A hash that one can read in a failure."""
    return str(name).encode().rjust(32, b".")


def block(name: str, number: int, parent: str, weight: int | None = None) -> Block:
    """A block of nothing but its place in the chain; by default it weighs its number."""
    weight = number if weight is None else weight
    return Block(named(name), number, weight, named(parent), {}, set())


def batch(entries: Mapping[str, Entry], name: str = "b", number: int = 7) -> Batch:
    return Batch(named(name), number, number, named("p"), entries)


def rows(messages: Iterable[Message], first: int = 0) -> list[Row]:
    return [(*encode(one), offset) for offset, one in enumerate(messages, first)]


def flat(messages: Messages) -> list[tuple[bytes, bytes]]:
    return [one for some in messages.values() for one in some]
