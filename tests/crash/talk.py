"""Short conversations with one broker, for the tests of its disk: publish, receive, replay."""

import re
from collections.abc import Iterable

from testkit.model_frame import split_frame
from tests.support.raw import HEADERS, QUIET, Operation, RawClient

REFUSED = re.compile(
    rb"'Permissions Violation for Publish to \"([^\"]+)\": the journal is full \(([^)]+)\)'"
)
NEVER_S = 0.3  # for what must not come: long enough for it to have come


def pub(payload: bytes, subject: bytes = b"a", reply: bytes = b"") -> bytes:
    words = b" ".join(word for word in (subject, reply) if word)
    return b"PUB %s %d\r\n%s\r\n" % (words, len(payload), payload)


def heard(operations: Iterable[Operation]) -> list[tuple[int, bytes]]:
    """Numbers and payloads of messages, and nothing else among them."""
    found = list(operations)
    other = [one for one in found if "MSG" not in one.verb or one.subject.startswith(b"$SEQ.")]
    assert other == [], other
    return [split_frame(operation.payload) for operation in found]


def refusals(operations: Iterable[Operation]) -> list[tuple[bytes, bytes]]:
    """Subjects and reasons, where all of them say that the journal is full."""
    found = []
    for operation in operations:
        match = REFUSED.fullmatch(operation.text)
        assert match is not None, operation
        found.append((match[1], match[2]))
    return found


def replay(port: int, first: int = 1, *, holes: bool = False) -> list[tuple[int, bytes]]:
    """The whole journal from a number on: what is there when this is asked.

    With `holes`, numbers may be reported as lost in between: a disk writes its pages in any order,
    so a power cut may take unsynced messages and leave later ones.
    """
    with RawClient(port, HEADERS) as client:
        client.send(b"SUB _INBOX.last 1\r\nPUB $SEQ.PUB.any _INBOX.last 0\r\n\r\n")
        last = int(client.operation().payload.partition(b":")[2].rstrip(b","))
        if last < first:
            return []
        client.send(b"SUB $SEQ.RANGE.%d.%d.> 2\r\n" % (first, last))
        found = []
        while (operation := client.operation()).subject != b"$SEQ.END.%d" % last:
            if not (holes and operation.subject.startswith(b"$SEQ.LOST.")):
                found.append(operation)
        return heard(found)


def is_silent(client: RawClient) -> bool:
    """Nothing comes, for a while."""
    patience = client.socket.gettimeout()
    client.socket.settimeout(NEVER_S)
    try:
        client.operation()
    except TimeoutError:
        return True
    finally:
        client.socket.settimeout(patience)
    return False


def lives(port: int) -> bool:
    """A new connection is greeted, and its PING answered."""
    with RawClient(port, QUIET) as client:
        return client.ask(b"") == []
