"""Messages that ask for a trace only: reads their headers as nats-server does."""

from typing import Final

FIRST_LINE: Final = b"NATS/1.0\r\n"
DISABLED: Final = b"trace disabled"  # written by a server that has already traced the message
ONLY: Final = (b"1", b"true", b"on")


def is_trace_only(headers: bytes) -> bool:
    """True if the message must not be delivered, because it asks for its trace only.

    Names are case-sensitive and begin a line. Of equal names, the first with a value counts.
    """
    if not headers.startswith(FIRST_LINE):
        return False
    found: dict[bytes, bytes] = {}
    at = len(FIRST_LINE)
    while (colon := headers.find(b":", at)) >= 0:
        end = headers.find(b"\r\n", colon)
        if end < 0:
            break
        name, value = headers[at:colon], headers[colon + 1 : end].strip(b" \t")
        if value:
            found.setdefault(name, value)
        at = end + 2
    wanted = found.get(b"Nats-Trace-Dest", DISABLED) != DISABLED
    return wanted and found.get(b"Nats-Trace-Only", b"").lower() in ONLY
