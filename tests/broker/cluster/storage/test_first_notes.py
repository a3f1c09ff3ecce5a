"""A cluster's second log begins with the batches that a single broker has committed."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from broker.cluster.storage.first_notes import first_notes, write_notes
from broker.staging.applications import CommittedBatch
from broker.storage.note_file import NoteFile, read_notes
from broker.storage.sealed_lines import seal
from sequencer.journal.errors import StoreError
from sequencer.replica.member_messages import Note

FORMS = ("notes", "older")
PROMISE = {"remember": True, "rows": 5, "stages": []}


def committed(store: Path, count: int, form: str) -> list[CommittedBatch]:
    """A store whose single broker has committed a batch of so many applications."""
    (store / "staging").mkdir()
    done = [CommittedBatch(f"app{at}", at, at, at, 1, at + 1, True) for at in range(count)]
    if form == "older":
        lines = b"".join(seal(asdict(one)) for one in done)
        (store / "staging" / "applications").write_bytes(lines)
    else:
        notes = NoteFile(str(store / "staging"))
        for at, one in enumerate(done, 1):
            notes.append(Note(at, 1, "DONE", asdict(one) | {"origin": at}))
        notes.sync()
        notes.close()
    return done


def promised(store: Path, form: str, number: int, **fields: Any) -> None:
    """Leave a promise that has no end."""
    if form == "older":
        file = store / "staging" / f"{number:016x}.intent"
        file.write_bytes(seal(PROMISE | fields | {"origin": number, "number": 0}))
    else:
        notes = NoteFile(str(store / "staging"))
        promise = PROMISE | fields | {"origin": number + 1000, "after": 0}
        notes.append(Note(notes.last + 1, 1, "PREPARE", promise))
        notes.sync()
        notes.close()


@pytest.mark.parametrize("form", FORMS)
def test_given_committed_batches_then_the_notes_have_all_of_them(tmp_path: Path, form: str) -> None:
    done = committed(tmp_path, 250, form)
    notes = first_notes(str(tmp_path), 7)
    write_notes(str(tmp_path / "cluster"), notes)
    found = read_notes(str(tmp_path / "cluster"))
    assert [(one.number, one.epoch, one.kind) for one in found] == [
        (number, 7, "SNAPSHOT") for number in (1, 2, 3)
    ]
    said = [CommittedBatch.of(one) for note in found for one in note.fields["applications"]]
    assert said == done


@pytest.mark.parametrize("form", FORMS)
def test_given_a_batch_that_is_being_committed_then_it_must_be_finished_first(
    tmp_path: Path, form: str
) -> None:
    committed(tmp_path, 3, form)
    if form == "older":
        promised(tmp_path, form, 1, application="app2", batch=2)  # it is done
    assert first_notes(str(tmp_path), 1)
    promised(tmp_path, form, 2, application="app2", batch=3)
    with pytest.raises(StoreError, match="batch 3 of app2 is being committed"):
        first_notes(str(tmp_path), 1)


def test_given_a_store_without_batches_then_there_are_no_notes(tmp_path: Path) -> None:
    assert first_notes(str(tmp_path), 1) == []
