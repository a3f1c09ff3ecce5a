"""Which store this is: store.json, and the lock that allows only one writer.

The file has a checksum of its own: with a flipped digit it would still be valid JSON. The head
of each segment has the same data, so the file can be rewritten from there.
"""

import contextlib
import errno
import fcntl
import json
import os
from typing import Any, NamedTuple

from sequencer.journal.crc import crc32c
from sequencer.journal.disk import FILE_MODE, pwrite_all, replace
from sequencer.journal.errors import ELSEWHERE, StoreError, StoreLocked

FORMAT = 1
FILE = "store.json"
LOCK = "lock"


class Identity(NamedTuple):
    """`epoch` is that of the last opening for writing; 0 until there is a first segment."""

    journal: str  # 16 hex digits
    salt: int
    epoch: int
    created: int  # ns since 1970


def new_identity(now: int) -> Identity:
    """Make the identity of a new store."""
    salt = int.from_bytes(os.urandom(4), "little")
    return Identity(os.urandom(8).hex(), salt, 0, now)


def read_identity(path: str) -> Identity | None:
    """Read store.json; None if it is missing or damaged. StoreError: its format is newer."""
    file = os.path.join(path, FILE)
    try:
        with open(file, "rb") as opened:
            fields = json.loads(opened.read())
    except FileNotFoundError:
        return None
    except ValueError:
        return None
    if not isinstance(fields, dict) or fields.pop("crc", None) != _checksum(fields):
        return None
    if fields["format"] != FORMAT:
        raise StoreError(
            f"{file}: this store has format {fields['format']}, and this Seriatim knows format"
            f" {FORMAT}; open it with the newer Seriatim that wrote it"
        )
    return Identity(fields["journal"], fields["salt"], fields["epoch"], fields["created"])


def write_identity(path: str, identity: Identity) -> None:
    """Write and sync store.json.

    If the disk is full, no temporary file can be written. Then the file is overwritten in
    place, so that a store can still be opened and retention can make room. A crash may leave it
    damaged, but the segments have the same data.
    """
    fields = {"format": FORMAT, **identity._asdict()}
    fields["crc"] = _checksum(fields)
    file = os.path.join(path, FILE)
    data = json.dumps(fields).encode() + b"\n"
    try:
        replace(file, data)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT) or not os.path.exists(file):
            raise
        fd = os.open(file, os.O_RDWR | os.O_CLOEXEC)
        try:
            pwrite_all(fd, data, 0)
            os.ftruncate(fd, len(data))
            os.fsync(fd)
        finally:
            os.close(fd)


def lock(path: str) -> int:
    """Lock the store for writing, until the returned descriptor is closed or the process ends."""
    file = os.path.join(path, LOCK)
    fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with contextlib.suppress(OSError):  # on a full disk the pid cannot be stored
            os.pwrite(fd, f"{os.getpid()}\n".encode().ljust(20), 0)
    except BlockingIOError:
        text = os.pread(fd, 20, 0).split(b"\n")[0]
        os.close(fd)
        pid = int(text) if text.isdigit() else 0
        who = f"process {pid}" if pid else "another process"
        raise StoreLocked(
            f"{path}: {who} writes this store; stop it first, or {ELSEWHERE}", pid
        ) from None
    except OSError:
        os.close(fd)
        raise
    return fd


def _checksum(fields: dict[str, Any]) -> int:
    return crc32c(json.dumps(fields, sort_keys=True).encode())
