"""Answers `$SYS.REQ.SERVER.` requests: what monitoring says, for those who come by NATS.

    $SYS.REQ.SERVER.PING              STATSZ
    $SYS.REQ.SERVER.PING.<word>       of every server: VARZ, CONNZ, SUBSZ, ROUTEZ, JSZ, HEALTHZ ...
    $SYS.REQ.SERVER.<id>.<word>       of the server with this id

nats-server answers users of its system account. There are no accounts here, so a user must have
the right by name: an entry of its `publish` permissions that begins with `$SYS.`. A user who may
publish everything (`>`, or no permissions) is no such user. A broker without users has none. All
others get 503 (no responders), as from nats-server.

Nothing can be changed by these subjects. Pages are made in a thread, as those of HTTP are.
"""

import asyncio
import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Final, NamedTuple

from broker.dataplane.connection import Connection
from broker.dataplane.guard import Guard
from broker.dataplane.kinds import SYSTEM_PREFIX
from broker.monitor.process_figures import CpuMeter, resident_bytes
from broker.monitor.query import BadQuery, Query
from broker.monitor.views import BrokerState, timestamp
from broker.server import Server
from broker.version import NATS_VERSION

OWN_RIGHT: Final = b"$SYS."  # what an entry of the permissions must begin with
EVERY: Final = b"PING"
WAITING_MAX: Final = 64  # requests of all users: a tool sends one after the other, or a dozen
OPTIONS_MAX: Final = 4096  # bytes: all options there are take some hundred
STATES: Final = {0: "open", 1: "closed", 2: "all"}  # of connections, as nats-server numbers them
PAGED: Final = {"offset": "offset", "limit": "limit"}
# The words that are answered: the page, and its parameters by their names in a request. A server
# ignores what it does not know there, as Go's JSON does.
PAGES: Final[dict[bytes, tuple[str, dict[str, str]]]] = {
    b"VARZ": ("/varz", {}),
    b"CONNZ": (
        "/connz",
        {
            **PAGED,
            **{name: name for name in ("sort", "auth", "cid", "user", "acc", "filter_subject")},
            "subscriptions": "subs",
        },
    ),
    b"SUBSZ": ("/subsz", {**PAGED, "subscriptions": "subs", "test": "test"}),
    b"ROUTEZ": ("/routez", {}),
    b"GATEWAYZ": ("/gatewayz", {}),
    b"LEAFZ": ("/leafz", {}),
    b"ACCOUNTZ": ("/accountz", {}),
    b"JSZ": (
        "/jsz",
        {
            **PAGED,
            **{name: name for name in ("accounts", "streams", "config", "raft")},
            **{"account": "acc", "consumer": "consumers"},
        },
    ),
    b"HEALTHZ": (
        "/healthz",
        {
            "js-enabled-only": "js-enabled-only",
            **{name: name for name in ("account", "stream", "consumer")},
        },
    ),
}
OTHERS: Final = (b"STATSZ", b"IDZ")


def may_ask(guard: Guard | None) -> bool:
    """True if a user has the right by name: `$SYS.` is in what it may publish."""
    allow = guard.publish.allow if guard is not None else None
    return allow is not None and any(one.startswith(OWN_RIGHT) for one in allow.patterns)


def query_of(options: Mapping[str, Any], names: Mapping[str, str]) -> Query:
    """Return the parameters of a page. What is empty in Go is not given. Raises `BadQuery`."""
    query: Query = {}
    for name, parameter in names.items():
        value = options.get(name)
        if isinstance(value, bool | int | str):
            if value:
                query[parameter] = ["1" if value is True else str(value)]
        elif value is not None:
            raise BadQuery(f"{name}: give a number, a text, or true")
    return query


def _of_connections(options: Mapping[str, Any]) -> Query:
    """Return the parameters of /connz that a request has in another form. Raises `BadQuery`."""
    state = options.get("state") or 0
    if not isinstance(state, int) or state not in STATES:
        raise BadQuery("state: give 0 for open connections, 1 for closed ones, 2 for all")
    detail = {"subs": ["detail"]} if options.get("subscriptions_detail") else {}
    return {"state": [STATES[state]], **detail}


class Asked(NamedTuple):
    """One request that waits."""

    connection: Connection
    reply: bytes
    word: bytes
    body: bytes


class SystemRequests:
    """The answers of one broker. `serve` is called in its loop; a thread makes them."""

    def __init__(
        self,
        server: Server,
        loop: asyncio.AbstractEventLoop,
        page: Callable[[str, Query], dict[str, Any]],
        state: Callable[[], BrokerState],
    ) -> None:
        """`page` returns a page of monitoring, and `state` the totals; a thread calls them."""
        self._server = server
        self._loop = loop
        self._page = page
        self._state = state
        self._cpu = CpuMeter()
        self._sent = 0  # answers so far
        self._waiting = 0
        self._asked: SimpleQueue[Asked | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def serve(
        self, connection: Connection, subject: bytes, reply: bytes, headers: bytes, body: bytes
    ) -> bool:
        """Answer a request soon; False if this client may not ask, or there is no such page."""
        word = self._word(subject)
        if not word or not may_ask(connection.guard):
            return False
        if not self._server.plane.listens(connection, reply):
            return True
        if self._waiting >= WAITING_MAX:
            self._answer(connection, reply, self._refusal(429, "too many requests wait"))
            return True
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="system requests", daemon=True)
            self._thread.start()
        self._waiting += 1
        self._asked.put(Asked(connection, reply, word, body))
        return True

    def stop(self) -> None:
        """End the thread after the request that it has begun."""
        self._asked.put(None)

    def _word(self, subject: bytes) -> bytes:
        """Return what this broker is asked for; empty: nothing, or another server is."""
        whom, _, word = subject.removeprefix(SYSTEM_PREFIX).partition(b".")
        if whom == EVERY:
            word = word or b"STATSZ"
        elif whom != self._server.server_id.encode():
            return b""
        return word if word in PAGES or word in OTHERS else b""

    # In the thread

    def _run(self) -> None:
        while (asked := self._asked.get()) is not None:
            text = self._made(asked)
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._settle, asked, text)

    def _made(self, asked: Asked) -> bytes | None:
        """Return the answer; None: the request is for other servers."""
        try:
            if len(asked.body) > OPTIONS_MAX:
                raise BadQuery(f"the options have {len(asked.body)} bytes, of {OPTIONS_MAX}")
            options = json.loads(asked.body) if asked.body.strip() else {}
            if not isinstance(options, dict):
                raise BadQuery("the options must be a JSON object")
            if not self._is_meant(options):
                return None
            return json.dumps(self._contents(asked.word, options), default=list).encode()
        except (ValueError, RecursionError) as error:  # also BadQuery, and no JSON
            return self._refusal(400, str(error))
        except Exception as error:
            return self._refusal(500, str(error))

    def _is_meant(self, options: Mapping[str, Any]) -> bool:
        """True if the filters of a request, nats-server's, let this broker answer."""
        server, cluster = self._server, self._server.cluster
        own = {
            "server_name": server.name,
            "host": server.settings.host,
            "cluster": server.settings.cluster.name if cluster is not None else "",
        }
        for name, value in own.items():
            wanted = str(options.get(name) or "")
            if wanted and (wanted != value if options.get("exact_match") else wanted not in value):
                return False
        return not options.get("tags") and not options.get("domain")

    def _contents(self, word: bytes, options: Mapping[str, Any]) -> dict[str, Any]:
        if word == b"IDZ":
            server = self._server
            return {"name": server.name, "host": server.settings.host, "id": server.server_id}
        if word == b"STATSZ":
            return {"server": self._heading(), "statsz": self._statistics()}
        path, names = PAGES[word]
        query = query_of(options, names)
        if word == b"CONNZ":
            query |= _of_connections(options)
        if word == b"HEALTHZ":
            return {"server": self._heading(), "data": self._health(query)}
        return {"server": self._heading(), "data": self._page(path, query)}

    def _health(self, query: Query) -> dict[str, Any]:
        """Return the health; what is wrong is no error of the request."""
        try:
            return {**self._page("/healthz", query), "status_code": 200}
        except BadQuery:
            raise
        except Exception as error:
            code = getattr(error, "status_code", 500)
            return {"status": "unavailable", "status_code": code, "error": str(error)}

    def _heading(self) -> dict[str, Any]:
        """Return who answers, as nats-server's answers say it."""
        server = self._server
        has_streams = server.streams is not None
        self._sent += 1
        heading: dict[str, Any] = {
            "name": server.name,
            "host": server.settings.host,
            "id": server.server_id,
            "ver": NATS_VERSION,
            "jetstream": has_streams,
            "flags": int(has_streams),
            "seq": self._sent,
            "time": timestamp(time.time()),
        }
        if server.cluster is not None:
            heading["cluster"] = server.settings.cluster.name
        return heading

    def _statistics(self) -> dict[str, Any]:
        server, state = self._server, self._state()
        figures, traffic = state.figures, state.traffic
        sent = {"msgs": traffic.out_msgs, "bytes": traffic.out_bytes}
        received = {"msgs": traffic.in_msgs, "bytes": traffic.in_bytes}
        return {
            "start": timestamp(server.started_at),
            "mem": resident_bytes(),
            "cores": os.cpu_count() or 1,
            "cpu": self._cpu.percent(),
            "connections": figures["connections"],
            "total_connections": figures["total_connections"],
            "active_accounts": 1,
            "subscriptions": state.sublist["subscriptions"],
            "sent": sent,
            "sent_to_clients": sent,
            "received": received,
            "received_from_clients": received,
            "slow_consumers": figures["slow_consumers"],
            "active_servers": 1,
            "gomaxprocs": 1,
        }

    def _refusal(self, code: int, why: str) -> bytes:
        error = {"code": code, "description": why}
        return json.dumps({"server": self._heading(), "error": error}).encode()

    # In the loop

    def _settle(self, asked: Asked, text: bytes | None) -> None:
        self._waiting -= 1
        if text is not None and not asked.connection.closed:
            self._answer(asked.connection, asked.reply, text)
            self._server.plane.release(None)

    def _answer(self, connection: Connection, reply: bytes, text: bytes) -> None:
        most = self._server.settings.limits.max_payload
        if len(text) > most:
            why = f"the answer has {len(text)} bytes, of {most} (max_payload); ask with a limit"
            text = self._refusal(400, why)
        self._server.plane.answer_now(connection, reply, text, b"")
