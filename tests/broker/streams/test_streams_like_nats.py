"""Streams answer as nats-server 2.15.1 does: the same dialogue with both, and the same answers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.jetstream import Dialogue, Step, comparable
from tests.support.processes import NatsServer, SeriatimServer

CREATE, UPDATE, INFO = "$JS.API.STREAM.CREATE.", "$JS.API.STREAM.UPDATE.", "$JS.API.STREAM.INFO."
PURGE, DELETE = "$JS.API.STREAM.PURGE.", "$JS.API.STREAM.DELETE."
GET, REMOVE = "$JS.API.STREAM.MSG.GET.", "$JS.API.STREAM.MSG.DELETE."
DIRECT = "$JS.API.DIRECT.GET."
S: dict[str, Any] = {"name": "S", "subjects": ["s.>"], "allow_direct": True}


def published(count: int, subjects: int = 3) -> list[Step]:
    return [Step(f"s.{at % subjects}", f"m{at}") for at in range(count)]


def guarded(**headers: str) -> Step:
    return Step("s.9", "x", {name.replace("_", "-"): value for name, value in headers.items()})


BEGIN = [Step(CREATE + "S", S), *published(10)]

CONSUMER, NEXT = "$JS.API.CONSUMER.", "$JS.API.CONSUMER.MSG.NEXT.S."


def consumer(name: str, action: str = "", **config: Any) -> Step:
    body = {"stream_name": "S", "config": {"name": name, "durable_name": name} | config}
    return Step(f"{CONSUMER}CREATE.S.{name}", body | ({"action": action} if action else {}))


EXPLICIT: dict[str, Any] = {"ack_policy": "explicit", "ack_wait": 30_000_000_000}
CONSUMERS: dict[str, list[Step]] = {
    "making consumers": [
        *BEGIN,
        consumer("C", **EXPLICIT),
        consumer("C", **EXPLICIT),
        consumer("C", "create", **EXPLICIT, max_deliver=5),
        consumer("C", "update", **EXPLICIT, max_deliver=5),
        consumer("N", "update"),
        consumer("F", filter_subject="s.1", deliver_policy="last"),
        consumer("L", filter_subject="s.>", deliver_policy="last_per_subject"),
        consumer("W", deliver_policy="new"),
        consumer("Q", deliver_policy="by_start_sequence", opt_start_seq=5, **EXPLICIT),
        consumer("M", filter_subjects=["s.0", "s.2"], ack_policy="all", max_ack_pending=2),
        consumer("Z", filter_subject="zz"),
        *(Step(f"{CONSUMER}INFO.S.{name}") for name in "CFLWQMZ"),
        Step(f"{CONSUMER}INFO.S.NONE"),
        Step(f"{CONSUMER}INFO.NONE.C"),
        Step(f"{CONSUMER}NAMES.S"),
        Step(f"{CONSUMER}NAMES.S", {"offset": 3}),
        Step(f"{CONSUMER}LIST.S"),
        Step(f"{CONSUMER}LIST.NONE"),
        Step(f"{CONSUMER}DELETE.S.C"),
        Step(f"{CONSUMER}DELETE.S.C"),
        Step(f"{CONSUMER}DURABLE.CREATE.S.D", {"stream_name": "S", "config": {}}),
        Step(
            f"{CONSUMER}DURABLE.CREATE.S.D",
            {"stream_name": "S", "config": {"durable_name": "D", **EXPLICIT}},
        ),
        Step(f"{CONSUMER}CREATE.S.E.s.1", {"stream_name": "S", "config": {"name": "E"}}),
        Step(f"{CONSUMER}CREATE.S", "{x}"),
        Step(f"{CONSUMER}CREATE.S.C", {"stream_name": "T", "config": {}}),
        Step(INFO + "S"),
        Step(f"{CONSUMER}UNPIN.S.D", {"group": "g"}),
        Step(f"{CONSUMER}RESET.S.D"),
        Step(f"{CONSUMER}RESET.S.D", {"seq": 4}),
    ],
    "pulling": [
        *BEGIN,
        consumer("C", **EXPLICIT, max_deliver=2),
        Step(NEXT + "C", "3", answers=3),
        Step("#0"),
        Step("#0"),
        Step("#1", "+WPI"),
        Step("#2", "+TERM"),
        Step("$JS.ACK.S.NONE.1.5.77.1.0"),
        Step(f"{CONSUMER}INFO.S.C"),
        Step(NEXT + "C", {"batch": 2, "no_wait": True}, answers=2),
        Step("#3", "+NXT", answers=1),
        Step(NEXT + "C", {"batch": 2, "expires": 1, "max_bytes": 3}),
        Step(NEXT + "C", "{x}"),
        Step(NEXT + "C", {"expires": 100_000_000, "idle_heartbeat": 90_000_000}),
        Step(NEXT + "NONE"),
        Step(NEXT + "C", {"batch": 100, "no_wait": True}, answers=5),
        Step(f"{CONSUMER}INFO.S.C"),
        *(Step(f"#{at}") for at in range(4, 10)),
        Step(f"{CONSUMER}INFO.S.C"),
        Step("s.1", "more"),
        Step(NEXT + "C", "", answers=1),
        Step(NEXT + "C", {"batch": 1, "expires": 50_000_000}),
        Step(f"{CONSUMER}INFO.S.C"),
    ],
    "no wait for what is held": [
        *BEGIN,
        consumer("C", **EXPLICIT, max_ack_pending=5),
        # Five messages, and No Messages in place of a heartbeat, long before the request expires.
        Step(
            NEXT + "C",
            {"batch": 9, "no_wait": True, "expires": 30 * 10**9, "idle_heartbeat": 10**9},
            answers=6,
        ),
        Step(f"{CONSUMER}INFO.S.C"),
    ],
    "pulling with filters": [
        *BEGIN,
        consumer("M", filter_subjects=["s.0", "s.2"], **EXPLICIT, max_ack_pending=4),
        Step(NEXT + "M", {"batch": 4, "no_wait": True}, answers=4),
        Step("#2"),
        Step(f"{CONSUMER}INFO.S.M"),
        Step(REMOVE + "S", {"seq": 7}),
        Step(f"{CONSUMER}INFO.S.M"),
        Step(NEXT + "M", {"batch": 1, "no_wait": True}),
        Step(PURGE + "S"),
        Step(NEXT + "M", {"batch": 2, "no_wait": True}),
        Step("s.0", "after"),
        Step(NEXT + "M", "1", answers=1),
    ],
    "pauses": [
        *BEGIN,
        consumer("C", **EXPLICIT),
        Step(f"{CONSUMER}PAUSE.S.C", {"pause_until": "2036-01-01T00:00:00Z"}),
        Step(NEXT + "C", {"batch": 2, "expires": 50_000_000}),
        Step(f"{CONSUMER}PAUSE.S.C"),
        Step(NEXT + "C", "2", answers=2),
        Step(f"{CONSUMER}PAUSE.S.NONE"),
    ],
}
DIALOGUES: dict[str, list[Step]] = {
    **CONSUMERS,
    "the account": [Step("$JS.API.INFO")],
    "create": [
        Step(CREATE + "S", S),
        Step(CREATE + "S", S),
        Step(CREATE + "S", S | {"description": "another"}),
        Step(CREATE + "T", {"name": "T", "subjects": ["s.a"]}),
        Step(CREATE + "T", {"name": "T", "subjects": ["*.a"]}),
        Step(CREATE + "T", {"name": "T"}),
        Step(INFO + "T"),
        Step(INFO + "NONE"),
        Step(INFO + "S"),
        Step("$JS.API.STREAM.NAMES"),
        Step("$JS.API.STREAM.NAMES", {"subject": "s.x"}),
        Step("$JS.API.STREAM.NAMES", {"subject": "nobody"}),
        Step("$JS.API.STREAM.NAMES", {"offset": 1}),
        Step("$JS.API.STREAM.NAMES", {"offset": 9}),
        Step("$JS.API.STREAM.LIST"),
        Step("$JS.API.STREAM.LIST", {"subject": "nobody"}),
        Step(DELETE + "S"),
        Step(DELETE + "S"),
        Step("$JS.API.STREAM.NAMES"),
    ],
    "configurations": [
        Step(CREATE + "C", {"name": "C", "description": "d" * 4097}),
        Step(CREATE + "C", {"name": "C", "subjects": ["a", "a"]}),
        Step(CREATE + "C", {"name": "C", "subjects": ["a.>", "a.b"]}),
        Step(CREATE + "C", {"name": "C", "subjects": ["a..b"]}),
        Step(CREATE + "C", {"name": "C", "subjects": [">"]}),
        Step(CREATE + "C", {"name": "C", "num_replicas": 3}),
        Step(CREATE + "C", {"name": "C", "num_replicas": 6}),
        Step(CREATE + "C", {"name": "C", "num_replicas": -1}),
        Step(CREATE + "C", {"name": "C", "duplicate_window": 1}),
        Step(CREATE + "C", {"name": "C", "duplicate_window": -1}),
        Step(CREATE + "C", {"name": "D"}),
        Step(CREATE + "C", {"name": "C", "metadata": {"k": "v" * (128 << 10)}}),
        Step(CREATE + "C" * 256, {"name": "C" * 256}),
        Step(CREATE + "C", '{"name": "C"'),
        Step(CREATE + "C", '{"name": "C", x}'),
        Step(CREATE + "C", "[1]"),
        Step(CREATE + "C", ""),
        Step(CREATE + "C", '{"name": "C", "frob": 1}'),
        Step(CREATE + "C", '{"name": 7}'),
        Step(CREATE + "C", '{"name": "C", "max_msgs": "many"}'),
        Step(CREATE + "C", '{"name": "C", "max_msgs": 1.5}'),
        Step(CREATE + "C", '{"name": "C", "subjects": "a"}'),
        Step(CREATE + "C", '{"name": "C", "subjects": [1]}'),
        Step(CREATE + "C", '{"name": "C", "no_ack": "yes"}'),
        Step(CREATE + "C", '{"name": "C", "first_seq": -1}'),
        Step(
            CREATE + "C",
            {
                "name": "C",
                "description": "what it <is> for",
                "subjects": ["c.*", "d.>"],
                "max_consumers": 7,
                "storage": "memory",
                "no_ack": True,
                "duplicate_window": 60_000_000_000,
                "deny_delete": True,
                "deny_purge": True,
                "compression": "s2",
                "consumer_limits": {"inactive_threshold": 5_000_000_000, "max_ack_pending": 9},
                "metadata": {"b": "2", "a": "1"},
            },
        ),
        Step(INFO + "C"),
        Step(PURGE + "C"),
        Step(REMOVE + "C", {"seq": 1}),
    ],
    "updates": [
        Step(UPDATE + "S", S),
        *BEGIN,
        Step(UPDATE + "S", S | {"description": "changed", "subjects": ["s.1", "s.2", "t"]}),
        Step("t", "x"),
        Step("s.0", "x"),
        Step(INFO + "S", {"subjects_filter": ">"}),
        Step(UPDATE + "S", S | {"storage": "memory"}),
        Step(UPDATE + "S", S | {"deny_delete": True, "deny_purge": True}),
        Step(UPDATE + "S", S),
        Step(UPDATE + "S", S | {"deny_delete": True}),
        Step(UPDATE + "S", {"name": "T"}),
        Step(INFO + "S"),
    ],
    "publishing": [
        *BEGIN,
        guarded(Nats_Msg_Id="a"),
        guarded(Nats_Msg_Id="a"),
        guarded(Nats_Expected_Stream="X"),
        guarded(Nats_Expected_Stream="S"),
        guarded(Nats_Expected_Last_Sequence="3"),
        guarded(Nats_Expected_Last_Sequence="12"),
        guarded(Nats_Expected_Last_Sequence="0"),
        guarded(Nats_Expected_Last_Sequence=""),
        guarded(Nats_Expected_Last_Subject_Sequence="3"),
        guarded(Nats_Expected_Last_Subject_Sequence="0"),
        Step("s.new", "x", {"Nats-Expected-Last-Subject-Sequence": "0"}),
        guarded(Nats_Expected_Last_Msg_Id="b"),
        guarded(Nats_Msg_Id="b", Nats_Expected_Last_Msg_Id=""),
        guarded(Nats_Expected_Last_Msg_Id="b"),
        guarded(Nats_Rollup="sub"),
        guarded(Nats_TTL="5s"),
        guarded(Nats_Msg_Id="a", Nats_Expected_Last_Sequence="1"),
        guarded(Nats_Msg_Id="a", Nats_Expected_Last_Msg_Id="no"),
        Step(
            "s.9",
            "x",
            {
                "Nats-Expected-Last-Subject-Sequence": "10",
                "Nats-Expected-Last-Subject-Sequence-Subject": "s.0",
            },
        ),
        Step("nowhere", "x"),
        Step(INFO + "S", {"subjects_filter": "s.*"}),
    ],
    "messages": [
        *BEGIN,
        Step("s.h", "body", {"A": "b", "Nats-Sequence": "99"}),
        Step("s.e", ""),
        Step(GET + "S", {"seq": 3}),
        Step(GET + "S", {"seq": 11}),
        Step(GET + "S", {"seq": 12}),
        Step(GET + "S", {"seq": 99}),
        Step(GET + "S", {"last_by_subj": "s.1"}),
        Step(GET + "S", {"last_by_subj": "s.*"}),
        Step(GET + "S", {"last_by_subj": "none"}),
        Step(GET + "S", {"seq": 5, "next_by_subj": "s.0"}),
        Step(GET + "S", {"next_by_subj": "s.>"}),
        Step(GET + "S", {"seq": 11, "next_by_subj": "s.0"}),
        Step(GET + "S", {}),
        Step(GET + "S", ""),
        Step(GET + "S", {"seq": 3, "last_by_subj": "s.1"}),
        Step(GET + "S", {"last_by_subj": "s.1", "next_by_subj": "s.1"}),
        Step(GET + "NONE", {"seq": 3}),
        Step(REMOVE + "S", {"seq": 4}),
        Step(REMOVE + "S", {"seq": 4}),
        Step(REMOVE + "S", {"seq": 10}),
        Step(REMOVE + "S", ""),
        Step(GET + "S", {"seq": 4}),
        Step(GET + "S", {"last_by_subj": "s.0"}),
        Step(INFO + "S", {"deleted_details": True, "subjects_filter": ">"}),
        Step(INFO + "S"),
        guarded(Nats_Expected_Last_Sequence="12"),
        Step("s.0", "x", {"Nats-Expected-Last-Subject-Sequence": "7"}),
        Step(REMOVE + "S", {"seq": 1}),
        Step(INFO + "S"),
    ],
    "deleting what is not there": [
        Step(CREATE + "S", S),
        Step(REMOVE + "S", {"seq": 1}),
        *published(5),
        *(Step(REMOVE + "S", {"seq": number}) for number in (3, 3, 1, 1, 5, 5, 6, 99)),
        *(Step(REMOVE + "S", {"seq": number}) for number in (2, 3, 4, 4, 5, 6)),
        Step(CREATE + "T", {"name": "T", "subjects": ["t"], "storage": "memory"}),
        Step(REMOVE + "T", {"seq": 1}),
        Step(REMOVE + "T", {"seq": 99}),
    ],
    "direct": [
        *BEGIN,
        Step("s.h", "body", {"A": "b"}),
        Step(DIRECT + "S", {"seq": 3}),
        Step(DIRECT + "S", {"seq": 11}),
        Step(DIRECT + "S", {"seq": 11, "no_hdr": True}),
        Step(DIRECT + "S", {"seq": 99}),
        Step(DIRECT + "S", {"last_by_subj": "s.1"}),
        Step(DIRECT + "S", {"last_by_subj": "none"}),
        Step(DIRECT + "S.s.2"),
        Step(DIRECT + "S.none"),
        Step(DIRECT + "S", {"seq": 5, "next_by_subj": "s.0"}),
        Step(DIRECT + "S", {"next_by_subj": "s.0"}),
        Step(DIRECT + "S"),
        Step(DIRECT + "S", {}),
        Step(DIRECT + "S", {"batch": 3}, answers=1),
        Step(DIRECT + "S", {"batch": 3, "max_bytes": 10, "no_hdr": True}, answers=1),
        Step(DIRECT + "S", {"batch": -1}, answers=1),
        Step(DIRECT + "S", {"up_to_seq": 5}, answers=1),
        Step(DIRECT + "S", {"up_to_seq": 5, "up_to_time": "2030-01-01T00:00:00Z"}, answers=1),
        Step(DIRECT + "S", "{x}"),
        Step(DIRECT + "NONE", {"seq": 1}),
        Step(DIRECT + "NONE.s.1"),
        Step(DIRECT + "S", {"seq": 1, "batch": 3}, answers=0),
        Step(DIRECT + "S", {"seq": 9, "batch": 30}, answers=0),
        Step(DIRECT + "S", {"seq": 90, "batch": 30}, answers=0),
        Step(DIRECT + "S", {"batch": 3, "next_by_subj": "s.1"}, answers=0),
        Step(DIRECT + "S", {"seq": 4, "batch": 3, "next_by_subj": "s.1"}, answers=0),
        Step(DIRECT + "S", {"seq": 1, "batch": 5, "max_bytes": 12}, answers=0),
        Step(DIRECT + "S", {"multi_last": ["s.>"]}, answers=0),
        Step(DIRECT + "S", {"multi_last": ["s.1", "s.0"]}, answers=0),
        Step(DIRECT + "S", {"multi_last": ["s.1", "s.0"], "batch": 1}, answers=0),
        Step(DIRECT + "S", {"multi_last": ["none"]}, answers=0),
        Step(DIRECT + "S", {"multi_last": ["s.>"], "up_to_seq": 5}, answers=0),
        Step(DIRECT + "S", {"seq": 1, "last_by_subj": "s.1"}),
        Step(CREATE + "T", {"name": "T", "subjects": ["t"]}),
        Step(DIRECT + "T", {"seq": 1}),
    ],
    "purges": [
        *BEGIN,
        Step(PURGE + "S", {"filter": "s.0"}),
        Step(INFO + "S", {"subjects_filter": ">"}),
        *published(4),
        Step(PURGE + "S", {"seq": 5}),
        Step(INFO + "S", {"subjects_filter": ">"}),
        Step(PURGE + "S", {"filter": "s.1", "keep": 1}),
        Step(INFO + "S", {"subjects_filter": ">"}),
        Step(PURGE + "S", {"keep": 3}),
        Step(INFO + "S", {"subjects_filter": ">"}),
        Step(PURGE + "S", {"keep": 3, "seq": 3}),
        Step(PURGE + "S", {"filter": "none"}),
        Step(PURGE + "S"),
        Step(INFO + "S", {"subjects_filter": ">"}),
        *published(2),
        Step(INFO + "S", {"subjects_filter": ">"}),
        Step(PURGE + "NONE"),
        Step(PURGE + "S", "{x}"),
    ],
    "wrong requests": [
        *BEGIN,
        *(
            Step(subject + "S", body)
            for subject in (INFO, PURGE, GET, REMOVE, DIRECT, DELETE)
            for body in ("{x}", '{"frob": 1}', '{"seq": "1"}', "[]", "null", '{"offset": "7"}')
        ),
        Step("$JS.API.STREAM.NAMES", "{x}"),
        Step("$JS.API.STREAM.NAMES", '{"offset": "7"}'),
        Step("$JS.API.STREAM.LIST", '{"frob": 1}'),
        Step("$JS.API.INFO", "{x}"),
        Step("$JS.API.STREAM.SNAPSHOT.NONE", '{"deliver_subject": "x"}'),
        Step("$JS.API.STREAM.LEADER.STEPDOWN.S"),
        Step("$JS.API.STREAM.PEER.REMOVE.S", '{"peer": "x"}'),
        Step("$JS.API.STREAM.INFO.S", "", {"Nats-Required-Api-Level": "7"}),
        Step("$JS.API.STREAM.CREATE.Z", {"name": "Z"}, {"Nats-Required-Api-Level": "7"}),
        Step("$JS.API.STREAM.INFO.S", "", {"Nats-Required-Api-Level": "1"}),
        Step("$JS.API.STREAM.INFO.S", "", {"Nats-Required-Api-Level": "x"}),
    ],
}


@pytest.fixture(scope="module")
def oracle_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("nats")


@pytest.fixture(scope="module")
def oracle(oracle_store: Path) -> Iterator[NatsServer]:
    more = f'jetstream {{ store_dir: "{oracle_store}" }}\n'
    with NatsServer(more=more) as server:
        yield server


@pytest.mark.parametrize("name", DIALOGUES)
def test_given_the_same_dialogue_then_both_servers_answer_the_same(
    name: str, oracle: NatsServer, oracle_store: Path, tmp_path: Path
) -> None:
    theirs, ours = Dialogue(oracle.port), None
    arguments = ["--jetstream"]
    with SeriatimServer(arguments=arguments, store=tmp_path / "store") as broker:
        ours = Dialogue(broker.port)
        try:
            # Of what was purged, nothing counts as deleted here: other streams' numbers are holes,
            # too.
            ignored = ("num_deleted",) if name == "purges" else ()
            for step in DIALOGUES[name]:
                expected = [comparable(one, ignored) for one in theirs.ask(step)]
                found = [comparable(one, ignored) for one in ours.ask(step)]
                assert found == expected, f"{name}: {step.subject} {step.body!r} {step.headers}"
        finally:
            theirs.close()
            ours.close()
            last = Dialogue(oracle.port)  # what still waits is gone with its client
            for stream in ("S", "T", "C"):
                last.ask(Step(DELETE + stream))
            last.close()
            streams = oracle_store / "jetstream" / "$G" / "streams"
            while streams.exists() and list(streams.iterdir()):
                pass  # it removes the files after it has said so
