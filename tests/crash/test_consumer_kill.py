"""`kill -9` at random moments, with consumers at work, pulled and pushed.

No number is lost, each message comes at least once to each consumer, and one whose ack was
confirmed never again. tests/crash/test_consumer_cut.py tests every step, and power cuts.

    SOAK_SECONDS=600    in the environment: for so long
"""

import json
import threading
import time
import traceback
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.crash.staging import Lives
from tests.crash.trial import SEED, SOAK_S
from tests.support.depth import depth
from tests.support.jetstream import Dialogue, Step, request
from tests.support.processes import STAND_IN, SeriatimServer
from tests.support.raw import Operation, WireError

pytestmark = pytest.mark.skipif(STAND_IN, reason="it loses what is not synced, and says so")
API = "$JS.API."
KILLS = depth(2, 20)
EVENTS = 250  # in a life, at most: acks and pub acks
ACK_WAIT = 500_000_000
BATCH_MOST = 20
AHEAD = 20  # messages that wait for their pub acks
END_S = 120.0
IDLE_S = 2.0


class Peer(threading.Thread):
    """A client that lives on, over all lives of the broker."""

    def __init__(self, lives: Lives, name: str) -> None:
        super().__init__(daemon=True)
        self.lives, self.name = lives, name
        self.chance = Random(f"{SEED} {name}")
        self.over = False
        self.fault = ""

    def run(self) -> None:
        dead = 0
        try:
            while not self.over:
                life = self.lives.after(dead)
                try:
                    dialogue = Dialogue(self.lives.port)
                    dialogue.client.socket.settimeout(IDLE_S)
                    try:
                        self.live(dialogue)
                    finally:
                        dialogue.close()
                except TimeoutError:
                    pass  # nothing to do for a while
                except (OSError, WireError):
                    dead = life
        except Exception as error:
            self.fault = f"{self.name}: {error!r}, {traceback.format_exc()}"

    def live(self, dialogue: Dialogue) -> None:
        raise NotImplementedError


class Publisher(Peer):
    """Publishes with ids, each until it knows the number."""

    def __init__(self, lives: Lives, name: str) -> None:
        super().__init__(lives, name)
        self.numbers: list[int] = []  # of the messages, in order

    def live(self, dialogue: Dialogue) -> None:
        while not self.over:
            begin = len(self.numbers)
            again = max(begin - 3, 0)  # some are known, and have the same number still
            some = range(again, begin + self.chance.randint(1, AHEAD))
            dialogue.client.send(
                b"".join(
                    request(
                        Step(f"s.{at % 7}", f"{at}", {"Nats-Msg-Id": f"{at}"}),
                        f"{dialogue.inbox}.{at}",
                    )
                    for at in some
                )
            )
            for at in some:
                said = dialogue.client.operation()
                assert said.subject.endswith(b".%d" % at), said
                number = json.loads(said.payload)["seq"]
                if at < len(self.numbers):
                    assert number == self.numbers[at], f"message {at} has another number"
                else:
                    self.numbers.append(number)
                    self.lives.answered()


class Worker(Peer):
    """A durable consumer's client, which acknowledges, or does not."""

    def __init__(self, lives: Lives, name: str, pushed: bool) -> None:
        super().__init__(lives, name)
        self.pushed = pushed
        self.seen: dict[int, bytes] = {}
        self.confirmed: set[int] = set()

    def live(self, dialogue: Dialogue) -> None:
        if self.pushed:
            dialogue.client.send(b"SUB push.%b 7\r\n" % self.name.encode())
        while not self.over:
            left = self.chance.randint(1, BATCH_MOST)
            if not self.pushed:
                dialogue.asked += 1
                asked = {"batch": left, "expires": 100_000_000}
                subject = f"{API}CONSUMER.MSG.NEXT.S.{self.name}"
                reply = f"{dialogue.inbox}.pull.{dialogue.asked}"
                dialogue.client.send(request(Step(subject, asked), reply))
            while left > 0 and not self.over:
                left -= self.take(dialogue, dialogue.client.operation())

    def take(self, dialogue: Dialogue, said: Operation) -> int:
        """Take what comes; return how many messages it ends of a pull request."""
        if said.reply.startswith(b"$JS.ACK."):
            number = int(said.reply.split(b".")[5])
            assert number not in self.confirmed, f"message {number} was confirmed"
            known = self.seen.setdefault(number, said.payload)
            assert known == said.payload, f"message {number} was {known!r}, and is {said.payload!r}"
            word, reply = self.chance.choice(
                (
                    ("+ACK", ""),
                    ("-NAK", ""),
                    ("", ""),
                    *[("+ACK", f"{dialogue.inbox}.c.{number}")] * 3,
                )
            )
            if word:
                step = Step(said.reply.decode(), word)
                data = (
                    request(step, reply) if reply else request(step, "x").replace(b" x ", b" ", 1)
                )
                dialogue.client.send(data)
        elif said.subject.startswith(dialogue.inbox.encode() + b".c."):
            assert (said.header, said.payload) == (b"", b""), said
            self.confirmed.add(int(said.subject.rpartition(b".")[2]))
            self.lives.answered()
            return 0
        else:
            assert said.header.startswith(b"NATS/1.0 "), said
            return BATCH_MOST
        return 1


def asked(port: int, subject: str, body: Any = b"") -> dict[str, Any]:
    dialogue = Dialogue(port)
    (answer,) = dialogue.ask(Step(API + subject, body))
    dialogue.close()
    parsed: dict[str, Any] = json.loads(answer.payload)
    assert "error" not in parsed, parsed
    return parsed


def prepare(port: int, workers: list[Worker]) -> None:
    asked(port, "STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"]})
    for one in workers:
        config = {"durable_name": one.name, "ack_policy": "explicit", "ack_wait": ACK_WAIT}
        if one.pushed:
            config["deliver_subject"] = f"push.{one.name}"
        place = f"CONSUMER.DURABLE.CREATE.S.{one.name}"
        asked(port, place, {"stream_name": "S", "config": config})


def until_all_done(port: int, peers: list[Peer], workers: list[Worker]) -> None:
    """Nothing is pending any more; there is no event to await."""
    end = time.monotonic() + END_S
    for one in workers:
        while True:
            told = asked(port, f"CONSUMER.INFO.S.{one.name}")
            if not told["num_pending"] and not told["num_ack_pending"]:
                break
            assert not any(peer.fault for peer in peers), [peer.fault for peer in peers]
            assert time.monotonic() < end, told
            time.sleep(0.02)  # there is no event to await


@pytest.mark.parametrize("sync", ["interval", pytest.param("always", marks=pytest.mark.slow)])
def test_given_kills_amid_consumers_then_nothing_is_lost_and_nothing_confirmed_comes_again(
    sync: str, tmp_path: Path
) -> None:
    chance, lives = Random(f"{SEED} {sync}"), Lives()
    workers = [Worker(lives, name, name == "pushed") for name in ("one", "two", "pushed")]
    publisher = Publisher(lives, "publisher")
    peers: list[Peer] = [publisher, *workers]
    arguments = ["--jetstream", "--sync", sync, "--segment_bytes", "262144"]
    server = SeriatimServer("none", None, arguments, store=tmp_path / "store")
    print(f"CRASH_SEED={SEED}")
    end, kills = time.monotonic() + SOAK_S / 2, 0
    try:
        server.start()
        prepare(server.port, workers)
        for one in peers:
            one.start()
        while kills < KILLS or time.monotonic() < end:
            lives.born(server.port)
            lives.more(chance.randrange(EVENTS), peers)
            server.kill()
            kills += 1
            server.start(server.port)
        lives.born(server.port)
        publisher.over = True
        publisher.join(END_S)
        until_all_done(server.port, peers, workers)
        for one in peers:
            one.over = True
        server.stop()
        wrong = [line for line in server.log if "[ERR]" in line or "Traceback" in line]
        assert not wrong, wrong[:5]
    finally:
        for one in peers:
            one.over = True
        server.kill()
    assert not any(peer.fault for peer in peers), [peer.fault for peer in peers]
    numbers = publisher.numbers
    assert numbers == sorted(set(numbers))
    for one in workers:
        missing = set(numbers).difference(one.seen)
        assert not missing, f"{one.name} has never got {sorted(missing)[:5]}"
        print(
            f"{one.name}: {len(one.seen)} messages, {len(one.confirmed)} confirmed, {kills} kills"
        )
