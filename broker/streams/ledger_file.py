"""The ledgers of all streams as of a clean stop, so that the next start need not read the journal.

    <store>/streams/ledgers

    <crc> {"format":1,"journal":...,"first":...,"last":...,"time":...,"changes":...,"streams":[...]}
    <crc> {"stream":"ORDERS","messages":5210,...,"subjects":312,"size":20124,"crc":...}
    312 times: size of a subject (u16), the subject, first, last, count, size (u64 each)
    <crc> {"stream":...

A start goes on from `last`, and reads what the journal has behind it. So after a kill, the file of
the last clean stop saves what came before. It is of no use, and the journal is read from where the
oldest stream begins, if since then streams were changed, or something was taken out of them
(`changes`, the number of the last such note), or retention has deleted messages (`first`), or
messages were lost (`last`, `time`). Damage has the same effect. Nothing depends on this file.
"""

import contextlib
import logging
import os
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Any, Final, NamedTuple
from zlib import crc32

from broker.dataplane.ledger import Ledger
from broker.storage.sealed_lines import seal, unseal
from broker.streams.stream_view import Stream
from sequencer.journal.disk import pwrite_all, replacing
from sequencer.journal.store import Store

log = logging.getLogger("seriatim")

FILE: Final = "ledgers"
FORMAT: Final = 1
SIZE: Final = Struct("<H")
ENTRY: Final = Struct("<QQQQ")
SLICE: Final = 1 << 14  # entries that are read in one turn of the loop: some 15 ms
FIGURES: Final = ("messages", "size", "first", "first_time", "last", "last_time")


class LedgerBasis(NamedTuple):
    """The state of journal and notes for which a file of ledgers holds."""

    journal: str
    first: int
    last: int
    time: int  # of the last message
    changes: int  # the number of the last note that changed what is visible


def write_ledgers(folder: str, state: LedgerBasis, streams: Iterable[Stream]) -> None:
    """Write the ledgers of all streams; they have all records up to `state.last`."""
    streams = list(streams)
    head = {"format": FORMAT, **state._asdict(), "streams": [one.name for one in streams]}
    with replacing(os.path.join(folder, FILE)) as fd:
        at = _write(fd, seal(head), 0)
        for stream in streams:
            ledger = stream.ledger
            body = _pack(ledger)
            figures = {name: getattr(ledger, name) for name in FIGURES}
            fields = {"stream": stream.name, **figures, "subjects": len(ledger.entries)}
            at = _write(fd, seal(fields | {"bytes": len(body), "crc": crc32(body)}), at)
            at = _write(fd, body, at)


def _write(fd: int, data: bytes | bytearray, at: int) -> int:
    pwrite_all(fd, memoryview(data), at)
    return at + len(data)


def _pack(ledger: Ledger) -> bytearray:
    body = bytearray()
    for subject, entry in ledger.entries.items():
        body += SIZE.pack(len(subject)) + subject
        body += ENTRY.pack(entry.first, entry.last, entry.count, entry.size)
    return body


class LedgerFile:
    """The ledgers of an earlier broker. `last`: up to which number; 0 if they are of no use."""

    def __init__(self, folder: str, journal: Store, changes: int, names: set[str]) -> None:
        """Look whether the file holds for this journal, these notes and streams."""
        self.last = 0
        self.path = os.path.join(folder, FILE)
        try:
            with open(self.path, "rb") as file:
                head = unseal(file.readline()) or {}
                self._begin = file.tell()
        except FileNotFoundError:
            return
        except OSError as error:
            log.warning("Streams: %s cannot be read: %s", self.path, error.strerror or error)
            return
        if head.get("format") != FORMAT or head["journal"] != journal.id:
            return
        if head["last"] > journal.last or (
            head["last"] == journal.last and head["time"] != journal.newest_time
        ):
            self.forget()  # messages were lost: their numbers will have others
            return
        same = head["first"] == journal.first and head["changes"] == changes
        if same and set(head["streams"]) == names:
            self.last = head["last"]

    def forget(self) -> None:
        """Remove the file: it does not hold any more."""
        self.last = 0
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)

    def fill(self, by_name: dict[str, Stream]) -> Iterator[None]:
        """Fill the ledgers of these streams, some entries in each step.

        Raises `ValueError` for a damaged file: then the ledgers are to be cleared.
        """
        with open(self.path, "rb") as file:
            file.seek(self._begin)
            for _ in by_name:
                fields: dict[str, Any] | None = unseal(file.readline())
                if fields is None:
                    raise ValueError("a line is damaged")
                body = file.read(fields["bytes"])
                if len(body) != fields["bytes"] or crc32(body) != fields["crc"]:
                    raise ValueError("its entries are damaged")
                ledger = by_name[fields["stream"]].ledger
                at = 0
                for count in range(fields["subjects"]):
                    begin = at + SIZE.size
                    end = begin + SIZE.unpack_from(body, at)[0]
                    ledger.restore_entry(body[begin:end], *ENTRY.unpack_from(body, end))
                    at = end + ENTRY.size
                    if count % SLICE == SLICE - 1:
                        yield
                ledger.restore(self.last, *(fields[name] for name in FIGURES))
                yield
