"""What a single broker has committed is the beginning of a cluster's second log."""

from pathlib import Path

import pytest

from broker.cluster.batches.first_notes import first_notes, write_notes
from broker.cluster.storage.note_file import NoteFile
from broker.settings.staging_settings import StagingSettings
from broker.staging.applications import Applications, CommittedBatch
from broker.staging.intents import Intent
from sequencer.journal.errors import StoreError


def committed(store: Path, count: int) -> list[CommittedBatch]:
    """A store whose single broker has committed a batch of so many applications."""
    (store / "staging").mkdir()
    known = Applications(str(store / "staging" / "applications"), False, StagingSettings())
    done = [CommittedBatch(f"app{at}", at, at, at, 1, at + 1, True) for at in range(count)]
    for one in done:
        known.write(one, None)
    return done


def test_given_committed_batches_then_the_notes_have_all_of_them(tmp_path: Path) -> None:
    done = committed(tmp_path, 250)
    notes = first_notes(str(tmp_path), 7)
    write_notes(str(tmp_path / "cluster"), notes)
    kept = NoteFile(str(tmp_path / "cluster"))
    found = [kept.at(number) for number in range(kept.first, kept.last + 1)]
    kept.close()
    assert [(one.number, one.epoch, one.kind) for one in found] == [
        (number, 7, "SNAPSHOT") for number in (1, 2, 3)
    ]
    said = [CommittedBatch.of(one) for note in found for one in note.fields["applications"]]
    assert said == done


def test_given_a_batch_that_is_being_committed_then_it_must_be_finished_first(
    tmp_path: Path,
) -> None:
    committed(tmp_path, 3)
    folder = str(tmp_path / "staging")
    Intent("app2", 2, True, 1, 0, 5, ()).write(folder, False)  # it is done
    assert first_notes(str(tmp_path), 1)
    Intent("app2", 3, True, 2, 0, 5, ()).write(folder, False)
    with pytest.raises(StoreError, match="batch 3 of app2 is being committed"):
        first_notes(str(tmp_path), 1)


def test_given_a_store_without_batches_then_there_are_no_notes(tmp_path: Path) -> None:
    assert first_notes(str(tmp_path), 1) == []
