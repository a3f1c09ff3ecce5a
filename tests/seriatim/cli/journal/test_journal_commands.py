"""`seriatim journal info` and `cat`: what a journal holds, for people and for programs."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from sequencer.journal.high_water import FILE, start
from sequencer.journal.reader import Record
from sequencer.netstring import FrameDecoder
from seriatim.cli import main
from seriatim.cli.errors import FAILED
from seriatim.cli.journal.journal_cat import encoder
from seriatim.settings.usage import USAGE
from tests.sequencer.stores import JOURNAL, WrittenStore, payload_of, records
from tests.seriatim.cli.command import COMMAND, environment, refusal, seriatim

COMMANDS = ("info", "cat", "export", "verify", "truncate", "index")


def cat(path: Path, *arguments: str) -> bytes:
    """What is printed when all is well."""
    done = seriatim("journal", "cat", str(path), *arguments)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


def numbers(path: Path, *arguments: str) -> list[int]:
    """Which messages are printed."""
    return [json.loads(line)["number"] for line in cat(path, "--json", *arguments).splitlines()]


@pytest.mark.parametrize("arguments", [[], ["-h"], ["--help"]], ids=["none", "-h", "--help"])
def test_given_no_command_of_journal_when_run_then_it_lists_them(arguments: list[str]) -> None:
    done = seriatim("journal", *arguments)
    assert (done.returncode, done.stderr) == (0, b"")
    assert all(f" {command} ".encode() in done.stdout for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_given_a_command_of_journal_when_asked_for_help_then_there_are_examples(
    command: str,
) -> None:
    done = seriatim("journal", command, "--help")
    assert done.stdout.count(f"seriatim journal {command}".encode()) >= 4


def test_given_a_journal_when_asked_for_info_then_it_is_a_table(tmp_path: Path) -> None:
    WrittenStore(tmp_path, (1, 10), (11, 20))
    done = seriatim("journal", "info", str(tmp_path))
    text = done.stdout.decode()
    assert (done.returncode, done.stderr) == (0, b"")
    assert f"journal     {JOURNAL}, epoch 1\n" in text
    assert "numbers     1 to 20, 20 messages\n" in text
    assert "times       2023-11-14T22:13:21.000000000Z to 2023-11-14T22:13:40.000" in text
    assert "written by  no running broker found\n" in text
    assert "00000000000000000011.segment" in text


def test_given_a_narrow_terminal_when_asked_for_info_then_no_number_is_cut(tmp_path: Path) -> None:
    WrittenStore(tmp_path, (1, 10), (11, 20))
    wide = seriatim("journal", "info", str(tmp_path)).stdout
    assert seriatim("journal", "info", str(tmp_path), env={"COLUMNS": "30"}).stdout == wide


@pytest.mark.parametrize("words", [("serve",), ("sub",), ("journal", "cat"), ("cluster",)])
def test_given_an_output_that_is_not_utf8_when_asked_for_help_then_it_comes(
    words: tuple[str, ...],
) -> None:
    done = seriatim(*words, "--help", env={"PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"--help" in done.stdout


def test_given_a_journal_when_asked_for_json_then_it_is_all_there(tmp_path: Path) -> None:
    store = WrittenStore(tmp_path, (5, 10), (11, 20))
    info = json.loads(seriatim("journal", "info", str(tmp_path), "--json").stdout)
    size = store.segment(5).stat().st_size
    assert (info["journal"], info["first"], info["last"], info["messages"]) == (JOURNAL, 5, 20, 16)
    assert info["segments"][0] == {
        "segment": "00000000000000000005.segment",
        "first": 5,
        "last": 10,
        "bytes": size,
        "created": "2023-11-14T22:13:20.000000000Z",
        "indexed": False,
    }
    assert info["writer"] is None


def test_given_a_journal_that_ends_too_early_when_asked_for_info_then_it_is_reported(
    tmp_path: Path,
) -> None:
    WrittenStore(tmp_path, (1, 10))
    start(str(tmp_path / FILE), JOURNAL, 13)
    done = seriatim("journal", "info", str(tmp_path))
    assert b"numbers     1 to 10, 10 messages; missing at the end: 11 to 13\n" in done.stdout
    assert json.loads(seriatim("journal", "info", str(tmp_path), "--json").stdout)["highest"] == 13
    checked = seriatim("journal", "verify", str(tmp_path))
    assert checked.returncode == 1
    assert b"numbers 11 to 13 lost" in checked.stdout


def test_given_an_empty_journal_when_asked_for_info_then_the_next_number_is_reported(
    tmp_path: Path,
) -> None:
    WrittenStore(tmp_path, (500, 499))
    text = seriatim("journal", "info", str(tmp_path)).stdout.decode()
    assert "numbers     none; the next one is 500\n" in text
    assert cat(tmp_path) == b""


def test_given_no_directory_when_run_then_it_is_where_the_broker_keeps_it(tmp_path: Path) -> None:
    WrittenStore(tmp_path / "seriatim", (1, 3))
    env = {"XDG_STATE_HOME": str(tmp_path)}
    assert seriatim("journal", "cat", "--raw", "-n", "1", env=env).stdout == b"message 1"
    env = {"SERIATIM_STORE_DIR": str(tmp_path / "seriatim")}
    assert seriatim("journal", "cat", "--raw", "-n", "1", env=env).stdout == b"message 1"


def test_given_messages_when_printed_then_each_view_is_its_own(tmp_path: Path) -> None:
    WrittenStore(tmp_path, (34, 36))
    assert cat(tmp_path, "--raw") == b"message 34message 35message 36"
    assert cat(tmp_path, "-n", "1") == b"      34  orders.1  message 34\n"
    assert cat(tmp_path, "--from", "35", "-n", "1") == (
        b"      35  orders.2  reply answers  message 35\n          A: 35\n"
    )
    assert cat(tmp_path, "--frame", "-n", "2") == (
        b"19:2:34,10:message 34,,19:2:35,10:message 35,,"
    )
    found = FrameDecoder().feed(cat(tmp_path, "--frame"))
    assert list(found) == [(number, payload_of(number)) for number in (34, 35, 36)]
    assert json.loads(cat(tmp_path, "--json").splitlines()[1]) == {
        "number": 35,
        "time": "2023-11-14T22:13:55.000000000Z",
        "subject": "orders.2",
        "reply": "answers",
        "headers": {"A": "35"},
        "payload": "message 35",
    }


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ([], [*range(1, 21)]),
        (["--from", "18"], [18, 19, 20]),
        (["--to", "2"], [1, 2]),
        (["--from", "9", "--to", "12"], [9, 10, 11, 12]),
        (["--from", "18", "--count", "2"], [18, 19]),
        (["--subject", "orders.0"], [3, 6, 9, 12, 15, 18]),
        (["--subject", "orders.0", "--subject", "orders.1", "--to", "4"], [1, 3, 4]),
        (["--subject", "orders.*", "--to", "2"], [1, 2]),
        (["--subject", "other.>"], []),
        (["--since", "2023-11-14T22:13:38Z"], [18, 19, 20]),
        (["--since", "2023-11-14T22:13:38.5Z"], [19, 20]),
        (["--since", "2023-11-15T00:13:38+02:00"], [18, 19, 20]),
        (["--since", "1700000018000"], [18, 19, 20]),
        (["--since", "10m"], []),
        (["--until", "2023-11-14T22:13:23Z"], [1, 2]),
        (["--since", "2023-11-14", "--to", "2"], [1, 2]),
    ],
    ids=lambda value: " ".join(value) if value and isinstance(value[0], str) else "",
)
def test_given_a_span_when_printed_then_it_is_those_messages(
    tmp_path: Path,
    arguments: list[str],
    found: list[int],
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    WrittenStore(tmp_path, (1, 10), (11, 20))
    assert main(["journal", "cat", str(tmp_path), "--json", *arguments]) == 0
    lines = capfdbinary.readouterr().out.splitlines()
    assert [json.loads(line)["number"] for line in lines] == found


def test_given_numbers_that_are_not_there_when_printed_then_it_is_reported(tmp_path: Path) -> None:
    store = WrittenStore(tmp_path, (11, 20), (21, 30))
    done = seriatim("journal", "cat", str(tmp_path), "--from", "5", "--to", "11", "--raw")
    assert (done.returncode, done.stdout) == (0, b"message 11")
    assert done.stderr == b"seriatim: numbers 5 to 10 are no longer in the journal\n"
    store.spoil(21, 25)
    done = seriatim("journal", "cat", str(tmp_path), "--from", "24", "--to", "26", "--raw")
    assert (done.returncode, done.stdout) == (1, b"message 24message 26")
    assert done.stderr.startswith(b"seriatim: number 25 is lost by damage in segment 21, bytes ")


def test_given_a_payload_that_is_no_text_when_printed_as_json_then_it_is_base64(
    tmp_path: Path,
) -> None:
    from sequencer.journal.record import RecordBatch
    from tests.sequencer.stores import SALT

    store = WrittenStore(tmp_path, (1, 0))
    batch = RecordBatch(SALT, 1)
    batch.append_message(1, 5, b"a", b"", b"NATS/1.0\r\nK: 1\r\nK: 2\r\nL:x\r\n\r\n", b"\xff\0")
    store.append(1, bytes(batch.view()))
    found = json.loads(cat(tmp_path, "--json"))
    assert found["payload_base64"] == "/wA="
    assert found["headers"] == {"K": ["1", "2"], "L": "x"}
    assert cat(tmp_path, "--raw") == b"\xff\0"


def test_given_follow_when_more_is_written_then_it_is_printed_and_ctrl_c_ends_it(
    tmp_path: Path,
) -> None:
    store = WrittenStore(tmp_path, (1, 3))
    with subprocess.Popen(
        [COMMAND, "journal", "cat", str(tmp_path), "--follow", "--raw", "--from", "3"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(9) == b"message 3"
        store.append(1, records(4, 4))
        assert process.stdout.read(9) == b"message 4"
        WrittenStore(tmp_path, (5, 6))
        assert process.stdout.read(9) == b"message 5"
        assert process.stdout.read(9) == b"message 6"
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == b""
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_given_follow_and_a_last_number_when_it_came_then_it_ends(tmp_path: Path) -> None:
    WrittenStore(tmp_path, (1, 9))
    assert numbers(tmp_path, "--follow", "--to", "3") == [1, 2, 3]
    assert numbers(tmp_path, "--follow", "--count", "2") == [1, 2]


def test_given_no_reader_when_printing_then_it_ends_in_silence(tmp_path: Path) -> None:
    WrittenStore(tmp_path, (1, 20_000))
    line = f"'{COMMAND}' journal cat '{tmp_path}' | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, check=True, env=environment()
    )
    assert (done.stdout, done.stderr) == ("       1  orders.1  message 1\n1\n", "")


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
def test_given_a_directory_of_another_user_when_run_then_it_says_so(tmp_path: Path) -> None:
    WrittenStore(tmp_path, (1, 2))
    tmp_path.chmod(0)
    try:
        assert "run this as the user of the broker" in refusal("journal", "info", str(tmp_path))
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["cat", "/none"], "/none: no such directory; give the directory that the broker writes"),
        (["info", "/"], "/: there is no journal here; give the directory that the broker writes"),
        (["cat", "{}", "--from", "3", "--to", "2"], "--to 2 is before --from 3"),
        (["cat", "{}", "--from", "3", "--since", "1m"], "give --from or --since, not both"),
        (["cat", "{}", "--to", "3", "--until", "1m"], "give --to or --until, not both"),
        (["cat", "{}", "--from", "0"], "--from: 0 is out of range; give 1 or more"),
        (
            ["cat", "{}", "--since", "soon"],
            '"soon" is not a valid time; give a duration such as 10m, a',
        ),
        (
            ["cat", "{}", "--since", "2023-13-01"],
            '"2023-13-01" is not a valid time; give a duration',
        ),
        (
            ["cat", "{}", "--subject", "a..b"],
            '"a..b" is not a valid subject: a word between its dots is',
        ),
        (["cat", "{}", "--raw", "--json"], "give one of --raw and --json, not both"),
        (["cat", "{}", "x"], "unexpected argument: "),
        (
            ["export", "{}"],
            "Missing option '-o' / '--output'; see `seriatim journal export --help`",
        ),
        (["truncate", "{}"], "Missing option '--after'; see `seriatim journal truncate --help`"),
        (["look", "{}"], "No such command 'look'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_given_wrong_arguments_of_journal_when_run_then_one_line_says_so(
    tmp_path: Path, arguments: list[str], told: str, capfd: pytest.CaptureFixture[str]
) -> None:
    WrittenStore(tmp_path, (1, 3))
    status = main(["journal", *(argument.format(tmp_path) for argument in arguments)])
    assert status in (FAILED, USAGE)
    out, said = capfd.readouterr()
    assert said.startswith(f"seriatim: {told}")
    assert (out, said.count("\n")) == ("", 1)


def test_given_the_moment_when_a_duration_is_given_then_it_is_that_long_ago() -> None:
    from seriatim.cli.moment import moment
    from seriatim.settings.moments import show_time

    now = time.time_ns()
    assert moment("1m30s", now) == now - 90 * 10**9
    assert moment("2d0.5s", now) == now - 172_800_500_000_000
    assert moment("0", now) == moment("0s", now) == now
    assert moment("60", now) == moment("1m", now)
    assert moment("2026-01-31", now) < moment("2026-01-31T00:00:00.5", now)
    assert show_time(moment("2026-01-31T09:30:00.000000001Z", now)) == (
        "2026-01-31T09:30:00.000000001Z"
    )


def test_given_a_line_end_in_a_payload_when_shown_then_it_makes_no_line_of_its_own() -> None:
    payload = memoryview(b"x\n       8  orders  y")
    record = Record(7, 0, b"orders", b"", memoryview(b""), payload)
    shown = encoder("text", terminal=False)(record)
    assert shown == b"       7  orders  x\\n       8  orders  y\n"
