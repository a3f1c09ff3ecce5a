"""What an operator reads in the log of streams: who did what, and not more than a log can take."""

import json
import re
from pathlib import Path
from typing import Any

from broker.runtime.log_bounds import LINES_MAX
from tests.support.jetstream import Dialogue, Step, request
from tests.support.processes import SeriatimServer

USERS = """
[authorization]
users = [{ user = "ops", password = "sesame" }]
"""
STREAM, CONSUMER = "$JS.API.STREAM.", "$JS.API.CONSUMER."
S: dict[str, Any] = {"name": "S", "subjects": ["s.>", "t"]}


def consumer(name: str, durable: bool = True, **config: Any) -> Step:
    config = {"name": name, "ack_policy": "explicit"} | config
    config |= {"durable_name": name} if durable else {}
    return Step(f"{CONSUMER}CREATE.S.{name}", {"stream_name": "S", "config": config})


def test_given_changes_then_the_log_says_who_has_made_them(tmp_path: Path) -> None:
    (tmp_path / "broker.toml").write_text(USERS)
    arguments = ["--jetstream", "-c", str(tmp_path / "broker.toml")]
    with SeriatimServer("none", arguments=arguments) as broker:
        dialogue = Dialogue(broker.port, "ops", "sesame")
        for step in (
            Step(STREAM + "CREATE.S", S),
            Step(STREAM + "CREATE.S", S),  # nothing changes
            Step(STREAM + "UPDATE.S", S | {"subjects": ["s.>"]}),
            Step("s.1", "hello"),
            Step("s.2", "hello"),
            consumer("desk"),
            consumer("desk"),
            consumer("desk", description="of the desk"),
            consumer("short", durable=False),
            Step(CONSUMER + "RESET.S.desk"),
            Step(CONSUMER + "PAUSE.S.desk", {"pause_until": "2126-11-27T12:00:00Z"}),
            Step(CONSUMER + "PAUSE.S.desk"),
            Step(STREAM + "PURGE.S", {"filter": "s.1"}),
            consumer("gone", inactive_threshold=1_000_000),
        ):
            dialogue.ask(step)
        assert broker.await_line("consumer gone of S has ended: no client was there for 1ms")
        dialogue.ask(Step(CONSUMER + "DELETE.S.desk"))
        dialogue.ask(Step(STREAM + "DELETE.S"))
        dialogue.close()
        assert broker.await_line("Stream S was deleted")
        found = (re.search(r"\[INF\] 127\.0\.0\.1:\d+ - cid:\d+ - (.*)", one) for one in broker.log)
        said = [one[1] for one in found if one]
    assert said == [
        "Stream S was created, of s.>, t, from number 1 on (user ops)",
        "Stream S was changed, of s.> (user ops)",
        "Consumer desk of S was created (user ops)",
        "Consumer desk of S was changed (user ops)",
        "Consumer desk of S was reset, to number 1 (user ops)",
        "Consumer desk of S pauses until 2126-11-27T12:00:00Z (user ops)",
        "Consumer desk of S goes on (user ops)",
        "Stream S was purged of s.1, 1 in number (user ops)",
        "Consumer gone of S was created (user ops)",
        "Consumer desk of S was deleted (user ops)",
        "Stream S was deleted, with 1 consumers (user ops)",
    ]


def test_given_a_log_as_json_then_a_line_has_the_client() -> None:
    with SeriatimServer("none", arguments=["--jetstream", "--log_format", "json"]) as broker:
        dialogue = Dialogue(broker.port)
        dialogue.ask(Step(STREAM + "CREATE.S", S))
        dialogue.close()
        assert broker.await_line("Stream S was created")
        (line,) = [json.loads(one) for one in broker.log if "Stream S was created" in one]
    assert line["message"] == "Stream S was created, of s.>, t, from number 1 on"
    assert line["client"].startswith("127.0.0.1:")
    assert line["cid"] > 0


def test_given_a_flood_of_consumers_then_the_log_stays_short() -> None:
    with SeriatimServer("none", arguments=["--jetstream"]) as broker:
        dialogue = Dialogue(broker.port)
        dialogue.ask(Step(STREAM + "CREATE.S", S))
        for first in range(0, 5 * LINES_MAX, LINES_MAX):
            made = [consumer(f"c{at}") for at in range(first, first + LINES_MAX)]
            gone = [Step(f"{CONSUMER}DELETE.S.c{at}") for at in range(first, first + LINES_MAX)]
            for steps in (made, gone):
                reply = f"{dialogue.inbox}.flood"
                dialogue.client.send(b"".join(request(one, reply) for one in steps))
                for _ in steps:
                    dialogue.client.operation()
        dialogue.close()
        for word in ("created", "deleted"):
            lines = [one for one in broker.log if "Consumer c" in one and word in one]
            assert len(lines) <= 2 * LINES_MAX  # the text is the same, and a minute may have passed
            assert any("more such lines are left out for a minute" in one for one in broker.log)


def test_given_a_message_that_nobody_acknowledges_then_the_log_says_that_it_is_given_up() -> None:
    with SeriatimServer("none", arguments=["--jetstream"]) as broker:
        dialogue = Dialogue(broker.port)
        dialogue.ask(Step(STREAM + "CREATE.S", S))
        dialogue.ask(consumer("desk", ack_wait=1_000_000, max_deliver=2))
        dialogue.ask(Step("t", "poison"))
        dialogue.ask(
            Step(f"{CONSUMER}MSG.NEXT.S.desk", {"batch": 2, "expires": 30 * 10**9}, answers=2)
        )
        assert broker.await_line("consumer desk of S gave message 1 up: sent 2 times (max_deliver)")
        dialogue.close()
