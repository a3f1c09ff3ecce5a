"""`seriatim sub` in the past: what its flags request, and what it prints of a running broker."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seriatim.cli.errors import CliError
from seriatim.cli.pubsub.sub_start import Past, common, lost, read_past, takes_in
from seriatim.client.errors import Lost
from sublist.subject import covers
from tests.seriatim.cli.command import Subscriber, refusal, seriatim
from tests.support.processes import NatsServer, SeriatimServer
from tests.support.raw import QUIET, RawClient


def wish(past: Past) -> dict[str, Any]:
    """The arguments of `read` that say something."""
    return {name: value for name, value in past.arguments().items() if value}


@pytest.mark.parametrize(
    ("first", "last", "latest", "asked", "words"),
    [
        (5, None, False, {"start": 5}, " from number 5"),
        (5, 9, False, {"start": 5, "until": 9}, " from number 5 to 9"),
        (None, None, True, {"last": True}, ", the last message of each first"),
    ],
)
def test_given_flags_when_read_then_they_ask_for_this(
    first: int | None, last: int | None, latest: bool, asked: dict[str, Any], words: str
) -> None:
    past = read_past(first, last, None, latest)
    assert past is not None
    assert (wish(past), past.words()) == (asked, words)


def test_given_no_flags_when_read_then_there_is_no_past() -> None:
    assert read_past(None, None, None, False) is None


@pytest.mark.parametrize(
    ("since", "ago"), [("30s", 30), ("10m", 600), ("1h30m", 5400), ("1d", 86400), ("90", 90)]
)
def test_given_so_long_ago_when_read_then_it_is_that_moment(since: str, ago: int) -> None:
    past = read_past(None, None, since, False)
    assert past is not None
    assert abs(time.time() - ago - past.since / 1e9) < 60


def test_given_a_time_when_read_then_it_is_that_moment() -> None:
    past = read_past(None, None, "2026-01-01T02:00:00+02:00", False)
    assert past is not None
    assert wish(past) == {"since": "2026-01-01T00:00:00.000000000Z"}
    assert past.words() == " since 2026-01-01T00:00:00.000000000Z"


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
    ("past", "words"),
    [
        (Past(5), " from number 9"),
        (Past(5, 12), " from number 9 to 12"),
        (Past(since=1), " from number 9"),
        (Past(latest=True), " from number 9"),
    ],
)
def test_given_what_was_shown_then_the_rest_is_named(past: Past, words: str) -> None:
    assert past.words(9) == words


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


def test_given_what_is_lost_then_it_is_counted() -> None:
    gone = "the broker no longer has"
    assert lost(Lost(1, 41)) == f"LOST numbers 1 to 41: {gone} these 41"
    assert lost(Lost(7, 7)) == f"LOST number 7: {gone} it"


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
