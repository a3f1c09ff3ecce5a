"""Logs errors of the journal that its readers meet: each error once, not once per reader.

Memory: the last `REPORTED_MAX` errors. A forgotten one is logged again when a reader meets it.
"""

import errno
import logging

from sequencer.journal.faces import Piece

log = logging.getLogger("seriatim")

REPORTED_MAX = 1024


class Faults:
    """The errors logged so far. One per broker, for its one thread."""

    def __init__(self) -> None:
        self._reported: dict[tuple[str, int], None] = {}  # oldest first

    def unreadable(self, piece: Piece, offset: int, error: OSError) -> None:
        """Log that the system cannot read a piece: once for each piece and error code."""
        if self._is_new(piece, -(error.errno or 0)):
            level = logging.DEBUG if error.errno == errno.ENOENT else logging.ERROR  # deleted
            log.log(level, "Journal: cannot read %s at %d: %s", piece, offset, error)

    def damaged(self, piece: Piece, offset: int, number: int) -> None:
        """Log that there is no valid record of this number where it should be."""
        if self._is_new(piece, offset):
            log.error("Journal: %s is damaged at %d, number %d", piece, offset, number)

    def _is_new(self, piece: Piece, place: int) -> bool:
        fault = (str(piece), place)
        if fault in self._reported:
            return False
        self._reported[fault] = None
        if len(self._reported) > REPORTED_MAX:
            del self._reported[next(iter(self._reported))]
        return True
