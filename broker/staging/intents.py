"""The promise of a commit, written before its first row has a number.

    <folder>/<origin>.intent      one checksummed line (broker/storage/sealed_lines.py)

Once the disk has it, the batch will be published, whatever happens to the broker. `origin` is in
the records of its rows, and `number` is the last one given before them. So a later broker can
find out in its journal how many rows are already there.
"""

import os
import re
from dataclasses import asdict, dataclass
from typing import Any

from broker.storage.sealed_lines import seal, unseal
from sequencer.journal.disk import replace

SUFFIX = ".intent"


@dataclass(frozen=True, slots=True)
class Intent:
    """A promise. `stages` are (name, bytes, crc32), in the order in which they are published."""

    application: str
    batch: int
    remember: bool
    origin: int
    number: int
    rows: int
    stages: tuple[tuple[str, int, int], ...]
    address: str = ""  # the owner's; older brokers did not write it

    def write(self, folder: str, durable: bool) -> None:
        """Write and sync the file, and with it the names of everything in the folder."""
        replace(intent_file(folder, self.origin), seal(asdict(self)), durable=durable)


def intent_file(folder: str, origin: int) -> str:
    """Return the file of the promise with this origin."""
    return os.path.join(folder, f"{origin:016x}{SUFFIX}")


def found_intents(folder: str) -> tuple[list[Intent], list[str]]:
    """Return earlier brokers' promises, in order; and the files that are torn or damaged."""
    found, damaged = [], []
    for name in sorted(os.listdir(folder)):
        if not name.endswith(SUFFIX):
            continue
        path = os.path.join(folder, name)
        with open(path, "rb") as file:
            fields = unseal(file.read())
        if fields is None:
            damaged.append(path)
        else:
            found.append(_intent(fields))
    return sorted(found, key=lambda intent: intent.number), damaged


def origin_of(file: str) -> int | None:
    """Return the origin in a promise's file name; None if the name is not one of ours."""
    word = os.path.basename(file).removesuffix(SUFFIX)
    return int(word, 16) if re.fullmatch("[0-9a-f]{16}", word) else None


def _intent(fields: dict[str, Any]) -> Intent:
    stages = tuple((name, size, crc) for name, size, crc in fields.pop("stages"))
    return Intent(**fields, stages=stages)
