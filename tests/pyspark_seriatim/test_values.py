"""Values of options: what is accepted, and the errors for what is not."""

from collections.abc import Callable
from typing import Any

import pytest

from pyspark_seriatim import values
from pyspark_seriatim.option_kinds import SparkSetting
from pyspark_seriatim.values import NUMBER_MAX, Position
from seriatim.client.server_address import ServerAddress


def reader(kind: str, **more: Any) -> Callable[[str], Any]:
    """What reads the texts of an option of this kind."""
    given = {"field": "one", "name": "one", "about": "One.", "default": None}
    return SparkSetting(kind=kind, **{**given, **more}).read


@pytest.mark.parametrize(
    ("text", "servers"),
    [
        ("a", (ServerAddress("a"),)),
        ("a:1, b:2", (ServerAddress("a", 1), ServerAddress("b", 2))),
        ("[::1]:7", (ServerAddress("::1", 7),)),
        ("nats://a", (ServerAddress("a"),)),
        ("tls://a:1", (ServerAddress("a", 1, tls=True),)),
        ("nats://me:p%40ss@a:1,b", (ServerAddress("a", 1, "me", "p@ss"), ServerAddress("b"))),
        ("nats://t0ken@a", (ServerAddress("a", token="t0ken"),)),
    ],
)
def test_given_addresses_when_read_then_these_are_the_servers(
    text: str, servers: tuple[ServerAddress, ...]
) -> None:
    assert values.read_servers(text) == servers


@pytest.mark.parametrize(
    "text", ["", "a,,b", "http://a", "a:x", "a:99999", "nats://", "a/b", "a?b", "a b"]
)
def test_given_input_that_is_no_address_when_read_then_it_says_what_one_is(text: str) -> None:
    with pytest.raises(ValueError, match=r"give host:port\[,host:port\], or nats://"):
        values.read_servers(text)


def test_given_an_address_with_a_password_when_it_is_wrong_or_shown_then_it_is_not_in_it() -> None:
    with pytest.raises(ValueError, match="address 1 of the list is not valid") as refused:
        values.read_servers("nats://me:s3cret@a:port")
    (server,) = values.read_servers("nats://me:s3cret@[::1]:1")
    assert "s3cret" not in f"{refused.value}{server}{server!r}"
    assert str(server) == "[::1]:1"


@pytest.mark.parametrize(
    ("text", "ms"),
    [("7", 7), ("500ms", 500), ("30s", 30_000), ("15m", 900_000), (" 1H ", 3_600_000)],
)
def test_given_a_time_when_read_then_it_is_in_ms(text: str, ms: int) -> None:
    assert values.read_ms(text, 1, NUMBER_MAX) == ms


@pytest.mark.parametrize(
    ("text", "size"),
    [("4096", 4096), ("8m", 8 << 20), ("8MiB", 8 << 20), ("64KB", 64 << 10), ("1g", 1 << 30)],
)
def test_given_a_size_when_read_then_it_is_in_bytes(text: str, size: int) -> None:
    assert values.read_bytes(text, 1, NUMBER_MAX) == size


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("earliest", "earliest"),
        (" LATEST ", "latest"),
        ("7", Position(7)),
        (str(NUMBER_MAX), Position(NUMBER_MAX)),
        ('{"sequence": 7}', Position(7)),
        ('{"journal": "00c0", "sequence": 7}', Position(7, "00c0")),
    ],
)
def test_given_a_position_when_read_then_it_is_a_word_or_a_number(
    text: str, position: str | Position
) -> None:
    assert values.read_position(text, ("earliest", "latest")) == position


@pytest.mark.parametrize(
    "text",
    [
        *("", "0", "-1", "first", "1.5", str(NUMBER_MAX + 1), "\uff17", "[" * 9999),
        *("{", "{}", '{"sequence": -2}', '{"sequence": 7, "partition": 0}', '{"sequence": [7]}'),
        '{"orders": {"0": 23}}',
    ],
)
def test_given_input_that_is_no_position_when_read_then_it_says_what_one_is(text: str) -> None:
    with pytest.raises(ValueError, match="is not one of earliest, latest, a number from 1 on"):
        values.read_position(text, ("earliest", "latest"))


@pytest.mark.parametrize(
    ("text", "subjects"),
    [
        ("a", ("a",)),
        ("a.*, b.>,a.*", ("a.*", "b.>")),
        ("a,>", (">",)),
        ("*.x*y", ("*.x*y",)),
    ],
)
def test_given_subjects_when_read_then_none_comes_twice(
    text: str, subjects: tuple[str, ...]
) -> None:
    assert values.read_subjects(text) == subjects


@pytest.mark.parametrize(
    ("read", "text", "why"),
    [
        (values.read_subjects, "a..b", '"a..b" is not a valid subject; give subjects such as'),
        (values.read_subjects, "a,", '"" is not a valid subject'),
        (values.read_subjects, "a b", '"a b" is not a valid subject'),
        (values.read_subjects, ">.a", '">.a" is not a valid subject'),
        (values.read_subjects, "$SEQ.>", "below \\$SEQ. are not kept"),
        (values.read_subjects, ",".join(f"s{at}" for at in range(65)), "65 subjects are too many"),
        (values.read_subject, "a.*", '"a.\\*" is not a subject to publish to'),
        (values.read_subject, "$SEQ.x", "not a subject to publish to"),
        (values.read_regex, "(", '"\\(" is not a regular expression: missing \\)'),
        (reader("flag"), "maybe", '"maybe" is neither true nor false'),
        (reader("choice", choices=("a", "b")), "c", '"c" is not one of a, b'),
        (lambda text: values.read_count(text, 1, 9), "10", "whole number from 1 to 9"),
        (lambda text: values.read_count(text, 1, NUMBER_MAX), "-1", "whole number from 1 on"),
        (lambda text: values.read_ms(text, 1, 9), "5 weeks", "such as 30s or 15m from 1 to 9"),
        (lambda text: values.read_bytes(text, 1, 9), "1x", "such as 512k or 8m from 1 to 9"),
        (reader("text", length_max=3), "long", "of 1 to 3 printable characters"),
        (reader("text", length_max=9), "a\nb", "printable characters"),
        (reader("flag"), "x" * 1000, "x" * 60 + '\\.\\.\\." is neither'),
    ],
)
def test_given_a_wrong_word_when_read_then_it_says_what_may_be_written(
    read: Callable[[str], Any], text: str, why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        read(text)


@pytest.mark.parametrize(("text", "flag"), [("true", True), (" TRUE", True), ("0", False)])
def test_given_a_flag_when_read_then_case_is_nothing(text: str, flag: bool) -> None:
    assert reader("flag")(text) is flag
