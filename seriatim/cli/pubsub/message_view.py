"""How `seriatim sub` shows a message: as text, raw, as JSON, or as its frame.

text    88485  orders.new  hello world      the number, the subject, the payload, in one line
raw     hello world                         the payload alone: its bytes, and nothing between them
json    {"number": 88485, ...}              one line; binary payloads in base64
frame   23:5:88485,11:hello world,,         the number and the payload, back to back in a pipe
"""

import base64
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from sequencer.netstring import encode_frame
from seriatim.cli.printable import printable
from seriatim.client.stream_message import Message
from seriatim.settings.moments import show_time

VIEWS = ("text", "raw", "json", "frame")


@dataclass(frozen=True, slots=True)
class ShownMessage:
    """A message as it is shown: with its number, if it has one."""

    number: int | None
    subject: str
    payload: bytes
    reply: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    received: int = 0  # ns since 1970, by the local clock
    time: int = 0  # when it was published, by the broker's record; 0: unknown


def understand(arrived: Message) -> ShownMessage:
    """Return what is shown of a message that was received just now."""
    headers = dict(arrived.headers)
    if arrived.status:
        headers |= {"Status": str(arrived.status), "Description": arrived.description}
    return ShownMessage(
        arrived.number or None,
        arrived.subject,
        arrived.payload,
        arrived.reply,
        headers,
        received=time.time_ns(),
        time=arrived.time_ns,
    )


def printer(view: str, out: BinaryIO, colour: bool) -> Callable[[ShownMessage], None]:
    """A function that writes one message to `out` and flushes it."""
    terminal = out.isatty()
    if view == "text" and colour:
        return _coloured()

    def show(message: ShownMessage) -> None:
        if view == "raw":
            out.write(message.payload)
        elif view == "json":
            out.write(as_json(message).encode() + b"\n")
        elif view == "frame":
            _write_frame(message, out, terminal)
        else:
            out.write(as_text(message).encode("utf-8", "backslashreplace") + b"\n")
        out.flush()

    return show


def as_text(message: ShownMessage) -> str:
    """The text view, without colours."""
    return "".join(text for text, _ in _pieces(message))


def as_json(message: ShownMessage) -> str:
    """One line of JSON, with the broker's time of the message, or else when it was received."""
    fields: dict[str, Any] = {"number": message.number}
    if message.time:
        fields["time"] = show_time(message.time)
    elif message.received:
        fields["received"] = show_time(message.received)
    fields["subject"] = message.subject
    if message.reply:
        fields["reply"] = message.reply
    if message.headers:
        fields["headers"] = message.headers
    try:
        fields["payload"] = message.payload.decode()
    except UnicodeDecodeError:
        fields["payload_base64"] = base64.b64encode(message.payload).decode()
    return json.dumps(fields)


def _write_frame(message: ShownMessage, out: BinaryIO, terminal: bool) -> None:
    if message.number is None:
        subject = printable(message.subject)
        print(f"seriatim: a message on {subject} has no number; skipped", file=sys.stderr)
        return
    # Frames are self-delimiting: in a pipe they stay a stream that a decoder can read.
    out.write(encode_frame(message.number, message.payload) + b"\n" * terminal)


def _pieces(message: ShownMessage) -> list[tuple[str, str]]:
    """The text view as (text, style)."""
    number = "-" if message.number is None else str(message.number)
    pieces = [(number.rjust(8), "bold cyan")]
    if message.subject:
        pieces += [("  ", ""), (printable(message.subject), "green")]
    if message.reply:
        pieces += [("  reply ", "dim"), (printable(message.reply), "magenta")]
    pieces += [("  ", ""), (_printable_payload(message.payload), "")]
    for key, value in message.headers.items():
        pieces += [(f"\n{'':8}  {printable(key)}: ", "dim"), (printable(value), "yellow")]
    return pieces


def _printable_payload(payload: bytes) -> str:
    """The payload in one line: a line of its own could look like another message."""
    return printable(payload.decode("utf-8", "backslashreplace").replace("\t", "    "))


def _coloured() -> Callable[[ShownMessage], None]:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True, force_terminal=True)

    def show(message: ShownMessage) -> None:
        console.print(Text.assemble(*_pieces(message)))

    return show
