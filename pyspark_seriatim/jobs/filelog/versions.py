"""The versions of a file log: the content of each, and the resulting state.

    {"version": 7, "id": "4be0...", "time": 1767225600000, "application": "archive", "batch": 17,
     "add": [{"path": "date=2026-01-01/a.parquet", "table": "messages", ...}],
     "remove": ["date=2026-01-01/b.parquet"], "vacuumed": [], "facts": {"next": 5001}}

A checkpoint is the same, with everything valid under "add", and also "removed" and "batches".
`time` is in ms since 1970.
"""

import json
import re
import time
import zlib
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from pyspark_seriatim.jobs.errors import JobError
from pyspark_seriatim.jobs.filelog.files import Files

FOLDER: Final = "_seriatim"
NAME: Final = re.compile(r"(\d{20})(\.checkpoint)?\.json")
SUM: Final = b',"sum":"'
READ_ATTEMPTS: Final = 5  # old versions may be deleted between listing and reading

Entry = dict[str, Any]


class FileLogError(JobError):
    """The log cannot be read, or is used incorrectly."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file of a table. `first` to `last` are the numbers of its rows: sequences, or blocks."""

    path: str  # relative to the root
    table: str
    rows: int
    bytes: int  # determined when it is added
    first: int
    last: int
    tags: dict[str, str] = field(default_factory=dict)
    footer: str = ""  # its checksum (pages.py), made when it is added; older files have none


@dataclass(slots=True)
class LogState:
    """The state after the versions up to `version`. `apply` changes it."""

    version: int = 0
    id: str = ""  # of the change that made it
    files: dict[str, DataFile] = field(default_factory=dict)
    # when they were removed; without vacuumed ones
    removed: dict[str, int] = field(default_factory=dict)
    batches: dict[str, int] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    def apply(self, entry: Entry) -> None:
        """Apply the next version, or a checkpoint to an empty state."""
        self.version, self.id = entry["version"], entry["id"]
        for path in entry["remove"]:
            del self.files[path]
            self.removed[path] = entry["time"]
        for raw in entry["add"]:
            self.files[raw["path"]] = DataFile(**raw)
        for path in entry["vacuumed"]:
            del self.removed[path]
        if entry["batch"] is not None:
            self.batches[entry["application"]] = entry["batch"]
        self.facts.update(entry["facts"])
        self.removed.update(entry.get("removed", {}))
        self.batches.update(entry.get("batches", {}))

    def checkpoint(self) -> Entry:
        """The entry from which `apply` makes the same state again."""
        return entry(
            self.version,
            self.id,
            add=[asdict(file) for file in self.files.values()],
            facts=self.facts,
            removed=self.removed,
            batches=self.batches,
        )


def entry(version: int, id: str = "", **more: Any) -> Entry:
    """The content of a version; fields not given are empty."""
    nothing: Entry = {"add": [], "remove": [], "vacuumed": [], "facts": {}}
    return {
        "version": version,
        "id": id,
        "time": now(),
        "application": "",
        "batch": None,
        **nothing,
        **more,
    }


def dump(content: Entry) -> bytes:
    """An entry in JSON, whose last field is the CRC-32 of everything before it."""
    body = json.dumps(content, separators=(",", ":")).encode()[:-1]
    return body + b'%b%08x"}' % (SUM, zlib.crc32(body))


def load(data: bytes) -> Entry:
    """The inverse of `dump`; older entries have no checksum. Raises `ValueError`."""
    body, found, rest = data.rpartition(SUM)
    if found and rest != b'%08x"}' % zlib.crc32(body):
        raise ValueError("its checksum is wrong")
    content: Entry = json.loads(data)
    return content


def name(version: int, kind: str = "") -> str:
    """The path of a version, or with `kind` ".checkpoint" of its checkpoint."""
    return f"{FOLDER}/{version:020}{kind}.json"


def now() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def read(place: Files, known: LogState) -> LogState:
    """The current state, starting from an earlier one. Raises `FileLogError`."""
    missing: list[int] = []
    for _ in range(READ_ATTEMPTS):
        versions, checkpoints = listed(place)
        last = max([*versions, *checkpoints], default=0)
        if known.version > last or not versions.issuperset(range(known.version + 1, last + 1)):
            known = LogState()
        if (
            not known.version
            and checkpoints
            and not _take(place, known, checkpoints, ".checkpoint")
        ):
            continue
        missing = [v for v in range(known.version + 1, last + 1) if v not in versions]
        if missing:
            # listing is not atomic: a checkpoint may have been written meanwhile
            known = LogState()
            continue
        if all(_take(place, known, {v}) for v in range(known.version + 1, last + 1)):
            return known
    if missing:
        path = place.uri(name(missing[0]))
        raise FileLogError(f"{path} is missing: what it added and removed is unknown")
    raise FileLogError(f"{place.uri(FOLDER)} changes faster than it can be read")


def listed(place: Files) -> tuple[set[int], set[int]]:
    """The versions and the checkpoints that exist."""
    found = [NAME.fullmatch(one) for one in place.names(FOLDER)]
    numbers = [(int(one[1]), bool(one[2])) for one in found if one]
    return {n for n, whole in numbers if not whole}, {n for n, whole in numbers if whole}


def _take(place: Files, state: LogState, versions: set[int], kind: str = "") -> bool:
    """Apply the last of these versions; False if it was deleted meanwhile."""
    path = name(max(versions), kind)
    data = place.read(path)
    if data is None:
        return False
    try:
        state.apply(load(data))
    except (ValueError, KeyError, TypeError) as error:
        raise FileLogError(f"{place.uri(path)} is damaged: {error!r}") from error
    return True
