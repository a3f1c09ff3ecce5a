"""All streams of a broker: how they begin, change and end, and how they come back after a start.

    <store>/streams/notes        the log of what was asked, one sealed line for each (note_file.py)

    STORE      the journal that the notes belong to
    STREAM     name, configuration, since when, which subjects after which number
    GONE       a stream that was deleted
    PURGED     a filter, and the number below which nothing of it is visible
    DELETED    single messages

A change is on the disk before it holds, and holds before it is answered. So a pub ack never names a
stream that a crash takes back.

At a start the journal is read again, from where the oldest stream begins, in a single pass: what
was asked is done once more at the number at which it held. Until then publishers get their pub
acks, and requests wait: those of the API, and what is asked of consumers and streams that the notes
have, acks too.
"""

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from broker.core import Core
from broker.dataplane.connection import Connection
from broker.dataplane.ledger import SubjectTotal, stored_size
from broker.dataplane.stream_table import RecordWatcher, StreamTable
from broker.runtime.log_bounds import REPEATED
from broker.storage.note_file import NoteFile, NoteWriter
from broker.streams import api_errors
from broker.streams.advisories import Advisories
from broker.streams.api_errors import ApiError
from broker.streams.consumers import Consumers
from broker.streams.id_scopes import IdScopes
from broker.streams.journal_scan import JournalScan
from broker.streams.kept_consumer import KeptConsumer
from broker.streams.ledger_file import LedgerBasis, LedgerFile, write_ledgers
from broker.streams.stream_config import EVERYTHING, StreamConfig, meets, read_config
from broker.streams.stream_view import DELETED_MAX, EVERY, Stream
from broker.streams.whole_order import WholeOrder
from broker.version import NATS_VERSION
from sequencer.journal.errors import StoreError
from sequencer.journal.layout import RECORD
from sequencer.journal.protocols import SegmentView
from sequencer.journal.record import Walk
from sequencer.journal.store import Store
from sequencer.replica.member_messages import Note
from sublist.pattern_set import PatternSet, do_meet

log = logging.getLogger("seriatim")

FOLDER: Final = "streams"
VISIBLE: Final = {"STREAM", "GONE", "PURGED", "DELETED"}  # notes that change what is visible
# Requests to known streams and consumers that wait for the end of a start: their clients were
# connected before, and have come back. Larger ones are none of theirs.
EARLY_MAX: Final = 4096
EARLY_SIZE: Final = 4096
SPARE_NOTES: Final = 1024  # the log is shortened when it has twice what it needs, and these
PATTERNS_MAX: Final = 16_384  # of all streams together: each new one is compared with all
ERAS_MAX: Final = 256  # changes of a stream's subjects: each of its messages is judged by them
PURGES_MAX: Final = 10_000  # filters of one stream that a start applies again
VISITED: Final = 1 << 17  # bytes that are visited in a turn, record by record: some milliseconds
PIECE_S: Final = 0.002  # of comparing subjects, in a turn
FOREVER: Final = (1 << 63) - 1
SLOW: Final = 30.0  # seconds; the disk may fill up meanwhile


class Streams:
    """The streams of one broker, for its one thread."""

    def __init__(self, core: Core, journal: Store, scopes: IdScopes) -> None:
        """Read what earlier brokers have noted. Raises `OSError` and `StoreError`."""
        self.core = core
        self._scopes = scopes
        self.journal = journal
        self.by_name: dict[str, Stream] = {}  # without the stream of everything
        self.subjects = SubjectTotal(core.settings.streams.max_subjects)
        self.whole = WholeOrder(journal, NATS_VERSION)
        self.table = StreamTable(journal.salt)
        self.table.subjects.max_match_nodes = core.plane.sublist.max_match_nodes
        self.is_ready = False
        self.problem = ""  # why they cannot be used
        # Of consumers, until the journal is read: what the notes say of them, and their states.
        self._known_consumers: dict[tuple[str, str], dict[str, Any]] = {}
        self._known_states: dict[tuple[str, str], KeptConsumer] = {}
        self._changes = asyncio.Lock()
        self._shortening: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[None] = core.loop.create_future()
        self._early: list[tuple[Connection, Callable[[], object]]] = []
        self._awaited: list[tuple[int, asyncio.Future[None]]] = []  # notes, by number
        self._changed = 0  # the number of the last note that changes what is visible
        self._folder = folder = os.path.join(journal.path, FOLDER)
        self._notes = NoteFile(folder, core.settings.journal.sync != "never")
        self._summed_up = self._notes.first - 1  # the last of the notes that replace older ones
        if self._notes.damage:
            log.error("Streams: %s: what it said of them is lost", self._notes.damage)
        self._recall()
        self.advisories = Advisories(core.plane)
        self.consumers = Consumers(core, self)
        self._writer = NoteWriter(self._notes, core.loop, self._synced, self._not_written)
        self._reading: asyncio.Task[None] | None = None
        self._leaving: asyncio.Task[None] | None = None
        self._left = 0  # what is below was taken out of the ledgers
        self._left_out_told = 0
        self._whole_left = 0  # what is below was passed by the consumers of everything
        if core.keeper is not None:
            core.keeper.before_deletion = self.before_deletion

    # What is on the disk

    def _recall(self) -> None:
        """Do again what the notes say."""
        notes = [self._notes.at(at) for at in range(self._notes.first, self._notes.last + 1)]
        if not notes:
            self._append("STORE", {"journal": self.journal.id})
        for note in notes:
            self._do_again(note.kind, note.fields)
            if note.kind in VISIBLE:
                self._changed = note.number
        for stream in self.by_name.values():
            for pattern in stream.config.subjects:
                self.table.open_to(pattern.encode(), stream.ledger)

    def _do_again(self, kind: str, fields: dict[str, Any]) -> None:
        last = self.journal.last  # a power cut may have taken numbers that the notes know
        if kind == "STORE":
            if fields["journal"] != self.journal.id and not self.core.settings.journal.accept_loss:
                raise StoreError(
                    f"{self._notes.file} is of journal {fields['journal']}, and this is journal"
                    f" {self.journal.id}: its streams would show other messages. Remove the file,"
                    " or start with --accept-loss"
                )
        elif kind == "STREAM":
            config = stored_config(fields["config"])
            known = self.by_name.get(config.name)
            if known is None:
                since = min(fields["since"], last + 1)
                self.by_name[config.name] = known = Stream(
                    config, fields["created"], since, self.subjects
                )
            known.change(config, 0)
            eras = [(min(after, last), tuple(subjects)) for after, subjects in fields["eras"]]
            known.set_eras(eras)
        elif kind == "GONE":
            self.by_name.pop(fields["name"], None)
            for key in [key for key in self._known_consumers if key[0] == fields["name"]]:
                del self._known_consumers[key]
                self._known_states.pop(key, None)
        elif kind == "PURGED":
            self.by_name[fields["name"]].note_purge(
                fields["filter"], min(fields["below"], last + 1)
            )
        elif kind == "DELETED":
            numbers = [number for number in fields["numbers"] if number <= last]
            self.by_name[fields["name"]].ledger.deleted.update(numbers)
        else:
            self._know_consumer(kind, fields)

    def _know_consumer(self, kind: str, fields: dict[str, Any]) -> None:
        """Take what a note says of consumers, which begin when the journal is read."""
        if kind == "STATE":
            for stream, name, state in fields["consumers"]:
                if (stream, name) in self._known_consumers:
                    kept = self._known_states.setdefault((stream, name), KeptConsumer())
                    kept.apply(state)
            return
        key = fields["stream"], fields["name"]
        if kind == "CONSUMER":
            self._known_consumers[key] = self._known_consumers.get(key, {}) | fields
        else:
            self._known_consumers.pop(key, None)
            self._known_states.pop(key, None)

    def _append(self, kind: str, fields: dict[str, Any]) -> int:
        number = self._notes.last + 1
        if kind in VISIBLE:
            self._changed = number
        self._notes.append(Note(number, self.journal.epoch, kind, fields))
        return number

    async def note(self, kind: str, fields: dict[str, Any]) -> None:
        """Note a change; return when it is on the disk. Raises `ApiError` if it cannot be."""
        await self.note_at_once(kind, fields)

    def note_at_once(self, kind: str, fields: dict[str, Any]) -> asyncio.Future[None]:
        """Put a change into the notes, before any other; return what ends when it is on the disk.

        Await it: it may end with `ApiError`.
        """
        future: asyncio.Future[None] = self.core.loop.create_future()
        self._awaited.append((self._append(kind, fields), future))
        self._writer.write_soon()
        return future

    def _synced(self) -> None:
        due = [future for number, future in self._awaited if number <= self._notes.synced]
        self._awaited = [one for one in self._awaited if one[0] > self._notes.synced]
        for future in due:
            if not future.done():
                future.set_result(None)
        needed = 2 * self._notes_needed + SPARE_NOTES
        if self._notes.last - self._notes.first > needed and self._shortening is None:
            self._shortening = self.core.loop.create_task(self._shorten_between_changes())

    def _not_written(self, why: str) -> None:
        """Take back what was to be noted, but not what has been put in the place of older notes."""
        self._notes.truncate(max(self._notes.synced, self._summed_up))
        waiting, self._awaited = self._awaited, []
        for _, future in waiting:
            if not future.done():
                future.set_exception(api_errors.not_available(f"no note can be written: {why}"))

    @property
    def _notes_needed(self) -> int:
        return 4 + sum(2 + len(one.purged) + len(one.consumers) for one in self.shown())

    async def _shorten_between_changes(self) -> None:
        """Shorten the notes when no change is under way: it may be noted, but not made yet."""
        try:
            async with self._changes, contextlib.AsyncExitStack() as locks:
                for stream in (*self.named(), self.whole):
                    await locks.enter_async_context(stream.changing)
                    await locks.enter_async_context(stream.lock)
                self._shorten()
        finally:
            self._shortening = None

    def _shorten(self) -> None:
        """Write what holds now in place of all notes."""
        kinds: list[tuple[str, dict[str, Any]]] = [("STORE", {"journal": self.journal.id})]
        for stream in self.by_name.values():
            self._forget_deleted_rules(stream)
            kinds.append(("STREAM", stream.fields()))
            for filter, below in stream.purged.items():
                fields = {"name": stream.name, "filter": filter, "below": below}
                kinds.append(("PURGED", fields))
            if stream.ledger.deleted:
                fields = {"name": stream.name, "numbers": sorted(stream.ledger.deleted)}
                kinds.append(("DELETED", fields))
        for consumer in self.consumers.all():
            if consumer.machine.config.is_durable:
                kinds.append(("CONSUMER", consumer.fields()))
        kinds.append(("STATE", {"consumers": self.consumers.whole_state()}))
        self._summed_up = self._notes.last
        first = self._notes.last - len(kinds) + 1
        epoch = self.journal.epoch
        notes = [Note(first + at, epoch, kind, fields) for at, (kind, fields) in enumerate(kinds)]
        self._notes.shorten(tuple(notes))
        self._changed = max((one.number for one in notes if one.kind in VISIBLE), default=0)

    def _forget_deleted_rules(self, stream: Stream) -> None:
        """Forget the rules about numbers that retention has deleted."""
        first = self.journal.first
        while len(stream.eras) > 1 and stream.eras[1][0] < first:
            stream.set_eras(stream.eras[1:])
        stream.purged = {one: below for one, below in stream.purged.items() if below > first}
        stream.ledger.deleted.difference_update(
            [number for number in stream.ledger.deleted if number < first]
        )

    # The start

    def start(self) -> None:
        """Read the journal for the ledgers."""
        self._reading = self.core.loop.create_task(self._read_back())

    async def wait_until_ready(self) -> None:
        """Return when all ledgers are up to date."""
        await asyncio.shield(self._ready)

    def serve_later(
        self,
        connection: Connection,
        stream: str,
        consumer: str,
        size: int,
        serve: Callable[[], object],
    ) -> bool:
        """Serve a request, of this size, when the journal is read; False if it need not wait.

        It need not if nobody will be there then either. `consumer`: empty if it is for a stream.
        """
        if self.is_ready or self.problem or stream not in self.by_name:
            return False
        if consumer and (stream, consumer) not in self._known_consumers:
            return False
        if size > EARLY_SIZE or len(self._early) >= EARLY_MAX:
            return False
        self._early.append((connection, serve))
        return True

    def _serve_early(self) -> None:
        early, self._early = self._early, []
        for connection, serve in early:
            if not connection.closed:
                serve()
        self.core.plane.release(None)

    async def _read_back(self) -> None:
        begun = time.monotonic()
        streams = list(self.by_name.values())
        try:
            known = await self._recall_ledgers()
            first = min((stream.since for stream in streams), default=self.journal.last + 1)
            first = max(first, self.journal.first, known + 1)
            await self._fill(streams, first, known)
        except Exception as error:
            log.exception("Streams: the journal cannot be read for them", exc_info=error)
            self.problem = f"the journal cannot be read for the streams: {error}"
            self._left = FOREVER  # retention must not wait
            self._ready.set_exception(api_errors.not_available("the journal cannot be read"))
            self._ready.exception()  # it was seen, also if nobody asks
            return
        self.is_ready = True
        self._take_records()
        for key, fields in self._known_consumers.items():
            stream = self.look_up(key[0])
            if stream is not None:
                self.consumers.restore(stream, fields, self._known_states.get(key))
        self._known_consumers, self._known_states = {}, {}
        self._serve_early()
        self._ready.set_result(None)
        if streams or self.consumers.count():
            log.info(
                "Streams: %d with %d durable consumers; read from number %d to %d in %.2f s",
                *(len(streams), self.consumers.count()),
                *(first, self.journal.last, time.monotonic() - begun),
            )

    async def _recall_ledgers(self) -> int:
        """Fill the ledgers from the last clean stop; return up to which number, or 0."""
        names = set(self.by_name)
        file = LedgerFile(self._folder, self.journal, self._changed, names)
        if not names or not file.last:
            return 0
        try:
            for _ in file.fill(self.by_name):
                await asyncio.sleep(0)
        except (OSError, ValueError) as error:
            log.warning("Streams: %s is of no use: %s", file.path, error)
            for stream in self.by_name.values():
                stream.ledger.clear()
                stream.ledger.restore(0, 0, 0, 0, 0, 0, 0)
                stream.ledger.next = stream.since
            return 0
        return file.last

    def _keep_ledgers(self) -> None:
        """Write the ledgers for the next start, if all that the notes hide was taken out."""
        streams = self.named()
        if not streams or not all(stream.is_settled for stream in streams):
            return
        journal, last = self.journal, self.journal.last
        state = LedgerBasis(journal.id, journal.first, last, journal.newest_time, self._changed)
        try:
            write_ledgers(self._folder, state, streams)
        except OSError as error:
            log.warning(
                "Streams: what is in them cannot be written, and will be read from the journal at"
                " the next start: %s",
                error,
            )

    async def _fill(self, streams: Iterable[Stream], first: int, known: int = 0) -> None:
        """Read the journal from a number to its end into the ledgers of these streams.

        They have what is up to the number `known`, and of that nothing that was purged. Returns
        in the turn in which the end was reached: what comes from now on is not in them.
        """
        table = StreamTable(self.journal.salt)
        events = _events(table, streams, known)
        scan = JournalScan(self.journal, self.core.loop, first)
        before = -1
        while before < scan.number <= self.journal.last:
            before = scan.number
            async for buffer, size in scan.pieces():
                at = 0
                while True:
                    while events and events[-1][0] <= scan.number:
                        events.pop()[1]()
                    limit = events[-1][0] if events else FOREVER
                    rest = buffer[at:size] if at else buffer
                    at += table.take(rest, size - at, limit)
                    stopped = table.state == RECORD  # at the limit, or later
                    scan.advance(at, max(table.next, limit) if stopped else table.next)
                    if not stopped:
                        break
            self.core.plane.sequencer.release()  # what is numbered meanwhile is read, too
        while events:
            events.pop()[1]()
        for stream in streams:
            stream.ledger.next = self.journal.last + 1

    # Streams

    def look_up(self, name: str) -> Stream | None:
        """Return the stream of this name; that of everything is as of now."""
        if name == EVERYTHING:
            self.core.plane.sequencer.release()
            self.whole.look()
            return self.whole
        return self.by_name.get(name)

    def find(self, name: str) -> Stream:
        """Return the stream of this name. Raises `ApiError`."""
        stream = self.look_up(name)
        if stream is None:
            raise api_errors.stream_not_found()
        return stream

    def shown(self) -> Iterator[Stream]:
        """Yield all streams; that of everything while it has consumers."""
        yield from self.by_name.values()
        if self.whole.consumers:
            self.whole.look()
            yield self.whole

    def follow_whole(self, more: int) -> None:
        """Keep the ledger of everything up to date for one consumer more, or less."""
        whole = self.whole
        whole.followers += more
        whole.look()
        self.table.whole = whole.ledger if whole.followers else None
        self._take_records()

    def refuse_deleted(self, stream: Stream) -> None:
        """Refuse to change a stream that was deleted while it was waited for. Raises `ApiError`."""
        if stream is not self.whole and self.by_name.get(stream.name) is not stream:
            raise api_errors.stream_not_found()

    def named(self) -> list[Stream]:
        """Return all streams, by name."""
        return [self.by_name[name] for name in sorted(self.by_name)]

    @property
    def next(self) -> int:
        """The next number."""
        return self.core.plane.sequencer.number + 1

    async def create(self, given: bytes, name: str, version: str) -> tuple[Stream, bool]:
        """Create a stream; return it, and whether it is new. Raises `ApiError`."""
        async with self._changes:
            config = self._read(given, name)
            known = self.by_name.get(name)
            if known is not None:
                if without_versions(known.config) != config:
                    raise api_errors.stream_name_in_use()
                return known, False
            if len(self.by_name) >= self.core.settings.streams.max_streams:
                raise api_errors.too_many_streams()
            await self._refuse_overlap(config)
            self._refuse_costly(config)
            since = config.first_seq or self.next
            if since > self.next:
                raise api_errors.invalid_config(
                    f"numbers are shared by all streams, and the next is {self.next}"
                )
            stream = Stream(config.with_versions(version), time.time_ns(), since, self.subjects)
            await self.note("STREAM", stream.fields())
            # Numbers may have been given while that was written: they are in the stream, too.
            try:
                await self._fill([stream], max(since, self.journal.first))
            except BaseException:
                stream.ledger.clear()
                raise
            self.by_name[name] = stream
            self._take_records()
            self._tell_scopes()
            for subject in config.subjects:
                self.table.open_to(subject.encode(), stream.ledger)
            self.advisories.of_stream(name, "create")
            return stream, True

    def _tell_scopes(self) -> None:
        self._scopes.replace({name: one.eras[:] for name, one in self.by_name.items()})

    def _take_records(self) -> None:
        """Get all records as they are written, if there is a stream."""
        feeds = self.core.plane.sequencer.feeds
        if self.table in feeds:
            feeds.remove(self.table)
        if (self.by_name or self.whole.followers) and self.is_ready:
            feeds.append(self.table)

    async def update(self, given: bytes, name: str, version: str) -> Stream:
        """Change a stream's configuration. Raises `ApiError`."""
        async with self._changes:
            stream = self.find(name)
            config = self._read(given, name)
            self._refuse_change(stream.config, config)
            await self._refuse_overlap(config, stream)
            self._refuse_costly(config)
            async with stream.lock:
                before = set(stream.config.subjects)
                changed = config.with_versions(version)
                noted = stream.fields() | {"config": changed.fields()}
                if config.subjects == stream.config.subjects:
                    await self.note("STREAM", noted)
                    stream.change(changed, 0)
                else:
                    await self._change_subjects(stream, changed, noted)
                self._tell_scopes()
                ledger = stream.ledger
                for subject in before.difference(config.subjects):
                    self.table.close_to(subject.encode(), ledger)
                for subject in set(config.subjects) - before:
                    self.table.open_to(subject.encode(), ledger)
            self.advisories.of_stream(name, "modify")
            return stream

    async def _change_subjects(
        self, stream: Stream, changed: StreamConfig, noted: dict[str, Any]
    ) -> None:
        """Change a stream's subjects, for the numbers from here on. Raises `ApiError`.

        Number and note must agree, so this one note is written while nobody is served.
        """
        if len(stream.eras) >= ERAS_MAX:
            raise api_errors.invalid_config(
                f"the subjects were changed {ERAS_MAX} times while messages from before are in the"
                " journal; make a new stream"
            )
        while self._writer.is_writing:
            await self._writer.written()
        self.core.plane.sequencer.release()
        after = self.next - 1
        noted["eras"].append([after, list(changed.subjects)])
        self._append("STREAM", noted)
        try:
            self._notes.sync()
        except OSError as error:
            self._not_written(error.strerror or str(error))
            raise api_errors.not_available(f"no note can be written: {error.strerror}") from None
        self._synced()
        stream.change(changed, after)

    async def delete(self, name: str) -> int:
        """Delete a stream; return how many consumers it had. Raises `ApiError`.

        Its messages stay in the journal.
        """
        async with self._changes:
            stream = self.find(name)
            if stream is self.whole:
                raise api_errors.not_deletable(name)
            async with stream.changing, stream.lock:
                await self.note("GONE", {"name": name})
                consumers = list(stream.consumers.values())
                for consumer in consumers:
                    self.consumers.end(consumer)
                del self.by_name[name]
                self._take_records()
                self._tell_scopes()
                for subject in stream.config.subjects:
                    self.table.close_to(subject.encode(), stream.ledger)
                stream.ledger.clear()
            self.advisories.of_stream(name, "delete")
            return len(consumers)

    def _read(self, given: bytes, name: str) -> StreamConfig:
        window = int(self.core.settings.journal.dedupe_window * 1e9)
        return read_config(given, name, window)

    def costly(self, patterns: Iterable[str]) -> str:
        """Return the first of these patterns with which one message costs too much; or nothing."""
        subjects, trial, opened = self.table.subjects, RecordWatcher(), []
        try:
            for pattern in {one.encode(): None for one in patterns}:
                if not subjects.admits(pattern):
                    return pattern.decode()
                self.table.open_to(pattern, trial)
                opened.append(pattern)
            return ""
        finally:
            for pattern in opened:
                self.table.close_to(pattern, trial)

    def _refuse_costly(self, config: StreamConfig) -> None:
        costly = self.costly(config.subjects)
        if costly:
            raise api_errors.invalid_config(
                f"subject {costly!r} would make matching a message too expensive"
            )

    async def _refuse_overlap(self, config: StreamConfig, own: Stream | None = None) -> None:
        """Compare each subject with all others, for some milliseconds in a turn."""
        if own is not None and own.config.subjects == config.subjects:
            return
        subjects = [one.encode().split(b".") for one in config.subjects]
        pause = Pause()
        for at, one in enumerate(subjects):
            for after, other in enumerate(subjects[at + 1 :], at + 1):
                if do_meet(one, other):
                    mine, theirs = config.subjects[at], config.subjects[after]
                    raise api_errors.invalid_config(f'subject "{mine}" overlaps with "{theirs}"')
            await pause.if_due()
        others = [one for one in self.by_name.values() if one is not own]
        patterns = len(config.subjects) + sum(len(one.config.subjects) for one in others)
        if patterns > PATTERNS_MAX:
            raise api_errors.invalid_config(
                f"all streams together would have {patterns} subjects; the most is {PATTERNS_MAX}"
            )
        excluded = self.core.settings.sequencer.exclude
        for subject in config.subjects:
            for pattern in excluded:
                if subject != EVERY and meets(subject, pattern):
                    raise api_errors.invalid_config(
                        f"subject {subject!r} meets {pattern!r}, which gets no numbers"
                        " (sequencer.exclude)"
                    )
        for stream in others:
            for other in [one.encode().split(b".") for one in stream.config.subjects]:
                if any(do_meet(one, other) for one in subjects):
                    raise api_errors.subjects_overlap()
                await pause.if_due()

    @staticmethod
    def _refuse_change(before: StreamConfig, after: StreamConfig) -> None:
        """Refuse what nats-server lets nobody change."""
        if after.storage != before.storage:
            raise api_errors.invalid_config(
                "stream configuration update can not change storage type"
            )
        if before.deny_delete and not after.deny_delete:
            raise api_errors.invalid_config(
                "stream configuration update can not cancel deny message deletes"
            )
        if before.deny_purge and not after.deny_purge:
            raise api_errors.invalid_config("stream configuration update can not cancel deny purge")
        if after.first_seq and after.first_seq != before.first_seq:
            raise api_errors.invalid_config(
                "stream configuration update can not change first sequence"
            )

    # Taking messages out

    async def purge(self, stream: Stream, filter: str, below: int, keep: int) -> int:
        """Hide the messages that a filter matches; return how many. Raises `ApiError`.

        Those below a number, or all but the last `keep` of them; 0: all.
        """
        purged = await self._purge(stream, filter, below, keep)
        if purged:
            self.consumers.messages_left(stream, filter, stream.purged[filter])
        return purged

    async def _purge(self, stream: Stream, filter: str, below: int, keep: int) -> int:
        async with stream.lock:
            self.refuse_deleted(stream)
            if stream.config.deny_purge:
                raise api_errors.purge_not_permitted()
            if len(stream.purged) >= PURGES_MAX and filter not in (EVERY, *stream.purged):
                raise api_errors.invalid_config(
                    f"{PURGES_MAX} purges of subjects are remembered until retention has deleted"
                    " their messages; purge with a wider filter"
                )
            sequencer = self.core.plane.sequencer
            if not below and not keep:
                sequencer.release()
                below = self.next  # what comes meanwhile stays, as if it came after the request
            elif keep:
                below = await self._below_the_last(stream, filter, keep)
            below = min(below, self.next)
            if not below:
                return 0
            with stream.taking_out():
                await self.note("PURGED", {"name": stream.name, "filter": filter, "below": below})
                stream.note_purge(filter, below)
                return await self._drop_below(stream, filter, stream.purged[filter])

    async def _drop_below(self, stream: Stream, filter: str, below: int) -> int:
        """Take the messages that a filter matches, below a number, out of the ledger."""
        self.core.plane.sequencer.release()
        ledger = stream.ledger
        subjects = stream.subjects_of(filter.encode())
        if all(ledger.last_of(one) < below for one in subjects):
            return stream.purge(filter)
        table = StreamTable(self.journal.salt)
        table.open_to(filter.encode(), ledger)
        await self._leave(table, min(map(ledger.begins, subjects)), below)
        return table.dropped

    async def _leave(self, table: StreamTable, first: int, below: int) -> None:
        """Read what leaves the streams of a table, below a number, and take it out."""
        scan = JournalScan(self.journal, self.core.loop, max(first, self.journal.first))
        async for buffer, size in scan.pieces():
            used = table.leave(buffer, size, below)
            scan.advance(used, table.next)
            if table.state == RECORD:
                return

    async def _below_the_last(self, stream: Stream, filter: str, keep: int) -> int:
        """Return the number of the first of the last `keep` messages; 0 if there are no more."""
        ledger = stream.ledger
        subjects = stream.subjects_of(filter.encode())
        wanted = set(subjects)
        left = sum(map(ledger.count_of, subjects)) - keep
        if left <= 0:
            return 0
        found = 0

        def count(walk: Walk, subject: bytes, size: int) -> bool:
            nonlocal left, found
            if subject in wanted and ledger.shows(subject, walk.number):
                if left == 0:
                    found = walk.number
                    return False
                left -= 1
            return True

        await self.visit(stream, min(map(ledger.begins, subjects)), count)
        return found

    async def delete_message(self, stream: Stream, number: int) -> None:
        """Hide one message. Raises `ApiError`."""
        if not await self._hide(stream, number):
            raise await self._cannot_delete(stream, number)

    async def _hide(self, stream: Stream, number: int) -> bool:
        """Hide one message; False if it is not visible. Raises `ApiError`."""
        async with stream.lock:
            self.refuse_deleted(stream)
            if stream.config.deny_delete:
                raise api_errors.delete_not_permitted()
            if not number:
                raise api_errors.nothing_to_delete()
            ledger = stream.ledger
            if len(ledger.deleted) >= DELETED_MAX:
                raise api_errors.too_many_deleted(DELETED_MAX)
            found: tuple[bytes, int] | None = None
            before = 0  # the visible message of the same subject before it

            def look(walk: Walk, subject: bytes, size: int) -> bool:
                nonlocal found
                if walk.number == number and ledger.shows(subject, number):
                    found = subject, size
                return walk.number < number

            if number <= ledger.last:
                self.core.plane.sequencer.release()
                await self.visit(stream, number, look)
            if found is None:
                return False
            subject, size = found
            if number == ledger.last_of(subject) and ledger.count_of(subject) > 1:
                before = await self._last_before(stream, subject, number)
            with stream.taking_out():
                await self.note("DELETED", {"name": stream.name, "numbers": [number]})
                self.core.plane.sequencer.release()
                is_last = number == ledger.last_of(subject)
                if ledger.drop(subject, number, size, False):
                    ledger.deleted.add(number)
                    if is_last and before:
                        ledger.lower_last(subject, before)
                    self.consumers.message_left(stream, subject, number)
            return True

    async def _cannot_delete(self, stream: Stream, number: int) -> ApiError:
        """Return the error for a number that is not visible, as nats-server's two stores say it."""
        last = stream.ledger.last
        if stream.config.storage == "file":
            if number > last:
                return api_errors.beyond_the_end()
            if not stream.ledger.messages or number < (await self.first_of(stream))[0]:
                return api_errors.nothing_to_delete()
        return api_errors.sequence_not_found(number)

    async def _last_before(self, stream: Stream, subject: bytes, number: int) -> int:
        ledger, before = stream.ledger, 0

        def look(walk: Walk, other: bytes, size: int) -> bool:
            nonlocal before
            if walk.number >= number:
                return False
            if other == subject and ledger.shows(subject, walk.number):
                before = walk.number
            return True

        await self.visit(stream, ledger.begins(subject), look)
        return before

    async def last_matching(self, stream: Stream, patterns: list[bytes]) -> int:
        """Return the number of the last visible message that a pattern matches; 0 if none is."""
        if stream is not self.whole:
            subjects = {
                one for pattern in patterns or [b">"] for one in stream.subjects_of(pattern)
            }
            return max(map(stream.ledger.last_of, subjects), default=0)
        if not patterns or b">" in patterns:
            return self.journal.last if self.whole.ledger.messages else 0
        wanted, found = PatternSet(patterns), 0
        end = self.journal.last + 1

        def look(walk: Walk, subject: bytes, size: int) -> bool:
            nonlocal found
            if walk.number < end and wanted.takes(subject):
                found = walk.number
            return walk.number < end

        # From the newest segment back: most subjects have a message in the first that has any.
        for segment in reversed(self.journal.segments()):
            if not segment.gone:
                await self.visit(stream, segment.first, look, patterns)
            if found:
                break
            end = segment.first
        return found

    async def first_since(self, stream: Stream, time_ns: int) -> int:
        """Return the number of the first visible message of this time or later; the next one."""
        found = stream.ledger.last + 1

        def look(walk: Walk, subject: bytes, size: int) -> bool:
            nonlocal found
            if walk.time < time_ns or not stream.ledger.shows(subject, walk.number):
                return True
            found = walk.number
            return False

        if stream.ledger.messages and time_ns <= stream.ledger.last_time:
            segment, _ = self.journal.locate_time(time_ns)
            await self.visit(stream, max(segment.first, stream.since), look)
        return found

    async def first_of(self, stream: Stream) -> tuple[int, int]:
        """Return number and time of the first visible message; 0 and 0 if there is none."""
        ledger = stream.ledger
        async with stream.lock:
            if not ledger.first and ledger.messages:

                def look(walk: Walk, subject: bytes, size: int) -> bool:
                    if not ledger.shows(subject, walk.number):
                        return True
                    ledger.begin_with(walk.number, walk.time)
                    return False

                await self.visit(stream, min(map(ledger.begins, list(ledger.entries))), look)
        return ledger.first, ledger.first_time

    def first_at_least(self, stream: Stream) -> int:
        """Return the number of the first visible message, or else one that it is not below."""
        return stream.ledger.first or max(stream.since, self.journal.first)

    async def visit(
        self,
        stream: Stream,
        first: int,
        visit: Callable[[Walk, bytes, int], bool],
        patterns: list[bytes] | None = None,
    ) -> None:
        """Visit the records from a number on, with subject and size, as long as `visit` says so.

        Segments may be left out that have nothing of the stream, or of the patterns.
        """
        journal = self.journal
        walk = Walk(journal.salt, journal.checked)
        wanted = patterns or [one.encode() for _, subjects in stream.eras for one in subjects]

        def lacks(segment: SegmentView) -> bool:
            replays = self.core.replays
            return replays is not None and replays.lacks(segment, wanted)

        scan = JournalScan(journal, self.core.loop, max(first, journal.first), VISITED, lacks)
        async for buffer, size in scan.pieces():
            walk.attach(buffer, 0, size)
            while walk.next() == RECORD:
                if walk.number < first:
                    continue
                subject = bytes(buffer[walk.subject : walk.subject + walk.subject_size])
                stored = stored_size(walk.subject_size, walk.size, walk.header_size)
                if not visit(walk, subject, stored):
                    return
            scan.advance(walk.at, walk.number + 1)

    # Retention

    def before_deletion(self, number: int) -> int:
        """Begin to take everything below a number out of the ledgers: retention will delete it.

        Returns below which number that is done. Is called again and again.
        """
        if self.subjects.left_out != self._left_out_told:
            self._left_out_told = self.subjects.left_out
            log.warning(
                "Streams: %d messages are in no stream: all together have %d subjects"
                " (streams.max_subjects)",
                *(self.subjects.left_out, self.subjects.count),
                extra=REPEATED,
            )
        if self.is_ready and not any(one.ledger.messages for one in self.by_name.values()):
            self._tell_whole(number)
            return number if self.whole.consumers else FOREVER
        if self.is_ready and number > self._left and self._leaving is None:
            self._leaving = self.core.loop.create_task(self._leave_below(number))
        return self._left

    async def _leave_below(self, number: int) -> None:
        try:
            await self._take_out(number)
        except Exception:  # retention asks again
            log.exception("Streams: what retention deletes does not leave the streams")
        finally:
            self._leaving = None

    async def _take_out(self, number: int) -> None:
        begun = time.monotonic()
        streams = [one for one in self.named() if one.ledger.messages]
        async with contextlib.AsyncExitStack() as locks:
            for stream in streams:
                await locks.enter_async_context(stream.lock)
                locks.enter_context(stream.taking_out())
            table = StreamTable(self.journal.salt)
            first = number
            for stream in streams:
                first = min(first, stream.ledger.first or stream.since)
                for _, subjects in stream.eras:
                    for subject in subjects:
                        table.open_to(subject.encode(), stream.ledger)
            if first < number:
                await self._leave(table, first, number)
                for stream in streams:
                    stream.forget_below(number)
                    self.consumers.moved(stream, number)
        self._left = number
        self._tell_whole(number)
        if time.monotonic() - begun > SLOW:
            log.warning(
                "Streams: reading what retention deletes took %.0f s: it waited for that",
                time.monotonic() - begun,
            )

    def _tell_whole(self, number: int) -> None:
        """Tell the consumers of everything that retention deletes what is below a number."""
        if number > self._whole_left:
            self._whole_left = number
            self.consumers.moved(self.whole, number)

    async def stop(self) -> None:
        """Write the rest of the notes."""
        await self.consumers.stop()
        was_ready, self.is_ready = self.is_ready, False  # nothing more begins
        under_way = self._reading, self._leaving, self._shortening
        tasks = {task for task in under_way if task is not None}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if was_ready:
            self.core.plane.sequencer.release()
            self._keep_ledgers()
        await self._writer.stop()


class Pause:
    """Lets others work between the pieces of something long."""

    def __init__(self) -> None:
        self._until = time.monotonic() + PIECE_S

    async def if_due(self) -> None:
        """Let others have a turn, if this one has lasted long enough."""
        if time.monotonic() >= self._until:
            await asyncio.sleep(0)
            self._until = time.monotonic() + PIECE_S


def _events(
    table: StreamTable, streams: Iterable[Stream], known: int
) -> list[tuple[int, Callable[[], None]]]:
    """Return what happened to streams, the last first: a number, and what to do before it.

    Up to the number `known`, what was purged is not in their ledgers.
    """
    events: list[tuple[int, Callable[[], None]]] = []
    for stream in streams:
        before: tuple[str, ...] = ()
        for after, subjects in stream.eras:

            def turn(
                stream: Stream = stream,
                before: tuple[str, ...] = before,
                subjects: tuple[str, ...] = subjects,
            ) -> None:
                for subject in set(before).difference(subjects):
                    table.close_to(subject.encode(), stream.ledger)
                for subject in set(subjects).difference(before):
                    table.open_to(subject.encode(), stream.ledger)

            events.append((after + 1, turn))
            before = subjects
        for filter, below in stream.purged.items():

            def purge(stream: Stream = stream, filter: str = filter) -> None:
                stream.purge(filter)

            if below > known + 1 or not known:
                events.append((below, purge))
    return sorted(events, key=lambda event: event[0])[::-1]


def stored_config(fields: dict[str, Any]) -> StreamConfig:
    """Read a configuration of a note, which was checked when it was written."""
    limits = fields.get("consumer_limits", {})
    return StreamConfig(
        name=fields["name"],
        subjects=tuple(fields["subjects"]),
        description=fields.get("description", ""),
        storage=fields["storage"],
        compression=fields["compression"],
        max_consumers=fields["max_consumers"],
        no_ack=fields.get("no_ack", False),
        duplicate_window=fields.get("duplicate_window", 0),
        first_seq=fields.get("first_seq", 0),
        allow_direct=fields["allow_direct"],
        deny_delete=fields["deny_delete"],
        deny_purge=fields["deny_purge"],
        consumer_inactive=limits.get("inactive_threshold", 0),
        consumer_ack_pending=limits.get("max_ack_pending", 0),
        metadata=fields.get("metadata", {}),
    )


def without_versions(config: StreamConfig) -> StreamConfig:
    """Return a configuration without the metadata that was added to it."""
    from dataclasses import replace

    own = {name: text for name, text in config.metadata.items() if not name.startswith("_nats.")}
    return replace(config, metadata=own)
