"""What settings of authorization say together: every refusal, and that none shows a secret."""

from pathlib import Path

import bcrypt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.settings.authorization_checks import users_problems, wrong_hash, wrong_nkey
from broker.settings.authorization_settings import UserSettings
from broker.settings.errors import WrongSettings
from broker.settings.resolve import resolve

HASH = "$2b$08$PwCAK91q2gMjHDncpdHUyOKiYCKzdRtf0pyuN1FgEIypi0Z1aiNFK"
KEY = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"
SEED = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY"
USER = {"authorization.user": "ops", "authorization.password": "s3same"}
ALICE = UserSettings(user="alice", password="s3same")


def problems(folder: Path, flags: dict[str, str], *users: str) -> list[str]:
    """What is wrong with these flags, beside these users."""
    tables = "".join(f"[[authorization.users]]\n{one}\n" for one in users)
    (folder / "broker.toml").write_text(tables)
    try:
        resolve(flags, {}, str(folder / "broker.toml"))
    except WrongSettings as wrong:
        return wrong.problems
    return []


@pytest.mark.parametrize(
    "flags",
    [
        {},
        USER,
        {"authorization.token": "s3same"},
        {"authorization.user": "ops", "authorization.password": HASH},
        {**USER, "authorization.no_auth_user": "ops"},
        {**USER, "sequencer.port": "3001", "sequencer.user": "ops"},
        {**USER, "sequencer.port": "3001", "authorization.no_auth_user": "ops"},
        {"sequencer.port": "3001"},
    ],
)
def test_given_settings_that_fit_when_checked_then_nothing_is_wrong(
    tmp_path: Path, flags: dict[str, str]
) -> None:
    assert problems(tmp_path, flags) == []


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (
            {**USER, "authorization.token": "t0ken"},
            "--auth: there is a user as well; give one of the two",
        ),
        ({"authorization.password": "s3same"}, "--pass: there is no user for it; give --user"),
        (
            {"authorization.user": "ops"},
            "--user: has no password; give --pass, or authorization.password in the file",
        ),
        (
            {"authorization.user": "ops", "authorization.password": "$2b$11$s3same"},
            "--pass: is not a bcrypt hash, but begins like one; `seriatim user passwd` makes one",
        ),
        (
            {"authorization.token": HASH.replace("$08$", "$17$")},
            "--auth: its bcrypt cost is 17, so a login takes seconds; give 8 to 16",
        ),
        (
            {**USER, "authorization.no_auth_user": "guest"},
            '--no_auth_user: "guest" is not one of the users; add it, or give another',
        ),
        (
            {"authorization.no_auth_user": "guest"},
            '--no_auth_user: "guest" is not one of the users; add it, or give another',
        ),
        (
            {**USER, "sequencer.port": "3001", "sequencer.user": "cq"},
            '--sequencer_user: "cq" is not one of the users; add it, or give another',
        ),
        (
            {"authorization.token": "s3same", "sequencer.port": "3001"},
            "sequencer.user: is missing; cquencer's clients cannot authenticate, so say which user"
            " they are: give --sequencer_user NAME, or turn the port off",
        ),
    ],
)
def test_given_settings_that_do_not_fit_when_checked_then_it_says_what_to_do(
    tmp_path: Path, flags: dict[str, str], why: str
) -> None:
    assert problems(tmp_path, flags) == [why]


@pytest.mark.parametrize(
    ("flags", "flag"), [(USER, "--user"), ({"authorization.token": "s3same"}, "--auth")]
)
def test_given_users_beside_a_single_one_when_checked_then_refused(
    tmp_path: Path, flags: dict[str, str], flag: str
) -> None:
    assert problems(tmp_path, flags, 'user = "a"\npassword = "b"') == [
        f"{flag}: there are users as well; give this one as a user among them"
    ]


def test_given_a_users_file_without_users_when_checked_then_the_broker_is_not_left_open(
    tmp_path: Path,
) -> None:
    (tmp_path / "users.toml").write_text("# all are gone\n")
    flags = {"authorization.users_file": str(tmp_path / "users.toml")}
    assert problems(tmp_path, flags) == [
        "--users_file: it has no user, so everybody could do everything; `seriatim user add` adds"
        " one, or leave the setting out"
    ]
    assert problems(tmp_path, flags, 'user = "a"\npassword = "b"') == []


@pytest.mark.parametrize(
    ("users", "found"),
    [
        ([ALICE, UserSettings(nkey=KEY), UserSettings(user="b", password=HASH)], []),
        (
            [UserSettings(user="alice", password="s3same", nkey=KEY)],
            ['user "alice": has an nkey, and a name or a password; give one of the two'],
        ),
        (
            [UserSettings(nkey=KEY, password="s3same")],
            [f'user "{KEY}": has an nkey, and a name or a password; give one of the two'],
        ),
        (
            [ALICE, UserSettings(nkey=SEED)],
            ["user 2: the nkey is a seed, which is secret; give the public key, U..."],
        ),
        (
            [UserSettings(nkey=KEY[:-1])],
            [
                "user 1: the nkey is not the public key of a user: U and 55 letters or digits 2-7",
            ],
        ),
        (
            [UserSettings(nkey=f"{KEY[:-1]}5")],
            ["user 1: the nkey has a letter that is wrong: its checksum does not fit"],
        ),
        (
            [UserSettings(password="s3same")],
            ["user 1: has no name; give user and password, or nkey"],
        ),
        (
            [UserSettings(user="alice")],
            ['user "alice": has no password; `seriatim user passwd` makes one'],
        ),
        (
            [UserSettings(user="alice", password="$2a$11$s3same")],
            [
                'user "alice": is not a bcrypt hash, but begins like one; `seriatim user passwd`'
                " makes one"
            ],
        ),
        ([ALICE, ALICE], ['user "alice": is there twice; leave out one of them']),
        (
            [UserSettings(nkey=KEY), UserSettings(nkey=KEY)],
            [f'user "{KEY}": is there twice; leave out one of them'],
        ),
        (
            [UserSettings(user=f"u{at}") for at in range(8)],
            [
                *(
                    f'user "u{at}": has no password; `seriatim user passwd` makes one'
                    for at in range(5)
                ),
                "and 3 more problems with users",
            ],
        ),
    ],
)
def test_given_users_when_checked_then_each_problem_is_named_without_a_secret(
    users: list[UserSettings], found: list[str]
) -> None:
    assert users_problems(users, by_certificate=False) == found
    assert not any(secret in line for line in found for secret in ("s3same", SEED))


def test_given_certificates_when_checked_then_users_need_no_password() -> None:
    assert users_problems([UserSettings(user="alice")], by_certificate=True) == []


@given(st.sampled_from("abxy"), st.integers(0, 40), st.text("./Oeu2-zZ", min_size=53, max_size=53))
def test_given_any_text_like_a_hash_when_checked_then_bcrypt_agrees(
    version: str, cost: int, rest: str
) -> None:
    text = f"$2{version}${cost:02}${rest}"
    cheap = f"$2{version}$04${rest}" if 4 <= cost <= 31 else text
    try:
        bcrypt.checkpw(b"", cheap.encode())
        usable = "-" not in rest[22:]  # bcrypt does not look at the digest
    except ValueError:
        usable = False
    refused = wrong_hash(text).startswith("is not a bcrypt hash")
    assert refused is not usable


def test_given_texts_that_are_no_hashes_when_checked_then_they_are_plain_passwords() -> None:
    assert [wrong_hash(text) for text in ("", "s3same", "$1$abc", "$2$", HASH)] == [""] * 5
    assert wrong_nkey(KEY) == ""
