"""Clients that begin much and leave early: every kind of cursor, and every way to leave.

    with SeriatimServer("none", LIMITS, ["-m", "-1"]) as process:
        broker = Churned(process)
        play(broker, Party("FROM past", "UNSUB", count=500, deaf=True))
        broker.rest()

A party is some connections of which each begins `count` of a kind. A deaf one reads nothing until
its end: its socket is full before it begins, so its cursors are parked or never had a turn. Nothing
waits for the answers, so staging and answers may be in progress when they leave.
"""

import contextlib
import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tests.support.processes import ServerProcess
from tests.support.raw import HEADERS, RawClient
from tests.support.staging import Batch, request
from tests.support.web import get, http_port

KIB = 1 << 10
LIMITS: dict[str, str | int] = {
    "catchup_pending": 64 * KIB,
    "max_pending": 512 * KIB,
    "max_payload": 128 * KIB,
    "write_deadline": "20ms",  # of one that closes: whoever is deaf takes nothing more
}
NEVER = 10**17
LONG = 60 * KIB
FILLING = 64  # long messages: more than the sockets of both ends take
SEVERAL = 4  # of a client may run at a time, of those that gather
STAGED = ("stage", "commit", "abort")
FEW = ("READ", *STAGED)
SOME = {"INFO": 300, **dict.fromkeys(FEW, SEVERAL)}  # more answers would cut off who is deaf
ASKED = ("GET", "number", *SOME)
REST_S = 30.0

# What a subscription is to; `first` and `last` are numbers of short messages on the subject p.
SUBJECTS: dict[str, str] = {
    "plain": "p",
    "queue": "p workers",
    "patterns": "own.{sid}.*.>",
    "lagging": "p",
    "FROM future": f"$SEQ.FROM.{NEVER}.p",
    "FROM head": "$SEQ.FROM.{next}.p",
    "FROM past": "$SEQ.FROM.{first}.p",
    "RANGE": "$SEQ.RANGE.{first}.{last}.p",
    "RANGE open": f"$SEQ.RANGE.{{first}}.{NEVER}.p",
    "SINCE past": "$SEQ.SINCE.{now}.p",
    "SINCE future": f"$SEQ.SINCE.{9 * 10**12}.p",
    "LAST": "$SEQ.LAST.p",
}
KINDS = (*SUBJECTS, *ASKED)
# Consumers of the stream S, which has the subject p, for a broker with streams.
CONSUMERS = ("pull", "push", "durable", "ordered")
DURABLE_MOST = 4  # these stay
ONE_S_OWN = ("patterns",)  # another subject for each
LIVE = ("plain", "queue", "patterns")
FAULTS = (
    b"NO\r\n",
    b"PUB p 5x\r\n",
    b"PUB p 2\r\nlong\r\n",
    b"PUB p %d\r\n" % (1 << 20),
    b"HPUB p 9 5\r\n",
    b"SUB\r\n",
    b"SUB %b 1\r\n" % (b"s" * 8192),
    b"CONNECT {bad}\r\n",
)


class Churned:
    """A broker with a past, and what it says of itself."""

    def __init__(self, process: ServerProcess, others: int = 0) -> None:
        self.others = others  # connections that stay, each with one subscription
        self.process = process
        self.port = process.port
        self.first = self.last = self.began = self.batches = 0
        self.publisher = RawClient(self.port, HEADERS)
        self.fill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.publisher.close()

    def fill(self) -> None:
        """Long messages, and some short ones behind them."""
        self.publisher.ask(b"PUB long %d\r\n%b\r\n" % (LONG, b"x" * LONG) * FILLING)
        self.began = int(time.time() * 1000)
        self.publisher.ask(b"PUB p 4\r\npast\r\n" * 3)
        self.last = self.status()["sequence"]
        self.first = self.last - 2

    def refresh(self) -> None:
        """Short messages that are not far back."""
        self.publisher.ask(b"PUB p 4\r\npast\r\n" * 3)
        self.last = self.status()["sequence"]
        self.first = self.last - 2
        self.began = int(time.time() * 1000) - 1

    def publish(self) -> None:
        """One short message, for all who are to have just one more."""
        self.publisher.ask(b"PUB p 4\r\nlive\r\n")
        self.last += 1

    def status(self) -> dict[str, Any]:
        """/varz"""
        return get(http_port(self.process), "/varz").json

    def until(self, true: Callable[[dict[str, Any]], bool]) -> None:
        """Ask until this is so of /varz; there is no event to await."""
        end = time.monotonic() + REST_S
        while not true(told := self.status()):
            if time.monotonic() > end:
                raise AssertionError(f"the broker is not at rest: {told}")
            time.sleep(0.002)  # no event to await

    def rest(self) -> None:
        """Wait until nobody is connected but our publisher, and nothing is left of the others."""
        self.until(
            lambda told: (
                (told["connections"], told["subscriptions"]) == (1 + self.others, self.others)
                and told["journal"]["replaying"] == 0
                and told["journal"]["catching_up"] == 0
                and told["pending_bytes"] == 0
                and told["staging"]["committing"] == 0
            )
        )

    def rest_of_consumers(self) -> None:
        """Wait until only durable consumers are there; no event says so."""
        end = time.monotonic() + REST_S
        while get(http_port(self.process), "/jsz").json["consumers"] > DURABLE_MOST:
            assert time.monotonic() < end, "consumers stay, and nobody is there"
            time.sleep(0.01)  # no event to await

    def resident(self) -> int:
        """Bytes of memory that the process has now, without pages of files: the journal window."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"^RssAnon:\s+(\d+) kB", status, re.MULTILINE)
        assert found is not None
        return int(found[1]) * 1024

    def descriptors(self) -> int:
        """How many it has open."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))


@dataclass(frozen=True, slots=True)
class Party:
    """So many connections, of which each begins `count` of a kind, and ends them in one way."""

    kind: str
    ending: str
    count: int
    clients: int = 1
    deaf: bool = False


def possible(kind: str, ending: str, deaf: bool) -> bool:
    """Whether this can happen: all is told to deaf clients, and who lags is deaf."""
    if kind == "lagging" and not deaf:
        return False
    if kind in LIVE and deaf:
        return False
    return deaf or ending != "too slow"


def play(broker: Churned, party: Party) -> None:
    """All of it, from the first connection to the last one's end."""
    clients = [_join(broker, party) for _ in range(party.clients)]
    for client in clients:
        client.send(beginning(broker, party) + b"PING\r\n")
    if party.kind == "lagging":
        broker.until(lambda told: told["subscriptions"] >= party.clients * (party.count + 1))
        broker.publisher.ask(b"PUB long %d\r\n%b\r\n" % (LONG, b"x" * LONG) * FILLING)
        broker.publish()
    if party.deaf:
        broker.publisher.ask(_question(broker, "GET", 0))  # theirs had as many turns as this
    for client in clients:
        if not party.deaf:
            client.until_pong()
    ENDINGS[party.ending](broker, party, clients)
    for client in clients:
        client.close()


def _join(broker: Churned, party: Party) -> RawClient:
    client = RawClient(broker.port, HEADERS, receive_buffer=4 * KIB if party.deaf else None)
    client.ask(b"SUB in.* in\r\n")
    if party.kind == "lagging":
        client.ask(b"SUB long filler\r\n")
    elif party.deaf:
        client.send(b"SUB $SEQ.FROM.1.long filler\r\n")
    return client


def beginning(broker: Churned, party: Party) -> bytes:
    """What one client says to begin all of its own."""
    if party.kind in CONSUMERS:
        return b"".join(_consumer(party.kind, at) for at in range(party.count))
    if party.kind in ASKED:
        count = min(party.count, SOME.get(party.kind, party.count))
        return b"".join(_question(broker, party.kind, at) for at in range(count))
    words = SUBJECTS[party.kind]
    places = {"first": broker.first, "last": broker.last, "next": broker.last + 1}
    if party.kind in ONE_S_OWN:
        return b"".join(
            b"SUB %b %d\r\n" % (words.format(sid=sid).encode(), sid) for sid in range(party.count)
        )
    subscribe = b"SUB %b " % words.format(now=broker.began, **places).encode()
    if party.kind != "LAST":
        return b"".join(b"%b%d\r\n" % (subscribe, sid) for sid in range(party.count))
    one = b"".join(b"%b%d\r\n" % (subscribe, sid) for sid in range(SEVERAL))
    leave = b"".join(b"UNSUB %d\r\n" % sid for sid in range(SEVERAL))
    return (one + leave) * (party.count // SEVERAL - 1) + one  # but the last ones: not surveyed


def _question(broker: Churned, kind: str, at: int) -> bytes:
    if kind in STAGED:
        return _staging(broker, kind, at)
    if kind == "GET":
        return b"PUB $SEQ.GET.%d in.%d 0\r\n\r\n" % (broker.first, at)
    if kind == "INFO":
        return b"PUB $SEQ.INFO in.%d 0\r\n\r\n" % at
    if kind == "number":
        return b"PUB $SEQ.PUB.n in.%d 1\r\nn\r\n" % at
    wish = b'{"from": %d, "subject": "p"}' % broker.first
    return b"PUB $SEQ.READ in.%d %d\r\n%b\r\n" % (at, len(wish), wish)


def _staging(broker: Churned, kind: str, at: int) -> bytes:
    """A batch that is begun: left there, committed or aborted. Every other name is used once."""
    broker.batches += 1
    is_once = broker.batches % 2 == 0
    name = f"once{broker.batches}" if is_once else "again"
    batch = Batch(name, broker.batches, rows=4, stages=2)
    words = b"".join(batch.pieces(200))
    if kind == "commit":
        words += batch.commit(remember=not is_once)
    elif kind == "abort":
        words += request("ABORT", {"application": name, "batch": batch.number})
    return words.replace(b" _INBOX.staging.", b" in.%d" % at)


def _consumer(kind: str, at: int) -> bytes:
    """A consumer that is made, and asked for some messages."""
    config: dict[str, Any] = {"name": f"c{at}", "ack_policy": "explicit"}
    if kind == "durable":
        config["name"] = config["durable_name"] = f"d{at % DURABLE_MOST}"
        config["max_ack_pending"] = 10
    else:
        config["inactive_threshold"] = 1_000_000
    if kind in ("push", "ordered"):
        config |= {"name": f"{kind}{at}", "ack_policy": "none", "deliver_subject": f"in.{at}"}
    if kind == "ordered":
        config |= {"flow_control": True, "idle_heartbeat": 10**9, "mem_storage": True}
    name = config["name"]
    words = request_of(f"CONSUMER.CREATE.S.{name}", at, {"stream_name": "S", "config": config})
    if kind in ("pull", "durable"):
        words += request_of(f"CONSUMER.MSG.NEXT.S.{name}", at, {"batch": 5, "expires": 10**9})
    return words


def request_of(subject: str, at: int, body: dict[str, Any]) -> bytes:
    """A request to JetStream's API, whose answer comes on `in.<at>`."""
    text = json.dumps(body).encode()
    return b"PUB $JS.API.%b in.%d %d\r\n%b\r\n" % (subject.encode(), at, len(text), text)


# The ways out


def _every(party: Party, more: bytes = b"") -> bytes:
    sids = [b"in", b"filler", *(b"%d" % sid for sid in range(max(party.count, SEVERAL)))]
    return b"".join(b"UNSUB %b%b\r\n" % (sid, more) for sid in sids)


def _unsubscribe(broker: Churned, party: Party, clients: list[RawClient]) -> None:
    for client in clients:
        client.send(_every(party))
    _done(broker, party, clients)


def _reach_max(broker: Churned, party: Party, clients: list[RawClient]) -> None:
    """Of what can have a message more; the others end with their client."""
    for client in clients:
        client.send(_every(party, b" 1"))
        if not party.deaf:
            client.ask(b"")
    broker.publish()
    for client in clients:
        client.send(b"PING\r\n")
        client.until_pong(2 if party.deaf else 1)
    for client in clients:
        client.leave()


def _connect_again(broker: Churned, party: Party, clients: list[RawClient]) -> None:
    for client in clients:
        client.send(HEADERS)
    _done(broker, party, clients)


def _done(broker: Churned, party: Party, clients: list[RawClient]) -> None:
    """Wait until the broker has heard it; nobody is connected then who has a subscription."""
    if party.deaf and party.kind != "lagging":  # that is told all before it ends
        broker.until(lambda told: told["subscriptions"] == broker.others)
        return
    for client in clients:
        client.send(b"PING\r\n")
    for client in clients:
        client.until_pong(2 if party.deaf else 1)


def _close(broker: Churned, party: Party, clients: list[RawClient]) -> None:
    for client in clients:
        if party.deaf:
            client.half_close()
        else:
            client.leave()
    broker.until(lambda told: told["connections"] == 1 + broker.others or not party.deaf)


def _reset(broker: Churned, party: Party, clients: list[RawClient]) -> None:
    for client in clients:
        client.reset()


def _cut_short(broker: Churned, party: Party, clients: list[RawClient]) -> None:
    """They leave in the middle of a message, without a word or with a reset."""
    for at, client in enumerate(clients):
        client.send(b"PUB $SEQ.PUB.n in.0 20\r\nhalf")
        if at % 2 == 0:
            client.reset()
        elif party.deaf:
            client.half_close()
        else:
            client.leave()


def _cut_off(broker: Churned, party: Party, clients: list[RawClient]) -> None:
    """They say what nobody may say, each something else."""
    for at, client in enumerate(clients):
        client.send(FAULTS[(broker.batches + at) % len(FAULTS)])
    for client in clients:
        client.until_closed()


def _too_slow(broker: Churned, party: Party, clients: list[RawClient]) -> None:
    """They ask for more than they may leave unread."""
    for client in clients:
        client.send(b"SUB in.* again\r\n")

    def cut(told: dict[str, Any]) -> bool:
        for client in clients:
            with contextlib.suppress(OSError):
                client.send(b"PUB $SEQ.INFO in.0 0\r\n\r\n" * 1000)
        return bool(told["connections"] == 1 + broker.others)

    broker.until(cut)


ENDINGS: dict[str, Callable[[Churned, Party, list[RawClient]], None]] = {
    "UNSUB": _unsubscribe,
    "UNSUB max": _reach_max,
    "close": _close,
    "RST": _reset,
    "second CONNECT": _connect_again,
    "cut short": _cut_short,
    "cut off": _cut_off,
    "too slow": _too_slow,
}
