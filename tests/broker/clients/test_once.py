"""Publishing exactly once: a message whose Nats-Msg-Id is known gets no second number."""

from pathlib import Path

import pytest

from sequencer.netstring import decode_number
from tests.support.processes import SeriatimServer
from tests.support.raw import HEADERS, Operation, RawClient

USERS = """
[[users]]
user = "alice"
password = "pw"
permissions = { publish = ["a.>", "b.>", "$SEQ.PUB.>"] }
[[users]]
user = "bob"
password = "pw"
permissions = { publish = { allow = ["b.>", "$SEQ.PUB.>"] } }
[[users]]
user = "root"
password = "pw"
"""
VERBOSE = b'CONNECT {"verbose":true,"headers":true}\r\n'


def headed(subject: bytes, message_id: bytes, payload: bytes = b"x", reply: bytes = b"") -> bytes:
    """A message with an id."""
    head = b"NATS/1.0\r\nNats-Msg-Id: %b\r\n\r\n" % message_id
    words = (b"HPUB", subject, reply, b"%d %d" % (len(head), len(head) + len(payload)))
    return b" ".join(word for word in words if word) + b"\r\n" + head + payload + b"\r\n"


def acked(client: RawClient, subject: bytes, message_id: bytes, payload: bytes = b"x") -> int:
    """Publish with an answer; the number that is answered."""
    (answer,) = client.ask(headed(b"$SEQ.PUB." + subject, message_id, payload, b"answers"))
    return decode_number(answer.payload)


def test_given_an_id_twice_when_published_then_subscribers_get_it_once_and_the_number_is_old() -> (
    None
):
    with (
        SeriatimServer("none") as broker,
        RawClient(broker.port, HEADERS, b"SUB orders 1\r\n") as listener,
        RawClient(broker.port, HEADERS, b"SUB answers 1\r\n") as client,
    ):
        assert listener.ask(b"") == []
        assert acked(client, b"orders", b"one", b"first") == 1
        assert acked(client, b"orders", b"two", b"second") == 2
        assert acked(client, b"orders", b"one", b"third") == 1
        assert acked(client, b"elsewhere", b"one", b"fourth") == 1, "an id is one over all subjects"
        assert client.ask(headed(b"orders", b"two") + headed(b"orders", b"three", b"fifth")) == []
        assert acked(client, b"orders", b"four", b"sixth") == 4
        assert [one.payload for one in listener.ask(b"")] == [
            *(b"first", b"second"),
            *(b"fifth", b"sixth"),
        ]


def test_given_a_verbose_publisher_when_it_repeats_itself_then_it_hears_ok_again() -> None:
    with SeriatimServer("none") as broker, RawClient(broker.port, VERBOSE) as client:
        client.send(headed(b"orders", b"one") * 3)
        assert [client.operation().verb for _ in range(4)] == ["+OK"] * 4
        client.send(b"SUB answers 1\r\nPUB $SEQ.PUB.x answers 0\r\n\r\n")
        found = [client.operation() for _ in range(3)]
        assert sorted(one.verb for one in found) == ["+OK", "+OK", "MSG"]
        assert max(found, key=lambda one: len(one.payload)).payload == b"1:1,"


def test_given_a_duplicate_when_somebody_waits_for_responders_then_nothing_is_reported() -> None:
    """It was delivered when it was new: a 503 now would be a lie."""
    with SeriatimServer("none") as broker, RawClient(broker.port, HEADERS) as client:
        client.send(b"SUB inbox 1\r\nSUB service 2\r\n")
        client.send(headed(b"service", b"one", reply=b"inbox") * 2)
        heard: list[Operation] = client.ask(b"")
        assert [(one.subject, one.sid) for one in heard] == [(b"service", b"2")]


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_given_a_broker_that_was_started_again_when_an_id_comes_again_then_it_is_known(
    how: str,
) -> None:
    with SeriatimServer("none") as broker:
        with RawClient(broker.port, HEADERS, b"SUB answers 1\r\n") as client:
            assert [acked(client, b"a", b"%d" % at) for at in range(100)] == list(range(1, 101))
            assert client.ask(b"PUB a 1\r\nx\r\n" * 10) == []
            assert acked(client, b"a", b"last") == 111
        if how == "stopped":
            broker.restart()
        else:
            port = broker.port
            broker.kill()
            broker.start(port)
        with RawClient(broker.port, HEADERS, b"SUB answers 1\r\n") as client:
            assert [acked(client, b"a", b"%d" % at) for at in range(100)] == list(range(1, 101))
            assert acked(client, b"a", b"last") == 111
            assert acked(client, b"a", b"new") == 112


def test_given_users_with_permissions_then_their_ids_count_for_the_subject_and_after_a_restart(
    tmp_path: Path,
) -> None:
    def login(user: str) -> RawClient:
        options = b'{"verbose":false,"headers":true,"user":"%b","pass":"pw"}' % user.encode()
        return RawClient(broker.port, b"CONNECT %b\r\n" % options, b"SUB answers 1\r\n")

    def number(client: RawClient, subject: bytes) -> int:
        return acked(client, subject, b"order-7")

    (tmp_path / "users.toml").write_text(USERS)
    with SeriatimServer("none", arguments=["--users_file", str(tmp_path / "users.toml")]) as broker:
        for _ in range(2):
            with login("alice") as alice, login("bob") as bob, login("root") as root:
                assert [number(bob, b"b.1"), number(bob, b"b.2"), number(bob, b"b.1")] == [1, 2, 1]
                assert [number(alice, b"a.1"), number(alice, b"a.1")] == [3, 3]
                assert number(alice, b"b.1") == 1, "it may publish there, too"
                assert [number(root, b"a.1"), number(root, b"z"), number(root, b"b.1")] == [4, 4, 4]
            broker.restart()


def test_given_a_small_window_when_it_is_full_then_the_oldest_id_is_new_again() -> None:
    with (
        SeriatimServer("none", arguments=["--dedupe_ids", "2"]) as broker,
        RawClient(broker.port, HEADERS, b"SUB answers 1\r\n") as client,
    ):
        numbers = [acked(client, b"a", one) for one in (b"a", b"b", b"a", b"c", b"b", b"a")]
        assert numbers == [1, 2, 1, 3, 2, 4]


@pytest.mark.parametrize(
    "arguments", [["--dedupe_ids", "0"], ["--dedupe_window", "0"]], ids=["no ids", "no time"]
)
def test_given_no_window_when_an_id_comes_again_then_it_is_a_message(arguments: list[str]) -> None:
    with (
        SeriatimServer("none", arguments=arguments) as broker,
        RawClient(broker.port, HEADERS, b"SUB answers 1\r\n") as client,
    ):
        assert [acked(client, b"a", b"one") for _ in range(3)] == [1, 2, 3]
