"""`seriatim journal verify`, `truncate` and `index`: damage is found, deletion is announced."""

import json
import os
import pty
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sequencer.journal import Lost, Reader
from sequencer.journal.identity import lock
from seriatim.cli import main
from tests.sequencer.stores import SALT, WrittenStore, short
from tests.seriatim.cli.command import COMMAND, environment, refusal, seriatim


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[int]:
    """Someone who has the store open for writing."""
    WrittenStore(tmp_path, (1, 10), (11, 20))
    held = lock(str(tmp_path))
    yield os.getpid()
    os.close(held)


def there(path: Path) -> list[int | tuple[int, int, bool]]:
    return short(Reader(str(path)).records())


def test_given_a_whole_journal_when_verified_then_the_status_is_zero(tmp_path: Path) -> None:
    WrittenStore(tmp_path, (1, 10), (11, 20))
    done = seriatim("journal", "verify", str(tmp_path))
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.splitlines()[-1].startswith(b"2 segments, 1,")
    assert done.stdout.endswith(b" bytes: OK\n")


def test_given_damage_when_verified_then_it_is_named_and_the_status_is_one(
    tmp_path: Path,
) -> None:
    store = WrittenStore(tmp_path, (1, 10), (11, 20))
    store.spoil(11, 15)
    done = seriatim("journal", "verify", str(tmp_path))
    begin, end = store.offset(11, 15), store.offset(11, 16)
    assert done.returncode == 1
    assert (
        f"error: 00000000000000000011.segment at byte {begin}: number 15 lost in segment 11"
        f" at bytes {begin} to {end}\n"
    ) in done.stdout.decode()
    assert done.stdout.endswith(b" bytes: damaged, 1 error, 1 number lost\n")
    found = seriatim("journal", "verify", str(tmp_path), "--json").stdout.splitlines()
    errors = [line for line in map(json.loads, found) if line["level"] == "error"]
    assert [(line["file"], line["offset"], line["first"], line["last"]) for line in errors] == [
        ("00000000000000000011.segment", begin, 15, 15)
    ]


def test_given_a_broker_when_verified_then_it_is_not_disturbed(tmp_path: Path, writer: int) -> None:
    assert main(["journal", "verify", str(tmp_path)]) == 0
    assert seriatim("journal", "info", str(tmp_path), "--json").returncode == 0


def test_given_a_writer_when_asked_for_info_then_its_process_is_named(
    tmp_path: Path, writer: int
) -> None:
    info = json.loads(seriatim("journal", "info", str(tmp_path), "--json").stdout)
    assert info["writer"] == writer


def test_given_a_terminal_when_verified_then_a_bar_shows_how_far_it_is(tmp_path: Path) -> None:
    WrittenStore(tmp_path, (1, 1000))
    terminal, other_end = pty.openpty()
    env = {**environment(), "TERM": "xterm"}
    command = [COMMAND, "journal", "verify", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=other_end, env=env) as process:
        os.close(other_end)
        shown = b""
        try:
            while data := os.read(terminal, 4096):
                shown += data
        except OSError:
            pass  # how a terminal says that nobody is there any more
        assert process.stdout is not None
        assert process.stdout.read().endswith(b" bytes: OK\n")
    os.close(terminal)
    assert b"verifying" in shown


def test_given_a_number_when_truncated_then_what_is_after_it_is_gone(tmp_path: Path) -> None:
    store = WrittenStore(tmp_path, (1, 10), (11, 20), (21, 30))
    done = seriatim("journal", "truncate", str(tmp_path), "--after", "15", "--yes")
    assert (done.returncode, done.stderr) == (0, b"")
    said = f"deleted numbers 16 to 30 of {tmp_path}: 15 messages, "
    assert done.stdout.decode().startswith(said)
    assert done.stdout.endswith(b" bytes; the next number is 16\n")
    assert there(tmp_path) == list(range(1, 16))
    assert not store.segment(21).exists()
    assert seriatim("journal", "verify", str(tmp_path)).returncode == 0


def test_given_no_server_to_ask_when_truncated_then_nothing_happens(tmp_path: Path) -> None:
    WrittenStore(tmp_path, (1, 10))
    said = refusal("journal", "truncate", str(tmp_path), "--after", "9")
    assert said == (f"number 10 of {tmp_path}: 1 message would be lost; give --yes to confirm")
    assert there(tmp_path) == list(range(1, 11))


@pytest.mark.parametrize(("answer", "left"), [(b"y\n", 5), (b"n\n", 10), (b"\n", 10)])
def test_given_a_terminal_when_truncated_then_it_asks_first(
    tmp_path: Path, answer: bytes, left: int
) -> None:
    WrittenStore(tmp_path, (1, 10))
    terminal, other_end = pty.openpty()
    command = [COMMAND, "journal", "truncate", str(tmp_path), "--after", "5"]
    with subprocess.Popen(
        command,
        stdin=other_end,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment(),
    ) as process:
        os.close(other_end)
        os.write(terminal, answer)
        assert process.stdout is not None
        said = process.stdout.read()
    os.close(terminal)
    assert b"numbers 6 to 10 of " in said
    assert b"5 messages will be lost permanently. Continue?" in said
    assert there(tmp_path) == list(range(1, left + 1))


def test_given_nothing_after_the_number_when_truncated_then_it_says_so(tmp_path: Path) -> None:
    WrittenStore(tmp_path, (1, 10))
    done = seriatim("journal", "truncate", str(tmp_path), "--after", "10")
    assert (done.returncode, done.stdout) == (0, b"no messages after number 10\n")


@pytest.mark.parametrize("number", ["31", "3"])
def test_given_a_number_that_is_not_there_when_truncated_then_it_is_refused(
    tmp_path: Path, number: str
) -> None:
    WrittenStore(tmp_path, (11, 20), (21, 30))
    said = refusal("journal", "truncate", str(tmp_path), "--after", number, "--yes")
    assert said == f"--after {number}: the journal has numbers 11 to 30; give one of 10 to 30"


@pytest.mark.parametrize("command", [["truncate", "--after", "5", "--yes"], ["index"]])
def test_given_a_broker_that_has_the_store_when_it_would_be_changed_then_refused(
    tmp_path: Path, writer: int, command: list[str]
) -> None:
    said = refusal("journal", command[0], str(tmp_path), *command[1:])
    assert said == (
        f"{tmp_path}: process {writer} writes this store; stop it first, or choose another"
        " directory"
    )
    assert there(tmp_path) == list(range(1, 21))


def test_given_missing_and_wrong_indexes_when_indexed_then_they_are_written(
    tmp_path: Path,
) -> None:
    store = WrittenStore(tmp_path, (1, 10), (11, 20), (21, 30))
    wrong = store.segment(11).with_suffix(".index")
    wrong.write_bytes(b"SERINDEX, or not")
    command = ["journal", "index", str(tmp_path)]
    assert seriatim(*command).stdout == b"wrote 2 indexes\n"
    assert seriatim(*command).stdout == b"wrote 0 indexes\n"
    assert seriatim(*command, "--all").stdout == b"wrote 2 indexes\n"
    info = json.loads(seriatim("journal", "info", str(tmp_path), "--json").stdout)
    assert [part["indexed"] for part in info["segments"]] == [True, True, True]
    reader = Reader(str(tmp_path))
    assert (reader.bounds(), there(tmp_path)) == ((1, 30), list(range(1, 31)))


def test_given_an_index_when_a_number_or_time_is_looked_up_then_reading_begins_near_it(
    tmp_path: Path,
) -> None:
    from sequencer.journal.record import RecordBatch

    store = WrittenStore(tmp_path, (1, 0))
    batch = RecordBatch(SALT, 1)
    for number in range(1, 1001):
        batch.append_message(number, number * 10, b"a", b"", b"", b"x" * 1000)
    store.append(1, bytes(batch.view()))
    WrittenStore(tmp_path, (1001, 1000))
    assert main(["journal", "index", str(tmp_path)]) == 0
    reader = Reader(str(tmp_path))
    assert reader.view.offset(1, 900) > 800_000
    assert reader.view.number_before(9000) > 800
    assert reader.number_at(8995) == 900
    first = next(iter(reader.records(900)))
    assert not isinstance(first, Lost)
    assert first.number == 900


@pytest.mark.parametrize("command", ["verify", "index", "truncate"])
def test_given_no_journal_when_it_would_be_checked_then_nothing_is_made_there(
    tmp_path: Path, command: str, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "none"
    after = ["--after", "0", "--yes"] if command == "truncate" else []
    assert main(["journal", command, str(path), *after]) == 1
    assert "no such directory; give the directory that the broker" in capfd.readouterr().err
    assert not path.exists()


def test_given_an_empty_journal_when_truncated_then_it_says_that_it_is_empty(
    tmp_path: Path,
) -> None:
    WrittenStore(tmp_path, (8, 7))
    said = refusal("journal", "truncate", str(tmp_path), "--after", "5", "--yes")
    assert said == (
        f"{tmp_path}: the journal is empty, so there is nothing to delete; its next number is 8"
    )
    done = seriatim("journal", "truncate", str(tmp_path), "--after", "7", "--yes")
    assert (done.returncode, done.stdout) == (0, b"no messages after number 7\n")
