"""The work of `seriatim destn`: listen to one feed or two, and print the messages."""

import asyncio
import base64
import re
import select
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from typing import BinaryIO, Final

import orjson

from sequencer.feed.codecs import codec_named
from sequencer.feed.errors import CodecNotFound
from sequencer.feed.feed_codec import DATA, END, Codec, packet_of
from sequencer.netstring import encode_frame
from seriatim.cli.errors import CliError, UsageError
from seriatim.cli.journal.journal_cat import headers_of
from seriatim.cli.printable import printable_json
from seriatim.cli.pubsub import message_view
from seriatim.receiver import (
    Counters,
    Ended,
    Event,
    FeedMessage,
    Group,
    MessagesLost,
    Receiver,
    ReceiverError,
)
from seriatim.receiver.arrivals import Arrivals
from seriatim.receiver.group import join, rejoined
from seriatim.settings.moments import show_time

QUIET_SECONDS = 1.0  # without a datagram; then check whether the interface has changed
TROUBLE_SECONDS = 1.0  # between two checks for trouble
UNORDERED = ("datagrams", "messages", "heartbeats", "malformed", "kernel_drops")


PATIENCE_SECONDS: Final = 0.005  # as `Receiver`: datagrams of one sender hardly overtake others


@dataclass(frozen=True, slots=True)
class DestinationOptions:
    """How to print what arrives; `view` is decode, json or raw, or empty for frames."""

    codec: str
    fill: str
    start: int | str
    subject: str
    view: str
    count: int
    ordered: bool
    stats: bool
    patience: float = PATIENCE_SECONDS  # how long to wait for a missing number


def feeds_of(group: str, port: int, interface: str, second: str) -> list[Group]:
    """The feeds to listen to; `second` is GROUP:PORT[,interface=..]. Raises `CliError`."""
    try:
        feeds = [Group(group, port, interface)]
        if not second:
            return feeds
        address, *options = second.split(",")
        host, colon, digits = address.rpartition(":")
        for option in options:
            key, equals, value = option.partition("=")
            if key != "interface" or not equals:
                raise UsageError(
                    f'--second: "{option}" is not an option; the only one is interface='
                )
            interface = value
        if not colon or not digits.isascii() or not digits.isdigit():
            raise UsageError(f'--second: "{address}" is not a group and a port; write GROUP:PORT')
        other = Group(host.removeprefix("[").removesuffix("]"), int(digits), interface)
        if _place(other) == _place(feeds[0]):
            raise CliError(
                f"--second: {other} is the first feed itself; give another group, port or interface"
            )
        return [*feeds, other]
    except ReceiverError as error:
        raise CliError(str(error)) from error


def _place(feed: Group) -> tuple[object, ...]:
    """Return a feed's identity, the same for every way to write its address."""
    return ip_address(feed.group), feed.port, feed.interface


def listen(feeds: list[Group], options: DestinationOptions) -> None:
    """Print messages until `count` is reached. Raises `CliError`."""
    try:
        codec = codec_named(options.codec, filtered=options.subject != ">")
        with _interrupted_by_sigterm():
            if options.ordered:
                asyncio.run(_in_order(feeds, codec, options, sys.stdout.buffer))
            else:
                _as_it_comes(feeds[0], codec, options, sys.stdout.buffer)
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    except (ReceiverError, CodecNotFound) as error:
        raise CliError(str(error)) from error


@contextmanager
def _interrupted_by_sigterm() -> Iterator[None]:
    """Handle SIGTERM, from a supervisor or `timeout`, like Ctrl-C: totals are still printed."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class MessagePrinter:
    """Writer of messages in one view, a batch at a time."""

    def __init__(self, name: str, out: BinaryIO) -> None:
        self.encode = encoder(name)
        self.out = out
        self.messages = 0

    def show(self, messages: list[FeedMessage]) -> None:
        """Print the messages, many with one write."""
        self.out.write(b"".join(map(self.encode, messages)))
        self.out.flush()
        self.messages += len(messages)


def encoder(name: str) -> Callable[[FeedMessage], bytes]:
    """The function that prints a message of a feed."""
    match name:
        case "raw":
            return lambda message: bytes(message.payload)
        case "json":
            return as_json
        case "decode":
            return as_line
    return lambda message: encode_frame(message.number, message.payload)


def as_json(message: FeedMessage) -> bytes:
    """One line of JSON, with the fields that the codec has."""
    fields: dict[str, object] = {"number": message.number}
    if message.time:
        fields["time"] = show_time(message.time)
    if message.subject:
        fields["subject"] = _text(message.subject)
    if message.headers:
        fields["headers"] = headers_of(message.headers)
    try:
        fields["payload"] = message.payload.decode()
    except UnicodeDecodeError:
        fields["payload_base64"] = base64.b64encode(message.payload).decode()
    return f"{printable_json(orjson.dumps(fields).decode())}\n".encode()


def as_line(message: FeedMessage) -> bytes:
    """One readable line; more if the payload has several."""
    shown = message_view.ShownMessage(message.number, _text(message.subject), message.payload)
    return message_view.as_text(shown).encode("utf-8", "backslashreplace") + b"\n"


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


def _greet(feeds: list[Group]) -> None:
    """Report that everything sent from now on will be received."""
    _say(f"listening to {' and '.join(map(str, feeds))}")


def _say(text: str) -> None:
    print(f"seriatim: {text}", file=sys.stderr, flush=True)


def _as_it_comes(feed: Group, codec: Codec, options: DestinationOptions, out: BinaryIO) -> None:
    """Print datagrams, or the messages in them, in the order they arrive."""
    heard = join(feed)
    try:
        arrivals, before = Arrivals(heard), Seen()
        _greet([feed])
        reading = Reading(codec, options, out)
        with _counted(options, lambda: reading.lines(before.and_of(arrivals))):
            while not reading.done:
                if select.select([heard], [], [], QUIET_SECONDS)[0]:
                    reading.read(arrivals.datagrams())
                elif (made := rejoined(heard, feed)) is not None:
                    heard.close()
                    before = before.and_of(arrivals)
                    heard, arrivals = made, Arrivals(made)
    finally:
        heard.close()


@dataclass(frozen=True, slots=True)
class Seen:
    """The totals of sockets that were closed and replaced."""

    datagrams: int = 0
    drops: int = 0

    def and_of(self, arrivals: Arrivals) -> "Seen":
        """Add the totals of another socket."""
        return Seen(self.datagrams + arrivals.count, self.drops + arrivals.drops)


class Reading:
    """Printer of datagrams as they come, until `count` is reached."""

    def __init__(self, codec: Codec, options: DestinationOptions, out: BinaryIO) -> None:
        self.codec = codec
        self.options = options
        self.out = out
        self.printer = MessagePrinter(options.view, out)
        self.shown = self.malformed = self.heartbeats = 0
        self.done = False

    def read(self, datagrams: list[bytes]) -> None:
        """Print the datagrams, or the messages in them."""
        if self.options.view:
            self._show([one for datagram in datagrams for one in self._decoded(datagram)])
        else:
            left = datagrams[: self.options.count - self.shown] if self.options.count else datagrams
            self.out.write(b"".join(left))
            self.out.flush()
            self._count(len(left))

    def _show(self, messages: list[FeedMessage]) -> None:
        left = messages[: self.options.count - self.shown] if self.options.count else messages
        self.printer.show(left)
        self._count(len(left))

    def _count(self, shown: int) -> None:
        self.shown += shown
        self.done = bool(self.options.count) and self.shown >= self.options.count

    def _decoded(self, datagram: bytes) -> list[FeedMessage]:
        """The messages of a datagram; the first error is reported, the others counted."""
        try:
            packet = packet_of(self.codec, datagram)
        except Exception as error:  # the codec may be the user's own
            if self.malformed == 0:
                _say(f"a datagram that this codec cannot read, {error}; others are only counted")
            self.malformed += 1
            return []
        if packet.kind != DATA:
            self.heartbeats += 1
            if packet.kind == END:
                _say(f"the feed has ended before number {packet.after}")
        return list(packet.messages)

    def lines(self, seen: Seen) -> list[str]:
        """The totals, as lines of text."""
        return Counters(
            datagrams=seen.datagrams,
            messages=self.printer.messages,
            heartbeats=self.heartbeats,
            malformed=self.malformed,
            kernel_drops=seen.drops,
        ).lines(*UNORDERED)


async def _in_order(
    feeds: list[Group], codec: Codec, options: DestinationOptions, out: BinaryIO
) -> None:
    """Print every number once, in order, or report it as lost."""
    receiver = Receiver(
        feeds,
        codec=codec,
        fill=options.fill or None,
        start=options.start,
        subject=options.subject,
        patience=options.patience,
    )
    printer = MessagePrinter(options.view, out)
    task = asyncio.current_task()
    assert task is not None, "it runs in a loop of its own"
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with receiver:
        _greet(feeds)
        watch = asyncio.create_task(_tell_troubles(receiver))
        try:
            with _counted(options, lambda: [*receiver.counters.lines(), *receiver.troubles]):
                async for events in receiver.batches():
                    if _show_events(events, printer, options.count):
                        return
        finally:
            watch.cancel()


async def _tell_troubles(receiver: Receiver) -> None:
    """Report each kind of trouble once: silence and unanswered requests cause no event."""
    reported: set[str] = set()
    while True:
        for text in receiver.troubles:
            kind = re.sub(r"\d+", "", text)
            if kind not in reported:
                reported.add(kind)
                _say(text)
        await asyncio.sleep(TROUBLE_SECONDS)


def _show_events(events: list[Event], printer: MessagePrinter, count: int) -> bool:
    """Print a batch; return whether `count` is reached."""
    waiting: list[FeedMessage] = []
    for event in events:
        if isinstance(event, FeedMessage):
            waiting.append(event)
            if count and printer.messages + len(waiting) == count:
                break
        else:
            printer.show(waiting)
            waiting = []
            _say(_described(event))
    printer.show(waiting)
    return bool(count) and printer.messages == count


def _described(event: Event) -> str:
    if isinstance(event, MessagesLost):
        if event.first == event.last:
            return f"LOST number {event.first}: it is not available anywhere"
        return (
            f"LOST numbers {event.first} to {event.last}:"
            f" these {event.last - event.first + 1} are not available anywhere"
        )
    if isinstance(event, Ended):
        return f"the feed has ended before number {event.after}"
    return "another stream begins: the numbers that follow belong to other messages"


@contextmanager
def _counted(options: DestinationOptions, lines: Callable[[], list[str]]) -> Iterator[None]:
    """At the end, print the totals, if asked to."""
    try:
        yield
    finally:
        if options.stats:
            print("\n".join(lines()), file=sys.stderr, flush=True)
