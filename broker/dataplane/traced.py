"""Messages that are only to be traced: what their headers say, read as nats-server reads it."""

from typing import Final

FIRST_LINE: Final = b"NATS/1.0\r\n"
DISABLED: Final = b"trace disabled"  # what a server writes that has traced a message
ONLY: Final = (b"1", b"true", b"on")


def is_trace_only(headers: bytes) -> bool:
    """Whether the message is not to be delivered: only a trace of it is wanted.

    Names are written just so, each at the start of its line; of equal ones the first that says
    something counts.
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
