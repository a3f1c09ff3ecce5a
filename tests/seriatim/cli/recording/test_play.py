"""`seriatim play`: a recording is published again, once each, at a pace, also to nats-server."""

import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from seriatim.cli.recording.recording_format import (
    RecordedLoss,
    RecordedMessage,
    RecordingHead,
    encode_head,
    encode_loss,
    encode_message,
)
from tests.seriatim.cli.command import COMMAND, environment, refusal, seriatim
from tests.seriatim.cli.recording.recording import messages_of, publish
from tests.support.commands import Forked
from tests.support.processes import NatsServer, SeriatimServer, ServerProcess
from tests.support.raw import HEADERS, RawClient
from tests.support.relay import Relay

JOURNAL = "00c0ffee00c0ffee"
HEAD = encode_head(RecordingHead(JOURNAL, (">",)))
S = 1_000_000_000
BLOCK = b"NATS/1.0\r\nDesk: 7\r\nDesk:8\r\nNats-Msg-Id: mine\r\n\r\n"
CONDITION = b"NATS/1.0\r\nNats-Expected-Last-Sequence: 41\r\nA: b\r\n\r\n"


def message(number: int, time: int = 0, **fields: bytes) -> RecordedMessage:
    made = {"subject": b"p.a", "reply": b"", "headers": b"", "payload": b"%d" % number, **fields}
    return RecordedMessage(number, S + time, **made)


def written(path: Path, *items: RecordedMessage | RecordedLoss) -> str:
    records = (encode_loss(i) if isinstance(i, RecordedLoss) else encode_message(i) for i in items)
    path.write_bytes(HEAD + b"".join(records))
    return str(path)


def url(server: ServerProcess) -> str:
    return f"127.0.0.1:{server.port}"


def there(server: ServerProcess) -> list[RecordedMessage]:
    """What the broker has."""
    done = seriatim("record", "--from", "1", "-e", "--url", url(server))
    assert done.returncode == 0, done.stderr
    return messages_of(done.stdout)


def payloads(server: ServerProcess) -> list[int]:
    return [int(one.payload) for one in there(server)]


@pytest.fixture
def broker() -> Iterator[SeriatimServer]:
    with SeriatimServer() as made:
        yield made


def test_given_a_recording_when_played_then_the_same_messages_are_published(
    broker: SeriatimServer, tmp_path: Path
) -> None:
    kinds = [
        message(7, subject=b"p.\xc3\xa4", payload=b"1:,\0"),
        message(9, headers=BLOCK),
        message(12, payload=b"", reply=b"_INBOX.1", headers=CONDITION),
        message(13, payload=bytes(100_000)),
    ]
    done = seriatim("play", written(tmp_path / "a.rec", *kinds), "--url", url(broker))
    assert done.returncode == 0, done.stderr
    found = there(broker)
    assert [one.subject for one in found] == [one.subject for one in kinds]
    assert [one.payload for one in found] == [one.payload for one in kinds]
    assert [one.headers for one in found] == [
        b"NATS/1.0\r\nNats-Msg-Id: 00c0ffee00c0ffee.7\r\n\r\n",
        b"NATS/1.0\r\nDesk: 7\r\nDesk:8\r\nNats-Msg-Id: 00c0ffee00c0ffee.9\r\n\r\n",
        b"NATS/1.0\r\nA: b\r\nNats-Msg-Id: 00c0ffee00c0ffee.12\r\n\r\n",
        b"NATS/1.0\r\nNats-Msg-Id: 00c0ffee00c0ffee.13\r\n\r\n",
    ]
    assert done.stderr.decode().startswith(f"seriatim: published 4 messages of {tmp_path}/a.rec in")
    assert done.stderr.decode().endswith(", as numbers 1 to 4\n")


def test_given_no_ack_then_headers_ids_and_replies_are_as_they_were(
    broker: SeriatimServer, tmp_path: Path
) -> None:
    kinds = [message(7, headers=BLOCK, reply=b"_INBOX.1"), message(9), message(12, headers=BLOCK)]
    path = written(tmp_path / "a.rec", *kinds)
    done = seriatim("play", path, "--no-ack", "--url", url(broker))
    assert done.returncode == 0, done.stderr
    found = [(one.subject, one.reply, one.headers, one.payload) for one in there(broker)]
    assert found == [(b"p.a", b"_INBOX.1", BLOCK, b"7"), (b"p.a", b"", b"", b"9")]


def test_given_a_round_trip_over_a_pipe_then_the_second_recording_equals_the_first(
    broker: SeriatimServer, tmp_path: Path
) -> None:
    publish(broker.port, *[f"a.{number}" for number in range(2000)])
    first = seriatim("record", "--from", "1", "-e", "--url", url(broker)).stdout
    with SeriatimServer() as other:
        done = seriatim("play", "-", "--speed", "max", "--url", url(other), stdin=first)
        assert done.returncode == 0, done.stderr
        copied = there(other)
    assert [(one.number, one.subject, one.payload) for one in copied] == [
        (one.number, one.subject, one.payload) for one in messages_of(first)
    ]


def test_given_a_file_that_was_played_then_it_is_not_published_again_unless_asked_for(
    broker: SeriatimServer, tmp_path: Path
) -> None:
    path = written(tmp_path / "a.rec", *map(message, range(1, 11)))
    part = seriatim("play", path, "--to", "6", "--url", url(broker))
    assert part.returncode == 0
    again = seriatim("play", path, "--url", url(broker))
    assert again.stderr.decode().endswith(", as numbers 1 to 10; 6 of them were there already\n")
    assert payloads(broker) == list(range(1, 11))
    seriatim("play", path, "--again", "--from", "9", "--url", url(broker))
    assert payloads(broker) == [*range(1, 11), 9, 10]


@pytest.mark.parametrize(
    ("options", "subjects"),
    [
        (("--prefix", "test"), [b"test.p.a", b"test.q"]),
        (("--prefix", "test.x."), [b"test.x.p.a", b"test.x.q"]),
        (("--subject", "all"), [b"all", b"all"]),
    ],
    ids=["prefix", "with a dot", "subject"],
)
def test_given_another_subject_then_it_is_published_there_even_if_it_was_played_before(
    broker: SeriatimServer, tmp_path: Path, options: tuple[str, ...], subjects: list[bytes]
) -> None:
    path = written(tmp_path / "a.rec", message(1), message(2, subject=b"q"))
    assert seriatim("play", path, "--url", url(broker)).returncode == 0
    assert seriatim("play", path, *options, "--url", url(broker)).returncode == 0
    assert [one.subject for one in there(broker)] == [b"p.a", b"q", *subjects]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--from", "3"), [3, 4, 5]),
        (("--to", "2"), [1, 2]),
        (("--from", "2", "--to", "3"), [2, 3]),
        (("--since", "1970-01-01T00:00:04"), [4, 5]),
        (("--until", "1970-01-01T00:00:03"), [1, 2]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_given_a_range_then_only_that_is_played(
    broker: SeriatimServer, tmp_path: Path, options: tuple[str, ...], expected: list[int]
) -> None:
    path = written(tmp_path / "a.rec", *(message(n, (n - 1) * S) for n in range(1, 6)))
    done = seriatim("play", path, *options, "--speed", "max", "--url", url(broker))
    assert done.returncode == 0, done.stderr
    assert payloads(broker) == expected


@pytest.mark.parametrize(
    ("options", "seconds"),
    [((), 2.0), (("--speed", "4"), 0.5), (("--rate", "10"), 0.3), (("--speed", "max"), 0.0)],
    ids=["as it was", "faster", "rate", "max"],
)
def test_given_a_pace_then_messages_are_published_at_their_times(
    broker: SeriatimServer, tmp_path: Path, options: tuple[str, ...], seconds: float
) -> None:
    # The clock went back by an hour between the second and the third one: that is no wait.
    times = [0, S, S - 3600 * S, 2 * S - 3600 * S]
    path = written(tmp_path / "a.rec", *(message(n, 7200 * S + t) for n, t in enumerate(times, 1)))
    done = seriatim("play", path, *options, "--url", url(broker))
    assert done.returncode == 0, done.stderr
    found = [one.time_ns for one in there(broker)]
    assert seconds - 0.01 < (found[-1] - found[0]) / S < seconds + 10


def test_given_losses_then_they_are_reported(broker: SeriatimServer, tmp_path: Path) -> None:
    path = written(
        tmp_path / "a.rec", RecordedLoss(1, 4), message(5), RecordedLoss(6, 6), message(7)
    )
    done = seriatim("play", path, "--url", url(broker))
    assert done.returncode == 0
    assert done.stderr.decode().splitlines()[:2] == [
        f"seriatim: {path}: numbers 1 to 4 were lost before they could be recorded",
        f"seriatim: {path}: number 6 was lost before it could be recorded",
    ]


def test_given_a_record_that_is_cut_short_then_the_others_are_published_and_it_is_reported(
    broker: SeriatimServer, tmp_path: Path
) -> None:
    path = tmp_path / "a.rec"
    written(path, message(1), message(2), message(3))
    path.write_bytes(path.read_bytes()[:-5])
    done = seriatim("play", str(path), "--url", url(broker))
    assert done.returncode == 1
    left = len(encode_message(message(3))) - 5
    assert done.stderr.decode().startswith(
        f"seriatim: {path}: the last record is cut short: {left} bytes are left out\n"
        f"seriatim: published 2 messages of {path}"
    )
    assert payloads(broker) == [1, 2]


def test_given_damage_in_the_middle_then_it_ends_there_and_says_where(
    broker: SeriatimServer, tmp_path: Path
) -> None:
    path = tmp_path / "a.rec"
    good = HEAD + encode_message(message(1))
    path.write_bytes(good + b"7:damage.," + encode_message(message(3)))
    done = seriatim("play", str(path), "--url", url(broker))
    assert done.returncode == 1
    assert f"{path}: a record without fields" in done.stderr.decode()
    path.write_bytes(good + b"7:damagexx," + encode_message(message(3)))
    done = seriatim("play", str(path), "--url", url(broker))
    assert done.returncode == 1
    assert f"damaged in the record that begins at byte {len(good)}" in done.stderr.decode()
    assert payloads(broker) == [1]


def test_given_two_recordings_in_one_file_then_the_second_is_refused(
    broker: SeriatimServer, tmp_path: Path
) -> None:
    path = tmp_path / "a.rec"
    one = HEAD + encode_message(message(1))
    path.write_bytes(one + one)
    done = seriatim("play", str(path), "--url", url(broker))
    assert done.returncode == 1
    assert f"{path}: another recording follows; play it by itself" in done.stderr.decode()


def test_given_restarts_of_the_broker_and_broken_connections_then_each_is_published_once(
    broker: SeriatimServer, tmp_path: Path
) -> None:
    path = written(tmp_path / "a.rec", *map(message, range(1, 3001)))
    with Relay(broker.port) as relay:
        relay.cut(up=60_000)
        where = ("--url", f"127.0.0.1:{relay.port}")
        done = seriatim("play", path, "--speed", "max", *where)
        assert done.returncode == 0, done.stderr
        assert relay.connections > 2
    assert payloads(broker) == list(range(1, 3001))


def test_given_a_restart_of_the_broker_in_the_middle_then_it_goes_on(
    broker: SeriatimServer, tmp_path: Path
) -> None:
    path = written(tmp_path / "a.rec", *map(message, range(1, 201)))
    with RawClient(broker.port, HEADERS) as client:
        client.ask(b"SUB p.a 1\r\n")
        command = [COMMAND, "play", path, "--rate", "100", "--url", url(broker)]
        playing = Forked(command, stderr=subprocess.PIPE, env=environment())
        client.operation()  # the first message
    broker.restart()
    _, said = playing.communicate(timeout=60)
    assert playing.wait() == 0, said
    assert payloads(broker) == list(range(1, 201))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_given_an_interrupt_then_it_says_how_to_go_on_and_that_completes_it(
    broker: SeriatimServer, tmp_path: Path, number: signal.Signals
) -> None:
    path = written(tmp_path / "a.rec", *map(message, range(1, 401)))
    with RawClient(broker.port, HEADERS) as client:
        client.ask(b"SUB p.a 1\r\n")
        command = [COMMAND, "play", path, "--rate", "100", "--url", url(broker)]
        playing = Forked(command, stderr=subprocess.PIPE, env=environment())
        for _ in range(100):
            client.operation()  # a second after the first one, that has been answered
    playing.send_signal(number)
    _, said = playing.communicate(timeout=60)
    assert playing.wait() == 130
    assert said.startswith(b"seriatim: interrupted; the broker has up to number ")
    begin = said.decode().rstrip().rpartition("--from ")[2]
    done = seriatim("play", path, "--speed", "max", "--from", begin, "--url", url(broker))
    assert done.returncode == 0
    assert payloads(broker) == list(range(1, 401))


def test_given_no_broker_any_more_then_it_gives_up_in_time_and_says_how_far_it_is(
    tmp_path: Path,
) -> None:
    path = written(tmp_path / "a.rec", *(message(n, n * S // 2) for n in range(1, 100)))
    with SeriatimServer() as broker:
        with RawClient(broker.port, HEADERS) as client:
            client.ask(b"SUB p.a 1\r\n")
            command = [COMMAND, "play", path, "--timeout", "3", "--url", url(broker)]
            playing = Forked(command, stderr=subprocess.PIPE, env=environment())
            client.operation()
            client.operation()
        broker.stop()
        _, said = playing.communicate(timeout=60)
    assert playing.wait() == 1
    assert b"; go on with --from " in said
    assert said.count(b"\n") == 1


def test_given_a_message_that_is_refused_then_the_error_names_its_number(tmp_path: Path) -> None:
    path = written(tmp_path / "a.rec", message(1), message(7, payload=bytes(2000)))
    with SeriatimServer(limits={"max_payload": 1000}) as broker:
        said = refusal("play", path, "--url", url(broker))
    assert said.startswith(f"number 7 of {path}: the message has 20")
    assert said.endswith("go on with --from 2") or said.endswith("may have up to number 1")


@pytest.mark.parametrize("ack", ["--ack", "--no-ack"])
def test_given_a_user_without_the_right_then_it_ends_and_claims_nothing_that_was_refused(
    tmp_path: Path, ack: str
) -> None:
    settings = tmp_path / "users.toml"
    settings.write_text(
        '[[authorization.users]]\nuser = "w"\npassword = "w"\n'
        '[authorization.users.permissions]\npublish = { deny = ["q.>", "$SEQ.PUB.q.>"] }\n'
    )
    path = written(tmp_path / "a.rec", message(1), message(2, subject=b"q.a"), message(3))
    with SeriatimServer(arguments=["-c", str(settings)]) as broker:
        who = ("--user", "w", "--password", "w")
        said = refusal("play", path, ack, "--url", url(broker), *who)
    assert 'Permissions Violation for Publish to "' in said
    assert "up to number 2 of the recording" not in said
    assert "--from 3" not in said
    assert "--from 4" not in said


def test_given_messages_without_subjects_then_one_must_be_given(
    broker: SeriatimServer, tmp_path: Path
) -> None:
    path = written(tmp_path / "a.rec", message(3, subject=b""))
    said = refusal("play", path, "--url", url(broker))
    assert said == f"number 3 of {path}: has no subject; give --subject"
    assert seriatim("play", path, "--subject", "m", "--url", url(broker)).returncode == 0
    assert [one.subject for one in there(broker)] == [b"m"]


def test_given_a_plain_nats_server_then_it_needs_no_ack_and_gets_the_messages(
    tmp_path: Path,
) -> None:
    path = written(tmp_path / "a.rec", message(1), message(2, headers=BLOCK))
    with NatsServer() as server, RawClient(server.port, HEADERS) as client:
        client.ask(b"SUB p.> 1\r\n")
        said = refusal("play", path, "--url", url(server))
        assert said == (
            f"nats://{url(server)}: the server there does not number messages; give --no-ack"
        )
        done = seriatim("play", path, "--no-ack", "--url", url(server))
        assert done.returncode == 0, done.stderr
        assert client.line() == b"MSG p.a 1 1\r\n"
        assert client.line() == b"1\r\n"
        assert client.line() == b"HMSG p.a 1 %d %d\r\n" % (len(BLOCK), len(BLOCK) + 1)
    assert done.stderr.decode().startswith(f"seriatim: published 2 messages of {path} in ")


def test_given_a_pause_then_it_is_announced(broker: SeriatimServer, tmp_path: Path) -> None:
    path = written(tmp_path / "a.rec", message(1), message(2, 3600 * S))
    command = [COMMAND, "play", path, "--url", url(broker)]
    begun = time.monotonic()
    playing = Forked(command, stderr=subprocess.PIPE, env=environment())
    assert playing.stderr is not None
    assert playing.stderr.readline() == b"seriatim: number 2 follows in 3,600 s\n"
    playing.send_signal(signal.SIGINT)
    _, said = playing.communicate(timeout=60)
    assert said.startswith(b"seriatim: interrupted; the broker has ")
    assert b"up to number 1" in said
    assert time.monotonic() - begun < 60


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--speed", "fast"), '--speed: "fast" is neither a number above 0 nor max'),
        (("--speed", "0"), '--speed: "0" is neither'),
        (("--speed", "2", "--rate", "5"), "give --speed or --rate, not both"),
        (("--subject", "a", "--prefix", "b"), "give --subject or --prefix, not both"),
        (("--from", "5", "--to", "4"), "--to 4 is before --from 5"),
        (("--again", "--no-ack"), "leave out --again"),
        (("--prefix", "a.*"), '"a.*"'),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_given_options_that_do_not_fit_then_the_error_says_why(
    tmp_path: Path, arguments: tuple[str, ...], why: str
) -> None:
    path = written(tmp_path / "a.rec", message(1))
    assert why in refusal("play", path, *arguments, "--url", "127.0.0.1:1")


@pytest.mark.parametrize(
    ("data", "why"),
    [(None, "no such file or directory"), (b"", "nothing was recorded"), (b"x", "not a recording")],
    ids=["none", "empty", "another file"],
)
def test_given_no_recording_then_the_error_says_so(
    broker: SeriatimServer, tmp_path: Path, data: bytes | None, why: str
) -> None:
    path = tmp_path / "a.rec"
    if data is not None:
        path.write_bytes(data)
    assert refusal("play", str(path), "--url", url(broker)) == f"{path}: {why}"
