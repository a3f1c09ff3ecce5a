"""Every `$SEQ.` subject, asked by users without the right: refused, and nothing is told."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.beside import MALLORY, USERS, beside
from tests.attacks.crowd import crowd, is_answered, send_all, until
from tests.support.depth import depth
from tests.support.raw import Operation, RawClient

TIMES = depth(100, 2000)
SECRET = b"top secret"
CURIOUS = """
[[authorization.users]]
user = "curious"
password = "curious"
permissions = { publish = ["$SEQ.>", "curious.>"], subscribe = ["$SEQ.>", "curious.>", "_INBOX.>"] }
[[authorization.users]]
user = "owner"
password = "owner"
applications = ["owned"]
"""
OF_CURIOUS = MALLORY.replace(b"mallory", b"curious")
OF_OWNER = MALLORY.replace(b"mallory", b"owner")
STAGED = b"PUB secret.rows 1\r\nx\r\n"
STAGE = (
    b"NATS/1.0\r\nseriatim-application: %b\r\nseriatim-batch: 1\r\nseriatim-stage: s\r\n"
    b"seriatim-offset: 0\r\n\r\n"
)


def stage(application: bytes) -> bytes:
    head = STAGE % application
    size = len(head)
    sizes = (size, size + len(STAGED))
    return b"HPUB $SEQ.STAGE _INBOX.mallory.r %d %d\r\n%b%b\r\n" % (*sizes, head, STAGED)


def about(word: bytes, **wish: Any) -> bytes:
    text = json.dumps(wish).encode()
    return b"PUB $SEQ.%b _INBOX.mallory.r %d\r\n%b\r\n" % (word, len(text), text)


def batches(application: str) -> list[bytes]:
    wanted = {"application": application, "batch": 1}
    return [
        stage(application.encode()),
        about(b"COMMIT", **wanted, stages=[]),
        about(b"ABORT", **wanted),
        about(b"BATCH", application=application),
    ]


REQUESTS = [
    b"PUB $SEQ.INFO _INBOX.mallory.r 0\r\n\r\n",
    b"PUB $SEQ.GET.1 _INBOX.mallory.r 0\r\n\r\n",
    b"PUB $SEQ.LAST.secret.plan _INBOX.mallory.r 0\r\n\r\n",
    b"PUB $SEQ.PUB.secret.plan _INBOX.mallory.r 1\r\nx\r\n",
    b"PUB $SEQ.PUB.secret.plan _INBOX.mallory.r 0\r\n\r\n",
    b"PUB $SEQ.PUB.mallory.x _INBOX.mallory.r 1\r\nx\r\n",
    b"PUB $SEQ.NO.SUCH _INBOX.mallory.r 1\r\nx\r\n",
    b"PUB $SEQ.GET.1 secret.plan 0\r\n\r\n",
    about(b"READ", **{"from": 1}),
    about(b"READ", **{"from": 1, "subject": "secret.>"}),
    about(b"READ", **{"from": 1, "subject": ["mallory.>", "secret.>"]}),
    *batches("open"),
]
PASTS = [
    b"$SEQ.FROM.1.>",
    b"$SEQ.FROM.1.secret.>",
    b"$SEQ.FROM.1.*.plan",
    b"$SEQ.RANGE.1.9.secret.plan",
    b"$SEQ.SINCE.0.secret.>",
    b"$SEQ.LAST.secret.plan",
    b"$SEQ.LAST.>",
    b"$SEQ.>",
    b"$SEQ.END.>",
    b"$SEQ.PUB.>",
    b"$SEQ.STAGE",
]
SUBS = [b"SUB %b %d\r\n" % (subject, at) for at, subject in enumerate(PASTS, 10)]


def tell(port: int) -> None:
    """Somebody publishes what the others may not know."""
    with RawClient(port, OF_OWNER) as owner:
        owner.ask(b"PUB secret.plan %d\r\n%b\r\n" % (len(SECRET), SECRET) * 10)


def is_refusal(said: Operation) -> bool:
    if said.verb == "-ERR":
        return said.text.startswith((b"'Permissions Violation", b"'Invalid Subject"))
    return said.verb == "HMSG" and said.header.startswith(b"NATS/1.0 403") and not said.payload


def test_given_a_user_without_the_right_when_asking_all_there_is_then_all_is_refused(
    tmp_path: Path,
) -> None:
    with beside(tmp_path, USERS + CURIOUS) as broker:
        tell(broker.port)
        with RawClient(broker.port, MALLORY, b"SUB _INBOX.mallory.> 1\r\n") as mallory:
            for line in REQUESTS + SUBS:
                said = mallory.ask(line)
                assert said, line
                assert all(map(is_refusal, said)), (line, said)
                assert sum(one.verb == "-ERR" for one in said) == 1, (line, said)
        with crowd(broker.port, 4) as clients:
            text = b"".join(REQUESTS + SUBS) * TIMES
            send_all(clients, MALLORY + b"SUB _INBOX.mallory.> 1\r\n" + text + b"PING\r\n")
            until(clients, is_answered)
            assert not any(SECRET in one.heard for one in clients)
        with RawClient(broker.port, OF_OWNER) as owner:
            got = owner.ask(b"SUB $SEQ.LAST.> 1\r\n")
            assert {one.subject for one in got} <= {b"secret.plan", b"beside.orders"}


@pytest.fixture(scope="module")
def curious_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with beside(tmp_path_factory.mktemp("curious"), USERS + CURIOUS) as broker:
        tell(broker.port)
        yield broker.port


@pytest.fixture
def told(curious_of: int) -> Iterator[RawClient]:
    """The connection of one who may ask, but not about the secret."""
    with RawClient(curious_of, OF_CURIOUS, b"SUB _INBOX.curious.> 1\r\n") as client:
        client.ask(b"")
        yield client


@pytest.mark.parametrize("request_", [*REQUESTS[1:6], *REQUESTS[7:11], *batches("owned")])
def test_given_the_right_to_ask_when_it_is_about_the_subjects_of_others_then_it_is_refused(
    told: RawClient, request_: bytes
) -> None:
    said = told.ask(request_.replace(b"_INBOX.mallory", b"_INBOX.curious"))
    assert not any(SECRET in one.payload for one in said)
    assert all(map(is_refusal, said)), said


@pytest.mark.parametrize("subject", [one for one in PASTS if b".x" not in one])
def test_given_the_right_to_replay_when_it_is_about_the_subjects_of_others_then_it_is_refused(
    told: RawClient, subject: bytes
) -> None:
    said = told.ask(b"SUB %b 2\r\n" % subject)
    assert len(said) == 1, said
    assert said[0].verb == "-ERR"


def test_given_many_permissions_when_reads_of_many_subjects_are_refused_then_nobody_waits(
    tmp_path: Path,
) -> None:
    """Each subject of a read is compared with each permission, which is work like any other."""
    allow = [f"curious.{at}.*.x" for at in range(300)]
    users = USERS + (
        '[[authorization.users]]\nuser = "curious"\npassword = "curious"\n'
        f'permissions = {{ publish = "$SEQ.>", subscribe = {[*allow, "curious.>", "_INBOX.>"]} }}\n'
    )
    wanted = [f"curious.{at}.>" for at in range(63)] + ["secret.>"]
    with beside(tmp_path, users) as broker, crowd(broker.port, 4) as clients:
        text = about(b"READ", **{"from": 1, "subject": wanted}) * TIMES
        send_all(clients, OF_CURIOUS + b"SUB _INBOX.mallory.> 1\r\n" + text + b"PING\r\n")
        until(clients, is_answered)
        assert all(one.heard.count(b"NATS/1.0 403") == TIMES for one in clients)
