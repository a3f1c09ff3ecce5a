"""Users in `seriatim config`: in its table, as comments of its TOML, and on the reference page."""

import tomllib
from pathlib import Path

from broker.settings.catalog import USER_SETTINGS
from broker.settings.permission_tables import read_permissions
from broker.settings.resolve import Effective, resolve
from broker.settings.user_tables import read_users
from seriatim.cli.explain import as_markdown, as_toml, rows

KEY = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"
SETTINGS = f"""\
[[authorization.users]]
user = "al\\\\ice \\"the\\" 1st"
password = "s3same"
applications = ["a.*"]
publish_rate = 5
publish_bytes = "1MiB"
[authorization.users.permissions]
publish = {{ deny = ["x\\u007fy"] }}
subscribe = ["a q"]
allow_responses = {{ max = -1 }}
[[authorization.users]]
nkey = "{KEY}"
[authorization.default_permissions]
publish = []
"""


def effective(folder: Path, text: str) -> Effective:
    (folder / "broker.toml").write_text(text)
    return resolve({}, {}, str(folder / "broker.toml"))


def test_given_users_when_printed_as_toml_then_the_comments_are_they_without_passwords(
    tmp_path: Path,
) -> None:
    found = effective(tmp_path, SETTINGS)
    text = as_toml(found)
    assert "s3same" not in text
    assert "users" not in tomllib.loads(text)["authorization"]
    place = text.index("# From: authorization.users in ")
    comments = text[place:].splitlines()
    assert comments[0] == (
        f"# From: authorization.users in {tmp_path}/broker.toml. Their passwords are not shown."
    )
    lines = [line.removeprefix("# ") for line in comments if not line.startswith("# From")]
    tables = tomllib.loads("\n".join(lines).replace("[REDACTED]", "s3same"))["authorization"]
    settings, problems = found.settings.authorization, list[str]()
    assert read_users(tables["users"], "", "", problems) == settings.users
    defaults = read_permissions(tables["default_permissions"], "", "", problems)
    assert (defaults, problems) == (settings.default_permissions, [])


def test_given_nobody_when_printed_as_toml_then_there_is_no_comment_about_users() -> None:
    text = as_toml(resolve({}, {}))
    assert "[[authorization.users]]" not in text
    assert "default_permissions" not in text


def test_given_users_when_printed_as_a_table_then_names_and_places_are_there(
    tmp_path: Path,
) -> None:
    (tmp_path / "users.toml").write_text('[[users]]\nuser = "bob"\npassword = "s3same"\n')
    top = f'[authorization]\nusers_file = "{tmp_path}/users.toml"\n'
    found = {path: row for path, *row in rows(effective(tmp_path, top + SETTINGS))}
    assert found["authorization.users"][:2] == [
        f'al\\ice "the" 1st, {KEY}, bob',
        f"authorization.users in {tmp_path}/broker.toml, and users in {tmp_path}/users.toml",
    ]
    assert found["authorization.default_permissions"][:2] == [
        "{ publish = [] }",
        f"authorization.default_permissions in {tmp_path}/broker.toml",
    ]
    many = "".join(f'[[authorization.users]]\nuser = "u{at}"\npassword = "x"\n' for at in range(25))
    found = {path: row for path, *row in rows(effective(tmp_path, many))}
    assert found["authorization.users"][0].endswith(", u19 and 5 more")
    nobody = {path: row for path, *row in rows(resolve({}, {}))}
    assert nobody["authorization.users"][:2] == ["none", "default"]
    assert nobody["authorization.default_permissions"][:2] == ["none", "default"]


def test_given_the_reference_page_when_read_then_every_setting_of_a_user_is_explained() -> None:
    page = as_markdown(resolve({}, {}))
    section = page[page.index("## Users: `[[authorization.users]]`") :]
    for name, setting in USER_SETTINGS.items():
        assert f"| `{name}` | " in section
        assert setting.about in section


def test_given_the_example_of_the_page_when_read_then_it_is_one(tmp_path: Path) -> None:
    page = as_markdown(resolve({}, {}))
    start = page.index("    [[authorization.users]]\n")
    example = page[start : page.index("\n- **A list**")].replace("$2b$11$...", "s3same")
    (alice,) = effective(tmp_path, example).settings.authorization.users
    assert alice.permissions is not None
    assert alice.permissions.subscribe_deny == ("orders.secret",)
    assert alice.permissions.responses == 5
