"""The text of a users' file: a user comes and goes, and every other byte stays."""

import tomllib
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from seriatim.cli.errors import CliError
from seriatim.cli.user.users_layout import HEAD, UsersLayout, checked_name

KEPT = """\
# All our users.

# The boss.
[[users]]
user = "alice"  # since 2019
password = "x"
[users.permissions]
publish = [
  "a",  # not b
]

# Comes on Mondays.
[[users]]
pass = "y"
username = 'bob'

# What the others may.
[default_permissions]
publish = []
"""
KEY = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"
NEW: dict[str, Any] = {"user": "new", "permissions": {"publish": {"deny": ["a", "b"]}}}
BLOCK = """
[[users]]
user = "new"

[users.permissions]
publish = {deny = ["a", "b"]}
"""


def layout(text: str) -> UsersLayout:
    return UsersLayout("/u.toml", text.encode())


def unusual(text: str) -> str:
    with pytest.raises(CliError) as caught:
        layout(text).with_user(NEW).with_password(0, "new").without(0)
    return str(caught.value)


def test_given_a_new_file_when_a_user_comes_then_it_stands_below_the_head() -> None:
    assert UsersLayout.empty("/u.toml").with_user(NEW).text == HEAD + BLOCK


def test_given_comments_and_styles_when_a_user_comes_then_all_stays() -> None:
    at = KEPT.index("\n# What the others may.")
    assert layout(KEPT).with_user(NEW).text == KEPT[:at] + BLOCK + KEPT[at:]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", BLOCK[1:]),
        ("# no line end", "# no line end\n" + BLOCK),
        (
            '[[users]]\nuser = "a"',
            '[[users]]\nuser = "a"\n' + BLOCK,
        ),
        ("[default_permissions]\npublish = []\n", "[default_permissions]\npublish = []\n" + BLOCK),
        (
            '[[users]]\r\nuser = "a"\r\n',
            '[[users]]\r\nuser = "a"\r\n' + BLOCK.replace("\n", "\r\n"),
        ),
        (
            "users = []  # none yet\n",
            'users = [{user = "new", permissions = {publish = {deny = ["a", "b"]}}}]  # none yet\n',
        ),
        (
            'users = [ { user = "a" } ]\n[default_permissions]\n',
            'users = [ { user = "a" }, '
            '{user = "new", permissions = {publish = {deny = ["a", "b"]}}} ]\n'
            "[default_permissions]\n",
        ),
        (
            '[["users"]]\nuser = "a"\n["users".permissions]\n',
            '[["users"]]\nuser = "a"\n["users".permissions]\n' + BLOCK,
        ),
    ],
)
def test_given_other_files_when_a_user_comes_then_its_place_is_found(
    before: str, after: str
) -> None:
    assert layout(before).with_user(NEW).text == after
    assert layout(after).without(len(layout(before).users)).tables.get("users", []) == (
        layout(before).users
    )


def test_given_a_label_when_a_key_comes_then_it_is_found_by_it() -> None:
    changed = layout(KEPT).with_user({"nkey": KEY}, label="the backup # 2")
    assert f'nkey = "{KEY}" # the backup # 2\n' in changed.text
    assert changed.labels == ["", "", "the backup # 2"]
    assert [changed.find(one) for one in ("alice", "bob", KEY, "the backup # 2", "zoe", "")] == [
        0,
        1,
        2,
        2,
        -1,
        -1,
    ]


def test_given_users_when_a_password_changes_then_nothing_else_does() -> None:
    assert layout(KEPT).with_password(0, "new").text == KEPT.replace('"x"', '"new"')
    assert layout(KEPT).with_password(1, "new").text == KEPT.replace('"y"', '"new"')


def test_given_a_user_without_a_password_when_it_gets_one_then_it_is_the_users() -> None:
    text = '[[users]]\nuser = "a"\n\n[users.permissions]\npublish = []\n'
    changed = layout(text).with_password(0, "new")
    assert changed.users == [{"user": "a", "password": "new", "permissions": {"publish": []}}]


def test_given_users_when_one_goes_then_its_comment_goes_and_those_of_others_stay() -> None:
    alice, bob = KEPT.index("# The boss"), KEPT.index("# Comes on")
    assert layout(KEPT).without(0).text == KEPT[:alice] + KEPT[bob:]
    rest = KEPT.index("\n# What the others may.")
    assert layout(KEPT).without(1).text == KEPT[: bob - 1] + KEPT[rest:]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('# The file.\n[[users]]\nuser = "a"\n', "# The file.\n"),
        ('[[users]]\nuser = "a"\n# The end.\n', "# The end.\n"),
        ('x\n\n[[users]]\nuser = "a"\n\n# The end.\n'.replace("x", "# 1"), "# 1\n\n# The end.\n"),
        ('users = [{user = "a"}] # here\n', "users = [] # here\n"),
    ],
)
def test_given_the_last_user_when_it_goes_then_comments_about_the_file_stay(
    before: str, after: str
) -> None:
    assert layout(before).without(0).text == after


@pytest.mark.parametrize(
    "text",
    [
        '[[users]]\nuser = "a"\n[default_permissions]\n[[users]]\nuser = "b"\n',
        'users = [{ user = """\n[[users]]\n""" }]\n',
        '[[users]]\nuser = "a"\n  [[ users ]]\nuser = "b"\n',
    ],
)
def test_given_a_layout_that_cannot_be_changed_safely_then_refused_without_a_secret(
    text: str,
) -> None:
    assert tomllib.loads(text)
    assert unusual(text) == (
        "/u.toml: its layout is too unusual to be changed by a command; put all [[users]]"
        " together, one after the other, or change it with an editor"
    )


def test_given_secrets_elsewhere_when_shown_to_the_reader_then_they_are_not_fetched() -> None:
    text = '[[users]]\npass = "env:A"\n[[users]]\npassword = "file:b"\n[[users]]\npassword = "c"\n'
    assert layout(text).tables_here == {
        "users": [
            {"pass": "in another place"},
            {"password": "in another place"},
            {"password": "c"},
        ]
    }
    assert layout("").tables_here == {}


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "the name is empty; give one"),
        (" \t", "the name is empty; give one"),
        ("a\x00b", "the name 'a\\x00b' has a character that cannot be printed"),
        ("\x9b31m", "the name '\\x9b31m' has a character that cannot be printed"),
    ],
)
def test_given_a_name_that_cannot_be_shown_then_refused(name: str, why: str) -> None:
    with pytest.raises(CliError) as caught:
        checked_name(name)
    assert str(caught.value) == why
    assert checked_name("Ålice @ home") == "Ålice @ home"


pieces = st.sampled_from(
    [
        '[[users]]\nuser = "u{}"\n',
        '[[users]]\nuser = "u{}"\n\n[users.permissions]\npublish = ["a",\n "b"]\n',
        '[[users]] # {}\npass = "p"\nusername = "u{}"\n',
        "# comment {}\n",
        "\n",
    ]
)


@given(st.lists(pieces, max_size=8), st.integers(0, 7), st.booleans())
def test_given_any_file_when_changed_then_what_it_means_is_what_was_wanted(
    parts: list[str], which: int, defaults: bool
) -> None:
    text = "".join(part.replace("{}", str(at)) for at, part in enumerate(parts))
    text += "[default_permissions]\npublish = []\n" if defaults else ""
    before = layout(text)
    after = before.with_user(NEW)
    assert after.tables == {**before.tables, "users": [*before.users, NEW]}
    assert after.text.replace(BLOCK, "").replace(BLOCK[1:], "") in (text, text + "\n")
    assume(before.users)
    at = which % len(before.users)
    left = [*before.users[:at], *before.users[at + 1 :]]
    assert before.without(at).users == left
    gone = set(text.splitlines()) - set(before.without(at).text.splitlines())
    changed = before.with_password(at, "new")
    assert changed.users[at].get("password", changed.users[at].get("pass")) == "new"
    assert len([line for line in gone if line.startswith("# comment")]) <= len(parts)
