"""A futex in a file wakes those who wait at it, in whatever process they are."""

import ctypes
import mmap
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from sequencer.journal.waker import Waker
from sequencer.journal.wakeup import FUTEX, Wakeup, pause

WORD = 64
LONG = 60.0  # seconds, for what must end before
pytestmark = pytest.mark.skipif(not FUTEX, reason="no futex is known on this machine")
WAITER = """
import os, sys
from sequencer.journal.wakeup import Wakeup
wakeup = Wakeup(os.open(sys.argv[1], os.O_RDONLY), {word})
print("waits", flush=True)
print(wakeup.wait(7, {long}), flush=True)
"""


class Writer(NamedTuple):
    """A file whose word can be written, and a waker."""

    path: Path
    word: memoryview
    waker: Waker


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    path = tmp_path / "file"
    path.write_bytes(bytes(mmap.PAGESIZE))
    with (
        path.open("r+b") as file,
        mmap.mmap(file.fileno(), mmap.PAGESIZE) as map,
        memoryview(map) as view,
        view[WORD : WORD + 8] as part,
        part.cast("Q") as word,
    ):
        word[0] = 7
        address = ctypes.addressof(ctypes.c_char.from_buffer(map, WORD))
        yield Writer(path, word, Waker(address))


@pytest.fixture
def wakeup(writer: Writer) -> Iterator[Wakeup]:
    fd = os.open(writer.path, os.O_RDONLY)
    made = Wakeup(fd, WORD)
    os.close(fd)
    yield made
    made.close()


def test_given_the_word_as_it_was_when_nobody_rings_then_waiting_ends_after_its_time(
    wakeup: Wakeup,
) -> None:
    assert not wakeup.wait(7, 0.01)
    assert not wakeup.wait(7 + (1 << 32), 0.01), "only the low half is compared"


def test_given_another_word_when_waiting_then_it_ends_at_once(wakeup: Wakeup) -> None:
    assert wakeup.wait(6, LONG)


def test_given_waiters_in_this_and_another_process_when_rung_then_all_go_on(
    writer: Writer, wakeup: Wakeup
) -> None:
    words = [sys.executable, "-c", WAITER.format(word=WORD, long=LONG), str(writer.path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "waits\n"
        woken: list[bool] = []
        thread = threading.Thread(target=lambda: woken.append(wakeup.wait(7, LONG)))
        thread.start()
        writer.word[0] = 8  # who has not begun to wait yet does not begin
        writer.waker.wake()
        assert other.stdout.readline() == "True\n"
        thread.join()
        assert woken == [True]


def test_given_a_file_that_is_empty_when_waiting_then_it_ends_without_a_signal(
    tmp_path: Path,
) -> None:
    path = tmp_path / "empty"
    path.touch()
    fd = os.open(path, os.O_RDONLY)
    wakeup = Wakeup(fd, WORD)
    os.close(fd)
    assert wakeup.wait(7, LONG), "EFAULT: nothing can be waited for there"
    wakeup.close()


def test_given_no_file_when_mapped_then_it_is_an_error(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(OSError, match="No such device"):
        Wakeup(fd, WORD)
    os.close(fd)


def test_given_a_pause_when_it_ends_then_that_time_has_passed() -> None:
    before = time.monotonic()
    pause(0.01)
    assert time.monotonic() - before >= 0.01
