"""`seriatim record`: writes messages to a file, over as many connections as it takes.

It is `seriatim sub` with another end: the same reader, which connects again, goes on with the exact
next number, and reports what is lost.
"""

import asyncio
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from seriatim.cli.broker_access import BrokerAccess
from seriatim.cli.errors import CliError
from seriatim.cli.progress import Step, bar
from seriatim.cli.pubsub.sub import PastMessages, SubscribeOptions, tell
from seriatim.cli.pubsub.sub_start import Past, lost, read_past
from seriatim.cli.recording.recording_file import RecordingFile
from seriatim.cli.recording.recording_format import RecordedLoss, RecordedMessage, RecordingHead
from seriatim.client.errors import Lost, Position
from seriatim.client.stream_info import StreamInfo
from seriatim.client.stream_message import Message

ALL = ">"


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """The options of `record`: `subjects` (none: all, or those of the file), beginning and end."""

    subjects: list[str]
    first: int | None = None
    last: int | None = None
    since: str | None = None
    latest: bool = False
    until_now: bool = False
    count: int = 0
    reconnect: float | None = None

    @property
    def ends(self) -> bool:
        """True if it ends by itself."""
        return bool(self.last or self.until_now or self.count)


def record(access: BrokerAccess, options: RecordOptions, path: str) -> None:
    """Record until the end that was asked for, or Ctrl-C. Raises `CliError`."""
    begun = time.monotonic()
    with RecordingFile(path) as file:
        subjects = _subjects(file, options)
        past = _past(file, options)
        if past is None:
            tell(f"{file.shown}: has number {file.last_number} already")
            return

        def ready(words: str) -> None:
            tell(f"recording {named(subjects)}{words}, to {file.shown}")

        wanted = SubscribeOptions(subjects, "", options.count, past, options.reconnect)
        with interrupted_by_sigterm(), ExitStack() as shown:
            sink = MessageRecorder(file, subjects, options.count, past, shown)
            try:
                asyncio.run(PastMessages(access, wanted, past, sink, ready).follow())
            except KeyboardInterrupt:
                if options.ends:
                    tell(summary(file, time.monotonic() - begun))
                    raise  # what was asked for is incomplete
        tell(summary(file, time.monotonic() - begun))


def named(subjects: list[str]) -> str:
    """Name these subjects."""
    return "everything" if subjects == [ALL] else " ".join(subjects)


def summary(file: RecordingFile, seconds: float) -> str:
    """Say what was written."""
    many = f"{file.messages:,} message{'s' * (file.messages != 1)}"
    upto = f", up to number {file.last_number}" if file.last_number else ""
    return f"recorded {many}, {file.bytes:,} bytes, in {seconds:.1f} s, to {file.shown}{upto}"


@contextmanager
def interrupted_by_sigterm() -> Iterator[None]:
    """Handle SIGTERM, from a supervisor or `timeout`, like Ctrl-C: the summary is still printed."""
    before = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _subjects(file: RecordingFile, options: RecordOptions) -> list[str]:
    """Return the subjects to record: those of the file, if it has some already."""
    given = list(dict.fromkeys(options.subjects))
    if file.head is None:
        return given or [ALL]
    recorded = list(file.head.subjects)
    if given and sorted(given) != sorted(recorded):
        raise CliError(
            f"{file.path}: is a recording of {named(recorded)}; give the same subjects, none, or"
            " another file"
        )
    return recorded


def _past(file: RecordingFile, options: RecordOptions) -> Past | None:
    """Return where to begin and to end; None if the file has all of it. Raises `UsageError`."""
    is_new = file.head is None or not file.last_number
    last, until_now = options.last, options.until_now
    begin = (options.first, options.since, options.latest or None)
    if is_new or begin != (None, None, None):
        asked = read_past(options.first, last, options.since, options.latest, until_now)
        if is_new:
            return asked or Past(or_now=True)
    if last is not None and last <= file.last_number:
        return None
    assert file.head is not None, "it has a number"
    behind = Position(file.head.journal, file.last_number, file.last_time)
    return Past(last=last or 0, until_now=until_now, behind=behind)


class MessageRecorder:
    """The sink of the messages: it writes them to the file."""

    done = "recorded"
    anew = "give another file"

    def __init__(
        self,
        file: RecordingFile,
        subjects: list[str],
        count: int,
        past: Past,
        shown: ExitStack,
    ) -> None:
        self._file = file
        self._subjects = subjects
        self._count = count
        self._past = past
        self._shown = shown  # closes the progress bar
        self._before = 0  # where the bar begins, in numbers
        self._step: Step = lambda done: None

    def begin(self, kept: StreamInfo) -> None:
        """Write the head of a new file; refuse one of another journal."""
        self._show_progress(kept)
        file = self._file
        if file.head is None:
            file.begin(RecordingHead(kept.journal, tuple(self._subjects)))
        elif file.head.journal != kept.journal:
            raise CliError(
                f"{file.path}: is a recording of journal {file.head.journal}, and the broker has"
                f" journal {kept.journal}; {self.anew}"
            )

    def take(self, messages: list[Message]) -> bool:
        """Write messages; return whether that was the end."""
        left = self._count - self._file.messages if self._count else len(messages)
        self._file.add([recorded(message) for message in messages[:left]])
        self._step(self._file.last_number - self._before if self._before else self._file.messages)
        return bool(self._count) and self._file.messages >= self._count

    def _show_progress(self, kept: StreamInfo) -> None:
        """Show how many numbers have passed, if the end is known, or how many were recorded."""
        past = self._past
        last = min(past.last or kept.last, kept.last) if past.until_now else past.last
        total = self._count or None
        if last and not self._count:
            self._before = max(past.begin or kept.first, 1) - 1
            total = max(last - self._before, 0)
        unit = "numbers" if self._before else "messages"
        self._step = self._shown.enter_context(bar("recording", total, unit))

    def lose(self, item: Lost) -> None:
        """Say and write what is lost."""
        tell(lost(item))
        self._file.lose(RecordedLoss(item.first, item.last))

    def resume(self, number: int) -> str:
        """Say how to go on."""
        path = self._file.path
        on = "" if path == "-" else f"; the same command goes on with {path}"
        return f"{self._file.words()}{on}"


def recorded(message: Message) -> RecordedMessage:
    """Return a message of the client as it is recorded."""
    return RecordedMessage(
        message.number,
        message.time_ns,
        message.subject.encode("utf-8", "surrogateescape"),
        message.reply.encode("utf-8", "surrogateescape"),
        message.own_block,
        message.payload,
    )
