"""Monitoring of streams: /jsz beside nats-server's, /varz, /healthz, and the metrics."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.jetstream import Dialogue, Step, request
from tests.support.processes import NatsServer, SeriatimServer, ServerProcess
from tests.support.web import get, http_port, metrics

CREATE, CONSUMER = "$JS.API.STREAM.CREATE.", "$JS.API.CONSUMER.CREATE."
NEXT, INFO = "$JS.API.CONSUMER.MSG.NEXT.", "$JS.API.STREAM.INFO."
DETAILS = "/jsz?consumers=1&config=1"


def consumer(name: str, **config: Any) -> Step:
    config = {"name": name, "durable_name": name, "ack_policy": "explicit"} | config
    return Step(f"{CONSUMER}S.{name}", {"stream_name": "S", "config": config})


STEPS = [
    Step(CREATE + "S", {"name": "S", "subjects": ["s.>"]}),
    Step(CREATE + "EMPTY", {"name": "EMPTY", "subjects": ["e"], "description": "nothing yet"}),
    *(Step(f"s.{at % 2}", f"m{at}") for at in range(5)),
    consumer("C"),
    consumer("F", filter_subject="s.1", ack_policy="none"),
    Step(f"{NEXT}S.C", "2", answers=2),
    Step(f"{INFO}NONE"),
]
QUERIES = (
    *("", "?accounts=1", "?streams=1", "?consumers=1", "?streams=1&config=1"),
    *("?consumers=true&config=true", "?acc=$G", "?acc=$G&streams=1", "?acc=OTHER&streams=1"),
    *("?accounts=1&offset=1", "?accounts=1&limit=1", "?leader-only=1", "?config=1"),
    *("?direct-consumers=1&consumers=1", "?stream-leader-only=1&streams=1"),
    *("?raft=1", "?raft=1&consumers=1&config=1"),
)
# What differs from server to server, and what is ours.
PLACES = ("server_id", "now", "created", "ts", "first_ts", "last_ts", "last_active", "leader")
OURS = ("ready", "lost", "state", "streams_offset", "streams_limit")


def serving(*arguments: str, store: Path | None = None) -> SeriatimServer:
    return SeriatimServer("none", arguments=["-m", "-1", "--jetstream", *arguments], store=store)


@contextmanager
def monitored_nats(store: Path) -> Iterator[ServerProcess]:
    facts = {"http": "127.0.0.1:-1", "jetstream": "enabled", "store_dir": str(store)}
    with NatsServer(facts) as server:
        yield server


def pages(server: ServerProcess) -> dict[str, Any]:
    """What /jsz says after the same dialogue, by query."""
    dialogue = Dialogue(server.port)
    for step in STEPS:
        dialogue.ask(step)
    port = http_port(server)
    while "inflight" in get(port, "/jsz").json["api"]:
        pass  # nats-server answers a request before it is done with it
    found = {query: get(port, f"/jsz{query}").json for query in QUERIES}
    dialogue.close()
    return found


def comparable(value: Any, name: str = "") -> Any:
    """A page without what differs from server to server; keys in order."""
    if isinstance(value, dict):
        return [
            (key, comparable(one, key))
            for key, one in value.items()
            if key not in ("limits", "level", "reserved_memory", "reserved_storage")
            and not (key in OURS and not isinstance(one, dict))
            and not (key == "config" and "max_memory" in one)
        ]
    if isinstance(value, list):
        return [comparable(one) for one in value]
    return "T" if name in PLACES and value != "0001-01-01T00:00:00Z" else value


def in_any_order(page: dict[str, Any]) -> dict[str, Any]:
    """A page whose consumers are sorted: nats-server lists them in no order."""
    for account in page.get("account_details", ()):
        for stream in account.get("stream_detail", ()):
            stream.get("consumer_detail", []).sort(key=lambda one: one["name"])
            stream["state"].pop("deleted", None)
        account.get("stream_detail", []).sort(key=lambda one: one["name"])
    total = page.pop("total")  # the order of these two differs in Go's struct
    return page | {"total": total}


def test_given_streams_when_asked_then_jsz_says_what_nats_server_says(tmp_path: Path) -> None:
    with serving() as broker:
        ours = pages(broker)
    with monitored_nats(tmp_path) as server:
        theirs = pages(server)
    for query in QUERIES:
        assert comparable(in_any_order(ours[query])) == comparable(in_any_order(theirs[query]))


def test_given_streams_when_asked_then_varz_and_healthz_know_them(tmp_path: Path) -> None:
    with serving() as broker:
        pages(broker)
        port = http_port(broker)
        part = get(port, "/varz").json["jetstream"]
        assert part["stats"]["api"] == {"level": 1, "total": 5, "errors": 1}
        assert part["stats"]["storage"] == get(port, "/jsz").json["bytes"] > 0
        assert part["config"]["store_dir"] == get(port, "/jsz").json["config"]["store_dir"]
    with monitored_nats(tmp_path) as server:
        pages(server)
        theirs = get(http_port(server), "/varz").json["jetstream"]
    for name in ("config", "stats", "limits"):
        assert set(part["stats"]) == set(theirs["stats"])
        assert name in theirs


HEALTH = (
    *("", "?js-enabled-only=1", "?js-enabled=1", "?js-server-only=1", "?account=$G"),
    *("?account=$G&stream=S", "?account=$G&stream=S&consumer=C", "?account=$G&stream=NONE"),
    *("?account=$G&stream=S&consumer=NONE", "?account=NONE", "?stream=S", "?account=$G&consumer=C"),
)


def test_given_questions_about_health_then_the_answers_are_those_of_nats_server(
    tmp_path: Path,
) -> None:
    def health(server: ServerProcess) -> list[Any]:
        pages(server)
        answers = [get(http_port(server), f"/healthz{query}") for query in HEALTH]
        return [(one.status, one.json["status"], one.json.get("error")) for one in answers]

    with serving() as broker, monitored_nats(tmp_path) as server:
        assert health(broker) == health(server)


def test_given_no_streams_when_asked_then_jsz_says_that_they_are_disabled() -> None:
    with (
        SeriatimServer("none", arguments=["-m", "-1"]) as broker,
        NatsServer({"http": "127.0.0.1:-1"}) as server,
    ):
        for query in ("", "?consumers=1"):
            ours = get(http_port(broker), f"/jsz{query}").json
            theirs = get(http_port(server), f"/jsz{query}").json
            assert ours["disabled"] is theirs["disabled"] is True
            assert comparable(ours) == comparable(theirs)
        assert get(http_port(broker), "/varz").json["jetstream"] == {}
        assert get(http_port(broker), "/healthz?js-enabled-only=1").status == 200


def test_given_many_consumers_when_asked_then_a_page_has_some_of_them() -> None:
    count = 1500
    with serving() as broker:
        dialogues = [Dialogue(broker.port) for _ in range(3)]  # each may have 1000 of them
        for step in STEPS[:2]:
            dialogues[0].ask(step)
        stays = {"inactive_threshold": 10**12}
        for first in range(0, count, 100):
            dialogue = dialogues[first // 100 % 3]
            for at in range(first, first + 100):
                config = {"name": f"c{at}"} | stays
                step = Step(f"{CONSUMER}S.c{at}", {"stream_name": "S", "config": config})
                dialogue.client.send(request(step, f"{dialogue.inbox}.made"))
            for _ in range(100):
                dialogue.client.operation()
        port = http_port(broker)

        def listed(query: str) -> tuple[list[str], bool]:
            page = get(port, f"/jsz?consumers=1&stream=S{query}").json
            assert page["consumers"] == count
            (stream,) = page["account_details"][0]["stream_detail"]
            names = [one["name"] for one in stream["consumer_detail"]]
            return names, "consumers_cut" in stream

        names, is_cut = listed("")
        assert (len(names), is_cut) == (1024, True)
        rest, is_cut = listed("&consumers_offset=1024")
        assert (len(rest), is_cut) == (count - 1024, False)
        assert sorted(names + rest) == sorted(f"c{at}" for at in range(count))
        assert listed("&consumers_limit=3&consumers_offset=5") == (names[5:8], True)
        assert get(port, "/jsz?consumers_limit=10001").status == 400
        page = get(port, "/jsz?streams=1&streams_limit=1").json
        assert [one["name"] for one in page["account_details"][0]["stream_detail"]] == ["EMPTY"]
        # Ephemeral consumers are counted, and have no series of their own.
        samples = metrics(port)
        assert samples["seriatim_consumers"] == count
        assert not [name for name in samples if name.startswith("seriatim_consumer_")]
        for dialogue in dialogues:
            dialogue.close()


def test_given_streams_when_scraped_then_each_has_its_series() -> None:
    with serving() as broker:
        pages(broker)
        dialogue, waiter = Dialogue(broker.port), Dialogue(broker.port)
        step = Step(f"{NEXT}S.F", {"batch": 9, "expires": 10**12})
        waiter.client.send(request(step, f"{waiter.inbox}.w"))
        for _ in range(2):  # there are two messages for it; then it waits
            waiter.client.operation()
        dialogue.ask(Step(f"{INFO}S"))
        samples = metrics(http_port(broker))
        dialogue.close()
        waiter.close()
    no_message = {"messages": 0, "bytes": 0, "subjects": 0, "first_number": 0, "last_number": 0}
    messages = {"messages": 5, "bytes": 175, "subjects": 2, "first_number": 1, "last_number": 5}
    asked = {"pending": 3, "ack_pending": 2, "waiting": 0, "ack_floor": 0, "deliveries_total": 2}
    waits = {"pending": 0, "ack_pending": 0, "waiting": 1, "ack_floor": 4, "deliveries_total": 2}
    never = {"redelivered": 0, "lost_messages_total": 0}
    assert {name: value for name, value in samples.items() if "stream" in name} == {
        "seriatim_streams": 2,
        "seriatim_streams_loading": 0,
        "seriatim_streams_subjects": 2,
        "seriatim_streams_left_out_messages_total": 0,
        "seriatim_stream_api_requests_total": 6,
        "seriatim_stream_api_errors_total": 1,
        **of("stream", "S", **messages, consumers=2),
        **of("stream", "EMPTY", **no_message, consumers=0),
        **of("consumer", "C", **asked, **never),
        **of("consumer", "F", **waits, **never),
    }


def of(kind: str, name: str, **figures: float) -> dict[str, float]:
    """The series of one stream, or of one consumer of S."""
    labels = f'{kind}="{name}"' + (',stream="S"' if kind == "consumer" else "")
    return {f"seriatim_{kind}_{key}{{{labels}}}": value for key, value in figures.items()}


def test_given_retention_then_what_consumers_lose_is_counted_and_no_more(tmp_path: Path) -> None:
    arguments = ("--journal.segment_bytes", "64KiB", "--journal.retain_bytes", "256KiB")
    with serving(*arguments, store=tmp_path) as broker:
        dialogue = Dialogue(broker.port)
        for step in (
            STEPS[0],
            *STEPS[2:4],
            consumer("LATE"),
            consumer("NOT", filter_subject="s.x"),
        ):
            dialogue.ask(step)
        dialogue.ask(Step(f"{NEXT}S.LATE", "1"))  # the first one is sent, and not acknowledged
        filler = b"".join(b"PUB other 8000\r\n%b\r\n" % (b"x" * 8000) for _ in range(200))
        dialogue.client.send(filler)
        port = http_port(broker)
        assert broker.await_line("LATE of S: retention has deleted 2 of the messages that it had")
        samples = metrics(port)
        lost = "seriatim_consumer_lost_messages_total"
        assert samples[f'{lost}{{consumer="LATE",stream="S"}}'] == 2
        assert samples[f'{lost}{{consumer="NOT",stream="S"}}'] == 0
        assert samples["seriatim_consumers_lost_messages_total"] == 2
        (stream,) = get(port, "/jsz?consumers=1").json["account_details"][0]["stream_detail"]
        assert {one["name"]: one["lost"] for one in stream["consumer_detail"]} == {
            "LATE": 2,
            "NOT": 0,
        }
        assert not broker.said("NOT of S: retention has deleted")
        dialogue.close()
