"""`seriatim sub` in the past: what its flags request, and what it prints of a running broker."""

import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seriatim.cli.errors import CliError
from seriatim.cli.pubsub.sub_start import Past, common, is_end, lost, read_past, takes_in
from sublist.subject import covers
from tests.seriatim.cli.command import Subscriber, refusal, seriatim
from tests.support.processes import NatsServer, SeriatimServer
from tests.support.raw import QUIET, RawClient
from tests.support.scripted import Peer, Scripted


@pytest.mark.parametrize(
    ("first", "last", "latest", "subject", "words"),
    [
        (5, None, False, "$SEQ.FROM.5.orders.>", " from number 5"),
        (5, 9, False, "$SEQ.RANGE.5.9.orders.>", " from number 5 to 9"),
        (5, 5, False, "$SEQ.RANGE.5.5.orders.>", " from number 5 to 5"),
        (None, None, True, "$SEQ.LAST.orders.>", ", the last message of each first"),
    ],
)
def test_given_flags_when_read_then_they_ask_for_this(
    first: int | None, last: int | None, latest: bool, subject: str, words: str
) -> None:
    past = read_past(first, last, None, latest)
    assert past is not None
    assert (past.subject(["orders.>"]), past.words) == (subject, words)


def test_given_no_flags_when_read_then_there_is_no_past() -> None:
    assert read_past(None, None, None, False) is None


@pytest.mark.parametrize(
    ("since", "ago"), [("30s", 30), ("10m", 600), ("1h30m", 5400), ("1d", 86400), ("90", 90)]
)
def test_given_so_long_ago_when_read_then_it_is_that_moment(since: str, ago: int) -> None:
    past = read_past(None, None, since, False)
    assert past is not None
    assert abs(time.time() - ago - int(past.request.removeprefix("SINCE.")) / 1000) < 60


def test_given_a_time_when_read_then_it_is_that_moment() -> None:
    past = read_past(None, None, "2026-01-01T02:00:00+02:00", False)
    assert past is not None
    assert past.subject([">"]) == "$SEQ.SINCE.1767225600000.>"
    assert past.words == " since 2026-01-01T00:00:00.000000000Z"


@pytest.mark.parametrize(
    ("first", "last", "since", "latest", "why"),
    [
        (5, None, "1m", False, "give one of --from and --since, not both"),
        (5, None, None, True, "give one of --from and --last, not both"),
        (5, None, "1m", True, "give one of --from and --since and --last, not both"),
        (None, 5, None, False, "--to is the end of a range; give its beginning with --from"),
        (None, 5, "1m", False, "--to is the end of a range; give its beginning with --from"),
        (9, 5, None, False, "--to 5 is before --from 9"),
        (
            None,
            None,
            "1679909168",
            False,
            "1679909168: seconds or milliseconds? Give 1679909168000",
        ),
        (None, None, "soon", False, '"soon" is not a valid time; give a duration such as 10m'),
    ],
)
def test_given_flags_that_cannot_be_together_when_read_then_it_says_why(
    first: int | None, last: int | None, since: str | None, latest: bool, why: str
) -> None:
    with pytest.raises(CliError) as refused:
        read_past(first, last, since, latest)
    assert str(refused.value).startswith(why)


@pytest.mark.parametrize("latest", [False, True])
def test_given_an_end_without_a_begin_when_read_then_it_says_why(latest: bool) -> None:
    with pytest.raises(CliError, match="--until-now needs --from or --since"):
        read_past(None, None, None, latest, until_now=True)


@pytest.mark.parametrize(
    ("past", "number", "subject"),
    [
        (read_past(5, None, None, False), 8, "$SEQ.FROM.9.>"),
        (read_past(5, None, None, False), 2, "$SEQ.FROM.5.>"),
        (read_past(5, 9, None, False), 8, "$SEQ.RANGE.9.9.>"),
        (read_past(5, 9, None, False), 9, None),
        (read_past(None, None, "1m", False), 8, "$SEQ.FROM.9.>"),
        (read_past(None, None, None, True), 8, "$SEQ.FROM.9.>"),
    ],
)
def test_given_what_was_shown_then_the_rest_is_asked_for(
    past: Past, number: int, subject: str | None
) -> None:
    left = past.after(number)
    assert (left and left.subject([">"])) == subject


@pytest.mark.parametrize(
    ("subjects", "subject"),
    [
        (["a.b"], "a.b"),
        (["a.*", "a.*"], "a.*"),
        (["a.b", "a.c"], "a.>"),
        (["a.b", "a.b.c"], "a.>"),
        (["a.*", "a.b"], "a.>"),
        (["a.b.c", "a.b.d"], "a.b.>"),
        (["a", "b"], ">"),
        (["a.>", "a.b.c"], "a.>"),
        ([">", "a"], ">"),
    ],
)
def test_given_subjects_when_joined_into_one_pattern_then_it_covers_all(
    subjects: list[str], subject: str
) -> None:
    assert common(subjects) == subject


words = st.sampled_from(["a", "b", "*"])
patterns = st.tuples(st.lists(words, max_size=3), st.sampled_from(["a", "b", "*", ">"])).map(
    lambda parts: ".".join([*parts[0], parts[1]])
)


@given(
    subjects=st.lists(patterns, min_size=1, max_size=3),
    published=st.lists(st.sampled_from("ab"), min_size=1, max_size=5).map(".".join),
)
def test_given_any_subjects_when_a_message_is_for_one_then_it_comes_and_is_shown(
    subjects: list[str], published: str
) -> None:
    wanted = takes_in(subjects, published)
    assert wanted == any(covers(one.encode(), published.encode()) for one in subjects)
    assert not wanted or covers(common(subjects).encode(), published.encode())


def test_given_events_of_the_broker_when_read_then_what_is_lost_is_reported() -> None:
    gone = "the broker no longer has"
    assert lost("$SEQ.LOST.1.41") == f"LOST numbers 1 to 41: {gone} these 41"
    assert lost("$SEQ.LOST.7.7") == f"LOST number 7: {gone} it"
    assert lost("$SEQ.END.7") == lost("orders") == ""
    assert is_end("$SEQ.END.7")
    assert not is_end("$SEQ.LOST.1.7")


WORDS = ["", "a.b", "1", "1.2.3", "2.1", "0.1", "-1.2", "+1.2", "1_0.20", "1.", ".2", " 1.2", "1.²"]


@pytest.mark.parametrize("word", [*WORDS, "1.9223372036854775808", "1." + "9" * 5000])
def test_given_input_that_is_no_event_when_read_then_it_is_passed_over(word: str) -> None:
    assert lost("$SEQ.LOST." + word) == ""
    assert word == "1" or not is_end("$SEQ.END." + word)


# With a broker


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A broker that keeps nine messages, and has been started again since."""
    with SeriatimServer("netstring") as broker:
        with RawClient(broker.port, QUIET) as publisher:
            for number in range(1, 10):
                subject = (b"orders.a", b"orders.b", b"prices")[number % 3]
                publisher.send(b"PUB %b 1\r\n%d\r\n" % (subject, number))
            assert publisher.ask(b"") == []
        broker.stop()
        broker.start()  # at any port: the old one may be another's by now
        yield f"127.0.0.1:{broker.port}"


def shown(url: str, *arguments: str) -> list[int]:
    """The numbers that a `sub` shows, which ends by itself."""
    done = seriatim("sub", *arguments, "--url", url, "--json")
    assert done.returncode == 0, done.stderr
    return [int(line.split(b":")[1].split(b",")[0]) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("arguments", "numbers"),
    [
        ((">", "--from", "3", "--to", "6"), [3, 4, 5, 6]),
        ((">", "--from", "8", "--count", "2"), [8, 9]),
        (("orders.a", "--from", "1", "--to", "9"), [3, 6, 9]),
        (("orders.a", "prices", "--from", "1", "--to", "9"), [2, 3, 5, 6, 8, 9]),
        (("orders.*", "--since", "1h", "--count", "3"), [1, 3, 4]),
        ((">", "--last", "--count", "3"), [7, 8, 9]),
        (("orders.*", "--last", "--count", "2"), [7, 9]),
    ],
)
def test_given_messages_of_the_past_when_asked_for_then_they_are_shown_in_order(
    url: str, arguments: tuple[str, ...], numbers: list[int]
) -> None:
    assert shown(url, *arguments) == numbers


def test_given_the_past_when_it_is_over_then_what_comes_is_shown(url: str) -> None:
    with Subscriber(">", "--from", "9", "--count", "2", "--url", url, "--raw") as listening:
        assert listening.greeting == "seriatim: listening to > from number 9\n"
        assert seriatim("pub", "late", "ten", "--url", url).returncode == 0
        assert listening.end() == (0, b"9ten", "")


def test_given_messages_that_are_gone_when_asked_for_then_the_loss_is_reported(url: str) -> None:
    with SeriatimServer("netstring", arguments=["--no-journal", "--ring_bytes", "300KiB"]) as few:
        with RawClient(few.port, QUIET) as publisher:
            publisher.send(
                b"".join(b"PUB a 100000\r\n" + b"x" * 100_000 + b"\r\n" for _ in range(20))
            )
            assert publisher.ask(b"") == []
        arguments = ("--from", "1", "--to", "20", "--url", f"127.0.0.1:{few.port}", "--json")
        done = seriatim("sub", "a", *arguments)
    count = len(done.stdout.splitlines())
    assert 0 < count < 20
    first = 20 - count
    said = done.stderr.decode().splitlines()[1:]
    assert said == [f"seriatim: LOST numbers 1 to {first}: the broker no longer has these {first}"]


def test_given_a_queue_group_when_the_past_is_asked_for_then_refused(url: str) -> None:
    said = refusal("sub", ">", "--from", "1", "--queue", "q", "--url", url)
    assert said == "a queue group gets only live messages, not the past; leave out --queue"


def test_given_a_subject_of_the_broker_itself_when_its_past_is_asked_for_then_refused(
    url: str,
) -> None:
    said = refusal("sub", "$SEQ.>", "--from", "1", "--url", url)
    assert "are not kept, so they cannot be replayed" in said


def test_given_nats_server_when_the_past_is_asked_for_then_it_says_so() -> None:
    with NatsServer() as other:
        said = refusal("sub", ">", "--from", "1", "--url", f"127.0.0.1:{other.port}")
    assert said.endswith("the server there keeps no messages")


FRAMED = b'INFO {"server_id":"x","headers":true,"max_payload":1048576,"frame":"netstring"}\r\n'


@pytest.mark.parametrize("event", ["LOST.a.b", "LOST.5", "LOST.2.1", "END.x", "END.5", "END.", "x"])
def test_given_invalid_events_when_received_then_they_are_skipped(event: str) -> None:
    def talk(peer: Peer) -> None:
        peer.say(FRAMED)
        while line := peer.file.readline():
            if line.startswith(b"PING"):
                peer.say(b"PONG\r\n")
            elif line.startswith(b"SUB _INBOX"):
                inbox = line.split()[-1]
            elif line.startswith(b"PUB $SEQ.INFO"):
                text = b'{"journal":"j","last":7,"newest":1,"store":"disk"}'
                reply = line.split()[2]
                peer.say(b"MSG %b %b %d\r\n%b\r\n" % (reply, inbox, len(text), text))
            elif line.startswith(b"SUB $SEQ.FROM.1.>"):
                sid = line.split()[-1]
                peer.say(b"MSG $SEQ.%b %b 0\r\n\r\n" % (event.encode(), sid))
                peer.say(b"MSG a %b 11\r\n8:1:7,1:x,,\r\n" % sid)

    with Scripted(talk) as peer:
        url = f"nats://127.0.0.1:{peer.port}"
        done = seriatim("sub", ">", "--from", "1", "--count", "1", "--url", url, "--raw")
    assert (done.returncode, done.stdout) == (0, b"x"), done.stderr
