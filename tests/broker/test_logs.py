"""The broker's log: its format, its destination, and a file that is renamed while in use."""

import logging
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.logs import LogFormat, reopen, start_logging

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


@pytest.mark.parametrize(
    ("level", "short"),
    [
        (logging.DEBUG, "DBG"),
        (logging.INFO, "INF"),
        (logging.WARNING, "WRN"),
        (logging.ERROR, "ERR"),
        (logging.CRITICAL, "FTL"),
    ],
)
def test_given_a_record_then_its_line_looks_like_nats_servers(level: int, short: str) -> None:
    record = logging.LogRecord("x", level, "file", 1, "%s is ready", ("Server",), None)
    record.created = 1_700_000_000.25
    match = LINE.fullmatch(LogFormat().format(record))
    assert match is not None
    assert match.groups() == (short, "Server is ready")
    assert LogFormat().format(record).startswith(f"[{os.getpid()}] 2023/11/1")
    assert ".250000 " in LogFormat().format(record)


def test_given_an_unforeseen_error_then_the_log_has_its_trace() -> None:
    try:
        raise ValueError("seen")
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "file", 1, "oh", (), sys.exc_info())
    assert "ValueError: seen" in LogFormat().format(record)


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
    handler = start_logging(str(path), debug=False)
    log = logging.getLogger("seriatim")
    log.info("one")
    path.rename(old)
    log.info("two")
    reopen(handler)
    log.info("three")
    assert said(old) == [("INF", "one"), ("INF", "two")]
    assert said(path) == [("INF", "three")]
    reopen(handler)
    log.info("four")
    assert said(path) == [("INF", "three"), ("INF", "four")]


def test_given_no_place_for_a_new_file_when_reopened_then_the_old_one_says_so_and_goes_on(
    root: logging.Logger, tmp_path: Path
) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    handler = start_logging(str(folder / "log"), debug=False)
    kept = tmp_path / "kept"
    os.link(folder / "log", kept)
    shutil.rmtree(folder)
    reopen(handler)
    logging.getLogger("seriatim").info("still here")
    (level, first), second = said(kept)
    assert level == "WRN"
    assert "No such file or directory" in first
    assert second == ("INF", "still here")


def test_given_standard_error_when_reopened_then_nothing_happens(root: logging.Logger) -> None:
    handler = start_logging("", debug=False)
    reopen(handler)
    assert isinstance(handler, logging.StreamHandler)
    assert handler.stream is sys.stderr
