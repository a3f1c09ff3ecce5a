"""The place of a reader, and how it is kept: in a file, or wherever two functions put it.

A place is noted when the message has been processed: when the reader asks for the next one. Kept
together with the effect of the message, in one transaction, it makes each effect happen once. A
file is written at most once a second, and at the end: after a crash, the messages of the last
second are read again.
"""

import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from seriatim.client.errors import InvalidArgument, Position

WRITE_SECONDS: Final = 1.0
FILE_MAX: Final = 1 << 16

Load = Callable[[], Any]  # a Position, the fields of one, or None; or an awaitable of these
Save = Callable[[Position], Any]  # may return an awaitable
Place = str | os.PathLike[str] | tuple[Load, Save]


class PositionFile:
    """A file with a position: one line of JSON, replaced as a whole."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._due: Position | None = None
        self._written_at = float("-inf")
        self._lock = threading.Lock()  # the blocking client writes in two threads

    def load(self) -> Position | None:
        """Read it; None if there is no file. Raises `InvalidArgument` for another file."""
        try:
            with open(self.path, "rb") as file:
                text = file.read(FILE_MAX)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InvalidArgument(f"{self.path} cannot be read: {error.strerror}") from None
        try:
            return read_position(json.loads(text))
        except ValueError:
            raise InvalidArgument(
                f"{self.path} holds no position; give another file, or delete it to begin again"
            ) from None

    def save(self, position: Position) -> bool:
        """Note a position; write it if the last time was a second ago, else say that it is due.

        It is due once: until it is written, further calls return False. Raises `OSError`.
        """
        with self._lock:
            was_due, self._due = self._due is not None, position
        if time.monotonic() - self._written_at >= WRITE_SECONDS:
            self.flush()
            return False
        return not was_due

    def flush(self) -> None:
        """Write what was noted. Raises `OSError`."""
        with self._lock:
            if self._due is not None:
                self._write(self._due)
                self._due = None

    def _write(self, position: Position) -> None:
        beside = self.path.with_name(f"{self.path.name}.{os.getpid()}.new")
        try:
            with open(beside, "w", encoding="ascii") as file:
                file.write(json.dumps(position._asdict()) + "\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, self.path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
        self._written_at = time.monotonic()


def read_position(found: Any) -> Position | None:
    """Read what was kept: a Position, its fields in a sequence or a dict, or None. `ValueError`."""
    if found is None:
        return None
    try:
        made = Position(**found) if isinstance(found, dict) else Position(*found)
    except TypeError:
        raise ValueError(f"{found!r:.60} is not a position") from None
    kinds = (type(made.journal), type(made.number), type(made.time_ns))
    if kinds != (str, int, int) or made.number < 0:
        raise ValueError(f"{found!r:.60} is not a position")
    return made


class PlaceKeeper:
    """The keeper of one reader's place.

    `later(seconds, function)` calls a function after that time: what a file is due is written then,
    also if no other message comes.
    """

    def __init__(self, place: Place, later: Callable[[float, Callable[[], None]], object]) -> None:
        self._file: PositionFile | None = None
        self._later = later
        if isinstance(place, tuple):
            self._load, self._save = place
        else:
            self._file = PositionFile(place)
            self._load, self._save = self._file.load, self._file.save

    def load(self) -> Any:
        """Return what was kept, or an awaitable of it."""
        return self._load()

    def save(self, position: Position) -> Any:
        """Note that everything up to here is done; return what the user's function returns."""
        if self._file is not None and self._file.save(position):
            self._later(WRITE_SECONDS, self._file.flush)
            return None
        return self._save(position) if self._file is None else None

    def flush(self) -> None:
        """Write what was noted and not written yet."""
        if self._file is not None:
            self._file.flush()
