"""A broker was killed, and its newest messages are in the window: what is damaged there is missed.

No start may give a number again that somebody has seen, and none may take long, or be deaf, for
what was published.
"""

import os
import shutil
import signal
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sequencer.journal.window_file import FILE, NEWEST
from tests.crash.talk import heard, pub
from tests.seriatim.cli.command import seriatim
from tests.support.processes import STAND_IN, NotReadyError, SeriatimServer
from tests.support.raw import QUIET, RawClient

pytestmark = pytest.mark.skipif(STAND_IN, reason="nats-server keeps nothing")
COUNT = 30
SYNCED = 20
LATER = ["--sync_interval", "1m", "--journal_window_bytes", "1MiB"]  # what follows is not synced
LATE = b"late message"
HEADS = 26_000  # in one message
HEAD_LENGTH = 50_000_000


def publish(port: int, bodies: list[bytes]) -> list[int]:
    """Publish these; their numbers, as a subscriber sees them."""
    with RawClient(port, QUIET + b"SUB a 1\r\n") as client:
        client.send(b"".join(pub(body) for body in bodies))
        return [number for number, _ in heard(client.operation() for _ in bodies)]


@pytest.fixture
def killed() -> Iterator[SeriatimServer]:
    """Killed after COUNT messages. The first were synced, and the store as it was then is kept."""
    with SeriatimServer("netstring", None, LATER) as broker:
        assert publish(broker.port, [b"x"] * SYNCED)[-1] == SYNCED
        broker.restart()
        shutil.copy(broker.store / FILE, broker.store / "older")
        assert publish(broker.port, [LATE] * (COUNT - SYNCED))[-1] == COUNT
        broker.kill()
        yield broker


def empty(store: Path) -> None:
    os.truncate(store / FILE, 0)


def damage_a_copy(store: Path) -> None:
    data = (store / FILE).read_bytes()
    (store / FILE).unlink()
    at = data.index(LATE, data.index(LATE) + 1)  # that of the second one
    (store / FILE).write_bytes(data[:at] + b"L" + data[at + 1 :])


def put_back_an_older_one(store: Path) -> None:
    (store / FILE).write_bytes((store / "older").read_bytes())


def remove_both(store: Path) -> None:
    (store / FILE).unlink()
    (store / "store.json").unlink()


HARMS = [empty, damage_a_copy, put_back_an_older_one, remove_both]


@pytest.mark.parametrize("knows", [True, False], ids=["newest", "no-newest"])
@pytest.mark.parametrize("harm", HARMS)
def test_given_a_damaged_window_then_it_is_refused_and_no_number_is_given_again(
    killed: SeriatimServer, harm: Callable[[Path], None], knows: bool
) -> None:
    if not knows and harm is put_back_an_older_one:
        harm = empty  # a window that is whole, and older by less than a sync, has no other witness
    harm(killed.store)
    if not knows:
        (killed.store / NEWEST).unlink()
    with pytest.raises(NotReadyError, match="accept-loss"):
        killed.start(killed.port)
    said = "\n".join(killed.log)
    assert f"{FILE}: " in said
    begin = SYNCED + 1 + (harm is damage_a_copy)
    assert f"number {begin} is damaged or missing, and all up to 30 were here" in said or not knows
    verified = seriatim("journal", "verify", str(killed.store))
    assert (verified.returncode, b": OK" in verified.stdout) == (1, False), verified.stdout
    killed.command.append("--accept-loss")
    killed.start(killed.port)
    with RawClient(killed.port, QUIET + b"SUB a 1\r\n") as client:
        client.send(pub(b"next"))
        ((number, _),) = heard([client.operation()])
        assert number == COUNT + 1 or (number > COUNT and not knows)
        client.send(b"SUB $SEQ.RANGE.%d.%d.> 2\r\n" % (begin - 1, number))
        ends = [client.operation()]
        while not ends[-1].subject.startswith(b"$SEQ.END."):
            ends.append(client.operation())
    lost = [one.subject for one in ends if one.subject.startswith(b"$SEQ.LOST.")]
    assert lost == [b"$SEQ.LOST.%d.%d" % (begin, begin if harm is damage_a_copy else number - 1)]


def test_given_something_else_in_the_place_of_the_window_then_it_is_named_at_once(
    killed: SeriatimServer,
) -> None:
    (killed.store / FILE).unlink()
    for make, kind in ((os.mkfifo, "FIFO"), (os.mkdir, "directory")):
        make(killed.store / FILE)
        with pytest.raises(NotReadyError, match=f"{FILE}: this is a {kind}"):
            killed.start(killed.port)
        verified = seriatim("journal", "verify", str(killed.store))
        assert (verified.returncode, kind.encode() in verified.stdout) == (1, True)
        shutil.rmtree(killed.store / FILE) if kind == "directory" else (
            killed.store / FILE
        ).unlink()


def fake(number: int) -> bytes:
    """A payload full of what looks like heads of long records that carry this number."""
    return struct.pack("<IIQQQQ", 0, HEAD_LENGTH, number, 7, 7, 7) * HEADS


def test_given_messages_full_of_record_heads_then_the_next_start_is_as_quick_as_ever() -> None:
    arguments = ["--journal_window_bytes", "64MiB"]
    with SeriatimServer("netstring", None, arguments) as broker:
        with RawClient(broker.port, QUIET) as client:
            for _ in range(4):
                body = fake(5)
                client.ask(b"PUB aaaaaaaa %d\r\n%b\r\n" % (len(body), body))
        for is_spoilt in (False, True):
            broker.kill()
            if is_spoilt:
                spoil_head(broker.store)
            broker.start(broker.port)  # one head in the way costs 5 ms: all of them, 9 minutes
            assert any("numbers 1 to 4" in line for line in broker.log)


def spoil_head(store: Path) -> None:
    with (store / FILE).open("r+b") as file:
        file.write(b"damaged!")


def test_given_a_start_that_takes_long_then_it_reports_that_and_a_signal_ends_it(
    killed: SeriatimServer,
) -> None:
    newest = max(killed.store.glob("*.segment"))
    size = newest.stat().st_size
    os.truncate(newest, 1 << 40)  # a hole, to be searched for records
    command = [*killed.command, "-a", killed.host, "-p", "-1"]
    for number in (signal.SIGTERM, signal.SIGINT):
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as broker:
            assert broker.stderr is not None
            said = ""
            while f"searching {newest}: " not in said:
                said = broker.stderr.readline()
                assert said, "it has ended"
            assert "of 1048576 MiB, after " in said
            broker.send_signal(number)
            assert f"Stopped: {number.name} while the journal was opened" in broker.stderr.read()
        assert broker.returncode == 0
    os.truncate(newest, size)
    killed.start(killed.port)
    assert publish(killed.port, [b"z"]) == [COUNT + 1]
