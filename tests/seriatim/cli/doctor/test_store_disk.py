"""Doctor's findings about the disk of a store: real file systems, and disks that fail (disk.c)."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from broker.settings.resolve import resolve
from seriatim.cli.doctor import store_disk
from seriatim.cli.doctor.examination import Patient
from tests.crash.shim import Faults, preload
from tests.seriatim.cli.command import COMMAND, environment
from tests.seriatim.cli.doctor.doctor_runs import Examined, alone, doctor, ordinary
from tests.support.commands import COMMAND_S
from tests.support.descriptors import open_files
from tests.support.processes import STAND_IN, SeriatimServer
from tests.support.raw import QUIET, RawClient


def on(mount: str, folder: Path, *arguments: str) -> Examined:
    """Examine a store on a file system that only this run sees."""
    prefix = alone(f"mount {mount} {folder}", kinds=["--mount"])
    return doctor(*arguments, prefix=prefix, store=folder)


def test_given_a_usual_disk_then_it_is_measured_and_nothing_is_left(tmp_path: Path) -> None:
    examined = doctor("--retain_bytes", "1MiB", "--journal_window_bytes", "1MiB", store=tmp_path)
    assert examined.only("store").text.startswith(f"{tmp_path} is on ")
    assert examined.only("file system").text == (
        "it has fallocate, O_DIRECT, file locks, shared mappings"
    )
    assert examined.only("disk").text.startswith("a page is on the disk after ")
    assert examined.only("room").level == "ok"
    assert list(tmp_path.iterdir()) == []


def test_given_a_store_that_is_not_there_then_the_place_is_examined_and_not_made(
    tmp_path: Path,
) -> None:
    store = tmp_path / "var" / "seriatim"
    assert doctor(store=store).only("store").text.startswith(f"{store} (not there yet) is on ")
    assert list(tmp_path.iterdir()) == []


def test_given_tmpfs_then_it_warns_and_says_what_fits(tmp_path: Path) -> None:
    examined = on("-t tmpfs -o size=100m none", tmp_path)
    assert examined.only("store").level == "warning"
    assert examined.only("store").text == f"{tmp_path} is on tmpfs, in memory"
    room = examined.only("room")
    assert room.level == "warning"
    assert room.text.startswith("100 MiB free, 0 MiB used by the store; journal.retain_bytes 10GiB")
    assert room.do == "make room for 10.2 GiB more, or --retain_bytes 25MiB"
    fits = on("-t tmpfs -o size=100m none", tmp_path, "--retain_bytes", "25MiB")
    assert fits.only("room").level == "ok"


def test_given_no_limit_of_retention_then_it_advises_one(tmp_path: Path) -> None:
    room = on("-t tmpfs -o size=200m none", tmp_path, "--retain_bytes", "0").only("room")
    assert (room.level, room.do) == ("hint", "--retain_bytes 97MiB")


def test_given_ramfs_then_it_names_what_it_lacks(tmp_path: Path) -> None:
    examined = on("-t ramfs none", tmp_path)
    assert [(one.level, one.text) for one in examined.about("file system")] == [
        ("hint", f"{tmp_path} has no fallocate"),
        ("hint", f"{tmp_path} has no O_DIRECT"),
    ]
    assert examined.only("room").text == "unknown: the file system does not say"


def test_given_a_container_s_layer_then_messages_go_with_the_container(tmp_path: Path) -> None:
    for name in ("lower", "above", "store"):
        (tmp_path / name).mkdir()
    above, store = tmp_path / "above", tmp_path / "store"
    lines = (
        f"mount -t tmpfs none {above}",
        f"mkdir {above}/upper {above}/work",
        f"mount -t overlay -o lowerdir={tmp_path}/lower,upperdir={above}/upper,"
        f"workdir={above}/work none {store}",
    )
    found = doctor(prefix=alone(*lines, kinds=["--mount"]), store=store).only("store")
    assert found.level == "warning"
    assert found.text == f"{store} is on overlay, the file system of a container"
    assert found.do == f"mount a volume there: -v seriatim:{store}"


def test_given_a_read_only_root_then_the_store_failed_and_the_rest_is_examined(
    tmp_path: Path,
) -> None:
    examined = on("-t tmpfs -o ro none", tmp_path)
    assert examined.status == 1
    assert examined.only("store").text == f"{tmp_path} is on tmpfs, mounted read-only"
    assert examined.only("file system").text.endswith(
        "a file cannot be made: Read-only file system"
    )
    assert examined.only("names").level == "ok"


def test_given_a_store_of_another_user_then_it_says_who_should_ask(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir(mode=0o500)
    found = doctor(prefix=ordinary(), store=store).only("file system")
    assert found.level == "warning"
    assert found.text == f"{store}: a file cannot be made: Permission denied"
    assert "sudo -u" in found.do


@pytest.mark.parametrize(
    ("lines", "what", "level", "text"),
    [
        (["flock 95"], "file system", "ok", "it has "),
        (["flock 95", "lock 95"], "file system", "failed", "{} has no file locks"),
        (["fallocate 95"], "file system", "hint", "{} has no fallocate"),
        (["write 28"], "file system", "failed", "{}: a file cannot be written: No space left"),
        (["fdatasync 5"], "disk", "failed", "{}: a file cannot be written: Input/output error"),
    ],
    ids=lambda one: "+".join(one) if isinstance(one, list) else "",
)
def test_given_a_disk_that_cannot_or_fails_then_it_is_named(
    tmp_path: Path, lines: list[str], what: str, level: str, text: str
) -> None:
    store = tmp_path / "store"
    store.mkdir()
    faults = Faults(tmp_path)
    with faults.on(*lines):
        found = doctor(env=preload(store, faults=faults), store=store).only(what)
    assert found.level == level
    assert found.text.startswith(text.format(store))
    assert list(store.iterdir()) == []


def test_given_a_disk_that_is_slower_than_syncs_come_then_it_warns(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    faults = Faults(tmp_path)
    with faults.on("write 1MB/s"):  # 4 ms for a page
        env = preload(store, faults=faults)
        found = doctor("--sync_interval", "1ms", env=env, store=store).only("disk")
    assert found.level == "warning"
    assert found.why.startswith("the journal window (64MiB) fills")


@pytest.mark.parametrize(("sync", "level"), [("always", "warning"), ("interval", "ok")])
def test_given_a_slow_disk_then_it_matters_to_sync_always(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sync: str, level: str
) -> None:
    monkeypatch.setattr(store_disk, "SLOW_S", 0.0)
    monkeypatch.setattr(store_disk, "STUCK_S", 60.0)
    flags = {"store_dir": str(tmp_path), "journal.sync": sync, "journal.sync_interval": "60s"}
    settings = resolve(flags, {}).settings
    (found,) = store_disk.latency(Patient(settings, os.getpid(), False))
    assert found.level == level


def test_given_little_time_then_the_measurement_ends_after_one_sync(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb", buffering=0) as file:
        assert len(store_disk.sync_times(file.fileno(), 100, 0.0)) == 1
        assert len(store_disk.sync_times(file.fileno(), 3, 60.0)) == 3


@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM), (signal.SIGKILL, -signal.SIGKILL)],
)
def test_given_it_is_ended_while_it_measures_then_nothing_is_printed_or_left(
    tmp_path: Path, number: int, status: int
) -> None:
    store = tmp_path / "store"
    store.mkdir()
    faults = Faults(tmp_path)
    with faults.on("fdatasync stall"):
        env = environment(preload(store, faults=faults))
        command = [COMMAND, "doctor", "-sd", str(store)]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdout=pipe, stderr=pipe, env=env) as process:
            await_open_file(process.pid, store)
            assert list(store.iterdir()) == []
            process.send_signal(number)
            assert process.communicate(timeout=COMMAND_S) == (b"", b"")
            assert process.returncode == status
    assert list(store.iterdir()) == []


def await_open_file(pid: int, folder: Path) -> None:
    """Wait until a process has a file of this folder open."""
    end = time.monotonic() + COMMAND_S
    while not any(str(folder) in place for place in open_files(pid)):
        assert time.monotonic() < end
        time.sleep(0.01)  # no event to await


@pytest.mark.skipif(not Path("/dev/fuse").exists(), reason="no file system that can hang")
def test_given_a_file_system_that_does_not_answer_then_it_says_so_and_ends(tmp_path: Path) -> None:
    fuse = "fd=9,rootmode=40000,user_id=0,group_id=0"  # what is asked at fd 9 is never answered
    lines = ("exec 9<>/dev/fuse", f"mount -i -t fuse -o {fuse} none {tmp_path}")
    examined = doctor(prefix=alone(*lines, kinds=["--mount"]), store=tmp_path / "store")
    found = examined.only("store")
    assert (found.level, found.text) == (
        "warning",
        "could not be examined: no answer within 10 s",
    )
    assert examined.about("disk") == []
    assert examined.about("open files")


@pytest.mark.skipif(STAND_IN, reason="of our own store")
def test_given_a_running_broker_then_it_keeps_its_store_and_publishes_on(tmp_path: Path) -> None:
    with SeriatimServer(store=tmp_path) as broker:
        with RawClient(broker.port, QUIET) as client:
            client.ask(b"PUB a 1\r\nx\r\n")
            before = {path: path.stat().st_ino for path in tmp_path.iterdir()}
            examined = doctor("-p", str(broker.port), store=tmp_path)
            assert f"of the running broker, process {broker.pid})" in examined.only("threads").text
            assert {path: path.stat().st_ino for path in tmp_path.iterdir()} == before
            client.ask(b"PUB a 1\r\nx\r\n")
        broker.stop()
        assert not [line for line in broker.log if "[WRN] Journal" in line or "[ERR]" in line]
