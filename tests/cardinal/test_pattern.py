"""Patterns as automata: what they match, what is not supported, overlap and cover for all keys."""

import re
from itertools import product

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from cardinal.matching import PatternWalk
from cardinal.pattern import (
    Pattern,
    PatternError,
    TooComplex,
    covers,
    inverse,
    overlap,
    union,
)
from tests.support.depth import examples

EMPTY_LOOP = "an unbounded repetition of something that may be empty"
KEYS = ["".join(letters) for n in range(4) for letters in product("ab/0", repeat=n)]
UNTIMED = settings(max_examples=examples(60))  # some patterns take long, here and in re


def joined(parts: list[str]) -> str:
    return "".join(parts)


def written() -> st.SearchStrategy[str]:
    """Patterns over few letters, of everything there is."""
    atoms = st.sampled_from(
        [
            "a",
            "b",
            "/",
            "0",
            ".",
            "[ab]",
            "[^a]",
            "[a-b/]",
            r"\d",
            r"\D",
            r"\w",
            r"\W",
            r"\x61",
            r"\/",
        ]
    )
    repeats = st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{1,}", "{0,2}", "*?", "+?", "??"])

    def deeper(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        group = st.sampled_from(["(", "(?:"]).flatmap(
            lambda start: inner.map(lambda one: f"{start}{one})")
        )
        part = st.tuples(atoms | group, repeats).map("".join)
        row = st.lists(part, max_size=3).map(joined)
        return st.lists(row, min_size=1, max_size=2).map("|".join)

    return st.recursive(st.lists(atoms, max_size=3).map(joined), deeper, max_leaves=5)


def taken(text: str) -> Pattern:
    """A pattern, if it is none that repeats without end what may be empty."""
    try:
        return Pattern(text)
    except PatternError as error:
        if EMPTY_LOOP not in str(error):
            raise
        reject()


@UNTIMED
@given(written())
def test_given_a_pattern_when_it_is_an_automaton_then_it_matches_as_re_does(text: str) -> None:
    pattern, expected = taken(text), re.compile(text, re.ASCII)
    walk = PatternWalk(pattern)
    for key in KEYS:
        found = expected.match(key)
        assert pattern.matches(key) == bool(found), key
        assert walk.end(key) == (found.end() if found else -1), key


@UNTIMED
@given(written(), written())
def test_given_two_patterns_when_compared_then_the_answers_hold_for_every_short_key(
    one: str, other: str
) -> None:
    try:
        compare(one, other)
    except TooComplex:
        reject()  # a limit, and no answer


def compare(one: str, other: str) -> None:
    first, second = taken(one), taken(other)
    both = [key for key in KEYS if first.matches(key) and second.matches(key)]
    witness = overlap(first, second)
    assert (witness is None) <= (not both)
    if witness is not None:
        assert first.matches(witness)
        assert second.matches(witness)
        assert not both or len(witness) <= len(both[0]), "there is a shorter one"
    missed = [key for key in KEYS if second.matches(key) and not first.matches(key)]
    assert covers(first, second) <= (not missed)
    assert covers(first, first)
    either = Pattern(f"(?:{one})|{other}")
    assert covers(either, first)
    assert covers(either, second)
    assert covers(first, either) == covers(first, second)


@pytest.mark.parametrize(
    ("one", "other", "covered"),
    [
        ("a/", "a/b", True),
        ("a/b", "a/", False),
        ("a/", "a/.*", True),
        ("a/[0-9]", r"a/\d+/x", True),
        (r"a/[0-9]{2}", r"a/\d/", False),
        ("a|b", "[ab]c", True),
        ("a|b", "[a-c]", False),
        (".", r"\n", False),
        ("(a|b)*c", "abbac/", True),
        ("", "x", True),
        ("x", "", False),
        ("a(b|c)d", "a(bd|cd)e", True),
    ],
)
def test_given_two_patterns_then_whether_one_covers_the_other_is_known(
    one: str, other: str, covered: bool
) -> None:
    assert covers(Pattern(one), Pattern(other)) == covered


@pytest.mark.parametrize(
    ("one", "other", "key"),
    [
        ("a/", "b/", None),
        ("a/", "a/b", "a/b"),
        ("c/1/b/[0-9a-z]+/h", "c/1/b/[0-9a-z]+/d", None),
        ("c/1/b/[^/]+/t/", "c/1/b/[^/]+/t", "c/1/b/a/t/"),
        ("a/[0-9]+/", "a/1", "a/1/"),
        (r"[^\x00-\x7f]", ".", "\x80"),
        (r"a[^\d\D]", "a", None),
        ("", "", ""),
    ],
)
def test_given_two_patterns_then_a_shortest_key_that_begins_with_both_is_found(
    one: str, other: str, key: str | None
) -> None:
    assert overlap(Pattern(one), Pattern(other)) == key


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a$", r"character 2: \$ cannot stand here: what .* around it; a plain one is \\\$"),
        ("a^", r"character 2: \^ cannot stand here"),
        ("(a", "a group is not closed"),
        ("a)", r"character 2: a \) without \("),
        ("(?=a)", r"of \(\? only \(\?: is supported"),
        ("(?P<n>a)", r"of \(\? only"),
        ("(?i)a", r"of \(\? only"),
        ("[", "character 2: a set is not closed"),
        ("[]", "a set is empty"),
        ("[b-a]", "a range goes from one character"),
        (r"[\d-z]", "a range goes from one character"),
        ("[[:alpha:]]", r"character 2: a class such as \[:alpha:\] is not supported; write"),
        ("[[a]", r"\[ in a set is written \\\["),
        (r"\pL", r"character 2: \\p is not supported: Unicode tables differ; write"),
        ("[a--b]", "in a set is written"),
        ("[a&&b]", "& in a set is written"),
        ("*a", r"\* cannot stand here"),
        ("a**", "a repetition of a repetition"),
        ("a++", "a repetition of a repetition"),
        ("(a*)*", EMPTY_LOOP),
        ("b(a?|c)+", EMPTY_LOOP),
        ("(a{0,2}b*){1,}", EMPTY_LOOP),
        ("a{,2}", r"\{ must be"),
        ("a{x}", r"\{ must be"),
        ("a{2", r"\{ must be"),
        ("a{3,2}", "a repetition of 3,2"),
        ("a{1001}", "a repetition of 1001; 1000 is the maximum"),
        ("(a{500}){3}", "character 12: nested repetitions that make 1500; 1000 is the maximum"),
        ("((a{10}b|c){10,}d){0,11}", "nested repetitions that make 1100"),
        ("((){1000}){1000}", "nested repetitions that make 1000000"),
        (r"a\b", r"character 3: \\b is not supported"),
        (r"\s", r"\\s is not supported"),
        (r"(a)\1", r"\\1 is not supported"),
        (r"\xg0", "two hexadecimal digits"),
        ("a\\", r"nothing follows \\"),
        ("}", r"\} cannot stand here"),
        ("(" * 60 + ")" * 60, "more than 50 nested groups"),
    ],
)
def test_given_an_unsupported_pattern_when_made_then_the_error_says_where_and_why(
    text: str, reason: str
) -> None:
    with pytest.raises(PatternError, match=reason):
        Pattern(text)


@pytest.mark.parametrize("text", ["a{999}b{999}c{999}", "((a|b){10}c|d){90}"])
def test_given_a_pattern_of_too_many_states_when_made_then_it_is_refused(text: str) -> None:
    with pytest.raises(TooComplex, match="more than 2000 states"):
        Pattern(text)


def test_given_patterns_that_take_too_long_when_compared_then_it_is_reported() -> None:
    many = "|".join(f"{number:03}" for number in range(400))
    with pytest.raises(TooComplex, match="too long to be compared"):
        overlap(Pattern(f"({many})*x"), Pattern(f"({many})*y"))
    with pytest.raises(TooComplex, match="too long to be compared"):
        covers(Pattern("x.*a.{18}b"), Pattern("x.*a.{18}bc"))


def test_given_sets_of_characters_then_their_inverse_and_union_are_exact() -> None:
    assert union([(3, 4), (1, 2), (4, 6), (9, 9)]) == ((1, 6), (9, 9))
    assert inverse(((0, 9), (11, 0x10FFFF))) == ((10, 10),)
    assert inverse(()) == ((0, 0x10FFFF),)
    assert inverse(inverse(((5, 7), (9, 9)))) == ((5, 7), (9, 9))
