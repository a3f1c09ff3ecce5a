"""The errors sent to a peer: nats-server's to the letter, one line each, and which ones close."""

import re

import pytest

from parser import errors

WORDS: dict[str, tuple[bytes, bool]] = {
    "UnknownOperation": (b"Unknown Protocol Operation", True),
    "PayloadUnended": (b"Unknown Protocol Operation", True),
    "ControlLineTooLong": (b"maximum control line exceeded", True),
    "PayloadTooLarge": (b"Maximum Payload Violation", True),
    "BadArguments": (b"", True),
    "PeerError": (b"", True),
    "BadConnect": (b"", True),
    "HeadersNotAgreed": (b"", True),
    "BadProtocol": (b"invalid client protocol", True),
    "NoRespondersNeedsHeaders": (b"no responders requires headers support", True),
    "NoSuchAccount": (b"Authorization Violation", True),
    "ConnectionsExceeded": (b"maximum connections exceeded", True),
    "StaleConnection": (b"Stale Connection", True),
    "SlowConsumer": (b"Slow Consumer", True),
    "InvalidSubject": (b"Invalid Subject", False),
    "InvalidPublishSubject": (b"Invalid Publish Subject", False),
    "SubscriptionsExceeded": (b"maximum subscriptions exceeded", False),
}


@pytest.mark.parametrize("name", WORDS)
def test_given_a_broken_rule_then_the_peer_gets_nats_servers_words(name: str) -> None:
    words, closes = WORDS[name]
    kind = getattr(errors, name)
    assert kind.reply == (b"-ERR '%b'\r\n" % words if words else b"")
    assert kind.closes is closes
    assert issubclass(kind, errors.Fatal if closes else errors.Refused)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (errors.PublishForbidden(b"$SEQ.x"), b'Permissions Violation for Publish to "$SEQ.x"'),
        (
            errors.ReplyForbidden(b"_R_.x"),
            b'Permissions Violation for Publish with Reply of "_R_.x"',
        ),
        (
            errors.SubscribeForbidden(b"$SEQ.>"),
            b'Permissions Violation for Subscription to "$SEQ.>"',
        ),
        (
            errors.SubscribeForbidden(b"$SEQ.>", b"q"),
            b'Permissions Violation for Subscription to "$SEQ.>" using queue "q"',
        ),
        (
            errors.TooManyNodes(b"a.*", 9),
            b'Permissions Violation for Subscription to "a.*": with the other patterns, one message'
            b" could lead through over 9 nodes; use fewer wildcards",
        ),
        (
            errors.TooManyMatchesOfUser(b"a.*", 9),
            b'Permissions Violation for Subscription to "a.*": one message could match over 9'
            b" subscriptions of this user, or address, besides one of each connection"
            b" (max_matches_per_user); unsubscribe some",
        ),
        (
            errors.TooManyMatches(b"a.*", 9),
            b'Permissions Violation for Subscription to "a.*": one message could match over 9'
            b" subscriptions of this connection (max_matches); unsubscribe some, or use another"
            b" connection",
        ),
        (
            errors.ReplayRefused(b"$SEQ.FROM.0.>", b"0 is not a number"),
            b'Permissions Violation for Subscription to "$SEQ.FROM.0.>": 0 is not a number',
        ),
        (
            errors.JournalFull(b"orders", b"No space left on device"),
            b'Permissions Violation for Publish to "orders": the journal is full'
            b" (No space left on device)",
        ),
        (
            errors.JournalFull(b"orders", b""),
            b'Permissions Violation for Publish to "orders": the journal is full (no room)',
        ),
        (
            errors.PublishForbidden(b"$SEQ.INFO", "a reply subject is needed"),
            b'Permissions Violation for Publish to "$SEQ.INFO": a reply subject is needed',
        ),
    ],
)
def test_given_something_forbidden_then_the_peer_gets_an_error_and_goes_on(
    error: errors.WireError, words: bytes
) -> None:
    assert error.reply == b"-ERR '%b'\r\n" % words
    assert error.closes is False


@pytest.mark.parametrize(
    ("subject", "shown"),
    [
        (b"$SEQ.x", b'"$SEQ.x"'),
        (b'a"b\\c', b'"a\\"b\\\\c"'),
        (b"\n\r\t\x07\x08\x0b\x0c", b'"\\n\\r\\t\\a\\b\\v\\f"'),
        (b"\x00\x1f\x7f", b'"\\x00\\x1f\\x7f"'),
        (b"\xff\xc3", b'"\\xff\\xc3"'),
        ("\u00e4\u2603".encode(), '"\u00e4\u2603"'.encode()),
        ("\u200b\U000e0001".encode(), b'"\\u200b\\U000e0001"'),
    ],
)
def test_given_a_subject_then_it_is_quoted_as_go_does_and_no_byte_of_it_ends_the_line(
    subject: bytes, shown: bytes
) -> None:
    assert errors.quoted(subject) == shown
    assert errors.PublishForbidden(subject).reply.count(b"\n") == 1


def leaves(kind: type[errors.WireError]) -> list[type[errors.WireError]]:
    return [kind, *(leaf for child in kind.__subclasses__() for leaf in leaves(child))]


@pytest.mark.parametrize("kind", leaves(errors.WireError), ids=lambda kind: kind.__name__)
def test_given_any_error_then_the_drawing_names_it_and_its_reply_is_one_line(
    kind: type[errors.WireError],
) -> None:
    assert re.search(rf"\b{kind.__name__}\b", errors.__doc__ or "") or kind is errors.WireError
    assert kind.reply == b"" or re.fullmatch(rb"-ERR '[^'\r\n]+'\r\n", kind.reply)
    assert issubclass(kind, errors.Fatal | errors.Refused) or kind is errors.WireError
