"""Reads once what another kind of broker has left of batches, and rewrites it as notes.

    <store>/staging/applications        of an older broker: a line for each committed batch
    <store>/staging/<origin>.intent     of an older broker: a promise, one line
    <store>/cluster/notes               of a member of a cluster, whose store this was

Each line of the first two is JSON with a checksum (broker/storage/sealed_lines.py). The last line
of an application counts, even with a lower batch: the earlier one was forgotten in between. Both
kinds of files are deleted when the notes are on the disk. A member's notes stay; of each
application, the batch that was committed last counts. Promises of a cluster are its other members'
to keep.
"""

import logging
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from broker.staging.row_scan import rows_of
from broker.storage.member_store import FOLDER
from broker.storage.note_file import NoteFile, read_notes
from broker.storage.sealed_lines import unseal
from sequencer.journal.disk import remove
from sequencer.journal.store import Store
from sequencer.replica.member_messages import Note

log = logging.getLogger("seriatim")

APPLICATIONS: Final = "applications"
INTENT: Final = ".intent"
LEFTOVER: Final = ".tmp"  # a file that a crash kept from being renamed
IDENTITY: Final = ("application", "batch", "remember", "origin", "rows", "stages")


@dataclass
class Batches:
    """The known batches: the last one of each application, and those without an end."""

    done: dict[str, dict[str, Any]] = field(default_factory=dict)  # fields of DONE notes
    open: dict[int, dict[str, Any]] = field(default_factory=dict)  # of PREPARE notes, by origin

    def know(self, fields: dict[str, Any]) -> None:
        """Take the fields of a DONE note."""
        self.done.pop(fields.get("instead", ""), None)
        self.done[fields["application"]] = fields
        self.open.pop(fields.get("origin", 0), None)


class OlderFiles(NamedTuple):
    """The files of an older broker."""

    batches: Batches
    files: list[str]  # all that were read
    damaged: list[str]  # intents


def batches_of(notes: Iterable[Note]) -> Batches:
    """Return what these notes add up to."""
    found = Batches()
    for note in notes:
        match note.kind:
            case "SNAPSHOT":
                for fields in note.fields["applications"]:
                    found.know(fields)
            case "DONE":
                found.know(note.fields)
            case "PREPARE":
                found.open[note.fields["origin"]] = note.fields
            case "VOID":
                found.open.pop(note.fields["origin"], None)
    return found


def read_older(folder: str) -> OlderFiles:
    """Read the files of an older broker. Raises `OSError`."""
    found = OlderFiles(Batches(), [], [])
    names = sorted(os.listdir(folder))
    if APPLICATIONS in names:
        file = os.path.join(folder, APPLICATIONS)
        found.files.append(file)
        lines = _content(file).split(b"\n")
        damaged = 0
        for at, line in enumerate(lines[:-1]):  # a torn one at the end does not count
            fields = unseal(line)
            if fields is None:
                damaged += at < len(lines) - 2
            else:
                found.batches.know(fields)
        if damaged:
            log.error("Staging: %s: %d lines are damaged", file, damaged)
    for name in names:
        if not name.endswith(INTENT):
            continue
        file = os.path.join(folder, name)
        fields = unseal(_content(file))
        if fields is None:
            found.damaged.append(file)
            continue
        found.files.append(file)
        done = found.batches.done.get(fields["application"])
        if done is None or fields["batch"] > done["batch"]:
            promise = {key: fields[key] for key in IDENTITY}
            promise |= {"after": fields["number"], "address": fields.get("address", "")}
            found.batches.open[fields["origin"]] = promise
    return found


def take_older(journal: Store, folder: str, notes: NoteFile, epoch: int) -> list[str]:
    """Append to `notes` what other brokers have left; return the files to delete when it is synced.

    Raises `OSError` and `StoreError`.
    """
    for name in os.listdir(folder):
        if name.endswith(LEFTOVER):
            remove(os.path.join(folder, name))
    known = batches_of(notes.at(number) for number in range(notes.first, notes.last + 1))
    older = read_older(folder)
    for file in older.damaged:
        _doubt(journal, file)
    member = batches_of(read_notes(os.path.join(journal.path, FOLDER)))
    for fields in sorted(
        [*older.batches.done.values(), *member.done.values()], key=lambda one: one["time"]
    ):
        have = known.done.get(fields["application"])
        if have is None or fields["time"] > have["time"]:
            known.know(fields)
            notes.append(Note(notes.last + 1, epoch, "DONE", {"origin": 0, **fields}))
    for fields in sorted(older.batches.open.values(), key=lambda one: one["after"]):
        have = known.done.get(fields["application"])
        is_done = have is not None and fields["batch"] <= have["batch"]
        if fields["origin"] not in known.open and not is_done:
            notes.append(Note(notes.last + 1, epoch, "PREPARE", fields))
    return older.files


def _doubt(journal: Store, file: str) -> None:
    """Handle an unreadable promise: it was none if none of its rows are in the journal.

    It can be torn only by a power cut where nothing is synced; otherwise the disk lost it.
    """
    word = os.path.basename(file).removesuffix(INTENT)
    origins = [int(word, 16)] if re.fullmatch("[0-9a-f]{16}", word) else []
    numbers = [number for _, _, number in rows_of(journal, origins, 0)]
    if not numbers:
        log.warning("Staging: %s is damaged, and nothing of it is published: deleted", file)
        remove(file)
        return
    log.error(
        "Staging: %s is damaged: %d of its rows are published, in numbers %d to %d,"
        " and the rest are not. Delete it to go on without the rest; if the batch is committed"
        " again, these rows are published twice",
        *(file, len(numbers), numbers[0], numbers[-1]),
    )


def _content(file: str) -> bytes:
    with open(file, "rb") as opened:
        return opened.read()
