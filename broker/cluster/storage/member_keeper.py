"""The keeper of a member's journal: it reports syncs to the cluster, not to the gate.

It also reports a failed sync, as the member may have acknowledged what the disk never got.
"""

import asyncio
import logging
from collections.abc import Callable

from broker.cluster.storage.store_log import StoreLog
from broker.dataplane.gate import Gate
from broker.replay.replays import Replays
from broker.settings.journal_settings import JournalSettings
from broker.storage.keeper import Keeper
from sequencer.replica.numbering import Numbering

log = logging.getLogger("seriatim")


class MemberKeeper(Keeper):
    """The keeper of one member's journal.

    `synced_to` is called when more is synced, `roomy` when the disk accepts writes again, `lost`
    when a sync has failed, and `closed` when everything is on the disk and the journal is closed.
    """

    def __init__(
        self,
        gate: Gate,
        journal: StoreLog,
        replays: Replays,
        settings: JournalSettings,
        loop: asyncio.AbstractEventLoop,
        numbering: Numbering,
        synced_to: Callable[[int], None],
        roomy: Callable[[], None],
        lost: Callable[[OSError], None],
        closed: Callable[[], None],
    ) -> None:
        super().__init__(gate, journal, replays, settings, loop, numbering.sequencer)
        self._log = journal
        self._numbering = numbering
        self._synced_to = synced_to
        self._roomy = roomy
        self._lost = lost
        self._closed = closed
        self._failure: OSError | None = None  # of a sync, and not repaired since
        journal.attach(self, syncs_each=settings.sync == "always")

    def _release_safe(self, number: int) -> None:
        self._synced_to(number)

    def _fail(self, error: OSError) -> None:
        super()._fail(error)
        self._failure = error
        self._lost(error)

    def _synced(self, future: "asyncio.Future[int]") -> None:
        super()._synced(future)
        if future.exception() is None:
            self._sync_rest()

    def _sync_rest(self) -> None:
        """Sync what was written during the last sync: nothing else requests that."""
        if self._settings.sync == "always" and self._log.last > self.synced:
            self.sync_soon()

    def _synced_again(self, future: "asyncio.Future[int]") -> None:
        super()._synced_again(future)
        if future.exception() is None:
            self._failure = None
            self._sync_rest()

    async def stop(self) -> None:
        await super().stop()
        if self._failure is None:
            self._closed()
        else:
            self._lost(self._failure)

    def _close(self) -> None:
        try:
            self.journal.close()
        except OSError as error:
            log.error("Journal: %s: %s", self.journal.path, error.strerror)
            self._failure = error

    def _resume(self) -> None:
        """Check whether the journal takes more: a waiting batch, or the coordinator's records."""
        try:
            if self._numbering.is_coordinator:
                self._sequencer.resume()
            else:
                self._log.reserve(1)
        except OSError as error:
            self.trouble(error)
            return
        self._mended()
        self._roomy()
