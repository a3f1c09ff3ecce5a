"""A schema as a file: what is written can be read again, and errors are reported."""

import pytest

from cardinal.errors import SchemaError
from cardinal.schema import Schema
from cardinal.schema_file import as_toml, describe, parse

SCHEMA = Schema({"a/": "accounts", r'q"\.[0-9]+/': "quotes"}, "blocks")


def test_given_a_schema_when_written_then_it_is_read_again() -> None:
    read = parse(as_toml(SCHEMA))
    assert (read.default, read.patterns) == (SCHEMA.default, SCHEMA.patterns)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("default = ", "not valid TOML: "),
        ("", "default: give the topic for all other keys"),
        ('default = "b"\nmore = 1', '"more" is unknown; the keys are default and topics'),
        ('default = "b"\ntopics = ["a"]', "topics: give a table that maps patterns to topics"),
        ('default = "reorg"', "topic 'reorg': reorg is reserved for the channels of reorgs"),
        ('default = "b"\n[topics]\n"a" = "x"\n"a/" = "y"', "2 problems?|unreachable"),
    ],
)
def test_given_a_file_that_is_wrong_when_read_then_it_says_what(text: str, words: str) -> None:
    with pytest.raises(SchemaError) as raised:
        parse(text)
    assert any(word in describe(raised.value) for word in words.split("?|"))


def test_given_several_problems_when_reported_then_each_has_a_line() -> None:
    with pytest.raises(SchemaError) as raised:
        parse('default = "a b"\n[topics]\n"x" = "c d"')
    assert describe(raised.value).splitlines()[0] == "2 problems:"
    assert len(describe(raised.value).splitlines()) == 3
