"""Sets of patterns: what they take, contain and meet is what trying all subjects says."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sublist.pattern_set import PatternSet, do_meet, hears, is_within
from sublist.subscription import Subscription
from testkit.model_subject import tokens_match
from tests.support.depth import examples

many = settings(max_examples=examples(300))

# Patterns have three tokens at most. A subject of four tells `>` from all of them, and a token that
# is in no pattern tells `*` from all literal ones. So these subjects decide every question.
WORDS = (b"a", b"b")
SUBJECTS = [
    b".".join(tokens) for size in range(1, 5) for tokens in product((*WORDS, b"new"), repeat=size)
]
tokens = st.lists(st.sampled_from((*WORDS, b"*")), min_size=1, max_size=3)
patterns = st.builds(
    lambda tokens, tail: b".".join([*tokens[: 3 - tail], b">"] if tail else tokens),
    tokens,
    st.booleans(),
)


def matched(pattern: bytes) -> set[bytes]:
    """All subjects that a pattern matches."""
    return {subject for subject in SUBJECTS if tokens_match(pattern, subject)}


@many
@given(st.lists(patterns, max_size=4), st.sampled_from(SUBJECTS))
def test_given_patterns_then_a_subject_is_taken_if_one_matches(
    given: list[bytes], subject: bytes
) -> None:
    assert PatternSet(given).takes(subject) == any(tokens_match(one, subject) for one in given)


@many
@given(st.lists(patterns, max_size=4), patterns)
def test_given_patterns_then_one_is_contained_if_one_of_them_matches_all_that_it_matches(
    given: list[bytes], pattern: bytes
) -> None:
    expected = any(matched(pattern) <= matched(one) for one in given)
    assert PatternSet(given).contains(pattern) == expected


@many
@given(st.lists(patterns, max_size=4), patterns)
def test_given_patterns_then_they_meet_one_if_a_subject_is_matched_by_both(
    given: list[bytes], pattern: bytes
) -> None:
    expected = any(matched(pattern) & matched(one) for one in given)
    assert PatternSet(given).meets(pattern) == expected


@many
@given(patterns, patterns)
def test_given_two_patterns_then_what_is_within_the_other_meets_it_from_both_sides(
    one: bytes, other: bytes
) -> None:
    mine, theirs = one.split(b"."), other.split(b".")
    assert do_meet(mine, theirs) == do_meet(theirs, mine)
    if is_within(mine, theirs):
        assert do_meet(mine, theirs)


@pytest.mark.parametrize("subject", [b"", b".", b"a.", b".a", b"a..b"])
def test_given_a_subject_with_an_empty_token_then_nothing_takes_it(subject: bytes) -> None:
    assert not PatternSet([b">", b"a.>", b"*", b"a.*.b"]).takes(subject)


def test_given_words_that_only_look_like_wildcards_then_they_are_literal() -> None:
    given = PatternSet([b"a*.>b", b"f>"])
    assert given.takes(b"a*.>b")
    assert not given.takes(b"ax.>b")
    assert not given.contains(b"a*.*")
    assert given.meets(b"a*.*")
    assert not given.meets(b"f.>")


def test_given_a_pattern_as_a_subject_then_only_wildcards_and_its_like_take_it() -> None:
    assert PatternSet([b"a.*"]).takes(b"a.>")
    assert not PatternSet([b"a.*"]).contains(b"a.>"), "as a subscription it is wider"


@many
@given(patterns, st.none() | st.lists(patterns, max_size=3), st.sampled_from(SUBJECTS))
def test_given_a_subscription_then_it_hears_what_it_matches_unless_that_is_denied(
    pattern: bytes, denied: list[bytes] | None, subject: bytes
) -> None:
    sub = Subscription(pattern, b"1", None, None)
    sub.denied = None if denied is None else PatternSet(denied)
    wanted = tokens_match(pattern, subject)
    refused = any(tokens_match(one, subject) for one in denied or ())
    assert hears(sub, subject) == (wanted and not refused)
