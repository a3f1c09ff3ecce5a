"""The broker's log: its destination, and a file that is renamed while in use, or full."""

import io
import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from broker.runtime.logs import LogFile, LogLines, reopen, start_logging
from tests.crash.disks import mounted, why_not
from tests.support.processes import BIN
from tests.support.raw import QUIET, RawClient

LINE = re.compile(r"\[\d+\] \d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{6} \[([A-Z]{3})\] (.*)")


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    """The root logger, as it was afterwards."""
    logger = logging.getLogger()
    handlers, level = logger.handlers[:], logger.level
    yield logger
    for handler in logger.handlers:
        if handler not in handlers:
            handler.close()
    logger.handlers[:], logger.level = handlers, level


def said(path: Path) -> list[tuple[str, str]]:
    """Levels and texts of a log file."""
    found = [LINE.fullmatch(line) for line in path.read_text().splitlines()]
    assert all(found), path.read_text()
    return [(match[1], match[2]) for match in found if match]


@pytest.mark.parametrize(("debug", "levels"), [(False, ["INF"]), (True, ["DBG", "INF"])])
def test_given_a_log_file_then_it_has_what_is_said_from_the_level_on(
    root: logging.Logger, tmp_path: Path, debug: bool, levels: list[str]
) -> None:
    path = tmp_path / "log"
    start_logging(str(path), debug)
    logging.getLogger("seriatim").debug("one")
    logging.getLogger("seriatim").info("two")
    logging.getLogger("asyncio").info("not ours")
    assert [level for level, _ in said(path)] == levels


def test_given_no_log_file_then_standard_error_has_it(
    root: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    start_logging("", debug=False)
    logging.getLogger("seriatim").info("hello")
    out, err = capsys.readouterr()
    assert out == ""
    assert LINE.fullmatch(err.rstrip("\n"))


def test_given_a_place_that_cannot_be_written_then_the_caller_learns_it(
    root: logging.Logger, tmp_path: Path
) -> None:
    with pytest.raises(FileNotFoundError):
        start_logging(str(tmp_path / "none" / "log"), debug=False)


def test_given_a_file_that_was_moved_away_when_reopened_then_the_next_line_is_in_a_new_one(
    root: logging.Logger, tmp_path: Path
) -> None:
    path, old = tmp_path / "log", tmp_path / "log.1"
    start_logging(str(path), debug=False)
    log = logging.getLogger("seriatim")
    log.info("one")
    path.rename(old)
    log.info("two")
    reopen()
    log.info("three")
    assert said(old) == [("INF", "one"), ("INF", "two")]
    assert said(path) == [("INF", "three")]
    reopen()
    log.info("four")
    assert said(path) == [("INF", "three"), ("INF", "four")]


def test_given_no_place_for_a_new_file_when_reopened_then_the_old_one_says_so_and_goes_on(
    root: logging.Logger, tmp_path: Path
) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    start_logging(str(folder / "log"), debug=False)
    kept = tmp_path / "kept"
    os.link(folder / "log", kept)
    shutil.rmtree(folder)
    reopen()
    logging.getLogger("seriatim").info("still here")
    (level, first), second = said(kept)
    assert level == "WRN"
    assert "No such file or directory" in first
    assert second == ("INF", "still here")


def test_given_standard_error_when_reopened_then_nothing_happens(root: logging.Logger) -> None:
    handler = start_logging("", debug=False)
    reopen()
    assert isinstance(handler, LogLines)
    assert handler.fd == sys.stderr.fileno()


def test_given_a_file_that_cannot_be_written_then_standard_error_says_so_once(
    root: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    start_logging("/dev/full", debug=False)
    for _ in range(3):
        logging.getLogger("seriatim").info("hello")
    assert capsys.readouterr().err == "seriatim: log file /dev/full: No space left on device\n"


def test_given_another_destination_then_the_earlier_file_is_closed(
    root: logging.Logger, tmp_path: Path
) -> None:
    before = start_logging(str(tmp_path / "one"), debug=False)
    start_logging(str(tmp_path / "two"), debug=False)
    logging.getLogger("seriatim").info("hello")
    assert isinstance(before, LogFile)
    assert before.fd == -1
    assert said(tmp_path / "one") == []
    assert said(tmp_path / "two") == [("INF", "hello")]


@pytest.mark.parametrize("form", ["text", "json"])
def test_given_a_pipe_that_is_not_read_then_lines_are_left_out_and_the_next_one_says_how_many(
    root: logging.Logger, form: str
) -> None:
    reader, writer = os.pipe()
    log = logging.getLogger("seriatim")
    with os.fdopen(reader, "rb", buffering=0) as read, os.fdopen(writer, "wb") as kept:
        start_logging(f"/dev/fd/{kept.fileno()}", debug=False, form=form)
        for nth in range(2000):
            log.info("line %d %s", nth, "x" * 100)
        text = read.read(1 << 20)
        log.info("last")
        text += read.read(1 << 20)
    lines = text.decode().splitlines()
    there = [line for line in lines if " xxx" in line]
    numbers = [int(re.search(r"line (\d+)", line)[1]) for line in there]  # type: ignore[index]
    assert numbers == list(range(len(there)))
    assert all("x" * 100 in line for line in there), "whole lines"
    left_out = f"{2000 - len(there)} lines were left out here: the log could not be written: its"
    assert left_out in lines[-2]
    assert "last" in lines[-1]
    assert len(lines) == len(there) + 2


def test_given_a_full_disk_then_the_file_says_afterwards_how_many_lines_are_missing(
    root: logging.Logger,
) -> None:
    if why_not("tmpfs"):
        pytest.skip(why_not("tmpfs"))
    log = logging.getLogger("seriatim")
    with mounted("tmpfs", 16 * 4096) as disk:
        start_logging(str(disk / "log"), debug=False)
        log.info("one")
        (disk / "fill").write_bytes(bytes(14 * 4096))
        for _ in range(200):
            log.info("two %s", "x" * 100)
        (disk / "fill").unlink()
        log.info("three")
        lines = said(disk / "log")
        logging.getLogger().handlers[0].close()
    there = len(lines) - 3
    assert lines[0] == ("INF", "one")
    assert lines[-2] == (
        "WRN",
        f"{200 - there} lines were left out here: the log could not be written: No space left on"
        " device",
    )
    assert lines[-1] == ("INF", "three")


@pytest.mark.parametrize("more", [[], ["--log", "/dev/stdout"], ["--log_format", "json"]])
def test_given_a_log_that_nobody_reads_then_clients_are_served(
    more: list[str],
) -> None:
    command = [str(BIN / "seriatim"), "serve", "-a", "127.0.0.1", "-p", "-1", "--no-journal", "-DV"]
    process = subprocess.Popen([*command, *more], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert process.stdout is not None
    try:
        begun = b""
        while not (found := re.search(rb"client connections on 127.0.0.1:(\d+)", begun)):
            begun += process.stdout.readline()
            assert process.poll() is None, begun
        with RawClient(int(found[1]), QUIET) as client:
            for _ in range(100):
                assert client.ask(b"PUB a 1000\r\n%b\r\n" % bytes(1000)) == []
        drained = 0
        while drained < 1 << 15:
            drained += len(cast(io.BufferedReader, process.stdout).read1(1 << 20))
        process.terminate()
        assert b"lines were left out here" in process.stdout.read()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.stdout.close()
        process.wait()
