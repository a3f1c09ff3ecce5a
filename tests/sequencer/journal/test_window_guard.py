"""Pages of a window that the disk does not give: an error for the store, and no signal."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sequencer.journal.store import Store
from sequencer.journal.window_file import FILE
from tests.crash.disks import mounted, why_not
from tests.support.places import ROOT
from tests.support.stores import abandon, batch_of, messages, open_store, put


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path / "store")


def test_given_the_window_is_cut_short_when_written_then_it_is_an_error_and_the_disk_has_the_rest(
    store: Store,
) -> None:
    """The memory behind the end of the file is gone: a write there would end the process."""
    put(store, 20, size=500)
    store.sync()
    told = messages(store)
    os.truncate(window_of(store), 0)
    batch = batch_of(store, size=500)
    with pytest.raises(OSError, match="the journal window was cut short"), batch.view() as view:
        store.write(view, batch.first, batch.last, batch.time, batch.ids)
    assert store.last == 20
    assert messages(store) == told
    with pytest.raises(OSError, match="the journal window was cut short"):
        store.check_files()
    store.close()
    again = open_store(Path(store.path))
    assert messages(again) == told
    again.close()


def test_given_the_window_is_cut_short_before_a_sync_then_nothing_else_gets_to_the_disk(
    store: Store,
) -> None:
    put(store, 5)
    store.sync()
    synced = store.segments()[0].synced
    put(store, 5, size=500)
    os.truncate(window_of(store), 0)
    for _ in range(2):
        with pytest.raises(OSError, match="the journal window"):
            store.sync()
    assert store.segments()[0].synced == synced
    abandon(store)


def window_of(store: Store) -> Path:
    return Path(store.path, FILE)


# A file with a hole on a disk that is full: a page of it cannot be written to, and can be read.
HOLE = """
import ctypes, errno, mmap, os, sys
from pathlib import Path
from sequencer.journal.window_guard import WindowGuard

disk = Path(sys.argv[1])
size = 64 * mmap.PAGESIZE
fd = os.open(disk / "file", os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, size)
os.pwrite(fd, b"before", 0)
memory = mmap.mmap(fd, size)
at = ctypes.addressof(ctypes.c_char.from_buffer(memory))
guard = WindowGuard("file", fd, at, size, False)
filler = disk / "filler"
room = os.statvfs(disk)
with filler.open("wb") as file:
    os.posix_fallocate(file.fileno(), 0, room.f_bavail * room.f_bsize)
guard.check()
memory[:6] = b"BEFORE"
for page in (1, 7, 63):
    memory[page * mmap.PAGESIZE + 5] = page
assert not guard.is_lost
for _ in range(2):
    try:
        guard.check()
    except OSError as error:
        assert error.errno == errno.ENOSPC, error
    else:
        raise AssertionError("it cannot be written")
assert [memory[page * mmap.PAGESIZE + 5] for page in (1, 7, 63)] == [1, 7, 63]
filler.unlink()
guard.check()
memory[7 * mmap.PAGESIZE] = 77
data = (disk / "file").read_bytes()
assert data[:6] == b"BEFORE"
assert [data[page * mmap.PAGESIZE + 5] for page in (1, 7, 63)] == [1, 7, 63]
assert data[7 * mmap.PAGESIZE] == 77, "the page is the file's again"
"""


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def test_given_a_full_disk_then_pages_are_kept_in_memory_until_there_is_room() -> None:
    if why_not("tmpfs"):
        pytest.skip(why_not("tmpfs"))
    with mounted("tmpfs", 1 << 20) as disk:
        done = run(HOLE, str(disk))
    assert (done.returncode, done.stderr) == (0, "")


# Whatever is not of a window ends the process, as it would without a guard.
FOREIGN = """
import ctypes, mmap, os, signal, sys
from sequencer.journal.window_guard import WindowGuard

def mapped(name):
    fd = os.open(name, os.O_RDWR | os.O_CREAT)
    os.ftruncate(fd, mmap.PAGESIZE)
    return fd, mmap.mmap(fd, mmap.PAGESIZE)

fd, memory = mapped(sys.argv[1])
at = ctypes.addressof(ctypes.c_char.from_buffer(memory))
guard = WindowGuard("file", fd, at, mmap.PAGESIZE, False)
if sys.argv[2] == "sent":
    os.kill(os.getpid(), signal.SIGBUS)
other, elsewhere = mapped(sys.argv[1] + ".other")
os.ftruncate(other, 0)
elsewhere[0] = 1
"""


@pytest.mark.parametrize("how", ["sent", "of other memory"])
def test_given_a_signal_that_is_not_of_a_window_then_it_ends_the_process(
    how: str, tmp_path: Path
) -> None:
    assert run(FOREIGN, str(tmp_path / "file"), how).returncode == -signal.SIGBUS
