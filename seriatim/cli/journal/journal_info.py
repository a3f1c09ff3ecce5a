"""`seriatim journal info`: a journal's content, as a table or as JSON. It takes no lock."""

import json
import os
from dataclasses import asdict, dataclass
from typing import Any

from sequencer.journal import Lost, Reader
from sequencer.journal.high_water import read_highest
from seriatim.settings.moments import show_time

LOCKS = "/proc/locks"


@dataclass(frozen=True, slots=True)
class JournalPart:
    """One segment. `last` is the number it must reach, according to the next one's name."""

    segment: str
    first: int
    last: int
    bytes: int
    created: str
    indexed: bool


@dataclass(frozen=True, slots=True)
class JournalOverview:
    """The whole journal; times are RFC 3339, empty if there is no message.

    `highest` is the highest number that the disk is known to have contained; 0 if not recorded.
    """

    path: str
    journal: str
    epoch: int
    writer: int | None
    first: int
    last: int
    messages: int
    highest: int
    bytes: int
    oldest: str
    newest: str
    segments: list[JournalPart]


def info_of(reader: Reader) -> JournalOverview:
    """Inspect the journal. Only the newest segment is read through."""
    view = reader.view
    highest = read_highest(view.path, view.journal) or 0  # before anything more is written
    first, last = reader.bounds()
    firsts = view.segments()
    parts = []
    for at, number in enumerate(firsts):
        try:
            size = os.stat(view.file(number)).st_size
        except FileNotFoundError:
            continue  # retention has deleted it just now
        head = view.head(number)
        created = show_time(head.created) if head else ""
        end = firsts[at + 1] - 1 if at + 1 < len(firsts) else last
        name = os.path.basename(view.file(number))
        indexed = view.summary(number) is not None
        parts.append(JournalPart(name, number, end, size, created, indexed))
    oldest = next((time for number in firsts if (time := view.first_time(number))), 0)
    return JournalOverview(
        path=view.path,
        journal=view.journal,
        epoch=view.epoch,
        writer=writer_of(view.path),
        first=first,
        last=last,
        messages=last - first + 1,
        highest=highest,
        bytes=sum(part.bytes for part in parts),
        oldest=show_time(oldest) if oldest else "",
        newest=_newest(reader, last),
        segments=parts,
    )


def _newest(reader: Reader, last: int) -> str:
    for item in reader.records(last, last) if last else ():
        if not isinstance(item, Lost):
            return show_time(item.time)
    return ""


def writer_of(path: str) -> int | None:
    """The process that writes the journal, as far as visible without touching the lock.

    A test of the lock would take it for a moment, and a broker that starts just then would fail.
    """
    try:
        with open(os.path.join(path, "lock"), "rb") as file:
            pid, inode = file.read(20).strip(), os.fstat(file.fileno()).st_ino
        with open(LOCKS, "rb") as file:
            locks = [line.split() for line in file]
    except OSError:
        return None
    for words in locks:
        if words[1:2] == [b"FLOCK"] and words[4] == pid and words[5].endswith(b":%d" % inode):
            return int(pid)
    return None


def as_json(info: JournalOverview) -> str:
    """All of it, indented."""
    return json.dumps(asdict(info), indent=2)


def print_table(info: JournalOverview) -> None:
    """The summary for a person."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, soft_wrap=True)
    for name, value in _facts(info):
        console.print(f"[bold]{name:<12}[/bold]{value}", markup=True)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("first", "last", "bytes"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("begun", no_wrap=True)
    table.add_column("index", no_wrap=True)
    table.add_column("file", no_wrap=True)
    for at, part in enumerate(info.segments):
        newest = at == len(info.segments) - 1
        index = "yes" if part.indexed else "not yet" if newest else "missing"
        numbers = (str(part.first), str(part.last) if part.last >= part.first else "-")
        table.add_row(*numbers, f"{part.bytes:,}", part.created[:19], index, part.segment)
    console.print()
    # A number is never cut: on a narrow terminal the lines wrap, and in a pipe they are long.
    console.width = console.measure(table, options=console.options.update(max_width=1000)).maximum
    console.print(table)


def _facts(info: JournalOverview) -> list[tuple[str, Any]]:
    writer = f"process {info.writer}" if info.writer else "no running broker found"
    if info.messages > 0:
        numbers = f"{info.first} to {info.last}, {info.messages:,} messages"
    else:
        numbers = f"none; the next one is {info.last + 1}"
    if info.highest > info.last:
        numbers += f"; missing at the end: {info.last + 1} to {info.highest}"
    files = len(info.segments)
    return [
        ("directory", info.path),
        ("journal", f"{info.journal}, epoch {info.epoch}"),
        ("written by", writer),
        ("numbers", numbers),
        ("times", f"{info.oldest} to {info.newest}" if info.newest else "-"),
        ("bytes", f"{info.bytes:,} in {files} segment{'s' * (files != 1)}"),
    ]
