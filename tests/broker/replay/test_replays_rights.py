"""Replays and lagging connections of users with permissions: denied subjects are cut out."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.raw import Operation
from tests.support.serving import Broker, Client
from tests.support.twin_users import TwinUsers
from tests.support.user_broker import Reload, errors, login, serving_users, subjects

STORES: dict[str, dict[str, Any]] = {
    "disk": {},
    "memory": {"journal.enabled": False, "journal.ring_bytes": "64MiB"},
}
ROOT = {"user": "root", "password": "root"}
PAST = ("$SEQ.FROM.>", "$SEQ.RANGE.>", "$SEQ.SINCE.>", "$SEQ.LAST.>")
PUBLISHED = ("a.1", "a.secret", "b.1", "a.2", "a.b.secret", "a.secret", "a.1")
ALLOWED = ["a.1", "a.2", "a.1"]
REPLAYS = {
    "$SEQ.FROM.1": ALLOWED,
    "$SEQ.RANGE.1.7": ALLOWED,
    "$SEQ.SINCE.1": ALLOWED,
    "$SEQ.LAST": ["a.2", "a.1"],
}

Started = tuple[Broker, Reload]


def users(**permissions: Any) -> TwinUsers:
    return TwinUsers({"users": [ROOT, {"user": "u", "password": "u", "permissions": permissions}]})


def publish(broker: Broker, *given: str) -> None:
    login(broker, "root").ask(b"".join(b"PUB %b 1\r\nx\r\n" % one.encode() for one in given))


@pytest.fixture(params=list(STORES))
def started(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Started]:
    rights = users(subscribe={"allow": ["a.>", *PAST], "deny": ["a.secret", "*.*.secret"]})
    with serving_users(tmp_path, rights, STORES[request.param]) as (broker, reload):
        publish(broker, *PUBLISHED)
        yield broker, reload


def heard(client: Client, count: int, found: list[Operation] | None = None) -> list[str]:
    """The subjects of so many messages, and what comes with them."""
    found = [] if found is None else found
    for _ in range(2000):
        if len(messages(found)) >= count:
            break
        found += client.ask(b"")
    return messages(found + client.ask(b""))


def messages(found: list[Operation]) -> list[str]:
    return [one for one in subjects(found) if not one.startswith("$SEQ.")]


@pytest.mark.parametrize("asked", list(REPLAYS))
def test_given_denied_subjects_then_they_are_cut_out_of_a_replay_and_of_what_follows(
    started: Started, asked: str
) -> None:
    broker, _ = started
    client = login(broker, "u")
    found = client.ask(b"SUB %b.a.> 1\r\n" % asked.encode())
    assert heard(client, len(REPLAYS[asked]), found) == REPLAYS[asked]
    publish(broker, "a.secret", "a.3", "a.b.secret", "b.3")
    live = [] if "RANGE" in asked else ["a.3"]
    assert messages(client.ask(b"")) == live


@pytest.mark.parametrize("asked", list(REPLAYS))
@pytest.mark.parametrize("filter", [".>", ".b.>", ".*.secret", ".a.secret", ".*.1"])
def test_given_a_replay_wider_than_allowed_or_denied_then_it_is_refused(
    started: Started, asked: str, filter: str
) -> None:
    client = login(started[0], "u")
    subject = asked + filter
    found = client.ask(b"SUB %b 1\r\n" % subject.encode())
    assert errors(found) == [f'Permissions Violation for Subscription to "{subject}"']
    assert messages(found + client.ask(b"")) == []


def test_given_no_right_to_the_past_then_only_what_is_live_comes(started: Started) -> None:
    broker, reload = started
    reload(users(subscribe=["a.>", "$SEQ.FROM.*.a.1", "$SEQ.LAST.a.>"]))
    client = login(broker, "u")
    for asked in ("$SEQ.FROM.1.a.>", "$SEQ.FROM.1.a.2", "$SEQ.RANGE.1.2.a.1", "$SEQ.SINCE.1.a.1"):
        found = client.ask(b"SUB %b 1\r\n" % asked.encode())
        assert errors(found) == [f'Permissions Violation for Subscription to "{asked}"'], asked
    assert heard(client, 2, client.ask(b"SUB $SEQ.FROM.1.a.1 1\r\n")) == ["a.1", "a.1"]
    assert heard(client, 3, client.ask(b"SUB $SEQ.LAST.a.* 2\r\n"))[-1] == "a.1"


def test_given_everything_but_some_subjects_then_a_replay_of_all_leaves_them_out(
    started: Started,
) -> None:
    broker, reload = started
    reload(users(subscribe={"deny": ["a.>"]}))
    client = login(broker, "u")
    assert heard(client, 1, client.ask(b"SUB $SEQ.FROM.1.> 1\r\n")) == ["b.1"]
    assert heard(client, 1, client.ask(b"SUB $SEQ.LAST.> 2\r\n")) == ["b.1"]


# A reload during a replay

BIG = 4000  # messages, of 40 MB: more than all buffers on the way hold


def begin_big(broker: Broker) -> Client:
    """A client in the middle of a replay, which it does not read yet."""
    root = login(broker, "root")
    for _ in range(20):
        root.ask(b"".join(b"PUB a.%d 10000\r\n%010000d\r\n" % (n % 2, n) for n in range(200)))
    client = login(broker, "u")
    client.send(b"SUB $SEQ.FROM.8.a.> 1\r\n")
    broker.until(lambda: broker.server.replays is not None and broker.server.replays.started)
    return client


@pytest.mark.parametrize(
    ("later", "error"),
    [
        ({"subscribe": ["b.>", *PAST]}, "a.>"),
        ({"subscribe": ["a.>"]}, "a.>"),
    ],
)
def test_given_a_replay_whose_right_is_taken_away_then_it_ends_with_an_error(
    started: Started, later: dict[str, Any], error: str
) -> None:
    broker, reload = started
    client = begin_big(broker)
    reload(users(**later))
    found = client.ask(b"")
    while not errors(found):
        found += client.ask(b"")
    words = f'Permissions Violation for Subscription to "$SEQ.FROM.8.{error}" (sid "1")'
    assert errors(found) == [words]
    assert len(messages(found + client.ask(b""))) < BIG
    publish(broker, "a.1")
    assert messages(client.ask(b"")) == []


def test_given_a_replay_in_which_a_subject_is_denied_then_the_rest_is_without_it(
    started: Started,
) -> None:
    broker, reload = started
    client = begin_big(broker)
    reload(users(subscribe={"allow": ["a.>", *PAST], "deny": ["a.1"]}))
    found: list[str] = []
    for _ in range(BIG):  # each answer brings some of them, at least
        found += messages(client.ask(b""))
        if found.count("a.0") == BIG // 2:
            break
    assert found.count("a.0") == BIG // 2
    assert found.count("a.1") < BIG // 2
    publish(broker, "a.1", "a.0")
    assert messages(client.ask(b"")) == ["a.0"]


# A lagging connection

LAGGING = {"limits.catchup_pending": "65536", "limits.max_pending": "1MiB"}
FLOOD = 4000


def lag(broker: Broker, client: Client, *given: str) -> None:
    """Publish so much that the journal serves this client, which does not read."""
    root = login(broker, "root")
    for number in range(FLOOD):
        subject = given[number % len(given)].encode()
        root.send(b"PUB %b _INBOX.%d 10000\r\n%010000d\r\n" % (subject, number, number))
        if number % 100 == 0:
            root.ask(b"")
    root.ask(b"")
    replays = broker.server.replays
    assert replays is not None
    assert replays.catch_ups > 0, "it has lagged"


@pytest.mark.parametrize("count", [1, 3, 40])
def test_given_a_lagging_client_then_what_is_denied_is_cut_out_however_many_it_has(
    tmp_path: Path, count: int
) -> None:
    rights = users(subscribe={"allow": ["a.>", "f.>"], "deny": ["*.secret", "a.x"]})
    with serving_users(tmp_path, rights, LAGGING) as (broker, _):
        client = login(broker, "u")
        fillers = b"".join(b"SUB f.%d.* f%d\r\n" % (n, n) for n in range(count - 1))
        client.ask(b"SUB a.* 1\r\n" + fillers)
        lag(broker, client, "a.1", "a.secret", "a.x", "a.2")
        found = heard(client, FLOOD // 2)
        assert found == ["a.1", "a.2"] * (FLOOD // 4)


def test_given_a_lagging_member_of_a_group_then_it_gets_only_what_it_may(tmp_path: Path) -> None:
    rights = users(subscribe={"deny": ["*.secret"]})
    with serving_users(tmp_path, rights, LAGGING) as (broker, reload):
        client = login(broker, "u")
        client.ask(b"SUB a.* g 1\r\n")
        lag(broker, client, "a.1", "a.secret")
        reload(users(subscribe={"deny": ["*.secret", "a.1"]}))
        found = heard(client, 1)
        assert "a.secret" not in found
        assert len(found) < FLOOD // 2, "and not what is denied since then"


def test_given_a_lagging_client_whose_rights_shrink_then_the_rest_is_without_what_is_denied(
    tmp_path: Path,
) -> None:
    with serving_users(tmp_path, users(subscribe="a.*"), LAGGING) as (broker, reload):
        client = login(broker, "u")
        client.ask(b"SUB a.* 1\r\n")
        lag(broker, client, "a.1", "a.2")
        reload(users(subscribe={"allow": ["a.*"], "deny": ["a.2"]}))
        found = heard(client, FLOOD // 2)
        assert found.count("a.1") == FLOOD // 2
        assert found.count("a.2") < FLOOD // 4


def test_given_a_lagging_service_then_it_may_respond_to_what_the_journal_brought(
    tmp_path: Path,
) -> None:
    rights = users(subscribe="req", allow_responses=True)
    with serving_users(tmp_path, rights, LAGGING) as (broker, _):
        client = login(broker, "u")
        client.ask(b"SUB req 1\r\n")
        lag(broker, client, "req")
        assert len(heard(client, FLOOD)) == FLOOD
        reply = b"PUB _INBOX.%d 1\r\nx\r\n" % (FLOOD - 1)
        assert errors(client.ask(reply)) == []
        assert len(errors(client.ask(reply))) == 1, "once"


def test_given_requests_of_the_past_then_they_may_not_be_answered_any_more(
    started: Started,
) -> None:
    broker, reload = started
    reload(users(subscribe=["req", "$SEQ.FROM.>"], allow_responses=True))
    login(broker, "root").ask(b"PUB req _INBOX.7 1\r\nx\r\n")
    client = login(broker, "u")
    assert heard(client, 1, client.ask(b"SUB $SEQ.FROM.1.req 1\r\n")) == ["req"]
    assert errors(client.ask(b"PUB _INBOX.7 1\r\nx\r\n")) != []
