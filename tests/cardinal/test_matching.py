"""How long a match takes: in proportion to the key, whatever the pattern."""

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cardinal import matching
from cardinal.matching import PatternWalk, straight
from cardinal.pattern import Pattern
from tests.support.depth import examples


@pytest.mark.parametrize(
    "text",
    [
        "c/1/a/",
        "c/1/b/[0-9a-z]+/t/",
        "c/1/b/[^/]+/(h|d|w|u/|t/|r/|l/)",
        "c/[0-9a-f]{64}/",
        "a/.*",
        ".*/t/",
        r"\w+\.\w+",
        "[a-z]+[0-9]*/",
        "(a|b)+/",
        "(a/)?b/",
        "(?:foo|foobar)/",
        ".*a.{30}b",
    ],
)
def test_given_a_text_that_leads_to_a_place_in_one_way_then_the_pattern_is_straight(
    text: str,
) -> None:
    assert straight(Pattern(text))


@pytest.mark.parametrize(
    "text",
    [
        "(?:a+)+b/",
        "(a|a)*b",
        "(a|[ab])*c",
        "(a|ab|b)*c",
        "[a-z]*[a-z]*x",
        "a/.*/b/.*/c",
        "a?a?a?b",
        "(?:a?){30}a{30}",
        "(?:|a)(?:|a)b",
        "((a|b)|[ac])x*y",
    ],
)
def test_given_a_text_that_leads_to_a_place_in_two_ways_then_the_pattern_is_not_straight(
    text: str,
) -> None:
    assert not straight(Pattern(text))


def test_given_more_pairs_than_are_looked_at_when_asked_then_it_is_not_straight() -> None:
    assert not straight(Pattern("|".join(f"{number:03}" for number in range(500))))


@pytest.mark.parametrize(
    ("text", "key"),
    [("(?:a+)+b/", "a"), ("(a|a)*b", "a"), ("a?" * 60 + "a" * 60, "a"), ("x?.*.*.*.*y", "z")],
)
def test_given_a_pattern_that_is_not_straight_when_a_key_is_long_then_it_takes_no_time(
    text: str, key: str
) -> None:
    walk, begin = PatternWalk(Pattern(text)), time.process_time()
    assert (walk.end(key * 50_000) >= 0) == ("y" not in text and "b" not in text)
    assert time.process_time() - begin < 2.0


@pytest.mark.parametrize(
    ("text", "key", "end"),
    [
        ("a*a*b", "aaab", 4),
        ("(a|ab)(c|bcd)?", "abcd", 4),
        ("(a|a)+?", "aaa", 1),
        ("(?:a+)+?b?", "aab", 3),
        ("a*?a*?", "aa", 0),
        ("a{2,}a{1,2}?", "aaaaa", 5),
        ("a?a?/.*", "a/x\ny", 3),
        ("a*a*b", "aaa", -1),
        ("a*a*b", "", -1),
    ],
)
def test_given_a_key_when_walked_then_what_is_preferred_is_found(
    text: str, key: str, end: int
) -> None:
    found = re.match(text, key, re.ASCII)
    assert (found.end() if found else -1) == end
    assert PatternWalk(Pattern(text)).end(key) == end


@settings(max_examples=examples(40))
@given(st.text("ab/é\U0001f600", max_size=300))
def test_given_few_remembered_states_when_walked_then_what_is_found_is_the_same(key: str) -> None:
    text = "(?:a|[^/]|ab)*/.*a.{3}"
    found = re.match(text, key[:14], re.ASCII)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matching, "STATES_KEPT", 20)
        few = PatternWalk(Pattern(text))
        assert few.end(key[:14]) == (found.end() if found else -1)
        assert few.end(key) == PatternWalk(Pattern(text)).end(key)
