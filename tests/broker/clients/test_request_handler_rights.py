"""`$SEQ.` requests of users with permissions: only what they may subscribe and publish to.

With a journal on disk, and in memory: `STORES`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from seriatim.client.chunk_columns import Columns
from tests.support.raw import Operation
from tests.support.serving import Broker, Client
from tests.support.twin_users import TwinUsers
from tests.support.user_broker import (
    Reload,
    errors,
    json_of,
    login,
    payloads,
    serving_users,
)

STORES: dict[str, dict[str, Any]] = {
    "disk": {},
    "memory": {"journal.enabled": False, "journal.ring_bytes": "64MiB"},
}
ROOT = {"user": "root", "password": "root"}
INBOX = "_INBOX.>"
READER: dict[str, Any] = {
    "subscribe": {"allow": ["orders.>", "lit", INBOX, "$SEQ.FROM.>", "$SEQ.LAST.orders.>"]},
    "publish": ["$SEQ.GET.>", "$SEQ.READ", "$SEQ.LAST.>", "$SEQ.INFO", "$SEQ.PUB.>", "orders.>"],
}
PUBLISHED = ("orders.1", "orders.secret", "other", "lit", "orders.2", "orders.a.secret")


def users(permissions: dict[str, Any] | None = None) -> TwinUsers:
    reader = {"user": "u", "password": "u", "permissions": permissions or READER}
    return TwinUsers({"users": [ROOT, reader]})


def with_denied(*subjects: str) -> dict[str, Any]:
    return {**READER, "subscribe": {**READER["subscribe"], "deny": list(subjects)}}


Started = tuple[Broker, Reload]


@pytest.fixture(params=list(STORES))
def started(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Started]:
    with serving_users(tmp_path, users(), STORES[request.param]) as (broker, reload):
        root = login(broker, "root")
        for subject in PUBLISHED:
            root.publish(subject.encode(), subject.encode())
        yield broker, reload


def asker(broker: Broker, **options: Any) -> Client:
    client = login(broker, "u", **{"headers": True, "frame": "none", **options})
    client.ask(b"SUB _INBOX.> 9\r\n")
    return client


def ask(client: Client, subject: str, payload: bytes = b"") -> list[Operation]:
    """What comes before the PONG, and what comes until there is an answer."""
    found = client.ask(b"PUB %b _INBOX.1 %d\r\n%b\r\n" % (subject.encode(), len(payload), payload))
    for _ in range(100):
        if any(one.verb != "+OK" for one in found):
            break
        found += client.ask(b"")
    return found


def status(found: list[Operation]) -> int:
    """The status in the one answer; 200 if it has none."""
    (answer,) = [one for one in found if one.verb in ("MSG", "HMSG")]
    word = answer.header.removeprefix(b"NATS/1.0").split(b"\r\n")[0].strip()
    return int(word[:3]) if word else 200


def rows(found: list[Operation]) -> list[str]:
    """The subjects in the one chunk of a READ."""
    (payload,) = payloads(found)
    return [bytes(row.subject).decode() for row in Columns(payload)]


# One message


@pytest.mark.parametrize(
    ("number", "expected"), [(1, 200), (2, 200), (3, 403), (4, 200), (5, 200), (7, 404)]
)
def test_given_a_number_when_requested_then_only_what_may_be_received_is_sent(
    started: Started, number: int, expected: int
) -> None:
    found = ask(asker(started[0]), f"$SEQ.GET.{number}")
    assert status(found) == expected
    if expected == 403:
        assert b"other" not in found[0].header + found[0].payload


def test_given_many_numbers_at_once_then_those_between_forbidden_ones_are_answered_in_order(
    started: Started,
) -> None:
    client = asker(started[0])
    client.send(b"".join(b"PUB $SEQ.GET.%d _INBOX.%d 0\r\n\r\n" % (n, n) for n in range(1, 7)))
    found: list[Operation] = []
    while len(found) < 6:
        found += client.ask(b"")
    assert [one.subject for one in found] == [b"_INBOX.%d" % n for n in range(1, 7)]
    assert [b" 403 " in one.header for one in found] == [n == 3 for n in range(1, 7)]


def test_given_a_client_without_headers_then_a_refused_request_is_an_error(
    started: Started,
) -> None:
    client = asker(started[0], headers=False)
    assert "may not subscribe" in errors(ask(client, "$SEQ.GET.3"))[0]


@pytest.mark.parametrize(
    ("subject", "expected"),
    [("orders.secret", 200), ("orders.nothing", 404), ("other", 403), ("nothing", 403)],
)
def test_given_a_subject_when_its_last_is_requested_then_it_must_be_allowed(
    started: Started, subject: str, expected: int
) -> None:
    assert status(ask(asker(started[0]), f"$SEQ.LAST.{subject}")) == expected


def test_given_denied_subjects_then_neither_number_nor_last_shows_them(tmp_path: Path) -> None:
    given = users(with_denied("orders.secret", "orders.*.secret"))
    with serving_users(tmp_path, given) as (broker, _):
        root = login(broker, "root")
        for subject in PUBLISHED:
            root.publish(subject.encode(), b"x")
        client = asker(broker)
        found = [status(ask(client, f"$SEQ.GET.{number}")) for number in range(1, 7)]
        assert found == [200, 403, 403, 200, 200, 403]
        assert status(ask(client, "$SEQ.LAST.orders.secret")) == 403
        assert status(ask(client, "$SEQ.LAST.orders.1")) == 200


# Many messages


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ('"orders.*"', ["orders.1", "orders.secret", "orders.2"]),
        ('["lit", "orders.1"]', ["orders.1", "lit"]),
        ('"orders.>"', ["orders.1", "orders.secret", "orders.2", "orders.a.secret"]),
        ('">"', None),
        ('["lit", "other"]', None),
        ('"*.1"', None),
        (None, None),
    ],
)
def test_given_a_read_then_only_filters_that_may_be_subscribed_to_are_served(
    started: Started, wanted: str | None, expected: list[str] | None
) -> None:
    more = "" if wanted is None else f', "subject": {wanted}'
    found = ask(asker(started[0]), "$SEQ.READ", f'{{"from": 1{more}}}'.encode())
    if expected is None:
        assert status(found) == 403
    else:
        assert rows(found) == expected


def test_given_denied_subjects_then_a_read_leaves_them_out(started: Started) -> None:
    broker, reload = started
    reload(users(with_denied("orders.secret", "*.a.>")))
    client = asker(broker)
    assert rows(ask(client, "$SEQ.READ", b'{"from": 1, "subject": "orders.>"}')) == [
        "orders.1",
        "orders.2",
    ]
    reload(users({"subscribe": {"deny": "orders.>"}}))
    assert rows(ask(client, "$SEQ.READ", b'{"from": 1}')) == ["other", "lit"]


def test_given_fewer_rights_in_the_middle_of_a_read_then_the_rest_is_without_what_is_denied(
    started: Started,
) -> None:
    broker, reload = started
    root = login(broker, "root")
    for _ in range(20):  # 40 MB: more than all buffers on the way hold
        root.ask(b"".join(b"PUB orders.%d 10000\r\n%010000d\r\n" % (n % 2, n) for n in range(200)))
    client = asker(broker)
    request = b'{"from": 7, "subject": "orders.>", "chunk_bytes": 65536, "max_bytes": 999999999}'
    client.send(b"PUB $SEQ.READ _INBOX.1 %d\r\n%b\r\n" % (len(request), request))
    found: list[Operation] = []
    reloaded_at = 0
    while not any(b"Seriatim-Last" in one.header for one in found):
        found += client.ask(b"")
        if found and not reloaded_at:
            reload(users(with_denied("orders.1")))
            reloaded_at = len(found)
    seen = [[bytes(row.subject) for row in Columns(one.payload)] for one in found]
    assert b"orders.1" in seen[0]
    assert b"orders.1" not in seen[-1]
    assert b"orders.0" in seen[-1]


def test_given_a_right_to_nothing_of_the_past_then_every_request_is_refused(
    tmp_path: Path,
) -> None:
    given = users({"subscribe": ["orders.>", INBOX], "publish": "orders.>"})
    with serving_users(tmp_path, given) as (broker, _):
        client = asker(broker, verbose=True)
        for subject in (
            *("$SEQ.INFO", "$SEQ.GET.1", "$SEQ.READ", "$SEQ.LAST.orders.1", "$SEQ.STAGE"),
            *("$SEQ.COMMIT", "$SEQ.ABORT", "$SEQ.BATCH", "$SEQ.PUB.orders.1", "$SEQ.NOTHING"),
        ):
            found = ask(client, subject, b"{}")
            assert errors(found) == [f'Permissions Violation for Publish to "{subject}"']
            assert status(found) == 403, "who asks need not wait for a timeout"
            assert "+OK" not in [one.verb for one in found]


def test_given_the_right_to_ask_then_info_is_answered(started: Started) -> None:
    assert json_of(ask(asker(started[0]), "$SEQ.INFO"))["last"] == len(PUBLISHED)


def test_given_an_inbox_that_may_not_be_heard_then_no_answer_comes(tmp_path: Path) -> None:
    given = users({"subscribe": {"deny": "_INBOX.closed.*"}})
    with serving_users(tmp_path, given) as (broker, _):
        client = asker(broker)
        client.ask(b"PUB orders.1 1\r\nx\r\n")
        for subject in (b"$SEQ.INFO", b"$SEQ.GET.1", b"$SEQ.PUB.orders.1"):
            found = client.ask(b"PUB %b _INBOX.closed.1 1\r\nx\r\n" % subject)
            assert payloads(found + client.ask(b"")) == []
            found = client.ask(b"PUB %b _INBOX.open.1 1\r\nx\r\n" % subject)
            while not found:
                found = client.ask(b"")
            assert len(payloads(found)) == 1


# Publishing with an answer

FORBIDDEN = 'Permissions Violation for Publish to "$SEQ.PUB.other"'


@pytest.mark.parametrize("verbose", [False, True])
@pytest.mark.parametrize("headers", [False, True])
@pytest.mark.parametrize("reply", ["", " _INBOX.1"])
@pytest.mark.parametrize("kind", ["plain", "with headers", "empty"])
def test_given_a_forbidden_target_then_it_gets_no_number_and_who_asks_is_informed(
    started: Started, verbose: bool, headers: bool, reply: str, kind: str
) -> None:
    broker, _ = started
    if kind == "with headers" and not headers:
        return
    client = asker(broker, verbose=verbose, headers=headers)
    before = broker.server.last_number
    payload = b"" if kind == "empty" else b"x"
    head = b"NATS/1.0\r\nA: b\r\n\r\n" if kind == "with headers" else b""
    sizes = b"%d %d" % (len(head), len(head + payload)) if head else b"%d" % len(payload)
    verb = b"HPUB" if head else b"PUB"
    found = client.ask(
        b"%b $SEQ.PUB.other%b %b\r\n%b%b\r\n" % (verb, reply.encode(), sizes, head, payload)
    )
    assert broker.server.last_number == before
    assert errors(found) == [FORBIDDEN]
    assert "+OK" not in [one.verb for one in found]
    if reply and headers:
        assert status(found) == 403
    else:
        assert payloads(found) == []


@pytest.mark.parametrize("verbose", [False, True])
def test_given_an_allowed_target_then_the_number_is_the_answer(
    started: Started, verbose: bool
) -> None:
    broker, _ = started
    found = ask(asker(broker, verbose=verbose), "$SEQ.PUB.orders.9", b"x")
    assert payloads(found) == [b"1:%d," % broker.server.last_number]
    assert errors(found) == []


@pytest.mark.parametrize("verbose", [False, True])
def test_given_no_right_at_all_then_a_client_may_keep_the_order_of_its_own_messages(
    tmp_path: Path, verbose: bool
) -> None:
    with serving_users(tmp_path, users({"subscribe": INBOX, "publish": "x"})) as (broker, _):
        client = asker(broker, verbose=verbose)
        found = client.ask(b"PUB $SEQ.ORDERED 0\r\n\r\n")
        assert [one.verb for one in found] == ["+OK"] * verbose
        assert payloads(ask(client, "$SEQ.ORDERED")) == [b""]
        found = client.ask(b"PUB $SEQ.ORDERED $SEQ.END.1 0\r\n\r\n")
        assert errors(found) == ['Permissions Violation for Publish with Reply of "$SEQ.END.1"']
        found = client.ask(b"PUB $SEQ.ORDERED.1 0\r\n\r\n")
        assert errors(found) == ['Permissions Violation for Publish to "$SEQ.ORDERED.1"']
        assert broker.server.last_number == 0


def test_given_a_target_that_is_allowed_but_not_to_be_asked_for_then_it_is_refused(
    tmp_path: Path,
) -> None:
    given = users({"subscribe": INBOX, "publish": "orders.>"})
    with serving_users(tmp_path, given) as (broker, _):
        found = ask(asker(broker), "$SEQ.PUB.orders.1", b"x")
        assert errors(found) == ['Permissions Violation for Publish to "$SEQ.PUB.orders.1"']
        assert broker.server.last_number == 0


def test_given_only_responses_then_a_number_is_no_way_round(tmp_path: Path) -> None:
    service = {"subscribe": ["req", INBOX], "allow_responses": True}
    with serving_users(tmp_path, users(service)) as (broker, _):
        root, client = login(broker, "root"), asker(broker)
        client.ask(b"SUB req 1\r\n")
        root.ask(b"PUB req $SEQ.PUB.secret 1\r\nx\r\n")
        client.ask(b"")
        found = client.ask(b"PUB $SEQ.PUB.secret _INBOX.1 1\r\nx\r\n")
        assert errors(found) == ['Permissions Violation for Publish to "$SEQ.PUB.secret"']
        assert broker.server.last_number == 1
