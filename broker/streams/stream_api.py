"""JetStream's API: requests to `$JS.API.>`, and their answers.

    request --> a task of its own --> handler --> JSON to the requester's own subscriptions
    DIRECT.GET, STREAM.MSG.GET -----> a cursor, or at once (direct.py)

A request gets no number, and nobody else sees it. Its answer has the type that the API gives it,
and either what was asked for or an error with nats-server's number. What no broker answers here
(META, SERVER, ACCOUNT) gets no answer there either, outside of the system account.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

from broker.core import Core
from broker.dataplane.connection import Connection
from broker.dataplane.guard import Guard
from broker.runtime.log_bounds import REPEATED
from broker.streams import api_errors
from broker.streams.api_errors import ApiError, consumer_error
from broker.streams.api_json import encode
from broker.streams.consumer_bounds import maker_of
from broker.streams.consumer_config import ConsumerConfig, read_create
from broker.streams.consumers import RunningConsumer
from broker.streams.direct import EMPTY, MALFORMED, Getter, Wanted, read_wanted
from broker.streams.infos import (
    NEVER,
    SUBJECTS_PAGE,
    StateRequest,
    consumer_info,
    leave_versions_out,
    stream_info,
    stream_state,
)
from broker.streams.publishing import value_of
from broker.streams.stream_config import API_LEVEL, meets
from broker.streams.stream_view import EVERY, Stream
from broker.streams.streams import Streams
from broker.streams.strict_json import (
    BOOL,
    INT,
    STRING,
    TIME,
    UINT,
    ZERO_TIME,
    GoTime,
    JsonKinds,
    WrongJson,
    read_loosely,
    read_strictly,
)
from broker.version import NATS_VERSION
from sublist.subject import is_pattern

log = logging.getLogger("seriatim")

PREFIX: Final = b"$JS.API."
TYPE: Final = "io.nats.jetstream.api.v1."
NAMES_PAGE: Final = 1024
LIST_PAGE: Final = 256
# Requests of one connection that are being answered. Clients have a few; who has more waits for
# nothing that it could use.
OPEN_MAX: Final = 256
WORK: Final = 1024  # cost of a request, in offers
JSON_SHIFT: Final = 2  # plus 4 for each byte of JSON that is read
CHANGE_WORK: Final = 65_536  # of one that is written to the disk
SHOWN_MAX: Final = 200  # characters of a stream's subjects in the log

PAUSE_KINDS: Final[JsonKinds] = {"pause_until": TIME}
RESET_KINDS: Final[JsonKinds] = {"seq": UINT}
ANY: Final = -1  # so many names may follow, at least one
INFO_KINDS: Final[JsonKinds] = {"deleted_details": BOOL, "subjects_filter": STRING, "offset": INT}
PAGE_KINDS: Final[JsonKinds] = {"subject": STRING, "offset": INT}
PURGE_KINDS: Final[JsonKinds] = {"filter": STRING, "seq": UINT, "keep": UINT}
DELETE_KINDS: Final[JsonKinds] = {"seq": UINT, "no_erase": BOOL}

Handler = Callable[["Request"], Coroutine[Any, Any, dict[str, Any]]]


class Request:
    """One request: who asks, for what, and where the answer goes."""

    def __init__(
        self, connection: Connection, subject: bytes, reply: bytes, headers: bytes, body: bytes
    ) -> None:
        self.connection = connection
        self.session = connection.session  # whose it is, also when the connection has closed
        self.reply = reply
        self.headers = headers
        self.body = body
        self.names = subject[len(PREFIX) :].decode("utf-8", "replace").split(".")

    @property
    def name(self) -> str:
        """The last token of the subject: the stream, usually."""
        return self.names[-1]

    def tell(self, level: int, text: str, *values: object) -> None:
        """Log what a client has done. `text` begins with `%s`, the client, and ends with its user.

        Clients may do it often: the lines are bounded.
        """
        if log.isEnabledFor(level):
            user = self.session.user
            by = f" (user {user.name})" if user is not None and user.name else ""
            log.log(level, text, self.session.label, *values, by, extra=REPEATED)


class Api:
    """The answers to requests of JetStream's API. One per broker."""

    def __init__(self, core: Core, streams: Streams, server_name: str) -> None:
        assert core.replays is not None, "streams need a journal"
        self._core = core
        self._plane = core.plane
        self._streams = streams
        self._getter = Getter(core.plane, core.replays)
        self._server_name = server_name
        self.requests = self.errors = 0
        self._open: dict[Connection, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_stopped = False
        self._handlers: dict[tuple[str, ...], tuple[str, Handler, int]] = {
            ("INFO",): ("account_info", self._account, 0),
            ("STREAM", "CREATE"): ("stream_create", self._create, 1),
            ("STREAM", "UPDATE"): ("stream_update", self._update, 1),
            ("STREAM", "DELETE"): ("stream_delete", self._delete, 1),
            ("STREAM", "INFO"): ("stream_info", self._info, 1),
            ("STREAM", "NAMES"): ("stream_names", self._names, 0),
            ("STREAM", "LIST"): ("stream_list", self._list, 0),
            ("STREAM", "PURGE"): ("stream_purge", self._purge, 1),
            ("STREAM", "MSG", "GET"): ("stream_msg_get", self._get, 1),
            ("STREAM", "MSG", "DELETE"): ("stream_msg_delete", self._delete_message, 1),
            ("STREAM", "SNAPSHOT"): ("stream_snapshot", self._snapshot, 1),
            ("STREAM", "RESTORE"): ("stream_restore", self._restore, 1),
            ("STREAM", "LEADER", "STEPDOWN"): ("stream_leader_stepdown", self._clustered, 1),
            ("STREAM", "PEER", "REMOVE"): ("stream_remove_peer", self._clustered, 1),
            ("CONSUMER", "CREATE"): ("consumer_create", self._create_consumer, ANY),
            ("CONSUMER", "DURABLE", "CREATE"): ("consumer_create", self._create_durable, 2),
            ("CONSUMER", "INFO"): ("consumer_info", self._consumer_info, 2),
            ("CONSUMER", "NAMES"): ("consumer_names", self._consumer_names, 1),
            ("CONSUMER", "LIST"): ("consumer_list", self._consumer_list, 1),
            ("CONSUMER", "DELETE"): ("consumer_delete", self._delete_consumer, 2),
            ("CONSUMER", "PAUSE"): ("consumer_pause", self._pause_consumer, 2),
            ("CONSUMER", "RESET"): ("consumer_reset", self._reset_consumer, 2),
            ("CONSUMER", "UNPIN"): ("consumer_unpin", self._unpin_consumer, 2),
            ("CONSUMER", "LEADER", "STEPDOWN"): (
                *("consumer_leader_stepdown", self._clustered),
                2,
            ),
        }

    def serve(
        self, connection: Connection, subject: bytes, reply: bytes, headers: bytes, body: bytes
    ) -> bool:
        """Serve a request, now or later; False if there is nothing to ask of that subject."""
        if self._is_stopped:
            return True
        request = Request(connection, subject, reply, headers, body)
        self._plane.charge_work(WORK + (len(body) << JSON_SHIFT))
        if request.names[:2] == ["DIRECT", "GET"]:
            return self._get_direct(request, subject)
        if request.names[:3] == ["CONSUMER", "MSG", "NEXT"]:
            return self._next_messages(request)
        found = self._handler(request.names)
        if found is None:
            return True  # as nats-server: no answer
        kind, handler, _ = found
        self.requests += 1
        if self._open.get(connection, 0) >= OPEN_MAX:
            self._answer(request, kind, api_errors.insufficient_resources())
            return True
        self._open[connection] = self._open.get(connection, 0) + 1
        task = self._core.loop.create_task(self._carry_out(request, kind, handler))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    def _handler(self, names: list[str]) -> tuple[str, Handler, int] | None:
        for size in range(1, min(len(names), 3) + 1):
            found = self._handlers.get(tuple(names[:size]))
            if found is not None and (
                len(names) == size + found[2] or found[2] == ANY < len(names)
            ):
                return found
        return None

    async def _carry_out(self, request: Request, kind: str, handler: Handler) -> None:
        connection = request.connection
        result: dict[str, Any] | ApiError
        try:
            level = value_of(request.headers, b"Nats-Required-Api-Level")
            if level and not (level.isdigit() and int(level) <= int(API_LEVEL)):
                raise api_errors.required_level(level.decode("utf-8", "replace"))
            result = await handler(request)
        except ApiError as error:
            result = error
        except asyncio.CancelledError:
            raise
        except Exception as error:
            log.exception("Streams: a request failed: %s", kind, exc_info=error)
            result = ApiError(500, 10051, "an unexpected error; see the broker's log")
        finally:
            left = self._open[connection] - 1
            if left:
                self._open[connection] = left
            else:
                del self._open[connection]
        if result:  # else a cursor answers
            self._answer(request, kind, result)
            self._plane.release(None)

    def _answer(self, request: Request, kind: str, result: dict[str, Any] | ApiError) -> None:
        shown: dict[str, Any] = {"type": f"{TYPE}{kind}_response"}
        if isinstance(result, ApiError):
            self.errors += 1
            shown["error"] = result.fields()
            if kind in ("stream_info", "stream_names", "stream_list"):
                shown |= {"total": 0, "offset": 0, "limit": 0}
                if kind != "stream_info":
                    shown["streams"] = None if kind == "stream_names" else []
            elif kind in ("consumer_names", "consumer_list"):
                shown |= {"total": 0, "offset": 0, "limit": 0, "consumers": []}
            elif kind == "consumer_pause":
                shown |= {"paused": False, "pause_until": NEVER}
            elif kind == "stream_purge":
                shown["purged"] = 0
        else:
            shown |= result
        if request.reply and not request.connection.closed:
            self._plane.answer(request.connection, request.reply, encode(shown), b"")

    async def stop(self) -> None:
        """Give up what is not answered yet."""
        self._is_stopped = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    # The account

    async def _account(self, request: Request) -> dict[str, Any]:
        storage = sum(stream.ledger.size for stream in self._streams.by_name.values())
        unlimited = ("max_memory", "max_storage", "max_streams", "max_consumers")
        limits: dict[str, Any] = dict.fromkeys(unlimited, -1)
        limits |= {"max_ack_pending": -1, "memory_max_stream_bytes": -1}
        limits |= {"storage_max_stream_bytes": -1, "max_bytes_required": False}
        return {
            "memory": 0,
            "storage": storage,
            "reserved_memory": 0,
            "reserved_storage": 0,
            "streams": len(self._streams.by_name),
            "consumers": self._streams.consumers.count(),
            "limits": limits,
            "api": {"level": int(API_LEVEL), "total": self.requests, "errors": self.errors},
        }

    # Streams

    async def _create(self, request: Request) -> dict[str, Any]:
        self._plane.charge_work(CHANGE_WORK)
        await self._streams.wait_until_ready()
        stream, is_new = await self._streams.create(request.body, request.name, NATS_VERSION)
        if is_new:
            subjects = ", ".join(stream.config.subjects)[:SHOWN_MAX]
            request.tell(
                *(logging.INFO, "%s - Stream %s was created, of %s, from number %d on%s"),
                *(stream.name, subjects, stream.since),
            )
        return await self._shown(stream, {"did_create": True})

    async def _update(self, request: Request) -> dict[str, Any]:
        self._plane.charge_work(CHANGE_WORK)
        await self._streams.wait_until_ready()
        stream = await self._streams.update(request.body, request.name, NATS_VERSION)
        subjects = ", ".join(stream.config.subjects)[:SHOWN_MAX]
        request.tell(logging.INFO, "%s - Stream %s was changed, of %s%s", stream.name, subjects)
        return await self._shown(stream)

    async def _delete(self, request: Request) -> dict[str, Any]:
        if request.body:
            raise api_errors.not_empty()
        self._plane.charge_work(CHANGE_WORK)
        await self._streams.wait_until_ready()
        count = await self._streams.delete(request.name)
        request.tell(
            *(logging.INFO, "%s - Stream %s was deleted, with %d consumers%s", request.name, count)
        )
        return {"success": True}

    async def _shown(self, stream: Stream, more: dict[str, Any] | None = None) -> dict[str, Any]:
        state, _ = await stream_state(self._streams, stream, len(stream.consumers), StateRequest())
        return stream_info(stream, state, more=more)

    async def _info(self, request: Request) -> dict[str, Any]:
        given = _read(request, INFO_KINDS, "JSApiStreamInfoRequest")
        wanted = StateRequest(
            given.get("deleted_details", False),
            given.get("subjects_filter", ""),
            max(given.get("offset", 0), 0),
        )
        await self._streams.wait_until_ready()
        stream = self._streams.find(request.name)
        if stream.is_whole and wanted.filter:
            raise api_errors.no_subjects()
        state, total = await stream_state(self._streams, stream, len(stream.consumers), wanted)
        offset, limit = (wanted.offset, SUBJECTS_PAGE) if total else (0, 0)
        page = {"total": total, "offset": offset, "limit": limit}
        return page | stream_info(stream, state, self._server_name)

    async def _names(self, request: Request) -> dict[str, Any]:
        found, offset = self._page(request)
        page = [stream.name for stream in found[offset : offset + NAMES_PAGE]]
        return {"total": len(found), "offset": offset, "limit": NAMES_PAGE, "streams": page or None}

    async def _list(self, request: Request) -> dict[str, Any]:
        await self._streams.wait_until_ready()
        found, offset = self._page(request)
        page = [await self._shown(stream) for stream in found[offset : offset + LIST_PAGE]]
        leave_versions_out(page)
        return {"total": len(found), "offset": offset, "limit": LIST_PAGE, "streams": page}

    def _page(self, request: Request) -> tuple[list[Stream], int]:
        """Return the streams that a request wants, and where its page begins."""
        given = _read(request, PAGE_KINDS, "JSApiStreamNamesRequest")
        subject, offset = given.get("subject", ""), max(given.get("offset", 0), 0)
        found = self._streams.named()
        if subject:
            if not is_pattern(subject.encode()):
                raise api_errors.bad_request()
            found = [one for one in found if any(meets(subject, a) for a in one.config.subjects)]
        return found, min(offset, len(found))

    # Messages

    async def _purge(self, request: Request) -> dict[str, Any]:
        given = _read(request, PURGE_KINDS, "JSApiStreamPurgeRequest")
        filter = given.get("filter") or EVERY
        below, keep = given.get("seq", 0), given.get("keep", 0)
        if (below and keep) or not is_pattern(filter.encode()):
            raise api_errors.bad_request()
        self._plane.charge_work(CHANGE_WORK)
        await self._streams.wait_until_ready()
        stream = self._streams.find(request.name)
        purged = await self._streams.purge(stream, filter, below, keep)
        request.tell(
            *(logging.INFO, "%s - Stream %s was purged of %s, %d in number%s"),
            *(stream.name, filter, purged),
        )
        return {"success": True, "purged": purged}

    async def _get(self, request: Request) -> dict[str, Any]:
        wanted = read_wanted(_body(request), read_strictly)
        await self._streams.wait_until_ready()
        stream = self._streams.find(request.name)

        def answer(result: dict[str, Any] | ApiError) -> None:
            self._answer(request, "stream_msg_get", result)

        self._getter.get(request.connection, stream, wanted, answer)
        return {}

    async def _delete_message(self, request: Request) -> dict[str, Any]:
        _body(request)
        number = _read(request, DELETE_KINDS, "JSApiMsgDeleteRequest").get("seq", 0)
        self._plane.charge_work(CHANGE_WORK)
        await self._streams.wait_until_ready()
        await self._streams.delete_message(self._streams.find(request.name), number)
        request.tell(
            *(logging.DEBUG, "%s - Stream %s: message %d was deleted%s", request.name, number)
        )
        return {"success": True}

    def _get_direct(self, request: Request, subject: bytes) -> bool:
        """Serve DIRECT.GET; False if there is no such stream, or it has no `allow_direct`."""
        names = request.names[2:]
        stream = self._streams.look_up(names[0]) if names else None
        if stream is None or not stream.config.allow_direct:
            return False
        if not self._streams.is_ready:
            return self._serve_later(
                request, stream.name, "", lambda: self._get_direct(request, subject)
            )
        if not self._plane.listens(request.connection, request.reply):
            return True
        if len(names) > 1:
            wanted = Wanted(last_by=".".join(names[1:]))
            self._getter.get_direct(request.connection, stream, wanted, request.reply)
            return True
        if not request.body:
            self._getter.say(request.connection, request.reply, EMPTY)
            return True
        try:
            wanted = read_wanted(request.body, read_loosely)
        except ApiError:
            self._getter.say(request.connection, request.reply, MALFORMED)
            return True
        self._getter.get_direct(request.connection, stream, wanted, request.reply)
        return True

    # Consumers

    async def _create_consumer(self, request: Request) -> dict[str, Any]:
        names = request.names[2:]
        legacy = "ephemeral" if len(names) == 1 else ""
        name = names[1] if len(names) > 1 else ""
        return await self._make_consumer(request, names[0], name, ".".join(names[2:]), legacy)

    async def _create_durable(self, request: Request) -> dict[str, Any]:
        stream, name = request.names[3:]
        return await self._make_consumer(request, stream, name, "", "durable")

    async def _make_consumer(
        self, request: Request, stream_name: str, name: str, filters: str, legacy: str
    ) -> dict[str, Any]:
        given, session = read_create(request.body), request.session
        await self._streams.wait_until_ready()
        given.check_place(stream_name, name, filters, legacy)
        stream = self._streams.find(stream_name)
        consumers = self._streams.consumers
        self._plane.charge_work(CHANGE_WORK)
        async with stream.changing:
            self._streams.refuse_deleted(stream)
            asked = given.config.durable_name or given.config.name
            known = stream.consumers.get(asked) if asked else None
            old = known.machine.config if known is not None else None
            others = [one.machine.config for one in stream.consumers.values() if one is not known]
            if known is not None:  # a client may bind to it as soon as another has left
                consumers.look_for_interest_in(known)
            bound = known is not None and known.machine.has_interest
            config = given.resolve(old, consumers.rules(stream), others, bound)
            self._refuse_filters(request.connection, stream, config)
            if known is not None and old is not None and old.is_same(config):
                consumer = known
            else:
                consumer = await consumers.create(stream, config, maker_of(session.ip, session.cid))
                _tell_of(request, consumer, "was created" if known is None else "was changed")
        await consumers.until_counted(consumer)
        return consumer_info(consumer, NATS_VERSION)

    def _refuse_filters(
        self, connection: Connection, stream: Stream, config: ConsumerConfig
    ) -> None:
        """Refuse what its creator may not get by a subscription."""
        guard = connection.guard
        if guard is None:
            return
        for pattern in config.filters or stream.config.subjects:
            if not _may_have(guard, pattern):
                raise ApiError(
                    403, 10003, f"you may not subscribe to {pattern}, or to a part of it"
                )
        subject = config.deliver_subject.encode()
        if subject and not (guard.may_subscribe(subject) or guard.may_publish_to(subject)):
            raise ApiError(403, 10003, f"you may not subscribe to {config.deliver_subject}")

    async def _found_consumer(self, request: Request) -> RunningConsumer:
        await self._streams.wait_until_ready()
        stream = self._streams.find(request.names[-2])
        return self._streams.consumers.find(stream, request.names[-1])

    async def _consumer_info(self, request: Request) -> dict[str, Any]:
        if request.body:
            raise api_errors.not_empty()
        consumer = await self._found_consumer(request)
        self._streams.consumers.look_for_interest_in(consumer)
        self._streams.consumers.forget_unheard(consumer)
        self._plane.sequencer.release()
        return consumer_info(consumer, NATS_VERSION)

    async def _consumer_names(self, request: Request) -> dict[str, Any]:
        await self._streams.wait_until_ready()
        names, offset = self._consumer_page(request)
        page = names[offset : offset + NAMES_PAGE]
        return {"total": len(names), "offset": offset, "limit": NAMES_PAGE, "consumers": page}

    async def _consumer_list(self, request: Request) -> dict[str, Any]:
        await self._streams.wait_until_ready()
        names, offset = self._consumer_page(request)
        consumers = self._streams.find(request.name).consumers
        some = names[offset : offset + LIST_PAGE]
        page = [consumer_info(consumers[one], NATS_VERSION) for one in some]
        leave_versions_out(page)
        return {"total": len(names), "offset": offset, "limit": LIST_PAGE, "consumers": page}

    def _consumer_page(self, request: Request) -> tuple[list[str], int]:
        given = _read(request, PAGE_KINDS, "JSApiConsumersRequest")
        names = sorted(self._streams.find(request.name).consumers)
        return names, min(max(given.get("offset", 0), 0), len(names))

    async def _delete_consumer(self, request: Request) -> dict[str, Any]:
        if request.body:
            raise api_errors.not_empty()
        await self._streams.wait_until_ready()
        stream = self._streams.find(request.names[-2])
        async with stream.changing:
            consumers = self._streams.consumers
            consumer = consumers.find(stream, request.name)
            await consumers.delete(consumer)
        _tell_of(request, consumer, "was deleted")
        return {"success": True}

    async def _pause_consumer(self, request: Request) -> dict[str, Any]:
        given = _read(request, PAUSE_KINDS, "JSApiConsumerPauseRequest")
        wanted = given.get("pause_until")
        moment = GoTime(ZERO_TIME if wanted is None else wanted.ns)  # in UTC
        await self._streams.wait_until_ready()
        stream = self._streams.find(request.names[-2])
        async with stream.changing:
            consumer = self._streams.consumers.find(stream, request.name)
            await self._streams.consumers.pause(consumer, moment)
        left = moment.ns - time.time_ns()
        shown: dict[str, Any] = {"paused": left > 0, "pause_until": moment.text()}
        _tell_of(request, consumer, f"pauses until {moment.text()}" if left > 0 else "goes on")
        if left > 0:
            shown["pause_remaining"] = left
        return shown

    async def _reset_consumer(self, request: Request) -> dict[str, Any]:
        given = _read(request, RESET_KINDS, "JSApiConsumerResetRequest")
        consumer = await self._found_consumer(request)
        machine, consumers = consumer.machine, self._streams.consumers
        self._plane.sequencer.release()
        earliest = 0
        if machine.config.opt_start_time is not None:
            earliest = await self._streams.first_since(
                consumer.stream, machine.config.opt_start_time.ns
            )
        if machine.is_over:  # it was deleted meanwhile
            raise consumer_error(10014)
        last = consumer.stream.ledger.last
        sequence = machine.reset(given.get("seq", 0), earliest, last, consumers.now())
        consumers.settle(consumer)
        _tell_of(request, consumer, f"was reset, to number {sequence}")
        await consumers.until_counted(consumer)
        return consumer_info(consumer, NATS_VERSION) | {"reset_seq": sequence}

    async def _unpin_consumer(self, request: Request) -> dict[str, Any]:
        await self._found_consumer(request)
        raise consumer_error(10160)

    def _next_messages(self, request: Request) -> bool:
        """Serve a pull request; False if there is no such consumer."""
        if len(request.names) != 5 or not request.reply:
            return True
        stream = self._streams.look_up(request.names[3])
        consumer = stream.consumers.get(request.names[4]) if stream is not None else None
        if stream is None:
            return False
        if consumer is None:
            return self._serve_later(
                request, stream.name, request.names[4], lambda: self._next_messages(request)
            )
        guard = request.connection.guard
        wanted = consumer.machine.config.filters or stream.config.subjects
        if guard is not None and not all(_may_have(guard, one) for one in wanted):
            self._getter.say(request.connection, request.reply, "403 Permissions Violation")
            return True
        self._streams.consumers.ask(request.connection, consumer, request.reply, request.body)
        return True

    def _serve_later(
        self, request: Request, stream: str, consumer: str, serve: Callable[[], object]
    ) -> bool:
        size = len(request.body) + len(request.headers)
        return self._streams.serve_later(request.connection, stream, consumer, size, serve)

    # What is not here

    async def _snapshot(self, request: Request) -> dict[str, Any]:
        self._streams.find(request.name)
        raise api_errors.snapshot_failed()

    async def _restore(self, request: Request) -> dict[str, Any]:
        raise api_errors.restore_failed()

    async def _clustered(self, request: Request) -> dict[str, Any]:
        raise api_errors.not_clustered()


def _tell_of(request: Request, consumer: RunningConsumer, what: str) -> None:
    """Log what a client has done to a consumer; of ephemeral ones, which come and go, for debug."""
    level = logging.INFO if consumer.machine.config.is_durable else logging.DEBUG
    request.tell(level, "%s - Consumer %s of %s %s%s", consumer.name, consumer.stream.name, what)


def _body(request: Request) -> bytes:
    if not request.body:
        raise api_errors.bad_request()
    return request.body


def _read(request: Request, kinds: JsonKinds, struct: str) -> dict[str, Any]:
    """Read the object in a request's body; empty if there is none. Raises `ApiError`."""
    if not request.body:
        return {}
    try:
        return read_strictly(request.body, kinds, struct)
    except WrongJson as error:
        raise api_errors.invalid_json(str(error)) from None


def _may_have(guard: Guard, pattern: str) -> bool:
    """True if a client may subscribe to all that a pattern matches."""
    subject = pattern.encode()
    return guard.may_subscribe(subject) and guard.denied_to(subject) is None
