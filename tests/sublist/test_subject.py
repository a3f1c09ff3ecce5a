"""Subjects: which are valid, which have wildcards, what covers what, and their digests."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sublist.subject import covers, has_wildcard, is_literal, is_pattern
from testkit import model_subject
from testkit.model_subject import tokens_match
from tests.sublist.naive import literals, patterns
from tests.support.depth import examples

many = settings(max_examples=examples(500))


@pytest.mark.parametrize(
    ("subject", "pattern", "literal"),
    [
        (b"a", True, True),
        (b"a.b.c", True, True),
        (b"a.*.c", True, False),
        (b"*", True, False),
        (b"*.*", True, False),
        (b">", True, False),
        (b"a.>", True, False),
        (b"*.>", True, False),
        (b"foo*", True, True),
        (b"*foo", True, True),
        (b"f>", True, True),
        (b">f", True, True),
        (b"**", True, True),
        (b">>", True, True),
        (b"a.**.b", True, True),
        (b"a.>>", True, True),
        (b"\xff\x00", True, True),
        (b"a" * 4000, True, True),
        (b"", False, False),
        (b".", False, False),
        (b"a.", False, False),
        (b".a", False, False),
        (b"a..b", False, False),
        (b"a.b.", False, False),
        (b">.a", False, False),
        (b"a.>.b", False, False),
        (b">.>", False, False),
        (b"a.>.", False, False),
    ],
    ids=lambda value: repr(value[:20])[2:-1] if isinstance(value, bytes) else "",
)
def test_given_a_subject_then_it_is_valid_where_nats_has_it_so(
    subject: bytes, pattern: bool, literal: bool
) -> None:
    assert is_pattern(subject) is pattern
    assert is_literal(subject) is literal


@many
@given(subject=st.lists(st.sampled_from([b"*", b">", b".", b"a"]), max_size=8).map(b"".join))
def test_given_any_subject_then_a_naive_reading_agrees(subject: bytes) -> None:
    assert is_pattern(subject) is model_subject.is_pattern(subject)
    assert has_wildcard(subject) is model_subject.has_wildcard(subject)
    assert is_literal(subject) is model_subject.is_literal(subject)


@pytest.mark.parametrize(
    ("pattern", "subject", "covered"),
    [
        (b"a", b"a", True),
        (b"a", b"ab", False),
        (b"ab", b"a", False),
        (b"a.b", b"a", False),
        (b"a", b"a.b", False),
        (b">", b"a", True),
        (b">", b"a.b.c", True),
        (b"a.>", b"a", False),
        (b"a.>", b"a.b", True),
        (b"a.>", b"b.a", False),
        (b"*", b"a", True),
        (b"*", b"a.b", False),
        (b"*.b", b"a.b", True),
        (b"*.b", b"a.c", False),
        (b"a.*", b"a.b", True),
        (b"a.*", b"a.b.c", False),
        (b"*.>", b"a", False),
        (b"*.>", b"a.b", True),
        (b"a*", b"ab", False),
        (b"a*", b"a*", True),
        (b"a.*c", b"a.bc", False),
        (b"f>", b"fo", False),
    ],
)
def test_given_a_pattern_and_a_subject_then_it_covers_it_or_not(
    pattern: bytes, subject: bytes, covered: bool
) -> None:
    assert covers(pattern, subject) is covered


@many
@given(pattern=patterns(), subject=literals)
@example(pattern=b"*.b", subject=b"ab.b")
@example(pattern=b"a.*", subject=b"a")
def test_given_any_pattern_and_subject_then_a_naive_matcher_agrees(
    pattern: bytes, subject: bytes
) -> None:
    assert covers(pattern, subject) is tokens_match(pattern, subject)


@many
@given(subject=literals, data=st.data())
def test_given_a_subject_when_some_of_its_tokens_become_wild_then_the_pattern_covers_it(
    subject: bytes, data: st.DataObject
) -> None:
    tokens = subject.split(b".")
    wild = [data.draw(st.sampled_from([token, b"*"])) for token in tokens]
    cut = data.draw(st.integers(0, len(tokens) - 1))
    assert covers(b".".join(wild), subject)
    assert covers(b".".join([*wild[:cut], b">"]), subject)
    assert not covers(b".".join([*wild, b">"]), subject)
