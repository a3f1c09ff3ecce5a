"""A broker that starts where another was killed: its log says what it found, and it goes on.

Segments and the journal window have the same messages then, for they were synced.
"""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sequencer.journal.high_water import FILE
from sequencer.journal.window_file import FILE as WINDOW
from sequencer.journal.window_file import PAGE
from tests.crash.talk import heard, pub, replay
from tests.support.processes import STAND_IN, SeriatimServer
from tests.support.raw import HEADERS, QUIET, RawClient
from tests.support.windows import boot_again

pytestmark = pytest.mark.skipif(STAND_IN, reason="nats-server keeps nothing")
COUNT = 300
BODY = b"x" * 1000
OPENED = re.compile(
    r"Journal (\w{16}) in (\S+), epoch (\d+):"
    r" (?:numbers (\d+) to (\d+)|empty, 1 is next), (\d+) bytes"
)


def payload(at: int) -> bytes:
    return b"%d " % at + BODY


@pytest.fixture
def broker() -> Iterator[SeriatimServer]:
    """Killed, with some segments of 64 KiB behind it; `begin` starts it again."""
    with SeriatimServer(
        "netstring", None, ["--segment_bytes", "64KiB", "--sync", "always"]
    ) as broker:
        with RawClient(broker.port, QUIET + b"SUB a 1\r\n") as client:
            for first in range(0, COUNT, 20):  # by and by, or one segment holds it all
                client.send(b"".join(pub(payload(at)) for at in range(first, first + 20)))
                assert heard(client.operation() for _ in range(20))[-1][0] == first + 20
        broker.kill()
        yield broker


def begin(broker: SeriatimServer) -> re.Match[str]:
    """Start again; what the log says of the journal."""
    broker.start(broker.port)
    found = [match for line in broker.log if (match := OPENED.search(line))]
    assert len(found) == 1
    return found[0]


def segments(broker: SeriatimServer) -> list[Path]:
    return sorted(broker.store.glob("*.segment"))


def lose_window(broker: SeriatimServer) -> None:
    """As a power cut may leave it: none of its pages."""
    window = broker.store / WINDOW
    size = window.stat().st_size
    with window.open("r+b") as file:
        file.truncate(PAGE)
        file.truncate(size)
    boot_again(broker.store)


def end_of(segment: Path) -> int:
    """Where the last record ends; zeros fill its page."""
    return -(-len(segment.read_bytes().rstrip(b"\0")) // 8) * 8


def is_whole(broker: SeriatimServer) -> bool:
    """Everything is replayed, and the next message gets the next number."""
    run = replay(broker.port)
    with RawClient(broker.port, QUIET) as client:
        assert heard(client.ask(b"SUB a 1\r\n" + pub(b"next"))) == [(COUNT + 1, b"next")]
    return run == [(at + 1, payload(at)) for at in range(COUNT)]


def test_given_a_kill_then_the_log_says_what_is_there_in_a_new_epoch(
    broker: SeriatimServer,
) -> None:
    opened = begin(broker)
    assert opened.group(2, 3, 4, 5) == (str(broker.store), "2", "1", str(COUNT))
    assert not [line for line in broker.log if "[WRN] Journal" in line or "[ERR]" in line]
    assert is_whole(broker)
    with RawClient(broker.port, HEADERS) as client:
        client.send(b"SUB _INBOX.1 1\r\nPUB $SEQ.INFO _INBOX.1 0\r\n\r\n")
        info = json.loads(client.operation().payload)
    assert (info["journal"], info["epoch"]) == (opened[1], 2)


@pytest.mark.parametrize("torn", [b"\0" * 5000, b"x" * 17, b"\xff" * 500])
def test_given_an_unfinished_write_then_it_is_cut_off_and_the_log_says_how_much(
    broker: SeriatimServer, torn: bytes
) -> None:
    newest = segments(broker)[-1]
    end = end_of(newest)
    with newest.open("r+b") as file:
        file.truncate(end)
        file.seek(end)
        file.write(torn)
    begin(broker)
    what = f"{len(torn)} bytes of an unfinished write after number {COUNT} cut off"
    assert [line for line in broker.log if what in line], broker.log
    assert is_whole(broker)


@pytest.mark.parametrize("is_there", [True, False], ids=["killed", "power-cut"])
def test_given_a_record_cut_in_half_then_the_window_has_it_or_the_numbers_go_on_before_it(
    broker: SeriatimServer, is_there: bool
) -> None:
    newest = segments(broker)[-1]
    with newest.open("r+b") as file:
        file.truncate(end_of(newest) - 500)
    (broker.store / FILE).unlink()  # as if it had been killed before the record was synced
    if is_there:
        assert begin(broker)[5] == str(COUNT)
        assert is_whole(broker)
        return
    lose_window(broker)
    opened = begin(broker)
    assert opened[5] == str(COUNT - 1)
    assert replay(broker.port)[-1] == (COUNT - 1, payload(COUNT - 2))
    with RawClient(broker.port, QUIET) as client:
        assert heard(client.ask(b"SUB a 1\r\n" + pub(b"next"))) == [(COUNT, b"next")]


@pytest.mark.parametrize("how", ["power-cut", "stopped"])
def test_given_the_newest_segment_cut_short_then_the_start_is_refused_until_the_loss_is_accepted(
    how: str,
) -> None:
    with SeriatimServer("netstring", None, ["--sync", "always"]) as broker:
        with RawClient(broker.port, QUIET) as client:
            assert heard(client.ask(b"SUB a 1\r\n" + pub(b"1") + pub(b"2") + pub(b"3")))[-1][0] == 3
        if how == "stopped":
            broker.stop()
        else:
            broker.kill()
            lose_window(broker)
        (newest,) = segments(broker)
        with newest.open("r+b") as file:
            file.truncate(end_of(newest) - 100)
        command = [*broker.command, "-a", "127.0.0.1", "-p", "-1"]
        refused = subprocess.run(
            command, env=broker.env, capture_output=True, text=True, timeout=60
        )
        assert refused.returncode == 1
        assert "numbers 2 to 3 are missing" in refused.stderr
        assert str(newest) in refused.stderr
        assert "--accept-loss" in refused.stderr
        assert "Traceback" not in refused.stderr
        broker.command.append("--accept-loss")
        broker.start(broker.port)
        with RawClient(broker.port, QUIET) as client:
            client.send(b"SUB $SEQ.FROM.1.> 1\r\n" + pub(b"next"))
            run = [client.operation() for _ in range(3)]
            assert [one.subject for one in run] == [b"a", b"$SEQ.LOST.2.3", b"a"]
            assert heard([run[0], run[2]]) == [(1, b"1"), (4, b"next")]
        broker.stop()
        broker.command.remove("--accept-loss")
        broker.start(broker.port)


def test_given_damage_in_the_newest_segment_then_one_message_is_lost_and_said_to_be(
    broker: SeriatimServer,
) -> None:
    newest = segments(broker)[-1]
    data = bytearray(newest.read_bytes())
    hit = int(newest.stem) + 2
    at = data.index(payload(hit - 1)) + 700
    data[at] ^= 1
    newest.write_bytes(data)
    lose_window(broker)
    begin(broker)
    assert [line for line in broker.log if "[ERR] Journal" in line and "lost" in line], broker.log
    with RawClient(broker.port, QUIET) as client:
        client.send(b"SUB $SEQ.RANGE.1.%d.> 1\r\n" % COUNT)
        run = []
        while (operation := client.operation()).subject != b"$SEQ.END.%d" % COUNT:
            run.append(operation)
        lost = [one.subject for one in run if one.subject.startswith(b"$SEQ.")]
        assert lost == [b"$SEQ.LOST.%d.%d" % (hit, hit)]
        kept = heard(one for one in run if not one.subject.startswith(b"$SEQ."))
        assert kept == [(at + 1, payload(at)) for at in range(COUNT) if at + 1 != hit]
        assert heard(client.ask(b"SUB a 1\r\n" + pub(b"next"))) == [(COUNT + 1, b"next")]


def test_given_damage_that_the_window_can_repair_then_nothing_is_lost(
    broker: SeriatimServer,
) -> None:
    newest = segments(broker)[-1]
    hit = int(newest.stem) + 2
    at = newest.read_bytes().index(payload(hit - 1)) + 700
    with newest.open("r+b") as file:
        file.seek(at)
        file.write(b"damage")
    begin(broker)
    assert broker.said(f"number {hit} damaged; put back from the window")
    assert is_whole(broker)


@pytest.mark.parametrize("fault", ["shortened", "unreadable", "flipped"])
def test_given_a_fault_that_many_replays_meet_then_each_gets_the_loss_and_the_log_has_it_once(
    broker: SeriatimServer, fault: str
) -> None:
    begin(broker)
    hurt = segments(broker)[1]
    first, following = int(hurt.stem), int(segments(broker)[2].stem)
    data = hurt.read_bytes()
    if fault == "shortened":
        os.truncate(hurt, 30_000)
    elif fault == "unreadable":
        hurt.unlink()
        hurt.mkdir()
    else:
        hurt.write_bytes(data[:20_000] + b"x" * 4000 + data[24_000:])
    for at in range(20):
        with RawClient(broker.port, QUIET) as client:
            client.send(b"SUB $SEQ.RANGE.%d.%d.> 1\r\n" % (first + at // 2, following))
            run = []
            while not (operation := client.operation()).subject.startswith(b"$SEQ.END"):
                run.append(operation.subject)
            assert len([subject for subject in run if subject.startswith(b"$SEQ.LOST.")]) == 1
    broker.stop()
    assert len([line for line in broker.log if "[ERR]" in line and str(hurt) in line]) == 1


@pytest.mark.parametrize("lost", ["store.json", "*.index", "lock"])
def test_given_a_lost_file_that_can_be_recreated_then_it_is(
    broker: SeriatimServer, lost: str
) -> None:
    journal = json.loads((broker.store / "store.json").read_text())["journal"]
    for path in broker.store.glob(lost):
        path.unlink()
    opened = begin(broker)
    assert opened.group(1, 4, 5) == (journal, "1", str(COUNT))
    assert is_whole(broker)


def test_given_a_deleted_store_then_the_journal_is_another_one(broker: SeriatimServer) -> None:
    journal = json.loads((broker.store / "store.json").read_text())["journal"]
    for path in broker.store.iterdir():
        path.unlink()
    opened = begin(broker)
    assert opened[1] != journal
    assert opened.group(3, 4, 5) == ("1", None, None)  # empty


def test_given_a_store_in_use_then_a_second_broker_says_whose_it_is_and_ends(
    broker: SeriatimServer,
) -> None:
    begin(broker)
    command = [*broker.command, "-a", "127.0.0.1", "-p", "-1"]
    second = subprocess.run(command, env=broker.env, capture_output=True, text=True, timeout=60)
    assert second.returncode == 1
    told = (
        f"{broker.store}: process {broker.pid} writes this store; stop it first, or choose another"
    )
    assert second.stderr.endswith(f"{told} directory with -sd DIR (--store_dir)\n")
    assert "Traceback" not in second.stderr
    assert is_whole(broker)
