"""Single messages of a stream for a request: `STREAM.MSG.GET`, and `DIRECT.GET` with its batches.

    {"seq": 7}                          that message
    {"last_by_subj": "a.b"}             the last one; also with wildcards
    {"seq": 7, "next_by_subj": "a.>"}   the first one from there on
    {"start_time": "..."}               the first one from there on
    {..., "batch": 5, "max_bytes": n}   several from there on, then `204 EOB`    DIRECT.GET only
    {"multi_last": ["a.>"]}             the last one of each subject             DIRECT.GET only

MSG.GET answers with JSON, DIRECT.GET with the message and headers of the broker's own.
"""

import base64
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from broker.dataplane.connection import Connection
from broker.dataplane.plane import Plane
from broker.replay.replays import Replays
from broker.streams import api_errors
from broker.streams.api_errors import ApiError
from broker.streams.infos import go_time
from broker.streams.message_read import FOREVER, MessageRead
from broker.streams.stream_view import Stream
from broker.streams.strict_json import (
    BOOL,
    INT,
    STRING,
    STRINGS,
    TIME,
    UINT,
    GoTime,
    JsonKinds,
    WrongJson,
)
from sequencer.headers import with_fields_behind
from sequencer.journal.protocols import SegmentView
from sequencer.journal.record import Walk
from sublist.subject import has_wildcard, is_pattern

RESULTS_MAX: Final = 1024  # of `multi_last`, as in nats-server
# Reads of one connection at a time. Not a setting: a client that asks for more before it has read
# an answer gains nothing.
READS_MAX: Final = 4096
NOT_FOUND: Final = "404 Message Not Found"
NO_RESULTS: Final = "404 No Results"
EMPTY: Final = "408 Empty Request"
MALFORMED: Final = "408 Malformed Request"
BAD: Final = "408 Bad Request"
TOO_MANY_REQUESTS: Final = "408 Too Many Requests"
TOO_MANY: Final = "413 Too Many Results"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The body of a request for messages. Times are in ns."""

    number: int = 0
    last_by: str = ""
    next_by: str = ""
    since: int = 0
    batch: int = 0
    max_bytes: int = 0
    multi_last: tuple[str, ...] = ()
    up_to: int = 0
    up_to_time: int = 0
    no_headers: bool = False


KINDS: Final[JsonKinds] = {
    "seq": UINT,
    "last_by_subj": STRING,
    "next_by_subj": STRING,
    "start_time": TIME,
    "batch": INT,
    "max_bytes": INT,
    "multi_last": STRINGS,
    "up_to_seq": UINT,
    "up_to_time": TIME,
    "no_hdr": BOOL,
}


def read_wanted(body: bytes, read: Callable[[bytes, JsonKinds, str], dict[str, Any]]) -> Wanted:
    """Read a request's body, strictly or loosely. Raises `ApiError`."""
    try:
        given = read(body, KINDS, "JSApiMsgGetRequest")
    except WrongJson as error:
        raise api_errors.invalid_json(str(error)) from None
    wanted = Wanted(
        number=given.get("seq", 0),
        last_by=given.get("last_by_subj", ""),
        next_by=given.get("next_by_subj", ""),
        since=_nanoseconds(given.get("start_time")),
        batch=given.get("batch", 0),
        max_bytes=given.get("max_bytes", 0),
        multi_last=tuple(given.get("multi_last", ())),
        up_to=given.get("up_to_seq", 0),
        up_to_time=_nanoseconds(given.get("up_to_time")),
        no_headers=given.get("no_hdr", False),
    )
    for subject in (wanted.last_by, wanted.next_by, *wanted.multi_last):
        if subject and not is_pattern(subject.encode()):
            raise api_errors.bad_request()
    return wanted


def _nanoseconds(moment: GoTime | None) -> int:
    """Return a time in ns since 1970, at least 1; 0 for none."""
    return 0 if moment is None else max(moment.ns, 1)


class Getter:
    """The requests for messages of streams. One per broker."""

    def __init__(self, plane: Plane, replays: Replays) -> None:
        self._plane = plane
        self._replays = replays

    @property
    def segments(self) -> Sequence[SegmentView]:
        """The journal's segments, the oldest first."""
        return self._replays.journal.segments()

    # STREAM.MSG.GET

    def get(
        self,
        connection: Connection,
        stream: Stream,
        wanted: Wanted,
        answer: Callable[[dict[str, Any] | ApiError], None],
    ) -> None:
        """Look for one message, and answer with its JSON or an error. Raises `ApiError`."""
        kinds = bool(wanted.last_by), bool(wanted.next_by), bool(wanted.since)
        if (
            not (wanted.number or any(kinds))
            or sum(kinds) > 1
            or (wanted.last_by and wanted.number)
        ):
            raise api_errors.bad_request()
        if self._is_busy(connection):
            raise api_errors.insufficient_resources()
        found = False

        def take(walk: Walk, buffer: bytearray, subject: bytes) -> bool:
            nonlocal found
            found = True
            if self._may_receive(connection, subject):
                answer({"message": _as_json(walk, buffer, subject)})
            else:
                answer(ApiError(403, 10003, "you may not subscribe to the message's subject"))
            return False

        def ended() -> None:
            if not found:
                answer(api_errors.no_message())
            self._plane.release(None)

        self._look_for(connection, stream, wanted, take, ended)

    # DIRECT.GET

    def get_direct(
        self, connection: Connection, stream: Stream, wanted: Wanted, reply: bytes
    ) -> None:
        """Answer with the messages that are wanted, or with a status."""
        status = self._refusal(wanted)
        if not status and self._is_busy(connection):
            status = TOO_MANY_REQUESTS
        if status:
            self._say(connection, reply, status)
        elif wanted.multi_last:
            LastOfEach(self, connection, stream, wanted, reply).start()
        elif wanted.batch:
            BatchGet(self, connection, stream, wanted, reply).start()
        else:
            found = False

            def take(walk: Walk, buffer: bytearray, subject: bytes) -> bool:
                nonlocal found
                found = True
                self.send(connection, stream, reply, walk, buffer, subject, "", wanted.no_headers)
                return False

            def ended() -> None:
                if not found:
                    self._say(connection, reply, NOT_FOUND)
                self._plane.release(None)

            self._look_for(connection, stream, wanted, take, ended)

    def _is_busy(self, connection: Connection) -> bool:
        return len(self._replays.asked_by(connection)) >= READS_MAX

    @staticmethod
    def _refusal(wanted: Wanted) -> str:
        """Return the status of a request that asks for nothing, or for too many things."""
        where = wanted.number, wanted.last_by, wanted.next_by, wanted.since, wanted.multi_last
        if not any(where):  # a batch from nowhere is nothing, too
            return EMPTY
        if wanted.last_by and (wanted.number or wanted.next_by or wanted.since):
            return BAD
        if wanted.multi_last and (wanted.last_by or wanted.next_by or wanted.since):
            return BAD
        if wanted.number and wanted.since:
            return BAD
        if wanted.up_to and wanted.up_to_time:
            return BAD
        if wanted.batch and wanted.last_by:
            return BAD
        if wanted.batch < 0 or wanted.max_bytes < 0:
            return BAD
        return ""

    def _look_for(
        self,
        connection: Connection,
        stream: Stream,
        wanted: Wanted,
        take: Callable[[Walk, bytearray, bytes], bool],
        ended: Callable[[], None],
    ) -> None:
        """Look for one message."""
        self._plane.sequencer.release()
        if wanted.last_by:
            pattern = wanted.last_by.encode()
            if stream.is_whole:
                LastOfAll(self, connection, stream, pattern, take, ended).start()
            elif self.read_one(connection, stream, last_matching(stream, pattern), take, ended):
                ended()
        elif wanted.next_by or wanted.since:
            patterns = (wanted.next_by.encode() or b">",)
            self.read(connection, stream, wanted.number, take, ended, patterns, since=wanted.since)
        elif self.read_one(connection, stream, wanted.number, take, ended):
            ended()

    # For these requests, and those below

    def read_one(
        self,
        connection: Connection,
        stream: Stream,
        number: int,
        take: Callable[[Walk, bytearray, bytes], bool],
        ended: Callable[[], None],
    ) -> bool:
        """Give the message of this number to `take`, if it is visible.

        Returns False if it must be read from the disk: then `ended` is called after it.
        """
        journal, near = self._replays.journal, self._replays.near_records
        if not journal.first <= number <= min(journal.last, stream.ledger.last):
            return True
        record = near.find(number)
        if record is None:
            self.read(connection, stream, number, take, ended, until=number)
            return False
        buffer = near.buffer
        subject = bytes(buffer[record.subject : record.subject + record.subject_size])
        if stream.ledger.shows(subject, number):
            take(record, buffer, subject)
        return True

    def read(
        self,
        connection: Connection,
        stream: Stream,
        first: int,
        take: Callable[[Walk, bytearray, bytes], bool],
        ended: Callable[[], None],
        patterns: Sequence[bytes] = (b">",),
        until: int = FOREVER,
        since: int = 0,
    ) -> None:
        """Give the visible messages from a number on to `take`; then call `ended`."""
        first = max(first, stream.since)
        until = min(until, stream.ledger.last)
        if first > until:
            ended()
            return
        cursor = MessageRead(
            *(self._replays, connection, stream.ledger, first, take, ended),
            *(patterns, until, since),
        )
        self._replays.serve_requests(cursor)

    def send(
        self,
        connection: Connection,
        stream: Stream,
        reply: bytes,
        walk: Walk,
        buffer: bytearray,
        subject: bytes,
        more: str,
        no_headers: bool,
    ) -> int:
        """Send a message with what is known of it; return the size of what was published."""
        if not self._may_receive(connection, subject):
            self._say(connection, reply, "403 Permissions Violation")
            return 0
        fields = (
            b"Nats-Stream: %b\r\nNats-Subject: %b\r\nNats-Sequence: %d\r\nNats-Time-Stamp: %b\r\n%b"
            % (
                stream.name.encode(),
                subject,
                walk.number,
                go_time(walk.time).encode(),
                more.encode(),
            )
        )
        own = bytes(buffer[walk.body : walk.body + walk.header_size])
        payload = bytes(buffer[walk.payload : walk.payload + walk.payload_size])
        headers = b"" if no_headers else with_fields_behind(own, fields)
        self._plane.answer(connection, reply, payload, headers)
        return len(subject) + walk.size

    def say(self, connection: Connection, reply: bytes, status: str, fields: str = "") -> None:
        """Send a status, with whole lines of further fields."""
        self._say(connection, reply, status, fields)
        self._plane.release(None)

    def _say(self, connection: Connection, reply: bytes, status: str, fields: str = "") -> None:
        self._plane.answer(connection, reply, b"", f"NATS/1.0 {status}\r\n{fields}\r\n".encode())

    @staticmethod
    def _may_receive(connection: Connection, subject: bytes) -> bool:
        return connection.guard is None or connection.guard.may_receive(subject)


class BatchGet:
    """Several messages from a number or a time on, and then `204 EOB`."""

    def __init__(
        self, getter: Getter, connection: Connection, stream: Stream, wanted: Wanted, reply: bytes
    ) -> None:
        self._getter = getter
        self._connection = connection
        self._stream = stream
        self._wanted = wanted
        self._reply = reply
        self._pattern = wanted.next_by.encode() or b">"
        self._pending = 0  # messages that match, behind the last one sent
        self._left = wanted.batch
        self._room = wanted.max_bytes or FOREVER
        self._last = 0  # the number sent last

    def start(self) -> None:
        """Count what is there, then send it."""
        stream, wanted = self._stream, self._wanted
        ledger = stream.ledger
        self._getter._plane.sequencer.release()
        if stream.is_whole:  # nobody knows how many match: all that come behind are counted
            self._send()
            return
        subjects = stream.subjects_of(self._pattern)
        self._pending = sum(map(ledger.count_of, subjects))
        begin = min(map(ledger.begins, subjects), default=0)
        if wanted.since or wanted.number > begin > 0:
            until = wanted.number - 1 if wanted.number else FOREVER
            self._getter.read(
                *(self._connection, stream, begin, self._leave_out, self._send),
                *((self._pattern,), until),
            )
        else:
            self._send()

    def _leave_out(self, walk: Walk, buffer: bytearray, subject: bytes) -> bool:
        if self._wanted.since and walk.time >= self._wanted.since:
            return False
        self._pending -= 1
        return True

    def _send(self) -> None:
        wanted = self._wanted
        self._getter.read(
            *(self._connection, self._stream, wanted.number, self._take, self._end),
            *((self._pattern,), FOREVER, wanted.since),
        )

    def _take(self, walk: Walk, buffer: bytearray, subject: bytes) -> bool:
        if self._stream.is_whole:
            self._pending = max(self._stream.ledger.last - walk.number, 0)
        else:
            self._pending -= 1
        more = f"Nats-Num-Pending: {self._pending}\r\nNats-Last-Sequence: {self._last}\r\n"
        self._room -= self._getter.send(
            *(self._connection, self._stream, self._reply, walk, buffer, subject, more),
            self._wanted.no_headers,
        )
        self._last = walk.number
        self._left -= 1
        return self._left > 0 and self._room > 0

    def _end(self) -> None:
        if not self._last:
            self._getter.say(self._connection, self._reply, NOT_FOUND)
            return
        fields = f"Nats-Num-Pending: {self._pending}\r\nNats-Last-Sequence: {self._last}\r\n"
        self._getter.say(self._connection, self._reply, "204 EOB", fields)


class LastOfAll:
    """The last message of the whole order that a pattern matches.

    Segments are read from the newest one back, until one has a message.
    """

    def __init__(
        self,
        getter: Getter,
        connection: Connection,
        stream: Stream,
        pattern: bytes,
        take: Callable[[Walk, bytearray, bytes], bool],
        ended: Callable[[], None],
    ) -> None:
        self._getter = getter
        self._connection = connection
        self._stream = stream
        self._pattern = pattern
        self._take = take
        self._ended = ended
        self._segments = iter(getter.segments[::-1])
        self._end = FOREVER
        self._found = 0

    def start(self) -> None:
        """Look in the next segment, or give what was found."""
        segment = next(self._segments, None)
        if self._found or segment is None:
            reading = self._connection, self._stream, self._found, self._take, self._ended
            if self._getter.read_one(*reading):
                self._ended()
            return
        until, self._end = self._end, segment.first - 1
        self._getter.read(
            *(self._connection, self._stream, segment.first, self._note, self.start),
            *((self._pattern,), until),
        )

    def _note(self, walk: Walk, buffer: bytearray, subject: bytes) -> bool:
        self._found = walk.number
        return True


class LastOfEach:
    """The last message of each subject, in the order of their numbers, and then `204 EOB`.

    With `up_to_seq` or `up_to_time`: as of that moment. Then the range is read for them first.
    """

    def __init__(
        self, getter: Getter, connection: Connection, stream: Stream, wanted: Wanted, reply: bytes
    ) -> None:
        self._getter = getter
        self._connection = connection
        self._stream = stream
        self._wanted = wanted
        self._reply = reply
        self._found: dict[bytes, int] = {}
        self._numbers: Iterator[int] = iter(())
        self._pending = 0
        self._left = wanted.batch or RESULTS_MAX
        self._room = wanted.max_bytes or FOREVER
        self._last = 0
        self._up_to = 0

    def start(self) -> None:
        """Find the numbers, then send their messages."""
        stream, wanted = self._stream, self._wanted
        ledger = stream.ledger
        self._getter._plane.sequencer.release()
        patterns = [pattern.encode() for pattern in wanted.multi_last]
        subjects = {subject for pattern in patterns for subject in stream.subjects_of(pattern)}
        if len(subjects) > RESULTS_MAX:
            self._getter.say(self._connection, self._reply, TOO_MANY)
            return
        self._up_to = min(wanted.up_to or FOREVER, ledger.last)
        if stream.is_whole or (subjects and (self._up_to < ledger.last or wanted.up_to_time)):
            begin = min(map(ledger.begins, subjects), default=ledger.first)
            self._getter.read(
                *(self._connection, stream, begin, self._note, self._send_first),
                *(patterns, self._up_to),
            )
            return
        self._found = {subject: ledger.last_of(subject) for subject in subjects}
        self._send_first()

    def _note(self, walk: Walk, buffer: bytearray, subject: bytes) -> bool:
        if self._wanted.up_to_time and walk.time > self._wanted.up_to_time:
            return False
        self._found[subject] = walk.number
        return len(self._found) <= RESULTS_MAX

    def _send_first(self) -> None:
        if len(self._found) > RESULTS_MAX:
            self._getter.say(self._connection, self._reply, TOO_MANY)
            return
        numbers = sorted(n for n in self._found.values() if n >= self._wanted.number)
        self._pending = len(numbers)
        self._numbers = iter(numbers)
        self._send_next()

    def _send_next(self) -> None:
        for number in self._numbers:
            if self._left <= 0 or self._room <= 0:
                break
            reading = self._connection, self._stream, number, self._take, self._send_next
            if not self._getter.read_one(*reading):
                return
        if not self._last:
            self._getter.say(self._connection, self._reply, NO_RESULTS)
        else:
            fields = f"Nats-Num-Pending: {self._pending}\r\nNats-Last-Sequence: {self._last}\r\n"
            fields += f"Nats-UpTo-Sequence: {self._up_to}\r\n"
            self._getter.say(self._connection, self._reply, "204 EOB", fields)

    def _take(self, walk: Walk, buffer: bytearray, subject: bytes) -> bool:
        self._pending -= 1
        more = f"Nats-Num-Pending: {self._pending}\r\nNats-Last-Sequence: {self._last}\r\n"
        self._room -= self._getter.send(
            *(self._connection, self._stream, self._reply, walk, buffer, subject, more),
            self._wanted.no_headers,
        )
        self._last = walk.number
        self._left -= 1
        return False


def last_matching(stream: Stream, pattern: bytes) -> int:
    """Return the number of the last visible message that a pattern matches; 0 if there is none."""
    ledger = stream.ledger
    if not has_wildcard(pattern):
        return ledger.last_of(pattern)
    return max(map(ledger.last_of, stream.subjects_of(pattern)), default=0)


def _as_json(walk: Walk, buffer: bytearray, subject: bytes) -> dict[str, Any]:
    """Return a message as MSG.GET shows it."""
    shown: dict[str, Any] = {"subject": subject.decode("utf-8", "replace"), "seq": walk.number}
    if walk.header_size:
        headers = bytes(buffer[walk.body : walk.body + walk.header_size])
        shown["hdrs"] = base64.b64encode(headers).decode()
    if walk.payload_size:
        payload = bytes(buffer[walk.payload : walk.payload + walk.payload_size])
        shown["data"] = base64.b64encode(payload).decode()
    shown["time"] = go_time(walk.time)
    return shown
