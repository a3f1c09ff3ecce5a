"""Answers requests: `$SEQ.INFO` at once, `$SEQ.GET` and `$SEQ.READ` as the journal is read.

    PUB $SEQ.INFO <reply>           JSON: the contents of the journal, and the limits
    PUB $SEQ.GET.<number> <reply>   the message, in the requester's frame     (replay/lookup.py)
    PUB $SEQ.LAST.<subject> <reply> the last message of a subject             (replay/last_value.py)
    PUB $SEQ.READ <reply>           many messages in chunks                   (replay/bulk.py)
    PUB $SEQ.STAGE and its like     publishing exactly once                   (broker/staging)

A wrong request gets a NATS status header if the client takes headers, and -ERR otherwise. Requests
that need the disk wait in a cursor: at most `LOOKUPS_MAX` messages and `READS_MAX` reads at a time
for one connection, so that asking costs no more than answering.
"""

import json
import logging
import time
from collections.abc import Callable
from typing import Any, Final, Protocol

from broker.core import Core
from broker.dataplane.connection import Connection
from broker.dataplane.kinds import is_answerable
from broker.dataplane.ledger import Ledger
from broker.dataplane.plane_control import GuardRefusal
from broker.replay.bulk import Bulk, read_request
from broker.replay.last_value import LastRequest, LastValue, NewestTables
from broker.replay.lookup import Lookup, answer_with, no_such_message, refuse
from broker.replay.requests import BadRequest, Get, Info, Last, Read, Staging, parse, quote_value
from parser import errors
from sequencer.journal.ring import Ring
from sequencer.message import Message
from sublist.subject import has_wildcard
from sublist.subscription import Subscription

log = logging.getLogger("seriatim")

PREFIXES: Final = (
    *(b"$SEQ.INFO", b"$SEQ.GET", b"$SEQ.LAST", b"$SEQ.READ"),
    *(b"$SEQ.STAGE", b"$SEQ.COMMIT", b"$SEQ.ABORT", b"$SEQ.BATCH"),
)
# Requests of one connection that wait for the disk. Not a setting: a client that asks for more
# before it reads an answer gains nothing.
LOOKUPS_MAX: Final = 4096
# `$SEQ.READ` of one connection at a time. One read takes what the client's socket does, so several
# bring no more; four let a client begin the next before the last has ended.
READS_MAX: Final = 4
QUESTIONS: Final = (Info, Get, Last, Read, Staging)
FORBIDDEN: Final = "you may not subscribe to these subjects"
LOOK_UP: Final = 2048  # cost of looking up a message, in offers: 30 us
HELD_MAX: Final = 1 << 18  # what a client has not taken; with more, its answers wait
WORK: Final = 512  # cost of reading or writing JSON, in offers
JSON_SHIFT: Final = 2  # plus 4 for each byte of JSON that is read
COMPARED_WORK: Final = 8  # cost of comparing a subject with a pattern of the permissions
MS_NS: Final = 1_000_000


class Stager(Protocol):
    """The service of exactly-once publishing."""

    def serve(self, word: str, asker: tuple[Connection, bytes], message: Message) -> None:
        """Serve a request; its headers and payload are in `message`."""


class ServiceRequests(Protocol):
    """A service that answers requests to subjects of its own."""

    def serve(
        self, connection: Connection, subject: bytes, reply: bytes, headers: bytes, body: bytes
    ) -> bool:
        """Serve a request, now or later; False if there is nothing to ask of that subject."""


class StreamRequests(ServiceRequests, Protocol):
    """The service of JetStream's API."""

    def acknowledge(
        self, connection: Connection, subject: bytes, reply: bytes, payload: bytes
    ) -> bool:
        """Take an ack, or an answer to flow control; False if there is no such consumer."""

    def subscribed(self, sub: Subscription) -> None:
        """Take a subscription whose subject begins with `$JS.`: advisories may be for it."""

    def drop(self, connection: Connection) -> None:
        """Forget what a connection that has closed waits for."""


class GuardJudge(Protocol):
    """The judge of publishes that are guarded by headers."""

    def refusal(
        self, connection: Connection, ledger: Ledger | None, subject: bytes, headers: bytes
    ) -> GuardRefusal | None:
        """Return why a message may not be published; None if it may."""


class RequestHandler:
    """The handler of all `$SEQ.` requests. One per broker, for its one thread.

    `open_staging` may raise `OSError`.
    """

    def __init__(self, core: Core, open_staging: Callable[[], Stager]) -> None:
        self._core = core
        self._plane = core.plane
        self._replays = core.replays
        self._open_staging = open_staging
        self._tables = NewestTables()
        self.refused_reads = 0

    def takes(self, subject: bytes) -> bool:
        """True if a message to this subject is a request, or looks like one."""
        return subject.startswith(PREFIXES)

    def answer(
        self, connection: Connection, message: Message, subject: bytes, reply: bytes
    ) -> None:
        """Answer the request that was published to `subject`, now or later."""
        try:
            if not is_answerable(reply):
                raise errors.ReplyForbidden(reply)
            request = parse(subject)
            if not isinstance(request, QUESTIONS):
                raise errors.PublishForbidden(subject)
            if not reply:
                raise errors.PublishForbidden(subject, "a reply subject is needed")
            if isinstance(request, Read):
                self._read(connection, message, subject, reply)
            elif isinstance(request, Staging):
                self._hand_over(connection, message, request, subject, reply)
            else:
                self._accept(connection)
                self._tell(connection, request, subject, reply)
        except BadRequest as problem:
            refuse(self._plane, connection, subject, reply, 400, str(problem))
        except errors.WireError as error:
            log.debug("%s - %s: %s", connection.session.label, type(error).__name__, error)
            self._plane.send_control(connection, error.reply)

    def _accept(self, connection: Connection) -> None:
        if connection.verbose:
            self._plane.send_control(connection, b"+OK\r\n")

    def _tell(
        self, connection: Connection, request: Info | Get | Last, subject: bytes, reply: bytes
    ) -> None:
        if isinstance(request, Last) and has_wildcard(request.filter):
            raise BadRequest(
                "the last message of one subject can be requested; subscribe to"
                " $SEQ.LAST.<subject> for those of all that match"
            )
        guard = connection.guard
        filter = request.filter if isinstance(request, Last) else b""
        if filter and guard is not None and not guard.may_receive(filter):
            refuse(self._plane, connection, subject, reply, 403, FORBIDDEN)
            return
        if not self._plane.listens(connection, reply):
            return
        if isinstance(request, Get):
            self._look_up(connection, request.number, subject, reply)
        elif isinstance(request, Last):
            self._find_last(connection, LastRequest(request.filter, subject, reply))
        else:
            self._plane.charge_work(WORK)
            text = json.dumps(self.info(connection), separators=(",", ":")).encode()
            in_trouble = self._plane.gate.is_in_trouble()  # then `info` shows only safe numbers
            answer = self._plane.answer_now if in_trouble else self._plane.answer
            answer(connection, reply, text, b"")

    # One message

    def _look_up(self, connection: Connection, number: int, subject: bytes, reply: bytes) -> None:
        """Answer from the journal; at once, if there is no such message."""
        if number <= self._plane.sequencer.number:
            self._look_up_now(connection, number, subject, reply)
            return
        wait = self._core.await_number
        if wait is not None:

            def look_up() -> None:
                if not connection.closed:
                    self._look_up_now(connection, number, subject, reply)
                    self._plane.release(None)

            if wait(number, look_up):
                return
        self._look_up_now(connection, number, subject, reply)

    def _look_up_now(
        self, connection: Connection, number: int, subject: bytes, reply: bytes
    ) -> None:
        replays, plane = self._replays, self._plane
        if number > plane.sequencer.number or replays is None:
            first = plane.sequencer.number + 1
            no_such_message(plane, connection, subject, reply, number, kept_from=first)
            return
        if number < replays.journal.first:
            first = replays.journal.first
            no_such_message(plane, connection, subject, reply, number, kept_from=first)
            return
        asked = replays.asked_by(connection)
        lookup = next((one for one in asked if isinstance(one, Lookup)), None) if asked else None
        fresh = lookup is None
        if lookup is None and connection.writable and connection.held() <= HELD_MAX:
            plane.charge_work(LOOK_UP)
            record = replays.near_records.find(number) if number <= replays.journal.last else None
            if record is not None:
                buffer = replays.near_records.buffer
                answer_with(record, buffer, plane, connection, subject, reply)
                return
        if lookup is None:
            lookup = Lookup(replays, connection)
        if len(lookup.wanted) >= LOOKUPS_MAX:
            refuse(
                plane, connection, subject, reply, 429, "too many messages were requested at once"
            )
            return
        lookup.want(number, subject, reply)
        if fresh:
            replays.serve_requests(lookup)

    # The last message of a subject

    def _find_last(self, connection: Connection, request: LastRequest) -> None:
        """Find the number of the last message, then answer as for a request of that number."""
        replays, plane = self._replays, self._plane
        plane.charge_work(WORK)
        plane.sequencer.release()  # the message may have come earlier in this turn
        if replays is None:
            self._found_last(connection, request, 0)
            return
        replays.asked_last = True
        asked = replays.asked_by(connection)
        search = next((one for one in asked if isinstance(one, LastValue)), None)
        fresh = search is None
        if search is None:

            def answer(request: LastRequest, number: int) -> None:
                self._found_last(connection, request, number)

            search = LastValue(replays, connection, self._tables, answer)
        if len(search.wanted) >= LOOKUPS_MAX:
            why = "too many messages were requested at once"
            refuse(plane, connection, request.subject, request.reply, 429, why)
            return
        search.wanted.append(request)
        if fresh:
            replays.serve_requests(search)

    def _found_last(self, connection: Connection, request: LastRequest, number: int) -> None:
        if number:
            self._look_up_now(connection, number, request.subject, request.reply)
            return
        why = f"no message to {quote_value(request.wanted.decode(errors='replace'))} is retained"
        refuse(self._plane, connection, request.subject, request.reply, 404, why)

    # Many messages

    def _read(self, connection: Connection, message: Message, subject: bytes, reply: bytes) -> None:
        """Start answering with chunks. Raises `BadRequest`."""
        replays, plane = self._replays, self._plane
        plane.charge_work(WORK + (message.payload_size << JSON_SHIFT))
        request = read_request(_payload_of(message), plane.sequencer.number)
        _need_headers(connection)
        self._accept(connection)
        if not plane.listens(connection, reply):
            return
        guard = connection.guard
        if guard is not None:
            plane.charge_work(COMPARED_WORK * guard.subscribe.size * len(request.filters))
        if guard is not None and not all(map(guard.may_subscribe, request.filters)):
            refuse(plane, connection, subject, reply, 403, f'{FORBIDDEN}; give others in "subject"')
            return
        if replays is None:
            refuse(plane, connection, subject, reply, 404, "this broker keeps no messages")
            return
        asked = replays.asked_by(connection)
        running = sum(isinstance(one, Bulk) and not one.over for one in asked)
        if running >= READS_MAX:
            self.refused_reads += 1
            why = f"{running} reads are running already, the maximum"
            refuse(plane, connection, subject, reply, 429, why)
            return
        replays.serve_requests(Bulk(replays, connection, reply, request))

    # Publishing exactly once

    def _hand_over(
        self,
        connection: Connection,
        message: Message,
        request: Staging,
        subject: bytes,
        reply: bytes,
    ) -> None:
        """Pass the request to the staging service. Raises `BadRequest` and `PublishForbidden`."""
        if not self._core.settings.staging.max_bytes:
            raise errors.PublishForbidden(subject, "staging is turned off (staging.max_bytes is 0)")
        _need_headers(connection)
        self._accept(connection)
        try:
            stager = self._open_staging()
        except OSError as error:
            why = f"no stage can be written to the disk: {error.strerror}"
            refuse(self._plane, connection, subject, reply, 507, why)
            return
        stager.serve(request.word, (connection, reply), message)

    # INFO

    def info(self, connection: Connection) -> dict[str, Any]:
        """Return the answer to `$SEQ.INFO`."""
        guard = connection.guard
        settings, journal = self._core.settings, self._core.journal
        sequencer, chosen = self._plane.sequencer, settings.journal
        in_memory = isinstance(journal, Ring)
        last = sequencer.safe if self._plane.gate.is_in_trouble() else sequencer.number
        facts: dict[str, Any] = {"journal": "", "epoch": 0, "first": last + 1, "last": last}
        if self._core.cluster_facts is not None:
            facts |= self._core.cluster_facts()
        times = (0, 0)
        if journal is not None:
            facts |= {"journal": journal.id, "epoch": journal.epoch, "first": journal.first}
            times = (journal.oldest_time, journal.newest_time)
            if last > journal.last:  # messages not yet written have the current time
                times = (times[0] or sequencer.now, sequencer.now)
        return facts | {
            "messages": last - facts["first"] + 1,
            "bytes": journal.bytes + sequencer.waiting_bytes() if journal is not None else 0,
            "oldest": times[0] // MS_NS,
            "newest": times[1] // MS_NS,
            "time": time.time_ns() // MS_NS,
            "store": "none" if journal is None else "memory" if in_memory else "disk",
            "sync": chosen.sync if self._core.keeper is not None else "never",
            "full": bool(sequencer.full or self._plane.unavailable),
            "restricted": guard is not None and not guard.may_receive_all(),
            "limits": {
                "retain_bytes": chosen.ring_bytes if in_memory else chosen.retain_bytes,
                "retain_age": 0 if in_memory else chosen.retain_age,
                "retain_count": 0 if in_memory else chosen.retain_count,
                "segment_bytes": 0 if in_memory else chosen.segment_limit,
                "max_payload": settings.limits.max_payload,
                "catchup_pending": settings.limits.catchup_pending,
                "dedupe_window": chosen.dedupe_window,
                "dedupe_ids": chosen.dedupe_ids,
            },
        }


def _need_headers(connection: Connection) -> None:
    if not connection.headers:
        raise BadRequest("the answers have headers: send headers:true in CONNECT")


def _payload_of(message: Message) -> bytes:
    """Return the payload, without headers."""
    return bytes(message.buffer[message.payload : message.payload + message.payload_size])
