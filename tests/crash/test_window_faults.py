"""The disk does not give a page of the journal window: messages are refused, and nobody dies."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sequencer.journal.window_file import FILE
from tests.crash.disks import KINDS, PowerDisk, fill, mounted, run, why_no_cut, why_not
from tests.crash.talk import heard, lives, pub, refusals, replay
from tests.crash.test_full_disk import AGAIN, info
from tests.support.processes import STAND_IN, SeriatimServer
from tests.support.raw import HEADERS, QUIET, Operation, RawClient
from tests.support.web import get, http_port

pytestmark = pytest.mark.skipif(STAND_IN, reason="nats-server has no journal")
MEBIBYTE = 1 << 20
BURST = 20
REFUSING = "publishers are refused"
SMALL = ("--journal_window_bytes", "4MiB", "--segment_bytes", "4MiB", "--retain_bytes", "1GiB")


def broker_on(disk: Path, *arguments: str) -> SeriatimServer:
    return SeriatimServer("netstring", None, [*SMALL, *arguments], store=disk / "store")


def publish(port: int, first: int, count: int) -> list[Operation]:
    """Messages that begin with their numbers, until one is refused: what is said then."""
    with RawClient(port, QUIET) as client:
        for begin in range(first, first + count, BURST):
            numbers = range(begin, min(begin + BURST, first + count))
            said = client.ask(b"".join(pub(payload_of(number)) for number in numbers))
            if said:
                return said
    return []


def payload_of(number: int) -> bytes:
    return b"%d " % number + bytes(8000)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    if why_not(request.param):
        pytest.skip(why_not(request.param))
    return str(request.param)


def test_given_any_file_system_when_the_broker_is_killed_then_all_that_was_acknowledged_is_there(
    kind: str,
) -> None:
    with mounted(kind, 64 * MEBIBYTE) as disk, broker_on(disk) as broker:
        assert publish(broker.port, 1, 600) == []  # the window is used again
        told = replay(broker.port)
        assert len(told) == 600
        broker.kill()
        broker.start(broker.port)
        assert replay(broker.port) == told
        assert publish(broker.port, 601, 1) == []


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "ramfs"], indirect=True)
@pytest.mark.parametrize("sync", ["interval", "always"])
def test_given_a_full_disk_and_a_copy_that_shares_the_window_then_publishers_are_refused(
    kind: str, sync: str
) -> None:
    """Where files share blocks, the reserved ones are the copy's then: a write needs new room."""
    with mounted(kind, 64 * MEBIBYTE) as disk, broker_on(disk, "--sync", sync) as broker:
        assert publish(broker.port, 1, 300) == []
        window = disk / "store" / FILE
        if kind == "xfs":
            run("cp", "--reflink=always", str(window), str(disk / "copy"))
        elif kind == "btrfs":
            run("btrfs", "subvolume", "snapshot", str(disk), str(disk / "copy"))
        fillers = [fill(disk, 2 * MEBIBYTE), *(fill(disk, 0, f"rest{n}") for n in range(3))]
        count = 300
        while not (said := publish(broker.port, count + 1, 1)):
            count += 1
            assert count < 5000, "this disk is never full"
            sync_disk(disk)  # each page is asked for again when it is written to
        assert refusals(said)
        told = info(broker.port)
        assert told["full"] is True
        least = 0 if sync == "always" else 300  # of the others no sync was awaited
        assert least <= told["last"] <= count
        if told["last"]:  # with `always`, perhaps no sync was done in time
            numbers = [number for number, _ in replay_of(broker.port, told["last"])]
            assert numbers == list(range(1, told["last"] + 1))
        for file in fillers:
            file.unlink()
        assert broker.await_line(AGAIN)
        assert publish(broker.port, count + 1, 50) == []
        last = len(replay(broker.port))
        assert last >= count, "at most the refused ones are missing"
        broker.kill()
        broker.start(broker.port)
        assert [number for number, _ in replay(broker.port)] == list(range(1, last + 1))


def sync_disk(disk: Path) -> None:
    """Write all that is dirty on this file system."""
    run("sync", "--file-system", str(disk))


def replay_of(port: int, last: int) -> list[tuple[int, bytes]]:
    """The journal up to a number, of a broker that may take nothing more."""
    with RawClient(port, HEADERS) as client:
        client.send(b"SUB $SEQ.RANGE.1.%d.> 2\r\n" % last)
        found = []
        while (operation := client.operation()).subject != b"$SEQ.END.%d" % last:
            found.append(operation)
        return heard(found)


@pytest.mark.skipif(bool(why_no_cut()), reason=why_no_cut() or "it can be cut")
def test_given_a_file_system_that_shuts_down_then_publishers_are_refused_until_a_restart() -> None:
    with PowerDisk() as disk, broker_on(disk.folder) as broker:
        assert publish(broker.port, 1, 100) == []
        sync_disk(disk.folder)
        disk.cut()
        said = publish(broker.port, 101, 1000)
        assert refusals(said)
        assert broker.await_line(REFUSING)
        assert lives(broker.port)
        broker.kill()
        disk.restore()
        broker.start(broker.port)
        told = [number for number, _ in replay(broker.port)]
        assert told[:100] == list(range(1, 101))


READ = """
import sys
from sequencer.journal import Lost, Reader

for item in Reader(sys.argv[1]).tail():
    print("lost" if isinstance(item, Lost) else item.number, flush=True)
"""


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("size", [0, 4096, MEBIBYTE], ids=["empty", "head", "a part"])
@pytest.mark.parametrize("sync", ["interval", "always"])
def test_given_the_window_is_cut_short_under_the_broker_then_it_refuses_and_nobody_dies(
    sync: str, size: int, tmp_path: Path, reader: list[subprocess.Popen[str]]
) -> None:
    with (
        broker_on(tmp_path, "--sync", sync, "-m", "-1") as broker,
        RawClient(broker.port, QUIET) as ear,
    ):
        ear.ask(b"SUB > 1\r\n")
        assert publish(broker.port, 1, 300) == []
        assert len(heard(ear.ask(b""))) == 300
        command = [sys.executable, "-c", READ, str(tmp_path / "store")]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        reader.append(process)
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(300)][-1] == "300\n"
        while get(http_port(broker), "/varz").json["journal"]["synced"] < 300:
            pass
        os.truncate(tmp_path / "store" / FILE, size)
        assert refusals(publish(broker.port, 301, 5000))
        assert broker.await_line(REFUSING)
        assert broker.said("the journal window was cut short")
        assert lives(broker.port)
        assert replay_of(broker.port, 300) == [(n, payload_of(n)) for n in range(1, 301)]
        assert process.poll() is None
        assert broker.stop() == 0
        broker.start(broker.port)
        told = [number for number, _ in replay(broker.port)]
        assert told[:300] == list(range(1, 301))
