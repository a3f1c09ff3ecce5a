"""`seriatim journal verify`, `truncate` and `index`: check a journal, cut it, restore its indexes.

`verify` only reads, also while a broker runs. The other two write and take the lock: while a broker
has the journal they refuse, and name its process.
"""

import json
import os
import sys
import time

from broker.storage.member_store import refuse_member
from sequencer.journal.cut import Cut
from sequencer.journal.cut import truncate as cut_behind
from sequencer.journal.identity import lock
from sequencer.journal.index import read_index
from sequencer.journal.store import Store
from sequencer.journal.store_view import StoreView
from sequencer.journal.verify import Finding
from sequencer.journal.verify import verify as findings_of
from seriatim.cli.errors import CliError
from seriatim.cli.journal.journal_span import open_reader, store_errors
from seriatim.cli.progress import bar

OF_MEMBER = (
    "the cluster alone changes its journal. A member that starts repairs its indexes and cuts what"
    " is damaged; to replace it, start one with an empty directory"
)


def verify(path: str, as_json: bool) -> bool:
    """Print every finding; False if one of them is an error."""
    reader = open_reader(path)
    firsts = reader.view.segments()
    total = sum(_size(reader.view.file(first)) for first in firsts)
    findings: list[Finding] = []
    with store_errors(path), bar("verifying", total, "bytes") as step:
        for finding in findings_of(path, lambda done, total: step(done)):
            findings.append(finding)
            if as_json:
                print(json.dumps(finding._asdict()), flush=True)
            else:
                print(_shown(finding), flush=True)
    errors = [finding for finding in findings if finding.level == "error"]
    numbers = sum(one.last - one.first + 1 for one in errors if one.first)
    if not as_json:
        what = f"{len(firsts)} segment{'s' * (len(firsts) != 1)}, {total:,} bytes"
        print(f"{what}: {_verdict(len(errors), numbers)}")
    return not errors


def _shown(finding: Finding) -> str:
    where = f"{finding.file} at byte {finding.offset}" if finding.offset else finding.file
    return f"{finding.level}: {where}: {finding.text}"


def _verdict(errors: int, numbers: int) -> str:
    if not errors:
        return "OK"
    lost = f"{numbers} number{'s' * (numbers != 1)} lost" if numbers else "no number lost"
    return f"damaged, {errors} error{'s' * (errors != 1)}, {lost}"


def _size(file: str) -> int:
    try:
        return os.stat(file).st_size
    except FileNotFoundError:
        return 0


def must_be_free(path: str) -> None:
    """Raise `CliError` while a process writes the journal, or if it is a cluster's."""
    with store_errors(path):
        refuse_member(path, OF_MEMBER)
        os.close(lock(path))


def loss_behind(path: str, last: int) -> tuple[int, int, int]:
    """Return the first and last number that `truncate` would delete, and the count.

    Raises `CliError`.
    """
    reader = open_reader(path)
    must_be_free(path)
    with store_errors(path):
        first, end = reader.bounds()
    if first > end and last != end:
        raise CliError(
            f"{path}: the journal is empty, so there is nothing to delete; its next number is"
            f" {first}"
        )
    if not first - 1 <= last <= end:
        raise CliError(
            f"--after {last}: the journal has numbers {first} to {end}; give one of {first - 1}"
            f" to {end}"
        )
    return last + 1, end, end - last


def truncate(path: str, last: int) -> Cut:
    """Delete everything after `last`. Raises `CliError`."""
    with store_errors(path):
        return cut_behind(path, last, time.time_ns())


def index(path: str, every: bool) -> int:
    """Write missing or invalid indexes, or `every` one; return how many were written."""
    view = open_reader(path).view
    must_be_free(path)
    sealed = view.segments()[:-1]
    wrong = [first for first in sealed if every or not _is_good(view, first)]
    with store_errors(path), bar("indexing", len(wrong), "segments") as step:
        for first in wrong:
            if os.path.exists(view.index_file(first)):
                os.unlink(view.index_file(first))
        store = Store.open(path, time.time_ns())
        try:
            for level, text in store.report:
                print(f"seriatim: {level}: {text}", file=sys.stderr)
            while store.build_indexes():
                step(sum(os.path.exists(view.index_file(first)) for first in wrong))
        finally:
            store.close()
    return len(wrong)


def _is_good(view: StoreView, first: int) -> bool:
    return view.summary(first) is not None and read_index(view.index_file(first)) is not None
