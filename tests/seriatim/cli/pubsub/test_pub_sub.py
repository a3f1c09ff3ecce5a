"""`seriatim pub` and `seriatim sub` against running brokers, ours and nats-server."""

import json
import os
import pty
import re
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from sequencer.netstring import FrameDecoder, decode_number, encode_frame
from seriatim.cli.moment import moment
from tests.seriatim.cli.command import (
    COMMAND,
    COMMAND_S,
    Subscriber,
    environment,
    refusal,
    seriatim,
)
from tests.support.processes import NatsServer, SeriatimServer, ServerProcess
from tests.support.raw import RawClient
from tests.support.relay import Relay
from tests.support.scripted import Peer, Scripted

FRAMES = ("netstring", "header", "stamp", "none")


@pytest.fixture(scope="module")
def brokers() -> Iterator[dict[str, ServerProcess]]:
    with ExitStack() as stack:
        yield {frame: stack.enter_context(SeriatimServer(frame)) for frame in FRAMES}


@pytest.fixture
def url(brokers: dict[str, ServerProcess]) -> str:
    """A broker with our frames."""
    return f"127.0.0.1:{brokers['netstring'].port}"


@pytest.fixture(scope="module")
def nats_url() -> Iterator[str]:
    with NatsServer() as process:
        yield f"nats://127.0.0.1:{process.port}"


def pub(url: str, *arguments: str, stdin: bytes = b"") -> str:
    """Publish; what the command prints."""
    done = seriatim("pub", *arguments, "--url", url, "--timeout", f"{COMMAND_S}", stdin=stdin)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


def last_number(url: str) -> int:
    """The number of the last message: an empty payload publishes nothing, and asks for it."""
    with RawClient(int(url.rpartition(":")[2]), b'CONNECT {"verbose":false}\r\nSUB r 1\r\n') as raw:
        (answer,) = raw.ask(b"PUB $SEQ.PUB.any r 0\r\n\r\n")
    return decode_number(answer.payload)


def lines(out: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def test_given_a_message_when_published_then_it_is_shown_with_its_number(url: str) -> None:
    with Subscriber("shown.*", "-n", "2", "-s", url) as sub:
        assert pub(url, "shown.a", "hello world") == "published 1 message of 11 bytes to shown.a\n"
        number = last_number(url)
        assert pub(url, "shown.b", "x", "--reply", "r.s") == (
            "published 1 message of 1 byte to shown.b\n"
        )
        status, out, said = sub.end()
    assert (status, said) == (0, "")
    assert out.decode() == (
        f"{number:>8}  shown.a  hello world\n{number + 1:>8}  shown.b  reply r.s  x\n"
    )


def test_given_an_ack_when_published_then_the_numbers_are_printed(url: str) -> None:
    before = last_number(url)
    printed = pub(url, "acked", "a", "--ack", "--count", "3", "-H", "Key: value")
    assert printed == "".join(f"{before + n}\n" for n in (1, 2, 3))


def test_given_json_when_shown_then_every_part_is_there(url: str) -> None:
    before = time.time_ns()
    with Subscriber("json.>", "-n", "3", "--json", "-s", url) as sub:
        number = int(pub(url, "json.a", "é", "--ack", "-H", "Key: some value", "-H", "X:1"))
        pub(url, "json.b", stdin=b"\xff\x00")
        pub(url, "json.c", "x", "--reply", "answers")
        status, out, _ = sub.end()
    assert status == 0
    assert out.isascii(), "a terminal is not steered by what others publish"
    headers = {"Key": "some value", "X": "1"}
    shown = lines(out)
    assert shown[0]["headers"].pop("Nats-Msg-Id"), "by which it is published once"
    times = [moment(line.pop("time"), 0) for line in shown]
    assert before <= times[0] <= times[1] <= times[2] <= time.time_ns()
    assert shown == [
        {"number": number, "subject": "json.a", "headers": headers, "payload": "é"},
        {"number": number + 1, "subject": "json.b", "payload_base64": "/wA="},
        {"number": number + 2, "subject": "json.c", "reply": "answers", "payload": "x"},
    ]


def test_given_raw_when_shown_then_only_payloads(url: str) -> None:
    with Subscriber("raw", "-n", "2", "--raw", "-s", url) as sub:
        pub(url, "raw", stdin=b"\xff\x1b[31m")
        pub(url, "raw", "two")
        assert sub.end() == (0, b"\xff\x1b[31mtwo", "")


def test_given_frames_when_shown_then_a_decoder_reads_them(url: str) -> None:
    payloads = [b"one", b"", b"two\nlines", encode_frame(7, b"a frame itself")]
    with Subscriber("framed", "-n", str(len(payloads)), "--frame", "-s", url) as sub:
        for payload in payloads:
            pub(url, "framed", stdin=payload)
        last = last_number(url)
        status, out, said = sub.end()
    assert (status, said) == (0, "")
    first = last - len(payloads) + 1
    assert list(FrameDecoder().feed(out)) == list(enumerate(payloads, first))


def test_given_several_subjects_when_shown_then_in_the_order_of_the_numbers(url: str) -> None:
    count = 300
    with Subscriber("o.1", "o.*", "o.3", "-n", str(2 * count), "--json", "-s", url) as sub:
        with RawClient(int(url.rpartition(":")[2]), b'CONNECT {"verbose":false}\r\n') as client:
            block = b"".join(b"PUB o.%d 1\r\nx\r\n" % (n % 2 * 2 + 1) for n in range(count))
            client.ask(block)
        numbers = [line["number"] for line in lines(sub.end()[1])]
    first = numbers[0]
    assert numbers == [number for n in range(count) for number in (first + n, first + n)]


def count_lines(subscribers: list[Subscriber], total: int) -> list[int]:
    """Read what the subscribers print until they have printed `total` lines in all."""
    counts = [0] * len(subscribers)
    with selectors.DefaultSelector() as ready:
        for at, sub in enumerate(subscribers):
            assert sub.process.stdout is not None
            ready.register(sub.process.stdout, selectors.EVENT_READ, at)
        while sum(counts) < total:
            events = ready.select(timeout=COMMAND_S)
            assert events, f"{counts} lines, and no more come"
            for key, _ in events:
                counts[key.data] += os.read(key.fd, 1 << 16).count(b"\n")
    return counts


def test_given_a_queue_group_when_shown_then_the_messages_are_shared(url: str) -> None:
    with (
        Subscriber("q", "--queue", "g", "-s", url) as one,
        Subscriber("q", "-q", "g", "-s", url) as other,
        Subscriber("q", "-n", "60", "-s", url) as all_of_them,
    ):
        pub(url, "q", "x", "--count", "60")
        shares = count_lines([one, other], 60)
        assert all_of_them.end()[1].count(b"\n") == 60
    assert sum(shares) == 60
    assert min(shares) > 0, "that is one in 2^59"


@pytest.mark.parametrize("frame", FRAMES)
def test_given_a_listener_with_any_frame_when_shown_then_the_number_is_there(
    brokers: dict[str, ServerProcess], frame: str
) -> None:
    url = f"127.0.0.1:{brokers[frame].port}"
    payload = encode_frame(5, b"looks like a frame")
    with Subscriber("f", "-n", "1", "--json", "-s", url) as sub:
        number = int(pub(url, "f", payload.decode(), "--ack"))
        (shown,) = lines(sub.end()[1])
    del shown["time"], shown["headers"]
    assert shown == {"number": number, "subject": "f", "payload": payload.decode()}


@pytest.mark.parametrize("frame", FRAMES)
def test_given_another_frame_when_frames_are_shown_then_they_have_number_and_payload(
    brokers: dict[str, ServerProcess], frame: str
) -> None:
    url = f"127.0.0.1:{brokers[frame].port}"
    with Subscriber("f", "-n", "1", "--frame", "-s", url) as sub:
        number = int(pub(url, "f", "x", "--ack"))
        assert sub.end() == (0, encode_frame(number, b"x"), "")


def test_given_messages_without_a_number_when_frames_are_asked_for_then_left_out(
    nats_url: str,
) -> None:
    with Subscriber("f", "-n", "1", "--frame", "-s", nats_url) as sub:
        pub(nats_url, "f", "x")
        assert sub.end() == (0, b"", "seriatim: a message on f has no number; skipped\n")


def test_given_a_message_without_a_number_then_its_time_is_when_it_was_received(
    nats_url: str,
) -> None:
    with Subscriber("f", "-n", "1", "--json", "-s", nats_url) as sub:
        pub(nats_url, "f", "x")
        (message,) = lines(sub.end()[1])
    assert list(message) == ["number", "received", "subject", "payload"]


def test_given_a_payload_in_a_file_when_published_then_it_arrives(url: str, tmp_path: Path) -> None:
    file = tmp_path / "payload"
    file.write_bytes(bytes(range(256)) * 100)
    with Subscriber("file", "-n", "2", "--raw", "-s", url) as sub:
        assert pub(url, "file", "--file", str(file)).startswith("published 1 message of 25600 by")
        pub(url, "file", "-", stdin=b"from a pipe")
        assert sub.end()[1] == file.read_bytes() + b"from a pipe"


def test_given_the_url_in_the_environment_when_used_then_no_flag_is_needed(url: str) -> None:
    done = seriatim("pub", "a", "b", env={"SERIATIM_URL": f"nats://{url}"})
    assert done.returncode == 0
    assert done.stdout == b"published 1 message of 1 byte to a\n"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["$SEQ.x", "y"], 'Permissions Violation for Publish to "$SEQ.x"'),
        (["$SEQ.PUB", "y"], 'Permissions Violation for Publish to "$SEQ.PUB"'),
    ],
)
def test_given_what_the_broker_refuses_when_published_then_one_line(
    url: str, arguments: list[str], told: str
) -> None:
    said = refusal("pub", *arguments, "--url", url)
    assert told in said
    assert "\n" not in said


@pytest.mark.parametrize(
    ("subject", "arguments", "why"),
    [
        ("_GR_.x", [], "Permissions Violation"),
        ("$SEQ.x", ["-H", "K: v"], "Permissions Violation"),
    ],
)
def test_given_what_the_broker_refuses_to_number_when_published_then_its_reason_is_reported(
    url: str, subject: str, arguments: list[str], why: str
) -> None:
    said = refusal("pub", subject, "y", "--ack", *arguments, "--url", url)
    assert said == f"nats://{url}: the broker refused: {why}"


def test_given_an_empty_payload_when_published_then_it_is_a_message(url: str) -> None:
    before = last_number(url)
    assert pub(url, "a", "") == "published 1 message of 0 bytes to a\n"
    assert pub(url, "a", "", "--ack") == f"{before + 2}\n"
    assert last_number(url) == before + 2


def test_given_a_payload_too_large_when_published_then_both_sizes_are_reported(url: str) -> None:
    said = refusal("pub", "a", "--url", url, stdin=bytes(1048577))
    assert said == "the payload has 1048577 bytes, but the broker accepts at most 1048576"


def test_given_a_server_without_numbers_when_an_ack_is_asked_for_then_it_says_so(
    nats_url: str,
) -> None:
    said = refusal("pub", "a", "b", "--ack", "-s", nats_url)
    assert said == f"{nats_url}: the server there does not number messages"


def test_given_nats_server_when_listened_to_then_messages_have_no_number(nats_url: str) -> None:
    with Subscriber(">", "-n", "1", "-s", nats_url) as sub:
        pub(nats_url, "a", "hello")
        assert sub.end() == (0, b"       -  a  hello\n", "")


def test_given_no_nats_server_at_all_when_connected_then_one_line() -> None:
    with SeriatimServer("none", arguments=["-m", "-1"]) as process:
        (line,) = (said for said in process.log if "http monitor" in said)
        said = refusal("pub", "a", "b", "-s", f"127.0.0.1:{line.rpartition(':')[2]}")
    assert "\n" not in said


def test_given_the_broker_ends_when_listening_then_one_line_and_status_1() -> None:
    with (
        SeriatimServer("none") as process,
        Subscriber("a", "-s", f"127.0.0.1:{process.port}") as sub,
    ):
        told = f"seriatim: nats://127.0.0.1:{process.port}: the broker closed the connection\n"
        process.stop()
        assert sub.end() == (1, b"", told)


@pytest.mark.parametrize(("count", "status"), [("0", 0), ("5", 130)])
def test_given_an_interrupt_when_listening_then_it_ends_in_silence(
    url: str, count: str, status: int
) -> None:
    with Subscriber("a", "-s", url, "--count", count) as sub:
        sub.process.send_signal(signal.SIGINT)
        assert sub.end() == (status, b"", "")


@pytest.mark.parametrize("end", ["interrupt", "the broker ends"])
@pytest.mark.parametrize("arguments", [[], ["--ack"]], ids=["plain", "ack"])
def test_given_an_end_in_the_midst_of_publishing_then_it_says_how_many_the_broker_has(
    arguments: list[str], end: str
) -> None:
    with SeriatimServer("netstring") as broker:  # its own: it is still busy when the test is over
        url = f"127.0.0.1:{broker.port}"
        many = ["pub", "busy", "x", "--count", "100000000", "--timeout", "1", *arguments, "-s", url]
        with (
            Subscriber("busy", "-n", "100", "--raw", "-s", url) as sub,
            subprocess.Popen(
                [COMMAND, *many],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=environment(),
            ) as publisher,
        ):
            try:
                assert sub.end() == (0, b"x" * 100, "")  # so it is in the midst of it
                if end == "interrupt":
                    publisher.send_signal(signal.SIGINT)
                else:
                    broker.kill()
                _, said = publisher.communicate(timeout=COMMAND_S)
            finally:
                publisher.kill()
        assert publisher.returncode == (130 if end == "interrupt" else 1)
        assert said.count(b"\n") == 1
        found = re.search(rb"; of 100000000 messages the broker confirmed (\d+), and ", said)
        assert found
        assert int(found[1]) < 100_000_000


def test_given_breaks_when_published_with_ack_then_each_message_has_one_number() -> None:
    with SeriatimServer("netstring") as broker, Relay(broker.port) as relay:
        relay.cut(up=100_000)  # some hundred messages, and then in the midst of one
        printed = pub(f"127.0.0.1:{relay.port}", "once", "x" * 100, "--ack", "--count", "2000")
        assert printed == "".join(f"{number}\n" for number in range(1, 2001))
        assert last_number(f"127.0.0.1:{broker.port}") == 2000
        assert relay.connections > 2


def test_given_a_reader_that_has_enough_when_published_with_ack_then_it_ends_in_silence(
    url: str,
) -> None:
    many = ["pub", "enough", "x", "--ack", "--count", "100000000", "-s", url]
    with subprocess.Popen(
        [COMMAND, *many], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    ) as publisher:
        try:
            assert publisher.stdout is not None
            assert publisher.stdout.readline().strip().isdigit()
            publisher.stdout.close()
            publisher.stdout = None
            _, said = publisher.communicate(timeout=COMMAND_S)
        finally:
            publisher.kill()
    assert (publisher.returncode, said) == (1, b"")


@pytest.mark.parametrize("arguments", [[], ["--ack"]], ids=["plain", "ack"])
def test_given_a_terminal_when_many_are_published_then_it_shows_how_far_it_is(
    url: str, arguments: list[str]
) -> None:
    ours, theirs = pty.openpty()
    try:
        with subprocess.Popen(
            [COMMAND, "pub", "many", "x", "--count", "30000", *arguments, "-s", url],
            stdout=subprocess.PIPE,
            stderr=theirs,
            env=environment({"TERM": "xterm-256color"}),
        ) as publisher:
            os.close(theirs)
            shown = b""
            printed = publisher.communicate(timeout=COMMAND_S)[0]
            with suppress(OSError):  # it is how a terminal ends
                while more := os.read(ours, 4096):
                    shown += more
    finally:
        os.close(ours)
    assert b"publishing" in shown
    assert b"of 30,000 messages" in shown
    assert len(printed.splitlines()) == (30_000 if arguments else 1), "and nothing is lost to it"


def test_given_nobody_reads_any_more_when_listening_then_it_ends_in_silence(url: str) -> None:
    with Subscriber("gone", "-s", url) as sub:
        assert sub.process.stdout is not None
        sub.process.stdout.close()
        pub(url, "gone", "x")
        sub.process.stdout = None
        status, _, said = sub.end()
    assert (status, said) == (1, "")


def test_given_a_terminal_when_shown_then_in_colour_and_nothing_steers_it(url: str) -> None:
    ours, theirs = pty.openpty()
    try:
        with Subscriber("tty", "-n", "1", "-s", url, stdout=theirs) as sub:
            number = int(pub(url, "tty", "\x1b[2Jboo\ttab", "--ack", "-H", "Key: [bold]x[/bold]"))
            assert sub.end()[0] == 0
        os.close(theirs)
        shown = b""
        with suppress(OSError):  # it is how a terminal ends
            while more := os.read(ours, 4096):
                shown += more
    finally:
        os.close(ours)
    assert b"\x1b[1;36m%8d\x1b[0m" % number in shown
    assert b"\x1b[2J" not in shown
    assert rb"\x1b[2Jboo    tab" in shown
    assert b"[bold]x[/bold]" in shown


def test_given_no_payload_and_a_terminal_when_published_then_it_does_not_wait_for_keys() -> None:
    ours, theirs = pty.openpty()
    try:
        done = subprocess.run(
            [COMMAND, "pub", "a"],
            stdin=theirs,
            capture_output=True,
            env=environment(),
            timeout=COMMAND_S,
            check=False,
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == 64
    assert b"there is no payload: give it after the subject, with --file, or in" in done.stderr
    assert b"- reads what you type" in done.stderr


def test_given_a_dash_and_a_terminal_when_published_then_what_is_typed_is_sent(url: str) -> None:
    ours, theirs = pty.openpty()
    try:
        os.write(ours, b"typed\n\x04")  # and Ctrl-D
        done = subprocess.run(
            [COMMAND, "pub", "a", "-", "-s", url],
            stdin=theirs,
            capture_output=True,
            env=environment(),
            timeout=COMMAND_S,
            check=False,
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.stdout == b"published 1 message of 6 bytes to a\n"


def test_given_a_line_end_in_a_payload_when_shown_then_it_makes_no_line_of_its_own(
    url: str,
) -> None:
    with Subscriber("forged", "-n", "1", "-s", url) as sub:
        pub(url, "forged", "x\n       7  orders  y\r\nz")
        number = last_number(url)
        shown = sub.end()[1].decode()
    assert shown == f"{number:>8}  forged  x\\n       7  orders  y\\r\\nz\n"


@pytest.mark.parametrize("command", [["pub", "a", "x"], ["pub", "a", "x", "--ack"], ["sub", "a"]])
def test_given_a_hostile_broker_when_it_refuses_then_nothing_steers_the_terminal(
    command: list[str],
) -> None:
    def talk(peer: Peer) -> None:
        peer.greet()
        peer.say(b"-ERR 'Permissions \x1b]0;owned\x07 Violation \xc2\x9b31m'\r\n")
        peer.file.read()

    with Scripted(talk) as peer:
        done = seriatim(*command, "--url", f"nats://127.0.0.1:{peer.port}")
    assert done.returncode == 1
    assert b"\\x1b]0;owned\\x07" in done.stderr
    assert done.stderr.decode().rstrip("\n").isprintable(), done.stderr
