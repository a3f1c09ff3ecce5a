"""The file that `seriatim record` writes: a new one, one that it goes on with, or a pipe.

Each batch of messages is one write, so a kill leaves whole records, or one that is cut short. The
next run removes such an end, and goes on after the last number. One process writes a file: it holds
a lock.
"""

import errno
import fcntl
import os
import stat
import sys
from collections import deque
from typing import Final, Self

from seriatim.cli.errors import CliError
from seriatim.cli.progress import bar
from seriatim.cli.pubsub.sub import tell
from seriatim.cli.recording.recording_format import (
    BadRecording,
    RecordedLoss,
    RecordedMessage,
    RecordingHead,
    RecordingReader,
    decode_record,
    encode_head,
    encode_loss,
    encode_message,
)

CHUNK_BYTES: Final = 1 << 20
STDOUT: Final = 1


class RecordingFile:
    """A recording that is open for writing; a context manager. Raises `CliError`.

    `path` is "-" for standard output. `head` is None as long as nothing is in it. `last_number` is
    that of the last message, or of the last loss, for which there is no `last_time`.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.shown = "standard output" if path == "-" else path
        self.head: RecordingHead | None = None
        self.last_number = 0
        self.last_time = 0  # ns; 0: not known
        self.messages = 0  # written now
        self.bytes = 0
        self._descriptor = STDOUT
        self._is_new = self._is_regular = False
        self._end = 0  # behind the last whole record, in a regular file

    def __enter__(self) -> Self:
        if self.path == "-":
            if sys.stdout.isatty():
                raise CliError("a recording is not text for a terminal; give -o FILE, or a pipe")
            return self
        self._is_new = not os.path.lexists(self.path)
        try:
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise self._failure(error) from None
        try:
            self._is_regular = stat.S_ISREG(os.fstat(self._descriptor).st_mode)
            if self._is_regular:
                self._lock()
                self._find_end()
        except BaseException:
            os.close(self._descriptor)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._descriptor == STDOUT:
            return
        try:
            if self._is_regular and self._is_new and not self._end:
                os.unlink(self.path)  # nothing came of it: it is as if we had not run
            elif self._is_regular and self.bytes:
                os.fsync(self._descriptor)
        except OSError as error:
            raise self._failure(error) from None
        finally:
            os.close(self._descriptor)

    def clear(self) -> None:
        """Remove everything that is in the file, if it is one."""
        if self._is_regular:
            os.ftruncate(self._descriptor, 0)
            os.lseek(self._descriptor, 0, os.SEEK_SET)
        self.head, self.last_number, self.last_time, self._end = None, 0, 0, 0

    def begin(self, head: RecordingHead) -> None:
        """Write the head of a new recording."""
        self.head = head
        self._write(encode_head(head))

    def add(self, messages: list[RecordedMessage]) -> None:
        """Write messages that follow each other."""
        if messages:
            self._write(b"".join(map(encode_message, messages)))
            self.messages += len(messages)
            self.last_number, self.last_time = messages[-1].number, messages[-1].time_ns

    def lose(self, loss: RecordedLoss) -> None:
        """Write that numbers are lost."""
        self._write(encode_loss(loss))
        self.last_number, self.last_time = loss.last, 0

    def _write(self, data: bytes) -> None:
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError as error:
            if self._is_regular:
                os.ftruncate(self._descriptor, self._end)  # the part of a record that had room
            raise self._failure(error) from None
        self._end += len(data)
        self.bytes += len(data)

    def _lock(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno != errno.EWOULDBLOCK:
                return  # a file system without locks
            raise CliError(f"{self.path}: another process is recording to it") from None

    def _find_end(self) -> None:
        """Read what is there, and cut off a record that is not whole."""
        reader, last = RecordingReader(), deque[bytes](maxlen=1)
        size = os.fstat(self._descriptor).st_size
        with bar(f"checking {self.path}", size, "bytes") as step:
            try:
                while chunk := os.read(self._descriptor, CHUNK_BYTES):
                    last.extend(reader.feed(chunk))
                    step(reader.end)
                found = decode_record(last[0]) if last else None
            except OSError as error:
                raise self._failure(error) from None
            except BadRecording as error:
                raise CliError(f"{self.path}: {error}; give another file") from None
        if isinstance(found, RecordedMessage):
            self.last_number, self.last_time = found.number, found.time_ns
        elif isinstance(found, RecordedLoss):
            self.last_number = found.last
        self.head, self._end = reader.head, reader.end
        if torn := reader.finish():
            os.ftruncate(self._descriptor, self._end)
            tell(f"{self.path}: the last record was cut short; removed {torn} bytes")
        os.lseek(self._descriptor, self._end, os.SEEK_SET)

    def _failure(self, error: OSError) -> CliError:
        """Return the error for the user."""
        if isinstance(error, BrokenPipeError):
            return CliError(f"{self.shown}: its reader has closed the pipe{self.words()}")
        why = (error.strerror or str(error)).lower()
        return CliError(f"{self.shown}: {why}{self.words()}")

    def words(self) -> str:
        """Say how far it is, for the end of an error message."""
        return f"; recorded up to number {self.last_number}" if self.last_number else ""
