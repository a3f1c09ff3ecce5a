"""Protocol errors: what a client can do wrong, and the exact text it gets back.

There is one class for each rule. The class holds the text for the client and says whether
the connection is closed, so callers compare no strings and keep no table of their own. If
`reply` is empty, the connection is closed without an error message, as nats-server does:

    WireError
    |-- Fatal                          the connection is closed after `reply`
    |   |-- UnknownOperation           the stream can no longer be framed
    |   |   `-- PayloadUnended
    |   |-- ControlLineTooLong
    |   |-- PayloadTooLarge
    |   |-- BadArguments               (no reply)
    |   |-- PeerError                  (no reply) the client sent -ERR
    |   |-- BadConnect                 (no reply)
    |   |-- HeadersNotAgreed           (no reply)
    |   |-- BadProtocol, NoRespondersNeedsHeaders, BadFrameOption, NoSuchAccount
    |   |-- AuthorizationViolation, AuthenticationTimeout, TooManyLogins
    |   `-- ConnectionsExceeded, StaleConnection, SlowConsumer
    `-- Refused                        only this operation is dropped
        |-- InvalidSubject, InvalidPublishSubject, SubscriptionsExceeded
        |-- PublishForbidden, ReplyForbidden, SubscribeForbidden, GroupForbidden, ReplayRefused
        |-- TooManyTokens, TooManyNodes, TooManyMatches, TooManyMatchesOfUser
        `-- JournalFull, ClusterUnavailable

`reason` names the end of the connection as nats-server does, in /connz and in a WebSocket's close
frame.

`str(error)` goes to our log and says what was received. `error.reply` goes to the client and
says which rule it broke. Its words are those of nats-server 2.15.1, because client libraries
match them literally.
"""

from typing import Final

# The status of a request that may succeed later. Not 503: NATS libraries take every 503 for "no
# responders", and its reason is lost.
AGAIN: Final = 504

_ESCAPES = {7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r"}


def quoted(text: bytes) -> bytes:
    """Quote a subject as Go's `%q` does: characters that cannot be printed are escaped.

    So no byte that a client chose can end the line of the error message.
    """
    parts = []
    for char in text.decode("utf-8", "surrogateescape"):
        code = ord(char)
        if char in '"\\':
            parts.append("\\" + char)
        elif char.isprintable():
            parts.append(char)
        elif 0xDC80 <= code <= 0xDCFF:  # a byte that is not valid UTF-8
            parts.append(f"\\x{code - 0xDC00:02x}")
        elif code in _ESCAPES:
            parts.append(_ESCAPES[code])
        elif code < 32 or code == 127:
            parts.append(f"\\x{code:02x}")
        else:
            parts.append(f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")
    return b'"%b"' % "".join(parts).encode()


def shown(text: bytes, most: int | None = None) -> str:
    """Return `quoted` as text; of a longer one only the first `most` bytes."""
    if most is not None and len(text) > most:
        text = text[:most] + b"..."
    return quoted(text).decode()


def _words(text: bytes) -> str:
    return text.decode("utf-8", "replace")


class WireError(Exception):
    """The base class; catch this to catch every protocol error."""

    reply = b""
    closes = True
    reason = "Protocol Violation"


class Fatal(WireError):
    """The connection is closed."""


class UnknownOperation(Fatal):
    reply = b"-ERR 'Unknown Protocol Operation'\r\n"


class PayloadUnended(UnknownOperation):
    """A payload is not followed by CR LF."""


class ControlLineTooLong(Fatal):
    """A line is too long. `of_connect`: it is a CONNECT, so it may contain credentials."""

    reply = b"-ERR 'maximum control line exceeded'\r\n"
    reason = "Maximum Control Line Exceeded"

    def __init__(self, text: str = "", of_connect: bool = False) -> None:
        super().__init__(text)
        self.of_connect = of_connect


class PayloadTooLarge(Fatal):
    reply = b"-ERR 'Maximum Payload Violation'\r\n"
    reason = "Maximum Message Payload Exceeded"


class BadArguments(Fatal):
    """Too few or too many words, or a size that is not a number."""


class PeerError(Fatal):
    """The client sent -ERR."""

    reason = "Client Closed"


class BadConnect(Fatal):
    """The options of CONNECT are not a JSON object, or one has the wrong type."""


class HeadersNotAgreed(Fatal):
    """HPUB from a client whose CONNECT did not say `headers: true`."""


class BadProtocol(Fatal):
    reply = b"-ERR 'invalid client protocol'\r\n"
    reason = "Bad Client Protocol Version"


class NoRespondersNeedsHeaders(Fatal):
    reply = b"-ERR 'no responders requires headers support'\r\n"
    reason = "No Responders Requires Headers"


class NoSuchAccount(Fatal):
    reply = b"-ERR 'Authorization Violation'\r\n"
    reason = "Missing Account"


class AuthorizationViolation(Fatal):
    """The client is unknown, or did not authenticate."""

    reply = b"-ERR 'Authorization Violation'\r\n"
    reason = "Authentication Failure"


class AuthenticationTimeout(Fatal):
    reply = b"-ERR 'Authentication Timeout'\r\n"
    reason = "Authentication Timeout"


class TooManyLogins(Fatal):
    """The credentials were not checked, as there were too many others: the client may try again.

    The words are our own. NATS' libraries give up after `Authorization Violation`.
    """

    reply = b"-ERR 'Too Many Login Attempts, Try Again Later'\r\n"
    reason = "Authentication Failure"


class BadFrameOption(Fatal):
    reply = b"-ERR 'invalid frame option: use netstring, header, stamp or none'\r\n"


class ConnectionsExceeded(Fatal):
    reply = b"-ERR 'maximum connections exceeded'\r\n"
    reason = "Maximum Connections Exceeded"


class StaleConnection(Fatal):
    reply = b"-ERR 'Stale Connection'\r\n"
    reason = "Stale Connection"


class SlowConsumer(Fatal):
    reply = b"-ERR 'Slow Consumer'\r\n"
    reason = "Slow Consumer (Pending Bytes)"


class Refused(WireError):
    """The operation is dropped; the connection stays open."""

    closes = False


class InvalidSubject(Refused):
    reply = b"-ERR 'Invalid Subject'\r\n"


class InvalidPublishSubject(Refused):
    reply = b"-ERR 'Invalid Publish Subject'\r\n"


class SubscriptionsExceeded(Refused):
    reply = b"-ERR 'maximum subscriptions exceeded'\r\n"


class PublishForbidden(Refused):
    """`why` is one line; it comes after the words that clients look for."""

    def __init__(self, subject: bytes, why: str = "") -> None:
        because = f": {why}" if why else ""
        super().__init__(f"publish to {shown(subject)}{because}")
        words = b"-ERR 'Permissions Violation for Publish to %b%b'\r\n"
        self.reply = words % (quoted(subject), because.encode())


class ReplyForbidden(Refused):
    def __init__(self, reply: bytes) -> None:
        super().__init__(f"publish with reply {shown(reply)}")
        words = b"-ERR 'Permissions Violation for Publish with Reply of %b'\r\n"
        self.reply = words % quoted(reply)


class SubscribeForbidden(Refused):
    """With a `sid`: the subscription was allowed before, and has ended."""

    def __init__(self, subject: bytes, queue: bytes | None = None, sid: bytes = b"") -> None:
        super().__init__(
            f"subscribe to {shown(subject)}" + (f", queue {shown(queue)}" if queue else "")
        )
        group = b" using queue %b" % quoted(queue) if queue else b""
        ended = b" (sid %b)" % quoted(sid) if sid else b""
        words = b"-ERR 'Permissions Violation for Subscription to %b%b%b'\r\n"
        self.reply = words % (quoted(subject), group, ended)


class GroupForbidden(Refused):
    """A member of a queue group, where there are none."""

    def __init__(self, subject: bytes, queue: bytes, why: bytes, sid: bytes = b"") -> None:
        super().__init__(f"subscribe to {shown(subject)}, queue {shown(queue)}: {_words(why)}")
        ended = b" (sid %b)" % quoted(sid) if sid else b""
        words = b"-ERR 'Permissions Violation for Subscription to %b using queue %b%b: %b'\r\n"
        self.reply = words % (quoted(subject), quoted(queue), ended, why)


class TooManyTokens(Refused):
    """The subject of a subscription has more tokens than allowed."""

    def __init__(self, subject: bytes) -> None:
        super().__init__(f"subscribe to {shown(subject)}: too many tokens")
        words = b"-ERR 'Permissions Violation for Subscription to %b, too many tokens'\r\n"
        self.reply = words % quoted(subject)


class TooManyNodes(Refused):
    """With this pattern, matching one subject could visit too many nodes."""

    def __init__(self, subject: bytes, most: int) -> None:
        super().__init__(f"subscribe to {shown(subject)}: over {most} nodes to match")
        words = (
            b"-ERR 'Permissions Violation for Subscription to %b: with the other patterns, one"
            b" message could lead through over %d nodes; use fewer wildcards'\r\n"
        )
        self.reply = words % (quoted(subject), most)


class TooManyMatches(Refused):
    """With this subscription, one message could match too many subscriptions of the connection."""

    def __init__(self, subject: bytes, most: int) -> None:
        super().__init__(f"subscribe to {shown(subject)}: over {most} matches of one message")
        words = (
            b"-ERR 'Permissions Violation for Subscription to %b: one message could match over %d"
            b" subscriptions of this connection (max_matches); unsubscribe some, or use another"
            b" connection'\r\n"
        )
        self.reply = words % (quoted(subject), most)


class TooManyMatchesOfUser(Refused):
    """Like `TooManyMatches`, for all connections of a user; without users, of an address."""

    def __init__(self, subject: bytes, most: int) -> None:
        super().__init__(
            f"subscribe to {shown(subject)}: over {most} matches of one message in all"
        )
        words = (
            b"-ERR 'Permissions Violation for Subscription to %b: one message could match over %d"
            b" subscriptions of this user, or address, besides one of each connection"
            b" (max_matches_per_user); unsubscribe some'\r\n"
        )
        self.reply = words % (quoted(subject), most)


class ReplayRefused(Refused):
    """A `$SEQ.` subscription with an invalid request; `reason` says what would be valid."""

    def __init__(self, subject: bytes, reason: bytes) -> None:
        super().__init__(f"replay of {shown(subject)}: {_words(reason)}")
        words = b"-ERR 'Permissions Violation for Subscription to %b: %b'\r\n"
        self.reply = words % (quoted(subject), reason)


class ClusterUnavailable(Refused):
    """The message was refused before it got a number: the cluster cannot order any at the moment.

    Clients stay connected after an error with these words.
    """

    def __init__(self, subject: bytes, problem: bytes) -> None:
        super().__init__(f"publish to {shown(subject)}: {_words(problem)}")
        words = b"-ERR 'Permissions Violation for Publish to %b: %b'\r\n"
        self.reply = words % (quoted(subject), problem)


class JournalFull(Refused):
    """The message was refused before it got a number.

    Clients stay connected after an error with these words.
    """

    def __init__(self, subject: bytes, problem: bytes) -> None:
        super().__init__(f"publish to {shown(subject)}: no room in the journal: {_words(problem)}")
        words = b"-ERR 'Permissions Violation for Publish to %b: the journal is full (%b)'\r\n"
        self.reply = words % (quoted(subject), problem or b"no room")
