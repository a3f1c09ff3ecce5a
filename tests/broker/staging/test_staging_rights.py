"""Publishing exactly once with permissions: each row must be allowed, and each name one's own."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from tests.support.serving import Broker
from tests.support.staging import ALONE, Publisher, Refused, piece, request
from tests.support.twin_users import TwinUsers, connect
from tests.support.user_broker import Reload, serving_users

STAGING = [f"$SEQ.{word}" for word in ("STAGE", "COMMIT", "ABORT", "BATCH")]
GOOD, BAD = b"PUB orders.1 5\r\nhello\r\n", b"PUB orders.secret 5\r\nhello\r\n"
INBOX = "_INBOX.>"
RIGHTS = {"publish": {"allow": ["orders.>", *STAGING], "deny": "orders.secret"}, "subscribe": INBOX}


def user(name: str, *applications: str, **more: Any) -> dict[str, Any]:
    return {"user": name, "password": name, "applications": list(applications), **more}


def users(*more: dict[str, Any]) -> TwinUsers:
    return TwinUsers(
        {
            "users": [
                user("root"),
                user("alice", "billing", "shop.*", permissions=RIGHTS),
                user("bob", "stock"),
                *more,
            ]
        }
    )


@pytest.fixture
def started(tmp_path: Path) -> Iterator[tuple[Broker, Reload]]:
    with serving_users(tmp_path, users(), ALONE) as started:
        yield started


@pytest.fixture
def broker(started: tuple[Broker, Reload]) -> Broker:
    return started[0]


def publisher(broker: Broker, name: str) -> Publisher:
    return Publisher(broker, connect=connect(name, headers=True))


def commit(application: str, data: bytes, batch: int = 1) -> bytes:
    stages = [{"stage": "s", "bytes": len(data), "crc32": crc32(data)}]
    return request("COMMIT", {"application": application, "batch": batch, "stages": stages})


# Rows


@pytest.mark.parametrize("before", [0, 1, 7])
@pytest.mark.parametrize("after", [0, 3])
def test_given_a_forbidden_row_among_others_then_the_piece_is_refused_and_the_row_named(
    broker: Broker, before: int, after: int
) -> None:
    alice = publisher(broker, "alice")
    answer = alice.one(piece("app", 1, "s", 0, GOOD * before + BAD + GOOD * after))
    assert isinstance(answer, Refused)
    assert answer.status == 403
    assert f"Row {before + 1} of stage s" in answer.words
    assert "orders.secret" in answer.words
    assert isinstance(alice.one(commit("app", GOOD)), Refused), "nothing is staged"
    assert broker.server.last_number == 0


@pytest.mark.parametrize("cut", range(1, len(BAD)))
def test_given_a_forbidden_row_that_is_cut_anywhere_then_it_is_refused_when_it_is_whole(
    broker: Broker, cut: int
) -> None:
    alice = publisher(broker, "alice")
    data = GOOD + BAD
    at = len(GOOD) + cut
    first, second = alice.ask(
        piece("app", 1, "s", 0, data[:at]), piece("app", 1, "s", at, data[at:])
    )
    refused = [one for one in (first, second) if isinstance(one, Refused)]
    assert refused
    assert refused[0].status == 403
    assert broker.server.staging is not None
    assert len(broker.server.staging.stages) == 0


def test_given_allowed_rows_in_pieces_of_any_size_then_they_are_published(broker: Broker) -> None:
    alice = publisher(broker, "alice")
    data = GOOD * 20
    for batch, size in enumerate((1, 7, len(GOOD), len(data)), 1):
        places = range(0, len(data), size)
        alice.ask(*(piece("app", batch, "s", at, data[at : at + size]) for at in places))
        answer = alice.one(commit("app", data, batch))
        assert isinstance(answer, dict)
        assert answer["rows"] == 20
    assert broker.server.last_number == 80


def test_given_only_responses_then_a_stage_is_no_way_round(tmp_path: Path) -> None:
    service = {"subscribe": ["req", INBOX], "publish": STAGING, "allow_responses": True}
    given = users(user("svc", permissions=service))
    with serving_users(tmp_path, given) as (broker, _):
        svc = publisher(broker, "svc")
        svc.client.ask(b"SUB req 1\r\n")
        broker.client(connect("root")).ask(b"PUB req orders.1 1\r\nx\r\n")
        svc.client.ask(b"")
        answer = svc.one(piece("app", 1, "s", 0, GOOD))
        assert isinstance(answer, Refused)
        assert answer.status == 403


def test_given_fewer_rights_between_pieces_then_what_comes_later_is_judged_by_them(
    started: tuple[Broker, Reload],
) -> None:
    broker, reload = started
    alice = publisher(broker, "alice")
    assert isinstance(alice.one(piece("app", 1, "s", 0, GOOD)), dict)
    narrow = {**RIGHTS, "publish": STAGING}
    reload(TwinUsers({"users": [user("alice", permissions=narrow)]}))
    answer = alice.one(piece("app", 1, "s", len(GOOD), GOOD))
    assert isinstance(answer, Refused)
    assert answer.status == 403


# Names of applications


@pytest.mark.parametrize(
    ("application", "owner"), [("billing", "alice"), ("shop.eu", "alice"), ("stock", "bob")]
)
@pytest.mark.parametrize("word", ["STAGE", "COMMIT", "ABORT", "BATCH"])
def test_given_an_application_of_a_user_then_only_that_one_may_use_its_name(
    broker: Broker, application: str, owner: str, word: str
) -> None:
    asked = {
        "STAGE": piece(application, 1, "s", 0, GOOD),
        "COMMIT": commit(application, GOOD),
        "ABORT": request("ABORT", {"application": application, "batch": 1}),
        "BATCH": request("BATCH", {"application": application}),
    }[word]
    for name in ("root", "alice", "bob"):
        own = publisher(broker, owner)
        own.one(piece(application, 1, "s", 0, GOOD))
        answer = publisher(broker, name).one(asked)
        if name == owner:
            assert not isinstance(answer, Refused) or answer.status != 403
            continue
        assert isinstance(answer, Refused)
        assert answer.status == 403
        assert "belongs to another user" in answer.words
        assert broker.server.staging is not None
        if word == "ABORT":
            assert len(broker.server.staging.stages) == 1, "it is still there"
    assert broker.server.last_number <= 1


def test_given_a_name_that_belongs_to_nobody_then_everybody_may_use_it(broker: Broker) -> None:
    alice, bob = publisher(broker, "alice"), publisher(broker, "bob")
    assert isinstance(alice.one(piece("free", 1, "s", 0, GOOD)), dict)
    assert isinstance(bob.one(commit("free", GOOD)), dict)
    assert broker.server.last_number == 1


def test_given_a_reload_then_names_belong_to_whom_the_new_settings_say(
    started: tuple[Broker, Reload],
) -> None:
    broker, reload = started
    alice, root = publisher(broker, "alice"), publisher(broker, "root")
    reload(users(user("carol", "free")))
    for one in (alice, root):
        answer = one.one(piece("free", 1, "s", 0, GOOD))
        assert isinstance(answer, Refused)
        assert answer.status == 403
    reload(TwinUsers({"users": [user("root")]}))
    assert isinstance(root.one(piece("billing", 1, "s", 0, GOOD)), dict)


def test_given_a_stage_when_its_rows_are_no_longer_allowed_then_it_is_not_committed(
    started: tuple[Broker, Reload],
) -> None:
    """Rights are checked when a row comes. After a reload, the publisher has to stage it again."""
    broker, reload = started
    alice = publisher(broker, "alice")
    assert isinstance(alice.one(piece("billing", 1, "s", 0, GOOD)), dict)
    fewer = {"publish": {"allow": ["bills.>", *STAGING]}, "subscribe": INBOX}
    reload(TwinUsers({"users": [user("alice", "billing", permissions=fewer)]}))
    answer = alice.one(commit("billing", GOOD))
    assert isinstance(answer, Refused)
    assert answer.status == 403
    assert broker.server.last_number == 0
    answer = alice.one(piece("billing", 1, "s", 0, GOOD))
    assert isinstance(answer, Refused)
    assert answer.status == 403, "the stage was dropped, and its rows are judged again"
