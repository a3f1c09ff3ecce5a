"""Prefixes and topics: where a key goes, what is counted, and what a schema refuses."""

import pickle
import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardinal.errors import SchemaError
from cardinal.schema import Schema

EVM = {
    "c/1/a/": "state",
    "c/1/s": "state",
    "c/1/c/": "code",
    "c/1/b/[0-9a-z]+/h": "block",
    "c/1/b/[0-9a-z]+/t/": "tx",
    "c/1/b/[0-9a-z]+/r/": "receipt",
    "c/1/n/": "block",
}


def test_given_the_prefixes_of_an_application_when_made_then_every_key_has_its_topic() -> None:
    schema = Schema(EVM, default="chain")
    assert schema.topics == ("chain", "state", "code", "block", "tx", "receipt")
    assert schema.match("c/1/b/88aa/t/17") == ("tx", "c/1/b/88aa/t/")
    assert schema.match("c/1/b/88aa/h") == ("block", "c/1/b/88aa/h")
    assert schema.match("c/1/s") == ("state", "c/1/s")
    assert schema.match("c/1/x") == ("chain", None)
    assert schema.match("") == ("chain", None)


def test_given_an_alternation_when_matched_then_it_is_anchored_as_a_whole() -> None:
    schema = Schema({"^a/|b/": "ab", "(c|d)/": "cd"}, default="other")
    assert schema.match("b/1") == ("ab", "b/")
    assert schema.match("zb/1") == ("other", None), "the reference finds b/ in the middle"
    assert schema.match("d/1") == ("cd", "d/")


def test_given_patterns_that_re_would_try_in_many_ways_when_matched_then_it_is_quick() -> None:
    schema = Schema({"(?:a+)+b/": "x", "c/.*/d/.*/": "y", "e/": "z"}, default="d")
    tracking = schema.track("(?:a+)+b/", "e/")
    begin = time.process_time()
    assert schema.match("a" * 10_000) == ("d", None)
    assert not tracking("a" * 10_000)
    assert time.process_time() - begin < 1.0
    assert schema.match("aaab/1") == ("x", "aaab/")
    assert schema.match("c/1/d/2/3") == ("y", "c/1/d/2/")
    assert schema.match("e/1") == ("z", "e/")
    for one in (tracking, pickle.loads(pickle.dumps(tracking))):
        assert [one(key) for key in ("aab/", "e/", "c/1/d/2/")] == [True, True, False]


@pytest.mark.parametrize(
    ("topics", "default", "problem"),
    [
        ({1: "x"}, "d", "prefix 1: a pattern must be text, not int"),
        ({b"a/": "x"}, "d", "prefix b'a/': a pattern must be text, not bytes"),
        ({"a/": 5}, "d", "topic 5: a topic must be text, not int"),
        ({"a/": None}, "d", "topic None: a topic must be text, not NoneType"),
        ({}, None, "topic None: a topic must be text, not NoneType"),
        ([("a/", "x")], "d", "the topics of a schema must be a mapping .*, not list"),
        (None, "d", "the topics of a schema must be a mapping .*, not NoneType"),
    ],
)
def test_given_input_that_is_no_text_when_made_then_it_is_reported_as_any_other_problem(
    topics: Any, default: Any, problem: str
) -> None:
    with pytest.raises(SchemaError, match=problem):
        Schema(topics, default)


def test_given_input_that_is_no_text_when_tracked_then_it_is_reported() -> None:
    bad: Any = 7
    with pytest.raises(SchemaError, match="cannot track 7: a pattern must be text, not int"):
        Schema({"a/": "x"}, "d").track("a/", bad)
    with pytest.raises(SchemaError, match="cannot track None: a pattern must be text"):
        Schema({"a/": "x"}, "d").track("a/", sub_batches=[None])  # type: ignore[list-item]


def test_given_no_prefixes_when_made_then_everything_is_in_the_default_topic() -> None:
    schema = Schema({}, default="all")
    assert schema.match("a") == ("all", None)
    assert schema.topics == ("all",)


@pytest.mark.parametrize(
    ("topics", "problem"),
    [
        ({"a/": "x", "a/b": "y"}, "prefix 'a/b' is unreachable: every key .* with 'a/' too"),
        ({"a/b": "x", "a/": "y"}, "prefix 'a/b' is unreachable"),
        ({"a/.*": "x", "a/b": "y"}, "prefix 'a/b' is unreachable: .* 'a/.\\*' too"),
        ({"a/": "x", "(a)/": "x"}, "is unreachable"),
        ({"a/[0-9]+/": "x", "a/1": "y"}, "'a/1' overlap: 'a/1/' begins with both"),
        ({"": "x"}, "prefix '': matches the empty text"),
        ({"a*": "x"}, "matches the empty text"),
        ({r"a[^\d\D]": "x"}, "unreachable, no key can match it"),
        ({"a$": "x"}, "prefix 'a\\$', character 2: \\$ cannot stand here"),
        ({"a/": ""}, "topic '': words of letters"),
        ({"a/": "x y"}, "topic 'x y': words of letters"),
        ({"a/": "x.>"}, "topic 'x.>': words of letters"),
        ({"a/": "x..y"}, "topic 'x..y': words of letters"),
        ({"a/": "reorg.x"}, "topic 'reorg.x': reorg is reserved"),
    ],
)
def test_given_a_schema_that_cannot_be_when_made_then_its_problem_is_reported(
    topics: dict[str, str], problem: str
) -> None:
    with pytest.raises(SchemaError, match=problem):
        Schema(topics, default="other")


def test_given_many_problems_when_made_then_all_are_reported_at_once() -> None:
    with pytest.raises(SchemaError) as caught:
        Schema({"[": "x", "a/": "", "b/": "x", "b/c": "y", "b/d": "z"}, default=".")
    assert [re.split(r"[:,]| is ", one)[0] for one in caught.value.problems] == [
        "topic '.'",
        "prefix '['",
        "topic ''",
        "prefix 'b/c'",
        "prefix 'b/d'",
    ]
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.problems == caught.value.problems


def test_given_patterns_too_long_to_be_compared_when_made_then_it_is_reported() -> None:
    many = "|".join(f"{number:03}" for number in range(400))
    with pytest.raises(SchemaError, match="too long to be compared"):
        Schema({f"({many})*x": "x", f"({many})*y": "y"}, default="z")
    with pytest.raises(SchemaError, match=r"overlap: .* begins with both"):
        Schema({"x.*a.{18}b": "x", "x.*a.{18}bc": "y"}, default="z")


def test_given_a_consumer_of_some_prefixes_then_its_topics_and_keys_are_those() -> None:
    schema = Schema(EVM, default="chain")
    wanted = schema.track("c/1/a/", "c/1/b/[0-9a-z]+/h")
    assert wanted.topics == ("chain", "state", "block")
    assert wanted("c/1/a/")
    assert wanted("c/1/b/88aa/h")
    assert not wanted("c/1/b/88aa/t/")
    assert not wanted("c/1/x")


def test_given_a_consumer_of_everything_then_nothing_is_left_out() -> None:
    wanted = Schema(EVM, default="chain").track()
    assert wanted.topics == ("chain", "state", "code", "block", "tx", "receipt")
    assert wanted("whatever")


def test_given_a_wider_pattern_or_one_of_the_batch_when_tracked_then_it_holds_what_it_should() -> (
    None
):
    schema = Schema(EVM, default="chain")
    wanted = schema.track("c/1/b/", "meta/.*")
    assert wanted.topics == ("chain", "block", "tx", "receipt")
    assert wanted("c/1/b/88aa/r/")
    assert wanted("meta/")
    assert not wanted("c/1/a/")


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("c/1/a/5", "keys like 'c/1/a/5' are counted with all of 'c/1/a/'; track that"),
        ("c/1/b/8", "cannot track 'c/1/b/8': keys like 'c/1/b/8/h' are counted"),
        ("(", "cannot track '\\(', character 2: a group is not closed"),
    ],
)
def test_given_a_part_of_what_is_counted_when_tracked_then_it_is_refused(
    pattern: str, problem: str
) -> None:
    with pytest.raises(SchemaError, match=problem):
        Schema(EVM, default="chain").track(pattern)


def test_given_a_sub_batch_inside_of_a_prefix_when_tracked_then_it_can_be_alone() -> None:
    wanted = Schema(EVM, default="chain").track(sub_batches=["c/1/a/big"])
    assert wanted.topics == ("chain", "state")
    assert wanted("c/1/a/big")
    assert not wanted("c/1/a/")


@given(st.lists(st.from_regex(r"c/1/(b/[0-9a-z]{1,3}/[htr]/?|[acns]/?)[a-z]{0,2}", fullmatch=True)))
def test_given_any_keys_when_counted_then_the_longest_counted_prefix_is_the_matched_one(
    keys: list[str],
) -> None:
    schema = Schema(EVM, default="chain")
    counted = {prefix for _, prefix in map(schema.match, keys) if prefix is not None}
    for key in keys:
        longest = max((one for one in counted if key.startswith(one)), key=len, default=None)
        assert schema.match(key)[1] == longest
