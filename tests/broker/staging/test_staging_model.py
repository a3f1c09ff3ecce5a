"""Random programs of publishers, and a broker that stops or is killed between: against a model.

The model is what docs/staging.md says: a few dictionaries, and a list for the journal.
"""

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zlib import crc32

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sequencer.journal import Lost, Reader
from tests.support.depth import examples
from tests.support.serving import serving
from tests.support.staging import Answer, Publisher, Refused, piece, request
from tests.support.stores import in_memory

NAMES, BATCHES, STAGES = ("app", "other"), (0, 1, 2), ("a", "b")
Key = tuple[str, int, str]


def row(key: Key, at: int) -> bytes:
    payload = b"%s %d %s %d" % (key[0].encode(), key[1], key[2].encode(), at)
    return b"PUB rows.%d %d\r\n%b\r\n" % (at % 3, len(payload), payload)


@dataclass
class Model:
    """What must be: stages, the last batch of each application, what was published."""

    stages: dict[Key, bytes] = field(default_factory=dict)
    last: dict[str, tuple[int, int, int, int]] = field(default_factory=dict)
    journal: list[bytes] = field(default_factory=list)

    def stage(self, key: Key, offset: int, data: bytes) -> Answer:
        there = self.stages.get(key, b"")
        if offset > len(there):
            return Refused(409, f"This stage has {len(there)} bytes", len(there))
        self.stages[key] = there + data[len(there) - offset :]
        return {"bytes": len(self.stages[key]), "rows": whole(self.stages[key])}

    def commit(self, name: str, batch: int, stages: list[tuple[str, int, int]]) -> Answer:
        known = self.last.get(name)
        if known and batch <= known[0]:
            self._drop(name, known[0])
            facts = known if known[0] == batch else (batch, 0, 0, 0)
            return answer(name, facts, True)
        for stage, size, crc in stages:
            data = self.stages.get((name, batch, stage))
            if data is None:
                return Refused(404, f"Stage {stage} is not here: it expired, or never was")
            if len(data) != size:
                return Refused(409, f"Stage {stage} has {len(data)} bytes, not {size}")
            if crc32(data) != crc:
                return Refused(409, f"Stage {stage} has another checksum")
            if data and not data.endswith(b"\r\n"):
                return Refused(409, f"Stage {stage} ends in the middle of a row")
        data = b"".join(self.stages[name, batch, stage] for stage, _, _ in stages)
        first, rows = len(self.journal) + 1, whole(data)
        self.journal += data.split(b"\r\n")[1::2]
        facts = (batch, first if rows else 0, len(self.journal) if rows else 0, rows)
        self.last[name] = facts
        self._drop(name, batch)
        return answer(name, facts, False)

    def abort(self, name: str, batch: int, stages: list[str] | None) -> Answer:
        wanted = [(name, batch, stage) for stage in (STAGES if stages is None else stages)]
        return {"dropped": sum(self.stages.pop(key, None) is not None for key in {*wanted})}

    def batch(self, name: str) -> dict[str, Any]:
        batch, first, last, rows = self.last.get(name, (None, 0, 0, 0))
        facts = {"application": name, "batch": batch, "first": first, "last": last, "rows": rows}
        return facts | {"committing": None}

    def restart(self) -> None:
        """What is staged for a batch that is committed is not kept over the life of a broker."""
        for name, (batch, *_) in self.last.items():
            self._drop(name, batch)

    def _drop(self, name: str, batch: int) -> None:
        for key in [key for key in self.stages if key[0] == name and key[1] <= batch]:
            del self.stages[key]


def whole(data: bytes) -> int:
    """Whole rows; these have no line end in their payloads."""
    return data.count(b"\r\n") // 2


def answer(name: str, facts: tuple[int, int, int, int], repeated: bool) -> dict[str, Any]:
    keys = ("batch", "first", "last", "rows")
    return {"application": name, **dict(zip(keys, facts, strict=True)), "repeated": repeated}


keys = st.tuples(st.sampled_from(NAMES), st.sampled_from(BATCHES), st.sampled_from(STAGES))
steps = st.one_of(
    st.tuples(st.just("stage"), keys, st.integers(1, 90), st.sampled_from((0, 0, 0, -20, 5))),
    st.tuples(st.just("stage"), keys, st.integers(1, 90), st.just(0)),
    st.tuples(st.just("finish"), keys),
    st.tuples(st.just("commit"), keys, st.sets(st.sampled_from(STAGES)), st.booleans()),
    st.tuples(st.just("commit"), keys, st.just({"a"}), st.just(True)),
    st.tuples(st.just("abort"), keys, st.booleans()),
    st.tuples(st.just("batch"), keys),
    st.tuples(st.sampled_from(("stop", "kill"))),
)


class Program:
    """Does each step to the model and to a broker, and compares what they say."""

    def __init__(self) -> None:
        self.model = Model()

    def text(self, key: Key, size: int) -> bytes:
        """The rows of a stage, as far as they reach over so many bytes."""
        data, at = b"", 0
        while len(data) < size:
            data, at = data + row(key, at), at + 1
        return data

    def ask(self, step: Any) -> tuple[bytes, Answer]:
        """The request of a step, and what the model answers."""
        word, key = step[0], step[1]
        name, batch, stage = key
        there = self.model.stages.get(key, b"")
        if word == "stage":
            offset = max(len(there) + step[3], 0)
            data = self.text(key, offset + step[2])[offset : offset + step[2]]
            return piece(name, batch, stage, offset, data), self.model.stage(key, offset, data)
        if word == "finish":  # to the end of the row that was cut
            data = self.text(key, len(there))[len(there) :]
            return piece(name, batch, stage, len(there), data), self.model.stage(
                key, len(there), data
            )
        if word == "commit":
            parts = {one: self.model.stages.get((name, batch, one), b"?") for one in step[2]}
            named = [(one, len(part), crc32(part) ^ (not step[3])) for one, part in parts.items()]
            stages = [dict(zip(("stage", "bytes", "crc32"), one, strict=True)) for one in named]
            wish = {"application": name, "batch": batch, "stages": stages}
            return request("COMMIT", wish), self.model.commit(name, batch, named)
        if word == "abort":
            names = [stage] if step[2] else None
            wish = {"application": name, "batch": batch, "stages": names}
            return request("ABORT", wish), self.model.abort(name, batch, names)
        return request("BATCH", {"application": name}), self.model.batch(name)

    def run(self, folder: Path, program: list[Any]) -> Path:
        """Run up to the end of a broker's life; where the next one is to be."""
        with serving(folder) as broker:
            publisher = Publisher(broker)
            while program:
                step = program.pop(0)
                if step[0] in ("stop", "kill"):
                    self.model.restart()
                if step[0] == "stop":
                    return folder
                if step[0] == "kill":  # another one finds what this one has left by now
                    if broker.server.staging is not None:  # its thread may yet delete
                        broker.run(broker.server.staging.files.settle())
                    return Path(shutil.copytree(folder, folder.with_name(folder.name + "-")))
                asked, wanted = self.ask(step)
                told = publisher.one(asked)
                if isinstance(told, dict):
                    told.pop("time", None)
                assert told == wanted, step
        return folder


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(steps, max_size=40))
def test_given_any_program_then_the_broker_says_what_the_model_says(program: list[Any]) -> None:
    model = Program()
    with in_memory() as path:
        folder, left = path / "store", program[:]
        while left:
            folder = model.run(folder, left)
        if folder.exists():
            records = list(Reader(str(folder)).records())
            payloads = [bytes(one.payload) for one in records if not isinstance(one, Lost)]
            assert payloads == model.model.journal
