"""The command line itself: help, version, and errors that a person can read."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from broker.settings.catalog import SETTINGS
from seriatim.cli import main
from seriatim.cli.flags import REFUSED
from seriatim.settings.usage import USAGE
from tests.seriatim.cli.command import COMMAND, environment, refusal, seriatim

COMMANDS = ("serve", "config", "version", "pub", "sub", "journal")


@pytest.mark.parametrize("arguments", [[], ["-h"], ["--help"]], ids=["none", "-h", "--help"])
def test_given_no_command_when_run_then_it_lists_them(arguments: list[str]) -> None:
    done = seriatim(*arguments)
    assert (done.returncode, done.stderr) == (0, b"")
    assert all(f" {command} ".encode() in done.stdout for command in COMMANDS)


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "version"])
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_given_a_command_when_asked_for_help_then_there_are_examples(
    command: str, flag: str
) -> None:
    done = seriatim(command, flag)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"Examples" in done.stdout
    assert done.stdout.count(f"seriatim {command} ".encode()) >= 3


def test_given_help_when_asked_then_it_has_the_flags_that_people_use_and_all_has_the_others() -> (
    None
):
    common, every = (seriatim("serve", flag).stdout.decode() for flag in ("--help", "--help-all"))
    assert "--help-all" in common
    for setting in SETTINGS.values():
        for flag in setting.flags:
            assert re.search(rf"{flag}\b", every)
        assert bool(re.search(rf"{setting.flag}\b", common)) is setting.common, setting.path
    assert len(common.splitlines()) < 200


def test_given_config_when_run_then_it_has_what_people_use_and_what_is_set_and_all_the_rest() -> (
    None
):
    done = seriatim("config", "--sync_interval", "1s").stdout.decode()
    paths = {line.split()[0] for line in done.splitlines() if line[:1].strip()}
    wanted = {path for path, setting in SETTINGS.items() if setting.common}
    assert paths & SETTINGS.keys() == wanted | {"journal.sync_interval"}
    left = len(SETTINGS) - len(wanted) - 1
    assert done.endswith(f"\n{left} more settings have their defaults: --all shows them.\n")
    text = seriatim("config", "--all").stdout.decode()
    assert {line.split()[0] for line in text.splitlines() if line[:1].strip()} > SETTINGS.keys()
    assert "more settings" not in text


@pytest.mark.parametrize("argument", ["version", "--version", "-v"])
def test_given_version_when_asked_then_it_tells_version_build_python_and_loop(
    argument: str,
) -> None:
    done = seriatim(argument)
    facts = dict(line.split(maxsplit=1) for line in done.stdout.decode().splitlines())
    assert list(facts) == ["seriatim", "build", "python", "loop"]
    assert facts["build"] in ("compiled", "uncompiled")
    assert facts["python"].endswith("{}.{}.{}".format(*sys.version_info))
    assert facts["seriatim"][0].isdigit()


def test_given_version_when_asked_then_nothing_heavy_is_imported() -> None:
    code = "import sys; from seriatim.cli import main; main(['version']); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment()
    )
    heavy = {"nats", "prometheus_client", "uvloop", "tomllib", "asyncio", "numpy"}
    assert not heavy & set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["-p", "4222"], "No such option: -p; flags belong to a command, such as `seriatim serve"),
        (["srve"], "No such command 'srve'"),
        (["pub"], "Missing argument 'SUBJECT'; see `seriatim pub --help`"),
        (["sub"], "Missing argument 'SUBJECT'; see `seriatim sub --help`"),
        (["pub", "a", "b", "c"], "unexpected argument: "),
        (["pub", "a", "b", "--cuont", "1"], "No such option: --cuont"),
        (["pub", "a", "b", "--count", "x"], "--count: "),
        (["pub", "a", "b", "--count", "0"], "--count: "),
        (["version", "x"], "unexpected argument: "),
        (["pub", "a b", "x"], '"a b" is not a valid subject; give words joined by dots'),
        (["pub", "a.*", "x"], '"a.*" has a wildcard; a message is published to one subject'),
        (["pub", "a", "x", "-f", "y"], "give the payload or --file, not both"),
        (["pub", "a", "-f", "/none"], "/none: cannot be read: No such file or directory"),
        (["pub", "a", "x", "-H", "foo"], "\"foo\" is not a header; write -H 'Key: value'"),
        (["pub", "a", "x", "-H", "b d: c"], '"b d: c" is not a header'),
        (["pub", "a", "x", "-H", "b: c\r\nd: e"], "'b: c\\r\\nd: e' is not a header"),
        (
            ["pub", "a", "x", "-H", "K: v", "-H", "K : w"],
            'the header "K" is given twice; a key has',
        ),
        (["pub", "a", "x", "--ack", "--reply", "b"], "the broker's answer takes the place of --re"),
        (["pub", "\udcff", "x"], "'\\udcff' is not a valid subject: it must be UTF-8 here"),
        (
            ["pub", "a", "x", "--reply", "\udcff"],
            "'\\udcff' is not a valid subject: it must be UTF-8 here",
        ),
        (["sub", "a.\udcff"], "'a.\\udcff' is not a valid subject: it must be UTF-8 here"),
        (
            ["sub", "a", "-q", "x y"],
            '"x y" is not a valid name for a queue group; give one without spaces',
        ),
        (
            ["sub", "a", "-q", ""],
            "-q needs the name of a queue group; leave it out to get every message",
        ),
        (
            ["sub", "a", "-q", "\udcff"],
            "'\\udcff' is not a valid name for a queue group; give one in UTF-8",
        ),
        (
            ["serve", "--exclude", "\udcff"],
            "--exclude: entry 1: '\\udcff' is not a valid subject: it must",
        ),
        (
            ["serve", "-a", ""],
            '--addr: "" is not an address; give an IP address or a host name, or',
        ),
        (
            ["pub", "a", "x", "-s", "http://x"],
            '"http://x" is not the address of a broker; give nats://',
        ),
        (["pub", "a", "x", "-s", "h:99999"], '"h:99999" is not the address of a broker'),
        (["pub", "a", "x", "-s", "127.0.0.1:1"], "nats://127.0.0.1:1: connection refused: no bro"),
        (["sub", "a", "-s", "127.0.0.1:1"], "nats://127.0.0.1:1: connection refused: no broker"),
        (
            ["sub", "orders."],
            '"orders." is not a valid subject: a word between its dots is empty; quote wildcards: '
            "'orders.>'",
        ),
        (["sub", "a..b"], '"a..b" is not a valid subject: a word between its dots is empty'),
        (["sub", "a", "--raw", "--json"], "give one of --raw and --json, not both"),
        (["serve", "x"], '"x": is not a flag; only flags are accepted here'),
        (["serve", "--fame", "none"], "--fame: there is no such flag; did you mean --frame?"),
        (["serve", "--qqqq"], "--qqqq: there is no such flag; --help lists the flags"),
        (["serve", "--no-jurnal"], "--no-jurnal: there is no such flag; did you mean --no-journal"),
        (
            ["serve", "--window_bytes", "1MiB"],
            "--window_bytes: several settings have this key; give --cluster_window_bytes or"
            " --journal_window_bytes",
        ),
        (["serve", "--retain_bytes", "2T"], '--retain_bytes: "2T" is ambiguous; give 2TiB (of'),
        (["serve", "-p"], "-p: needs a value"),
        (["serve", "-p", "-D"], "-p: needs a value"),
        (["serve", "-D=maybe"], '-D: "maybe" is neither true nor false'),
        (["serve", "-p", "65536"], "--port: 65536 is above 65535"),
        (["config", "--format", "xml"], '--format: "xml" is not one of table, toml, markdown'),
        (["config", "-c", "/none"], "/none: cannot be read: No such file or directory"),
    ],
    ids=lambda value: ascii(" ".join(value)) if isinstance(value, list) else "",
)
def test_given_wrong_arguments_when_run_then_one_line_says_so(
    arguments: list[str], told: str
) -> None:
    said = refusal(*arguments)
    assert said.startswith(told)
    assert "\n" not in said


@pytest.mark.parametrize("name", REFUSED)
def test_given_a_flag_of_nats_server_that_is_not_here_when_used_then_refused_by_name(
    name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    dashes = "-" if len(name) <= 3 else "--"
    value = ["x"] if REFUSED[name][1] else []
    assert main(["serve", f"{dashes}{name}", *value]) == USAGE
    said = capfd.readouterr().err
    assert said.startswith(f"seriatim: {dashes}{name}: ")
    assert said.count("\n") == 1


def test_given_wrong_flags_and_a_wrong_file_when_run_then_all_are_reported_at_once(
    tmp_path: Path,
) -> None:
    file = tmp_path / "broker.toml"
    file.write_text("prot = 1\n")
    said = refusal("serve", "--syslog", "-p", "x", "-c", str(file), env={"SERIATIM_DEBUG": "y"})
    lines = said.splitlines()
    assert lines[0] == "4 settings are wrong:"
    paths = ["--syslog", "--port", "SERIATIM_DEBUG", f"prot in {file}"]
    assert [line.strip().partition(": ")[0] for line in lines[1:]] == paths


@pytest.mark.parametrize("command", [["config", "--format", "toml"], ["version"], ["config"]])
def test_given_nobody_reads_when_printing_then_it_ends_in_silence(command: list[str]) -> None:
    line = f"'{COMMAND}' {' '.join(command)} | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, check=True, env=environment()
    )
    assert done.stderr == ""
    assert done.stdout in ("0\n", "1\n")  # by chance: whether it had written before


@pytest.mark.parametrize("command", [["config", "--format", "toml"], ["version"], ["config"]])
def test_given_a_full_disk_when_printing_then_one_line_says_so(command: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [COMMAND, *command],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env=environment(),
        )
    assert done.returncode == 1
    assert done.stderr == "seriatim: input or output: No space left on device\n"


@pytest.mark.parametrize("form", ["table", "toml", "markdown"])
def test_given_settings_when_printed_then_value_and_origin_are_there(form: str) -> None:
    given = ("config", "--all", "-p", "4777", "--format", form)
    done = seriatim(*given, env={"SERIATIM_FRAME": "header"})
    text = done.stdout.decode()
    assert (done.returncode, done.stderr) == (0, b"")
    assert "4777" in text
    assert "--port" in text
    assert "SERIATIM_FRAME" in text
    assert all(setting.name in text for setting in SETTINGS.values())


@pytest.mark.parametrize(
    "arguments",
    [
        "pub a b --count x",
        "pub",
        "sub a --from 3 --to 2",
        "sub a --since 1679909168",
        "sub a --since nonsense",
        "sub a --server ftp://x",
        "sub a..b",
        "pub a b -H nocolon",
        "user add u --publish a..b",
        "nope",
        "serve --nope",
        "serve -p abc",
        "config --format x",
        "check --nope",
        "check nats://127.0.0.1:1 --publish a.*",
        "journal truncate",
        "journal cat --raw --json",
        "cluster status --nope",
        "user add",
        "cardinal produce",
        "cq --nope",
        "spark nope",
        "spark archive",
        "spark audit",
        "spark stats --top 0",
    ],
)
def test_given_wrong_arguments_then_the_status_is_the_same_in_each_command(
    arguments: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments.split()) == 64
    assert capfd.readouterr().err.startswith("seriatim: ")


def test_given_right_arguments_and_a_failure_then_the_status_is_another(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["journal", "info", str(tmp_path / "none")]) == 1
    file = tmp_path / "broker.toml"
    file.write_text("port = 99999\n")
    assert main(["serve", "-c", str(file)]) == 1


@pytest.mark.parametrize(
    ("arguments", "module"),
    [
        ("version", "seriatim.cli.errors"),
        ("version", "typer"),
        ("serve -a 127.0.0.1 -p -1 --no-journal", "seriatim"),
        ("serve -a 127.0.0.1 -p -1 --no-journal", "broker.settings.errors"),
        ("serve -a 127.0.0.1 -p -1 --no-journal", "seriatim.cli.serve"),
        ("serve -a 127.0.0.1 -p -1 --no-journal", "broker.launch"),
        ("serve -a 127.0.0.1 -p -1 --no-journal", "asyncio"),
    ],
)
def test_given_a_command_that_is_still_loading_when_interrupted_then_no_traceback(
    arguments: str, module: str
) -> None:
    """`-X importtime` says when a module is loaded, on standard error."""
    command = [sys.executable, "-X", "importtime", COMMAND, *arguments.split()]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=environment()
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.rpartition("|")[2].strip() == module:
                break
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    said = [line for line in rest.splitlines() if not line.startswith("import time:")]
    assert "Traceback (most recent call last):" not in said
    assert not any("KeyboardInterrupt" in line for line in said)
    assert process.returncode in (0, 130, -signal.SIGINT)
