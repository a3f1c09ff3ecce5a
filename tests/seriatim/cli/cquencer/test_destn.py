"""`seriatim destn`: what it prints of a group, byte for byte, and its errors."""

import contextlib
import json
import re
import signal
import subprocess
from collections.abc import Iterator

import pytest

from sequencer.feed.codecs import codec_named
from sequencer.feed.feed_message import FeedMessage
from sequencer.netstring import encode_frame
from tests.seriatim.cli.command import COMMAND, COMMAND_S, Listener, environment, refusal
from tests.support.codecs import GOOD
from tests.support.multicast import mouth, new_group
from tests.support.processes import SeriatimServer
from tests.support.raw import QUIET, RawClient

HEADERS = b"NATS/1.0\r\nA: b\r\n\r\n"
MESSAGES = [
    FeedMessage(7, b"hello world", b"orders.new", b"", 1_700_000_000_000_000_000),
    FeedMessage(8, b"a\0b\xff", b"orders.new", HEADERS, 1_700_000_000_000_000_001),
    FeedMessage(9, b"", b"trades", b"", 1_700_000_000_000_000_002),
]


class Destination(Listener):
    """`seriatim destn` on loopback."""

    def __init__(self, group: tuple[str, int], *options: str) -> None:
        super().__init__("destn", group[0], str(group[1]), "--interface", "127.0.0.1", *options)

    def read(self, size: int) -> bytes:
        """So many bytes of its output."""
        assert self.process.stdout is not None
        return self.process.stdout.read(size)

    def line(self) -> bytes:
        """A line of its output."""
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    @contextlib.contextmanager
    def standing(self) -> Iterator[None]:
        """It stands still meanwhile, and then finds at once whatever was sent."""
        self.process.stop()
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def interrupt(self) -> tuple[int, bytes, str]:
        """Ctrl-C, and its end."""
        self.process.send_signal(signal.SIGINT)
        return self.end()


def send(group: tuple[str, int], codec: str, *messages: FeedMessage) -> None:
    made = codec_named(codec)
    made.open("00c0ffee00c0ffee", 1)
    with mouth(group) as speaker:
        for message in messages:
            speaker.send(made.datagram([message], message.number - 1))


def test_given_no_options_then_datagrams_are_printed_as_they_come_and_nothing_else() -> None:
    group = new_group()
    sent = [b"23:5:88485,11:hello world,,", b"no frame at all", b"", bytes(range(256)), b"z" * 9000]
    with Destination(group) as shown:
        assert shown.greeting.endswith(f"{group[0]}:{group[1]} by 127.0.0.1\n")
        with mouth(group) as speaker:
            for datagram in sent:
                speaker.send(datagram)
        assert shown.read(sum(map(len, sent))) == b"".join(sent)
        assert shown.interrupt() == (0, b"", "")


@pytest.mark.parametrize(
    ("options", "codec", "lines"),
    [
        (["--decode"], "netstring", [b"       7  hello world\n", b"       8  a\\x00b\\xff\n"]),
        (
            ["--decode", "--codec", "netstring-subject"],
            "netstring-subject",
            [b"       7  orders.new  hello world\n", b"       8  orders.new  a\\x00b\\xff\n"],
        ),
    ],
)
def test_given_a_view_then_messages_are_printed_in_it(
    options: list[str], codec: str, lines: list[bytes]
) -> None:
    group = new_group()
    with Destination(group, *options) as shown:
        send(group, codec, *MESSAGES)
        assert [shown.line() for _ in lines] == lines


@pytest.mark.parametrize("options", [["--raw"], ["--ordered", "--raw"]])
def test_given_raw_then_payloads_are_printed_and_nothing_between_them(options: list[str]) -> None:
    group = new_group()
    with Destination(group, *options) as shown:
        send(group, "netstring", *MESSAGES)
        wanted = b"hello worlda\0b\xff"
        assert shown.read(len(wanted)) == wanted
        assert shown.interrupt() == (0, b"", "")


@pytest.mark.parametrize("options", [[], ["--ordered"]])
def test_given_json_then_there_is_a_line_of_what_the_codec_brings(options: list[str]) -> None:
    group = new_group()
    with Destination(group, "--json", "--codec", "binary", "--count", "3", *options) as shown:
        send(group, "binary", *MESSAGES)
        status, out, _ = shown.end()
        assert status == 0
        assert [json.loads(line) for line in out.splitlines()] == [
            {
                "number": 7,
                "time": "2023-11-14T22:13:20.000000000Z",
                "subject": "orders.new",
                "payload": "hello world",
            },
            {
                "number": 8,
                "time": "2023-11-14T22:13:20.000000001Z",
                "subject": "orders.new",
                "headers": {"A": "b"},
                "payload_base64": "YQBi/w==",
            },
            {
                "number": 9,
                "time": "2023-11-14T22:13:20.000000002Z",
                "subject": "trades",
                "payload": "",
            },
        ]


def test_given_a_count_then_it_ends_there_and_says_what_it_saw() -> None:
    group = new_group()
    with Destination(group, "--decode", "--count", "2", "--stats") as shown:
        with mouth(group) as speaker:
            speaker.send(b"no frame")
        send(group, "netstring", *MESSAGES)
        status, out, said = shown.end()
        assert (status, out.count(b"\n")) == (0, 2)
        assert "a datagram that this codec cannot read, at byte 0: a length must be" in said
        counts = {line.split()[0]: int(line.split()[1]) for line in said.splitlines()[-5:]}
        assert (counts["messages"], counts["malformed"], counts["kernel_drops"]) == (2, 1, 0)


def test_given_a_count_that_does_not_come_then_ctrl_c_is_reported_by_the_status() -> None:
    with Destination(new_group(), "--count", "1") as shown:
        assert shown.interrupt() == (130, b"", "")


def test_given_ordered_then_what_nobody_has_is_reported_and_the_rest_is_in_order() -> None:
    group = new_group()
    with Destination(group, "--ordered", "--count", "4", "--stats") as shown:
        with shown.standing():  # where nobody can be asked, 2 may be late by 5 ms only
            send(group, "netstring", *(FeedMessage(n, b"m") for n in (1, 3, 2, 7)))
        status, out, said = shown.end()
        assert (status, out) == (0, b"".join(encode_frame(n, b"m") for n in (1, 2, 3, 7)))
        assert "seriatim: LOST numbers 4 to 6: these 3 are not available anywhere\n" in said
        assert "lost                    3  numbers that were not available" in said


def test_given_patience_then_a_late_number_is_waited_for_and_not_lost() -> None:
    group = new_group()
    made = codec_named("netstring")
    made.open("00c0ffee00c0ffee", 1)
    with (
        Destination(group, "--patience", "60", "--count", "3") as shown,
        mouth(group) as speaker,
    ):
        for number in (1, 3):
            speaker.send(made.datagram([FeedMessage(number, b"m")], number - 1))
        first = encode_frame(1, b"m")
        assert shown.read(len(first)) == first
        speaker.send(made.datagram([FeedMessage(2, b"m")], 1))
        assert shown.end() == (0, b"".join(encode_frame(n, b"m") for n in (2, 3)), "")


def test_given_a_second_feed_then_both_are_one() -> None:
    first, second = new_group(), new_group()
    other = f"{second[0]}:{second[1]},interface=lo"
    with Destination(first, "--second", other, "--count", "20", "--decode") as shown:
        assert f" and {second[0]}:{second[1]} by lo" in shown.greeting
        for number in range(1, 21):
            for group in {1: [first], 2: [second]}.get(number % 3, [first, second]):
                send(group, "netstring", FeedMessage(number, b"%d" % number))
            # Waited for: else the next one could be there long before.
            assert shown.line().split()[-1] == b"%d" % number
        assert shown.end()[:2] == (0, b"")


@pytest.fixture(scope="module")
def feed() -> Iterator[tuple[SeriatimServer, tuple[str, int]]]:
    """A broker with a feed, and nine messages."""
    group = new_group()
    flag = f"{group[0]}:{group[1]},interface=127.0.0.1,codec=moldudp64,rerequest_port=-1"
    with SeriatimServer("netstring", arguments=["--feed", flag]) as server:
        with RawClient(server.port, QUIET) as client:
            assert client.ask(b"".join(b"PUB a.b 1\r\n%d\r\n" % n for n in range(1, 10))) == []
        yield server, group


@pytest.mark.parametrize("how", ["nats", "mold"])
def test_given_somebody_to_ask_then_it_begins_in_the_past(
    feed: tuple[SeriatimServer, tuple[str, int]], how: str
) -> None:
    server, group = feed
    fill = f"nats://127.0.0.1:{server.port}"
    if how == "mold":
        (line,) = [line for line in server.log if "answering re-requests on " in line]
        fill = f"mold://{line.rpartition(' ')[2]}"
    options = ["--codec", "moldudp64", "--fill", fill, "--from", "3", "--count", "7", "--decode"]
    with Destination(group, *options) as shown:  # where nothing comes but heartbeats
        status, out, _ = shown.end()
        assert (status, out) == (0, b"".join(b"%8d  %d\n" % (n, n) for n in range(3, 10)))


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["10.0.0.1", "5000"], "10.0.0.1 is not a multicast group"),
        (["239.0.0.1", "5000", "--interface", "eth99"], 'there is no interface "eth99"; there are'),
        (["239.0.0.1", "0"], "PORT"),
        (["239.0.0.1", "5000", "--json", "--raw"], "give one of --json and --raw, not both"),
        (["239.0.0.1", "5000", "--from", "1"], "--from begins in the past, which a feed does"),
        (["239.0.0.1", "5000", "--codec", "morse"], "'morse' is not a codec; give netstring, "),
        (["239.0.0.1", "5000", "--second", "239.0.0.2"], '--second: "239.0.0.2" is not a group'),
        (
            ["239.0.0.1", "5000", "--second", "239.0.0.2:x"],
            '--second: "239.0.0.2:x" is not a group',
        ),
        (
            ["239.0.0.1", "5000", "--second", "239.0.0.2:5,ttl=1"],
            '--second: "ttl=1" is not an option; the only one is interface=',
        ),
        (
            ["239.0.0.1", "5000", "--interface", "lo", "--second", "239.0.0.1:5000"],
            "--second: 239.0.0.1:5000 by lo is the first feed itself; give another group, port or",
        ),
        (["ff15::1", "5000", "--second", "[FF15:0::1]:5000"], "is the first feed itself; give ano"),
        (["239.0.0.1", "5000", "--filtered", "a..b"], "a..b"),
        (
            ["239.0.0.1", "5000", "--filtered", "a.b"],
            "without --ordered, which reports losses: give",
        ),
        (
            ["239.0.0.1", "5000", "--from", str(2**63), "--fill", "nats://127.0.0.1:1"],
            "is out of range; give 1 to 9223372036854775806",
        ),
        (
            ["239.0.0.1", "5000", "--interface", "lo", "--fill", "nats://127.0.0.1:1"],
            "nats://127.0.0.1:1: connection refused: no broker listens there",
        ),
        (
            ["239.0.0.1", "5000", "--interface", "lo", "--fill", "mold://127.0.0.1:1"],
            "a re-request server needs the codec moldudp64",
        ),
    ],
)
def test_given_what_cannot_be_then_it_says_why(arguments: list[str], why: str) -> None:
    assert why in refusal("destn", *arguments)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("options", [[], ["--ordered"], ["--json"]], ids=str)
def test_given_statistics_when_it_is_ended_by_a_signal_then_they_are_reported(
    how: signal.Signals, options: list[str]
) -> None:
    group = new_group()
    with Destination(group, "--stats", *options) as shown:
        send(group, "netstring", MESSAGES[0])
        shown.read(1)
        shown.process.send_signal(how)
        status, _, said = shown.end()
    assert status == 0, said
    assert re.search(r"^datagrams +1  datagrams received", said, re.MULTILINE), said


def test_given_sigterm_when_what_was_asked_for_did_not_come_then_its_status_says_so() -> None:
    for options in ([], ["--ordered"]):
        with Destination(new_group(), "-n", "1", *options) as shown:
            shown.process.send_signal(signal.SIGTERM)
            assert shown.end() == (130, b"", "")


@pytest.mark.parametrize("ordered", [[], ["--ordered"]], ids=["as they come", "ordered"])
def test_given_a_codec_of_ones_own_that_returns_nothing_then_that_is_malformed(
    ordered: list[str],
) -> None:
    group = new_group()
    options = ("--codec", "tests.support.codecs:Nothing", "--json", "--stats", *ordered)
    with Destination(group, *options) as shown, mouth(group) as speaker:
        speaker.send(b"bad")
        speaker.send(GOOD)
        assert json.loads(shown.line())["number"] == 1
        status, _, said = shown.interrupt()
    assert status == 0
    assert re.search(r"^malformed +1  datagrams", said, re.MULTILINE), said
    assert "unexpected" not in said
    if not ordered:
        assert "decode(datagram) returned NoneType, not a Packet" in said


def test_given_a_reader_that_goes_away_then_it_ends_without_a_word() -> None:
    group = new_group()
    with Destination(group) as shown:
        assert shown.process.stdout is not None
        shown.process.stdout.close()
        shown.process.stdout = None
        with mouth(group) as speaker:
            while shown.process.poll() is None:
                speaker.send(b"hello")
                with contextlib.suppress(subprocess.TimeoutExpired):
                    shown.process.wait(0.05)
        assert shown.process.stderr is not None
        assert shown.process.stderr.read() == b""
        assert shown.process.returncode == 1


def test_given_datagrams_of_another_codec_in_order_then_it_is_reported_once() -> None:
    group = new_group()
    with Destination(group, "--ordered", "--codec", "moldudp64") as shown, mouth(group) as speak:
        speak.send(b"1:a,")
        speak.send(b"2:ab,")
        assert shown.process.stderr is not None
        said = shown.process.stderr.readline()
        assert b"the head has 20 bytes" in said, said
        status, out, rest = shown.interrupt()
    assert (status, out, rest) == (0, b"", "")


@pytest.mark.parametrize(("closed", "shown"), [("2", b"1:a,"), ("1", b"")])
def test_given_an_output_that_is_closed_then_the_other_has_what_is_its_own(
    closed: str, shown: bytes
) -> None:
    host, port = group = new_group()
    line = f'exec "$0" destn {host} {port} --interface 127.0.0.1 -n 1 {closed}>&-'
    with (
        subprocess.Popen(
            ["sh", "-c", line, COMMAND],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
        ) as process,
        mouth(group) as speak,
    ):
        while process.poll() is None:  # it cannot say that it listens
            speak.send(b"1:a,")
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.05)
        out, said = process.communicate(timeout=COMMAND_S)
    assert process.returncode == 0, said
    assert out == shown
    assert b"unexpected" not in said
