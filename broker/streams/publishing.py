"""Judges a publish that is guarded by headers, before it gets a number.

    Nats-Expected-Stream                          the stream's name
    Nats-Expected-Last-Sequence                   the number of its last message
    Nats-Expected-Last-Subject-Sequence           that of the last one to this subject, or to
    Nats-Expected-Last-Subject-Sequence-Subject   another one, also with wildcards; 0: there is none
    Nats-Expected-Last-Msg-Id                     the id of its last message

The order of the checks is nats-server's (`processJetStreamMsg`). A subject of no stream is judged
as one of the stream of everything, whose last message is the journal's. The last message of a
subject is not known of it, so a message that expects one is refused.
"""

import re
from collections.abc import Callable
from typing import Final

from broker.core import Core
from broker.dataplane.connection import Connection
from broker.dataplane.ledger import Ledger
from broker.dataplane.plane_control import GuardRefusal
from broker.streams import api_errors
from broker.streams.api_errors import ApiError, not_permitted
from broker.streams.api_json import encode
from broker.streams.stream_config import EVERYTHING
from broker.streams.stream_view import Stream
from sequencer.journal.layout import ID_FLAG
from sequencer.msgids import Window, id_of, key_of
from sublist.subject import is_pattern

HEADERS_MAX: Final = 64 << 10
NUMBER: Final = re.compile(rb"[0-9]{1,20}")
# Headers of JetStream for what streams do not have here; the errors are those of a stream on
# nats-server that does not allow them.
MISSING: Final = (
    (b"Nats-Incr", 400, 10168, "message counter is disabled"),
    (b"Nats-TTL", 400, 10166, "per-message TTL is disabled"),
    (b"Nats-Schedule", 400, 10188, "message schedules is disabled"),
    (b"Nats-Batch-Id", 400, 10174, "atomic publish is disabled"),
    (b"Nats-Rollup", 500, 10111, "rollup not permitted"),
)


def value_of(headers: bytes, name: bytes) -> bytes | None:
    """Return the value of a header, read as nats-server does; None if it is not there."""
    field = b"\r\n" + name + b":"
    at = headers.find(field)
    if at < 0:
        return None
    start = at + len(field)
    end = headers.find(b"\r\n", start)
    return headers[start : end if end >= 0 else len(headers)].strip(b" ")


class Judge:
    """The judge of guarded publishes. One per broker; `is_ready` says that ledgers are complete."""

    def __init__(
        self, core: Core, window: Window | None, is_ready: Callable[[], bool], is_member: bool
    ) -> None:
        self._core = core
        self._window = window
        self._is_ready = is_ready
        self._is_member = is_member

    def refusal(
        self, connection: Connection, ledger: Ledger | None, subject: bytes, headers: bytes
    ) -> GuardRefusal | None:
        """Return why a message may not be published; None if it may."""
        try:
            self._judge(connection, ledger, subject, headers)
        except ApiError as error:
            stream = None if ledger is None else ledger.stream
            name = stream.name if isinstance(stream, Stream) else EVERYTHING
            answer = encode({"error": error.fields(), "stream": name, "seq": 0})
            may_pass = error.number == api_errors.NOT_AVAILABLE
            return GuardRefusal(error.code, error.description, answer, may_pass)
        return None

    def _judge(
        self, connection: Connection, ledger: Ledger | None, subject: bytes, headers: bytes
    ) -> None:
        if self._is_member:  # who gives the numbers is another process
            raise api_errors.not_in_cluster()
        stream = ledger.stream if ledger is not None else None
        assert stream is None or isinstance(stream, Stream), "ledgers are of streams"
        name = EVERYTHING if stream is None else stream.name
        expected = value_of(headers, b"Nats-Expected-Stream")
        if expected and expected != name.encode():
            raise api_errors.other_stream()
        if stream is not None:
            self._refuse_missing(headers, MISSING[:2])
        self._judge_numbers(stream, ledger, subject, headers)
        if stream is not None:
            self._refuse_missing(headers, MISSING[2:4])
        if self._is_known(connection, ledger, subject, headers):
            return
        last_id = value_of(headers, b"Nats-Expected-Last-Msg-Id")
        if last_id is not None:
            known = self._last_id(ledger)
            if last_id != known:
                raise api_errors.wrong_last_id(known.decode("utf-8", "replace"))
        if stream is not None:
            self._refuse_missing(headers, MISSING[4:])
            if len(headers) > HEADERS_MAX:
                raise not_permitted(10097, 400, "header size exceeds maximum allowed of 64k")

    def _is_known(
        self, connection: Connection, ledger: Ledger | None, subject: bytes, headers: bytes
    ) -> bool:
        """True if the message's id has a number already, which will be the answer."""
        key = key_of(b"" if connection.guard is None else subject, headers)
        if self._window is None or not key:
            return False
        age = 0
        if ledger is not None:
            key, age = ledger.scope + key, ledger.window
        return self._window.number_of(key, self._core.plane.sequencer.steady, age) > 0

    @staticmethod
    def _refuse_missing(headers: bytes, missing: tuple[tuple[bytes, int, int, str], ...]) -> None:
        for header, code, number, words in missing:
            if value_of(headers, header):
                raise not_permitted(number, code, words)

    def _judge_numbers(
        self, stream: Stream | None, ledger: Ledger | None, subject: bytes, headers: bytes
    ) -> None:
        """Judge the expectations of numbers; the ledger must know of all messages before."""
        of_subject = _number(headers, b"Nats-Expected-Last-Subject-Sequence")
        other = value_of(headers, b"Nats-Expected-Last-Subject-Sequence-Subject")
        of_all = _number(headers, b"Nats-Expected-Last-Sequence")
        if of_subject is None and of_all is None:
            if other:
                raise ApiError(400, 10193, "expected last sequence for subject missing")
            return
        if stream is not None and not self._is_ready():
            raise api_errors.not_available("the streams are still being read")
        sequencer = self._core.plane.sequencer
        sequencer.release()
        if of_subject is not None:
            if stream is None or ledger is None:
                raise api_errors.invalid_expectation(
                    "Nats-Expected-Last-Subject-Sequence needs a stream with this subject"
                )
            asked = other or subject
            if not is_pattern(asked):
                raise ApiError(400, 10193, "expected last sequence for subject invalid")
            last = max(map(ledger.last_of, stream.subjects_of(asked)), default=0)
            if last != of_subject:
                raise api_errors.wrong_last(last)
        if of_all is not None:
            last = sequencer.number if ledger is None else ledger.last
            if last != of_all:
                raise api_errors.wrong_last(last)

    def _last_id(self, ledger: Ledger | None) -> bytes:
        """Return the id of the last message; b"" if it has none."""
        core = self._core
        core.plane.sequencer.release()
        number = core.plane.sequencer.number if ledger is None else ledger.last
        replays = core.replays
        if replays is None or number < replays.journal.first:
            return b""
        record = replays.near_records.find(number)
        if record is None or not record.flags & ID_FLAG:
            return b""
        return id_of(replays.near_records.buffer[record.body : record.payload])


def _number(headers: bytes, name: bytes) -> int | None:
    """Return the number in a header; None if it is not there. Raises `ApiError`."""
    value = value_of(headers, name)
    if value is None or value == b"":
        return None
    if NUMBER.fullmatch(value) is None:
        raise api_errors.invalid_expectation(f"{name.decode()} is no number")
    return int(value)
