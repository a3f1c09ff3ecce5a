"""Advisories: the same as nats-server's, for those that listen to them, and for nobody else."""

import contextlib
import json
from pathlib import Path
from typing import Any

from tests.support.jetstream import Dialogue, Step
from tests.support.processes import NatsServer, SeriatimServer, ServerProcess
from tests.support.raw import Operation, RawClient

STREAM, CONSUMER = "$JS.API.STREAM.", "$JS.API.CONSUMER."
QUIET = b'CONNECT {"verbose":false,"pedantic":false}\r\n'
S: dict[str, Any] = {"name": "S", "subjects": ["s.>"]}
LAST = b"$JS.EVENT.ADVISORY.STREAM.DELETED.S"


def consumer(name: str, **config: Any) -> Step:
    config = {"name": name, "durable_name": name, "ack_policy": "explicit"} | config
    return Step(f"{CONSUMER}CREATE.S.{name}", {"stream_name": "S", "config": config})


def listening(server: ServerProcess, *subscriptions: bytes) -> RawClient:
    client = RawClient(server.port, QUIET, b"".join(b"SUB %b\r\n" % one for one in subscriptions))
    client.ask(b"")
    return client


def told(client: RawClient, last: bytes = LAST) -> list[Operation]:
    """The advisories until one to this subject."""
    found: list[Operation] = []
    while not found or found[-1].subject != last:
        operation = client.operation()
        if operation.verb == "MSG":
            found.append(operation)
    return found


def after(server: ServerProcess, steps: list[Step]) -> list[tuple[str, dict[str, Any]]]:
    """What is said while a client takes these steps; times, and ids, are left out."""
    with listening(server, b"$JS.EVENT.ADVISORY.STREAM.> 1", b"$JS.EVENT.*.CONSUMER.> 2") as client:
        dialogue = Dialogue(server.port)
        for step in steps:
            dialogue.ask(step)
        dialogue.close()
        found = []
        for one in told(client):
            fields = json.loads(one.payload)
            assert len(fields.pop("id")) == 22
            assert fields.pop("timestamp").endswith("Z")
            if "ack_time" in fields:
                assert 0 < fields.pop("ack_time") < 60 * 10**9
            found.append((one.subject.decode(), list(fields.items())))
    return found  # type: ignore[return-value]


DIALOGUE = [
    Step(STREAM + "CREATE.S", S),
    Step(STREAM + "CREATE.S", S),
    Step(STREAM + "UPDATE.S", S | {"description": "x"}),
    *(Step("s.1", f"m{at}") for at in range(6)),
    consumer("C", sample_freq="100%", max_deliver=3),
    consumer("C", sample_freq="100%", max_deliver=3),
    Step(f"{CONSUMER}MSG.NEXT.S.C", "5", answers=5),
    Step("#0", "+ACK"),
    Step("#1", "-NAK"),
    Step("#2", '+TERM because of "one" & <two>'),
    Step("#3", '-NAK {"delay":60000000000}'),
    Step("#4", "+TERM"),
    Step(f"{CONSUMER}MSG.NEXT.S.C", "1"),
    Step("#5", "-NAK"),
    Step(f"{CONSUMER}PAUSE.S.C", {"pause_until": "2126-01-01T00:00:00Z"}),
    Step(f"{CONSUMER}PAUSE.S.C"),
    Step(f"{CONSUMER}DELETE.S.C"),
    consumer("M", ack_wait=1_000_000, max_deliver=1),
    Step(STREAM + "PURGE.S"),
    Step(STREAM + "DELETE.S"),
]
TOLD = 15


def test_given_a_listener_then_it_is_told_what_nats_server_tells(tmp_path: Path) -> None:
    theirs: list[tuple[str, dict[str, Any]]] = []
    for attempt in range(10):  # it forgets to tell one, or tells one twice, now and then
        its = {"jetstream": "enabled", "store_dir": str(tmp_path / str(attempt))}
        with contextlib.suppress(TimeoutError), NatsServer(its) as server:
            theirs = after(server, DIALOGUE)
        if len(theirs) == TOLD:
            break
    with SeriatimServer("none", arguments=["--jetstream"]) as broker:
        ours = after(broker, DIALOGUE)
    assert ours == theirs
    assert len(ours) == TOLD


def test_given_acks_without_a_reply_then_those_of_a_sampled_consumer_are_told(
    tmp_path: Path,
) -> None:
    """They are most of all acks, and the consumer may be sampled from some time on."""

    def sampled(server: ServerProcess) -> list[tuple[int, int]]:
        with listening(server, b"$JS.EVENT.METRIC.> 1", b"%b 2" % LAST) as client:
            dialogue = Dialogue(server.port)
            dialogue.ask(Step(STREAM + "CREATE.S", S))
            for at in range(6):
                dialogue.ask(Step("s.1", f"m{at}"))
            dialogue.ask(consumer("C"))
            dialogue.ask(Step(f"{CONSUMER}MSG.NEXT.S.C", "6", answers=6))
            for first, frequency in ((0, "100"), (2, "0"), (4, "0")):
                dialogue.client.send(b"PUB %b 4\r\n+ACK\r\n" % dialogue.acks[first].encode())
                dialogue.ask(Step(f"#{first + 1}", "+ACK"))  # confirmed: both are taken
                dialogue.ask(consumer("C", sample_freq=frequency))
            dialogue.ask(Step(STREAM + "DELETE.S"))
            dialogue.close()
            *metrics, _ = [json.loads(one.payload) for one in told(client)]
        return [(one["stream_seq"], one["deliveries"]) for one in metrics]

    with NatsServer({"jetstream": "enabled", "store_dir": str(tmp_path)}) as server:
        theirs = sampled(server)
    with SeriatimServer("none", arguments=["--jetstream"]) as broker:
        ours = sampled(broker)
    assert ours == theirs == [(3, 1), (4, 1)]


def test_given_a_message_that_was_sent_often_enough_then_both_say_so(tmp_path: Path) -> None:
    last = b"$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.S.M"

    def given_up(server: ServerProcess) -> dict[str, Any]:
        with listening(server, b"$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.> 1") as client:
            dialogue = Dialogue(server.port)
            dialogue.ask(Step(STREAM + "CREATE.S", S))
            dialogue.ask(consumer("M", ack_wait=1_000_000, max_deliver=2))
            dialogue.ask(Step("s.1", "poison"))
            dialogue.ask(
                Step(f"{CONSUMER}MSG.NEXT.S.M", {"batch": 3, "expires": 10**10}, answers=2)
            )
            (one,) = told(client, last)
            dialogue.close()
        return {key: value for key, value in json.loads(one.payload).items() if key[0] not in "it"}

    with NatsServer({"jetstream": "enabled", "store_dir": str(tmp_path)}) as server:
        theirs = given_up(server)
    with SeriatimServer("none", arguments=["--jetstream"]) as broker:
        assert (
            given_up(broker)
            == theirs
            == {**{"stream": "S", "consumer": "M", "stream_seq": 1, "deliveries": 2}}
        )


def test_given_other_listeners_then_advisories_are_not_theirs() -> None:
    with SeriatimServer("netstring", arguments=["--jetstream"]) as broker:
        everything = listening(broker, b"> 1", b"*.EVENT.> 2")
        group = [listening(broker, b"$JS.EVENT.> g 1") for _ in range(2)]
        gone = listening(broker, b"$JS.EVENT.> 1")
        gone.ask(b"UNSUB 1\r\n")
        alone = listening(broker, b"%b 1" % LAST)
        dialogue = Dialogue(broker.port)
        for step in (Step(STREAM + "CREATE.S", S), Step("s.1", "hello"), Step(STREAM + "DELETE.S")):
            dialogue.ask(step)
        assert [one.subject for one in told(alone)] == [LAST]
        alone.send(b"PUB end 0\r\n\r\n")
        # Messages have numbers, also for one that listens to everything.
        heard: list[Operation] = []
        while not heard or heard[-1].subject != b"end":
            heard.append(everything.operation())
        assert [one.subject for one in heard] == [b"s.1", b"end"]
        shared = [one for client in group for one in client.ask(b"") if one.verb == "MSG"]
        assert sorted(one.subject.rpartition(b".STREAM.")[2] for one in shared) == [
            *(b"CREATED.S", b"DELETED.S"),
        ]
        assert all(json.loads(one.payload)["stream"] == "S" for one in shared)  # without a frame
        assert not [one for one in gone.ask(b"") if one.verb == "MSG"]
        for client in (everything, *group, gone, alone):
            client.close()
        dialogue.close()


def test_given_a_user_who_may_not_have_all_then_the_rest_is_told(tmp_path: Path) -> None:
    (tmp_path / "broker.toml").write_text("""
        [authorization]
        [[authorization.users]]
        user = "ops"
        password = "a"
        [[authorization.users]]
        user = "narrow"
        password = "a"
        permissions.subscribe = { allow = ">", deny = "$JS.EVENT.ADVISORY.CONSUMER.>" }
        """)
    arguments = ["--jetstream", "-c", str(tmp_path / "broker.toml")]
    with SeriatimServer("none", arguments=arguments) as broker:
        connect = b'CONNECT {"verbose":false,"user":"narrow","pass":"a"}\r\n'
        narrow = RawClient(broker.port, connect, b"SUB $JS.EVENT.> 1\r\n")
        narrow.ask(b"")
        dialogue = Dialogue(broker.port, "ops", "a")
        for step in (Step(STREAM + "CREATE.S", S), consumer("C"), Step(STREAM + "DELETE.S")):
            dialogue.ask(step)
        assert [one.subject.split(b".")[4] for one in told(narrow)] == [b"CREATED", b"DELETED"]
        narrow.close()
        dialogue.close()


def test_given_many_subscriptions_that_come_and_go_then_the_one_that_stays_is_told() -> None:
    with SeriatimServer("none", arguments=["--jetstream"]) as broker:
        stays = listening(broker, b"$JS.EVENT.ADVISORY.> 1")
        churn = listening(broker)
        for at in range(2000):
            churn.send(b"SUB $JS.EVENT.%d %d\r\nUNSUB %d\r\n" % (at, at + 2, at + 1))
        churn.ask(b"")
        churn.close()
        dialogue = Dialogue(broker.port)
        for step in (Step(STREAM + "CREATE.S", S), Step(STREAM + "DELETE.S")):
            dialogue.ask(step)
        assert len(told(stays)) == 2
        stays.close()
        dialogue.close()
