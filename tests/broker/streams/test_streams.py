"""Streams as applications use them, and what keeps them exact: retention, ids, guards, limits."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nats
import nats.js.errors
import pytest
from nats.aio.client import Client
from nats.js import JetStreamContext

from tests.support.jetstream import Dialogue, Step
from tests.support.processes import SeriatimServer, url
from tests.support.raw import HEADERS, QUIET, RawClient

API = "$JS.API.STREAM."
S: dict[str, Any] = {"name": "S", "subjects": ["s.>"], "allow_direct": True}
Use = Callable[[Client, JetStreamContext], Any]


def serving(store: Path, *arguments: str, frame: str = "none") -> SeriatimServer:
    return SeriatimServer(frame, arguments=["--jetstream", *arguments], store=store)


def with_client(broker: SeriatimServer, use: Use) -> None:
    async def run() -> None:
        client = await nats.connect(url(broker))
        try:
            await use(client, client.jetstream())
        finally:
            await client.close()

    asyncio.run(run())


def asked(dialogue: Dialogue, subject: str, body: Any = b"") -> dict[str, Any]:
    (answer,) = dialogue.ask(Step(subject, body))
    parsed: dict[str, Any] = json.loads(answer.payload)
    return parsed


def published(dialogue: Dialogue, subject: str, body: str = "x", **headers: str) -> dict[str, Any]:
    fields = {name.replace("_", "-"): value for name, value in headers.items()} or None
    (answer,) = dialogue.ask(Step(subject, body, fields))
    parsed: dict[str, Any] = json.loads(answer.payload)
    return parsed


def state(dialogue: Dialogue, name: str = "S") -> dict[str, Any]:
    found: dict[str, Any] = asked(dialogue, API + f"INFO.{name}", {"subjects_filter": ">"})["state"]
    return found


def test_given_a_stream_with_a_past_then_it_begins_with_that_number(tmp_path: Path) -> None:
    async def use(client: Client, jetstream: JetStreamContext) -> None:
        for at in range(10):
            await client.publish(f"s.{at % 2}", b"%d" % at)
        await client.flush()
        info = await jetstream.add_stream(name="S", subjects=["s.1"], first_seq=4)
        assert (info.state.messages, info.state.first_seq, info.state.last_seq) == (4, 4, 10)
        assert (await jetstream.publish("s.1", b"new")).seq == 11
        assert (await jetstream.get_msg("S", 6)).data == b"5"
        with pytest.raises(nats.js.errors.NotFoundError):
            await jetstream.get_msg("S", 2)
        with pytest.raises(nats.js.errors.ServerError, match="the next is 12"):
            await jetstream.add_stream(name="T", subjects=["t"], first_seq=13)

    with serving(tmp_path) as broker:
        with_client(broker, use)


def test_given_retention_then_what_it_deletes_leaves_the_stream_first(tmp_path: Path) -> None:
    arguments = ("--journal.segment_bytes", "64KiB", "--journal.retain_bytes", "256KiB")
    with serving(tmp_path, *arguments) as broker:
        dialogue = Dialogue(broker.port)
        asked(dialogue, API + "CREATE.S", S)
        asked(dialogue, API + "CREATE.T", {"name": "T", "subjects": ["t"]})
        number = 0
        subjects: list[str] = []
        first = 1
        while first == 1:  # the keeper looks twice a second
            for _ in range(500):
                subjects.append(f"s.{number % 7}" if number % 3 else "t")
                number += 1
                line = f"PUB {subjects[-1]} 200\r\n{'x' * 200}\r\n"
                dialogue.client.send(line.encode())
            dialogue.client.ask(b"")
            first = asked(dialogue, "$SEQ.INFO")["first"]
        # What retention is about to delete has left the streams already.
        found = state(dialogue)
        kept = [one for one in subjects[found["first_seq"] - 1 :] if one.startswith("s.")]
        counts = {one: kept.count(one) for one in sorted(set(kept))}
        assert (found["messages"], found["subjects"]) == (len(kept), counts)
        assert found["bytes"] == len(kept) * (200 + 3 + 30)
        assert found["first_seq"] >= first
        other = state(dialogue, "T")
        assert other["messages"] == subjects[other["first_seq"] - 1 :].count("t")
        dialogue.close()


@pytest.mark.parametrize("ends", ["stop", "kill"])
def test_given_an_id_then_it_counts_for_its_stream_also_after_the_end(
    ends: str, tmp_path: Path
) -> None:
    with serving(tmp_path) as broker:
        dialogue = Dialogue(broker.port)
        asked(dialogue, API + "CREATE.S", S)
        asked(dialogue, API + "CREATE.T", {"name": "T", "subjects": ["t"]})
        assert published(dialogue, "s.1", Nats_Msg_Id="a") == {"stream": "S", "seq": 1}
        assert published(dialogue, "t", Nats_Msg_Id="a") == {"stream": "T", "seq": 2}
        again = {"stream": "S", "seq": 1, "duplicate": True}
        assert published(dialogue, "s.2", Nats_Msg_Id="a") == again
        dialogue.close()
        getattr(broker, ends)()
        broker.restart()
        dialogue = Dialogue(broker.port)
        assert published(dialogue, "s.3", Nats_Msg_Id="a") == again
        assert published(dialogue, "t", Nats_Msg_Id="a") == {
            "stream": "T",
            "seq": 2,
            "duplicate": True,
        }
        dialogue.close()


def test_given_a_short_window_of_a_stream_then_older_ids_do_not_count(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:
        dialogue = Dialogue(broker.port)
        asked(dialogue, API + "CREATE.S", S | {"duplicate_window": 100_000_000})
        first = published(dialogue, "s.1", Nats_Msg_Id="a")["seq"]
        while (answer := published(dialogue, "s.1", Nats_Msg_Id="a")).get("duplicate"):
            assert answer["seq"] == first
        assert answer["seq"] == first + 1
        too_long = S | {"name": "T", "subjects": ["t"], "duplicate_window": 10**18}
        error = asked(dialogue, API + "CREATE.T", too_long)["error"]
        assert error["err_code"] == 10052
        dialogue.close()


def test_given_guards_then_also_other_ways_to_publish_obey_them(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:
        dialogue = Dialogue(broker.port)
        asked(dialogue, API + "CREATE.S", S)
        published(dialogue, "s.1")
        guard = {"Nats-Expected-Last-Subject-Sequence": "7"}
        (answer,) = dialogue.ask(Step("$SEQ.PUB.s.1", "x", guard))
        assert answer.header == b"NATS/1.0 400 wrong last sequence: 1\r\n\r\n"
        guard = {"Nats-Expected-Last-Sequence": "1"}
        (answer,) = dialogue.ask(Step("$SEQ.PUB.s.1", "x", guard))
        assert answer.payload == b"1:2,"
        (answer,) = dialogue.ask(Step("elsewhere", "x", guard))  # 2 is the journal's last
        assert json.loads(answer.payload)["error"]["description"] == "wrong last sequence: 2"
        (answer,) = dialogue.ask(Step("elsewhere", "x", {"Nats-Expected-Stream": "S"}))
        assert json.loads(answer.payload)["error"]["err_code"] == 10060
        (answer,) = dialogue.ask(
            Step("elsewhere", "x", {"Nats-Expected-Last-Subject-Sequence": "0"})
        )
        assert "needs a stream" in json.loads(answer.payload)["error"]["description"]
        head = b"NATS/1.0\r\nNats-Expected-Last-Sequence: 9\r\n\r\n"
        size = len(head)
        told = dialogue.client.ask(b"HPUB s.1 %d %d\r\n%b\r\n" % (size, size, head))
        assert [one.verb for one in told] == ["-ERR"]
        assert b"wrong last sequence: 2" in told[0].text
        assert state(dialogue)["messages"] == 2
        dialogue.close()


def test_given_guards_without_streams_then_they_are_judged_all_the_same(tmp_path: Path) -> None:
    with SeriatimServer(store=tmp_path) as broker:
        dialogue = Dialogue(broker.port)
        dialogue.client.ask(b"PUB a 1\r\nx\r\n")
        (answer,) = dialogue.ask(Step("a", "x", {"Nats-Expected-Last-Sequence": "5"}))
        assert json.loads(answer.payload)["error"]["err_code"] == 10071
        (answer,) = dialogue.ask(Step("a", "x", {"Nats-Expected-Last-Sequence": "1"}))
        assert answer.header.startswith(b"NATS/1.0 503"), "it was published, and nobody answered"
        (answer,) = dialogue.ask(Step("$SEQ.PUB.a", "x", {"Nats-Expected-Last-Sequence": "2"}))
        assert answer.payload == b"1:3,"
        dialogue.close()


def test_given_frames_then_answers_and_pub_acks_have_none(tmp_path: Path) -> None:
    with serving(tmp_path, frame="netstring") as broker:
        dialogue = Dialogue(broker.port)
        subscriber = RawClient(broker.port, QUIET, b"SUB s.> 1\r\n")
        subscriber.ask(b"")
        asked(dialogue, API + "CREATE.S", S)
        assert published(dialogue, "s.1", "hello") == {"stream": "S", "seq": 1}
        (answer,) = dialogue.ask(Step("$JS.API.DIRECT.GET.S", {"seq": 1}))
        assert answer.payload == b"hello"
        live = subscriber.operation()
        assert (live.subject, live.payload) == (b"s.1", b"12:1:1,5:hello,,")
        dialogue.close()
        subscriber.close()


def test_given_no_ack_then_there_is_no_answer_and_no_status(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:
        dialogue = Dialogue(broker.port)
        asked(dialogue, API + "CREATE.S", {"name": "S", "subjects": [">"], "no_ack": True})
        told = dialogue.client.ask(b"PUB any _INBOX.other 1\r\nx\r\n")
        assert told == []
        assert state(dialogue)["messages"] == 1
        dialogue.close()


def test_given_no_streams_then_requests_are_told_why(tmp_path: Path) -> None:
    with SeriatimServer(arguments=["--jetstream", "--no-journal"]) as broker:
        dialogue = Dialogue(broker.port)
        assert "jetstream" not in dialogue.client.info
        assert asked(dialogue, "$JS.API.INFO")["error"]["err_code"] == 10076
        dialogue.close()
    with SeriatimServer(store=tmp_path) as broker:
        client = RawClient(broker.port, HEADERS, b"SUB _INBOX.> 1\r\n")
        request = b"PUB $JS.API.INFO _INBOX.1 0\r\n\r\n"
        (answer, again) = client.ask(request + request)
        assert answer.header.startswith(b"NATS/1.0 503")
        assert again.header == answer.header
        client.close()
    assert "".join(broker.log).count("serve -js") == 1, "one line, for both requests"


def test_given_a_journal_of_another_id_then_the_notes_are_refused(tmp_path: Path) -> None:
    store, other = tmp_path / "store", tmp_path / "other"
    with serving(store) as broker:
        dialogue = Dialogue(broker.port)
        asked(dialogue, API + "CREATE.S", S)
        dialogue.close()
    (tmp_path / "notes").mkdir()
    (store / "streams").rename(tmp_path / "notes" / "streams")
    with serving(other):
        pass
    (other / "streams").rename(tmp_path / "notes" / "unused")
    (tmp_path / "notes" / "streams").rename(other / "streams")
    broker = serving(other)
    with pytest.raises(AssertionError, match="its streams would show other messages"):
        broker.start()
    with serving(other, "--accept-loss") as again:
        dialogue = Dialogue(again.port)
        assert state(dialogue)["messages"] == 0
        dialogue.close()


RIGHTS = """
[[authorization.users]]
user = "admin"
password = "a"

[[authorization.users]]
user = "reader"
password = "b"
[authorization.users.permissions]
publish = ["$JS.API.DIRECT.>", "$JS.API.STREAM.MSG.GET.S"]
subscribe = ["s.1", "_INBOX.>"]
"""


def test_given_a_user_with_few_rights_then_no_other_subject_comes_out_of_a_stream(
    tmp_path: Path,
) -> None:
    config = tmp_path / "broker.toml"
    config.write_text(RIGHTS)
    with serving(tmp_path / "store", "-c", str(config)) as broker:

        def dialogue_of(user: str, password: str) -> Dialogue:
            return Dialogue(broker.port, user=user, password=password)

        admin, reader = dialogue_of("admin", "a"), dialogue_of("reader", "b")
        asked(admin, API + "CREATE.S", S)
        for subject in ("s.1", "s.2"):
            published(admin, subject, subject)
        (answer,) = reader.ask(Step("$JS.API.DIRECT.GET.S", {"seq": 1}))
        assert answer.payload == b"s.1"
        (answer,) = reader.ask(Step("$JS.API.DIRECT.GET.S", {"seq": 2}))
        assert answer.header == b"NATS/1.0 403 Permissions Violation\r\n\r\n"
        assert asked(reader, API + "MSG.GET.S", {"seq": 1})["message"]["seq"] == 1
        assert asked(reader, API + "MSG.GET.S", {"seq": 2})["error"]["code"] == 403
        (told,) = reader.client.ask(b"PUB $JS.API.STREAM.DELETE.S _INBOX.other 0\r\n\r\n")
        assert b"Permissions Violation" in told.text
        assert state(admin)["messages"] == 2
        admin.close()
        reader.close()


def test_given_requests_without_end_then_each_is_answered_and_others_are_served(
    tmp_path: Path,
) -> None:
    with serving(tmp_path) as broker:
        greedy, other = Dialogue(broker.port), Dialogue(broker.port)
        body = json.dumps(S)
        one = f"PUB {API}CREATE.S {greedy.inbox}.x {len(body)}\r\n{body}\r\n".encode()
        greedy.client.send(one * 2000)
        found: list[int] = []
        while len(found) < 2000:
            answer = json.loads(greedy.client.operation().payload)
            found.append(answer.get("error", {}).get("err_code", 0))
            if len(found) % 500 == 0:
                assert asked(other, API + "NAMES")["total"] <= 1
        assert set(found) <= {0, 10023}
        greedy.client.send(one * 500)
        greedy.client.reset()
        assert asked(other, API + "INFO.S")["state"]["messages"] == 0
        other.close()
