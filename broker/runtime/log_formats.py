"""Formats of a line of the log: as in nats-server, or JSON.

Parts of a line may be chosen by clients: subjects, names, pieces of what they sent. So both formats
escape every character that cannot be printed, line ends and the escapes of terminals among them.
"""

import json
import logging
import os
import time
from typing import Final

TEXT: Final = "text"
JSON: Final = "json"

_SHORT = {"DEBUG": "DBG", "INFO": "INF", "WARNING": "WRN", "ERROR": "ERR", "CRITICAL": "FTL"}
# nats-server's colours.
_COLOURS = {"DEBUG": "36", "INFO": "32", "WARNING": "0;93", "ERROR": "31", "CRITICAL": "31"}
_COLOURED = {name: f"\x1b[{_COLOURS[name]}m{short}\x1b[0m" for name, short in _SHORT.items()}
_WORDS = {"CRITICAL": "fatal"}
_MARGIN = "    "  # before each further line, so that none looks like the first one of a record


class ClientLabel(str):
    """A client's name in the log: `HOST:PORT - cid:N`. JSON lines have both in fields of their own.

    It stands first in a line: `log.info("%s - text", label)`.
    """

    __slots__ = ("cid", "client")

    client: str
    cid: int

    def __new__(cls, client: str, cid: int) -> "ClientLabel":
        """`client` is its address and port."""
        made = super().__new__(cls, f"{client} - cid:{cid}")
        made.client, made.cid = client, cid
        return made


class TextFormat(logging.Formatter):
    """`[pid] 2026/11/20 10:55:30.123456 [INF] text`; a trace follows in lines with a margin."""

    def __init__(self, *, coloured: bool = False) -> None:
        """With `coloured`, the level is."""
        super().__init__()
        self._levels = _COLOURED if coloured else _SHORT

    def format(self, record: logging.LogRecord) -> str:
        when = time.strftime("%Y/%m/%d %H:%M:%S", time.localtime(record.created))
        micros = int(record.created % 1 * 1_000_000)
        level = self._levels.get(record.levelname, record.levelname)
        text = message_of(record)
        more: list[str] = []
        if record.name == "asyncio":  # it explains an error in lines of its own
            text, *more = text.splitlines() or [""]
        if record.exc_info:
            more += self.formatException(record.exc_info).splitlines()
        line = f"[{os.getpid()}] {when}.{micros:06d} [{level}] {printable(text)}"
        return "\n".join([line, *(_MARGIN + printable(one) for one in more)])


class JsonFormat(logging.Formatter):
    """One JSON object a line: `time` (RFC 3339, UTC), `level`, `message`.

    Also `client` and `cid` if it is about a client, and `trace` for an unexpected error.
    """

    def format(self, record: logging.LogRecord) -> str:
        when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        micros = int(record.created % 1 * 1_000_000)
        text = message_of(record)
        fields: dict[str, object] = {
            "time": f"{when}.{micros:06d}Z",
            "level": _WORDS.get(record.levelname, record.levelname.lower()),
            "message": text,
        }
        label = record.args[0] if isinstance(record.args, tuple) and record.args else None
        if isinstance(label, ClientLabel):
            fields["message"] = text.removeprefix(f"{label} - ")
            fields |= {"client": label.client, "cid": label.cid}
        if record.exc_info:
            fields["trace"] = self.formatException(record.exc_info)
        return json.dumps(fields)  # ASCII only, so nothing of it is a control character


def format_named(name: str, *, coloured: bool = False) -> logging.Formatter:
    """Return the format of the setting `log_format`. JSON is never coloured."""
    return JsonFormat() if name == JSON else TextFormat(coloured=coloured)


def message_of(record: logging.LogRecord) -> str:
    """Return the text of a record, with what `log_bounds` has to say about it."""
    text = record.getMessage()
    note = getattr(record, "note", "")
    return f"{text} ({note})" if note else text


def printable(text: str) -> str:
    """Return `text` with every unprintable character as an escape, such as `\\x1b`."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)
