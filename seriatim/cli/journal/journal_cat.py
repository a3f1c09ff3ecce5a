"""`seriatim journal cat`: prints messages of a journal; with --follow also new ones.

text    88485  orders.new  hello world      as `seriatim sub` shows it
raw     hello world                         the payload alone, and a line end
json    {"number": 88485, "time": ...}      one line; binary payloads in base64
frame   23:5:88485,11:hello world,,         as subscribers got it, back to back in a pipe
"""

import base64
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO

import orjson

from sequencer.journal import Lost, Reader, Record
from sequencer.netstring import encode_frame
from seriatim.cli.journal.journal_span import Losses, Span, store_errors
from seriatim.cli.printable import printable_json
from seriatim.cli.pubsub.message_view import ShownMessage, as_text
from seriatim.settings.moments import show_time

BUFFER_BYTES = 1 << 16


def cat(
    reader: Reader, span: Span, follow: bool, count: int, out: BinaryIO, encode: "Encode"
) -> bool:
    """Print at most `count` messages of the span (0: all). False: some are lost by damage."""
    losses = Losses()
    pending = bytearray()
    shown = 0

    def flush() -> None:
        nonlocal pending
        text, pending = pending, bytearray()  # first: an interrupt must not print them twice
        out.write(text)
        out.flush()

    with store_errors(reader.view.path):
        try:
            for item in _items(reader, span, follow, flush):
                if isinstance(item, Lost):
                    flush()
                    losses.tell(item)
                    continue
                pending += encode(item)
                shown += 1
                if shown == count:
                    break
                if len(pending) >= BUFFER_BYTES:
                    flush()
        except KeyboardInterrupt:
            if not follow:
                raise  # part of the span is lost
        flush()
    return not losses.damaged


def _items(
    reader: Reader, span: Span, follow: bool, flush: Callable[[], None]
) -> Iterable[Record | Lost]:
    if follow:
        return _followed(reader, span, flush)
    # fixed now: a broker that writes faster than we print must not keep us here
    last = reader.bounds()[1]
    end = last if span.last is None else min(span.last, last)
    return reader.records(span.first, end, span.wanted)


def _followed(reader: Reader, span: Span, flush: Callable[[], None]) -> Iterator[Record | Lost]:
    """Yield what is there and what comes; flush before each wait."""
    follower = reader.follow(span.first, span.last, span.wanted)
    try:
        while not follower.done:
            items = follower.poll()
            yield from items
            if not items and not follower.done:
                flush()
                follower.wait()
    finally:
        follower.close()


Encode = Callable[[Record], bytes]


def encoder(view: str, terminal: bool) -> Encode:
    """The function that prints a message in this view."""
    if view == "raw":
        return lambda record: bytes(record.payload)
    if view == "json":
        return as_json
    if view == "frame":
        end = b"\n" if terminal else b""  # frames are self-delimiting
        return lambda record: encode_frame(record.number, record.payload) + end
    return _as_line


def as_json(record: Record) -> bytes:
    """One line of JSON."""
    fields: dict[str, Any] = {
        "number": record.number,
        "time": show_time(record.time),
        "subject": _text(record.subject),
    }
    if record.reply:
        fields["reply"] = _text(record.reply)
    if record.headers:
        fields["headers"] = headers_of(bytes(record.headers))
    payload = bytes(record.payload)
    try:
        fields["payload"] = payload.decode()
    except UnicodeDecodeError:
        fields["payload_base64"] = base64.b64encode(payload).decode()
    return f"{printable_json(orjson.dumps(fields).decode())}\n".encode()


def headers_of(block: bytes) -> dict[str, str | list[str]]:
    """A block of NATS headers as a mapping; a list if a key has several values."""
    headers: dict[str, str | list[str]] = {}
    for line in block.split(b"\r\n")[1:]:
        key, colon, value = line.partition(b":")
        if not colon:
            continue
        name, text = _text(key), _text(value.strip())
        before = headers.get(name)
        if before is None:
            headers[name] = text
        else:
            headers[name] = [*before, text] if isinstance(before, list) else [before, text]
    return headers


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


def _as_line(record: Record) -> bytes:
    headers = {
        key: value if isinstance(value, str) else ", ".join(value)
        for key, value in headers_of(bytes(record.headers)).items()
    }
    message = ShownMessage(
        record.number, _text(record.subject), bytes(record.payload), _text(record.reply)
    )
    message.headers.update(headers)
    return as_text(message).encode("utf-8", "backslashreplace") + b"\n"
