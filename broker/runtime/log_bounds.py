"""Bounds how often the same warning or error is logged, whatever causes it.

So are other lines that say so: `log.info(..., extra=REPEATED)`.

A full disk, or a client that does the same wrong thing forever, must not fill the log. Each line of
the code that logs a warning or an error may do so `LINES_MAX` times a minute. The last of these
lines says that more are left out; the first one after that minute says how many were.

Memory: `PLACES_MAX` entries, one for each line of the code that has logged.
"""

import logging
import threading
from dataclasses import dataclass
from typing import Final

LINES_MAX: Final = 60
SPAN: Final = 60.0  # seconds
PLACES_MAX: Final = 1024  # far more than there are
# For lines that are bounded in another way: `log.warning(..., extra=BOUNDED)`.
BOUNDED: Final = {"bounded": True}
# For lines that are no warnings, and that clients can cause as often as they like.
REPEATED: Final = {"repeated": True}


@dataclass(slots=True)
class _Repeated:
    begun: float
    lines: int = 0


class RepeatedLines(logging.Filter):
    """A filter that bounds repeated lines; one per log, for all threads."""

    def __init__(self) -> None:
        super().__init__()
        self._repeated: dict[tuple[str, int, str], _Repeated] = {}
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log a record; note in it what is left out."""
        is_warning = record.levelno >= logging.WARNING
        if not (is_warning or getattr(record, "repeated", False)):
            return True
        if getattr(record, "bounded", False):
            return True
        with self._lock:
            return self._admit(record)

    def _admit(self, record: logging.LogRecord) -> bool:
        # A compiled function has no place of its own. Our texts are constant, asyncio's are not.
        text = str(record.msg) if record.name != "asyncio" else ""
        place = record.pathname, record.lineno, text
        known = self._repeated.get(place)
        if known is None or record.created - known.begun >= SPAN:
            left_out = known.lines - LINES_MAX if known is not None else 0
            if left_out > 0:
                record.note = f"{left_out} more such lines were left out"
            if len(self._repeated) >= PLACES_MAX:
                self._repeated.clear()
            known = self._repeated[place] = _Repeated(record.created)
        known.lines += 1
        if known.lines == LINES_MAX:
            record.note = "more such lines are left out for a minute"
        return known.lines <= LINES_MAX
