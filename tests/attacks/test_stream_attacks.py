"""Streams and consumers asked for without end, and used as nobody should.

Beside is a pair that uses a stream and a consumer of its own, and must notice nothing.
"""

import json
import threading
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.attacks.beside import Attacked, beside
from tests.attacks.crowd import Dialled, crowd, is_answered, send_all, until
from tests.attacks.footprint import MIB
from tests.support.depth import depth
from tests.support.jetstream import Dialogue, Step, request
from tests.support.raw import HEADERS, QUIET, RawClient

API = "$JS.API."
LONG = 3600 * 10**9  # ns
HOUR = 3600 * 10**9
INBOX = b"SUB m.inbox.> 1\r\n"
CONSUMERS_MAX = 10_000


def asked(dialogue: Dialogue, subject: str, body: Any = b"") -> dict[str, Any]:
    (answer,) = dialogue.ask(Step(API + subject, body))
    parsed: dict[str, Any] = json.loads(answer.payload)
    return parsed


def make_stream(dialogue: Dialogue, name: str, *subjects: str) -> None:
    assert "error" not in asked(dialogue, f"STREAM.CREATE.{name}", _stream(name, *subjects))


def _stream(name: str, *subjects: str) -> dict[str, Any]:
    return {"name": name, "subjects": subjects or [f"{name}.>"]}


def create(stream: str, **config: Any) -> tuple[str, dict[str, Any]]:
    config = {"ack_policy": "explicit"} | config
    if name := config.get("durable_name"):
        place = f"CONSUMER.DURABLE.CREATE.{stream}.{name}"
    else:
        place = f"CONSUMER.CREATE.{stream}"
    return API + place, {"stream_name": stream, "config": config}


def answers(one: Dialled) -> int:
    return one.heard.count(b"io.nats.jetstream.api.v1.")


def fill(port: int, subject: bytes, count: int, size: int = 16) -> None:
    with RawClient(port, QUIET) as publisher:
        line = b"PUB %b %d\r\n%b\r\n" % (subject, size, b"p" * size)
        for _ in range(0, count, 1000):
            publisher.ask(line * 1000)


def consumers_of(broker: Attacked, stream: str) -> int:
    """How many there are; asking ends nothing."""
    dialogue = Dialogue(broker.port)
    total: int = asked(dialogue, f"CONSUMER.NAMES.{stream}")["total"]
    dialogue.close()
    return total


def until_none(broker: Attacked, stream: str) -> None:
    broker.until(lambda _: consumers_of(broker, stream) == 0)


@pytest.mark.parametrize(
    ("clients", "each"), [(4, 300), pytest.param(100, 1000, marks=pytest.mark.slow)]
)
def test_given_consumers_without_end_then_there_is_a_bound_and_they_go_with_their_clients(
    clients: int, each: int, tmp_path: Path
) -> None:
    """Each with a pull request that would keep it, if its client were not gone."""
    most = 1000 if clients < 10 else CONSUMERS_MAX
    limit = ["--max_consumers", str(most)]
    kept = (64 if clients < 10 else 160) * MIB  # Python keeps what they took for the next ones
    with beside(tmp_path, "", *limit, streams=True, memory=kept) as broker:
        dialogue = Dialogue(broker.port)
        make_stream(dialogue, "M", "m")
        with crowd(broker.port, clients, from_many=True) as attackers:
            send_all(attackers, HEADERS + INBOX)
            names = [f"{at}" for at in range(each)]
            for begin in range(0, each, 100):
                for at, one in enumerate(attackers):
                    text = b""
                    for name in names[begin : begin + 100]:
                        config: dict[str, Any] = {"name": f"c{at}-{name}", "ack_wait": 10**9}
                        config["inactive_threshold"] = 10**9
                        subject, body = create("M", **config)
                        subject += f".{config['name']}"
                        text += request(Step(subject, body), "m.inbox.1")
                    one.heard.clear()
                    send_all([one], text)
                until(attackers, lambda one: answers(one) >= 100)
                for at, one in enumerate(attackers):
                    text = b""
                    for name in names[begin : begin + 100]:
                        next = f"{API}CONSUMER.MSG.NEXT.M.c{at}-{name}"
                        text += request(Step(next, "1"), "m.inbox.2")
                    send_all([one], text)
            assert most / 2 <= consumers_of(broker, "M") <= most
            fill(broker.port, b"m", 1000)  # they get them
            for one in attackers:
                one.reset()
        until_none(broker, "M")
        dialogue.close()


@pytest.mark.parametrize(
    ("consumers", "each"), [(2, 20_000), pytest.param(20, 65_536, marks=pytest.mark.slow)]
)
def test_given_messages_that_are_never_acknowledged_then_memory_is_bounded(
    consumers: int, each: int, tmp_path: Path
) -> None:
    with beside(tmp_path, streams=True, peak=256 * MIB, memory=160 * MIB) as broker:
        dialogue = Dialogue(broker.port)
        make_stream(dialogue, "M", "m")
        fill(broker.port, b"m", each)
        names = [f"c{at}" for at in range(consumers)]
        for name in names:
            subject, body = create("M", durable_name=name, max_ack_pending=65_536, ack_wait=HOUR)
            assert "error" not in asked(dialogue, subject.removeprefix(API), body)
        with crowd(broker.port, 1) as attackers:
            ask = b"".join(
                request(Step(f"{API}CONSUMER.MSG.NEXT.M.{name}", str(each)), f"m.inbox.{name}")
                for name in names
            )
            send_all(attackers, HEADERS + INBOX + ask)
            for name in names:
                while asked(dialogue, f"CONSUMER.INFO.M.{name}")["num_ack_pending"] < each:
                    attackers[0].read()
                    attackers[0].heard.clear()
        asked(dialogue, "STREAM.DELETE.M")
        dialogue.close()


@pytest.mark.parametrize("count", [20_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_given_forged_acks_in_a_flood_then_they_do_nothing(count: int, tmp_path: Path) -> None:
    """Of unknown consumers, and of one whose messages the forger has never seen."""
    with beside(tmp_path, streams=True) as broker:
        dialogue = Dialogue(broker.port)
        make_stream(dialogue, "M", "m")
        subject, body = create("M", durable_name="c", ack_wait=HOUR)
        asked(dialogue, subject.removeprefix(API), body)
        fill(broker.port, b"m", 1000)
        (message,) = dialogue.ask(Step(f"{API}CONSUMER.MSG.NEXT.M.c", "1"))
        tokens = message.reply.split(b".")
        with crowd(broker.port, 2) as attackers:
            send_all(attackers, HEADERS + INBOX)
            for begin in range(0, count, 2000):
                unknown = b"".join(
                    b"PUB $JS.ACK.M.u%d.1.1.1.1.1%b 4\r\n+ACK\r\n"
                    % (at, b" m.inbox.1" if at % 8 == 0 else b"")
                    for at in range(begin, begin + 1000)
                )
                time = int(tokens[7])
                guessed = b"".join(
                    b"PUB %b.%d.%b 0\r\n\r\n" % (b".".join(tokens[:7]), time + at, tokens[8])
                    for at in range(begin + 1, begin + 1001)
                )
                for one, text in zip(attackers, (unknown, guessed), strict=True):
                    one.heard.clear()
                    send_all([one], text + b"PING\r\n")
                until(attackers, is_answered)
        told = asked(dialogue, "CONSUMER.INFO.M.c")
        assert told["num_ack_pending"] == 1
        assert broker.varz()["subscriptions"] <= 5
        asked(dialogue, "STREAM.DELETE.M")
        dialogue.close()


def test_given_filters_with_all_wildcards_when_published_to_then_nobody_waits(
    tmp_path: Path,
) -> None:
    """Matching a subject would visit more places for each pattern more."""
    chance, tokens = Random(1), 40
    patterns = [".".join(("m", *chance.choices("a*", k=tokens))) for _ in range(500)]
    with beside(tmp_path, streams=True, peak=320 * MIB, memory=128 * MIB) as broker:
        dialogue = Dialogue(broker.port)
        make_stream(dialogue, "M", "m.>")
        refused = 0
        for pattern in patterns:
            subject, body = create("M", filter_subject=pattern)
            told = asked(dialogue, subject.removeprefix(API), body)
            refused += told.get("error", {}).get("err_code", 0) == 10094
        long = [f"n.{at}." + ".".join("*" * 100) for at in range(256)]
        assert refused, "some were too expensive"
        size = sum(map(len, long))
        for _ in range(depth(2, 6)):
            make_stream(dialogue, "N", "n.>")
            made = 0
            while True:
                subject, body = create("N", filter_subjects=long, inactive_threshold=LONG)
                told = asked(dialogue, subject.removeprefix(API), body)
                if "error" in told:
                    break
                made += 1
            assert told["error"]["err_code"] == 10094
            assert made * size <= 2 * MIB
            asked(dialogue, "STREAM.DELETE.N")
        with RawClient(broker.port, QUIET) as publisher:
            for at in range(200):
                text = b"m." + b".".join([b"a"] * (tokens - 1)) + b".%d" % at
                publisher.ask(b"PUB %b 1\r\nx\r\n" % text)
        asked(dialogue, "STREAM.DELETE.M")
        dialogue.close()


@pytest.mark.parametrize("count", [5, pytest.param(100, marks=pytest.mark.slow)])
def test_given_consumers_that_nobody_reads_then_what_is_theirs_stays_in_the_journal(
    count: int, tmp_path: Path
) -> None:
    messages = 20_000
    with beside(tmp_path, streams=True) as broker:
        dialogue = Dialogue(broker.port)
        make_stream(dialogue, "M", "m")
        fill(broker.port, b"m", messages, 1000)
        with crowd(broker.port, count, receive_buffer=4096) as deaf:
            for at, one in enumerate(deaf):
                subject, body = create("M", deliver_subject=f"deaf.{at}", ack_policy="none")
                text = b"SUB deaf.%d 2\r\n" % at + request(Step(subject, body), "m.inbox.1")
                send_all([one], QUIET + text, reading=False)
            broker.until(lambda _: consumers_of(broker, "M") == count)
            fill(broker.port, b"m", messages // 4, 1000)
            for one in deaf:
                one.reset()
        until_none(broker, "M")
        asked(dialogue, "STREAM.DELETE.M")
        dialogue.close()


@pytest.mark.parametrize("rounds", [10, pytest.param(1000, marks=pytest.mark.slow)])
def test_given_requests_and_consumers_that_are_abandoned_then_nothing_of_them_stays(
    rounds: int, tmp_path: Path
) -> None:
    with beside(tmp_path, streams=True) as broker:
        dialogue = Dialogue(broker.port)
        make_stream(dialogue, "M", "m")
        subject, body = create("M", durable_name="c")
        asked(dialogue, subject.removeprefix(API), body)
        with crowd(broker.port, 3) as attackers:
            send_all(attackers, HEADERS)
            for number in range(rounds):
                text = b""
                for at in range(50):
                    inbox = f"m.left.{number}.{at}"
                    text += b"SUB %b %d\r\n" % (inbox.encode(), at + 5)
                    text += request(Step(f"{API}CONSUMER.MSG.NEXT.M.c", "10"), inbox)
                    quick = create("M", inactive_threshold=10**8, name=f"q{number}-{at}")
                    text += request(Step(f"{quick[0]}.q{number}-{at}", quick[1]), inbox)
                    text += b"UNSUB %d\r\n" % (at + 5)
                for one in attackers:
                    one.heard.clear()
                    send_all([one], text + b"PING\r\n")
                until(attackers, is_answered)
            told = asked(dialogue, "CONSUMER.INFO.M.c")
            assert told["num_waiting"] == 0
            broker.until(lambda _: consumers_of(broker, "M") == 1)
        asked(dialogue, "STREAM.DELETE.M")
        dialogue.close()


class Other(threading.Thread):
    """Another client, which sends PING after PING; how many were answered."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.answered = 0
        self.over = False
        self._port = port

    def run(self) -> None:
        with RawClient(self._port, QUIET) as client:
            while not self.over:
                client.ask(b"")
                self.answered += 1


def test_given_streams_with_as_many_subjects_as_may_be_when_made_then_nobody_waits(
    tmp_path: Path,
) -> None:
    """Each subject is compared with all others: a million pairs for one stream.

    In hundreds of turns, so others are answered meanwhile, on a slow machine just as often.
    """
    with beside(tmp_path, streams=True, memory=48 * MIB) as broker:
        dialogue, other = Dialogue(broker.port), Other(broker.port)
        other.start()
        for name in "AB":
            before = other.answered
            make_stream(dialogue, name, *(f"m.*.{at}{name}.*" for at in range(1024)))
            assert other.answered > before + 10
        told = asked(dialogue, "STREAM.CREATE.C", _stream("C", "m.*.5A.x"))
        assert told["error"]["err_code"] == 10065
        twice = _stream("C", *(f"c.{at}" for at in range(1000)), "c.*")
        assert "overlaps with" in asked(dialogue, "STREAM.CREATE.C", twice)["error"]["description"]
        other.over = True
        other.join()
        dialogue.close()
