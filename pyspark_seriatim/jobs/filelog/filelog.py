"""The list of the valid files of tables, changed atomically, version by version.

    log = FileLog.open("/data/archive")
    change = log.begin_change("archive", 17)   # None: batch 17 of this application is in the log
    if change is not None:
        ...                                # write files into change.directory
        change.add(f"{change.directory}/a.parquet", DataFile("date=2026-01-01/a.parquet", ...))
        change.commit()
    log.paths("messages")                  # for spark.read.parquet(*paths)

In <root>/_seriatim/, which Spark and pyarrow ignore when they read <root>:

    00000000000000000007.json              version 7: what it added and removed
    00000000000000000020.checkpoint.json   everything that is valid at version 20
    changes/<id>/                          a change in progress, and its intent.json

Rules.
1. The file of a version is created in one atomic step, which fails if it exists already.
2. A file is moved to its place only after intent.json names it. A new writer deletes the files that
   others left there without a commit. Before that it takes their version's number, so that they
   can no longer commit. So the writer that began last wins, the other gets `WriterConflict`.
3. Only `vacuum` deletes the files that a version removes: until then older ones are readable.

Memory: a `DataFile` for each valid file, and a path for each that waits to be vacuumed.
"""

import json
import os
import uuid
from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any, Final

from pyspark_seriatim.jobs.filelog import versions
from pyspark_seriatim.jobs.filelog.files import Files
from pyspark_seriatim.jobs.filelog.pages import footer_sum
from pyspark_seriatim.jobs.filelog.versions import FOLDER, DataFile, Entry, FileLogError, LogState

__all__ = ["CHANGES", "Change", "DataFile", "FileLog", "FileLogError", "WriterConflict"]

CHANGES: Final = f"{FOLDER}/changes"
# versions: opening reads one checkpoint and at most this many versions
CHECKPOINT_EVERY: Final = 20


class WriterConflict(FileLogError):
    """Another writer of the same root won; nothing of this change is in the log."""


class FileLog:
    """The log of one root. Only one thread writes it; `refresh` reads the versions of others."""

    def __init__(self, place: Files) -> None:
        self.place = place
        self.state = versions.read(place, LogState())

    @classmethod
    def open(cls, root: str) -> "FileLog":
        """Open a path or URI; if nothing is there, the log is empty. Raises `FileLogError`."""
        return cls(Files(root))

    @property
    def root(self) -> str:
        """The root in the form Spark takes."""
        return self.place.root

    @property
    def version(self) -> int:
        """The last version; 0 if there is none."""
        return self.state.version

    @property
    def facts(self) -> dict[str, Any]:
        """The latest value that changes recorded for each key."""
        return dict(self.state.facts)

    def files(self, table: str = "") -> list[DataFile]:
        """The valid files of a table, or of all, in the order of their rows."""
        found = [one for one in self.state.files.values() if table in ("", one.table)]
        return sorted(found, key=lambda one: (one.first, one.path))

    def paths(self, table: str = "") -> list[str]:
        """The valid files of a table, or of all, as paths for Spark."""
        return [self.place.uri(one.path) for one in self.files(table)]

    def batch(self, application: str) -> int | None:
        """The last batch that an application has committed."""
        return self.state.batches.get(application)

    def refresh(self) -> None:
        """Read the versions committed since."""
        self.state = versions.read(self.place, self.state)

    def begin_change(self, application: str = "", batch: int | None = None) -> "Change | None":
        """Begin a change; None if this batch, or a later one, was committed already.

        Changes that others have begun can no longer be committed.
        """
        self.recover()
        if batch is not None and self.state.batches.get(application, -1) >= batch:
            return None
        return Change(self, application, batch)

    def recover(self) -> None:
        """Delete the files of others without a commit, after making that commit impossible."""
        self.place.make(CHANGES)
        self.refresh()
        for other in self.place.names(CHANGES):
            self._end(f"{CHANGES}/{other}")

    def vacuum(self, older_than: float) -> int:
        """Delete the files removed at least `older_than` seconds ago; return how many."""
        limit = versions.now() - int(older_than * 1000)
        gone = [path for path, removed in self.state.removed.items() if removed <= limit]
        change = self.begin_change() if gone else None
        if change is not None:
            for path in gone:
                self.place.delete(path)
            change.vacuumed = gone
            change.commit()
        return len(gone)

    def _end(self, folder: str) -> None:
        """Make it impossible to commit a change, and delete its files."""
        folder = self.place.seize(folder)
        data = self.place.read(f"{folder}/intent.json")
        intent: Entry = json.loads(data) if data else {"version": 0, "paths": []}
        if intent["version"] == self.version + 1:
            self.create(versions.name(self.version + 1), versions.entry(self.version + 1))
            self.refresh()  # it may have been committed before its number was taken
        self.clean(folder, intent["paths"])

    def clean(self, folder: str, paths: Iterable[str]) -> None:
        """Delete a change's folder, and before it the files that no version has added."""
        for path in paths:
            if path not in self.state.files and path not in self.state.removed:
                self.place.delete(path)
        self.place.delete_folder(folder)

    def create(self, path: str, content: Entry) -> bool:
        """Create a file of the log; False if it exists, or another writer began since."""
        data = versions.dump(content)
        try:
            return self.place.create(path, data, CHANGES)
        except FileNotFoundError:
            return False

    def checkpoint(self) -> None:
        """Write the whole list, and delete the versions up to the previous checkpoint."""
        self.create(versions.name(self.version, ".checkpoint"), self.state.checkpoint())
        for kind, numbers in zip(("", ".checkpoint"), versions.listed(self.place), strict=True):
            for number in numbers:
                if number <= self.version - CHECKPOINT_EVERY:
                    self.place.delete(versions.name(number, kind))


class Change:
    """A version in progress: files added and removed. From `FileLog.begin`; commit or abandon."""

    def __init__(self, log: FileLog, application: str, batch: int | None) -> None:
        self.id = uuid.uuid4().hex[:16]
        self.version = log.version + 1
        self.vacuumed: list[str] = []
        self._log = log
        self._application, self._batch = application, batch
        self._added: dict[str, DataFile] = {}  # by its current path
        self._removed: list[str] = []
        self._facts: dict[str, Any] = {}
        self._folder = f"{CHANGES}/{self.id}"
        log.place.make(self._folder)

    @property
    def directory(self) -> str:
        """The folder for the change's files, as a path for Spark. Files not added are deleted."""
        return self._log.place.uri(self._folder)

    def add(self, temporary: str, file: DataFile) -> DataFile:
        """Register the file at `temporary`, to be moved to its path at the commit.

        The name gets the change's id before the suffix, so that no two changes ever write to the
        same place. Returns the file with that path, its size, and the checksum of its footer.
        """
        place = self._log.place
        source = place.relative(temporary)
        outside = os.path.normpath(file.path) != file.path or file.path.startswith(("/", "."))
        if outside or file.path.startswith(FOLDER):
            raise FileLogError(f"{file.path!r} is not a path under {place.root}")
        size = place.size(source)
        if size is None and not place.exists(self._folder):
            raise self._conflict()
        if size is None:
            raise FileLogError(f"{temporary} is not there, so it cannot be added")
        stem, suffix = os.path.splitext(file.path)
        footer = footer_sum(place, source) if suffix == ".parquet" else ""
        added = replace(file, path=f"{stem}-{self.id}{suffix}", bytes=size, footer=footer)
        if source in self._added or any(one.path == added.path for one in self._added.values()):
            raise FileLogError(f"{file.path} is added twice")
        self._added[source] = added
        return added

    def remove(self, file: DataFile) -> None:
        """Remove a file of the last version. It stays on disk until it is vacuumed."""
        if file.path not in self._log.state.files or file.path in self._removed:
            raise FileLogError(f"{file.path} is not in the log, so it cannot be removed")
        self._removed.append(file.path)

    def fact(self, key: str, value: Any) -> None:
        """Record a value for a key, in JSON; it replaces the earlier value."""
        self._facts[key] = value

    def commit(self) -> int:
        """Make the change the next version; return its number. Raises `WriterConflict`."""
        log = self._log
        paths = [file.path for file in self._added.values()]
        intent = {"version": self.version, "paths": paths}
        done = log.create(f"{self._folder}/intent.json", intent) and self._move()
        if done:
            log.place.sync(paths)
            done = log.create(versions.name(self.version), self._entry())
        log.refresh()
        log.clean(self._folder, paths)
        # some file systems retry an operation that had succeeded
        if not done and log.state.id != self.id:
            raise self._conflict()
        if self.version % CHECKPOINT_EVERY == 0:
            log.checkpoint()
        return self.version

    def abandon(self) -> None:
        """Delete the files written for the change."""
        self._log.clean(self._folder, ())

    def _entry(self) -> Entry:
        return versions.entry(
            self.version,
            self.id,
            application=self._application,
            batch=self._batch,
            add=[asdict(file) for file in self._added.values()],
            remove=self._removed,
            vacuumed=self.vacuumed,
            facts=self._facts,
        )

    def _move(self) -> bool:
        """Move every file to its place; False if another writer has deleted them."""
        try:
            for source, file in self._added.items():
                self._log.place.move(source, file.path)
        except FileNotFoundError:
            return False
        return True

    def _conflict(self) -> WriterConflict:
        return WriterConflict(
            f"another writer began after this one, or committed version {self.version} first: let"
            f" one job at a time write to {self._log.root}"
        )
