"""The journal: every numbered message on disk; it can be read from any number on.

    from sequencer.journal import Lost, Reader      # read what a broker writes, from outside

    Store --> window: the newest records, in memory that is mapped --> mover --> segments on disk

`record` is the format, `segment` and `index` one file, `window` and `window_file` the newest part,
`mover` writes what leaves it past the page cache. `recovery`, with `inventory` and `joining`, finds
out what a crash has left. `replica_store` is the journal of a cluster's member: it can be cut.

The public names are loaded on first use, so a program that needs one part does not load the
others.
"""

# Theory of operation: one format, five readers
#
# The layout of a record is known in one place: `record.Walk` checks a record and steps to the next.
# What to do when it says MORE (the bytes end too early) or BAD depends on who asks. So there are
# five readers, each for someone else:
#
#     for                  reader          reads                       at a bad record
#     ------------------   -------------   -------------------------   ----------------------------
#     another process:     journal_tail    segments that grow, are     being written? wait. If not,
#     Reader, Follower,    (window_tail)   cut or deleted meanwhile,   report `Lost`, and go on at
#     `journal copy`                       and the window              the next good record
#     a start              survey          one segment, first to       damage if a good record
#                                          last byte                   follows, else a torn tail
#     the running broker   reverse_scan    its own segments, newest    `next_good`: where replays
#                                          first, for message ids      and feeds go on
#     an operator          verify          every byte of every file    report it; change nothing
#     a cluster's member   end_of, in      from the last mark to one   read the whole segment with
#                          replica_store   number, to cut there        `survey` instead
#
# They stay apart because each trusts something else:
#
#     journal_tail  trusts nothing, because another process writes. It takes no lock, and checks
#                   store.json and the window's head after each read; only then do the bytes count.
#     survey        reads for the owner of the lock: nothing changes, so the end that it finds is
#                   final. It still does not decide what to cut off; `recovery` does.
#     reverse_scan  runs in the writer's process. `Segment.size` says where the records end, and the
#                   newest come from the window's memory.
#     verify        may run beside a writer. It uses `survey`, and judges the window with `joining`,
#                   as the next start would. It keeps quiet about the end if that has changed.
#     end_of        must be quick: the cluster waits for the cut. So it begins at a mark.
#
# After damage, all of them look for the next good record with `Survey.next_good`. It tries each
# multiple of 8 where a plausible number stands, and checks the CRC there. The seed of the CRC is
# the store's salt, so a payload cannot pass for a record. But a client can publish many bytes that
# are worth checking; so the search has a budget, and `certain` is False if it was used up.

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sequencer.journal.errors import Damage, StoreError, StoreLocked
    from sequencer.journal.journal_tail import Lost
    from sequencer.journal.reader import Follower, Reader, Record
    from sequencer.journal.ring import Ring
    from sequencer.journal.store import Store

_WHERE = {
    "Damage": "errors",
    "Follower": "reader",
    "Lost": "journal_tail",
    "Reader": "reader",
    "Record": "reader",
    "Ring": "ring",
    "Store": "store",
    "StoreError": "errors",
    "StoreLocked": "errors",
}

__all__ = [
    "Damage",
    "Follower",
    "Lost",
    "Reader",
    "Record",
    "Ring",
    "Store",
    "StoreError",
    "StoreLocked",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"sequencer.journal has no {name}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
    return found
