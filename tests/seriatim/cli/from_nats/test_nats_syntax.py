"""nats-server's format: what we read is what nats-server reads, and errors say where they are."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seriatim.cli.from_nats.nats_syntax import NatsConfigError, NatsValue, read_nats_config
from tests.seriatim.cli.from_nats.oracle import digest, judged, plain
from tests.support.depth import examples

UNCHECKED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
ENVIRONMENT = {"WORD": "word", "TEXT": '"two words"', "COUNT": "7k", "YES": "on", "OUTER": "$WORD"}

# Files that nats-server accepts.
ACCEPTED = (
    "port 4222",
    "port:4222",
    "PORT = 4222 # a comment",
    "port:4222;debug:true",
    "port:4222,debug:true,",
    '{ "port": 4222, "debug": true }',
    '{\n  "port": 4222,\n  "server_tags": ["a", "b"]\n}\n',
    "{{debug: true}}",
    "debug: true\n}",
    "debug: TRUE",
    "debug: On;",
    "debug: yes",
    "debug: no /",
    "port: 4222\nport: 4223",
    "// only\nport: 5 // a port",
    "authorization { user: a, pass: b }",
    "authorization\n{user=a\npass=b\n}",
    "authorization {\n# c\nuser: a # d\n// e\n}",
    "authorization: {user a; pass b}",
    "authorization: {user:\na,pass: b}",
    "authorization: {user\na,pass: b}",
    "authorization {\"user\": \"a\", 'pass': 'b'}",
    "authorization { include 'auth.inc' }",
    "include other.conf",
    'INCLUDE "other.conf"',
    "include 'deeper/more.conf'\nport: 5",
    "pid_file: (\nabc\n  )\n)\n",
    'pid_file: "a\\tb\\x41\\xc3\\xa9\\"\\\\"',
    "server_name: a\\x41b",
    "pid_file: 'a\nb'",
    "server_name: 4abc",
    "server_name: 4222'b",
    "server_name: a#b",
    "server_name: a // b",
    'server_name: "a"//b',
    "server_name: a/b:c={(",
    "server_name: x'",
    "server_name: ,debug: true",
    "server_name\nabc",
    "server_name:",
    "server_name: ''",
    'server_name: "$WORD"',
    "server_name: $WORD",
    "server_name: $OUTER",
    "ping_interval: 1m30s",
    "ping_interval: 1h2m3s",
    "ping_interval: '5s'",
    *(f"max_payload: 1{unit}" for unit in ("k", "K", "kb", "kib", "Ki", "m", "MB", "mib", "")),
    *(f"max_pending: 3{unit}" for unit in ("g", "Gb", "GiB", "t", "TB", "p", "Pib", "e", "ei")),
    "max_connections: -1",
    "max_connections: $COUNT",
    "debug: $YES",
    "authorization { timeout: 1.5 }",
    "authorization { timeout: -0.25 }",
    "listen: 127.0.0.1:4222",
    "listen: localhost:4222",
    "server_tags [a\nb]",
    "server_tags [a,b,]",
    "server_tags: [a, # c\n\n b]",
    "server_tags: [1.2.3.4, 5x,'6', $WORD, \"$WORD\"]",
    "X: foo\nserver_name: $X",
    "X: [a, b]\nserver_tags: $X",
    "X: {user: a}\nauthorization: $X",
    "authorization {X: x, users: [{user: $X, pass: $X}]}",
    "authorization {users: [{X: x, user: $X, pass: $2a$04$ab}]}",
    "when: 2027-01-31T23:59:59Z\nname: $when\nserver_tags: []\nserver_name: a",
)
# Files that it refuses for their form.
REFUSED = (
    ("port:4222 debug:true", '1: "d" stands right after the value of "port"; put a comma'),
    ("server_name: 'a''b'", '1: "\'" stands right after the value of "server_name"'),
    ('server_name: "abc"def', '1: "d" stands right after the value'),
    ('server_name: "a\\qb"', "1: only x and two hexadecimal digits, t, n, r, a quote or"),
    ('server_name: "a\n\n', '1: the value that begins here has no " at its end'),
    ("server_name: 'a\n\n", "1: the value that begins here has no ' at its end"),
    ("server_name: (\na )\n", "1: the ( here has no ) in a line of its own after it"),
    ("port: 1\nserver_name: 4-abc", "2: a value begins like a date, and is none such as"),
    ("port: 2027-13-01T00:00:00Z", "1: a value begins like a date, and is none such as"),
    ("port: 4.5abc", '1: "a" stands right after'),
    ("port: 4.x", "1: the dot of a number is not followed by a digit"),
    ("port: -x", "1: a minus is not followed by a digit"),
    ("port: .5", "1: a value begins with a dot"),
    ("port: 99999999999999999999", '1: "99999999999999999999" does not fit into 64 bits'),
    ("/x", "1: a / stands where a key should; a comment begins with //"),
    (":a", "1: a : stands where a key should"),
    ("server_name", '1: "server_name" has no value'),
    ("debug: true\nserver_name  \n", '2: "server_name" has no value'),
    ("server_name:\ndebug: true", '1: "server_name" has no value in its line'),
    ("authorization: {user:, pass: b}", '1: "user" has no value'),
    ("authorization: {user: a pass: b}", '1: "p" stands right after the value of "user"'),
    ("authorization: {\nuser: a\n\n", "4: the { of line 1 is not closed; add a }"),
    ("authorization: {\nuser: a\n]", "3: a ] stands inside the { of line 1"),
    ("server_tags [a b]", '1: "b" stands right after a value in a list'),
    ("server_tags: [\na\n", "3: the [ of line 1 is not closed; add a ]"),
    ("server_tags: [,a]", "1: a comma stands where a value should"),
    ("server_name: $NOWHERE", '1: "$NOWHERE" is neither a key above it nor a variable'),
    ("server_name: $2b$11$abc", '1: "$2b$11$abc" is neither a key above it nor a variable of th'),
    ("server_name: $X\nX: x", '1: "$X" is neither a key above it'),
    ("server_name: $BROKEN", '1: the value of the environment variable "BROKEN" is not one value'),
    ("port: 1\ninclude 'nowhere.conf'", '2: "nowhere.conf", which is included, cannot be read: No'),
    ("include 'broken.conf'", '3: "d" stands right after'),
    ("include [a]", "1: include needs the name of a file"),
)
# What it takes for something odd.
ODD = (
    ("authorization: {user: }", '1: "user" has no value; write one after it'),
    ("max_payload: 1kbb", '1: "1kbb" is not a size; give 1kb'),
    ("max_payload: 10e", '1: "10e" does not fit into 64 bits'),
    ('debug: true\n"', '2: the key that begins here has no " at its end'),
    ("include 'loop.conf'", '1: "loop.conf" includes itself, or too many files include others'),
    ("a: " + "[" * 60, "1: more than 50 blocks and lists are in one another"),
    ("a: $SELF", '1: the value of the environment variable "SELF" is not one value'),
    ('a: "\\xff"', r"1: the bytes that \x gives are not text in UTF-8"),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with files to include."""
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "more.conf").write_text("include 'most.conf'\nmax_subs: 5\n")
    (tmp_path / "deeper" / "most.conf").write_text("max_payload: 1kb\n")
    (tmp_path / "other.conf").write_text("debug: true\nX: y\nserver_name: $X\n")
    (tmp_path / "auth.inc").write_text("user: a, pass: b\n")
    (tmp_path / "broken.conf").write_text("\n\nport: 1 debug: true\n")
    (tmp_path / "loop.conf").write_text("include 'loop.conf'\n")
    return tmp_path


def read(folder: Path, text: str) -> dict[str, NatsValue]:
    path = folder / "nats.conf"
    path.write_text(text)
    return read_nats_config(str(path), {**ENVIRONMENT, "BROKEN": "a b", "SELF": "$SELF"})


@pytest.mark.parametrize("text", ACCEPTED)
def test_given_what_nats_server_accepts_then_it_means_the_same(folder: Path, text: str) -> None:
    config = read(folder, text)
    accepted, said = judged(folder / "nats.conf", ENVIRONMENT)
    if "when:" in text:  # no setting takes a date
        assert "unknown field" in said
        assert plain(config["name"]) == "2027-01-31T23:59:59Z"
    else:
        assert digest(config) == accepted, said


@pytest.mark.parametrize(("text", "why"), REFUSED)
def test_given_what_nats_server_refuses_then_the_line_and_the_remedy_are_told(
    folder: Path, text: str, why: str
) -> None:
    with pytest.raises(NatsConfigError) as caught:
        read(folder, text)
    file = "broken" if "broken.conf" in text else "nats"
    assert str(caught.value).startswith(f"{folder}/{file}.conf:{why}")
    accepted, said = judged(folder / "nats.conf", {**ENVIRONMENT, "BROKEN": "a b"})
    assert not accepted
    assert "unknown field" not in said


@pytest.mark.parametrize(("text", "why"), ODD)
def test_given_nonsense_that_nats_server_does_not_notice_then_it_is_an_error(
    folder: Path, text: str, why: str
) -> None:
    with pytest.raises(NatsConfigError) as caught:
        read(folder, text)
    file = "loop" if "loop.conf" in text else "nats"
    assert str(caught.value).startswith(f"{folder}/{file}.conf:{why}")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"port: 5\n\xff", "nats.conf:2: is not text in UTF-8"),
        (b"# long\n" * (3 << 20), "nats.conf: is longer than 16 MiB"),
        (None, "nats.conf: cannot be read: No such file"),
    ],
)
def test_given_a_file_that_is_no_text_then_that_is_said(
    tmp_path: Path, content: bytes | None, why: str
) -> None:
    if content is not None:
        (tmp_path / "nats.conf").write_bytes(content)
    with pytest.raises(NatsConfigError) as caught:
        read_nats_config(str(tmp_path / "nats.conf"), {})
    assert str(caught.value).startswith(f"{tmp_path}/{why}")


def test_given_a_configuration_then_each_value_knows_its_lines(folder: Path) -> None:
    config = read(
        folder,
        "debug: true\n\nauthorization {\n  users = [\n    {user: a,\n     pass: $WORD}\n  ]\n}\n"
        "include 'deeper/more.conf'\n",
    )
    authorization = config["authorization"].raw
    assert isinstance(authorization, dict)
    users = authorization["users"].raw
    assert isinstance(users, list)
    user = users[0].raw
    assert isinstance(user, dict)
    assert config["debug"].place == f"{folder}/nats.conf:1"
    assert config["authorization"].place == f"{folder}/nats.conf:3-8"
    assert users[0].place == f"{folder}/nats.conf:5-6"
    assert (user["pass"].line, user["pass"].variable) == (6, "WORD")
    assert config["max_payload"].place == f"{folder}/deeper/most.conf:1"


# Any file at all: it is read, or an error says where it is wrong.

PIECES = (
    *("a", "port", "include", "'x.conf'", "4222", "-5", "1k", "2mb", "1m30s", "1.5", "1.2.3.4"),
    *("true", "$a", "$WORD", "$SELF", '"x"', "'y'", "\\x41", "\\n", "\\", "$2a$1", "2027-01-01T"),
    *"{}[]():=,; \t\n/#\"'-.é\0",
    *("\r\n", "//", "\n)\n"),
)


@settings(max_examples=examples(400), deadline=None, suppress_health_check=UNCHECKED)
@given(st.lists(st.sampled_from(PIECES), max_size=20).map("".join) | st.text(max_size=40))
def test_given_any_text_then_it_is_read_or_the_error_has_its_line(
    tmp_path: Path, text: str
) -> None:
    path = tmp_path / "nats.conf"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        config = read_nats_config(str(path), {**ENVIRONMENT, "SELF": "$SELF"})
    except NatsConfigError as error:
        assert re.match(rf"{re.escape(str(path))}:[0-9]+: \S", str(error))  # noqa: PT017
    else:
        json.dumps(plain(config))


# A configuration that is written in any of the ways that there are.

NAMES = st.text("abcxyz_", min_size=1, max_size=6).filter(
    lambda name: name not in ("include", "yes", "no")
)
TEXTS = st.text(
    st.characters(codec="utf-8", exclude_characters="\0", exclude_categories=["Cs"]), max_size=12
)
BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_.@<>&-]*")


def written(draw: Any, text: str) -> str:
    """A text in one of its forms."""
    escaped = draw(st.sets(st.sampled_from(text or "-"))) | set('"\\\r\n')
    forms = ['"' + "".join(_escaped(one) if one in escaped else one for one in text) + '"']
    if "'" not in text:
        forms.append(f"'{text}'")
    if BARE.fullmatch(text) and text.lower() not in ("true", "false", "yes", "no", "on", "off"):
        forms.append(text)
    return str(draw(st.sampled_from(forms)))


def _escaped(character: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in character.encode())


@st.composite
def tables(draw: Any) -> tuple[str, dict[str, str]]:
    """A block of texts, as it is written, and what it means."""
    table: dict[str, str] = {}
    parts = ["server_metadata", draw(st.sampled_from((" ", ": ", "=", "\n"))), "{"]
    for key in draw(st.lists(NAMES, max_size=4, unique=True)):
        text = draw(TEXTS)
        table[key] = text
        parts.append(draw(st.sampled_from(("", "\n", " # note\n", "\t// note\n\n"))))
        name = draw(st.sampled_from((key, f'"{key}"', f"'{key}'")))
        parts += [name, draw(st.sampled_from((": ", "=", " ", " :\n"))), written(draw, text)]
        parts.append(draw(st.sampled_from((",", ";", "\n", " # note\n", " ,\n"))))
    return "".join([*parts, "}", draw(st.sampled_from(("", "\n", ";")))]), table


@settings(max_examples=examples(60), deadline=None, suppress_health_check=UNCHECKED)
@given(tables())
def test_given_any_texts_in_any_form_then_they_are_read_as_nats_server_reads_them(
    tmp_path: Path, pair: tuple[str, dict[str, str]]
) -> None:
    text, table = pair
    path = tmp_path / "nats.conf"
    path.write_bytes(text.encode())
    config = read_nats_config(str(path), {})
    assert plain(config) == {"server_metadata": table}
    accepted, said = judged(path)
    assert digest(config) == accepted, said
