"""Users and permissions in a cluster: the same at each member, whoever coordinates."""

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from sequencer.netstring import decode_number
from tests.support.cluster_start import ClusterOf
from tests.support.processes import SeriatimServer
from tests.support.raw import Operation, RawClient
from tests.support.staging import LISTEN, Answer, Refused, answer_of, piece, request

USERS = """
[[users]]
user = "admin"
password = "pw"

[[users]]
user = "writer"
password = "pw"
applications = ["loader"]
[users.permissions]
publish = ["orders.>", "$SEQ.PUB.>", "$SEQ.STAGE", "$SEQ.COMMIT", "$SEQ.ABORT", "$SEQ.BATCH"]
subscribe = "_INBOX.>"

[[users]]
user = "reader"
password = "pw"
[users.permissions]
publish = ["$SEQ.GET.*", "$SEQ.READ", "$SEQ.LAST.>", "$SEQ.STAGE"]
[users.permissions.subscribe]
allow = ["orders.>", "_INBOX.>", "$SEQ.FROM.>"]
deny = ["orders.secret"]

[[users]]
user = "service"
password = "pw"
[users.permissions]
subscribe = ["work", "_INBOX.>"]
allow_responses = true
"""
Login = Callable[[SeriatimServer, str], RawClient]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterOf]:
    folder = tmp_path_factory.mktemp("users")
    more: list[Any] = []
    with MembersWithUsers(3, more=more, folder=folder) as made:
        yield made


class MembersWithUsers(ClusterOf):
    """Each member has a users' file of its own, with the same users."""

    def flags(self, at: int) -> list[str]:
        file = self.folder / f"users-{at}.toml"
        file.write_text(USERS)
        return [*super().flags(at), "--users_file", str(file)]


@pytest.fixture
def login() -> Iterator[Login]:
    with ExitStack() as stack:

        def connect(member: SeriatimServer, user: str) -> RawClient:
            options = {"verbose": False, "headers": True, "user": user, "pass": "pw"}
            client = RawClient(member.port, b"CONNECT %b\r\n" % json.dumps(options).encode())
            stack.callback(client.close)
            return client

        yield connect


@pytest.fixture(params=["coordinator", "follower"])
def member(cluster: ClusterOf, request: pytest.FixtureRequest) -> SeriatimServer:
    at = cluster.coordinator()
    return cluster.members[at if request.param == "coordinator" else (at + 1) % 3]


@pytest.fixture
def other(cluster: ClusterOf, member: SeriatimServer) -> SeriatimServer:
    """Another member, that does not coordinate."""
    return cluster.members[(cluster.coordinator() + 2) % 3]


def words(operations: list[Operation]) -> list[bytes]:
    return [one.text for one in operations if one.verb == "-ERR"]


def ask(client: RawClient, data: bytes) -> Answer:
    """Ask for something, and return what is answered."""
    client.send(data)
    while True:
        operation = client.operation()
        if operation.verb in ("MSG", "HMSG"):
            return answer_of(operation)
        assert operation.verb != "-ERR", operation


def test_given_refusals_after_a_publish_then_they_wait_for_its_ok(
    member: SeriatimServer,
) -> None:
    hello = b'CONNECT {"verbose":true,"pedantic":false,"user":"writer","pass":"pw"}\r\n'
    with closing(RawClient(member.port, hello)) as client:
        found = client.ask(
            b"PUB orders.a 1\r\nx\r\nPUB secret 1\r\nx\r\nSUB orders.> 1\r\n"
            b"PUB $SEQ.PUB.secret 1\r\nx\r\nPUB orders.a 1\r\nx\r\n"
        )
    assert [one.text or one.verb for one in found] == [
        "+OK",
        "+OK",
        b"'Permissions Violation for Publish to \"secret\"'",
        b"'Permissions Violation for Subscription to \"orders.>\"'",
        b"'Permissions Violation for Publish to \"$SEQ.PUB.secret\"'",
        "+OK",
    ]


def test_given_permissions_when_published_without_the_right_then_refused_and_nobody_gets_it(
    member: SeriatimServer, other: SeriatimServer, login: Login
) -> None:
    watcher = login(other, "admin")
    watcher.ask(b"SUB > 1\r\n")
    client = login(member, "writer")
    said = client.ask(
        b"PUB other.x 1\r\na\r\nPUB orders.1 1\r\nb\r\n"
        b"SUB _INBOX.n 9\r\nPUB $SEQ.PUB.other.x _INBOX.n 1\r\nc\r\n"
        b"PUB $SEQ.PUB.orders.2 _INBOX.n 1\r\nd\r\nPUB $SEQ.INFO _INBOX.n 0\r\n\r\n"
    )
    refusals = [
        b"'Permissions Violation for Publish to \"%b\"'" % subject
        for subject in (b"other.x", b"$SEQ.PUB.other.x", b"$SEQ.INFO")
    ]
    assert words(said) == refusals
    numbers = [one for one in said if one.verb == "MSG"]
    assert len(numbers) == 1, "the number of orders.2"
    got = [watcher.operation().subject for _ in range(2)]
    assert got == [b"orders.1", b"orders.2"]
    assert watcher.ask(b"") == []


def test_given_denied_subjects_when_other_members_publish_then_they_are_filtered_out(
    member: SeriatimServer, other: SeriatimServer, login: Login
) -> None:
    reader = login(member, "reader")
    assert words(reader.ask(b"SUB orders.secret 1\r\nSUB other.> 2\r\nSUB > 3\r\n")) == [
        b"'Permissions Violation for Subscription to \"%b\"'" % subject
        for subject in (b"orders.secret", b"other.>", b">")
    ]
    assert reader.ask(b"SUB orders.> 4\r\nSUB orders.* 5\r\n") == []
    said = words(reader.ask(b"SUB orders.> group 6\r\n"))
    assert len(said) == 1
    assert b"a part of it is denied" in said[0]
    login(other, "admin").ask(b"PUB orders.secret 1\r\na\r\nPUB orders.open 1\r\nb\r\n")
    got = [reader.operation() for _ in range(2)]
    assert {(one.subject, one.sid) for one in got} == {
        (b"orders.open", b"4"),
        (b"orders.open", b"5"),
    }
    assert reader.ask(b"") == []


def test_given_permissions_when_the_past_is_asked_for_then_only_what_may_be_subscribed_to_comes(
    member: SeriatimServer, other: SeriatimServer, login: Login
) -> None:
    admin = login(other, "admin")
    admin.send(b"SUB _INBOX.n 1\r\n")
    numbers = {}
    for subject in (b"orders.secret", b"other.a", b"orders.open"):
        admin.send(b"PUB $SEQ.PUB.%b _INBOX.n 1\r\nx\r\n" % subject)
        payload = admin.operation().payload
        numbers[subject] = int(payload.partition(b":")[2].rstrip(b","))
    reader = login(member, "reader")
    reader.ask(b"SUB _INBOX.r 1\r\n")
    for subject, status in ((b"orders.secret", 403), (b"other.a", 403), (b"orders.open", None)):
        for asked in (b"GET.%d" % numbers[subject], b"LAST." + subject):
            reader.send(b"PUB $SEQ.%b _INBOX.r 0\r\n\r\n" % asked)
            operation = reader.operation()
            assert operation.verb == "HMSG"
            assert (b"NATS/1.0 403" in operation.header) == (status == 403), (asked, operation)
    wish = {"from": numbers[b"orders.secret"], "format": "frames", "subject": "orders.>"}
    text = json.dumps(wish).encode()
    reader.send(b"PUB $SEQ.READ _INBOX.r %d\r\n%b\r\n" % (len(text), text))
    frames = reader.operation()
    assert b"Seriatim-Last: 1" in frames.header
    assert b"orders.secret" not in frames.payload
    assert b"Seriatim-Rows: 1" in frames.header
    wide = json.dumps(wish | {"subject": ">"}).encode()
    refused = ask(reader, b"PUB $SEQ.READ _INBOX.r %d\r\n%b\r\n" % (len(wide), wide))
    assert isinstance(refused, Refused)
    assert refused.status == 403
    first = numbers[b"orders.secret"]
    assert words(reader.ask(b"SUB $SEQ.FROM.%d.> 2\r\n" % first)) == [
        b"'Permissions Violation for Subscription to \"$SEQ.FROM.%d.>\"'" % first
    ]
    reader.send(b"SUB $SEQ.FROM.%d.orders.> 3\r\n" % first)
    assert reader.operation().subject == b"orders.open", "the first that it gets"


def test_given_an_id_of_a_user_with_permissions_then_it_counts_for_the_subject_at_all_members(
    member: SeriatimServer, other: SeriatimServer, login: Login
) -> None:
    head = b"NATS/1.0\r\nNats-Msg-Id: order-%d\r\n\r\n" % member.port
    size = len(head)

    def number(client: RawClient, subject: bytes) -> int:
        sizes = b"%d %d" % (size, size + 1)
        client.send(b"HPUB $SEQ.PUB.%b _INBOX.n %b\r\n%bx\r\n" % (subject, sizes, head))
        return decode_number(client.operation().payload)

    here, there, admin = login(member, "writer"), login(other, "writer"), login(other, "admin")
    for client in (here, there, admin):
        client.ask(b"SUB _INBOX.n 1\r\n")
    first = number(here, b"orders.1")
    assert number(there, b"orders.1") == first
    assert number(there, b"orders.2") == first + 1
    assert number(admin, b"orders.1") == first + 2, "its ids are not those of others"
    assert number(admin, b"elsewhere") == first + 2, "and count for all subjects"
    assert number(here, b"orders.1") == first


def test_given_a_request_at_one_member_then_its_responder_at_another_may_answer_it_once(
    member: SeriatimServer, other: SeriatimServer, login: Login
) -> None:
    service = login(other, "service")
    service.ask(b"SUB work 1\r\n")
    assert len(words(service.ask(b"PUB _INBOX.asker 2\r\nno\r\n"))) == 1, "nobody has asked"
    asker = login(member, "admin")
    asker.send(b"SUB _INBOX.asker 1\r\nPUB work _INBOX.asker 2\r\ndo\r\n")
    asked = service.operation()
    assert (asked.subject, asked.reply) == (b"work", b"_INBOX.asker")
    assert service.ask(b"PUB _INBOX.asker 4\r\ndone\r\n") == []
    assert b"done" in asker.operation().payload
    said = service.ask(b"PUB _INBOX.asker 5\r\nagain\r\n")
    assert words(said) == [b"'Permissions Violation for Publish to \"_INBOX.asker\"'"]
    assert asker.ask(b"") == []


def test_given_a_stage_when_its_rows_or_application_are_not_the_users_then_refused(
    member: SeriatimServer, login: Login
) -> None:
    writer, reader, admin = (login(member, user) for user in ("writer", "reader", "admin"))
    for client in (writer, reader, admin):
        client.ask(LISTEN)
    batch = 1 + last_batch(writer)
    bad = b"PUB orders.1 1\r\na\r\nPUB other.1 1\r\nb\r\n"
    answer = ask(writer, piece("loader", batch, "bad", 0, bad))
    assert isinstance(answer, Refused)
    assert answer.status == 403
    assert 'you may not publish to "other.1"' in answer.words
    for client in (reader, admin):
        for asked in (
            piece("loader", batch, "own", 0, b"PUB orders.1 1\r\na\r\n"),
            request("BATCH", {"application": "loader"}) if client is admin else None,
            request("ABORT", {"application": "loader", "batch": batch})
            if client is admin
            else None,
        ):
            if asked is not None:
                answer = ask(client, asked)
                assert isinstance(answer, Refused)
                assert (answer.status, "belongs to another user" in answer.words) == (403, True)
    refused = ask(reader, piece("open", 1, "own", 0, b"PUB orders.1 1\r\na\r\n"))
    assert isinstance(refused, Refused)
    assert refused.status == 403, "it may publish nothing there"


def test_given_a_row_in_two_pieces_at_two_members_then_the_right_is_still_checked(
    member: SeriatimServer, other: SeriatimServer, login: Login
) -> None:
    here, there = login(member, "writer"), login(other, "writer")
    for client in (here, there):
        client.ask(LISTEN)
    batch = 1 + last_batch(here)
    head, tail = b"PUB oth", b"er.1 1\r\na\r\n"
    name = f"parted-{batch}-{member.port}"
    assert not isinstance(ask(here, piece("loader", batch, name, 0, head)), Refused)
    answer = ask(there, piece("loader", batch, name, len(head), tail))
    assert isinstance(answer, Refused)
    assert answer.status == 403


def test_given_a_batch_of_its_users_rows_then_it_is_published(
    member: SeriatimServer, other: SeriatimServer, login: Login
) -> None:
    writer = login(member, "writer")
    writer.ask(LISTEN)
    batch = 1 + last_batch(writer)
    rows = b"PUB orders.1 1\r\na\r\nPUB orders.2 1\r\nb\r\n"
    assert not isinstance(ask(writer, piece("loader", batch, "rows", 0, rows)), Refused)
    stages = [{"stage": "rows", "bytes": len(rows), "crc32": crc32(rows)}]
    wish = {"application": "loader", "batch": batch, "stages": stages}
    answer = ask(writer, request("COMMIT", wish))
    assert isinstance(answer, dict), answer
    assert answer["rows"] == 2


def last_batch(client: RawClient) -> int:
    answer = ask(client, request("BATCH", {"application": "loader"}))
    assert isinstance(answer, dict), answer
    return int(answer["batch"] or 0)


def test_given_users_that_change_at_one_member_then_it_alone_has_them_until_the_others_reload(
    cluster: ClusterOf, login: Login
) -> None:
    coordinator = cluster.members[cluster.coordinator()]
    at = (cluster.coordinator() + 1) % 3
    follower = cluster.members[at]
    client, steady = login(follower, "reader"), login(follower, "admin")
    client.ask(b"SUB orders.> 1\r\n")
    elsewhere = login(coordinator, "reader")
    elsewhere.ask(b"SUB orders.> 1\r\n")
    users = USERS + '[[users]]\nuser = "late"\npassword = "pw"\n'
    users = users.replace('allow = ["orders.>"', 'allow = ["none"')
    file = Path(cluster.folder / f"users-{at}.toml")
    file.write_text(users)
    follower.signal(signal.SIGHUP)
    assert b"Permissions Violation for Subscription" in client.operation().text
    login(coordinator, "admin").ask(b"PUB orders.open 1\r\nx\r\n")
    assert elsewhere.operation().subject == b"orders.open"
    assert client.ask(b"") == []
    assert steady.ask(b"PUB orders.open 1\r\nx\r\n") == []
    late = login(follower, "late")
    late.ask(LISTEN)
    refused = ask(late, piece("open", 1, "late", 0, b"PUB orders.1 1\r\na\r\n"))
    assert isinstance(refused, Refused), "the coordinator does not know it"
    assert (refused.status, "all members need the same users" in refused.words) == (403, True)
    file.write_text(USERS)
    follower.signal(signal.SIGHUP)
    assert b"Authorization Violation" in late.operation().text
