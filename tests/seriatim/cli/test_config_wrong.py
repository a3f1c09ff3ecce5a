"""Invalid settings: all reported together, each with its path, the problem, and the remedy."""

import contextlib
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker.settings.catalog import SETTINGS
from broker.settings.errors import WrongSettings
from broker.settings.resolve import resolve
from seriatim.cli.flags import Flag, normalise
from tests.support.depth import examples

UNCHECKED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
ANY: dict[str, Any] = {
    "max_examples": examples(200),
    "deadline": None,
    "suppress_health_check": UNCHECKED,
}


def problems(
    file: Path | None = None, flags: dict[str, Any] | None = None, **environment: str
) -> list[str]:
    with pytest.raises(WrongSettings) as caught:
        resolve(flags or {}, environment, str(file) if file else None)
    return caught.value.problems


def in_file(folder: Path, text: str) -> list[str]:
    """The problems of a file, with its name left out."""
    file = folder / "broker.toml"
    file.write_text(text)
    return [problem.replace(f" in {file}", "") for problem in problems(file)]


@pytest.mark.parametrize(
    ("toml", "problem"),
    [
        ('port = "4222"', 'port: "4222" is not a port; give 1 to 65535, or -1 for any free port,'),
        ("port = 65536", "port: 65536 is above 65535; give 1 to 65535, or -1"),
        (
            "port = 0",
            "port: 0 turns this port off, and no other port is set; give 1 to 65535, -1",
        ),
        ("port = true", "port: true is not a port"),
        ("port = 4222.5", "port: 4222.5 is not a port"),
        ("debug = 1", "debug: 1 is not a flag; give true or false"),
        ('debug = "yes"', 'debug: "yes" is not a flag; give true or false, without quotes'),
        ("server_name = 5", "server_name: 5 is not a string; give a string"),
        ('server_name = "a b"', 'server_name: "a b" contains a space'),
        ('server_name = "a\\u0007"', "server_name: 'a\\x07' holds a character"),
        (
            'frame = "netsring"',
            'frame: "netsring" is not one of netstring, header, stamp, none; did you',
        ),
        ("frame = 5", "frame: 5 is not a choice; give netstring, header, stamp, none"),
        (
            'host = "127.0.0.1:4222"',
            'host: "127.0.0.1:4222" is not an address; give it without a port',
        ),
        ('host = "a b"', 'host: "a b" is not an address'),
        ("hots = 1", "hots: there is no such setting; did you mean host?"),
        ("zzzzzz = 1", "zzzzzz: there is no such setting; `seriatim config` shows what there is"),
        ("max_payload = 5", "max_payload: there is no such setting; did you mean limits.max_pay"),
        ("Max-Payload = 5", "Max-Payload: there is no such setting; did you mean limits.max_pay"),
        ("[limits]\nport = 5", "limits.port: there is no such setting; did you mean port? It bel"),
        ("max_subs = 5", "max_subs: there is no such setting; did you mean limits.max_subscript"),
        ('logfile = "x"', "logfile: there is no such setting; did you mean log_file?"),
        ("limits = 5", "limits: is a table; write [limits]"),
        ("[limits]\nmax_payload = 0", "limits.max_payload: 0 is below 1; give 1 to 64MiB"),
        ('[limits]\nmax_payload = "1M"', 'limits.max_payload: "1M" is ambiguous; give 1MiB (of 10'),
        ('[limits]\nmax_payload = "0.3B"', 'limits.max_payload: "0.3B" is not a whole number of'),
        ('[limits]\nmax_payload = "much"', 'limits.max_payload: "much" is not a size; give bytes'),
        ("[limits]\nmax_payload = 1.5", "limits.max_payload: 1.5 is not a size"),
        ("[limits]\nmax_payload = -1", "limits.max_payload: -1 is below 1; give 1 to 64MiB"),
        ('[limits]\nping_interval = "5x"', 'limits.ping_interval: "5x" is not a duration; give s'),
        ("[limits]\nping_interval = inf", "limits.ping_interval: inf is above 24h; give 10ms to"),
        ("[limits]\nping_interval = nan", "limits.ping_interval: nan is below 10ms; give 10ms"),
        ("[limits]\nping_interval = 1979-05-27", "limits.ping_interval: 1979-05-27 is not a dur"),
        ("[limits]\nping_interval = [1]", "limits.ping_interval: this list is not a duration"),
        ("[sequencer]\nexclude = 'a'", 'sequencer.exclude: "a" is not a list; give a list of'),
        ("[sequencer]\nexclude = [1]", "sequencer.exclude: entry 1: 1 is not a string; give a sub"),
        (
            "[sequencer]\nexclude = ['>.a']",
            'sequencer.exclude: entry 1: ">.a" is not a valid subject: ">',
        ),
        (
            "[sequencer]\nexclude = ['a..b', 'ok', 3, '']",
            'sequencer.exclude: entry 1: "a..b" is not a valid subject: a word between its dots is'
            " empty; entry 3: 3 is not a string; give a subject in quotes;"
            ' entry 4: "" is not a valid subject; give words joined by dots, without spaces',
        ),
        (
            "[sequencer]\nexclude = [1, [], true, {}, 5]",
            "sequencer.exclude: entry 1: 1 is not a string; give a subject in quotes; entry 2: this"
            " list is not a string; give a subject in quotes; entry 3: true is not a string; give a"
            " subject in quotes; and 2 more",
        ),
        (
            'host = ""',
            'host: "" is not an address; give an IP address or a host name, or 0.0.0.0 for',
        ),
        ('host = "[]"', 'host: "[]" is not an address; give an IP address or a host name'),
        ('[[listener]]\nhost = ""\nport = 1', 'listener[1].host: "" is not an address; give an IP'),
        ("[listener]\nport = 1", "listener: is a list of tables; write [[listener]]"),
        ("[[listener]]", "listener[1].port: is missing; give 1 to 65535, or -1 for any free port"),
        ("[[listener]]\nport = 0", "listener[1].port: 0 is not a port to listen on"),
        ("[[listener]]\nport = 1\nfrme = 1", "listener[1].frme: there is no such setting; did yo"),
        ("[[listener]]\nport = 4222", "listener: the listener 0.0.0.0:4222,frame=netstring and t"),
        ("http_port = 4222", "http_port: monitoring and the first listener would share port 4222"),
        ("pid_file = 'a'\nlog_file = 'a'", "pid_file: is the log file as well"),
        (
            "[limits]\nmax_pending = 5000",
            "limits.max_pending: 5000 is below max_payload, which is 1MiB by default: every",
        ),
        (
            "[limits]\ncatchup_pending = '65MiB'",
            "limits.catchup_pending: 65MiB is above max_pending, which is 64MiB by default: a sub",
        ),
        (
            "[limits]\nhold_pending = '2MiB'",
            "limits.hold_pending: cannot be set any more, and is always 1MiB; leave it out",
        ),
        ("journal = true", "journal: is a table; write [journal]"),
        ("retain_bytes = 1", "retain_bytes: there is no such setting; did you mean journal.retain"),
        ("[journal]\nsync = 'often'", 'journal.sync: "often" is not one of never, interval, alw'),
        ("[journal]\nsegment_bytes = 1", "journal.segment_bytes: 1 is below 64KiB; give 64KiB to"),
    ],
)
def test_given_a_wrong_line_when_read_then_it_is_reported_with_its_remedy(
    tmp_path: Path, toml: str, problem: str
) -> None:
    assert in_file(tmp_path, toml)[0].startswith(problem)


@pytest.mark.parametrize(
    ("variables", "problem"),
    [
        ({"SERIATIM_PORT": "abc"}, 'SERIATIM_PORT: "abc" is not a port; give 1 to 65535'),
        ({"SERIATIM_DEBUG": "maybe"}, 'SERIATIM_DEBUG: "maybe" is neither true nor false'),
        ({"SERIATIM_LISTEN": "x"}, 'SERIATIM_LISTEN: "x" is not a listener; give HOST:PORT or'),
        ({"SERIATIM_LISTEN": "h:1,a=b"}, 'SERIATIM_LISTEN: "a=b" is not an option of a listener'),
        (
            {"SERIATIM_LISTEN": "1:2,frame=none,frame=header"},
            'SERIATIM_LISTEN: "1:2,frame=none,frame=header" gives frame= more than once; give it',
        ),
        ({"SERIATIM_LISTEN": "h:1,frame=x"}, 'SERIATIM_LISTEN: frame: "x" is not one of net'),
        ({"SERIATIM_LIMITS_PING_MAX": "9" * 5000}, 'SERIATIM_LIMITS_PING_MAX: "999'),
    ],
)
def test_given_a_wrong_variable_when_read_then_it_is_reported(
    variables: dict[str, Any], problem: str
) -> None:
    (told,) = problems(**variables)
    assert told.startswith(problem)
    assert len(told) < 200


def test_given_many_wrong_settings_when_read_then_all_are_reported_in_one_go(
    tmp_path: Path,
) -> None:
    file = tmp_path / "broker.toml"
    file.write_text("port = 'a'\nhots = 1\n[limits]\nmax_payload = 0\n[[listener]]\n")
    told = problems(file, {"frame": "x", "port": "y"}, SERIATIM_DEBUG="z", SERIATIM_PORT="-2")
    assert [problem.partition(":")[0] for problem in told] == [
        "--frame",
        "--port",
        "SERIATIM_DEBUG",
        "SERIATIM_PORT",
        f"port in {file}",
        f"hots in {file}",
        f"limits.max_payload in {file}",
        f"listener[1].port in {file}",
    ]


def test_given_one_wrong_value_when_compared_with_others_then_only_it_is_reported() -> None:
    flags = {"limits.max_payload": "1TiB", "limits.max_pending": "4KiB"}
    assert [problem.partition(":")[0] for problem in problems(None, flags)] == [
        "--max_payload",
        "--max_pending",  # below catchup_pending's default; max_payload is not compared with it
    ]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"a = [", "is not TOML: "),
        (b"port: 4222", "is not TOML, but looks like a configuration of nats-server; "),
        (b"\xff\xfe", "is not TOML: it is not text"),
        (b"a = " + b"[" * 100_000, "is not TOML"),
        (b"port = " + b"9" * 10_000, ""),
        (b"# long\n" * 200_000, "is longer than 1 MiB"),
    ],
    ids=["unfinished", "nats", "binary", "deep", "huge number", "long"],
)
def test_given_a_file_that_is_no_toml_when_read_then_one_line_says_so(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    file = tmp_path / "broker.toml"
    file.write_bytes(content)
    (told,) = problems(file)
    assert told.startswith(f"{file}: {reason}") or not reason
    assert len(told) < 400


def test_given_a_file_that_cannot_be_read_when_read_then_one_line_says_so(tmp_path: Path) -> None:
    (told,) = problems(tmp_path / "none.toml")
    assert told == f"{tmp_path}/none.toml: cannot be read: No such file or directory"
    (told,) = problems(tmp_path)
    assert told == f"{tmp_path}: cannot be read: Is a directory"


def test_given_a_pipe_that_nobody_writes_to_when_named_as_a_file_then_it_is_refused(
    tmp_path: Path,
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    (told,) = problems(pipe)
    assert told == f"{pipe}: is not a regular file; give a file of TOML"


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        ({"port": "70000"}, "--port: 70000 is above 65535"),
        ({"port": "4e3"}, '--port: "4e3" is not a port'),
        ({"port": "１２"}, '--port: "１２" is not a port'),  # noqa: RUF001 - other digits
        ({"listeners": [":4222"]}, "--listen: the listener 0.0.0.0:4222,frame=netstring and th"),
        (
            {"limits.max_payload": "64MiB", "limits.max_pending": "2MiB"},
            "--max_payload: 64MiB is above max_pending (2MiB, from --max_pending): every subscr",
        ),
    ],
)
def test_given_a_wrong_flag_when_read_then_it_is_reported(
    flags: dict[str, Any], problem: str
) -> None:
    assert problems(None, flags)[0].startswith(problem)


def test_given_ports_that_only_look_alike_when_compared_then_nothing_is_reported() -> None:
    resolve({"host": "127.0.0.1", "listeners": ["127.0.0.2:4222", "[::1]:4222"]}, {})
    resolve({"port": "-1", "http_port": "-1", "listeners": ["0.0.0.0:-1"]}, {})


keys = st.sampled_from([*SETTINGS, "listener", "limits", "x"]) | st.text(max_size=8)
values = st.integers() | st.text(max_size=8) | st.booleans() | st.floats() | st.lists(st.integers())


@settings(**ANY)
@given(st.dictionaries(keys, values, max_size=6))
def test_given_any_environment_when_resolved_then_it_is_taken_or_reported(
    raw: dict[str, object],
) -> None:
    environment = {f"SERIATIM_{key.upper().replace('.', '_')}": str(v) for key, v in raw.items()}
    environment.pop("SERIATIM_CONFIG", None)
    with contextlib.suppress(WrongSettings):
        resolve({}, environment)


@settings(**ANY)
@given(st.binary(max_size=200) | st.text(alphabet="[]{}=.\"' \nabport1limits", max_size=80))
def test_given_any_file_when_read_then_it_is_taken_or_reported(
    tmp_path: Path, content: bytes | str
) -> None:
    file = tmp_path / "broker.toml"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    with contextlib.suppress(WrongSettings):
        resolve({}, {}, str(file))


words = st.sampled_from(["-p", "--port", "-DV", "-D=x", "--no-debug", "-1", "4222", "--", "-", "="])


@settings(**ANY)
@given(st.lists(words | st.text(max_size=6).map(lambda text: f"-{text}"), max_size=6))
def test_given_any_arguments_when_brought_into_form_then_each_is_known_or_reported(
    argv: list[str],
) -> None:
    done = normalise(argv, {"help": Flag("--help", False)})
    assert all(argument.startswith("--") for argument in done.arguments)
    assert len(done.arguments) + len(done.problems) <= 2 * len(argv)
    assert bool(argv) == bool(done.arguments or done.problems)
