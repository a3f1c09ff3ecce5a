"""Keeps this member's watermark in its file: for readers of the files, and for the next start.

Committed messages stay committed. So a restarted member may show them at once, even while too few
members are in sync to commit more. That holds only for the member that wrote the file, with the
same journal: one with a new id may have lost messages, and `cluster recover` may have taken numbers
back.
"""

import asyncio
import logging
from typing import Final

from broker.cluster.storage.membership import Membership
from sequencer.journal.replica_store import ReplicaStore
from sequencer.journal.watermark import Watermark, WatermarkFile, read_watermark
from sequencer.replica.member import Member

log = logging.getLogger("seriatim")

EVERY: Final = 0.1  # seconds


class WatermarkKeeper:
    """The keeper of one member's watermark, for its one thread. Raises `OSError`."""

    def __init__(self, store: ReplicaStore, memory: Membership) -> None:
        self._store = store
        self._memory = memory
        self._member = memory.member  # a member with a new id knows no watermark
        self._is_failing = False
        self.known = self._read()
        self._file = WatermarkFile(store.path)
        if not self.known:
            self._file.write(self._mark(0))

    async def keep(self, member: Member) -> None:
        """Write the watermark regularly, until cancelled."""
        while True:
            self._write(member)
            await asyncio.sleep(EVERY)

    def close(self, member: Member) -> None:
        """Write the watermark for the last time, and sync it."""
        self._write(member)
        try:
            self._file.close()
        except OSError as error:
            log.warning("Cluster: the watermark cannot be synced: %s", error)

    def _read(self) -> int:
        """Return the number up to which this member knows its journal to be committed."""
        view, mark = self._memory.view, read_watermark(self._store.path)
        if view is None or mark is None:
            return 0
        if mark != self._mark(mark.number) or self._store.damage:
            return 0
        return min(mark.number, self._store.last)

    def _mark(self, number: int) -> Watermark:
        view = self._memory.view
        stream = view.stream if view is not None else 0
        return Watermark(self._store.id, self._member, number, stream)

    def _write(self, member: Member) -> None:
        try:
            self._file.write(self._mark(min(member.watermark, self._store.last)))
        except OSError as error:
            if not self._is_failing:
                log.warning("Cluster: the watermark cannot be written: %s", error)
            self._is_failing = True
        else:
            self._is_failing = False
