"""Messages to excluded subjects in a cluster: without a number, from each member to all others."""

import asyncio
import json
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import nats
import nats.errors
import pytest
from nats.aio.msg import Msg

from tests.cluster.test_cluster_batches import eventually
from tests.support.cluster_start import ClusterOf
from tests.support.processes import SeriatimServer
from tests.support.raw import HEADERS, QUIET, Operation, RawClient
from tests.support.stamps import STAMPS

EXCLUDE = ["--exclude", "_INBOX.> open.>"]
USERS = """
[[users]]
user = "any"
password = "pw"

[[users]]
user = "some"
password = "pw"
[users.permissions]
publish = ["work.>"]
[users.permissions.subscribe]
allow = ["open.>", "work.>"]
deny = ["open.secret"]

[[users]]
user = "service"
password = "pw"
[users.permissions]
subscribe = ["work.>"]
allow_responses = true
"""


class MembersWithUsers(ClusterOf):
    """Those of the file, besides whoever comes without a name."""

    def flags(self, at: int) -> list[str]:
        file = self.folder / f"users-{at}.toml"
        file.write_text(USERS)
        return [*super().flags(at), "--users_file", str(file), "--no_auth_user", "any"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterOf]:
    with MembersWithUsers(3, more=EXCLUDE) as made:
        eventually(lambda: all(map(reaches_all(made), range(3))))
        yield made


def reaches_all(cluster: ClusterOf) -> Callable[[int], bool]:
    """Whether a member's messages without a number get to all others by now."""

    def reaches(at: int) -> bool:
        others = [one for one in range(3) if one != at]
        with RawClient(cluster.members[at].port, QUIET) as client:
            for one in others:
                with RawClient(cluster.members[one].port, QUIET) as ear:
                    ear.ask(b"SUB open.probe 1\r\n")
                    client.ask(b"PUB open.probe 2\r\nhi\r\n")
                    ear.send(b"PING\r\n")
                    if not any(said.verb == "MSG" for said in until_pong(ear)):
                        return False
        return True

    return reaches


def test_given_forged_lines_then_a_member_leaves_them_out_of_what_another_passes_on(
    cluster: ClusterOf,
) -> None:
    ports = [member.port for member in cluster.members[:2]]
    head = b"NATS/1.0\r\nNats-Sequence: 9\r\nA: b\r\nnats-time-stamp: 9\r\n\r\n"
    sizes = b"%d %d" % (len(head), len(head) + 2)
    with RawClient(ports[0], HEADERS) as publisher, RawClient(ports[1], STAMPS) as ear:
        ear.ask(b"SUB open.forged 1\r\n")
        publisher.ask(b"HPUB open.forged %b\r\n%bhi\r\n" % (sizes, head))
        heard = ear.operation()
        assert (heard.header, heard.payload) == (b"NATS/1.0\r\nA: b\r\n\r\n", b"hi")


def until_pong(client: RawClient) -> list[Operation]:
    """What came until some while after the PONG: another member's messages need a moment."""
    found = [client.operation()]
    while found[-1].verb != "PONG":
        found.append(client.operation())
    client.socket.settimeout(0.2)
    try:
        found.append(client.operation())
    except TimeoutError:
        pass
    finally:
        client.socket.settimeout(30)
    return found


def last(member: SeriatimServer) -> int:
    return int(facts(member)["last"])


def facts(member: SeriatimServer) -> dict[str, Any]:
    with RawClient(member.port, QUIET + b"SUB r 1\r\n") as client:
        (found,) = client.ask(b"PUB $SEQ.INFO r 0\r\n\r\n")
    said: dict[str, Any] = json.loads(found.payload)
    return said


def login(member: SeriatimServer, user: str) -> RawClient:
    options = {"verbose": False, "headers": True, "user": user, "pass": "pw"}
    return RawClient(member.port, b"CONNECT %b\r\n" % json.dumps(options).encode())


def test_given_excluded_subjects_when_published_then_all_members_deliver_them_in_order_unnumbered(
    cluster: ClusterOf,
) -> None:
    before = [last(member) for member in cluster.members]
    count = 3000
    ears = [RawClient(member.port, QUIET + b"SUB open.* 1\r\n") for member in cluster.members]
    for ear in ears:
        ear.ask(b"")
    with RawClient(cluster.members[1].port, QUIET) as client:
        client.send(b"".join(b"PUB open.a reply 4\r\n%04d\r\n" % at for at in range(count)))
        for ear in ears:
            for at in range(count):
                said = ear.operation()
                assert (said.verb, said.subject, said.reply) == ("MSG", b"open.a", b"reply")
                assert said.payload == b"%04d" % at
            ear.close()
    assert [last(member) for member in cluster.members] == before


def test_given_headers_and_a_large_payload_when_passed_on_then_they_are_as_published(
    cluster: ClusterOf,
) -> None:
    header, payload = b"NATS/1.0\r\nA: b\r\n\r\n", b"x" * 900_000
    with RawClient(cluster.members[2].port, HEADERS) as ear:
        ear.ask(b"SUB open.large 1\r\n")
        with RawClient(cluster.members[0].port, HEADERS) as client:
            sizes = len(header), len(header) + len(payload)
            client.send(b"HPUB open.large %d %d\r\n" % sizes + header + payload + b"\r\n")
            said = ear.operation()
    assert (said.verb, said.header, said.payload) == ("HMSG", header, payload)


def test_given_a_queue_group_on_all_members_when_published_at_one_then_each_goes_to_one_of_them(
    cluster: ClusterOf,
) -> None:
    ears = [RawClient(member.port, QUIET) for member in cluster.members]
    for ear in ears:
        ear.ask(b"SUB open.job workers 1\r\nSUB open.end 2\r\n")
    with RawClient(cluster.members[0].port, QUIET) as client:
        client.send(b"".join(b"PUB open.job 4\r\n%04d\r\n" % at for at in range(600)))
        client.send(b"PUB open.end 0\r\n\r\n")
        got: list[list[bytes]] = []
        for ear in ears:
            got.append([])
            while (said := ear.operation()).subject == b"open.job":
                got[-1].append(said.payload)
            ear.close()
    assert sorted(one for some in got for one in some) == [b"%04d" % at for at in range(600)]
    assert all(len(some) > 100 for some in got), "each member has a share"
    assert all(one < other for some in got for one, other in pairwise(some))


def test_given_a_responder_at_another_member_when_asked_then_the_answer_comes_and_has_no_number(
    cluster: ClusterOf,
) -> None:
    async def asked() -> list[bytes]:
        here = await nats.connect(f"127.0.0.1:{cluster.members[0].port}")
        there = await nats.connect(f"127.0.0.1:{cluster.members[2].port}")

        async def answer(message: Msg) -> None:
            await message.respond(b"re " + message.data)

        await there.subscribe("open.ask", cb=answer)
        await there.flush()
        found = [await here.request("open.ask", b"%d" % at, timeout=10) for at in range(100)]
        with pytest.raises(nats.errors.NoRespondersError):
            await here.request("open.nobody", b"", timeout=30)
        await here.close()
        await there.close()
        return [one.data for one in found]

    before = last(cluster.members[0])
    assert asyncio.run(asked()) == [b"re %d" % at for at in range(100)]
    assert last(cluster.members[0]) == before


def test_given_no_subscriber_anywhere_when_asked_behind_other_publishes_then_503_comes_in_line(
    cluster: ClusterOf,
) -> None:
    with RawClient(cluster.members[1].port, HEADERS) as client:
        client.ask(b"SUB r.> 1\r\nSUB n 2\r\n")
        client.send(b"PUB $SEQ.PUB.a n 1\r\nx\r\nPUB open.none r.1 1\r\nx\r\n")
        number, status = client.operation(), client.operation()
        if number.subject != b"n":  # the answer of the others may be there first
            number, status = status, number
        assert number.subject == b"n"
        assert (status.subject, status.header[:12]) == (b"r.1", b"NATS/1.0 503")
        with RawClient(cluster.members[2].port, QUIET) as ear:
            ear.ask(b"SUB open.some 1\r\n")
            client.send(b"PUB open.some r.2 1\r\nx\r\nPUB open.none r.3 1\r\nx\r\n")
            assert ear.operation().reply == b"r.2"
            assert client.operation().subject == b"r.3", "somebody has the one before"


def test_given_permissions_when_passed_on_then_they_hold_at_both_members(
    cluster: ClusterOf,
) -> None:
    here, there = cluster.members[0], cluster.members[1]
    with login(there, "some") as ear, login(here, "any") as client, login(here, "some") as other:
        ear.ask(b"SUB open.> 1\r\n")
        (refused,) = other.ask(b"PUB open.a 1\r\nx\r\n")
        assert refused.verb == "-ERR"
        client.send(b"PUB open.secret 1\r\nx\r\nPUB open.a 1\r\ny\r\n")
        said = ear.operation()
        assert (said.subject, said.payload) == (b"open.a", b"y")


def test_given_allow_responses_when_the_request_came_from_another_member_then_it_may_answer(
    cluster: ClusterOf,
) -> None:
    with (
        login(cluster.members[2], "service") as service,
        login(cluster.members[0], "any") as client,
    ):
        service.ask(b"SUB work.ask 1\r\n")
        client.ask(b"SUB _INBOX.me.* 1\r\n")
        client.send(b"PUB work.ask _INBOX.me.7 1\r\nx\r\n")
        reply = service.operation().reply
        assert reply == b"_INBOX.me.7"
        assert service.ask(b"PUB _INBOX.me.7 2\r\nok\r\n") == []
        assert client.operation().payload == b"ok"
        (refused,) = service.ask(b"PUB _INBOX.me.8 2\r\nno\r\n")
        assert refused.verb == "-ERR"


def test_given_echo_off_and_ok_when_published_then_the_publisher_gets_the_ok_alone(
    cluster: ClusterOf,
) -> None:
    connect = b'CONNECT {"verbose":true,"pedantic":false,"echo":false}\r\n'
    with RawClient(cluster.members[0].port, connect) as client:
        client.send(b"SUB open.> 1\r\nPUB a 1\r\nx\r\nPUB open.a 1\r\nx\r\nPING\r\n")
        said = Counter(client.operation().verb for _ in range(5))
    assert said == {"+OK": 4, "PONG": 1}


def test_given_a_member_that_stops_or_dies_when_published_then_the_others_go_on() -> None:
    with ClusterOf(3, more=[*EXCLUDE, "--cluster_patience", "1s"]) as cluster:
        eventually(lambda: all(map(reaches_all(cluster), range(3))))
        stopped, ear_at, here = cluster.members
        payload = b"x" * 65536
        stopped.signal(signal.SIGSTOP)
        with RawClient(ear_at.port, QUIET + b"SUB open.* 1\r\n") as ear:
            ear.ask(b"")
            with RawClient(here.port, QUIET) as client:
                for at in range(400):  # more than sockets and one member's share may hold
                    client.send(b"PUB open.%d %d\r\n" % (at, len(payload)) + payload + b"\r\n")
                    assert ear.operation().subject == b"open.%d" % at
            stopped.signal(signal.SIGCONT)
            eventually(lambda: all(map(reaches_all(cluster), range(3))))
            stopped.kill()
            ear_at.kill()
        with RawClient(here.port, QUIET) as client:
            client.ask(b"SUB open.* 1\r\n")
            eventually(lambda: facts(here)["full"])
            found = client.ask(b"PUB open.a 1\r\nx\r\n")
        assert [one.payload for one in found] == [b"x"], "what needs no order needs no other member"
