"""`seriatim journal copy`: a backup of a store, whether a broker writes it or not."""

import os
import sys

from broker.storage.member_store import refuse_member
from sequencer.journal.copying import copy_store
from seriatim.cli.errors import CliError
from seriatim.cli.journal.journal_span import Losses, store_errors
from seriatim.cli.progress import bar

OF_MEMBER = "each member is a copy already. To back one up, stop it and copy its directory"


def copy(path: str, target: str) -> bool:
    """Copy a store, and print how far the copy reaches. False: the original is damaged."""
    try:
        with store_errors(path), bar("copying", _size(path), "bytes") as step:
            refuse_member(path, OF_MEMBER)
            copied = copy_store(path, target, step)
    except OSError as error:
        where = error.filename or target
        raise CliError(f"{where}: {error.strerror}") from error
    losses = Losses()
    for lost in copied.damaged:
        losses.tell(lost)
    numbers = f"numbers {copied.first} to {copied.last}"
    if copied.last < copied.first:
        numbers = f"no messages; the next number is {copied.first}"
    many = f"{copied.segments} segment{'s' * (copied.segments != 1)}, {copied.bytes:,} bytes"
    print(f"copied {path} to {target}: {numbers}, {many}")
    if losses.damaged:
        print(f"seriatim: {path} is damaged, and so is its copy", file=sys.stderr)
    return not losses.damaged


def _size(path: str) -> int:
    try:
        with os.scandir(path) as files:
            return sum(file.stat().st_size for file in files if file.is_file())
    except OSError:
        return 0  # the copy reports why
