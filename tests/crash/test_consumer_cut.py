"""A broker with consumers at work, killed or its power cut at any step: nothing confirmed is lost.

A broker lives three times under disk.c, killed between, while a client publishes, gets and
acknowledges. Its directory is then laid out as a moment of that leaves it. The broker that is
started there gives each message of the stream at least once that was not acknowledged before, and
none whose ack was confirmed.
"""

import json
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from sequencer.journal import Lost, Reader
from tests.crash import shim
from tests.crash.powercut import CLOSE, SEND, Disk, Entry, note_survivors, read_log
from tests.crash.shim import preload
from tests.support.depth import depth
from tests.support.jetstream import Dialogue, Step, request
from tests.support.processes import STAND_IN, SeriatimServer
from tests.support.raw import HEADERS, Operation, next_operation
from tests.support.serving import serving
from tests.support.stores import in_memory

pytestmark = [
    pytest.mark.skipif(STAND_IN, reason="nats-server's files are others"),
    pytest.mark.skipif(shim.COMPILER is None, reason=shim.WHY_NOT),
]
API = "$JS.API."
CUTS = depth(8, 60)
ROUNDS = 12  # of a life: some messages each
WAIT = 50_000_000  # until what is unacknowledged comes again, ns
CONSUMER = {"durable_name": "c", "ack_policy": "explicit", "ack_wait": WAIT}


class Said(NamedTuple):
    """What a broker had said at a moment, and what it had been told."""

    published: set[int]  # numbers in pub acks
    confirmed: set[int]  # numbers of messages
    acked: set[int]  # acks that were sent, also those without a confirmation
    exists: bool  # the consumer's creation was answered


class Story(NamedTuple):
    before: Disk
    past: list[Entry]
    said: list[tuple[int, Operation]]
    acks: list[tuple[int, int]]  # when which was sent

    def at(self, moment: int) -> Said:
        published, confirmed, exists = set(), set(), False
        for when, one in self.said:
            if when > moment:
                break
            kind, _, number = one.subject.rpartition(b".")
            if kind.endswith(b".pub") and one.payload:
                published.add(json.loads(one.payload)["seq"])
            elif kind.endswith(b".ack"):
                confirmed.add(int(number))
            exists = exists or b"consumer_create_response" in one.payload
        acked = {number for when, number in self.acks if when <= moment}
        return Said(published, confirmed, acked, exists)


def live(server: SeriatimServer, chance: Random, acks: list[tuple[int, int]]) -> None:
    """Publish, get and acknowledge; killed in the middle of it."""
    dialogue = Dialogue(server.port)
    dialogue.ask(Step(f"{API}STREAM.CREATE.S", {"name": "S", "subjects": ["s"]}))
    body = {"stream_name": "S", "config": CONSUMER}
    dialogue.ask(Step(f"{API}CONSUMER.DURABLE.CREATE.S.c", body))
    client, inbox = dialogue.client, dialogue.inbox
    for at in range(ROUNDS):
        count = chance.randint(1, 12)
        client.send(
            b"".join(request(Step("s", "x" * 300), f"{inbox}.pub.{at}") for _ in range(count))
        )
        for _ in range(count):
            client.operation()
        pull = {"batch": count, "expires": 10**9}
        client.send(request(Step(f"{API}CONSUMER.MSG.NEXT.S.c", pull), f"{inbox}.pull.{at}"))
        messages = [client.operation() for _ in range(count)]
        waiting = 0
        for one in messages:
            number, kind = int(one.reply.split(b".")[5]), chance.randrange(4)
            if kind == 0:
                continue
            acks.append((time.monotonic_ns(), number))
            if kind == 1:
                client.send(b"PUB %b 0\r\n\r\n" % one.reply)
            else:
                waiting += 1
                client.send(request(Step(one.reply.decode(), "+ACK"), f"{inbox}.ack.{number}"))
        if at == ROUNDS - 1:
            waiting //= 2  # killed in the middle
        while waiting:
            waiting -= client.operation().subject.startswith(inbox.encode() + b".ack.")
    dialogue.close()
    server.kill()


@cache
def folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="seriatim-consumers-")


@pytest.fixture(scope="module", autouse=True)
def _clean() -> Iterator[None]:
    yield
    folder().cleanup()


@cache
def story(sync: str) -> Story:
    base = Path(folder().name) / sync
    store, log = base / "store", base / "log"
    store.mkdir(parents=True)
    before, chance = Disk(store), Random(sync)
    arguments = ["--jetstream", "--sync", sync, "--sync_interval", "20ms"]
    arguments += ["--segment_bytes", "65536", "--journal_window_bytes", "1MiB"]
    server = SeriatimServer("none", None, arguments, store=store)
    server.env |= preload(store, log) | {"SERIATIM_LOOP": "asyncio"}
    acks: list[tuple[int, int]] = []
    for _ in range(3):
        note_survivors(store, log)
        server.start()
        live(server, chance, acks)
    past = read_log(log)
    return Story(before, past, list(sayings(past)), acks)


def sayings(past: list[Entry]) -> Iterator[tuple[int, Operation]]:
    """What the broker said, and when it left the process."""
    streams: dict[int, bytes] = {}
    for entry in sorted(past, key=lambda entry: entry.begin):
        if entry.what == CLOSE or entry.data.startswith(b"INFO "):
            streams.pop(entry.inode, None)
        if entry.what != SEND:
            continue
        data, at = streams.get(entry.inode, b"") + entry.data, 0
        while step := next_operation(data, at):
            operation, at = step
            yield entry.begin, operation
        streams[entry.inode] = data[at:]


def moments(of: Story) -> list[int]:
    """When to cut: about what was done to the notes, and about all else."""
    chance = Random(3)
    notes = {entry.inode for entry in of.past if "/streams" in entry.path and entry.what != SEND}
    near = [one for one in of.past if one.what != SEND and one.inode in notes]
    others = [one for one in of.past if one.what != SEND]
    chosen = chance.sample(near, CUTS // 2) + chance.sample(others, CUTS - CUTS // 2)
    return sorted(chance.choice((one.begin - 1, one.begin, one.end)) for one in chosen)


def kept(store: Path) -> set[int]:
    """The numbers of the stream's messages in a journal."""
    records = Reader(str(store)).records()
    return {one.number for one in records if not isinstance(one, Lost) and one.subject == b"s"}


def finish(store: Path) -> set[int] | None:
    """Start a broker there, and get all that the consumer gives; None without the consumer."""
    got: set[int] = set()
    with serving(store, flags={"streams.enabled": True}) as broker:
        client = broker.client(HEADERS + b"SUB _INBOX.> 1\r\n")

        def ask(step: Step) -> list[Operation]:
            found = client.ask(request(step, "_INBOX.r"))
            while not found:
                found = client.ask(b"")
            return found

        while True:
            (answer,) = [one for one in ask(Step(f"{API}CONSUMER.INFO.S.c")) if one.payload][-1:]
            told: dict[str, Any] = json.loads(answer.payload)
            if "error" in told:
                assert told["error"]["err_code"] in (10014, 10059), told
                return None
            if not told["num_pending"] and not told["num_ack_pending"]:
                return got
            asked = {"batch": 256, "no_wait": True}
            for one in ask(Step(f"{API}CONSUMER.MSG.NEXT.S.c", asked)):
                if one.reply:
                    got.add(int(one.reply.split(b".")[5]))
                    client.ask(b"PUB %b 0\r\n\r\n" % one.reply)


def judge(store: Path, said: Said, is_complete: bool) -> bool:
    """Fail if something was lost, or comes again; true if the consumer was there."""
    there = kept(store)
    if is_complete:
        assert said.published <= there, f"lost: {sorted(said.published - there)[:5]}"
    got = finish(store)
    if got is None:
        assert not said.exists, "its creation was answered"
        return False
    assert not got & said.confirmed, f"confirmed, and again: {sorted(got & said.confirmed)[:5]}"
    missing = there - got - said.acked
    assert not missing, f"never again: {sorted(missing)[:5]}"
    return True


@pytest.fixture
def left() -> Iterator[Path]:
    """Where a crash has left a directory, and who is killed no more."""
    with in_memory() as path:
        yield path / "left"


@pytest.mark.parametrize("sync", ["interval", pytest.param("always", marks=pytest.mark.slow)])
def test_given_a_kill_at_any_step_then_nothing_is_lost_and_nothing_confirmed_comes_again(
    sync: str, left: Path
) -> None:
    lives = story(sync)
    judged = 0
    for at in moments(lives):
        lives.before.cut(lives.past, at).sync_all().lay_out(left)
        judged += judge(left, lives.at(at), is_complete=True)
    assert judged > CUTS // 2


@pytest.mark.parametrize("keep", [False, True], ids=["strict", "some-is-kept"])
@pytest.mark.parametrize("sync", ["always", pytest.param("interval", marks=pytest.mark.slow)])
def test_given_a_power_cut_at_any_step_then_what_was_confirmed_does_not_come_again(
    sync: str, keep: bool, left: Path
) -> None:
    """With `always` no number is lost either that a pub ack has told."""
    lives = story(sync)
    judged = 0
    for seed, at in enumerate(moments(lives)):
        lives.before.cut(lives.past, at).lay_out(left, Random(seed) if keep else None)
        judged += judge(left, lives.at(at), is_complete=sync == "always")
    assert judged > CUTS // 2


@pytest.mark.parametrize("how", ["shorter", "damaged"])
def test_given_notes_that_are_damaged_then_the_broker_starts_and_no_message_is_left_out(
    how: str, left: Path
) -> None:
    """What they still have holds: an older state brings more messages, never fewer."""
    lives, chance = story("interval"), Random(how)
    end = lives.past[-1].end
    said = lives.at(end)
    for _ in range(CUTS // 2):
        lives.before.cut(lives.past, end).sync_all().lay_out(left)
        notes = left / "streams" / "notes"
        text = bytearray(notes.read_bytes())
        at = chance.randrange(len(text) // 4, len(text))
        if how == "shorter":
            del text[at:]
        else:
            text[at] ^= 1 << chance.randrange(8)
        notes.write_bytes(text)
        got = finish(left)
        assert got is not None
        assert kept(left) <= got | said.acked
