"""The state of a job between two batches, as bytes that are checked when they are read again.

    seriatim cardinal 1 <bytes> <crc32> {"journal":...}\n     about, as JSON
    <pickle of the parts>                                      only of our own classes

Reading runs no code but the constructors of the classes in `CLASSES`, whatever the bytes are. A
checksum detects damage on disk; the version detects a snapshot of another Seriatim.
"""

import io
import json
import pickle
import zlib
from typing import Any, Final

from pyspark_seriatim.jobs.errors import JobError

MAGIC: Final = "seriatim cardinal"
VERSION: Final = 4  # increment it when a class below, or the stored part of it, changes
CLASSES: Final = {
    "cardinal.assembler": {"Assembler"},
    "cardinal.block": {"Block"},
    "cardinal.branch": {"Branch"},
    "cardinal.chain": {"Chain"},
    "cardinal.follower": {"ChainFollower", "Lane"},
    "cardinal.messages": {"Batch", "Entry", "Reorg"},
    "cardinal.pending": {"DONE", "Pending", "SubBatch"},
    "cardinal.schema": {"Tracking"},
    "cardinal.start": {"Start"},
    "cardinal.tree": {"Lowest", "Spare", "Tree"},
}
# A snapshot contains the names that classes had when it was written.
RENAMED: Final = {
    ("cardinal.follower", "Follower"): ("cardinal.follower", "ChainFollower"),
    **{
        ("cardinal.message", name): ("cardinal.messages", name)
        for name in CLASSES["cardinal.messages"]
    },
}


class UnreadableSnapshot(JobError):
    """Bytes that are not a snapshot of this version."""


def dump(about: dict[str, Any], parts: Any) -> bytes:
    """Make a snapshot of facts for JSON (`about`) and the parts."""
    body = dumps(parts)
    words = json.dumps(about, separators=(",", ":"))
    return f"{MAGIC} {VERSION} {len(body)} {zlib.crc32(body)} {words}\n".encode() + body


def load(data: bytes) -> tuple[dict[str, Any], Any]:
    """Return the arguments of `dump`. Raises `UnreadableSnapshot`, without a file name."""
    head, _, body = data.partition(b"\n")
    words = head.decode(errors="replace").removeprefix(f"{MAGIC} ").split(" ", 3)
    if len(words) != 4 or not all(word.isdigit() for word in words[:3]):
        raise UnreadableSnapshot("it is not a snapshot of a Cardinal job")
    version, size, checksum = map(int, words[:3])
    if version != VERSION:
        raise UnreadableSnapshot(
            f"its version is {version}, and this Seriatim reads {VERSION}: assemble the chain "
            "again, into another directory"
        )
    if size != len(body) or checksum != zlib.crc32(body):
        raise UnreadableSnapshot(f"it is damaged: {size} bytes were written, {len(body)} are there")
    return json.loads(words[3]), loads(body)


def dumps(parts: Any) -> bytes:
    """The parts alone, without what `load` checks."""
    return pickle.dumps(parts, protocol=5)


def loads(body: bytes) -> Any:
    """Unpickle objects of our own classes. Raises `UnreadableSnapshot`."""
    try:
        return _SnapshotUnpickler(io.BytesIO(body)).load()
    except UnreadableSnapshot:
        raise
    except Exception as error:  # an invalid pickle may raise anything
        raise UnreadableSnapshot(f"it is damaged: {error!r}") from error


class _SnapshotUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Find only the classes in `CLASSES`."""
        module, name = RENAMED.get((module, name), (module, name))
        if name not in CLASSES.get(module, ()):
            raise UnreadableSnapshot(f"it holds a {module}.{name}, which is not allowed")
        return super().find_class(module, name)
