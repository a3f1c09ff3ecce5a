"""One total order: whoever subscribes to whatever, sees the same messages in the same order."""

import random

from testkit.model_frame import split_frame
from tests.order.traffic import (
    Crew,
    Heard,
    assert_fifo,
    assert_gap_free,
    assert_same_story,
    heard,
    publish,
    send_in_pieces,
    stream,
)
from tests.support.processes import SeriatimServer, ServerProcess
from tests.support.raw import HEADERS, QUIET, RawClient

PUBLISHERS, EACH = 5, 1500
NAMES = [f"p{at}" for at in range(PUBLISHERS)]


def test_given_many_publishers_and_overlapping_wildcards_then_all_see_one_order(
    broker: ServerProcess,
) -> None:
    patterns = [">", ">", "t.>", "t.*.x", "t.1.*", "*", "u.>", "t.1.x", "*.*.x", "*.1"]
    with Crew(broker.port) as crew:
        subscribers = [crew.listen(pattern) for pattern in patterns]
        both = crew.listen("t.*.*", ">", "t.1.x")
        crew.publish_all(NAMES, EACH)
        runs = [subscriber.finish() for subscriber in subscribers]
        mixed = both.finish()
    everything = runs[0]
    assert len(everything) == PUBLISHERS * EACH
    assert_gap_free(everything)
    assert_fifo(everything, dict.fromkeys(NAMES, EACH))
    for pattern, run in zip(patterns, runs, strict=True):
        assert_same_story(run, everything, pattern)
    for sid, pattern in both.patterns.items():
        assert_same_story([m for m in mixed if m.sid == sid], everything, pattern)
    numbers = [message.number for message in mixed]
    assert numbers == sorted(numbers), "one connection sees one order over its subscriptions"


def test_given_publishers_that_also_listen_then_their_own_messages_have_their_place(
    broker: ServerProcess,
) -> None:
    names = NAMES[:3]

    def talk(name: str, seed: int) -> list[Heard]:
        with RawClient(broker.port, QUIET + b"SUB > 0\r\n") as client:
            reading = crew.start(client.until_pong)
            send_in_pieces(client, stream(name, EACH, seed) + b"PING\r\n", seed)
            return [heard(operation) for operation in reading.result()]

    with Crew(broker.port) as crew:
        watcher = crew.listen(">")
        talks = [crew.start(talk, name, seed) for seed, name in enumerate(names)]
        runs = [done.result() for done in talks]
        everything = watcher.finish()
    assert_gap_free(everything)
    assert_fifo(everything, dict.fromkeys(names, EACH))
    whole = {message.number: message.payload for message in everything}
    for name, run in zip(names, runs, strict=True):
        assert_gap_free(run)
        assert all(whole[message.number] == message.payload for message in run)
        own = [m.payload for m in run if m.payload.startswith(f"{name} ")]
        assert own == [f"{name} {at}" for at in range(EACH)]


def test_given_a_late_comer_then_it_sees_the_rest_without_a_gap(broker: ServerProcess) -> None:
    with Crew(broker.port) as crew:
        first = crew.listen(">")
        late = []
        for seed in range(6):
            publishing = crew.publish(f"p{seed}", EACH, seed)
            late.append(crew.listen(">"))
            assert publishing.result() == []
        everything = first.finish()
        runs = [subscriber.finish() for subscriber in late]
    assert_gap_free(everything)
    assert [bool(run) for run in runs[:-1]] == [True] * 5, "it hears at least who comes behind it"
    for run in runs:
        if run:
            tail = everything[-len(run) :]
            assert [(m.number, m.payload) for m in run] == [(m.number, m.payload) for m in tail]


def test_given_queue_groups_then_members_share_every_number_and_each_sees_them_rise(
    broker: ServerProcess,
) -> None:
    with Crew(broker.port) as crew:
        watcher = crew.listen(">")
        members = [crew.listen("> q") for _ in range(3)]
        double = crew.listen("> q", "t.> q", "t.> r")
        crew.publish_all(NAMES[:3], EACH)
        everything = watcher.finish()
        shares = [member.finish() for member in members]
        last = double.finish()
    shares += [[message for message in last if message.sid in "01"]]
    assert sorted(m.number for share in shares for m in share) == [m.number for m in everything]
    for share in [*shares, last]:
        numbers = [message.number for message in share]
        assert numbers == sorted(numbers)
    assert all(shares)
    assert_same_story([m for m in last if m.sid == "2"], everything, "t.>")


def test_given_asked_numbers_then_they_are_those_the_subscribers_see(
    broker: ServerProcess,
) -> None:
    def ask(name: str) -> dict[str, int]:
        """Publish through `$SEQ.PUB` with a reply; which payload got which number."""
        with RawClient(broker.port, QUIET + b"SUB _INBOX.%s.* 0\r\n" % name.encode()) as client:
            for at in range(300):
                payload = f"{name} {at}".encode()
                subject = b"$SEQ.PUB.t.1.x _INBOX.%s.%d" % (name.encode(), at)
                client.send(b"PUB %s %d\r\n%s\r\n" % (subject, len(payload), payload))
            answers = client.ask(b"")
        assert [answer.payload.partition(b":")[0] for answer in answers] == [
            b"%d" % (len(answer.payload.partition(b":")[2]) - 1) for answer in answers
        ]
        return {
            f"{name} {answer.subject.rpartition(b'.')[2].decode()}": int(
                answer.payload.partition(b":")[2].removesuffix(b",")
            )
            for answer in answers
        }

    with Crew(broker.port) as crew:
        watcher = crew.listen("t.>")
        asking = [crew.start(ask, name) for name in ("a", "b")]
        crew.publish_all(["p"], EACH)
        known = {payload: number for done in asking for payload, number in done.result().items()}
        everything = watcher.finish()
    assert len(known) == 600
    seen = {message.payload: message.number for message in everything}
    assert {payload: seen[payload] for payload in known} == known


def test_given_connections_with_frames_of_their_own_then_all_show_the_same_numbers() -> None:
    arguments = ["--listen", "127.0.0.1:-1,frame=header"]
    with SeriatimServer("netstring", arguments=arguments) as process:
        framed, by_header = process.ports
        chooses = b'CONNECT {"verbose":false,"headers":true,"frame":"%s"}\r\nSUB > 1\r\n'
        with (
            RawClient(framed, QUIET + b"SUB > 1\r\n") as netstring,
            RawClient(by_header, HEADERS + b"SUB > 1\r\n") as header,
            RawClient(by_header, chooses % b"netstring") as chosen,
            RawClient(framed, chooses % b"header") as chosen_header,
            RawClient(framed, chooses % b"none") as bare,
            RawClient(by_header, QUIET + b"SUB > 1\r\n") as no_headers,
        ):
            everyone = [netstring, header, chosen, chosen_header, bare, no_headers]
            for client in everyone:
                client.ask(b"")
            for port in (framed, by_header):
                publish(port, "p", 50, seed=port)
            runs = [client.ask(b"") for client in everyone]
    numbers = list(range(1, 101))
    payloads = [b"p %d" % at for at in (*range(50), *range(50))]
    for run in (runs[0], runs[2]):
        assert [split_frame(m.payload) for m in run] == list(zip(numbers, payloads, strict=True))
    for run in (runs[1], runs[3]):
        heads = [b"NATS/1.0\r\nNats-Sequence: %d\r\n\r\n" % number for number in numbers]
        assert [m.header for m in run] == heads
    for run in (runs[1], runs[3], runs[4], runs[5]):
        assert [m.payload for m in run] == payloads


def to_the_end(run: list[Heard]) -> list[Heard]:
    """What was heard before the word `end`."""
    return run[: [message.payload for message in run].index("end")]


def test_given_a_client_killed_amid_its_work_then_nobody_else_loses_anything() -> None:
    def work_and_die(seed: int) -> None:
        chance = random.Random(seed)
        client = RawClient(broker.port, QUIET + b"SUB > 1\r\nSUB t.> q 2\r\n")
        data = stream(f"victim{seed}", 400, seed)
        client.send(data[: chance.randint(1, len(data))])
        client.reset()  # in the middle of a message, and with much unread

    # The broker is its own: what the dead have said may come even when the test is over.
    with SeriatimServer("netstring") as broker, Crew(broker.port) as crew:
        watchers = [crew.listen(pattern) for pattern in (">", ">", "t.>")]
        dying = [crew.start(work_and_die, seed) for seed in range(8)]
        crew.publish_all(NAMES[:3], EACH)
        for done in dying:
            done.result()
        # What the dead have said may still come: all stories are told to one and the same word.
        with RawClient(broker.port, QUIET) as publisher:
            publisher.ask(b"PUB t.end 3\r\nend\r\n")
        runs = [to_the_end(watcher.finish()) for watcher in watchers]
    everything = runs[0]
    assert_gap_free(everything)
    survivors = [m for m in everything if not m.payload.startswith("victim")]
    assert_fifo(survivors, dict.fromkeys(NAMES[:3], EACH))
    assert_same_story(runs[1], everything, ">")
    assert_same_story(runs[2], everything, "t.>")
    for seed in range(8):
        victim = [m.payload for m in everything if m.payload.startswith(f"victim{seed} ")]
        assert victim == [f"victim{seed} {at}" for at in range(len(victim))], "a prefix, in order"
