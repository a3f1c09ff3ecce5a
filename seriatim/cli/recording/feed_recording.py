"""`seriatim pcap`: turns captures of a feed into a recording, with the decoding of the receiver.

The receiver's order takes the datagrams by the times of the capture, so that gaps, duplicates, two
feeds of the same messages and senders that fail over are understood as they would have been live.
"""

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from math import inf
from typing import Final

from sequencer.feed.codecs import codec_named
from sequencer.feed.errors import CodecError, CodecNotFound
from sequencer.feed.feed_codec import Packet, packet_of
from sequencer.feed.feed_message import FeedMessage
from seriatim.cli.errors import CliError, UsageError
from seriatim.cli.progress import bar
from seriatim.cli.pubsub.sub import tell
from seriatim.cli.recording.capture_file import CapturedDatagram, DatagramCapture, open_capture
from seriatim.cli.recording.message_recorder import interrupted_by_sigterm, summary
from seriatim.cli.recording.recording_file import RecordingFile
from seriatim.cli.recording.recording_format import RecordedLoss, RecordedMessage, RecordingHead
from seriatim.receiver.events import Ended, MessagesLost
from seriatim.receiver.order import FEEDS, Order, stream_of

NS: Final = 1_000_000_000
BATCH: Final = 1024  # messages, or so, written at once
PATIENCE_SECONDS: Final = 1.0  # nobody waits for the recording: late datagrams are no loss

Target = tuple[bytes, int]


@dataclass(frozen=True, slots=True)
class FeedOptions:
    """The choice of a feed's datagrams, and how to read them; no groups: the only one there is."""

    groups: Sequence[tuple[str, int]] = ()  # with port 0 for any
    port: int = 0
    codec: str = "netstring"
    filtered: str = ">"


def read_group(text: str) -> tuple[str, int]:
    """Read GROUP or GROUP:PORT. Raises `UsageError`."""
    group, port = text, "0"
    if text.startswith("["):
        group, _, rest = text[1:].partition("]")
        port = rest.removeprefix(":") or "0"
    elif text.count(":") == 1:
        group, _, port = text.partition(":")
    try:
        address = ip_address(group)
        number = int(port) if port.isascii() and port.isdigit() else -1
        if not 0 <= number < 1 << 16:
            raise ValueError
    except ValueError:
        raise UsageError(f'--group: "{text}" is no group; write GROUP or GROUP:PORT') from None
    return str(address), number


def record_captures(paths: list[str], options: FeedOptions, output: str, force: bool) -> bool:
    """Write the recording; return whether nothing is missing. Raises `CliError`.

    With `force`, an older recording is replaced once the new one is whole.
    """
    if force and output != "-" and os.path.isfile(output):
        fresh = f"{output}.{os.getpid()}.new"
        try:
            is_whole = _record(paths, options, fresh)
            os.replace(fresh, output)
        except OSError as error:
            raise CliError(f"{output}: {error.strerror}") from None
        finally:
            with suppress(FileNotFoundError):
                os.unlink(fresh)
        return is_whole
    return _record(paths, options, output)


def _record(paths: list[str], options: FeedOptions, output: str) -> bool:
    begun = time.monotonic()
    with RecordingFile(output) as file:
        if file.head is not None:
            raise CliError(f"{output}: the file exists already; --force replaces it")
        recorder = FeedRecorder(file, options)
        try:
            with interrupted_by_sigterm():
                for path in paths:
                    _read(path, recorder)
                recorder.finish()
        except CliError:
            file.clear()  # it would be in the way of the next attempt
            raise
        except KeyboardInterrupt:
            recorder.report()
            tell(summary(file, time.monotonic() - begun))
            raise
    recorder.report()
    tell(summary(file, time.monotonic() - begun))
    return recorder.is_whole


def _read(path: str, recorder: "FeedRecorder") -> None:
    with open_capture(path) as file:
        capture = DatagramCapture("standard input" if path == "-" else path, file)
        size = None
        if file.seekable():
            size = file.seek(0, 2)
            file.seek(0)
        with bar(f"reading {capture.name}", size, "bytes") as step:
            for at, datagram in enumerate(capture.datagrams()):
                recorder.take(datagram)
                if size is None:
                    recorder.write()  # the next one may come much later
                elif at % BATCH == 0:
                    step(file.tell())
    recorder.note_capture(capture)


class FeedRecorder:
    """Writes what the datagrams of a feed hold: each number once, in their order."""

    def __init__(self, file: RecordingFile, options: FeedOptions) -> None:
        self.is_whole = True
        self._file = file
        self._options = options
        try:
            self._codec = codec_named(options.codec, filtered=options.filtered != ">")
        except CodecNotFound as error:
            raise CliError(str(error)) from None
        self._order = Order(filtered=options.filtered != ">", patience=PATIENCE_SECONDS)
        self._targets: list[Target] = []  # the groups, in the order in which they were heard
        self._now = 0.0  # the time of the capture, which never goes back here
        self._first_ns = 0
        self._held: list[RecordedMessage] = []
        self._datagrams = self._malformed = self._lost = 0
        self._fault = ""
        self._stream = ""  # the head's journal
        self._is_over = False  # another stream has begun
        self._after_end = 0

    def take(self, datagram: CapturedDatagram) -> None:
        """Take a datagram, if it is of the feed. Raises `CliError`."""
        feed = self._feed_of(datagram.target)
        if feed < 0:
            return
        self._first_ns = self._first_ns or datagram.time_ns
        self._now = max(self._now, datagram.time_ns / NS)
        try:
            packets = self._packets_of(datagram.payload)
        except Exception as error:  # the codec may be the user's own, the datagram anybody's
            self._datagrams += 1
            self._malformed += 1
            self._fault = f"{type(error).__name__}: {error}"
            return
        self._datagrams += len(packets)
        order = self._order
        if order.due <= self._now:
            order.due_requests(self._now, 0)  # what is missing for too long is lost
        for packet in packets:
            source = hash(datagram.source) | 1
            order.offer(_stamped(packet, datagram.time_ns), self._now, feed, source)
        self._drain()

    def finish(self) -> None:
        """Write what still waits for missing numbers."""
        self._order.due_requests(inf, 0)
        self._drain()
        self.write()

    def note_capture(self, capture: DatagramCapture) -> None:
        """Say what could not be read of a file."""
        for count, what in (
            (capture.cut, "packets captured only in part; give tcpdump -s 0"),
            (capture.fragmented, "datagrams that lack a fragment"),
            (int(capture.torn), "packets at the end that are cut short"),
        ):
            if count:
                self.is_whole = False
                tell(f"{capture.name}: left out: {count:,} {what}")
        if not capture.packets:
            tell(f"{capture.name}: there is no packet in it")

    def report(self) -> None:
        """Say what was heard, and what not."""
        holes, order = self._order.holes, self._order
        if not self._datagrams:
            self.is_whole = False
            tell("no datagram of the feed was captured; --group and --port say which they are")
            return
        feeds = " and ".join(map(_shown, self._targets))
        tell(
            f"datagrams to {feeds}: {self._datagrams:,}; messages that came twice:"
            f" {holes.duplicates:,}, late: {holes.late:,}; missing numbers: {self._lost:,}"
        )
        if order.strangers:
            tell(f"left out: {order.strangers:,} datagrams of another stream")
        if self._malformed or order.malformed:
            self.is_whole = False
            count = self._malformed + order.malformed
            why = f": {self._fault}" if self._fault else ""
            codec = self._options.codec
            tell(f"left out: {count:,} datagrams that --codec {codec} cannot read{why}")
        if self._after_end:
            self.is_whole = False
            tell(
                f"another stream begins behind number {self._file.last_number}; left out:"
                f" {self._after_end:,} messages of it"
            )

    def _packets_of(self, datagram: bytes) -> list[Packet]:
        """Decode a datagram, or several of one size: the sender hands them to the kernel together.

        On its own machine a capture shows such ones as one. Raises what the codec raises.
        """
        try:
            return [packet_of(self._codec, datagram)]
        except CodecError as error:
            size = error.offset  # where the first one ends, if that is the reason
            if not 0 < size < len(datagram):
                raise
        pieces = (datagram[at : at + size] for at in range(0, len(datagram), size))
        return [packet_of(self._codec, piece) for piece in pieces]

    def _feed_of(self, target: Target) -> int:
        """Return which feed a datagram belongs to, 0 or 1; -1 if none. Raises `CliError`."""
        if target in self._targets:
            return self._targets.index(target)
        host, port = str(ip_address(target[0])), target[1]
        options = self._options
        if options.port and port != options.port:
            return -1
        if options.groups:
            if (host, port) not in options.groups and (host, 0) not in options.groups:
                return -1
        elif not ip_address(target[0]).is_multicast:
            return -1
        elif self._targets:
            raise CliError(
                f"the capture has datagrams to {_shown(self._targets[0])} and to {_shown(target)};"
                " say which is the feed with --group, twice if both carry the same messages"
            )
        if len(self._targets) == FEEDS:
            raise CliError(
                f"the capture has datagrams of --group to more than {FEEDS} ports; give --port"
            )
        self._targets.append(target)
        return len(self._targets) - 1

    def _drain(self) -> None:
        """Take over what the order can deliver."""
        for event in self._order.drain():
            self._stream = self._stream or self._name()
            if isinstance(event, FeedMessage):
                if self._is_over:
                    self._after_end += 1
                    continue
                self._held.append(
                    RecordedMessage(
                        *(event.number, event.time, event.subject, b""),
                        *(event.headers, event.payload),
                    )
                )
            elif isinstance(event, MessagesLost):
                if not self._is_over:
                    self._lose(event)
            elif not isinstance(event, Ended):  # NewStream
                self._is_over = True
        if len(self._held) >= BATCH:
            self.write()

    def _lose(self, event: MessagesLost) -> None:
        self.write()
        self._begin()
        self.is_whole = False
        self._lost += event.last - event.first + 1
        what = f"number {event.first} is"
        if event.last > event.first:
            what = f"numbers {event.first} to {event.last} are"
        tell(f"{what} missing")
        self._file.lose(RecordedLoss(event.first, event.last))

    def write(self) -> None:
        """Write what is complete."""
        if self._held:
            self._begin()
            self._file.add(self._held)
            self._held = []

    def _begin(self) -> None:
        if self._file.head is None:
            self._file.begin(RecordingHead(self._stream, (self._options.filtered,)))

    def _name(self) -> str:
        """Return the journal's id, if the codec carries it, or else a name for the stream."""
        session = self._order.session
        if session:
            return stream_of(session).decode("ascii", "backslashreplace")
        return f"{_shown(self._targets[0])}@{self._first_ns}"


def _shown(target: Target) -> str:
    host = ip_address(target[0])
    return f"[{host}]:{target[1]}" if host.version == 6 else f"{host}:{target[1]}"


def _stamped(packet: Packet, time_ns: int) -> Packet:
    """Give the messages the time of the capture if the codec carries none."""
    packet.messages[:] = [
        one if one.time else FeedMessage(one.number, one.payload, one.subject, one.headers, time_ns)
        for one in packet.messages
    ]
    return packet
