"""The options of a replay: which messages, to which broker and subjects, and under which name."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_seriatim.jobs.archive.rows import OpenArchive, open_archive, subject_pattern
from pyspark_seriatim.jobs.errors import JobError, WrongArguments
from pyspark_seriatim.jobs.filelog.files import Files
from pyspark_seriatim.options import NO_OPTIONS, Options

Range = tuple[int, int]
NAME_MAX = 255  # the broker's limit
TOKENS = re.compile(r"[^\s.*>]+(\.[^\s.*>]+)*")


@dataclass(frozen=True, slots=True)
class Renaming:
    """The change of subjects: `strip` is removed from the front, then `prefix` is prepended."""

    prefix: str = ""
    strip: str = ""

    def check(self) -> None:
        """Raise `JobError` for an option that is not one or more tokens."""
        for option, text in (("--prefix", self.prefix), ("--strip", self.strip)):
            if text and not TOKENS.fullmatch(text):
                raise JobError(f"{option} {text}: write one or more tokens, such as replayed.eu")

    def apply(self, subjects: pa.Array) -> pa.Array:
        """Rename subjects. Raises `JobError` for a subject that does not begin with `strip`."""
        if self.strip:
            front = f"{self.strip}."
            fits = pc.starts_with(subjects, front)
            if not pc.all(fits).as_py():
                odd = subjects.filter(pc.invert(fits))[0].as_py()
                raise JobError(
                    f"--strip {self.strip}: {odd} does not begin with it; select with"
                    f" --subject '{front}>'"
                )
            subjects = pc.utf8_slice_codeunits(subjects, len(front))
        if self.prefix:
            subjects = pc.binary_join_element_wise(f"{self.prefix}.", subjects, "")
        return subjects


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """The options of a replay. Can be pickled."""

    archive: OpenArchive
    connection: Options
    application: str
    span: Range
    subject: str
    renaming: Renaming = Renaming()
    origin: bool = False
    rate: float = 0.0  # rows per second; 0: no limit
    skip: bool = False  # leave out unpublishable rows; otherwise they end the replay


def application_of(archive: OpenArchive, subject: str, renaming: Renaming) -> str:
    """Return a replay's name: always the same for the same messages to the same subjects."""
    place = Files(archive.root)
    alone = archive.kind == "file" and archive.parts
    source = archive.journal or (place.uri(archive.parts[0].path) if alone else place.root)
    words = json.dumps([source, archive.subject, subject, renaming.prefix, renaming.strip])
    return f"replay {archive.journal or 'files'} {hashlib.sha256(words.encode()).hexdigest()[:16]}"


def options_of(
    root: str,
    server: str,
    first: int | None,
    last: int | None,
    subject: str,
    renaming: Renaming,
    application: str | None,
    origin: bool,
    rate: float,
    skip: bool = False,
    access: Mapping[str, str] = NO_OPTIONS,
) -> ReplayOptions:
    """Check everything that can be checked in advance. Raises `JobError`, `OptionError`."""
    if first is not None and last is not None and last < first:
        raise WrongArguments(f"--to {last} is below --from {first}")
    subject_pattern(subject)
    renaming.check()
    archive = open_archive(root)
    for needed in ("subject", "payload", *(["timestamp"] if origin else [])):
        if needed not in archive.columns:
            raise JobError(f"{root} has no column {needed!r}, so it cannot be replayed")
    name = application if application is not None else application_of(archive, subject, renaming)
    if not name.isascii() or not name.isprintable() or not 0 < len(name) <= NAME_MAX:
        raise WrongArguments(
            f"--application {name!r}: give 1 to {NAME_MAX} printable ASCII characters"
        )
    connection = Options.parse({"servers": server, **access}, "write")
    span = max(first or 1, archive.first), min(last or archive.last, archive.last)
    return ReplayOptions(archive, connection, name, span, subject, renaming, origin, rate, skip)
