"""`seriatim record`: files that are whole, that go on, and that say what is lost."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from seriatim.cli.recording.recording_format import (
    RecordedLoss,
    RecordedMessage,
    RecordingHead,
    RecordingReader,
    encode_head,
)
from tests.seriatim.cli.command import COMMAND, environment, refusal, seriatim
from tests.seriatim.cli.recording.recording import (
    WAIT_S,
    Recorder,
    await_growth,
    await_numbers,
    items_of,
    messages_of,
    numbers_of,
    publish,
)
from tests.support.commands import Forked
from tests.support.processes import SeriatimServer
from tests.support.raw import HEADERS, QUIET, RawClient
from tests.support.relay import Relay


@pytest.fixture(scope="module")
def broker() -> Iterator[SeriatimServer]:
    with SeriatimServer("stamp") as made:
        with RawClient(made.port, HEADERS) as client:
            client.ask(b"PUB r.a _INBOX.7 5\r\nhello\r\n")
            head = b"NATS/1.0\r\nDesk: 7\r\nDesk:8\r\nOdd:  two  blanks \r\n\r\n"
            size = b"%d %d" % (len(head), len(head) + 4)
            client.ask(b"HPUB r.b %b\r\n%b1:,\0\r\n" % (size, head))
            client.ask(b"PUB s.a 0\r\n\r\n")
            client.ask(b"PUB r.a 100000\r\n" + bytes(100_000) + b"\r\n")
        yield made


def url(broker: SeriatimServer) -> str:
    return f"127.0.0.1:{broker.port}"


def test_given_messages_of_all_kinds_then_every_byte_of_them_is_recorded(
    broker: SeriatimServer, tmp_path: Path
) -> None:
    path = tmp_path / "all.rec"
    before = time.time_ns()
    done = seriatim("record", "-o", str(path), "--from", "1", "-e", "--url", url(broker))
    assert done.returncode == 0, done.stderr
    first, second, third, fourth = messages_of(path)
    assert (first.number, first.subject, first.reply) == (1, b"r.a", b"_INBOX.7")
    assert (first.headers, first.payload) == (b"", b"hello")
    assert second.headers == b"NATS/1.0\r\nDesk: 7\r\nDesk:8\r\nOdd:  two  blanks \r\n\r\n"
    assert (second.payload, third.payload, fourth.payload) == (b"1:,\0", b"", bytes(100_000))
    assert before - WAIT_S * 10**10 < first.time_ns <= fourth.time_ns < before
    shown = seriatim("sub", ">", "--from", "1", "-e", "--json", "--url", url(broker)).stdout
    assert f"{first.time_ns % 10**9:09d}Z".encode() in shown.splitlines()[0]
    begin, end = done.stderr.decode().splitlines()
    assert begin == f"seriatim: recording everything from number 1 to 4, to {path}"
    assert end.startswith(f"seriatim: recorded 4 messages, {path.stat().st_size:,} bytes, in ")


def test_given_a_pipe_then_the_recording_goes_there(broker: SeriatimServer) -> None:
    done = seriatim("record", "r.*", "--from", "1", "-e", "--url", url(broker))
    assert done.returncode == 0
    assert numbers_of(done.stdout) == [1, 2, 4]
    assert done.stdout.startswith(b"52:18:seriatim recording,1:1,16:")


def test_given_several_subjects_then_only_those_are_recorded_and_the_head_names_them(
    broker: SeriatimServer, tmp_path: Path
) -> None:
    path = tmp_path / "some.rec"
    arguments = ("-o", str(path), "--from", "1", "-e", "--url", url(broker))
    assert seriatim("record", "r.b", "s.>", *arguments).returncode == 0
    reader = RecordingReader()
    assert [len(list(reader.feed(path.read_bytes())))] == [2]
    assert reader.head is not None
    assert reader.head.subjects == ("r.b", "s.>")


@pytest.mark.parametrize(
    ("begin", "expected"),
    [
        (("--from", "2"), [2, 4]),
        (("--from", "2", "--to", "3"), [2]),
        (("--since", "1d", "-n", "2"), [1, 2]),
        (("--last", "-n", "2"), [2, 4]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_given_the_options_of_sub_then_they_say_where_it_begins_and_ends(
    broker: SeriatimServer, tmp_path: Path, begin: tuple[str, ...], expected: list[int]
) -> None:
    path = tmp_path / "part.rec"
    ends = () if "-n" in begin or "--to" in begin else ("-e",)
    arguments = (*begin, *ends, "-o", str(path), "--url", url(broker))
    assert seriatim("record", "r.*", *arguments).returncode == 0
    assert numbers_of(path) == expected


def test_given_a_file_then_it_is_continued_after_its_last_number_and_only_there(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.rec"
    with SeriatimServer() as broker:
        there = ("-o", str(path), "--url", url(broker))
        publish(broker.port, "a", "b", "a")
        assert seriatim("record", "a", "--from", "1", "-e", *there).returncode == 0
        again = seriatim("record", "--from", "1", "-e", *there)
        assert "nothing is there from number 4: the last number given is 3" in again.stderr.decode()
        publish(broker.port, "a", "a", "b", "a")
        assert seriatim("record", "--to", "5", *there).returncode == 0
        assert numbers_of(path) == [1, 3, 4, 5]
        done = seriatim("record", "--to", "5", *there)
        assert done.stderr.decode() == f"seriatim: {path}: has number 5 already\n"
        assert seriatim("record", "a", "-n", "1", *there).returncode == 0
        assert numbers_of(path) == [1, 3, 4, 5, 7]
        assert refusal("record", "b", *there) == (
            f"{path}: is a recording of a; give the same subjects, none, or another file"
        )


def test_given_a_recording_of_another_journal_then_it_is_refused_and_not_changed(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.rec"
    with SeriatimServer() as one, SeriatimServer() as other:
        publish(one.port, "a")
        publish(other.port, "a", "a")
        first = seriatim("record", "-o", str(path), "--from", "1", "-e", "--url", url(one))
        assert first.returncode == 0
        before = path.read_bytes()
        said = refusal("record", "-o", str(path), "-e", "--url", url(other))
    assert said.startswith(f"{path}: is a recording of journal ")
    assert said.endswith("; give another file")
    assert path.read_bytes() == before


def test_given_a_journal_that_lost_its_end_then_its_new_messages_are_not_added(
    tmp_path: Path,
) -> None:
    store, older, path = tmp_path / "store", tmp_path / "older", tmp_path / "a.rec"
    with SeriatimServer(store=store) as broker:
        there = ("-o", str(path), "--url", url(broker))
        publish(broker.port, "a")
        broker.stop()
        shutil.copytree(store, older)
        broker.start(broker.port)
        publish(broker.port, "a")
        assert seriatim("record", "--from", "1", "-e", *there).returncode == 0
        broker.stop()
        shutil.rmtree(store)
        older.rename(store)
        broker.start(broker.port)
        publish(broker.port, "b", "b")
        said = refusal("record", *there)
    assert said.endswith("the broker's journal was cut, and has grown again; give another file")
    assert [message.subject for message in messages_of(path)] == [b"a", b"a"]


def test_given_another_file_then_it_is_refused_and_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("my notes")
    said = refusal("record", "-o", str(path), "--url", "127.0.0.1:1")
    assert said == f"{path}: not a recording; give another file"
    assert path.read_text() == "my notes"


def test_given_no_broker_then_no_file_is_left(tmp_path: Path) -> None:
    path = tmp_path / "a.rec"
    said = refusal("record", "-o", str(path), "--url", "127.0.0.1:1")
    assert said == "nats://127.0.0.1:1: connection refused: no broker listens there"
    assert not path.exists()


@pytest.mark.parametrize("cut", [1, 7, 60], ids=lambda cut: f"{cut} bytes")
@pytest.mark.parametrize("zeros", [False, True], ids=["cut short", "zeros"])
def test_given_an_end_that_is_cut_short_then_it_is_removed_and_recorded_again(
    broker: SeriatimServer, tmp_path: Path, cut: int, zeros: bool
) -> None:
    path = tmp_path / "a.rec"
    there = ("-o", str(path), "--from", "1", "-e", "--url", url(broker))
    assert seriatim("record", "s.*", "r.b", *there).returncode == 0
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut] + bytes(5000 * zeros))
    done = seriatim("record", *there)
    assert done.returncode == 0
    assert "the last record was cut short; removed " in done.stderr.decode()
    assert path.read_bytes() == whole


def test_given_a_head_that_is_cut_short_then_the_file_is_a_new_one(
    broker: SeriatimServer, tmp_path: Path
) -> None:
    path = tmp_path / "a.rec"
    path.write_bytes(encode_head(RecordingHead("00c0ffee00c0ffee", (">",)))[:20])
    there = ("-o", str(path), "--from", "1", "-e", "--url", url(broker))
    assert seriatim("record", *there).returncode == 0
    assert numbers_of(path) == [1, 2, 3, 4]


def test_given_kills_in_the_middle_then_each_number_is_recorded_once(tmp_path: Path) -> None:
    path = tmp_path / "a.rec"
    with SeriatimServer() as broker:
        publish(broker.port, *["a"] * 20_000)
        size = 0
        for _ in range(3):
            command = [COMMAND, "record", "-o", str(path), "--from", "1", "--url", url(broker)]
            recording = Forked(command, stderr=subprocess.PIPE, env=environment())
            await_growth(path, size)
            recording.kill()
            recording.communicate(timeout=WAIT_S)
            publish(broker.port, *["a"] * 5000)
            size = path.stat().st_size
        there = ("-o", str(path), "-e", "--url", url(broker))
        assert seriatim("record", *there).returncode == 0
    assert numbers_of(path) == list(range(1, 35_001))


def test_given_connections_that_break_all_the_time_then_each_number_is_recorded_once(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.rec"
    with SeriatimServer() as broker, Relay(broker.port) as relay:
        publish(broker.port, *(["a"] * 3000))
        relay.cut(down=20_000)
        there = ("-o", str(path), "--url", f"127.0.0.1:{relay.port}")
        assert seriatim("record", "--from", "1", "--to", "3000", *there).returncode == 0
        assert relay.connections > 3
    assert numbers_of(path) == list(range(1, 3001))


def test_given_a_restart_of_the_broker_then_it_goes_on_live_and_ends_with_a_summary(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.rec"
    with SeriatimServer() as broker:
        publish(broker.port, "before")
        with Recorder("-o", str(path), "--url", url(broker)) as recorder:
            assert recorder.greeting == f"seriatim: recording everything, to {path}\n"
            publish(broker.port, "a", "b")
            await_numbers(path, [2, 3])
            broker.restart()
            publish(broker.port, "c")
            assert "resuming from number 4 when the broker is back" in recorder.said()
            assert recorder.said() == "seriatim: connected again: listening from number 4\n"
            await_numbers(path, [2, 3, 4])
            recorder.process.send_signal(signal.SIGINT)
            status, _, said = recorder.end()
    assert status == 0
    assert said.startswith("seriatim: recorded 3 messages, ")
    assert said.endswith(f" s, to {path}, up to number 4\n")
    assert [message.subject for message in messages_of(path)] == [b"a", b"b", b"c"]


def test_given_a_wanted_end_then_an_interrupt_before_it_is_a_failure(
    broker: SeriatimServer, tmp_path: Path
) -> None:
    path = tmp_path / "a.rec"
    arguments = ("-o", str(path), "--from", "1", "--to", "1000", "--url", url(broker))
    with Recorder(*arguments) as recorder:
        assert "waiting for 5 to 1000" in recorder.said()
        await_growth(path, 100_000)
        recorder.process.send_signal(signal.SIGTERM)
        status, _, said = recorder.end()
    assert status == 130
    assert said.startswith("seriatim: recorded 4 messages, ")


def test_given_messages_that_retention_deleted_then_the_loss_is_said_and_recorded(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.rec"
    with SeriatimServer(arguments=["--no-journal", "--ring_bytes", "300KiB"]) as broker:
        with RawClient(broker.port, QUIET) as client:
            client.ask((b"PUB a 10000\r\n" + bytes(10_000) + b"\r\n") * 60)
        done = seriatim("record", "-o", str(path), "--from", "1", "-e", "--url", url(broker))
    assert done.returncode == 0, done.stderr
    loss, *rest = items_of(path)
    assert isinstance(loss, RecordedLoss)
    assert loss.first == 1 < loss.last < 60
    assert [one.number for one in rest if isinstance(one, RecordedMessage)] == list(
        range(loss.last + 1, 61)
    )
    assert f"LOST numbers 1 to {loss.last}:" in done.stderr.decode()


def test_given_two_at_once_then_the_second_is_refused(
    broker: SeriatimServer, tmp_path: Path
) -> None:
    path = tmp_path / "a.rec"
    with Recorder("-o", str(path), "--url", url(broker)):
        said = refusal("record", "-o", str(path), "--url", url(broker))
    assert said == f"{path}: another process is recording to it"


def test_given_a_full_disk_then_it_is_one_line(broker: SeriatimServer) -> None:
    said = refusal("record", "-o", "/dev/full", "--from", "1", "-e", "--url", url(broker))
    assert said == "/dev/full: no space left on device"


def test_given_a_limit_of_the_file_size_then_it_ends_with_a_whole_record(
    broker: SeriatimServer, tmp_path: Path
) -> None:
    path = tmp_path / "a.rec"
    script = 'ulimit -f 20; trap "" XFSZ; exec "$@"'  # 20 KiB: the fourth message does not fit
    command = [COMMAND, "record", "-o", str(path), "--from", "1", "--url", url(broker)]
    done = subprocess.run(
        ["bash", "-c", script, "bash", *command],
        env=environment(),
        capture_output=True,
        timeout=WAIT_S,
        check=False,
    )
    assert done.returncode == 1
    last = done.stderr.decode().splitlines()[-1]
    assert last.startswith(f"seriatim: {path}: file too large")
    assert numbers_of(path) == [1, 2, 3][: len(numbers_of(path))]
    assert path.stat().st_size < 20 * 1024


def test_given_a_reader_that_closes_the_pipe_then_it_is_one_line(broker: SeriatimServer) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    with os.fdopen(writes, "wb") as out:
        done = subprocess.run(
            [COMMAND, "record", "--from", "1", "--url", url(broker)],
            env=environment(),
            stdout=out,
            stderr=subprocess.PIPE,
            timeout=WAIT_S,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.decode() == "seriatim: standard output: its reader has closed the pipe\n"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--to", "5"), "--to is the end of a range; give its beginning with --from"),
        (("--from", "5", "--to", "4"), "--to 4 is before --from 5"),
        (("--from", "5", "--last"), "give one of --from and --last, not both"),
        (("a..b",), '"a..b" is not a valid subject'),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_given_options_that_do_not_fit_then_the_error_says_why(
    tmp_path: Path, arguments: tuple[str, ...], why: str
) -> None:
    path = tmp_path / "a.rec"
    assert why in refusal("record", *arguments, "-o", str(path), "--url", "127.0.0.1:1")
    assert not path.exists()
