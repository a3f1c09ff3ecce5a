"""Changes of streams and consumers that are asked for at once: each is whole, also after a restart.

Requests that leave in one write are served at the same time, and each waits for the disk.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.broker.streams.test_consumers import asked, serving
from tests.support.jetstream import Dialogue, Step, request
from tests.support.processes import SeriatimServer
from tests.support.raw import HEADERS, Operation
from tests.support.serving import serving as in_process

API = "$JS.API."
STREAMS = [f"S{at}" for at in range(40)]
ROUNDS = 16  # so many changes that the notes are shortened


def at_once(dialogue: Dialogue, *steps: tuple[str, Any]) -> list[dict[str, Any]]:
    """Ask in one write; the answers, in the order of the questions."""
    dialogue.asked += 1
    inbox = f"{dialogue.inbox}.{dialogue.asked}"
    dialogue.client.send(
        b"".join(
            request(Step(API + subject, body), f"{inbox}.{at}")
            for at, (subject, body) in enumerate(steps)
        )
    )
    found: dict[int, dict[str, Any]] = {}
    while len(found) < len(steps):
        operation = dialogue.client.operation()
        assert operation.subject.startswith(inbox.encode()), operation
        at = int(operation.subject.rpartition(b".")[2])
        assert at not in found, operation
        found[at] = json.loads(operation.payload)
    return [found[at] for at in range(len(steps))]


def stream(name: str) -> tuple[str, Any]:
    return f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name}.>"]}


def durable(name: str, consumer: str, **config: Any) -> tuple[str, Any]:
    config |= {"durable_name": consumer, "ack_policy": "explicit"}
    body = {"stream_name": name, "config": config}
    return f"CONSUMER.DURABLE.CREATE.{name}.{consumer}", body


def number(answer: dict[str, Any]) -> int:
    """Of the error; 0: it has succeeded."""
    error: int = answer.get("error", {}).get("err_code", 0)
    return error


def names(dialogue: Dialogue, streams: Sequence[str]) -> dict[str, set[str]]:
    """The consumers of these streams."""
    return {one: set(asked(dialogue, f"CONSUMER.NAMES.{one}")["consumers"]) for one in streams}


def again(broker: SeriatimServer, dialogue: Dialogue, killed: bool = True) -> Dialogue:
    """Restart the broker, and connect again."""
    dialogue.close()
    if killed:
        broker.kill()
    else:
        broker.stop()
    broker.restart()
    return Dialogue(broker.port)


def test_given_a_durable_consumer_that_nobody_uses_when_it_has_ended_then_it_stays_away(
    tmp_path: Path,
) -> None:
    with serving(tmp_path) as broker:
        dialogue = Dialogue(broker.port)
        asked(dialogue, *stream("S"))
        asked(dialogue, *durable("S", "kept"))
        made = asked(dialogue, *durable("S", "left", inactive_threshold=10**8))
        assert made["name"] == "left"
        assert broker.await_line("consumer left of S has ended")
        dialogue = again(broker, dialogue, killed=False)
        assert names(dialogue, ["S"]) == {"S": {"kept"}}
        dialogue.close()


def test_given_changes_at_once_when_the_notes_are_shortened_then_none_is_lost(
    tmp_path: Path,
) -> None:
    with serving(tmp_path) as broker:
        dialogue = Dialogue(broker.port)
        dialogue.client.widen()
        notes = tmp_path / "streams" / "notes"
        at_once(dialogue, *map(stream, STREAMS))
        at_once(dialogue, *(durable(one, "paused") for one in STREAMS))
        expected = {one: {"paused"} for one in STREAMS}
        before, shortened = notes.stat().st_ino, 0
        for at in range(ROUNDS):
            steps = []
            for one in STREAMS:
                pause = f"CONSUMER.PAUSE.{one}.paused", {"pause_until": "2999-01-01T00:00:00Z"}
                steps += [pause, pause, durable(one, f"c{at}"), pause, pause]
                expected[one].add(f"c{at}")
            answers = at_once(dialogue, *steps)
            assert not any(map(number, answers)), answers
            shortened += notes.stat().st_ino != before
        assert shortened, "the notes were written anew, beside the old ones"
        dialogue = again(broker, dialogue)
        assert names(dialogue, STREAMS) == expected
        dialogue.close()


def test_given_a_stream_that_is_deleted_when_others_wait_for_it_then_they_are_refused(
    tmp_path: Path,
) -> None:
    with serving(tmp_path) as broker:
        dialogue = Dialogue(broker.port)
        at_once(dialogue, stream("S"), stream("T"))
        dialogue.client.send(b"PUB S.1 1\r\nx\r\n")
        found = asked(dialogue, "STREAM.INFO.S")["state"]
        assert found["messages"] == 1
        answers = at_once(
            dialogue,
            ("STREAM.DELETE.S", b""),
            ("STREAM.PURGE.S", {"filter": "S.1"}),
            ("STREAM.MSG.DELETE.S", {"seq": found["last_seq"]}),
            durable("S", "c"),
            durable("T", "c"),
        )
        assert [number(one) for one in answers] == [0, 10059, 10059, 10059, 0]
        assert number(asked(dialogue, "CONSUMER.INFO.S.c")) == 10059
        dialogue = again(broker, dialogue)
        assert asked(dialogue, "STREAM.NAMES")["streams"] == ["T"]
        assert names(dialogue, ["T"]) == {"T": {"c"}}
        dialogue.close()


def test_given_a_consumer_that_is_being_made_then_what_is_asked_after_that_finds_it(
    tmp_path: Path,
) -> None:
    pause = "CONSUMER.PAUSE.S.c", {"pause_until": "2999-01-01T00:00:00Z"}
    with serving(tmp_path) as broker:
        dialogue = Dialogue(broker.port)
        at_once(dialogue, stream("S"))
        answers = at_once(dialogue, durable("S", "c"), ("CONSUMER.DELETE.S.c", b""))
        assert [number(one) for one in answers] == [0, 0]
        assert names(dialogue, ["S"]) == {"S": set()}
        answers = at_once(
            dialogue,
            *(durable("S", "c"), ("CONSUMER.DELETE.S.c", b"")),
            *(durable("S", "c", description="the second"), pause),
        )
        assert [number(one) for one in answers] == [0, 0, 0, 0]
        dialogue = again(broker, dialogue)
        told = asked(dialogue, "CONSUMER.INFO.S.c")
        assert told["config"]["description"] == "the second"
        assert told["paused"] is True
        dialogue.close()


@pytest.mark.parametrize("is_full", [False, True])
def test_given_a_state_that_is_being_noted_when_the_notes_are_shortened_then_the_newer_one_holds(
    is_full: bool, tmp_path: Path
) -> None:
    """An older state behind a newer one would bring back what was acknowledged between them.

    `is_full`: and the disk takes neither, at first.
    """
    with in_process(tmp_path, flags={"streams.enabled": True}) as broker:
        client = broker.client(HEADERS + b"SUB _INBOX.> 1\r\n")

        def ask(subject: str, body: Any = b"") -> Operation:
            found = client.ask(request(Step(API + subject, body), "_INBOX.r"))
            while not found:  # until its task is done
                found = client.ask(b"")
            return found[0]

        ask(*stream("S"))
        client.publish(b"S.1", b"one", b"two")
        service = broker.server.streams
        assert service is not None
        streams, (session,) = service.streams, broker.server.sessions.values()
        for name in ("quiet", "busy"):
            ask(*durable("S", name))
            _, acked = (ask(f"CONSUMER.MSG.NEXT.S.{name}", "1").reply for _ in range(2))
            if name == "quiet":
                broker.until(lambda: not streams._awaited and not streams.consumers.acks.changed)

        async def shorten_amid() -> None:
            streams.consumers._write_state()  # both are unacknowledged
            assert streams.consumers.acknowledge(session.connection, acked, b"", b"+ACK")
            streams._shorten()
            if is_full:
                streams._not_written("no space")

        broker.run(shorten_amid())
    with serving(tmp_path) as process:
        dialogue = Dialogue(process.port)
        for name, unacked in (("quiet", 2), ("busy", 1)):
            told = asked(dialogue, f"CONSUMER.INFO.S.{name}")
            assert (told["delivered"]["consumer_seq"], told["num_ack_pending"]) == (2, unacked)
        dialogue.close()
