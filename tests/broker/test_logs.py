"""The broker's log: its destination, and a file that is renamed while in use, or full."""

import logging
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.logs import reopen, start_logging

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
    assert isinstance(handler, logging.StreamHandler)
    assert handler.stream is sys.stderr


def test_given_a_file_that_cannot_be_written_then_standard_error_says_so_once(
    root: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    start_logging("/dev/full", debug=False)
    for _ in range(3):
        logging.getLogger("seriatim").info("hello")
    assert capsys.readouterr().err == "seriatim: log file /dev/full: No space left on device\n"


def test_given_another_destination_then_the_file_of_before_is_closed(
    root: logging.Logger, tmp_path: Path
) -> None:
    before = start_logging(str(tmp_path / "one"), debug=False)
    start_logging(str(tmp_path / "two"), debug=False)
    logging.getLogger("seriatim").info("hello")
    assert isinstance(before, logging.FileHandler)
    assert before.stream is None or before.stream.closed
    assert said(tmp_path / "one") == []
    assert said(tmp_path / "two") == [("INF", "hello")]
