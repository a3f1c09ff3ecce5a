"""The bounds of streams and consumers: what is above them is refused, with the API's own errors."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.streams import consumer_bounds, streams
from broker.streams.consumer_bounds import EPHEMERAL_MOST, PENDING_FEW, REQUESTS_MOST
from broker.streams.stream_consumer import WAITING_MOST
from tests.attacks.footprint import MIB, footprint
from tests.broker.streams.test_changes_at_once import at_once, durable, number, stream
from tests.broker.streams.test_consumers import asked, serving
from tests.support.jetstream import Dialogue, Step, request
from tests.support.raw import HEADERS, Operation
from tests.support.serving import serving as in_process

API = "$JS.API."
TOO_MANY = b"NATS/1.0 409 Exceeded MaxWaiting\r\n\r\n"
LONG = 3600 * 10**9
LARGE: dict[str, tuple[str, Any, int]] = {
    "too many filters": (
        "CONSUMER.DURABLE.CREATE.S.c",
        {"config": {"durable_name": "c", "filter_subjects": [f"S.{at}" for at in range(257)]}},
        10094,
    ),
    "a long description of a consumer": (*durable("S", "c", description="x" * 4097), 10107),
    "much metadata of a consumer": (*durable("S", "c", metadata={"a": "x" * (16 << 10)}), 10135),
    "a long name of a consumer": (*durable("S", "c" * 256), 10102),
    "many unacknowledged": (*durable("S", "c", max_ack_pending=65_537), 10121),
    "too many subjects": (
        "STREAM.CREATE.T",
        {"name": "T", "subjects": [f"t.{at}" for at in range(1025)]},
        10052,
    ),
    "long subjects": (
        "STREAM.CREATE.T",
        {"name": "T", "subjects": [f"t.{at}." + 250 * "x" for at in range(300)]},
        10052,
    ),
    "a long description": ("STREAM.CREATE.T", {"name": "T", "description": "x" * 4097}, 10052),
    "a long name": (f"STREAM.CREATE.{'T' * 256}", {"name": "T" * 256}, 10052),
    "one stream too many": (*stream("T"), 10027),
}


def ephemeral(name: str = "S", **config: Any) -> tuple[str, Any]:
    config = {"ack_policy": "explicit", "inactive_threshold": LONG} | config
    return f"CONSUMER.CREATE.{name}", {"stream_name": name, "config": config}


@pytest.mark.parametrize("case", LARGE)
def test_given_a_configuration_above_a_bound_then_it_is_refused(case: str, tmp_path: Path) -> None:
    subject, body, expected = LARGE[case]
    if isinstance(body, dict) and "config" in body:
        body = {"stream_name": "S", **body}
    with serving(tmp_path, "--max_streams", "1") as broker:
        dialogue = Dialogue(broker.port)
        asked(dialogue, *stream("S"))
        refused = asked(dialogue, subject, body)
        assert number(refused) == expected, refused
        dialogue.close()


def test_given_a_connection_with_many_ephemeral_consumers_then_it_gets_no_more_and_others_do(
    tmp_path: Path,
) -> None:
    with serving(tmp_path) as broker:
        dialogue, other = Dialogue(broker.port), Dialogue(broker.port)
        dialogue.client.widen()
        asked(dialogue, *stream("S"))
        made: list[str] = []
        while len(made) < EPHEMERAL_MOST:
            answers = at_once(dialogue, *(ephemeral() for _ in range(200)))
            made += [one["name"] for one in answers]
        refused = asked(dialogue, *ephemeral())["error"]
        assert refused["err_code"] == 10026
        assert refused["description"].endswith("this connection has 1000 ephemeral ones")
        assert not number(asked(dialogue, *durable("S", "c")))
        assert not number(asked(other, *ephemeral()))
        assert not number(asked(dialogue, f"CONSUMER.DELETE.S.{made[0]}"))
        assert not number(asked(dialogue, *ephemeral()))
        for one in (dialogue, other):
            one.close()


def test_given_many_open_pull_requests_then_the_connection_gets_no_more_until_some_have_ended(
    tmp_path: Path,
) -> None:
    with serving(tmp_path) as broker:
        dialogue = Dialogue(broker.port)
        asked(dialogue, *stream("S"))
        names = [f"c{at}" for at in range(5)]
        for name in names:
            asked(dialogue, *durable("S", name, max_waiting=1000))
        dialogue.client.send(b"SUB left.> 2\r\n")
        for at in range(REQUESTS_MOST):
            step = Step(f"{API}CONSUMER.MSG.NEXT.S.{names[at % 5]}", "1")
            dialogue.client.send(request(step, "left.1"))
        assert not dialogue.client.ask(b"")
        (refused,) = dialogue.ask(Step(f"{API}CONSUMER.MSG.NEXT.S.c0", "1"))
        assert refused.header == TOO_MANY
        (waiting,) = (asked(dialogue, "CONSUMER.INFO.S.c0")["num_waiting"],)
        assert waiting == -(-REQUESTS_MOST // 5)
        dialogue.client.send(b"UNSUB 2\r\nPUB S.1 1\r\nx\r\n")
        (message,) = dialogue.ask(Step(f"{API}CONSUMER.MSG.NEXT.S.c0", "1"))
        assert message.payload == b"x"
        dialogue.close()


def test_given_a_consumer_that_lets_many_wait_then_there_is_a_bound_all_the_same(
    tmp_path: Path,
) -> None:
    with serving(tmp_path) as broker:
        dialogues = [Dialogue(broker.port) for _ in range(2)]
        asked(dialogues[0], *stream("S"))
        asked(dialogues[0], *durable("S", "c", max_waiting=10**9))
        for dialogue in dialogues:
            step = Step(f"{API}CONSUMER.MSG.NEXT.S.c", "1")
            dialogue.client.send(request(step, dialogue.inbox + ".w") * (WAITING_MOST // 2))
            assert not dialogue.client.ask(b"")
        (refused,) = dialogues[0].ask(step)
        assert refused.header == TOO_MANY
        for dialogue in dialogues:
            dialogue.close()


@pytest.mark.parametrize("by_ack", [False, True])
@pytest.mark.parametrize("by_reset", [False, True])
def test_given_requests_that_were_abandoned_then_their_consumer_ends_as_if_nobody_had_asked(
    by_ack: bool, by_reset: bool, tmp_path: Path
) -> None:
    """Without an end of its own, such a request would keep an ephemeral consumer for ever."""
    with serving(tmp_path, "-D") as broker:
        dialogue, other = Dialogue(broker.port), Dialogue(broker.port)
        asked(other, *stream("S"))
        other.client.ask(b"PUB S.1 1\r\nx\r\n")
        name = asked(dialogue, *ephemeral(inactive_threshold=10**8, ack_wait=10**8))["name"]
        next = f"{API}CONSUMER.MSG.NEXT.S.{name}"
        dialogue.client.send(b"SUB left 2\r\n")
        if by_ack:
            (message,) = dialogue.ask(Step(next, "1"))
            dialogue.client.send(request(Step(message.reply.decode(), "+NXT"), "left"))
        else:
            dialogue.client.send(request(Step(next, '{"batch": 5}'), "left"))
        dialogue.client.ask(b"")
        if by_reset:
            dialogue.client.reset()
        else:
            dialogue.client.ask(b"UNSUB 2\r\n")
        assert broker.await_line(f"consumer {name} of S has ended")
        assert asked(other, "CONSUMER.NAMES.S")["consumers"] == []
        for one in (dialogue, other):
            one.close()


def test_given_much_unacknowledged_in_all_then_only_consumers_with_little_of_it_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound = 500
    monkeypatch.setattr(consumer_bounds, "PENDING_MOST", bound)
    with in_process(tmp_path, flags={"streams.enabled": True}) as broker:
        client = broker.client(HEADERS + b"SUB _INBOX.> 1\r\nSUB greedy 2\r\nSUB good 3\r\n")
        heard: list[Operation] = []

        def say(subject: str, body: Any = b"", reply: str = "_INBOX.r") -> None:
            heard.extend(client.ask(request(Step(subject, body), reply)))

        def until(true: Callable[[], bool]) -> None:
            while not true():
                heard.extend(client.ask(b""))

        def got(sid: bytes) -> list[bytes]:
            return [one.reply for one in heard if one.sid == sid and one.reply]

        for what in (stream("S"), durable("S", "greedy"), durable("S", "good")):
            heard.clear()
            say(API + what[0], what[1])
            until(lambda: any(one.sid == b"1" for one in heard))
        client.publish(b"S.1", *[b"x"] * 900)
        say(API + "CONSUMER.MSG.NEXT.S.greedy", "900", "greedy")
        until(lambda: len(got(b"2")) == bound)
        say(API + "CONSUMER.MSG.NEXT.S.good", "400", "good")
        acked = 0
        while acked < 400:  # the other one goes on, little by little
            until(lambda: len(got(b"3")) > acked)  # noqa: B023
            assert len(got(b"3")) <= acked + PENDING_FEW
            for reply in got(b"3")[acked:]:
                say(reply.decode(), b"+ACK", "")
                acked += 1
        assert len(got(b"2")) == bound, "the greedy one waits"
        for reply in got(b"2")[:400]:
            say(reply.decode(), b"+ACK", "")
        until(lambda: len(got(b"2")) == 900)
        client.close()


def test_given_many_messages_deleted_one_by_one_then_the_next_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "DELETED_MAX", 2)
    with in_process(tmp_path, flags={"streams.enabled": True}) as broker:
        client = broker.client(HEADERS + b"SUB _INBOX.> 1\r\n")

        def ask(subject: str, body: Any) -> int:
            found = client.ask(request(Step(API + subject, body), "_INBOX.r"))
            while not found:  # until its task is done
                found = client.ask(b"")
            return number(json.loads(found[0].payload))

        ask(*stream("S"))
        client.publish(b"S.1", *[b"x"] * 4)
        deleted = [ask("STREAM.MSG.DELETE.S", {"seq": at}) for at in (2, 3, 4)]
        assert deleted == [0, 0, 10057]


def test_given_consumers_that_come_and_go_then_nothing_is_left_of_them(tmp_path: Path) -> None:
    """Also of those that would have been inactive an hour later."""
    with serving(tmp_path) as broker:
        dialogue = Dialogue(broker.port)
        dialogue.client.widen()
        asked(dialogue, *stream("S"))
        sizes = []
        for _ in range(4):
            for _ in range(4):
                made = at_once(dialogue, *(ephemeral() for _ in range(250)))
                gone = (("CONSUMER.DELETE.S." + one["name"], b"") for one in made)
                assert not any(map(number, at_once(dialogue, *gone)))
            sizes.append(footprint(broker.pid).memory)
        assert sizes[-1] - sizes[0] < 3 * MIB, sizes  # it were 4 MiB for each round
        dialogue.close()


def test_given_as_many_subjects_as_there_may_be_then_another_one_has_no_place(
    tmp_path: Path,
) -> None:
    most = 1000
    with serving(tmp_path, "--max_subjects", str(most)) as broker:
        dialogue = Dialogue(broker.port)
        asked(dialogue, "STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"]})
        dialogue.client.send(b"".join(b"PUB s.%d 1\r\nx\r\n" % at for at in range(most)))
        dialogue.client.ask(b"")

        def publish(subject: str) -> dict[str, Any]:
            (answer,) = dialogue.ask(Step(subject, "x"))
            shown: dict[str, Any] = json.loads(answer.payload)
            return shown

        refused = publish("s.another")
        assert refused["error"]["err_code"] == 10047, refused
        assert "max_subjects" in refused["error"]["description"]
        assert (refused["stream"], refused["seq"]) == ("S", 0)
        assert publish("s.7")["seq"] == most + 1, "no number was given to the one before"
        state = asked(dialogue, "STREAM.INFO.S")["state"]
        assert (state["messages"], state["num_subjects"]) == (most + 1, most)
        assert asked(dialogue, "STREAM.PURGE.S", {"filter": "s.3"})["purged"] == 1
        assert publish("s.another")["seq"] == most + 2
        assert publish("s.third")["error"]["err_code"] == 10047
        asked(dialogue, "STREAM.DELETE.S")
        asked(dialogue, "STREAM.CREATE.T", {"name": "T", "subjects": ["t.>"]})
        assert "error" not in publish("t.1")
        dialogue.close()
        broker.stop()
        broker.restart()
        dialogue = Dialogue(broker.port)
        assert asked(dialogue, "STREAM.INFO.T")["state"]["num_subjects"] == 1
        dialogue.close()


def test_given_a_flood_of_subjects_without_pub_acks_then_memory_has_a_bound(tmp_path: Path) -> None:
    most, spare, more = 1000, 131_072, 20_000
    with serving(tmp_path, "--max_subjects", str(most)) as broker:
        dialogue = Dialogue(broker.port)
        asked(dialogue, "STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"]})
        for first in range(0, most + spare + more, 1000):
            dialogue.client.send(
                b"".join(b"PUB s.%d 0\r\n\r\n" % at for at in range(first, first + 1000))
            )
        dialogue.client.ask(b"")
        state = asked(dialogue, "STREAM.INFO.S")["state"]
        assert (state["messages"], state["num_subjects"]) == (most + spare, most + spare)
        whole = asked(dialogue, "STREAM.INFO.SEQ")["state"]
        assert whole["messages"] > most + spare + more - 1000, "they have numbers"
        assert broker.await_line("messages are in no stream")
        dialogue.close()
