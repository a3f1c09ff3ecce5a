"""Commits: one after another, each from its promise to its answer.

    COMMIT -> claimed --(stages and intent on the disk)--> promised
           -> rows published, in turns -> rows on the disk
           -> the application's line on the disk -> answered, stages deleted

Rule 1  Before the promise, a commit can be refused, and then nothing has happened. After it, the
        commit is carried out, by this broker or the next one: if the disk is full, it waits.
Rule 2  The promise is on the disk before the first row has a number; the rows before the
        application's line; and that before anything of the promise is deleted. So after a crash
        at any point, the journal and the folder show what is missing.
Rule 3  A request for the same batch in the meantime gets the answer of the running commit.
"""

import asyncio
import logging
import time
from collections import deque
from functools import partial

from broker.settings.staging_settings import StagingSettings
from broker.staging.applications import CommittedBatch, commit_answer
from broker.staging.commit_publishing import RETRY, Commit, Damaged, Publishing, Stopped
from broker.staging.intents import Intent, intent_file
from broker.staging.operations_asked import ANY, Asker, CommitRequest, Refusal
from broker.staging.shares import Owner, Shares, owner_of
from broker.staging.workspace import Workspace
from parser.errors import AGAIN
from sequencer.journal.disk import remove, sync_file

log = logging.getLogger("seriatim")

WAITING_MAX = 1024  # commits that wait for their turn
WAITERS_MAX = 64  # requests that wait for one of them


# Commits that wait for their turn: addresses take turns, so none waits for all of another's.
#
# At most `most` commits wait. When that many do, a commit of an address with fewer replaces the
# newest one of the address with the most.


class FairTurns:
    """The waiting commits of a broker, for its one thread."""

    def __init__(self, most: int, settings: StagingSettings) -> None:
        self._most = most
        self._shares = Shares(most, settings)
        self._lines: dict[str, deque[Commit]] = {}  # by address; the first is next
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def may_wait(self, owner: Owner) -> Commit | None:
        """Raise `Refusal` if one more commit of that owner may not wait.

        If a commit is returned, the caller must refuse it: nothing was promised for it, and it has
        been removed.
        """
        if why := self._shares.over(owner, 1):
            raise Refusal(429, f"too many commits wait: {why}")
        if self._count < self._most:
            return None
        address = self._shares.greediest(owner, 1)
        if address is None or self._lines[address][-1].promised:
            raise Refusal(429, f"{self._most} commits wait for their turn already")
        commit = self._lines[address].pop()
        if not self._lines[address]:
            del self._lines[address]
        self._gone(commit)
        return commit

    def put(self, commit: Commit) -> None:
        """Let a commit wait for its turn."""
        self._lines.setdefault(commit.owner.address, deque()).append(commit)
        self._shares.add(commit.owner, 1)
        self._count += 1

    def pop_next(self) -> Commit:
        """Take the next commit; another address's comes after it, if one waits."""
        address = next(iter(self._lines))
        line = self._lines.pop(address)
        commit = line.popleft()
        if line:
            self._lines[address] = line
        self._gone(commit)
        return commit

    def _gone(self, commit: Commit) -> None:
        self._shares.add(commit.owner, -1)
        self._count -= 1


class Commits:
    """The commits of a broker, for its one thread."""

    def __init__(self, space: Workspace, publishing: Publishing) -> None:
        self._space = space
        self._publishing = publishing
        self._queue = FairTurns(WAITING_MAX, space.settings)
        self._running: dict[str, Commit] = {}  # by application; includes waiting commits
        self._broken: dict[str, str] = {}  # applications whose promise cannot be kept, and why
        self._task: asyncio.Task[None] | None = None
        self.committed = self.repeated = 0

    def __len__(self) -> int:
        """Count the commits that are running or waiting."""
        return len(self._running)

    def batch_of(self, application: str) -> int | None:
        """Return the batch of an application that is being committed."""
        running = self._running.get(application)
        return running.request.batch if running is not None else None

    def commit(self, request: CommitRequest, asker: Asker) -> None:
        """Commit, and answer `asker` when it is done. Raises `Refusal`."""
        space, name = self._space, request.application
        done = space.applications.last(name)
        if done is not None and request.batch <= done.batch:
            self._repeat(request, done, asker)
            return
        if name in self._broken:
            raise Refusal(500, self._broken[name])
        running = self._running.get(name)
        if running is not None:
            if running.request.batch != request.batch:
                raise Refusal(409, f"batch {running.request.batch} of it is being committed")
            self._join(running, request, asker)
            return
        last = None if done is None else done.batch
        if request.after not in (ANY, last):
            known = "no batch of it was committed" if last is None else f"its last batch is {last}"
            raise Refusal(409, f"{known}, but this one must come after {request.after}")
        owner = owner_of(asker[0])
        claimed = space.stages.named(name, request.batch, request.stages)
        commit = Commit(request, claimed, owner)
        if done is None:
            space.applications.claim(name, owner)
        try:
            other = self._queue.may_wait(owner)
        except Refusal:
            space.applications.disown(name)
            raise
        if other is not None:
            self._send_away(other)
        commit.waiters.append((asker, True))
        self.enqueue(commit)

    def enqueue(self, commit: Commit) -> None:
        """Carry out a commit when its turn comes; it may be promised already."""
        for stage in commit.stages:
            stage.claimed = True
        self._running[commit.request.application] = commit
        self._queue.put(commit)
        if self._task is None:
            self._task = self._space.loop.create_task(self._work())

    def give_up(self, commit: Commit, problem: str) -> str:
        """Stop an application, because its promise cannot be kept. Returns the reason.

        The rest of its stages stays for the next broker.
        """
        for stage in commit.stages:
            stage.claimed = True
        name, missing = commit.request.application, sum(b + 1 - a for a, b in commit.missing)
        why = (
            f"batch {commit.request.batch} of {name} was committed, and {missing} of its"
            f" {commit.rows} rows cannot be published: {problem}"
        )
        log.error("Staging: %s", why)
        self._broken[name] = why
        return why

    async def stop(self) -> None:
        """Stop between two turns; the next broker publishes the rest of the promised rows."""
        self._publishing.stop()
        if self._task is not None:
            await self._task

    # Before the promise

    def _send_away(self, commit: Commit) -> None:
        """Remove a commit from the queue; its stages stay, and it can be requested again."""
        space, name = self._space, commit.request.application
        for stage in commit.stages:
            stage.claimed = False
        del self._running[name]
        space.applications.disown(name)
        for asker, _ in commit.waiters:
            space.refuse(asker, Refusal(429, f"{WAITING_MAX} commits wait, most of this address"))

    def _repeat(self, request: CommitRequest, done: CommittedBatch, asker: Asker) -> None:
        """Answer a commit that was done before, and publish nothing."""
        self.repeated += 1
        space = self._space
        space.delete(space.stages.drop(space.stages.up_to(request.application, done.batch)))
        if done.batch == request.batch:
            space.answer(asker, commit_answer(done, True))
        else:
            older = CommittedBatch(request.application, request.batch, 0, 0, 0, 0, True)
            space.answer(asker, commit_answer(older, True))

    def _join(self, running: Commit, request: CommitRequest, asker: Asker) -> None:
        """Let one more request wait for a running commit. Raises `Refusal`."""
        running.waiters = [one for one in running.waiters if not one[0][0].closed]
        if len(running.waiters) >= WAITERS_MAX:
            raise Refusal(429, f"{WAITERS_MAX} wait for this commit already")
        waiting = Shares(WAITERS_MAX, self._space.settings)
        for (connection, _), _ in running.waiters:
            waiting.add(owner_of(connection), 1)
        if why := waiting.over(owner_of(asker[0]), 1):
            raise Refusal(429, f"too many requests wait for this commit: {why}")
        running.waiters.append((asker, request.stages == running.request.stages))

    # One after another

    async def _work(self) -> None:
        try:
            while self._queue:
                commit = self._queue.pop_next()
                try:
                    await self._carry_out(commit)
                except (OSError, Damaged) as error:
                    self._break(commit, error)
        except Stopped:
            pass
        finally:
            self._task = None

    async def _carry_out(self, commit: Commit) -> None:
        """Carry out a commit. `OSError` and `Damaged` can only come from its stages."""
        if commit.rows and not commit.promised:
            try:
                await self._promise(commit)
            except OSError as error:
                self._refuse(
                    commit,
                    Refusal(507, f"the commit cannot be written to the disk: {error.strerror}"),
                )
                return
        if commit.missing:
            await self._publishing.publish(commit)
        keeper = self._space.keeper
        if self._space.durable and keeper is not None and commit.last:
            last = commit.last
            await self._publishing.called_back(lambda call: keeper.when_synced(last, call))
        self._finish(commit, await self._note(commit))

    async def _promise(self, commit: Commit) -> None:
        """Write and sync stages and intent. Raises `OSError`: then there is no promise."""
        space, request = self._space, commit.request
        commit.number = space.plane.sequencer.number
        stages = tuple((one.key[2], one.bytes, one.crc) for one in commit.stages)
        identity = (request.application, request.batch, request.remember)
        rows = (commit.origin, commit.number, commit.rows)
        intent = Intent(*identity, *rows, stages, commit.owner.address)
        files = [stage.file for stage in commit.stages]

        def work() -> None:
            try:
                if space.durable:
                    for file in files:
                        sync_file(file)
                intent.write(space.folder, space.durable)
            except OSError:
                remove(intent_file(space.folder, commit.origin))
                raise

        await space.run(work)
        commit.promised = True

    async def _note(self, commit: Commit) -> CommittedBatch:
        """Write and sync the application's line, however long that takes."""
        known, request = self._space.applications, commit.request
        now = time.time_ns() // 1_000_000
        numbers = (commit.first, commit.last, commit.rows)
        address = known.address_of(request.application, commit.owner)
        name, batch, remember = request.application, request.batch, request.remember
        done = CommittedBatch(name, batch, *numbers, now, remember, address)
        while True:
            rewritten, instead = known.plan(done), known.displaced_by(request.application)
            try:
                await self._space.run(partial(known.write, done, rewritten, instead))
            except OSError as error:
                log.error("Staging: %s: %s; trying again", known.file, error.strerror)
                await self._publishing.wait(asyncio.sleep(RETRY))
            else:
                known.add_committed(done)
                return done

    # The end of a commit

    def _finish(self, commit: Commit, done: CommittedBatch) -> None:
        """Answer, and delete what is no longer needed: the intent first."""
        space, request = self._space, commit.request
        self.committed += 1
        del self._running[request.application]
        for asker, same in commit.waiters:
            space.answer(asker, commit_answer(done, not same))
        stages = space.stages.drop(space.stages.up_to(request.application, request.batch))
        intent = [intent_file(space.folder, commit.origin)] if commit.promised else []
        # An application with `remember` false will be forgotten; then nothing may come back.
        space.delete(intent + stages, synced=not request.remember)
        space.plane.release(None)
        log.debug("Staging: committed batch %d of %s", request.batch, request.application)

    def _refuse(self, commit: Commit, problem: Refusal) -> None:
        """Refuse a commit before its promise. Drop its stages: a failed sync may have lost some."""
        space, request = self._space, commit.request
        log.error("Staging: %s", problem)
        del self._running[request.application]
        space.applications.disown(request.application)
        space.delete(space.stages.drop(commit.stages))
        other = Refusal(AGAIN, "a commit with other stages of this batch failed; try again")
        for asker, same in commit.waiters:
            space.refuse(asker, problem if same else other)
        space.plane.release(None)

    def _break(self, commit: Commit, error: Exception) -> None:
        """End a commit whose promise cannot be kept; the next broker, or its owner, may retry."""
        space, request = self._space, commit.request
        what = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
        why = self.give_up(commit, what)
        del self._running[request.application]
        space.applications.disown(request.application)
        for asker, _ in commit.waiters:
            space.refuse(asker, Refusal(500, why))
        space.plane.release(None)
