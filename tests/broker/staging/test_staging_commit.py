"""A commit in progress: others get their turns, it waits while the journal is full, syncs first."""

import asyncio
import errno
import os
from pathlib import Path
from zlib import crc32

import pytest

from broker.clients.session import Session
from broker.staging.local_batches import LocalEpoch
from tests.crash.staging import kept, settled
from tests.support.raw import HEADERS, QUIET
from tests.support.serving import Broker, serving
from tests.support.staging import (
    ALONE,
    Batch,
    Publisher,
    Refused,
    answer_of,
    engine_of,
    judge,
    piece,
    request,
)


def staged(broker: Broker, batch: Batch) -> Publisher:
    publisher = Publisher(broker)
    publisher.stage(batch, 900_000)
    return publisher


def test_given_a_long_commit_then_others_publish_and_are_answered_between_its_rows(
    tmp_path: Path,
) -> None:
    batch = Batch("app", 1, 120_000, stages=3)
    with serving(tmp_path) as broker:
        publisher, other = staged(broker, batch), broker.client(HEADERS + b"SUB in 1\r\n")
        publisher.client.send(batch.commit())
        numbers = []
        while broker.server.last_number < batch.rows:
            (answer,) = other.ask(b"PUB $SEQ.PUB.noise in 7\r\nn 1 1 x\r\n")
            numbers.append(int(answer.payload.partition(b":")[2][:-1]))
        broker.until(lambda: settled(broker))
    between = [number for number in numbers if 1 < number < batch.rows]
    assert len(between) > 5
    assert judge(kept(tmp_path), [batch], {batch}) == {batch}


def test_given_several_commits_then_they_are_published_one_after_the_other(
    tmp_path: Path,
) -> None:
    batches = [Batch(f"app-{at}", 1, 3000) for at in range(4)]
    with serving(tmp_path) as broker:
        publisher = Publisher(broker)
        for batch in batches:
            publisher.stage(batch, 900_000)
        told = publisher.ask(*(batch.commit() for batch in batches))
        firsts = [(one["first"], one["last"]) for one in told if isinstance(one, dict)]
        assert firsts == [(3000 * at + 1, 3000 * at + 3000) for at in range(4)]


def test_given_a_full_journal_when_committed_then_it_waits_and_goes_on_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = Batch("app", 1, 5000, stages=2)
    with serving(tmp_path) as broker:
        publisher, store = staged(broker, batch), broker.server.journal
        assert store is not None
        reserve, full = type(store).reserve, [True]

        def refuse(self: object, need: int) -> None:
            if full[0]:
                raise OSError(errno.ENOSPC, "No space left on device")
            reserve(self, need)  # type: ignore[arg-type]

        monkeypatch.setattr(type(store), "reserve", refuse)
        publisher.client.send(batch.commit())
        broker.until(lambda: broker.server.plane.sequencer.full)
        assert publisher.client.ask(b"") == [], "nobody is answered before it is done"
        assert broker.server.last_number < batch.rows
        full[0] = False
        broker.until(lambda: settled(broker))
        assert broker.server.last_number == batch.rows
    assert judge(kept(tmp_path), [batch], {batch}) == {batch}


@pytest.mark.parametrize("sync", ["interval", "always", "never"])
def test_given_a_commit_then_it_is_answered_when_the_disk_has_its_rows(
    sync: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An hour between two syncs: it asks for its own."""
    flags = {"journal.sync": sync, "journal.sync_interval": "60s"}
    with serving(tmp_path, flags=flags) as broker:
        publisher, keeper = staged(broker, Batch("app", 1, 100)), broker.server.keeper
        assert keeper is not None
        answer = publisher.one(Batch("app", 1, 100).commit())
        assert isinstance(answer, dict)
        assert (keeper.synced >= answer["last"]) == (sync != "never")


@pytest.mark.parametrize("file", [".stage", "notes"])
def test_given_a_disk_that_takes_no_promise_then_nothing_is_published(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = Batch("app", 1, 100, stages=2)
    with serving(tmp_path, flags={"journal.sync_interval": "60s"}) as broker:
        publisher = staged(broker, batch)

        really = os.fdatasync

        def fail(fd: int) -> None:
            if os.readlink(f"/proc/self/fd/{fd}").endswith(file):
                raise OSError(errno.EIO, "Input/output error")
            really(fd)

        refused = Refused(507, "The commit cannot be written to the disk: Input/output error")
        with monkeypatch.context() as patch:
            patch.setattr(os, "fdatasync", fail)
            assert publisher.one(batch.commit()) == refused
        assert broker.server.last_number == 0
        if file == ".stage":
            assert publisher.one(batch.commit()) == refused, "what was staged is gone"
        assert publisher.publish(batch)["first"] == 1
    assert judge(kept(tmp_path), [batch], {batch}) == {batch}


def test_given_a_disk_that_takes_no_promise_then_who_named_other_stages_asks_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch, other = Batch("app", 1, 100), Batch("app", 1, 100, attempt=1)
    with serving(tmp_path, flags={"journal.sync_interval": "60s"}) as broker:
        publisher = staged(broker, batch)
        publisher.stage(other)

        def fail(*arguments: object) -> None:
            raise OSError(errno.EIO, "Input/output error")

        with monkeypatch.context() as patch:
            patch.setattr(os, "fdatasync", fail)
            told = publisher.ask(batch.commit(), batch.commit(), other.commit())
        assert [one.status for one in told if isinstance(one, Refused)] == [507, 507, 504]
        answer = publisher.one(other.commit())
        assert isinstance(answer, dict)
        assert (answer["rows"], answer["repeated"]) == (100, False)
    assert judge(kept(tmp_path), [batch], {batch}) == {batch}


def test_given_no_descriptor_when_published_then_the_commit_waits_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.staging.stage_rows.RETRY", 0.01)
    batch, refused, really = Batch("app", 1, 100), [0], os.open
    with serving(tmp_path) as broker:
        publisher = staged(broker, batch)

        def fail(path: str, flags: int, *mode: int) -> int:
            if path.endswith(".stage") and not flags & os.O_RDWR and refused[0] < 3:
                refused[0] += 1
                raise OSError(errno.EMFILE, "Too many open files")
            return really(path, flags, *mode)

        with monkeypatch.context() as patch:
            patch.setattr(os, "open", fail)
            answer = publisher.one(batch.commit())
    assert isinstance(answer, dict)
    assert (answer["rows"], refused) == (100, [3])


def test_given_a_disk_that_takes_no_end_of_a_batch_then_it_is_tried_until_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = Batch("app", 1, 0, stages=0)
    with serving(tmp_path) as broker:
        publisher, pwrite, failures = Publisher(broker), os.pwrite, [2]

        def fail(fd: int, data: bytes, offset: int) -> int:
            if failures[0] and b'"DONE"' in bytes(data):
                failures[0] -= 1
                raise OSError(errno.ENOSPC, "No space left on device")
            return pwrite(fd, data, offset)

        monkeypatch.setattr(os, "pwrite", fail)
        assert isinstance(publisher.one(batch.commit()), dict)
        assert failures == [0]
        told = publisher.one(request("BATCH", {"application": "app"}))
        assert isinstance(told, dict)
        assert told["batch"] == 1


def test_given_no_room_for_a_piece_then_it_is_refused_and_the_stage_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = Batch("app", 1, 600)
    first, *others = batch.pieces(20_000)
    with serving(tmp_path) as broker:
        publisher = Publisher(broker)
        publisher.one(first)
        folder = tmp_path / "staging"

        def fail(*arguments: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", fail)
            refused = Refused(
                507, "The stage cannot be written to the disk: No space left on device"
            )
            assert publisher.one(others[0]) == refused
            assert publisher.one(Batch("app", 2, 1).commit()) != refused
            assert publisher.ask(*Batch("new", 1, 1).pieces(1000)) == [refused]
        assert len(list(folder.glob("*.stage"))) == 1
        publisher.ask(*others)
        assert isinstance(publisher.one(batch.commit()), dict)
    assert judge(kept(tmp_path), [batch], {batch}) == {batch}


def test_given_no_journal_when_a_subscriber_lags_then_it_holds_the_commit_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = Batch("app", 1, 30_000, width=1000)
    flags = {"journal.enabled": False, "limits.hold_ms": "60000"}
    held: list[int] = []
    resume = LocalEpoch.resume
    monkeypatch.setattr(
        LocalEpoch, "resume", lambda self: (held.append(self.held_by), resume(self))[1]
    )
    with serving(tmp_path, flags=flags) as broker:
        publisher = staged(broker, batch)
        reader = broker.client(QUIET + b"SUB rows.> 1\r\n")
        publisher.client.send(batch.commit())
        broker.until(lambda: broker.server.staging is not None and held_now(broker))
        number = broker.server.last_number
        assert number < batch.rows
        heard = 0
        while heard < batch.rows:
            heard += len(reader.ask(b""))
        broker.until(lambda: settled(broker))
        assert held, "it was let go on"
        assert broker.server.last_number == batch.rows


def held_now(broker: Broker) -> bool:
    assert broker.server.staging is not None
    return engine_of(broker).epoch.held_by > 0


def test_given_a_damaged_stage_when_published_then_it_is_reported_and_the_others_go_on(
    tmp_path: Path,
) -> None:
    batch, other = Batch("app", 1, 30_000), Batch("other", 1, 10)
    with serving(tmp_path) as broker:
        publisher = staged(broker, batch)
        publisher.stage(other)
        (file, _) = sorted((tmp_path / "staging").glob("*.stage"))
        os.truncate(file, file.stat().st_size // 2)
        told = publisher.ask(batch.commit(), other.commit(), batch.commit())
        assert [one.status for one in told if isinstance(one, Refused)] == [500, 500]
        assert [one["rows"] for one in told if isinstance(one, dict)] == [10]
        assert publisher.one(batch.commit()) == told[0]


def test_given_many_who_wait_then_more_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.staging.staging_service.WAITERS_MAX", 2)
    monkeypatch.setattr("sequencer.replica.batches.batch_commits.WAITING_MAX", 1)
    with serving(tmp_path, flags=ALONE) as broker:
        publisher = Publisher(broker)
        publisher.publish(Batch("b", 0, 0, stages=0))  # one that is known waits as any other
        batches = [Batch(name, 1, 0, stages=0) for name in ("a", "b")]
        told = publisher.ask(batches[0].commit(), *[batches[0].commit()] * 2, batches[1].commit())
        refused = [one for one in told if isinstance(one, Refused)]
        assert refused == [
            Refused(429, "2 wait for this commit already"),
            Refused(429, "1 commits wait for their turn already"),
        ]


def test_given_who_waited_and_has_gone_then_another_may_wait_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.staging.staging_service.WAITERS_MAX", 3)
    batch, full = Batch("app", 1, 100), [True]
    with serving(tmp_path, flags=ALONE) as broker:
        publisher, store = staged(broker, batch), broker.server.journal
        assert store is not None
        reserve = type(store).reserve

        def refuse(self: object, need: int) -> None:
            if full[0]:
                raise OSError(errno.ENOSPC, "No space left on device")
            reserve(self, need)  # type: ignore[arg-type]

        monkeypatch.setattr(type(store), "reserve", refuse)
        publisher.client.send(batch.commit())
        broker.until(lambda: broker.server.plane.sequencer.full)
        for _ in range(4):
            other = Publisher(broker)
            assert other.client.ask(batch.commit() * 2) == [], "both wait"
            other.client.close()
            broker.until(lambda: len(broker.server.sessions) == 1)
        full[0] = False
        broker.until(lambda: settled(broker))
        told = [answer_of(one) for one in publisher.client.ask(b"")]
        assert [one["rows"] for one in told if isinstance(one, dict)] == [100]


def test_given_a_start_when_too_much_is_asked_at_once_then_some_must_ask_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.staging.staging_service.ASKED_MAX", 2)
    with serving(tmp_path, flags=ALONE) as broker:
        publisher = Publisher(broker)
        asked = [request("BATCH", {"application": "a"})] * 3
        told = publisher.ask(*asked)
        refused = [one for one in told if isinstance(one, Refused)]
        assert refused == [Refused(429, "2 requests for staging are under way already")]
        assert [one for one in publisher.ask(*asked) if isinstance(one, Refused)] == []
        broker.run(asyncio.sleep(0))


def test_given_a_broker_that_stops_when_asked_then_the_next_one_is_to_be_asked(
    tmp_path: Path,
) -> None:
    batch = Batch("app", 1, 10)
    with serving(tmp_path) as broker:
        publisher, staging = staged(broker, batch), broker.server.staging
        assert staging is not None
        broker.run(staging.stop())
        asked = (batch.commit(), request("ABORT", {"application": "app", "batch": 1}))
        words = Refused(504, "The broker is stopping; ask again when it is back")
        assert publisher.ask(*asked) == [words, words]
    with serving(tmp_path) as broker:
        assert isinstance(Publisher(broker).one(batch.commit()), dict)


@pytest.mark.parametrize("word", ["STAGE", "COMMIT", "ABORT", "BATCH"])
def test_given_many_requests_at_once_then_others_have_their_turns_between(
    word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns, resume = [0], Session.resume

    def count(session: Session) -> None:
        turns[0] += 1
        resume(session)

    monkeypatch.setattr(Session, "resume", count)
    asked = piece("app", 1, "s", 0, b"")
    if word != "STAGE":
        asked = request(word, b" " * (1000 if word == "BATCH" else 100_000))
    with serving(tmp_path) as broker:
        publisher = Publisher(broker)
        publisher.one(request("BATCH", {"application": "app"}))
        assert len(publisher.ask(*[asked] * 200)) == 200
    assert turns[0] >= 3


def test_given_a_batch_to_come_after_another_then_it_is_committed_after_that_one_alone(
    tmp_path: Path,
) -> None:
    batches = [Batch("app", number, 20) for number in (5, 9, 12)]
    with serving(tmp_path) as broker:
        publisher = Publisher(broker)
        for batch in batches:
            publisher.stage(batch, 900_000)
        first, second, third = batches
        asked = (
            first.commit(after=4),
            first.commit(after=None),
            first.commit(after=4),  # it is there, wherever it was to come
            third.commit(after=4),
            third.commit(after=None),
            second.commit(after=5),
            third.commit(after=5),
            third.commit(after=9),
        )
        told = [publisher.one(commit) for commit in asked]
        words = [one[:2] if isinstance(one, Refused) else one["repeated"] for one in told]
    assert words == [
        (409, "No batch of it was committed, but this one must come after 4"),
        False,
        True,
        (409, "Its last batch is 5, but this one must come after 4"),
        (409, "Its last batch is 5, but this one must come after None"),
        False,
        (409, "Its last batch is 9, but this one must come after 5"),
        False,
    ]
    assert judge(kept(tmp_path), batches, set(batches)) == set(batches)


def test_given_a_commit_whose_stages_are_not_synced_yet_then_the_next_batch_does_not_overtake_it(
    tmp_path: Path,
) -> None:
    first, second = Batch("app", 1, 100), Batch("app", 2, 0, stages=0)
    with serving(tmp_path) as broker:
        publisher = staged(broker, first)
        told = publisher.ask(first.commit(), second.commit())
        assert told[0] == Refused(409, "Batch 1 of it is being committed")
        assert isinstance(told[1], dict)
        assert (told[1]["batch"], told[1]["rows"]) == (1, 100)
        assert publisher.publish(second)["repeated"] is False
    assert judge(kept(tmp_path), [first, second], {first}) == {first}


def test_given_a_commit_that_is_refused_then_its_stages_can_be_added_to(tmp_path: Path) -> None:
    batch = Batch("app", 1, 100)
    flags = {"staging.max_applications": "1"}
    with serving(tmp_path, flags=flags) as broker:
        publisher = Publisher(broker)
        publisher.publish(Batch("other", 1, 1))
        first, *others = batch.pieces(4000)
        publisher.one(first)
        size = 4000
        stage = next(iter(batch.parts))
        named = {"stage": stage, "bytes": size, "crc32": crc32(batch.parts[stage][:size])}
        wish = {"application": "app", "batch": 1, "stages": [named]}
        refused = publisher.one(request("COMMIT", wish))
        assert isinstance(refused, Refused)
        assert refused.status in (409, 429)
        told = publisher.ask(*others)
        assert all(isinstance(one, dict) for one in told), told
