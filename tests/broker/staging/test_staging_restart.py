"""Staging over restarts: what is found again, continued, given up, and expired.

Most tests find a promise in the notes, and once more in the files of an older broker.
"""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from broker.staging.older_stores import batches_of
from broker.staging.staging_service import StagingService
from broker.storage.note_file import read_notes
from broker.storage.sealed_lines import seal
from tests.crash.staging import kept, settled
from tests.support.serving import Broker, serving
from tests.support.staging import (
    ORIGIN,
    Batch,
    Publisher,
    Refused,
    append_rows,
    engine_of,
    intent_file,
    judge,
    leave_as_older,
    piece,
    promise,
    request,
)
from tests.support.stores import open_store

ROW = b"PUB orders 5\r\nhello\r\n"


@pytest.fixture(params=["note", "intent"])
def form(request: pytest.FixtureRequest) -> str:
    """How a promise was written: as a note, or by an older broker in a file of its own."""
    return str(request.param)


def files(folder: Path) -> list[str]:
    return [path.name for path in (folder / "staging").iterdir()]


def promises(folder: Path) -> list[dict[str, Any]]:
    """The promises without an end."""
    return list(batches_of(read_notes(str(folder / "staging"))).open.values())


@pytest.mark.parametrize("there", [0, 1, 25, 39, 40])
def test_given_a_promise_when_started_then_the_rows_that_are_missing_are_published(
    tmp_path: Path, there: int, form: str
) -> None:
    batch = Batch("app", 5, 40, stages=3)
    promise(tmp_path, batch, there, form)
    with serving(tmp_path) as broker:
        publisher = Publisher(broker)
        answer = publisher.one(batch.commit())
        assert isinstance(answer, dict)
        assert (answer["first"], answer["last"], answer["rows"]) == (2, 41, 40)
        assert publisher.one(batch.commit()) == answer | {"repeated": True}
    assert judge(kept(tmp_path), [batch], {batch}) == {batch}
    assert files(tmp_path) == ["notes"]
    assert promises(tmp_path) == []


def test_given_a_promise_when_nobody_asks_then_it_is_kept_all_the_same(tmp_path: Path) -> None:
    batch = Batch("app", 5, 40)
    promise(tmp_path, batch, 7)
    with serving(tmp_path) as broker:
        broker.until(lambda: settled(broker))
        assert broker.server.last_number == 41
    assert judge(kept(tmp_path), [batch], {batch}) == {batch}


def test_given_rows_that_a_power_cut_has_taken_from_between_then_those_are_published(
    tmp_path: Path, form: str
) -> None:
    batch = Batch("app", 5, 40, stages=2)
    promise(tmp_path, batch, 0, form)
    store = open_store(tmp_path)
    for rows in (range(5, 10), range(12, 13), range(30, 35)):
        append_rows(store, batch, rows, ORIGIN)
    store.close()
    with serving(tmp_path) as broker:
        broker.until(lambda: settled(broker))
        answer = Publisher(broker).one(batch.commit())
        assert isinstance(answer, dict)
        assert (answer["first"], answer["last"], answer["rows"]) == (2, 41, 40)
    assert judge(kept(tmp_path), [batch], {batch}, frozenset({batch})) == {batch}


def test_given_a_promise_from_beyond_the_journals_end_then_a_second_crash_finds_its_rows(
    tmp_path: Path, form: str
) -> None:
    """A power cut has taken what came before it, too: others have had those numbers before."""
    batch = Batch("app", 5, 30_000)
    promise(tmp_path, batch, 0, form, after=1000)
    with serving(tmp_path) as broker:
        broker.until(lambda: broker.server.last_number > 1000)
        assert [one["after"] for one in promises(tmp_path)] == [1]
        broker.stop()
        assert broker.server.last_number < batch.rows, "it was stopped in the middle"
    with serving(tmp_path) as broker:
        broker.until(lambda: settled(broker))
    assert judge(kept(tmp_path), [batch], {batch}) == {batch}


def test_given_a_promise_whose_stage_is_not_on_the_disk_then_it_was_none(
    tmp_path: Path, form: str
) -> None:
    batch = Batch("app", 5, 40, stages=2)
    promise(tmp_path, batch, 0, form)
    stage = sorted((tmp_path / "staging").glob("*.stage"))[1]
    stage.write_bytes(stage.read_bytes()[:-10])
    with serving(tmp_path) as broker:
        publisher = Publisher(broker)
        refused = publisher.one(batch.commit())
        assert isinstance(refused, Refused)
        assert (refused.status, broker.server.last_number) == (404, 1), "no stage was judged"
        broker.until(lambda: not list((tmp_path / "staging").glob("*.stage")))
        assert publisher.publish(batch)["rows"] == 40
    with serving(tmp_path) as broker:
        assert Publisher(broker).one(batch.commit()) != refused
    assert judge(kept(tmp_path), [batch], {batch}) == {batch}


def test_given_a_promise_that_is_begun_and_cannot_be_kept_then_it_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, form: str
) -> None:
    batch = Batch("app", 5, 40)
    promise(tmp_path, batch, 7, form)
    (stage,) = (tmp_path / "staging").glob("*.stage")
    os.unlink(stage)
    words = (
        "Batch 5 of app was committed, and 33 of its 40 rows cannot be published:"
        " stage 0-0 of it is damaged or missing"
    )
    for _ in range(2):
        with serving(tmp_path) as broker:
            assert Publisher(broker).one(batch.commit()) == Refused(500, words)
            assert Publisher(broker).publish(Batch("other", 1, 3))["rows"] == 3
    assert "33 of its 40 rows cannot be published" in caplog.text
    assert [one["batch"] for one in promises(tmp_path)] == [5]


def test_given_a_promise_that_cannot_be_kept_then_what_is_left_of_it_stays(tmp_path: Path) -> None:
    batch = Batch("app", 5, 40, stages=2)
    promise(tmp_path, batch, 7)
    missing = sorted((tmp_path / "staging").glob("*.stage"))[1]
    kept_beside = missing.rename(tmp_path / "beside")
    with serving(tmp_path, flags={"staging.expiry": "0.1s"}) as broker:
        publisher, staging = Publisher(broker), broker.server.staging
        assert staging is not None
        assert publisher.one(request("ABORT", {"application": "app", "batch": 5})) == {"dropped": 0}
        publisher.one(piece("other", 1, "s", 0, ROW))
        broker.until(lambda: staging.stages.expired == 1)
    kept_beside.rename(missing)
    with serving(tmp_path) as broker:
        broker.until(lambda: settled(broker))
        assert broker.server.last_number == 41
    assert judge(kept(tmp_path), [batch], {batch}) == {batch}


def test_given_a_promise_of_a_batch_that_is_known_as_done_then_it_is_forgotten(
    tmp_path: Path,
) -> None:
    batch = Batch("app", 5, 40)
    promise(tmp_path, batch, 40, "intent")
    done = {"application": "app", "batch": 5, "first": 2, "last": 41, "rows": 40}
    (tmp_path / "staging" / "applications").write_bytes(
        seal(done | {"time": 1_700_000_000_000, "remember": True})
    )
    with serving(tmp_path) as broker:
        broker.until(lambda: settled(broker))
        assert broker.server.last_number == 41
    assert files(tmp_path) == ["notes"]


def test_given_a_torn_promise_then_it_was_none(tmp_path: Path, form: str) -> None:
    batch = Batch("app", 5, 40)
    promise(tmp_path, batch, 0, form)
    file = intent_file(tmp_path) if form == "intent" else tmp_path / "staging" / "notes"
    file.write_bytes(file.read_bytes()[:-9])
    (tmp_path / "staging" / "applications.tmp").write_bytes(b"begun")
    with serving(tmp_path) as broker:
        publisher = Publisher(broker)
        assert publisher.one(batch.commit()) is not None
        broker.until(lambda: settled(broker))
        assert broker.server.last_number == 41
    assert judge(kept(tmp_path), [batch], {batch}) == {batch}
    assert files(tmp_path) == ["notes"]


@pytest.mark.parametrize("name", [f"{ORIGIN:016x}.intent", "copy.intent"])
def test_given_a_damaged_promise_when_rows_are_published_then_it_is_reported_and_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    batch = Batch("app", 5, 40)
    promise(tmp_path, batch, 25, "intent")
    file = intent_file(tmp_path).rename(tmp_path / "staging" / name)
    file.write_bytes(b"?" + file.read_bytes()[1:])
    with serving(tmp_path) as broker:
        broker.until(lambda: settled(broker) or bool(broker.server.last_number))
    if name == "copy.intent":
        assert f"{file} is damaged, and nothing of it is published: deleted" in caplog.text
        assert not file.exists()
    else:
        assert "25 of its rows are published, in numbers 2 to 26" in caplog.text
        assert file.exists()


def test_given_a_broker_that_stops_in_a_commit_then_the_next_one_carries_it_on(
    tmp_path: Path,
) -> None:
    batch = Batch("app", 1, 30_000, stages=2)
    with serving(tmp_path) as broker:
        publisher = Publisher(broker)
        publisher.stage(batch, 900_000)
        publisher.client.send(batch.commit())
        broker.until(lambda: broker.server.last_number > 0)
        broker.stop()
        assert broker.server.last_number < batch.rows, "it was stopped in the middle"
    with serving(tmp_path) as broker:
        answer = Publisher(broker).one(batch.commit())
        assert isinstance(answer, dict)
        assert (answer["first"], answer["last"]) == (1, batch.rows)
    assert judge(kept(tmp_path), [batch], {batch}) == {batch}


def test_given_stages_when_started_again_then_they_go_on_where_they_were(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:
        assert Publisher(broker).one(piece("app", 1, "s", 0, ROW * 2 + ROW[:7])) == {
            **{"bytes": 49, "rows": 2}
        }
    with serving(tmp_path) as broker:
        publisher = Publisher(broker)
        told = publisher.ask(
            piece("app", 1, "s", 300, ROW),
            piece("app", 1, "s", 49, ROW[7:]),
            piece("app", 1, "t", 0, ROW),
        )
        assert told == [
            Refused(409, "This stage has 49 bytes", 49),
            {"bytes": 63, "rows": 3},
            {"bytes": 21, "rows": 1},
        ]
        stages = [{"stage": "s", "bytes": 63, "crc32": crc32(ROW * 3)}]
        wish = {"application": "app", "batch": 1, "stages": stages}
        answer = publisher.one(request("COMMIT", wish))
        assert isinstance(answer, dict)
        assert answer["rows"] == 3


def test_given_a_stage_when_started_again_then_its_new_rows_have_the_limits_of_all(
    tmp_path: Path,
) -> None:
    with serving(tmp_path) as broker:
        Publisher(broker).one(piece("app", 1, "s", 0, ROW))
    with serving(tmp_path, flags={"limits.max_payload": "1000"}) as broker:
        row = b"PUB orders 1200\r\n" + b"x" * 1200 + b"\r\n"
        refused = Publisher(broker).one(piece("app", 1, "s", len(ROW), row[:600]))
        assert isinstance(refused, Refused)
        assert refused.status == 400


def test_given_a_promise_that_cannot_be_kept_then_the_notes_are_shortened_all_the_same(
    tmp_path: Path,
) -> None:
    batch = Batch("app", 5, 40)
    promise(tmp_path, batch, 7)
    (stage,) = (tmp_path / "staging").glob("*.stage")
    os.unlink(stage)
    with serving(tmp_path) as broker:
        publisher, staging = Publisher(broker), broker.server.staging
        assert staging is not None
        engine_of(broker).note_state.spare = 8
        for number in range(1, 40):
            publisher.publish(Batch("other", number, 1))
        assert engine_of(broker).notes.last - engine_of(broker).notes.first < 40
        refused = publisher.one(batch.commit())
        assert isinstance(refused, Refused)
        assert refused.status == 500


def test_given_stages_that_are_damaged_when_started_then_they_are_dropped(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:
        for name in ("a", "b", "c"):
            Publisher(broker).one(piece("app", 1, name, 0, ROW * 3))
    first, second, _ = sorted((tmp_path / "staging").glob("*.stage"))
    data = first.read_bytes()
    first.write_bytes(data[:-50] + bytes(20) + data[-30:])
    second.write_bytes(b"x" + second.read_bytes())
    (tmp_path / "staging" / "alien.stage").write_bytes(b"")
    with serving(tmp_path) as broker:
        told = Publisher(broker).ask(*(piece("app", 1, name, 999, ROW) for name in ("a", "b", "c")))
        assert [one.offset for one in told if isinstance(one, Refused)] == [0, 0, 63]
        assert len(list((tmp_path / "staging").glob("0*.stage"))) == 1


def test_given_lines_of_an_older_broker_when_torn_then_the_whole_ones_count(
    tmp_path: Path,
) -> None:
    with serving(tmp_path) as broker:
        publisher = Publisher(broker)
        for name, number in (("app", 2), ("one", 1), ("two", 7)):
            publisher.publish(Batch(name, number, number))
    file = leave_as_older(tmp_path)
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:2]) + b"?" + lines[0][1:] + lines[2][:-20])
    for _ in range(2):
        with serving(tmp_path) as broker:
            publisher = Publisher(broker)
            told = publisher.one(request("BATCH", {"application": "app"}))
            assert isinstance(told, dict)
            assert (told["batch"], told["first"], told["last"]) == (2, 1, 2)
            assert publisher.publish(Batch("one", 1, 1))["repeated"]
    with serving(tmp_path) as broker:
        assert not Publisher(broker).publish(Batch("two", 7, 7))["repeated"]
    assert files(tmp_path) == ["notes"]


def test_given_damaged_notes_then_it_is_logged_and_the_whole_lines_before_count(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(tmp_path) as broker:
        publisher = Publisher(broker)
        for number in (1, 2):
            publisher.publish(Batch("app", number, 3))
    file = tmp_path / "staging" / "notes"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:3]) + b"?" + b"".join(lines[3:]))
    with serving(tmp_path) as broker:
        told = Publisher(broker).one(request("BATCH", {"application": "app"}))
        assert isinstance(told, dict)
        assert told["batch"] == 1
    assert f"{file}: line 4 is damaged" in caplog.text


def test_given_many_batches_then_the_notes_are_shortened_and_say_the_same(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:
        publisher = Publisher(broker)
        publisher.one(request("BATCH", {"application": "app"}))
        staging = broker.server.staging
        assert staging is not None
        engine_of(broker).note_state.spare = 8
        for number in range(1, 40):
            publisher.publish(Batch(f"app-{number % 3}", number, 1))
        assert engine_of(broker).notes.last - engine_of(broker).notes.first < 20
    with serving(tmp_path) as broker:
        publisher = Publisher(broker)
        asked = (request("BATCH", {"application": f"app-{at}"}) for at in range(3))
        told = publisher.ask(*asked)
        assert [one["batch"] for one in told if isinstance(one, dict)] == [39, 37, 38]
        assert publisher.publish(Batch("app-1", 40, 1))["last"] == 40


def test_given_the_store_of_a_member_then_its_batches_are_known(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:
        Publisher(broker).publish(Batch("app", 3, 3))
    (tmp_path / "cluster").mkdir()
    (tmp_path / "staging" / "notes").rename(tmp_path / "cluster" / "notes")
    for _ in range(2):
        with serving(tmp_path) as broker:
            assert Publisher(broker).publish(Batch("app", 3, 3))["repeated"]


def test_given_a_stage_that_nobody_commits_then_it_expires(tmp_path: Path) -> None:
    with serving(tmp_path, flags={"staging.expiry": "0.2s"}) as broker:
        publisher = Publisher(broker)
        publisher.one(piece("app", 1, "s", 0, ROW))
        staging = broker.server.staging
        assert staging is not None
        broker.until(lambda: len(staging.stages) == 0)
        assert (staging.stages.expired, staging.stages.bytes) == (1, 0)
        broker.until(lambda: not list((tmp_path / "staging").glob("*.stage")))


def expire_after(broker: Broker, seconds: float) -> StagingService:
    """From now on; what is staged and committed before may take its time."""
    staging = broker.server.staging
    assert staging is not None
    assert staging.files._timer is not None
    staging.files._timer.cancel()
    staging.files._settings = replace(staging.files._settings, expiry=seconds)
    staging.files._drop_expired()
    return staging


def test_given_a_batch_that_need_not_be_remembered_then_it_is_forgotten_when_it_expires(
    tmp_path: Path,
) -> None:
    with serving(tmp_path) as broker:
        publisher = Publisher(broker)
        batch, other = Batch("once", 0, 3), Batch("kept", 0, 3)
        publisher.publish(other)
        publisher.stage(batch)
        assert isinstance(publisher.one(batch.commit(remember=False)), dict)
        assert [*expire_after(broker, 600).applications.done] == ["kept", "once"]
        staging = expire_after(broker, 0.2)
        broker.until(lambda: list(staging.applications.done) == ["kept"])
    with serving(tmp_path, flags={"staging.expiry": "0.2s"}) as broker:
        told = Publisher(broker).ask(
            *(request("BATCH", {"application": name}) for name in ("once", "kept"))
        )
        assert [one["batch"] for one in told if isinstance(one, dict)] == [None, 0]


def test_given_a_name_that_was_forgotten_when_it_starts_again_then_its_last_batch_counts(
    tmp_path: Path,
) -> None:
    once, again = Batch("app", 9, 3), Batch("app", 2, 3)
    with serving(tmp_path) as broker:
        publisher = Publisher(broker)
        publisher.stage(once)
        publisher.one(once.commit(remember=False))
        staging = expire_after(broker, 0.2)
        broker.until(lambda: not staging.applications.done)
        expire_after(broker, 600)
        publisher.publish(again)
    with serving(tmp_path, flags={"staging.expiry": "0.2s"}) as broker:
        assert Publisher(broker).publish(again)["repeated"]
    assert judge(kept(tmp_path), [once, again], {once, again}) == {once, again}


def test_given_other_limits_when_started_then_what_was_promised_is_published(
    tmp_path: Path, form: str
) -> None:
    batch = Batch("app", 5, 40)
    promise(tmp_path, batch, 7, form)
    flags = {"limits.max_payload": "16", "sequencer.exclude": "rows.>", "staging.max_bytes": "0"}
    with serving(tmp_path, flags=flags) as broker:
        broker.until(lambda: settled(broker))
        assert broker.server.last_number == 41
    assert judge(kept(tmp_path), [batch], {batch}) == {batch}
