"""The broker's log in nats-server's format: to standard error, or to a file that can be rotated."""

import logging
import os
import sys
import time

_LEVELS = {"DEBUG": "DBG", "INFO": "INF", "WARNING": "WRN", "ERROR": "ERR", "CRITICAL": "FTL"}


class LogFormat(logging.Formatter):
    """`[pid] 2026/11/20 10:55:30.123456 [INF] text`, one line per record."""

    def format(self, record: logging.LogRecord) -> str:
        when = time.strftime("%Y/%m/%d %H:%M:%S", time.localtime(record.created))
        micros = int(record.created % 1 * 1_000_000)
        level = _LEVELS.get(record.levelname, record.levelname)
        text = f"[{os.getpid()}] {when}.{micros:06d} [{level}] {record.getMessage()}"
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return text


def start_logging(path: str, debug: bool) -> logging.Handler:
    """Log to `path`, or to standard error if that is empty. Raises `OSError`."""
    handler: logging.Handler
    handler = logging.FileHandler(path, delay=False) if path else logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogFormat())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.DEBUG if debug else logging.INFO)
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    return handler


def reopen(handler: logging.Handler) -> None:
    """Close a log file that was moved away, and open a new one in its place."""
    if not isinstance(handler, logging.FileHandler):
        return
    try:
        stream = open(handler.baseFilename, "a")  # noqa: SIM115 - the handler closes it
    except OSError as error:
        logging.getLogger("seriatim").warning(
            "log file %s: %s; going on with the old one", handler.baseFilename, error.strerror
        )
        return
    old = handler.setStream(stream)
    if old is not None:
        old.close()
