"""Streams against a list of all messages: what is visible, across purges, restarts and kills.

The model keeps every message, and what was asked, and recounts from the beginning each time. The
broker is a real process: it is stopped and killed between steps.
"""

import json
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.jetstream import Dialogue, Step
from tests.support.processes import SeriatimServer

API = "$JS.API.STREAM."
SUBJECTS = ("a.1", "a.2", "b.1", "b.2.x", "c")
CONFIGS = (("a.>",), ("a.*", "b.>"), ("b.2.x",), ("a.1", "c"))


def covers(pattern: str, subject: str) -> bool:
    wanted, given = pattern.split("."), subject.split(".")
    for at, token in enumerate(wanted):
        if token == ">":
            return len(given) > at
        if at >= len(given) or token not in ("*", given[at]):
            return False
    return len(wanted) == len(given)


@dataclass
class Message:
    number: int
    subject: str
    size: int


@dataclass
class Model:
    """One stream: its messages in order, and those that are visible."""

    messages: list[Message] = field(default_factory=list)
    subjects: tuple[str, ...] = ()
    visible: list[Message] = field(default_factory=list)
    deleted: set[int] = field(default_factory=set)
    last: int = 0

    def published(self, number: int, subject: str, size: int) -> None:
        if any(covers(pattern, subject) for pattern in self.subjects):
            message = Message(number, subject, 30 + len(subject) + size)
            self.visible.append(message)
            self.last = number

    def purge(self, filter: str, below: int, keep: int) -> int:
        chosen = [one for one in self.visible if covers(filter, one.subject)]
        if below:
            chosen = [one for one in chosen if one.number < below]
        if keep:
            chosen = chosen[: max(len(chosen) - keep, 0)]
        gone = {one.number for one in chosen}
        self.visible = [one for one in self.visible if one.number not in gone]
        return len(gone)

    def state(self) -> dict[str, Any]:
        shown = self.visible
        subjects: dict[str, int] = {}
        for one in shown:
            subjects[one.subject] = subjects.get(one.subject, 0) + 1
        first = shown[0].number if shown else (self.last + 1 if self.last else 0)
        return {
            "messages": len(shown),
            "bytes": sum(one.size for one in shown),
            "first_seq": first,
            "last_seq": self.last,
            "subjects": subjects,
        }


class Exercise:
    """A broker and the model of its stream `S`."""

    def __init__(self, broker: SeriatimServer, chance: random.Random) -> None:
        self.broker = broker
        self.chance = chance
        self.model = Model()
        self.number = 0
        self.dialogue = Dialogue(broker.port)

    def ask(self, subject: str, body: Any = b"") -> Any:
        (answer,) = self.dialogue.ask(Step(API + subject, body))
        return json.loads(answer.payload)

    def create(self) -> None:
        subjects = self.chance.choice(CONFIGS)
        answer = self.ask("CREATE.S", {"name": "S", "subjects": subjects})
        assert "error" not in answer, answer
        self.model = Model(subjects=subjects)

    def update(self) -> None:
        subjects = self.chance.choice(CONFIGS)
        assert "error" not in self.ask("UPDATE.S", {"name": "S", "subjects": subjects})
        self.model.subjects = subjects

    def publish(self) -> None:
        for _ in range(self.chance.randrange(1, 30)):
            subject = self.chance.choice(SUBJECTS)
            payload = "x" * self.chance.randrange(40)
            self.number += 1
            reply = b"PUB %b %d\r\n%b\r\n"
            self.dialogue.client.send(reply % (subject.encode(), len(payload), payload.encode()))
            self.model.published(self.number, subject, len(payload))
        self.dialogue.client.ask(b"")

    def purge(self) -> None:
        filter = self.chance.choice((">", "a.*", "a.1", "b.>", "none"))
        kind = self.chance.randrange(3)
        below = self.chance.randrange(1, self.number + 2) if kind == 1 else 0
        keep = self.chance.randrange(1, 12) if kind == 2 else 0
        body = {"filter": filter} | ({"seq": below} if below else {})
        answer = self.ask("PURGE.S", body | ({"keep": keep} if keep else {}))
        assert answer["purged"] == self.model.purge(filter, below, keep), (answer, body, keep)

    def delete_message(self) -> None:
        number = self.chance.randrange(1, self.number + 2)
        answer = self.ask("MSG.DELETE.S", {"seq": number})
        there = [one for one in self.model.visible if one.number == number]
        assert answer.get("success", False) == bool(there), answer
        self.model.visible = [one for one in self.model.visible if one.number != number]

    def restart(self) -> None:
        self.dialogue.close()
        if self.chance.randrange(2):
            self.broker.stop()
        else:
            self.broker.kill()
        self.broker.restart()
        self.dialogue = Dialogue(self.broker.port)

    def check(self) -> None:
        state = self.ask("INFO.S", {"subjects_filter": ">"})["state"]
        found = {name: state.get(name, {}) for name in ("messages", "bytes", "first_seq")}
        found |= {"last_seq": state["last_seq"], "subjects": state.get("subjects", {})}
        assert found == self.model.state()
        for subject in SUBJECTS:
            last = [one.number for one in self.model.visible if one.subject == subject]
            answer = self.ask("MSG.GET.S", {"last_by_subj": subject})
            assert answer.get("message", {}).get("seq", 0) == (last[-1] if last else 0), subject
        number = self.chance.randrange(1, self.number + 2)
        following = [one.number for one in self.model.visible if one.number >= number]
        answer = self.ask("MSG.GET.S", {"seq": number, "next_by_subj": ">"})
        found_number = answer.get("message", {}).get("seq", 0)
        assert found_number == (following[0] if following else 0), number
        answer = self.ask("MSG.GET.S", {"seq": number})
        is_there = any(one.number == number for one in self.model.visible)
        assert ("message" in answer) == is_there


STEPS = ("publish", "publish", "publish", "purge", "delete_message", "delete_message", "update")


@pytest.mark.parametrize("seed", range(6))
def test_given_any_requests_when_recounted_then_the_stream_shows_the_same(
    seed: int, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    arguments = ["--jetstream", "--journal.segment_bytes", "64KiB"]
    with SeriatimServer(arguments=arguments, store=tmp_path / "store") as broker:
        tested = Exercise(broker, chance)
        tested.publish()
        tested.create()
        for at in range(120):
            name = chance.choice(STEPS) if at % 20 else "restart"
            getattr(tested, name)()
            tested.check()
        tested.dialogue.close()
