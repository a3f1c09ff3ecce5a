"""LoopLatency a single broker's commits into the beginning of a cluster's second log.

    <store>/staging/applications    becomes SNAPSHOT notes in    <store>/cluster/notes

So a batch that was committed before there was a cluster is not committed again in the cluster.
"""

import os
from dataclasses import asdict

from broker.cluster.storage.note_file import NoteFile
from broker.settings.staging_settings import STAGING, StagingSettings
from broker.staging.applications import Applications
from broker.staging.intents import found_intents
from sequencer.journal.errors import StoreError
from sequencer.replica.member_messages import Note
from sequencer.replica.notes.note_snapshots import PART


def first_notes(store_dir: str, epoch: int) -> list[Note]:
    """Return the notes with which a cluster begins. Raises `OSError`, and `StoreError`."""
    folder = os.path.join(store_dir, STAGING)
    if not os.path.isdir(folder):
        return []
    known = Applications(os.path.join(folder, "applications"), False, StagingSettings())
    known.load()
    intents, damaged = found_intents(folder)
    for file in damaged:
        raise StoreError(f"{file} is damaged; start a broker on this store, which says what to do")
    for intent in intents:
        last = known.last(intent.application)
        if last is None or intent.batch > last.batch:
            raise StoreError(
                f"{store_dir}: batch {intent.batch} of {intent.application} is being committed;"
                " start a broker on this store without --cluster, which publishes it, and stop it"
            )
    done = [asdict(one) for one in sorted(known.done.values(), key=lambda one: one.time)]
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
            file.reset_to(tuple(notes))
        else:
            file.truncate(file.first - 1)
    finally:
        file.close()
