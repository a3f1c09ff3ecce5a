"""Ledgers come from the last clean stop, if they still hold; otherwise the journal is read."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.jetstream import Dialogue, Step
from tests.support.processes import SeriatimServer

READ = "Streams: "


def serving(store: Path) -> SeriatimServer:
    return SeriatimServer("none", arguments=["--jetstream"], store=store)


def asked(broker: SeriatimServer, subject: str, body: Any = b"") -> dict[str, Any]:
    dialogue = Dialogue(broker.port)
    (answer,) = dialogue.ask(Step("$JS.API." + subject, body))
    dialogue.close()
    parsed: dict[str, Any] = json.loads(answer.payload)
    assert "error" not in parsed, parsed
    return parsed


def publish(broker: SeriatimServer, count: int) -> None:
    dialogue = Dialogue(broker.port)
    for at in range(count):
        dialogue.client.send(b"PUB %b.%d 5\r\nhello\r\n" % (b"sto"[at % 3 : at % 3 + 1], at % 7))
    dialogue.client.ask(b"")
    dialogue.close()


def states(broker: SeriatimServer) -> Any:
    """What can be asked of both streams."""
    wanted = {"subjects_filter": ">", "deleted_details": True}
    return [asked(broker, f"STREAM.INFO.{name}", wanted)["state"] for name in "ST"]


def read_from(broker: SeriatimServer) -> int:
    """From which number on the journal was read at the start."""
    asked(broker, "STREAM.INFO.S")  # it is ready
    assert broker.await_line("durable consumers; read from number"), broker.log
    (line,) = [line for line in broker.log if "durable consumers; read from number" in line]
    return int(line.partition("from number ")[2].split()[0])


def filled(broker: SeriatimServer) -> None:
    publish(broker, 21)
    for name in "ST":
        subjects = [f"{name.lower()}.>"]
        asked(broker, f"STREAM.CREATE.{name}", {"name": name, "subjects": subjects, "first_seq": 4})
    publish(broker, 210)
    asked(broker, "STREAM.PURGE.S", {"filter": "s.3"})
    asked(broker, "STREAM.MSG.DELETE.T", {"seq": 50})
    publish(broker, 9)


def test_given_a_clean_stop_then_nothing_is_read_again(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:
        filled(broker)
        before = states(broker)
        broker.stop()
        broker.restart()
        assert read_from(broker) == 241
        assert states(broker) == before
        publish(broker, 30)
        after = states(broker)
        broker.kill()
        broker.restart()
        assert read_from(broker) == 241, "what came after the stop"
        assert states(broker) == after
        broker.stop()
        (tmp_path / "streams" / "ledgers").unlink()
        broker.restart()
        assert read_from(broker) == 4
        assert states(broker) == after


def change(body: bytes) -> bytes:
    at = len(body) * 2 // 3
    return body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :]


@pytest.mark.parametrize(
    "harm",
    [change, lambda body: body[: len(body) // 2], lambda body: b"", lambda body: b"\xff" + body],
    ids=["changed", "cut", "empty", "another"],
)
def test_given_a_damaged_file_then_the_journal_is_read(
    tmp_path: Path, harm: Callable[[bytes], bytes]
) -> None:
    with serving(tmp_path) as broker:
        filled(broker)
        before = states(broker)
        broker.stop()
        file = tmp_path / "streams" / "ledgers"
        file.write_bytes(harm(file.read_bytes()))
        broker.restart()
        assert read_from(broker) == 4
        assert states(broker) == before


CHANGES: list[tuple[str, Any]] = [
    ("STREAM.PURGE.S", {"keep": 5}),
    ("STREAM.MSG.DELETE.T", {"seq": 53}),
    ("STREAM.UPDATE.S", {"name": "S", "subjects": ["s.>", "o.1"], "first_seq": 4}),
    ("STREAM.CREATE.O", {"name": "O", "subjects": ["o.>"], "first_seq": 1}),
]


@pytest.mark.parametrize(("subject", "body"), CHANGES, ids=[one[0] for one in CHANGES])
def test_given_a_change_and_a_kill_then_the_journal_is_read(
    tmp_path: Path, subject: str, body: Any
) -> None:
    with serving(tmp_path) as broker:
        filled(broker)
        broker.stop()
        broker.restart()
        asked(broker, subject, body)
        publish(broker, 9)
        before = states(broker)
        broker.kill()
        broker.restart()
        assert read_from(broker) <= 4
        assert states(broker) == before


def test_given_starts_and_kills_at_random_then_streams_are_as_before(tmp_path: Path) -> None:
    chosen = random.Random(7)
    with serving(tmp_path) as broker:
        filled(broker)
        for _ in range(8):
            publish(broker, chosen.randrange(40))
            if chosen.random() < 0.5:
                asked(broker, "STREAM.PURGE.T", {"filter": f"t.{chosen.randrange(7)}"})
            before = states(broker)
            if chosen.random() < 0.5:
                broker.kill()
            else:
                broker.stop()
            broker.restart()
            assert states(broker) == before
