"""Where the broker's log goes: to standard error, or to a file that can be rotated."""

import logging
import sys
from contextlib import suppress
from typing import Any

from broker.log_bounds import RepeatedLines
from broker.log_formats import TEXT, format_named


class LogFile(logging.FileHandler):
    """A log file. If it cannot be written, standard error says so once, until it can again."""

    def __init__(self, path: str) -> None:
        super().__init__(path, encoding="utf-8", errors="backslashreplace")
        self._fault = ""  # why the last record could not be written

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, or note that this failed."""
        before, self._fault = self._fault, ""
        super().emit(record)  # calls `handleError` if it fails
        if self._fault and not before:
            print(f"seriatim: log file {self.baseFilename}: {self._fault}", file=sys.stderr)

    def close(self) -> None:
        """Close it. What could not be written is lost; that was said before."""
        with suppress(OSError):
            super().close()

    def handleError(self, record: logging.LogRecord) -> None:
        """Say nothing here: each record would be an error of its own."""
        error = sys.exc_info()[1]
        self._fault = getattr(error, "strerror", None) or "cannot be written"


def start_logging(path: str, debug: bool, form: str = TEXT) -> logging.Handler:
    """Log to `path`, or to standard error if that is empty, from now on. Raises `OSError`."""
    handler: logging.Handler
    handler = LogFile(path) if path else logging.StreamHandler(sys.stderr)
    handler.setFormatter(format_named(form))
    handler.addFilter(RepeatedLines())
    root = logging.getLogger()
    root.handlers[:], before = [handler], root.handlers[:]
    for old in before:
        if isinstance(old, LogFile):
            old.close()
    set_level(debug)
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    return handler


def set_level(debug: bool) -> None:
    """Log what connections do, or only what matters to everybody."""
    logging.getLogger().setLevel(logging.DEBUG if debug else logging.INFO)


def set_format(form: str) -> None:
    """Write lines in this format from now on."""
    for handler in logging.getLogger().handlers:
        handler.setFormatter(format_named(form))


def reopen() -> None:
    """Close a log file that was moved away, and open a new one in its place."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, LogFile):
            _reopen(handler)


def _reopen(handler: LogFile) -> None:
    try:
        stream: Any = open(  # noqa: SIM115 - the handler closes it
            handler.baseFilename, "a", encoding=handler.encoding, errors=handler.errors
        )
    except OSError as error:
        logging.getLogger("seriatim").warning(
            "log file %s: %s; going on with the old one", handler.baseFilename, error.strerror
        )
        return
    old = handler.setStream(stream)
    if old is not None:
        with suppress(OSError):  # what could not be written is lost
            old.close()
