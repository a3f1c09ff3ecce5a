"""The broker's log: to standard error, or to a file that can be rotated.

    record --format--> line --(there is room)-->  pipe, terminal, socket or file
                        `-----(there is none)-->  left out, and counted

The log never delays the broker. An unread pipe takes 64 KiB and then no more, and a disk
may be full. Lines are left out then; before the next one that finds room, the log says how many.

Memory: the rest of one line that was written in part.
"""

import errno
import logging
import os
import select
import sys
from contextlib import suppress
from typing import Final

from broker.runtime.colours import wants_colours
from broker.runtime.log_bounds import RepeatedLines
from broker.runtime.log_formats import TEXT, format_named

# A pipe that takes anything takes this much at once, without blocking: PIPE_BUF.
PIECE: Final = 4096
UNREAD: Final = "its reader is too slow"
FULL: Final = frozenset({errno.EAGAIN, errno.EINTR})


class LogLines(logging.Handler):
    """Writes lines to a descriptor that may take none; `fd` stays the caller's."""

    def __init__(self, fd: int) -> None:
        super().__init__()
        self.fd = fd
        self.left_out = 0  # lines that found no room, since one did
        self._rest = b""  # of a line that was written in part
        self._why = UNREAD  # why there was no room
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, or count it."""
        try:
            line = self._line(record)
        except Exception:
            self.handleError(record)
            return
        if not self._finish_rest():
            self.left_out += 1
            return
        note = self._note() if self.left_out else b""
        if self._put(note + line):
            self.left_out = 0
        else:
            self.left_out += 1

    def use(self, fd: int) -> None:
        """Write to this descriptor from now on."""
        self._poll.unregister(self.fd)
        self._poll.register(fd, select.POLLOUT)
        self.fd, self._rest = fd, b""

    def _note(self) -> bytes:
        """Return a line that counts the missing lines."""
        lines = "1 line was" if self.left_out == 1 else f"{self.left_out} lines were"
        text = f"{lines} left out here: the log could not be written: {self._why}"
        fields = {"name": "seriatim", "levelno": logging.WARNING, "levelname": "WARNING"}
        return self._line(logging.makeLogRecord({**fields, "msg": text}))

    def _line(self, record: logging.LogRecord) -> bytes:
        return f"{self.format(record)}\n".encode("utf-8", "backslashreplace")

    def _finish_rest(self) -> bool:
        """Write what is left of the last line; return whether nothing is left."""
        rest, self._rest = self._rest, b""
        if rest and not self._put(rest):
            self._rest = rest
        return not self._rest

    def _put(self, data: bytes) -> bool:
        """Write as much as fits, and keep the rest; False, and no rest, if nothing fits."""
        done = 0
        while done < len(data):
            count = self._write(data[done : done + PIECE])
            if count == 0:
                break
            done += count
        self._rest = data[done:] if done else b""
        return done > 0

    def _write(self, piece: bytes) -> int:
        """Write as much as fits without waiting; return how much."""
        try:
            if not self._poll.poll(0):
                self._why = UNREAD
                return 0
            return os.write(self.fd, piece)
        except OSError as error:
            self._why = UNREAD if error.errno in FULL else str(error.strerror)
            return 0


class LogFile(LogLines):
    """A log file. If it cannot be written, standard error says so once, until it can again."""

    def __init__(self, path: str) -> None:
        """Open it, or create it. Raises `OSError`."""
        self.path = os.path.abspath(path)
        super().__init__(_open(self.path))

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, or count it."""
        before = self.left_out
        super().emit(record)
        if self.left_out and not before:
            say(f"seriatim: log file {self.path}: {self._why}")

    def reopen(self) -> None:
        """Open the file again. Raises `OSError`, and keeps the old one."""
        fd = _open(self.path)
        self.acquire()
        try:
            old = self.fd
            self.use(fd)
        finally:
            self.release()
        with suppress(OSError):  # what could not be written is lost
            os.close(old)

    def close(self) -> None:
        """Close the file."""
        super().close()
        fd, self.fd = self.fd, -1
        if fd >= 0:
            with suppress(OSError):
                os.close(fd)


def _open(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)


def say(text: str) -> None:
    """Write a line to standard error, if that takes it."""
    handler = _standard_error()
    handler.emit(logging.makeLogRecord({"msg": "%s", "args": (text,)}))


def _standard_error() -> logging.Handler:
    try:
        return LogLines(sys.stderr.fileno())
    except (AttributeError, OSError):  # it is closed, or not a file: Python has replaced it
        return logging.StreamHandler(sys.stderr)


def start_logging(path: str, debug: bool, form: str = TEXT) -> logging.Handler:
    """Log to `path`, or to standard error if that is empty, from now on. Raises `OSError`."""
    handler = LogFile(path) if path else _standard_error()
    handler.setFormatter(_format_for(handler, form))
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
    """Log what connections do, or only what concerns the whole broker."""
    logging.getLogger().setLevel(logging.DEBUG if debug else logging.INFO)


def set_format(form: str) -> None:
    """Write lines in this format from now on."""
    for handler in logging.getLogger().handlers:
        handler.setFormatter(_format_for(handler, form))


def _format_for(handler: logging.Handler, form: str) -> logging.Formatter:
    """Return the format of a handler's lines: never with colours in a file."""
    if not isinstance(handler, LogLines) or isinstance(handler, LogFile):
        return format_named(form)
    return format_named(form, coloured=wants_colours(os.isatty(handler.fd), os.environ))


def reopen() -> None:
    """Close a log file that was moved away, and open a new one in its place."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, LogFile):
            _reopen(handler)


def _reopen(handler: LogFile) -> None:
    try:
        handler.reopen()
    except OSError as error:
        logging.getLogger("seriatim").warning(
            "log file %s: %s; going on with the old one", handler.path, error.strerror
        )
