"""The keeper of a member's journal: what is synced counts for the cluster, not for the gate."""

import asyncio
import logging
from collections.abc import Callable

from broker.cluster.store_log import StoreLog
from broker.dataplane.gate import Gate
from broker.replay.replays import Replays
from broker.settings.journal_settings import JournalSettings
from broker.storage.keeper import Keeper
from sequencer.replica.numbering import Numbering

log = logging.getLogger("seriatim")


class MemberKeeper(Keeper):
    """One per member. `synced_to` and `roomy` are called when more is synced, or the disk mends."""

    def __init__(
        self,
        gate: Gate,
        journal: StoreLog,
        replays: Replays,
        settings: JournalSettings,
        loop: asyncio.AbstractEventLoop,
        numbering: Numbering,
    ) -> None:
        super().__init__(gate, journal, replays, settings, loop, numbering.sequencer)
        self._log = journal
        self._numbering = numbering
        self.synced_to: Callable[[int], None] = lambda number: None
        self.roomy: Callable[[], None] = lambda: None
        journal.keeper = self
        if settings.sync == "always":
            journal.written = self.sync_soon

    def _release_safe(self, number: int) -> None:
        self.synced_to(number)

    def _resume(self) -> None:
        """Check whether the journal takes more: a waiting batch, or the coordinator's records."""
        try:
            if self._numbering.coordinates:
                self._sequencer.resume()
            else:
                self._log.reserve(1)
        except OSError as error:
            self.trouble(error)
            return
        self._mended()
        self.roomy()
