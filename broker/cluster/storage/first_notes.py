"""Turns a single broker's batches into the beginning of a cluster's second log.

    <store>/staging/notes      becomes SNAPSHOT notes in    <store>/cluster/notes

So a batch that was committed before there was a cluster is not committed again in the cluster.
"""

import os

from broker.settings.staging_settings import STAGING
from broker.staging.older_stores import batches_of, read_older
from broker.storage.note_file import NoteFile, read_notes
from sequencer.journal.errors import StoreError
from sequencer.replica.member_messages import Note
from sequencer.replica.notes.note_snapshots import PART


def first_notes(store_dir: str, epoch: int) -> list[Note]:
    """Return the notes with which a cluster begins. Raises `OSError`, and `StoreError`."""
    folder = os.path.join(store_dir, STAGING)
    if not os.path.isdir(folder):
        return []
    known, older = batches_of(read_notes(folder)), read_older(folder)
    for file in older.damaged:
        raise StoreError(f"{file} is damaged; start a broker on this store, which says what to do")
    for fields in older.batches.done.values():
        have = known.done.get(fields["application"])
        if have is None or fields["time"] > have["time"]:
            known.know(fields)
    for promise in (*known.open.values(), *older.batches.open.values()):
        raise StoreError(
            f"{store_dir}: batch {promise['batch']} of {promise['application']} is being committed;"
            " start a broker on this store without --cluster, which publishes it, and stop it"
        )
    done = sorted(known.done.values(), key=lambda one: one["time"])
    parts = [done[at : at + PART] for at in range(0, len(done), PART)]
    return [
        Note(
            number, epoch, "SNAPSHOT", {"applications": part, "at": number - 1, "until": len(parts)}
        )
        for number, part in enumerate(parts, 1)
    ]


def write_notes(folder: str, notes: list[Note]) -> None:
    """Begin the second log with these notes. Raises `OSError`."""
    file = NoteFile(folder)
    try:
        if notes:
            file.replace(tuple(notes))
        else:
            file.truncate(file.first - 1)
        file.sync()
    finally:
        file.close()
