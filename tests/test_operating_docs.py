"""docs/operating.md: its commands work, also beside a broker that is published to."""

import itertools
import json
import logging
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker.runtime.log_formats import ClientLabel, JsonFormat
from sequencer.journal import Lost, Reader
from sequencer.journal.layout import HEADER_SIZE
from seriatim.cli.signalling import SIGNALS
from tests.seriatim.cli.command import COMMAND, environment, seriatim
from tests.support.places import ROOT
from tests.support.processes import SeriatimServer
from tests.support.raw import QUIET, RawClient

PAGE = (ROOT / "docs" / "operating.md").read_text()
STORE, BACKUP = "/var/lib/seriatim", "/backup/seriatim"
WAIT_S = 60.0
SMALL = ["--segment_bytes", "4MiB"]


def section(heading: str) -> str:
    """The text below a heading, up to the next one of its level."""
    return PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def commands(heading: str, places: dict[str, Path]) -> str:
    """The block of commands of a section, with its places elsewhere."""
    (block,) = re.findall(r"^```\n(.*?)^```", section(heading), re.MULTILINE | re.DOTALL)
    for place, path in places.items():
        block = block.replace(place, str(path))
    return re.sub(r"^seriatim\b", COMMAND, block, flags=re.MULTILINE)


def shell(script: str) -> str:
    """What a shell prints that runs this; each command must succeed."""
    done = subprocess.run(
        ["sh", "-ec", script], capture_output=True, text=True, timeout=WAIT_S, env=environment()
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


class Load:
    """A publisher that asks for the number of each message, and puts the same into the payload."""

    def __init__(self, port: int) -> None:
        self.last = 0
        self._stop = threading.Event()
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._publish, args=(port,), daemon=True)

    def _publish(self, port: int) -> None:
        with RawClient(port, QUIET) as client:
            for number in itertools.count(1):
                payload = payload_of(number)
                client.ask(b"PUB orders.eu %d\r\n%b\r\n" % (len(payload), payload))
                with self._changed:
                    self.last = number
                    self._changed.notify_all()
                if self._stop.is_set():
                    return

    def reach(self, number: int) -> None:
        """Wait until so many messages are published."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.last >= number, WAIT_S)

    @contextmanager
    def running(self) -> Iterator["Load"]:
        self._thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            self._thread.join(WAIT_S)


def payload_of(number: int) -> bytes:
    return b"%d " % number + b"x" * (number % 2000)


def last_of(folder: Path) -> int:
    """The last number of a journal, after all its messages were looked at."""
    number = 0
    for item in Reader(str(folder)).records():
        assert not isinstance(item, Lost)
        number += 1
        assert (item.number, bytes(item.payload)) == (number, payload_of(number))
    return number


def test_given_a_broker_under_load_when_copied_and_restored_then_nothing_before_is_missing(
    tmp_path: Path,
) -> None:
    store, backup = tmp_path / "store", tmp_path / "backup"
    places = {BACKUP: backup, STORE: store}
    with SeriatimServer(store=store, arguments=SMALL) as broker:
        with Load(broker.port).running() as load:
            for after in (100, 5000, 10_000):
                load.reach(load.last + after)
                before = load.last
                shell(f"rm -rf {backup}")
                said = shell(commands("Backup", places))
                assert ": OK" in said
                (last,) = re.findall(r"^copied .*: numbers 1 to (\d+), ", said, re.MULTILINE)
                assert before <= last_of(backup) == int(last) <= load.last + 1
        broker.stop()
        shell(commands("Restore", places))
        assert (tmp_path / "store.before").is_dir()
        readable = last_of(store)
        broker.start()
        with RawClient(broker.port, QUIET) as client:
            (answer,) = client.ask(b"SUB i 1\r\nPUB $SEQ.INFO i 0\r\n\r\n")
            restored = json.loads(answer.payload)["last"]
            payload = payload_of(restored + 1)
            client.ask(b"PUB orders.eu %d\r\n%b\r\n" % (len(payload), payload))
        broker.stop()
        assert before <= readable <= restored
        assert last_of(store) == restored + 1


def test_given_a_copy_whose_highest_came_last_then_a_broker_refuses_it_as_the_page_says(
    tmp_path: Path,
) -> None:
    store, backup = tmp_path / "store", tmp_path / "backup"
    server = SeriatimServer(store=store, arguments=SMALL)
    with server as broker, RawClient(broker.port, QUIET) as client:
        client.ask(b"PUB a 1\r\nx\r\n")
        shell(commands("Backup", {BACKUP: backup, STORE: store}))
        client.ask(b"PUB a 1\r\nx\r\n" * 9)
    shell(f"cp -a {store}/.highest {backup}/")
    refused = seriatim("serve", "-a", "127.0.0.1", "-p", "-1", "-sd", str(backup))
    assert refused.returncode == 1
    assert b"missing: the newest segment ends with number 1" in refused.stderr


def test_given_a_damaged_segment_when_put_back_from_the_copy_then_it_is_whole(
    tmp_path: Path,
) -> None:
    store, backup = tmp_path / "store", tmp_path / "backup"
    server = SeriatimServer(store=store, arguments=SMALL)
    with server as broker, Load(broker.port).running() as load:
        load.reach(6000)
    shell(commands("Backup", {BACKUP: backup, STORE: store}))
    first = min(store.glob("*.segment"))
    with first.open("r+b") as file:
        file.seek(1 << 19)
        file.write(b"damage" * 100)
    assert seriatim("journal", "verify", str(store)).returncode == 1
    shell(f"cp -a {backup / first.name} {first}")
    assert seriatim("journal", "verify", str(store)).returncode == 0


def test_given_the_rotation_of_the_page_when_done_then_lines_go_to_a_new_file(
    tmp_path: Path,
) -> None:
    log, pid = tmp_path / "broker.log", tmp_path / "broker.pid"
    (told,) = re.findall(r"postrotate\n(.*?)endscript", PAGE, re.DOTALL)
    script = told.replace("/run/seriatim/broker.pid", str(pid))
    command = [COMMAND, "serve", "-a", "127.0.0.1", "-p", "-1", "--no-journal"]
    command += ["-l", str(log), "-P", str(pid)]
    with subprocess.Popen(command, env=environment()) as broker:
        await_text(log, "Server is ready")
        log.rename(tmp_path / "broker.log.1")
        shell(script)
        await_text(log, "")
        broker.send_signal(signal.SIGTERM)
        assert broker.wait(WAIT_S) == 0
    assert "Server stopped" in log.read_text()
    assert "Server stopped" not in (tmp_path / "broker.log.1").read_text()


def await_text(path: Path, text: str) -> None:
    """Wait until a file is there and has this text."""
    end = time.monotonic() + WAIT_S
    while not path.exists() or text not in path.read_text():
        assert time.monotonic() < end
        time.sleep(0.01)  # no event to await


def test_given_the_alerts_then_each_has_a_section_in_their_order() -> None:
    alerts = (ROOT / "deploy" / "prometheus" / "alerts.yml").read_text()
    known = re.findall(r"- alert: (\w+)", alerts)
    assert re.findall(r"^### (\w+)$", section("Alerts"), re.MULTILINE) == known


def test_given_the_table_of_signals_then_it_is_what_the_flag_takes() -> None:
    rows = re.findall(r"^\| (SIG\w+) \| ([^|]+) \|", section("Signals"), re.MULTILINE)
    listed = {word: name for name, words in rows for word in re.findall(r"`(\w+)`", words)}
    assert listed == {word: number.name for word, number in SIGNALS.items()}


def test_given_the_table_of_fields_then_a_line_has_them() -> None:
    listed: list[str] = []
    for row in re.findall(r"^\| (`.*?) \|", section("Logs"), re.MULTILINE):
        listed += re.findall(r"`(\w+)`", row)
    try:
        raise ValueError
    except ValueError:
        seen = sys.exc_info()
    arguments = (ClientLabel("127.0.0.1:5", 7),)
    record = logging.LogRecord("seriatim", logging.ERROR, "f", 1, "%s - x", arguments, seen)
    assert set(json.loads(JsonFormat().format(record))) == set(listed)


def test_given_common_problems_then_the_broker_has_these_words() -> None:
    rooms = ("broker", "sequencer", "parser", "sublist")
    sources = "".join(file.read_text() for room in rooms for file in (ROOT / room).rglob("*.py"))
    sources = re.sub(r'"\n\s*f?"', "", sources)
    told = re.findall(r"^\| `([^`]+)` \|", section("Common problems"), re.MULTILINE)
    assert len(told) > 10
    system = {"Address already in use"}  # words of the system
    assert [text for text in told if text not in sources and text not in system] == []


def test_given_the_example_of_capacity_then_it_is_computed_right() -> None:
    text = section("Capacity")
    assert f"a message takes {HEADER_SIZE} bytes" in text
    size = -(-(HEADER_SIZE + len("orders.eu") + 128) // 8) * 8
    assert f"128 bytes to `orders.eu` take {size} bytes" in text
    assert "the default of 10 GiB keeps 90 minutes" in text
    assert (10 << 30) / size / 10_000 / 60 == pytest.approx(90, rel=0.02)
