"""What a journal's directory holds after recovery, read by the journal's code without a broker."""

from pathlib import Path
from typing import NamedTuple

from sequencer.journal.layout import RECORD
from sequencer.journal.record import Walk
from sequencer.journal.store import Store
from tests.support.stores import WINDOW

NOW = 1_800_000_000_000_000_000


class Kept(NamedTuple):
    subject: bytes
    headers: bytes
    payload: bytes


def recover(folder: Path) -> tuple[Store, dict[int, Kept]]:
    """Open it as after a crash; the messages in it by their numbers."""
    store = Store.open(str(folder), NOW, segment_bytes=65_536, window_bytes=WINDOW)
    walk, found = Walk(store.salt), {}
    for piece in store.segments():
        data = bytearray(piece.size)
        with memoryview(data) as view:
            got = piece.read(0, view, True)
        ends = [damage.end for damage in store.damage if damage.segment == piece.first]
        for start in (piece.start, *ends):
            walk.attach(data, start, got)
            while walk.next() == RECORD:
                found[walk.number] = Kept(
                    bytes(data[walk.subject : walk.subject + walk.subject_size]),
                    bytes(data[walk.body : walk.body + walk.header_size]),
                    bytes(data[walk.payload : walk.payload + walk.payload_size]),
                )
    return store, dict(sorted(found.items()))
