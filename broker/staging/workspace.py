"""The shared base of the parts of staging: folder, thread, known applications, and answers.

Everything is in the directory `staging` of the store. If messages are not kept on disk, it is a
temporary directory, which is deleted with the broker. One thread syncs, reads and deletes files;
a piece is written at once, as the journal is.
"""

import asyncio
import json
import logging
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from broker.core import Core
from broker.dataplane.staged_rows import Staged
from broker.settings.staging_settings import STAGING
from broker.staging.applications import Applications
from broker.staging.operations_asked import Asker, Refusal
from broker.staging.stages import Stages
from sequencer.journal.disk import make_folder, remove, sync_folder
from sequencer.journal.store import Store

log = logging.getLogger("seriatim")

Result = TypeVar("Result")


class Workspace:
    """The workspace of staging in a broker, made when it is first used; for its one thread."""

    def __init__(self, core: Core) -> None:
        """Raises `OSError` if the folder cannot be made."""
        settings, journal = core.settings, core.journal
        self.loop = core.loop
        self.plane = core.plane
        self.keeper = core.keeper
        self.settings = settings.staging
        self.durable = isinstance(journal, Store) and settings.journal.sync != "never"
        self._temporary = not isinstance(journal, Store)
        if isinstance(journal, Store):
            self.folder = os.path.join(journal.path, STAGING)
            make_folder(self.folder)
        else:
            self.folder = _temporary_folder()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="staging")
        self.staged = Staged(core.plane)
        limits = (settings.limits.max_control_line, settings.limits.max_payload)
        self.stages = Stages(self.folder, self.staged, limits, self.settings)
        file = os.path.join(self.folder, "applications")
        self.applications = Applications(file, self.durable, self.settings)

    # Answers

    def answer(self, asker: Asker, facts: dict[str, Any]) -> None:
        self.plane.answer(*asker, json.dumps(facts, separators=(",", ":")).encode(), b"")

    def refuse(self, asker: Asker, problem: Refusal) -> None:
        """Answer with a status and the reason, and with the offset where a stage continues."""
        self.plane.answer(*asker, b"", problem.header())

    # Files

    def run(self, work: Callable[[], Result]) -> "asyncio.Future[Result]":
        """Let the thread run `work` on files."""
        return self.loop.run_in_executor(self._thread, work)

    def delete(self, files: Iterable[str], synced: bool = False) -> None:
        """Let the thread delete files, in this order; `synced`: so that they stay deleted."""
        gone = list(files)
        if gone:
            self._thread.submit(self._delete, gone, synced and self.durable)

    def _delete(self, files: list[str], synced: bool) -> None:
        for file in files:
            remove(file)
        if synced:
            try:
                sync_folder(self.folder)
            except OSError as error:
                log.error("Staging: %s: %s", self.folder, error.strerror)

    async def close(self) -> None:
        """Wait for the thread, and delete a temporary folder."""
        await self.loop.run_in_executor(None, self._close)

    def _close(self) -> None:
        self._thread.shutdown()
        if self._temporary:
            import shutil

            shutil.rmtree(self.folder, ignore_errors=True)


def _temporary_folder() -> str:
    import tempfile

    return tempfile.mkdtemp(prefix="seriatim-staging-")
