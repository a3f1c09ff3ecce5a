"""The journal: every numbered message on disk; it can be read from any number on.

    from sequencer.journal import Lost, Reader      # read what a broker writes, from outside

    Store --> window: the newest records, in memory that is mapped --> mover --> segments on disk

`record` is the format, `segment` and `index` one file, `window` and `window_file` the newest part,
`mover` writes what leaves it past the page cache. `recovery`, with `inventory` and `joining`, finds
out what a crash has left. `replica_store` is the journal of a cluster's member: it can be cut.

The public names are loaded on first use, so a program that needs one part (say, the decoder of
columns) does not load the others.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sequencer.journal.chunk import ChunkError, Columns, Row
    from sequencer.journal.errors import Damage, StoreError, StoreLocked
    from sequencer.journal.journal_tail import Lost
    from sequencer.journal.reader import Follower, Reader, Record
    from sequencer.journal.ring import Ring
    from sequencer.journal.store import Store

_WHERE = {
    "ChunkError": "chunk",
    "Columns": "chunk",
    "Damage": "errors",
    "Follower": "reader",
    "Lost": "journal_tail",
    "Reader": "reader",
    "Record": "reader",
    "Ring": "ring",
    "Row": "chunk",
    "Store": "store",
    "StoreError": "errors",
    "StoreLocked": "errors",
}

__all__ = [
    "ChunkError",
    "Columns",
    "Damage",
    "Follower",
    "Lost",
    "Reader",
    "Record",
    "Ring",
    "Row",
    "Store",
    "StoreError",
    "StoreLocked",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"sequencer.journal has no {name}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
    return found
