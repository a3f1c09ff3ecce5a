"""The npm package while connections break, brokers restart and die, and journals change."""

import json
import os
import random
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.processes import STAND_IN, SeriatimServer
from tests.support.raw import QUIET, RawClient
from tests.support.relay import Relay
from tests.support.web import get, http_port, monitored

pytestmark = pytest.mark.skipif(STAND_IN, reason="nats-server gives no numbers")
WAYS = ("nats", "nats-io", "connect")
END_S = 120.0


class Running:
    """A script that runs, and the lines that it says."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.lines: list[str] = []

    def until(self, begin: str) -> list[str]:
        """Return what it says up to a line that begins so; all of it if there is none."""
        assert self.process.stdout is not None
        at = len(self.lines)
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            if begin and line.startswith(begin):
                return self.lines[at:]
        assert not begin, "\n".join(self.lines[-50:])
        return self.lines[at:]

    def end(self) -> list[str]:
        """Return what it says up to its end, which must be a good one."""
        said = self.until("")
        assert self.process.wait(END_S) == 0, "\n".join(self.lines[-50:])
        return said


@contextmanager
def running(node: str, laid: Path, script: str, *arguments: str) -> Iterator[Running]:
    with subprocess.Popen(
        [node, script, *arguments],
        cwd=laid,
        env=os.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        killer = threading.Timer(END_S, process.kill)
        killer.start()
        try:
            yield Running(process)
        finally:
            killer.cancel()
            process.kill()


@contextmanager
def reading(node: str, laid: Path, way: str, port: int, **options: object) -> Iterator[Running]:
    url = f"nats://127.0.0.1:{port}"
    with running(node, laid, "reader.mjs", way, url, "orders.>", json.dumps(options)) as found:
        yield found


def publish(port: int, numbers: range, text: str = "%04d") -> None:
    """Messages whose payloads are their numbers."""
    rows = [(text % number).encode() for number in numbers]
    with RawClient(port, QUIET) as client:
        assert client.ask(b"".join(b"PUB orders.x %d\r\n%b\r\n" % (len(r), r) for r in rows)) == []


def rows(numbers: range) -> list[str]:
    return [f"{number} {number:04d}" for number in numbers]


@pytest.mark.parametrize("way", WAYS)
def test_given_breaks_restarts_and_kills_then_each_message_is_read_once(
    node: str, laid: Path, tmp_path: Path, way: str
) -> None:
    position = {"position": str(tmp_path / "position")}
    with monitored("netstring") as broker, Relay(broker.port) as relay:
        publish(broker.port, range(1, 101))
        with reading(node, laid, way, relay.port, **position) as reader:
            lines = reader.until("100 ")
            for first in (101, 201, 301):
                relay.sever()
                publish(broker.port, range(first, first + 100))
                relay.heal()
                lines += reader.until(f"{first + 99} ")
            sent = get(http_port(broker), "/varz").json["out_msgs"]
            assert sent < 450, "100 to 400, and what `$SEQ.INFO` answers: no SUB line was repeated"
            broker.restart()
            publish(broker.port, range(401, 501))
            lines += reader.until("500 ")
            broker.kill()
            broker.start(broker.port)
            publish(broker.port, range(501, 601))
            lines += reader.until("600 ")
        assert lines == rows(range(1, 601))
        publish(broker.port, range(601, 701))
        with reading(node, laid, way, relay.port, until=700, **position) as reader:
            again = reader.end()
        begin = int(again[0].split()[0])
        assert 2 <= begin <= 601, "the file may be a second behind the kill"
        assert again == [*rows(range(begin, 701)), "end"]


@pytest.mark.parametrize("way", WAYS)
def test_given_a_network_that_cuts_at_random_then_all_is_published_and_read_once(
    node: str, laid: Path, way: str
) -> None:
    count, dice, is_over = 3000, random.Random(7), threading.Event()
    with SeriatimServer("netstring") as broker, Relay(broker.port) as relay:

        def cut() -> None:
            """Let each connection end in the middle of something."""
            while not is_over.wait(0.05):
                relay.cut(up=dice.randrange(300, 60_000), down=dice.randrange(600, 60_000))

        relay.cut(up=20_000, down=20_000)
        cutter = threading.Thread(target=cut)
        url = f"nats://127.0.0.1:{relay.port}"
        arguments = ("publisher.mjs", way, url, "orders.x", str(count))
        with (
            reading(node, laid, way, relay.port, until=count, start=1) as reader,
            running(node, laid, *arguments) as publisher,
        ):
            cutter.start()
            try:
                published = publisher.end()
                assert relay.connections > 10
                broker.kill()
                broker.start(broker.port)
                read = reader.end()
            finally:
                is_over.set()
                cutter.join(END_S)
    numbers = {int(at): int(number) for at, number in map(str.split, published)}
    assert sorted(numbers) == list(range(count))
    assert [numbers[at] for at in range(count)] == sorted(numbers.values()), "in their order"
    assert read == [*(f"{numbers[at]} {at}" for at in range(count)), "end"]


@pytest.mark.parametrize("way", WAYS)
def test_given_a_broker_that_is_away_then_what_is_published_waits(
    node: str, laid: Path, way: str
) -> None:
    with SeriatimServer("netstring") as broker, Relay(broker.port) as relay:
        url = f"nats://127.0.0.1:{relay.port}"
        with running(node, laid, "publisher.mjs", way, url, "orders.x", "2000") as publisher:
            publisher.until("500 ")
            broker.kill()
            relay.sever()
            broker.start(broker.port)
            relay.heal()
            publisher.end()
        assert publisher.lines == [f"{at} {at + 1}" for at in range(2000)]


@pytest.mark.parametrize("losses", ["raise", "yield"])
@pytest.mark.parametrize("way", WAYS)
def test_given_a_store_that_was_deleted_then_the_reader_says_so_and_begins_again(
    node: str, laid: Path, tmp_path: Path, way: str, losses: str
) -> None:
    with SeriatimServer("netstring", store=tmp_path / "one") as broker:
        publish(broker.port, range(1, 6))
        with reading(node, laid, way, broker.port, losses=losses, again=True) as reader:
            reader.until("5 ")
            broker.stop()
            (tmp_path / "one").rename(tmp_path / "away")
            broker.start(broker.port)
            publish(broker.port, range(1, 3))
            lines = reader.until("2 ")
    told, *rest = lines
    assert told.startswith("changed 5" if losses == "yield" else "raised JournalChanged ")
    assert rest == rows(range(1, 3)), "and nothing is left of the old subscription"


@pytest.mark.parametrize("way", WAYS)
def test_given_a_journal_that_lost_its_end_and_grew_again_then_the_reader_says_so(
    node: str, laid: Path, tmp_path: Path, way: str
) -> None:
    """It knows by the time of its last message, or else by its content."""
    text = "%04d" if way == "connect" else "new%04d"
    with SeriatimServer("netstring", store=tmp_path / "one") as broker:
        publish(broker.port, range(1, 6))
        broker.stop()
        shutil.copytree(tmp_path / "one", tmp_path / "older")
        broker.start(broker.port)
        publish(broker.port, range(6, 11))
        with reading(node, laid, way, broker.port, losses="yield") as reader:
            reader.until("10 ")
            port = broker.port
            broker.stop()
            shutil.rmtree(tmp_path / "one")
            (tmp_path / "older").rename(tmp_path / "one")
            with SeriatimServer("netstring", store=tmp_path / "one") as elsewhere:
                publish(elsewhere.port, range(6, 21), text)
            broker.start(port)
            lines = reader.until(f"20 {text % 20}")
    assert lines[0] == "changed 10 20"
    assert lines[1] == "1 0001"
    assert lines[6] == f"6 {text % 6}"


@pytest.mark.parametrize("comes_back", [True, False])
def test_given_a_member_that_lags_then_the_reader_waits_some_seconds_for_it(
    node: str, laid: Path, tmp_path: Path, comes_back: bool
) -> None:
    with SeriatimServer("netstring", store=tmp_path / "one") as broker:
        publish(broker.port, range(1, 6))
        broker.stop()
        shutil.copytree(tmp_path / "one", tmp_path / "lagging")
        broker.start(broker.port)
        publish(broker.port, range(6, 11))
        with (
            Relay(broker.port) as relay,
            reading(node, laid, "nats", relay.port, losses="yield") as reader,
        ):
            reader.until("10 ")
            was_asked = threading.Event()  # again, after an answer that is behind
            relay.when(b"$SEQ.INFO", after=lambda: relay.when(b"$SEQ.INFO", after=was_asked.set))
            broker.stop()
            (tmp_path / "one").rename(tmp_path / "ahead")
            (tmp_path / "lagging").rename(tmp_path / "one")
            broker.start(broker.port)
            assert was_asked.wait(END_S)
            if comes_back:
                broker.stop()
                shutil.rmtree(tmp_path / "one")
                (tmp_path / "ahead").rename(tmp_path / "one")
                broker.start(broker.port)
                publish(broker.port, range(11, 13))
                assert reader.until("12 ") == rows(range(11, 13))
            else:
                assert reader.until("5 ")[0] == "changed 10 5"


@pytest.mark.parametrize("losses", ["raise", "yield"])
@pytest.mark.parametrize("way", WAYS)
def test_given_messages_that_are_gone_then_the_reader_says_which_and_goes_on(
    node: str, laid: Path, way: str, losses: str
) -> None:
    arguments = ["--no-journal", "--ring_bytes", "300KiB"]
    with SeriatimServer("netstring", arguments=arguments) as broker:
        publish(broker.port, range(1, 3))
        with RawClient(broker.port, QUIET) as client:
            big = b"PUB other 100000\r\n" + b"x" * 100_000 + b"\r\n"
            assert client.ask(big * 10) == []
        publish(broker.port, range(13, 14))
        with reading(
            node, laid, way, broker.port, losses=losses, start=1, until=13, again=losses == "raise"
        ) as reader:
            told, *rest = reader.end()
    words = told.split()
    if losses == "yield":
        assert words[:2] == ["lost", "1"]
    else:
        assert words[:5] == ["raised", "Lost", "numbers", "1", "to"]
    assert rest == ["13 0013", "end"]


def test_given_ids_that_were_forgotten_then_the_journal_says_what_was_published(
    node: str, laid: Path
) -> None:
    """The broker remembers one id; the window in which the client trusts it is zero, then."""
    with (
        SeriatimServer("netstring", arguments=["--dedupe_ids", "1"]) as broker,
        Relay(broker.port) as relay,
    ):
        url = f"nats://127.0.0.1:{relay.port}"
        was_cut = threading.Event()

        def cut() -> None:
            """Behind the message, before its answer: others make the broker forget the id."""
            relay.unhear()
            publish(broker.port, range(1, 11), "other %04d")
            relay.heal()
            was_cut.set()

        relay.when(b"id-40\r\n", after=cut)
        with running(node, laid, "publisher.mjs", "nats", url, "orders.x", "100") as publisher:
            said = [tuple(map(int, line.split())) for line in publisher.end()]
        assert was_cut.is_set()
        with reading(node, laid, "nats", broker.port, until="now") as reader:
            kept = [line.split() for line in reader.end()[:-1]]
    own = [(int(words[1]), int(words[0])) for words in kept if words[1] != "other"]
    assert [at for at, _ in own] == list(range(100)), "each once, in its order"
    assert said == own
