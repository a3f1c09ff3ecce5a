"""`seriatim bench` against running brokers, ours and nats-server: what it counts and prints."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hdrh.histogram import HdrHistogram

from tests.seriatim.cli.command import environment, refusal, seriatim
from tests.support.authority import Authority
from tests.support.processes import NatsServer, SeriatimServer, ServerProcess, url
from tests.support.raw import QUIET, RawClient

LATE = re.compile(rb"seriatim: [\d,]+ messages/s were published, not [\d,]+\n")  # a busy machine
STREAM = json.dumps({"name": "B", "subjects": ["acked"], "storage": "memory"}).encode()


@pytest.fixture(scope="module")
def brokers() -> Iterator[dict[str, ServerProcess]]:
    with ExitStack() as stack:
        yield {
            "seriatim": stack.enter_context(
                SeriatimServer("header")
            ),  # not the one that it asks for
            "nats-server": stack.enter_context(NatsServer()),
        }


@pytest.fixture(params=["seriatim", "nats-server"])
def broker(request: pytest.FixtureRequest, brokers: dict[str, ServerProcess]) -> ServerProcess:
    return brokers[request.param]


@pytest.fixture
def ours(brokers: dict[str, ServerProcess]) -> ServerProcess:
    return brokers["seriatim"]


@pytest.fixture(scope="module")
def jetstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    folder = tmp_path_factory.mktemp("js")
    with NatsServer(more=f'jetstream {{ store_dir: "{folder}" }}\n') as server:
        with RawClient(server.port, QUIET + b"SUB r 1\r\n") as raw:
            request = b"PUB $JS.API.STREAM.CREATE.B r %d\r\n%b\r\n" % (len(STREAM), STREAM)
            raw.send(request)
            assert b'"error"' not in raw.operation().payload
        yield server


def bench(broker: ServerProcess, *arguments: str) -> dict[str, Any]:
    """Run it; what it says in JSON."""
    done = seriatim("bench", *arguments, "-s", url(broker), "--json")
    assert (done.returncode, LATE.sub(b"", done.stderr)) == (0, b"")
    found: dict[str, Any] = json.loads(done.stdout)
    assert [found[name] for name in ("missing", "repeated", "disordered", "foreign", "lost")] == [
        *(0, 0, 0, 0, 0)
    ]
    return found


def test_given_messages_when_published_then_each_is_counted_once(broker: ServerProcess) -> None:
    found = bench(broker, "-n", "5000", "--size", "16")
    assert found["published"]["messages"] == found["received"]["messages"] == 5000
    assert found["published"]["cpu_us_per_message"] > 0
    assert found["received"]["per_second"] > 0
    assert (found["url"], found["subject"], found["size"]) == (url(broker), "bench", 16)
    assert found["server"].startswith("nats-server" if type(broker) is NatsServer else "Seriatim")
    assert (found["latency_us"], found["read_back"], found["interrupted"]) == ({}, None, False)


def test_given_several_of_each_when_published_then_all_get_all(broker: ServerProcess) -> None:
    several = ("--pubs", "3", "--subs", "2", "--subjects", "7", "--size", "1KiB")
    found = bench(broker, "many", *several, "-n", "1000")
    assert (found["published"]["processes"], found["published"]["messages"]) == (3, 1000)
    assert (found["received"]["processes"], found["received"]["messages"]) == (2, 2000)
    assert found["subject"] == "many.*"


def test_given_no_subscribers_when_published_then_nothing_is_received(
    broker: ServerProcess,
) -> None:
    found = bench(broker, "--subs", "0", "--duration", "100ms")
    assert found["published"]["messages"] > 0
    assert found["received"] is None


def test_given_a_rate_when_published_then_every_message_has_a_latency(
    broker: ServerProcess,
) -> None:
    found = bench(broker, "--rate", "2000", "--duration", "0.5", "--pubs", "2", "--subs", "2")
    assert found["published"]["messages"] == 1000
    latency = found["latency_us"]["delivery"]
    assert latency["count"] == 2000
    assert 0 < latency["min"] <= latency["p50"] <= latency["p99.99"] <= latency["max"]
    assert HdrHistogram.decode(latency["hdr"]).get_total_count() == 2000


def test_given_a_stalled_broker_when_it_goes_on_then_all_that_waited_is_charged(
    ours: ServerProcess,
) -> None:
    with RawClient(ours.port, QUIET) as ear:
        ear.ask(b"SUB stalled 1\r\n")
        command = ["bench", "stalled", "--rate", "1000", "-n", "4000", "--json", "-s", url(ours)]
        program = "import sys; from seriatim.cli import main; sys.exit(main(sys.argv[1:]))"
        with subprocess.Popen(
            [sys.executable, "-c", program, *command], stdout=subprocess.PIPE, env=environment()
        ) as process:
            ear.operation()  # it has begun
            ours.suspend()
            with pytest.raises(
                subprocess.TimeoutExpired
            ):  # a second of messages, none of them sent
                process.wait(1.0)
            ours.signal(signal.SIGCONT)
            out, _ = process.communicate()
    found = json.loads(out)
    assert found["received"]["messages"] == 4000
    latencies = HdrHistogram.decode(found["latency_us"]["delivery"]["hdr"])
    late = [
        one.count_at_value_iterated_to
        for one in latencies.get_recorded_iterator()
        if one.value_iterated_to > 100_000
    ]
    assert sum(late) > 500  # a closed loop would have had one


def test_given_acks_when_published_then_each_answer_is_timed(ours: ServerProcess) -> None:
    found = bench(ours, "acked", "--ack", "-n", "3000", "--window", "50", "--pubs", "2")
    assert found["published"]["messages"] == found["received"]["messages"] == 3000
    assert found["latency_us"]["ack"]["count"] == 3000
    found = bench(ours, "acked", "--ack", "-n", "300", "--rate", "3000", "--subjects", "3")
    assert {name: one["count"] for name, one in found["latency_us"].items()} == {
        "ack": 300,
        "delivery": 300,
    }


def test_given_a_stream_of_jetstream_when_acked_then_its_pub_acks_are_counted(
    jetstream: NatsServer,
) -> None:
    found = bench(jetstream, "acked", "--ack", "-n", "2000", "--window", "50")
    assert found["published"]["messages"] == found["received"]["messages"] == 2000
    assert found["latency_us"]["ack"]["count"] == 2000


def test_given_no_stream_when_acked_then_it_is_refused(
    jetstream: NatsServer, brokers: dict[str, ServerProcess]
) -> None:
    for server in (jetstream, brokers["nats-server"]):
        said = refusal("bench", "elsewhere", "--ack", "-s", url(server))
        assert (
            "acknowledges only what a stream of JetStream takes, and none takes elsewhere" in said
        )


def test_given_a_journal_when_replayed_then_what_was_published_comes_back(
    ours: ServerProcess,
) -> None:
    found = bench(ours, "again", "--replay", "--subs", "2", "--subjects", "3", "-n", "2000")
    assert found["received"] is None
    back = found["read_back"]
    assert (back["messages"], back["processes"]) == (4000, 2)
    assert back["last"] - back["first"] == 1999
    found = bench(ours, "again.*", "--from", str(back["first"]))
    assert found["published"] is None
    assert found["read_back"]["messages"] == 2000
    assert bench(ours, "again.1", "--from", "1")["read_back"]["messages"] == 667


def test_given_a_subject_without_messages_when_read_then_it_says_that_none_was_found(
    ours: ServerProcess,
) -> None:
    bench(ours, "some", "-n", "10")
    done = seriatim("bench", "none", "--from", "1", "-s", url(ours))
    assert (done.returncode, done.stderr) == (0, b'seriatim: no message on "none" was found\n')
    assert b"order" not in done.stdout


def test_given_numbers_that_are_not_there_when_read_then_it_is_refused(
    ours: ServerProcess, brokers: dict[str, ServerProcess]
) -> None:
    said = refusal("bench", ">", "--from", "1000000000", "-s", url(ours))
    assert said.endswith("nothing is there from number 1000000000 on")
    for options in (("--replay",), ("--from", "1")):
        said = refusal("bench", *options, "-s", url(brokers["nats-server"]))
        assert said.endswith("keeps no messages that could be read back by number")


def test_given_a_person_then_there_are_tables_and_a_drawing(ours: ServerProcess) -> None:
    done = seriatim("bench", "--rate", "1000", "-n", "200", "--plot", "-s", url(ours))
    assert (done.returncode, LATE.sub(b"", done.stderr)) == (0, b"")
    lines = done.stdout.decode().splitlines()
    assert lines[0] == f'Seriatim 0.1.0 at {url(ours)}: "bench", 128 B'
    words = [line.split() for line in lines]
    assert ["published", "1", "200"] in [one[:3] for one in words]
    assert ["received", "1", "200"] in [one[:3] for one in words]
    assert "latency, us  min" in done.stdout.decode()
    drawn = [int(one[3]) for one in words if len(one) > 4 and one[1] == "to" and "%" in one[4]]
    assert sum(drawn) == 200
    assert lines[-1] == "every message came once, in order"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--size", "15"), "--size 15 is too small: at least 16 bytes"),
        (("--size", "3x"), '--size: "3x" is not a size'),
        (("--duration", "0"), "--duration 0 leaves no time"),
        (("--duration", "1s", "-n", "5"), "give one of --count and --duration, not both"),
        (("--pubs", "0"), "--pubs 0 leaves nothing to measure"),
        (("--pubs", "2", "-n", "1"), "--count 1 is fewer than one message for each publisher"),
        (("--from", "1", "--rate", "5"), "publishes nothing; leave out --rate"),
        (("--replay", "--subs", "0"), "a replay needs a subscriber"),
        (("--window", "5"), "it needs --ack"),
        (("--plot",), "it needs --rate or --ack"),
        (("--subjects", "1000000", "--size", "1MiB"), "together more than 256 MiB"),
        (("a.*",), '"a.*" has a wildcard'),
        (("-s", "http://x"), "is not the address of a broker"),
    ],
)
def test_given_options_that_make_no_sense_then_they_are_refused(
    options: tuple[str, ...], said: str
) -> None:
    assert said in refusal("bench", *options)


def test_given_a_payload_over_the_limit_then_it_is_refused(broker: ServerProcess) -> None:
    assert "--size 2097152: the broker accepts at most 1048576 bytes" in refusal(
        "bench", "--size", "2MiB", "-s", url(broker)
    )


def test_given_tls_and_a_user_then_all_kinds_of_workers_use_them(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    authority.issue("server")
    users = ["--user", "me", "--pass", "secret"]
    with SeriatimServer(arguments=[*authority.flags(), *users]) as server:
        login = ("-s", f"tls://me:secret@localhost:{server.port}")
        for mode in (["--replay"], ["--ack"], ["--rate", "2000"], []):
            options = [*mode, "-n", "2000", "--tlscacert", str(authority.certificate), "--json"]
            done = seriatim("bench", *login, *options)
            assert (done.returncode, LATE.sub(b"", done.stderr)) == (0, b"")
            found = json.loads(done.stdout)
            assert (found["read_back"] or found["received"])["messages"] == 2000
            assert "secret" not in found["url"]


def test_given_no_library_for_histograms_then_only_latencies_need_it(ours: ServerProcess) -> None:
    program = (
        "import sys; sys.modules['hdrh'] = None;"
        "from seriatim.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", program, "bench", "-n", "100", "-s", url(ours)]
    done = subprocess.run(command, capture_output=True, env=environment(), check=False)
    assert done.returncode == 0, done.stderr
    for option in (["--rate", "1000"], ["--ack"]):
        done = subprocess.run(
            [*command, *option], capture_output=True, env=environment(), check=False
        )
        assert done.returncode == 1
        assert b"pip install 'hdrhistogram>=0.10'" in done.stderr
