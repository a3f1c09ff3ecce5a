"""Permissions in TOML: nats-server's forms, what is wrong with them, and the way back."""

import math
import tomllib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.settings.authorization_settings import PermissionSettings
from broker.settings.permission_tables import permission_table, read_permissions

PLACE = "users[1].permissions"


def read(text: str) -> tuple[PermissionSettings, list[str]]:
    """The permissions of a table in one line, and what is wrong with it."""
    problems: list[str] = []
    raw = tomllib.loads(f"p = {text}")["p"]
    return read_permissions(raw, PLACE, "in u.toml", problems), problems


def permissions(text: str) -> PermissionSettings:
    found, problems = read(text)
    assert problems == []
    return found


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("{}", PermissionSettings()),
        ('{ publish = "a.>" }', PermissionSettings(publish_allow=("a.>",))),
        ('{ pub = ["a", "b"] }', PermissionSettings(publish_allow=("a", "b"))),
        ("{ publish = [] }", PermissionSettings(publish_allow=())),
        ("{ publish = {} }", PermissionSettings()),
        ('{ publish = { deny = "a" } }', PermissionSettings(publish_deny=("a",))),
        (
            '{ subscribe = { allow = ["a", "b q"], deny = ["c  q.*"] } }',
            PermissionSettings(subscribe_allow=("a", "b q"), subscribe_deny=("c q.*",)),
        ),
        ('{ sub = "a q" }', PermissionSettings(subscribe_allow=("a q",))),
        ("{ allow_responses = false }", PermissionSettings()),
        ("{ allow_responses = true }", PermissionSettings(publish_allow=(), responses=1)),
        ("{ publish_allow_responses = true }", PermissionSettings(publish_allow=(), responses=1)),
        *(
            (
                f'{{ publish_allow_responses = {{ {most} = 5, {expires} = "1m" }} }}',
                PermissionSettings(publish_allow=(), responses=5, response_expires=60.0),
            )
            for most, expires in (
                ("max", "ttl"),
                ("max_msgs", "expires"),
                ("max_messages", "expiration"),
                ("max_responses", "ttl"),
            )
        ),
        (
            '{ allow_response = { max = 5, expires = "1m" }, publish = "a" }',
            PermissionSettings(publish_allow=("a",), responses=5, response_expires=60.0),
        ),
        (
            "{ allow_responses = { max = -1, expires = -1 } }",
            PermissionSettings(publish_allow=(), responses=-1, response_expires=0.0),
        ),
        (
            "{ allow_responses = { max = 0, expires = 0 } }",
            PermissionSettings(publish_allow=(), responses=1, response_expires=120.0),
        ),
        (
            '{ allow_responses = { expires = 1.5 }, publish = { deny = "a" } }',
            PermissionSettings(
                publish_allow=(), publish_deny=("a",), responses=1, response_expires=1.5
            ),
        ),
    ],
)
def test_given_a_table_when_read_then_it_means_what_nats_server_takes_it_for(
    text: str, meant: PermissionSettings
) -> None:
    assert permissions(text) == meant


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("5", " in u.toml: is a table with publish, subscribe and allow_responses"),
        (
            '{ publishes = "a" }',
            ".publishes in u.toml: there is no such setting; permissions have publish, subscribe"
            " and allow_responses",
        ),
        (
            '{ "a\\u001b[1m" = 1 }',
            ".'a\\x1b[1m' in u.toml: there is no such setting; permissions have publish, subscribe"
            " and allow_responses",
        ),
        (
            '{ publish = "a", pub = "b" }',
            ".pub in u.toml: is the same as publish; leave out one of them",
        ),
        ("{ publish = 5 }", ".publish in u.toml: 5 is not a string; give a subject in quotes"),
        (
            "{ pub = [true] }",
            ".pub in u.toml: true is not a string; give a subject in quotes",
        ),
        (
            '{ publish = "a q" }',
            '.publish in u.toml: "a q" has a space; queue groups go with subscribe',
        ),
        (
            '{ publish = "a..b" }',
            '.publish in u.toml: "a..b" is not a valid subject: a word between its dots is empty',
        ),
        (
            '{ subscribe = { allowed = "a" } }',
            '.subscribe in u.toml: "allowed" is neither allow nor deny',
        ),
        (
            '{ subscribe = "a b c" }',
            '.subscribe in u.toml: "b c" is not a valid subject; give words joined by dots,'
            " without spaces",
        ),
        (
            '{ subscribe = "a " }',
            '.subscribe in u.toml: "" is not a valid subject; give words joined by dots, without'
            " spaces",
        ),
        (
            '{ allow_responses = { expires = "1m", ttl = "1m" } }',
            ".allow_responses in u.toml: has max or expires twice, by several names; leave out one"
            " of them",
        ),
        (
            "{ allow_responses = 5 }",
            ".allow_responses in u.toml: give true, false, or a table such as"
            ' { max = 5, expires = "1m" }',
        ),
        (
            "{ allow_responses = { most = 5 } }",
            '.allow_responses in u.toml: "most" is neither max nor expires',
        ),
        *(
            (
                f"{{ allow_responses = {{ max = {most} }} }}",
                f".allow_responses in u.toml: max is {shown}; give a whole number up to"
                " 1000000000, -1 for no limit",
            )
            for most, shown in (("-2", "-2"), ("true", "true"), ("1.5", "1.5"), ("1e99", "1e+99"))
        ),
        (
            "{ allow_responses = { expires = true } }",
            ".allow_responses in u.toml: expires is true; give a duration such as 2m",
        ),
        (
            '{ allow_responses = { expires = "soon" } }',
            '.allow_responses in u.toml: "soon" is not a duration; give seconds, or a number with'
            " ms, s, m, h, d or w, such as 500ms or 1m30s",
        ),
        *(
            (
                f"{{ allow_responses = {{ expires = {expires} }} }}",
                f".allow_responses in u.toml: expires is {shown}; give a duration up to 365d,"
                " -1 for no limit",
            )
            for expires, shown in (
                ("-2", "-2"),
                ("nan", "nan"),
                ("inf", "inf"),
                ('"366d"', '"366d"'),
            )
        ),
    ],
)
def test_given_a_wrong_table_when_read_then_it_says_what_and_where(text: str, why: str) -> None:
    assert read(text)[1] == [f"{PLACE}{why}"]


def test_given_several_problems_when_read_then_all_are_named() -> None:
    found = read('{ publish = 5, subscribe = "a..b", more = 1 }')[1]
    assert [line.split()[0] for line in found] == [
        f"{PLACE}.publish",
        f"{PLACE}.subscribe",
        f"{PLACE}.more",
    ]


words = st.sampled_from(["a", "b.>", "*.c", "$SEQ.>"])
groups = st.builds("{} {}".format, words, st.sampled_from(["q", "q.*"]))
lists = st.lists(words, max_size=3).map(tuple)
group_lists = st.lists(words | groups, max_size=3).map(tuple)


@given(
    st.builds(
        PermissionSettings,
        publish_allow=st.none() | lists,
        publish_deny=lists,
        subscribe_allow=st.none() | group_lists,
        subscribe_deny=group_lists,
        responses=st.integers(-1, 3),
        response_expires=st.sampled_from([0.0, 0.25, 1.0, 90.5, 120.0, math.pi]),
    )
)
def test_given_any_permissions_when_written_then_they_are_read_the_same(
    given: PermissionSettings,
) -> None:
    problems: list[str] = []
    found = read_permissions(permission_table(given), PLACE, "", problems)
    assert problems == []
    if not given.responses:
        given = replace(given, response_expires=120.0)  # is not written
    elif given.publish_allow is None:
        given = replace(given, publish_allow=())  # is what responses mean
    assert found == given
