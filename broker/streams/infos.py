"""Describes streams in answers: configuration and state, in nats-server's fields and order."""

import time
from functools import lru_cache
from typing import Any, Final

from broker.runtime.clocks import steady_ns
from broker.streams.consumers import RunningConsumer
from broker.streams.stream_view import Stream
from broker.streams.streams import Streams

SECOND_NS: Final = 1_000_000_000
NEVER: Final = "0001-01-01T00:00:00Z"  # Go's zero time
SUBJECTS_PAGE: Final = 100_000  # subjects in one answer


def go_time(time_ns: int) -> str:
    """Format a time as Go's RFC3339Nano does: without zeros at its end."""
    if time_ns <= 0:
        return NEVER
    seconds, ns = divmod(time_ns, SECOND_NS)
    fraction = f".{ns:09d}".rstrip("0") if ns else ""
    return f"{_second(seconds)}{fraction}Z"


@lru_cache(1024)
def _second(seconds: int) -> str:
    return (b"%04d-%02d-%02dT%02d:%02d:%02d" % time.gmtime(seconds)[:6]).decode()


def now() -> str:
    """Return the current time, as answers show it."""
    return go_time(time.time_ns())


class StateRequest:
    """The wishes of a request about a stream's state, besides the usual."""

    def __init__(self, deleted: bool = False, filter: str = "", offset: int = 0) -> None:
        self.deleted = deleted
        self.filter = filter
        self.offset = offset


async def stream_state(
    streams: Streams, stream: Stream, consumers: int, wanted: StateRequest
) -> tuple[dict[str, Any], int]:
    """Return a stream's state, and how many subjects match the filter of the request."""
    streams.core.plane.sequencer.release()
    first, first_time = await streams.first_of(stream)
    return _state(stream, first, first_time, consumers, wanted)


def state_at_once(streams: Streams, stream: Stream) -> dict[str, Any]:
    """Return a stream's state without reading the journal.

    Where the first message is not known, `first_seq` is a number that it is not below, and
    `first_ts` the zero time.
    """
    ledger = stream.ledger
    first = streams.first_at_least(stream)
    return _state(stream, first, ledger.first_time, len(stream.consumers), StateRequest())[0]


def _state(
    stream: Stream, first: int, first_time: int, consumers: int, wanted: StateRequest
) -> tuple[dict[str, Any], int]:
    ledger = stream.ledger
    if not ledger.messages:
        first = ledger.last + 1 if ledger.last else stream.config.first_seq
    last = ledger.last or max(first - 1, 0)
    state: dict[str, Any] = {
        "messages": ledger.messages,
        "bytes": ledger.size,
        "first_seq": first,
        "first_ts": go_time(first_time),
        "last_seq": last,
        "last_ts": go_time(ledger.last_time),
    }
    if ledger.entries:
        state["num_subjects"] = len(ledger.entries)
    total = 0
    if wanted.filter:
        found = sorted(stream.subjects_of(wanted.filter.encode()))
        total = len(found)
        page = found[wanted.offset : wanted.offset + SUBJECTS_PAGE]
        if page:
            state["subjects"] = {
                one.decode("utf-8", "replace"): ledger.count_of(one) for one in page
            }
    deleted = [number for number in ledger.deleted if first <= number <= last]
    if deleted:
        state["num_deleted"] = len(deleted)
        if wanted.deleted:
            state["deleted"] = sorted(deleted)
    state["consumer_count"] = consumers
    return state, total


def consumer_info(consumer: RunningConsumer, version: str) -> dict[str, Any]:
    """Return a ConsumerInfo."""
    machine = consumer.machine
    deliverer = machine.deliverer
    numbers = machine.numbers()
    wall, steady = time.time_ns(), steady_ns()
    for name, at in (("delivered", deliverer.delivered_at), ("ack_floor", deliverer.acked_at)):
        if at:
            numbers[name]["last_active"] = go_time(wall - (steady - at))
    shown: dict[str, Any] = {
        "stream_name": consumer.stream.name,
        "name": consumer.name,
        "created": go_time(consumer.created),
        "config": machine.config.shown(version),
    }
    shown |= numbers
    if machine.config.is_push and machine.has_interest:
        shown["push_bound"] = True
    if machine.paused_until:
        shown["paused"] = True
        shown["pause_remaining"] = max(machine.paused_until - steady, 0)
    shown["ts"] = now()
    return shown


def stream_info(
    stream: Stream, state: dict[str, Any], leader: str = "", more: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return a StreamInfo; with `leader` as INFO shows it."""
    shown: dict[str, Any] = {
        "config": stream.config.fields(),
        "created": go_time(stream.created),
        "state": state,
    }
    if leader:
        shown["cluster"] = {"leader": leader}
    shown["ts"] = now()
    return shown | (more or {})


def leave_versions_out(page: list[dict[str, Any]]) -> None:
    """Leave out of a list what nats-server says of a single stream or consumer alone."""
    for one in page:
        metadata = one["config"]["metadata"]
        del metadata["_nats.level"], metadata["_nats.ver"]
