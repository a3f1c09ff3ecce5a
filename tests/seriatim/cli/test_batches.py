"""`seriatim batches`: a promise that cannot be kept is listed and given up, and no other."""

import json
import os
from pathlib import Path

import pytest

from broker.storage.note_file import NoteFile, read_notes
from sequencer.journal.identity import lock
from sequencer.replica.member_messages import Note
from tests.crash.staging import kept, settled
from tests.seriatim.cli.command import refusal, seriatim
from tests.support.serving import serving
from tests.support.staging import Batch, Publisher, Refused, judge, piece, promise

SAID = "batch 5 of app: 7 of its 40 rows are published, in numbers 3 to 9"
NEXT = b"PUB orders 5\r\nhello\r\n"


def broken(folder: Path) -> Batch:
    """A store whose batch 5 of app is promised, begun, and lacks a stage; another is done."""
    with serving(folder) as broker:
        assert Publisher(broker).publish(Batch("other", 1, 1))["rows"] == 1
    batch = Batch("app", 5, 40)
    promise(folder, batch, 7)
    (stage,) = (folder / "staging").glob("*.stage")
    os.unlink(stage)
    return batch


def test_given_a_promise_that_cannot_be_kept_when_given_up_then_its_application_goes_on(
    tmp_path: Path,
) -> None:
    batch = broken(tmp_path)
    with serving(tmp_path) as broker:
        publisher = Publisher(broker)
        refused = publisher.one(batch.commit())
        assert isinstance(refused, Refused)
        assert refused.status == 500
        publisher.one(piece("third", 1, "s", 0, NEXT))
    listed = seriatim("batches", "list", str(tmp_path))
    assert listed.stdout.decode() == (
        f"{SAID}; the rest cannot be published: stage 0-0 lost or damaged\n"
    )
    (found,) = map(
        json.loads, seriatim("batches", "list", str(tmp_path), "--json").stdout.splitlines()
    )
    assert found == {
        "application": "app",
        "batch": 5,
        "rows": 40,
        "published": 7,
        "first": 3,
        "last": 9,
        "missing": ["0-0"],
        "fate": "refused",
    }
    before = read_notes(str(tmp_path / "staging"))
    named = ("give-up", str(tmp_path), "--application", "app", "--batch", "5")
    assert refusal("batches", *named).endswith("give --yes to confirm")
    assert read_notes(str(tmp_path / "staging")) == before
    done = seriatim("batches", *named, "--yes")
    assert done.stdout.decode() == (
        f"gave up {SAID}\nif it is committed again, these rows are there twice\n"
    )
    *rest, void = read_notes(str(tmp_path / "staging"))
    assert (rest, void.kind) == (before, "VOID")
    with serving(tmp_path) as broker:
        publisher = Publisher(broker)
        again = publisher.one(batch.commit())
        assert isinstance(again, Refused)
        assert again.status == 404
        assert publisher.publish(batch)["rows"] == 40
        assert publisher.publish(Batch("other", 1, 1))["repeated"], "the others are still known"
        assert publisher.one(piece("third", 1, "s", 0, NEXT)) == {"bytes": len(NEXT), "rows": 1}
    rows = [payload for payload in kept(tmp_path) if payload.startswith(b"app 5 ")]
    assert len(rows) == 47, "the ones that were published stay"
    assert seriatim("batches", "list", str(tmp_path)).stdout.decode() == (
        f"{tmp_path}: no promised batch is incomplete\n"
    )


def test_given_a_promise_that_can_be_kept_when_listed_then_a_broker_keeps_it(
    tmp_path: Path,
) -> None:
    batch = Batch("app", 5, 40, stages=2)
    promise(tmp_path, batch, 7)
    (found,) = map(
        json.loads, seriatim("batches", "list", str(tmp_path), "--json").stdout.splitlines()
    )
    assert (found["fate"], found["published"], found["missing"]) == ("kept", 7, [])
    with serving(tmp_path) as broker:
        broker.until(lambda: settled(broker))
    assert judge(kept(tmp_path), [batch], {batch}) == {batch}


def test_given_a_promise_without_rows_and_a_stage_when_listed_then_a_broker_drops_it(
    tmp_path: Path,
) -> None:
    promise(tmp_path, Batch("app", 5, 40), 0)
    (stage,) = (tmp_path / "staging").glob("*.stage")
    stage.write_bytes(stage.read_bytes()[:-10])
    assert "0 of its 40 rows are published; a broker that starts drops it" in (
        seriatim("batches", "list", str(tmp_path)).stdout.decode()
    )


@pytest.mark.parametrize("word", ["list", "give-up"])
def test_given_a_store_that_must_not_be_touched_then_it_says_why(tmp_path: Path, word: str) -> None:
    broken(tmp_path)
    named = ("--application", "app", "--batch", "5", "--yes") if word == "give-up" else ()
    held = lock(str(tmp_path))
    try:
        said = refusal("batches", word, str(tmp_path), *named)
        assert f"process {os.getpid()} writes this store; stop it first" in said
    finally:
        os.close(held)
    (tmp_path / "cluster").mkdir()
    (tmp_path / "cluster" / "member.json").write_text(json.dumps({"cluster": "orders"}))
    said = refusal("batches", word, str(tmp_path), *named)
    assert "a member of the cluster orders; its promises are the cluster's" in said
    os.unlink(tmp_path / "cluster" / "member.json")
    (tmp_path / "staging" / f"{77:016x}.intent").write_bytes(b"torn")
    assert "has files of an older broker" in refusal("batches", word, str(tmp_path), *named)
    assert "no such directory" in refusal("batches", word, str(tmp_path / "nowhere"), *named)


def test_given_a_batch_that_is_not_promised_when_given_up_then_the_open_ones_are_named(
    tmp_path: Path,
) -> None:
    broken(tmp_path)
    named = ("--batch", "1", "--yes", "--application")
    assert refusal("batches", "give-up", str(tmp_path), *named, "other") == (
        f"{tmp_path}: batch 1 of other is not promised, or it is done; open promises:"
        " batch 5 of app"
    )


def test_given_a_disk_without_promises_when_listed_then_it_says_so(tmp_path: Path) -> None:
    with serving(tmp_path):
        pass
    done = seriatim("batches", "list", str(tmp_path))
    assert done.stdout.decode() == f"{tmp_path}: no promised batch is incomplete\n"
    assert not (tmp_path / "staging").exists(), "it only looks"


def test_given_a_promise_that_was_written_again_when_given_up_then_it_does_not_come_back(
    tmp_path: Path,
) -> None:
    broken(tmp_path)
    notes = NoteFile(str(tmp_path / "staging"))
    (old,) = [
        one
        for one in map(notes.at, range(notes.first, notes.last + 1))
        if one.kind == "PREPARE" and one.fields["batch"] == 5
    ]
    notes.append(Note(notes.last + 1, old.epoch, "PREPARE", old.fields))
    notes.sync()
    notes.close()
    given = ("--application", "app", "--batch", "5", "--yes")
    assert seriatim("batches", "give-up", str(tmp_path), *given).returncode == 0
    with serving(tmp_path) as broker:
        asked = Publisher(broker).one(Batch("app", 5, 40).commit())
        assert isinstance(asked, Refused)
        assert asked.status == 404
