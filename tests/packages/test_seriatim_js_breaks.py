"""The npm package while connections break, brokers restart and die, and journals change."""

import random
import shutil
import threading
from pathlib import Path

import pytest

from tests.packages.runtimes import Runtime
from tests.packages.scripts import END_S, reading, running
from tests.support.processes import STAND_IN, SeriatimServer
from tests.support.raw import QUIET, RawClient
from tests.support.relay import Relay
from tests.support.web import get, http_port, monitored

pytestmark = pytest.mark.skipif(STAND_IN, reason="nats-server gives no numbers")
WAYS = ("nats", "nats-io", "connect")
# Where the package does the same, by its own code and by the client's; elsewhere, the way users go.
EVERYWHERE = [*(("node", way) for way in WAYS), ("deno", "connect"), ("bun", "connect")]
on_node = pytest.mark.parametrize("runtime", ["node"], indirect=True)
everywhere = pytest.mark.parametrize(("runtime", "way"), EVERYWHERE, indirect=["runtime"])


def publish(port: int, numbers: range, text: str = "%04d") -> None:
    """Messages whose payloads are their numbers."""
    rows = [(text % number).encode() for number in numbers]
    with RawClient(port, QUIET) as client:
        assert client.ask(b"".join(b"PUB orders.x %d\r\n%b\r\n" % (len(r), r) for r in rows)) == []


def rows(numbers: range) -> list[str]:
    return [f"{number} {number:04d}" for number in numbers]


@everywhere
def test_given_breaks_restarts_and_kills_then_each_message_is_read_once(
    runtime: Runtime, laid: Path, tmp_path: Path, way: str
) -> None:
    position = {"position": str(tmp_path / "position")}
    with monitored("netstring") as broker, Relay(broker.port) as relay:
        publish(broker.port, range(1, 101))
        with reading(runtime, laid, way, relay.port, **position) as reader:
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
        with reading(runtime, laid, way, relay.port, until=700, **position) as reader:
            again = reader.end()
        begin = int(again[0].split()[0])
        assert 2 <= begin <= 601, "the file may be a second behind the kill"
        assert again == [*rows(range(begin, 701)), "end"]


@everywhere
def test_given_a_network_that_cuts_at_random_then_all_is_published_and_read_once(
    runtime: Runtime, laid: Path, way: str
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
            reading(runtime, laid, way, relay.port, until=count, start=1) as reader,
            running(runtime, laid, *arguments) as publisher,
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


@on_node
@pytest.mark.parametrize("way", WAYS)
def test_given_a_broker_that_is_away_then_what_is_published_waits(
    runtime: Runtime, laid: Path, way: str
) -> None:
    with SeriatimServer("netstring") as broker, Relay(broker.port) as relay:
        url = f"nats://127.0.0.1:{relay.port}"
        with running(runtime, laid, "publisher.mjs", way, url, "orders.x", "2000") as publisher:
            publisher.until("500 ")
            broker.kill()
            relay.sever()
            broker.start(broker.port)
            relay.heal()
            publisher.end()
        assert publisher.lines == [f"{at} {at + 1}" for at in range(2000)]


@on_node
@pytest.mark.parametrize("losses", ["raise", "yield"])
@pytest.mark.parametrize("way", WAYS)
def test_given_a_store_that_was_deleted_then_the_reader_says_so_and_begins_again(
    runtime: Runtime, laid: Path, tmp_path: Path, way: str, losses: str
) -> None:
    with SeriatimServer("netstring", store=tmp_path / "one") as broker:
        publish(broker.port, range(1, 6))
        with reading(runtime, laid, way, broker.port, losses=losses, again=True) as reader:
            reader.until("5 ")
            broker.stop()
            (tmp_path / "one").rename(tmp_path / "away")
            broker.start(broker.port)
            publish(broker.port, range(1, 3))
            lines = reader.until("2 ")
    told, *rest = lines
    assert told.startswith("changed 5" if losses == "yield" else "raised JournalChanged ")
    assert rest == rows(range(1, 3)), "and nothing is left of the old subscription"


@on_node
@pytest.mark.parametrize("way", WAYS)
def test_given_a_journal_that_lost_its_end_and_grew_again_then_the_reader_says_so(
    runtime: Runtime, laid: Path, tmp_path: Path, way: str
) -> None:
    """It knows by the time of its last message, or else by its content."""
    text = "%04d" if way == "connect" else "new%04d"
    with SeriatimServer("netstring", store=tmp_path / "one") as broker:
        publish(broker.port, range(1, 6))
        broker.stop()
        shutil.copytree(tmp_path / "one", tmp_path / "older")
        broker.start(broker.port)
        publish(broker.port, range(6, 11))
        with reading(runtime, laid, way, broker.port, losses="yield") as reader:
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


@on_node
@pytest.mark.parametrize("comes_back", [True, False])
def test_given_a_member_that_lags_then_the_reader_waits_some_seconds_for_it(
    runtime: Runtime, laid: Path, tmp_path: Path, comes_back: bool
) -> None:
    with SeriatimServer("netstring", store=tmp_path / "one") as broker:
        publish(broker.port, range(1, 6))
        broker.stop()
        shutil.copytree(tmp_path / "one", tmp_path / "lagging")
        broker.start(broker.port)
        publish(broker.port, range(6, 11))
        with (
            Relay(broker.port) as relay,
            reading(runtime, laid, "nats", relay.port, losses="yield") as reader,
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


@on_node
@pytest.mark.parametrize("losses", ["raise", "yield"])
@pytest.mark.parametrize("way", WAYS)
def test_given_messages_that_are_gone_then_the_reader_says_which_and_goes_on(
    runtime: Runtime, laid: Path, way: str, losses: str
) -> None:
    arguments = ["--no-journal", "--ring_bytes", "300KiB"]
    with SeriatimServer("netstring", arguments=arguments) as broker:
        publish(broker.port, range(1, 3))
        with RawClient(broker.port, QUIET) as client:
            big = b"PUB other 100000\r\n" + b"x" * 100_000 + b"\r\n"
            assert client.ask(big * 10) == []
        publish(broker.port, range(13, 14))
        with reading(
            runtime,
            laid,
            way,
            broker.port,
            losses=losses,
            start=1,
            until=13,
            again=losses == "raise",
        ) as reader:
            told, *rest = reader.end()
    words = told.split()
    if losses == "yield":
        assert words[:2] == ["lost", "1"]
    else:
        assert words[:5] == ["raised", "Lost", "numbers", "1", "to"]
    assert rest == ["13 0013", "end"]


@on_node
def test_given_ids_that_were_forgotten_then_the_journal_says_what_was_published(
    runtime: Runtime, laid: Path
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

        relay.when(b"orders.x-40\r\n", after=cut)
        with running(runtime, laid, "publisher.mjs", "nats", url, "orders.x", "100") as publisher:
            said = [tuple(map(int, line.split())) for line in publisher.end()]
        assert was_cut.is_set()
        with reading(runtime, laid, "nats", broker.port, until="now") as reader:
            kept = [line.split() for line in reader.end()[:-1]]
    own = [(int(words[1]), int(words[0])) for words in kept if words[1] != "other"]
    assert [at for at, _ in own] == list(range(100)), "each once, in its order"
    assert said == own


@on_node
@pytest.mark.parametrize("way", WAYS)
def test_given_an_answer_that_is_lost_when_a_condition_is_refused_then_the_journal_says_whose_it_is(
    runtime: Runtime, laid: Path, way: str
) -> None:
    """The repeated message is refused, for it has its number already."""
    with SeriatimServer("netstring") as broker, Relay(broker.port) as relay:
        url = f"nats://127.0.0.1:{relay.port}"
        has_passed = threading.Event()
        relay.when(b"orders.x-40\r\n", before=relay.unhear, after=has_passed.set)
        arguments = ("publisher.mjs", way, url, "orders.x", "60", "expecting")
        with running(runtime, laid, *arguments) as publisher:
            assert has_passed.wait(END_S)
            relay.heal()
            assert publisher.end() == [f"{at} {at + 1}" for at in range(60)]
