"""A broker for one reader, in the test's own loop: a journal, and faults that a test plans.

It speaks just enough of the protocol for `read`: INFO, PING, `$SEQ.INFO`, `$SEQ.GET`, and the
subscriptions `$SEQ.FROM`, `$SEQ.RANGE`, `$SEQ.SINCE` and `$SEQ.LAST`. Every connection takes the
next plan, and when there is none left, nothing goes wrong any more.

    Plan    what happens before a connection, and while it lives; how it ends
    Kept    one message; its `uid` is in its payload, and no other message has it
"""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from testkit.model_subject import tokens_match

BASE_NS = 1_700_000_000_000_000_000
NEVER = 1 << 62
MS = 1_000_000


@dataclass(frozen=True)
class Kept:
    """One message."""

    uid: int
    number: int
    subject: str
    time_ns: int
    size: int = 0

    @property
    def payload(self) -> bytes:
        return (b"%d" % self.uid).ljust(self.size, b".")

    def block(self, with_subject: bool = False) -> bytes:
        moment = datetime.fromtimestamp(self.time_ns // 10**9, UTC)
        time = f"{moment:%Y-%m-%dT%H:%M:%S}.{self.time_ns % 10**9:09d}Z"
        subject = f"Nats-Subject: {self.subject}\r\n" if with_subject else ""
        own = f"Nats-Sequence: {self.number}\r\nNats-Time-Stamp: {time}\r\n"
        return f"NATS/1.0\r\n{subject}{own}\r\n".encode()


class SmallJournal:
    """Messages with numbers, and what can happen to them."""

    def __init__(self) -> None:
        self.ids = 1
        self.epoch = 1
        self.first, self.last = 1, 0
        self.kept: dict[int, Kept] = {}
        self.given: dict[int, Kept] = {}  # of this journal, also what was deleted
        self.uids = 0
        self.changed = asyncio.Event()

    @property
    def id(self) -> str:
        return f"{self.ids:016x}"

    def publish(self, count: int, subject: str = "a.x", size: int = 0) -> None:
        for _ in range(count):
            self.last += 1
            self.uids += 1
            name = subject if self.uids % 3 or subject != "a.x" else "b.y"
            made = Kept(self.uids, self.last, name, BASE_NS + self.uids * MS, size)
            self.kept[self.last] = self.given[self.last] = made
        self.changed.set()

    def retain(self, count: int) -> None:
        """Delete all but the last `count`."""
        self.first = max(self.first, self.last + 1 - count)
        self.kept = {at: one for at, one in self.kept.items() if at >= self.first}

    def reopen(self) -> None:
        self.epoch += 1

    def lose_end(self, count: int, then: int) -> None:
        """Lose the last messages, as in a power cut; others then get their numbers."""
        self.epoch += 1
        self.last = max(self.last - count, self.first - 1)
        self.kept = {at: one for at, one in self.kept.items() if at <= self.last}
        self.given = {at: one for at, one in self.given.items() if at <= self.last}
        self.publish(then)

    def replace(self, count: int) -> None:
        """Be another journal."""
        self.ids += 1
        self.epoch, self.first, self.last = 1, 1, 0
        self.kept, self.given = {}, {}
        self.publish(count)

    def info(self, behind: int = 0) -> dict[str, Any]:
        times = [one.time_ns // MS for one in self.kept.values()] or [0]
        return {
            "journal": self.id,
            "epoch": self.epoch,
            "first": self.first,
            "last": max(self.last - behind, 0),
            "messages": len(self.kept),
            "bytes": 0,
            "oldest": times[0],
            "newest": times[-1],
            "time": BASE_NS // MS + self.uids + 1,
            "store": "disk",
            "sync": "always",
            "full": False,
            "restricted": False,
            "limits": {"dedupe_window": 120, "dedupe_ids": 1_000_000},
        }


Action = Callable[[SmallJournal], None]


@dataclass
class Plan:
    """What happens to one connection."""

    before: list[Action] = field(default_factory=list)
    during: list[tuple[int, Action]] = field(default_factory=list)  # after so many messages
    cut_at: int = NEVER  # bytes, from the first of INFO on
    ends_idle: bool = True  # it ends when everything was sent
    lag: int = 0  # so many answers to `$SEQ.INFO` are too low
    chunk: int = NEVER  # bytes written at once
    repeats: int = 0  # every message is sent again, when so many have been sent
    reset: bool = False


class SmallBroker:
    """Serves one journal; `async with SmallBroker(plans) as broker: broker.port`."""

    def __init__(self, plans: list[Plan], journal: SmallJournal | None = None) -> None:
        self.journal = journal or SmallJournal()
        self.plans = plans
        self.port = 0
        self.connections = 0
        self.open = 0
        self.all_closed = asyncio.Event()
        self.on_last: Action = lambda journal: None  # when the plans are used up
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self.connections += 1
        self.open += 1
        self.all_closed.clear()
        if self.plans:
            plan = self.plans.pop(0)
            for action in plan.before:
                action(self.journal)
        else:
            plan = Plan(ends_idle=False)
            self.on_last(self.journal)
            self.on_last = lambda journal: None
        try:
            await _Conversation(self.journal, plan, reader, writer).run()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            if plan.reset:
                writer.transport.abort()
            writer.close()
            self.open -= 1
            if not self.open:
                self.all_closed.set()


class _Conversation:
    """One connection."""

    def __init__(
        self,
        journal: SmallJournal,
        plan: Plan,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.journal, self.plan = journal, plan
        self.reader, self.writer = reader, writer
        self.left = plan.cut_at
        self.pump: asyncio.Task[None] | None = None

    async def run(self) -> None:
        info = {"server_id": "x", "headers": True, "max_payload": 1 << 20, "seriatim": "1"}
        await self.say(b"INFO " + json.dumps(info).encode() + b"\r\n")
        try:
            while line := await self.reader.readline():
                words = line.split()
                verb = words[0].upper() if words else b""
                if verb == b"PING":
                    await self.say(b"PONG\r\n")
                elif verb == b"SUB" and words[1].startswith(b"$SEQ."):
                    self.pump = asyncio.ensure_future(self.send_past(words[1], words[-1]))
                    self.pump.add_done_callback(self.pumped)
                elif verb == b"PUB":
                    await self.reader.readexactly(int(words[-1]) + 2)
                    await self.answer(words[1].decode(), words[2])
        finally:
            if self.pump is not None:
                self.pump.cancel()

    def pumped(self, pump: "asyncio.Task[None]") -> None:
        if pump.cancelled() or pump.exception() is not None or self.plan.ends_idle:
            self.writer.close()

    async def say(self, data: bytes) -> None:
        """Write, up to where the connection is cut."""
        cut = data[: self.left]
        self.left -= len(cut)
        for at in range(0, len(cut), self.plan.chunk):
            self.writer.write(cut[at : at + self.plan.chunk])
            await asyncio.sleep(0)
        await self.writer.drain()
        if not self.left:
            raise ConnectionResetError

    async def answer(self, subject: str, reply: bytes) -> None:
        block, payload = b"", b""
        if subject == "$SEQ.INFO":
            behind = 3 if self.plan.lag else 0
            self.plan.lag -= bool(behind)
            payload = json.dumps(self.journal.info(behind)).encode()
        else:
            number = int(subject.rpartition(".")[2])
            found = self.journal.kept.get(number)
            block = b"NATS/1.0 404 not here\r\n\r\n"
            if found is not None:
                block, payload = found.block(with_subject=True), found.payload
        await self.say(_message(reply.decode(), b"2", block, payload))

    async def send_past(self, wish: bytes, sid: bytes) -> None:
        _, kind, *rest = wish.decode().split(".")
        journal, until = self.journal, NEVER
        if kind == "LAST":
            subject = ".".join(rest)
            await self.send_last(subject, sid)
            at = journal.last + 1
        elif kind == "SINCE":
            subject = ".".join(rest[1:])
            since = int(rest[0]) * MS
            found = [one.number for one in journal.kept.values() if one.time_ns >= since]
            at = min(found, default=journal.last + 1)
        else:
            at = int(rest[0])
            subject = ".".join(rest[1:])
            if kind == "RANGE":
                until, subject = int(rest[1]), ".".join(rest[2:])
        sent = 0
        history: list[bytes] = []
        while True:
            self.act(sent)
            if at > until:
                await self.say(_message(f"$SEQ.END.{until}", sid, b"", b""))
                return
            if at > journal.last:
                if self.plan.ends_idle:
                    self.act(NEVER)
                    if at > journal.last:
                        return
                    continue
                journal.changed.clear()
                await journal.changed.wait()
                continue
            if at < journal.first:
                last = min(journal.first - 1, until)
                await self.say(_message(f"$SEQ.LOST.{at}.{last}", sid, b"", b""))
                at = last + 1
                continue
            one = journal.kept[at]
            at += 1
            if tokens_match(subject.encode(), one.subject.encode()):
                said = _message(one.subject, sid, one.block(), one.payload)
                await self.say(said)
                history.append(said)
                sent += 1
                if sent == self.plan.repeats:
                    await self.say(b"".join(history))

    async def send_last(self, subject: str, sid: bytes) -> None:
        last = {one.subject: one for one in self.journal.kept.values()}
        for one in sorted(last.values(), key=lambda one: one.number):
            if tokens_match(subject.encode(), one.subject.encode()):
                await self.say(_message(one.subject, sid, one.block(), one.payload))

    def act(self, sent: int) -> None:
        """Do what is due when so many messages were sent."""
        while self.plan.during and self.plan.during[0][0] <= sent:
            self.plan.during.pop(0)[1](self.journal)


def _message(subject: str, sid: bytes, block: bytes, payload: bytes) -> bytes:
    sizes = f"{len(block)} {len(block) + len(payload)}" if block else str(len(payload))
    verb = "HMSG" if block else "MSG"
    head = f"{verb} {subject} {sid.decode()} {sizes}\r\n".encode()
    return head + block + payload + b"\r\n"
