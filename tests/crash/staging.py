"""Publishers of batches against a broker that dies, and the judgement of what it leaves.

finish(folder, batches)     starts a broker on what a crash left: all are published once
"""

import json
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from broker.staging.older_stores import batches_of
from broker.storage.note_file import read_notes
from sequencer.journal import Lost, Reader
from tests.support.raw import HEADERS, Operation, RawClient, WireError
from tests.support.serving import Broker, Client, serving
from tests.support.staging import LISTEN, Batch, is_read, judge, request


def plan(seed: int, count: int) -> list[Batch]:
    """Batches of three applications, of all kinds, in the order in which they are committed."""
    chance, numbers = Random(seed), dict.fromkeys(("one", "two", "three"), 0)
    found = []
    for _ in range(count):
        name = chance.choice(list(numbers))
        numbers[name] += chance.randint(1, 3)
        rows = chance.choice((0, 1, 7, 40, 200, 1200))
        found.append(Batch(name, numbers[name], rows, chance.choice((1, 1, 2, 5))))
    return found


def answered(operations: Iterable[Operation]) -> list[dict[str, Any]]:
    """The answers to commits among what a broker has said."""
    return [
        json.loads(one.payload)
        for one in operations
        if one.subject == b"_INBOX.staging.commit" and one.payload
    ]


def kept(folder: Path, holes: bool = False) -> list[bytes]:
    """The payloads of a journal, in the order of their numbers; nothing is lost between them."""
    records = list(Reader(str(folder)).records())
    assert holes or not [one for one in records if isinstance(one, Lost)]
    return [bytes(one.payload) for one in records if not isinstance(one, Lost)]


def settled(broker: Broker) -> bool:
    """Whether what an earlier broker had promised is done."""
    staging = broker.server.staging
    return staging is None or (is_read(broker) and len(staging.commits) == 0)


def commit(broker: Broker, client: Client, batch: Batch) -> dict[str, Any]:
    """Commit a batch as its publisher would, who knows nothing: stage it where it must be."""
    for attempt in range(3):
        if attempt:
            abort = {"application": batch.application, "batch": batch.number}
            client.ask(request("ABORT", abort))
            for one in batch.pieces(200_000):
                client.ask(one)
        said = client.ask(batch.commit())
        while not said:
            broker.until(lambda: settled(broker))
            said = client.ask(b"")
        answers = [one for one in said if one.subject == b"_INBOX.staging.commit"]
        assert len(answers) == 1, said
        if answers[0].payload:
            answer: dict[str, Any] = json.loads(answers[0].payload)
            return answer
        assert answers[0].header[9:12] in (b"404", b"409"), answers
    raise AssertionError(f"{batch} is not taken: {answers}")


def finish(
    folder: Path, batches: Sequence[Batch], complete: set[Batch], holes: bool = False
) -> int:
    """Start a broker there, and commit the next that is not answered; all is there once then.

    So it is when what was answered last is committed again, by who has not heard that.

    How many were there before anybody asked. With `holes` the journal may have lost what was not
    synced from between what it kept: then rows of what was not answered are in another order.
    """
    asked = [batch for batch in batches if batch not in complete][:2]
    unordered = frozenset(asked if holes else [])
    with serving(folder) as broker:
        broker.until(lambda: settled(broker))
        there = judge(kept(folder, holes), batches, complete, unordered)
        client = broker.client(HEADERS + LISTEN)
        for batch in {batch.application: batch for batch in batches if batch in complete}.values():
            assert commit(broker, client, batch)["repeated"], batch
        for batch in asked:
            answer = commit(broker, client, batch)
            assert answer["rows"] in (batch.rows, 0)
    assert judge(kept(folder, holes), batches, complete | {*asked}, unordered) >= there
    assert not batches_of(read_notes(str(folder / "staging"))).open, "all promises are kept"
    return len(there - complete)


class Lives:
    """The lives of one broker, for publishers in threads of their own."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._life = 0
        self.port = 0
        self.answers = 0

    def born(self, port: int) -> None:
        with self._changed:
            self._life, self.port = self._life + 1, port
            self._changed.notify_all()

    def after(self, life: int) -> int:
        """Wait for a life after this one; which."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._life > life, 60)
            return self._life

    def answered(self) -> None:
        with self._changed:
            self.answers += 1
            self._changed.notify_all()

    def more(self, count: int, publishers: Iterable[threading.Thread]) -> None:
        """Wait for so many more answers, or until nobody publishes any more."""
        with self._changed:
            wanted = self.answers + count
            while self.answers < wanted and any(one.is_alive() for one in publishers):
                self._changed.wait(1.0)


def publish(lives: Lives, batches: Sequence[Batch]) -> None:
    """Publish batches one after the other, each until it is answered, over all lives."""
    dead = 0
    for batch in batches:
        answer: dict[str, Any] | None = None
        while answer is None:
            life = lives.after(dead)
            try:
                with RawClient(lives.port, HEADERS + _own(batch, LISTEN)) as client:
                    answer = _insist(client, batch)
            except (OSError, WireError):
                dead = life
        assert answer["rows"] == batch.rows, answer
        lives.answered()


def _own(batch: Batch, data: bytes) -> bytes:
    """The same with another inbox than other publishers have."""
    return data.replace(b"_INBOX.staging.", b"_INBOX.%b." % batch.application.encode(), 1)


def _insist(client: RawClient, batch: Batch) -> dict[str, Any]:
    """Commit what is there, else stage it and commit it then."""
    for attempt in range(2):
        if attempt:
            abort = {"application": batch.application, "batch": batch.number}
            for one in (request("ABORT", abort), *batch.pieces(900_000)):
                client.send(_own(batch, one))
        client.send(_own(batch, batch.commit()))
        while not (said := client.operation()).subject.endswith(b".commit"):
            pass
        if said.payload:
            answer: dict[str, Any] = json.loads(said.payload)
            return answer
    raise AssertionError(said)
