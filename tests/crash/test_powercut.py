"""The shim and the forgetful disk, on programs small enough to know what must be left.

A power cut that leaves too much proves nothing. So these tests show that unsynced bytes, sizes and
names do get lost, and, by random programs, that nothing else does.
"""

import socket
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from tests.crash import shim
from tests.crash.powercut import Disk, Entry, note_survivors, read_log, streams
from tests.crash.shim import Faults, preload

pytestmark = pytest.mark.skipif(shim.COMPILER is None, reason=shim.WHY_NOT)

PROLOGUE = """
import os, sys
os.chdir(sys.argv[1])
def put(name, text, flags=os.O_APPEND):
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | flags, 0o600)
    os.write(fd, text.encode())
    return fd
def sync_folder(name="."):
    os.fsync(os.open(name, os.O_RDONLY))
"""
NEVER = 1 << 63  # a moment after all
END_S = 60  # a bound for what hangs


def run(program: str, store: Path, log: Path | None = None, faults: Faults | None = None) -> str:
    """Run Python in `store` under the shim; what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", PROLOGUE + program, str(store)],
        env=preload(store, log, faults),
        capture_output=True,
        text=True,
        timeout=END_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def contents(folder: Path) -> dict[str, str]:
    """Every file by its path in the folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_text() for path in files}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    folder = tmp_path / "store"
    folder.mkdir()
    (folder / "old").write_text("old")
    return folder


def left(store: Path, program: str, chance: Random | None = None) -> dict[str, str]:
    """What a power cut leaves after the program has ended."""
    before, log = Disk(store), store.parent / "log"
    run(program, store, log)
    folder = before.cut(read_log(log), NEVER).lay_out(store.parent / "left", chance)
    return contents(folder)


@pytest.mark.parametrize(
    ("program", "stays"),
    [
        ('put("new", "x")', {"old": "old"}),
        ('os.fsync(put("new", "x"))', {"old": "old"}),  # its name is not durable
        ('put("new", "x"); sync_folder()', {"old": "old", "new": ""}),
        ('os.fsync(put("new", "x")); sync_folder()', {"old": "old", "new": "x"}),
        ('put("old", "er")', {"old": "old"}),
        ('os.fdatasync(put("old", "er"))', {"old": "older"}),
        ('fd = put("old", "er"); os.fsync(fd); os.write(fd, b"!")', {"old": "older"}),
        ('os.fsync(put("old", "!", 0))', {"old": "!ld"}),
        ('put("old", "", os.O_TRUNC)', {"old": "old"}),
        ('os.fsync(put("old", "n", os.O_TRUNC))', {"old": "n"}),
        ('os.ftruncate(put("old", ""), 1)', {"old": "old"}),
        ('fd = put("old", ""); os.ftruncate(fd, 5); os.fsync(fd)', {"old": "old\0\0"}),
        ('os.fsync(put("new", "x")); os.rename("new", "old")', {"old": "old"}),
        ('os.fsync(put("new", "x")); os.rename("new", "old"); sync_folder()', {"old": "x"}),
        ('put("new", "x"); os.rename("new", "old"); sync_folder()', {"old": ""}),
        ('os.unlink("old")', {"old": "old"}),
        ('os.unlink("old"); sync_folder()', {}),
        ('os.mkdir("d"); os.fsync(put("d/f", "x")); sync_folder("d")', {"old": "old"}),
        (
            'os.mkdir("d"); os.fsync(put("d/f", "x")); sync_folder("d"); sync_folder()',
            {"old": "old", "d/f": "x"},
        ),
        ('os.pwritev(fd := put("old", "", 0), [b"1", b"2"], 1); os.fsync(fd)', {"old": "o12"}),
        ('os.write(os.open("old", os.O_WRONLY | os.O_DSYNC), b"n")', {"old": "nld"}),
        ('os.posix_fallocate(fd := put("old", "", 0), 0, 4); os.fsync(fd)', {"old": "old\0"}),
        ('f = open("old", "ab", 0); f.write(b"er"); os.fsync(f.fileno())', {"old": "older"}),
    ],
)
def test_given_a_power_cut_then_what_was_synced_is_left_and_nothing_else(
    store: Path, program: str, stays: dict[str, str]
) -> None:
    assert left(store, program) == stays


def test_given_chance_then_any_part_of_what_was_not_synced_may_be_left(store: Path) -> None:
    program = """
fd = put("new", "a" * 512)
sync_folder()
os.fsync(fd)
for letter in "bcdefgh":
    os.write(fd, letter.encode() * 512)
"""
    before, log = Disk(store), store.parent / "log"
    run(program, store, log)
    disk = before.cut(read_log(log), NEVER)
    found = set()
    for seed in range(200):
        text = contents(disk.lay_out(store.parent / "left", Random(seed)))["new"]
        assert text.startswith("a" * 512), "what was synced stays"
        assert len(text) % 512 == 0
        found.add(text[512::512])
    assert "" in found, "nothing of it"
    assert "bcdefgh" in found, "all of it"
    assert any(text.strip("\0") and "\0" in text.rstrip("\0") for text in found), "a hole before"
    assert any(text.endswith("\0") for text in found), "a longer file with nothing in it"


CHAOS = """
import random
chance, files = random.Random(int({seed})), {{}}
for step in range(60):
    name = chance.choice("abcdef")
    what = chance.randrange(9)
    if what == 0 or name not in files:
        files[name] = put(name, "", chance.choice([0, os.O_TRUNC]))
    elif what == 1:
        os.pwrite(files[name], os.urandom(40).hex().encode(), chance.randrange(9000))
    elif what == 2:
        os.ftruncate(files[name], chance.randrange(9000))
    elif what == 3:
        other = chance.choice("abcdef")
        if other != name:
            os.rename(name, other)
            files[other] = files.pop(name)
    elif what == 4:
        os.unlink(name)
        os.close(files.pop(name))
    elif what == 5:
        os.fsync(files[name])
    elif what == 6:
        sync_folder()
    else:
        os.write(files[name], os.urandom(300).hex().encode())
sync_folder()
for fd in files.values():
    os.fsync(fd)
"""


@pytest.mark.parametrize("seed", range(6))
def test_given_any_program_when_it_has_synced_all_then_all_is_left(store: Path, seed: int) -> None:
    before, log = Disk(store), store.parent / "log"
    run(CHAOS.format(seed=seed), store, log)
    past = read_log(log)
    there = contents(store)
    assert contents(before.cut(past, NEVER).lay_out(store.parent / "left")) == there
    last_sync = max(entry.begin for entry in past)
    assert contents(before.cut(past, last_sync).sync_all().lay_out(store.parent / "x")) == there


def test_given_a_file_whose_removal_was_not_recorded_then_the_next_of_its_name_is_another(
    store: Path,
) -> None:
    before, log = Disk(store), store.parent / "log"
    run('put("new", "longer")', store, log)
    (store / "new").unlink()  # as a program that was killed before it could record that
    note_survivors(store, log)
    run('put("new", "x")', store, log)
    last = before.cut(read_log(log), NEVER).sync_all()
    assert contents(last.lay_out(store.parent / "left")) == {"old": "old", "new": "x"}


def test_given_a_moment_then_what_came_later_is_not_there(store: Path) -> None:
    before, log = Disk(store), store.parent / "log"
    run('fd = put("old", "1")\nos.fsync(fd)\nos.write(fd, b"2")\nos.fsync(fd)', store, log)
    past = read_log(log)
    syncs = [entry for entry in past if entry.what == 4]

    def at(moment: int) -> dict[str, str]:
        return contents(before.cut(past, moment).lay_out(store.parent / "left"))

    assert at(syncs[0].begin) == {"old": "old"}, "a sync that has not ended promises nothing"
    assert at(syncs[0].end) == {"old": "old1"}
    assert at(syncs[1].end) == {"old": "old12"}


def test_given_a_program_that_sends_then_what_it_had_sent_is_known(store: Path) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        program = f"""
import socket
peer = socket.socket(fileno={theirs.fileno()})
peer.send(b"one,")
os.fsync(put("old", "1"))
peer.sendmsg([b"two", b","])
os.write(peer.fileno(), b"three")
"""
        log = store.parent / "log"
        subprocess.run(
            [sys.executable, "-c", PROLOGUE + program, str(store)],
            env=preload(store, log),
            pass_fds=[theirs.fileno()],
            check=True,
            timeout=END_S,
        )
        assert ours.recv(13, socket.MSG_WAITALL) == b"one,two,three"
    past = read_log(log)
    assert streams(past, NEVER) == [b"one,two,three"]
    sync = next(entry for entry in past if entry.what == 4)
    assert streams(past, sync.begin) == [b"one,"]


def test_given_writes_that_nobody_can_follow_then_the_log_is_refused(store: Path) -> None:
    log = store.parent / "log"
    run('os.sendfile(put("new", "", 0), os.open("old", os.O_RDONLY), 0, 3)', store, log)
    with pytest.raises(AssertionError, match="cannot follow sendfile"):
        read_log(log)


MAPPED = """
import mmap
fd = os.open("new", os.O_RDWR | os.O_CREAT)
os.posix_fallocate(fd, 0, 8192)
os.fsync(fd)
sync_folder()
pages = mmap.mmap(fd, 8192)
for letter in b"abc":
    pages[:600] = bytes([letter]) * 600
    pages[4096] = letter
    os.close(put("old", chr(letter)))
pages.close()
"""


def test_given_a_mapping_then_any_of_its_pages_may_be_left_in_any_state(store: Path) -> None:
    before, log = Disk(store), store.parent / "log"
    run(MAPPED, store, log)
    past = read_log(log)
    disk = before.cut(past, NEVER)
    assert contents(disk.lay_out(store.parent / "left"))["new"] == "\0" * 8192, "nothing synced it"
    found = set()
    for seed in range(200):
        text = contents(disk.lay_out(store.parent / "left", Random(seed)))["new"]
        assert text[600:4096] == "\0" * 3496
        found.add((text[0], text[599], text[4096]))
    assert {one for states in found for one in states} == set("\0abc")
    assert ("a", "a", "c") in found or ("c", "c", "a") in found, "a page is older than another"
    second = [entry for entry in past if entry.what == 2 and entry.data == b"b"]
    seen = before.cut(past, second[0].begin).sync_all().lay_out(store.parent / "left")
    assert contents(seen)["new"][599] == "b", "a process that is killed has written it"


TRY = """
def attempt(call, *arguments):
    try:
        print(call(*arguments), end=" ")
    except OSError as error:
        print(error.strerror, end=" ")
fd = os.open("old", os.O_WRONLY)
attempt(os.write, fd, b"12345678")
attempt(os.fdatasync, fd)
attempt(os.posix_fallocate, fd, 0, 10)
attempt(os.write, os.open("/dev/null", os.O_WRONLY), b"12345678")
"""


@pytest.mark.parametrize(
    ("lines", "printed"),
    [
        ((), "8 None None 8"),
        (("write 28",), "No space left on device None None 8"),
        (("write short",), "4 None None 8"),
        (("fdatasync 5",), "8 Input/output error None 8"),
        (("fdatasync 5 /old",), "8 Input/output error None 8"),
        (("fdatasync 5 .segment",), "8 None None 8"),
        (("fallocate 28", "write 5"), "Input/output error None No space left on device 8"),
    ],
)
def test_given_faults_then_calls_below_the_folder_fail_and_others_do_not(
    store: Path, lines: tuple[str, ...], printed: str
) -> None:
    faults = Faults(store.parent)
    with faults.on(*lines):
        assert run(TRY, store, faults=faults) == printed
    assert run(TRY, store, faults=faults) == "8 None None 8"


@pytest.mark.parametrize(("fault", "read"), [("short", "4096 904 5000"), ("11", "11 11 5000")])
def test_given_a_cold_cache_then_only_reads_that_may_not_wait_are_short(
    store: Path, fault: str, read: str
) -> None:
    (store / "old").write_bytes(bytes(5000))
    program = """
def attempt(offset, flags):
    try:
        return os.preadv(fd, [bytearray(5000)], offset, flags)
    except OSError as error:
        return error.errno
fd = os.open("old", os.O_RDONLY)
print(attempt(0, os.RWF_NOWAIT), attempt(4096, os.RWF_NOWAIT), attempt(0, 0))
"""
    faults = Faults(store.parent)
    with faults.on(f"nowait {fault}"):
        assert run(program, store, faults=faults) == read


def test_given_a_stall_then_the_call_waits_until_it_is_taken_away(store: Path) -> None:
    faults = Faults(store.parent)
    program = 'fd = put("old", "1"); print("written", flush=True); os.fsync(fd); print("synced")'
    with (
        faults.on("fdatasync stall"),
        subprocess.Popen(
            [sys.executable, "-c", PROLOGUE + program, str(store)],
            env=preload(store, faults=faults),
            stdout=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        assert process.stdout.readline() == "written\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.2)
        faults.set()
        assert process.stdout.read() == "synced\n"
        assert process.wait(END_S) == 0


def test_given_two_processes_when_the_log_is_read_then_it_is_in_the_order_of_ends(
    store: Path,
) -> None:
    log = store.parent / "log"
    run('pid = os.fork()\nfor _ in range(99): put("old", "1")\npid and os.wait()', store, log)
    past: list[Entry] = read_log(log)
    assert len([entry for entry in past if entry.what == 2]) == 198
    assert [entry.end for entry in past] == sorted(entry.end for entry in past)
