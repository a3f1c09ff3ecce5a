"""How `seriatim bench` ends early: by the broker, by a person, by a signal; no process stays."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.seriatim.cli.command import COMMAND, environment, refusal
from tests.support.commands import COMMAND_S
from tests.support.processes import NatsServer, SeriatimServer, ServerProcess, url
from tests.support.raw import QUIET, RawClient
from tests.support.readable import is_readable
from tests.support.scripted import Peer, Scripted

MODES = [(), ("--ack",), ("--rate", "500"), ("--ack", "--rate", "500")]
IDS = ["as fast as it goes", "acked", "paced", "acked and paced"]
COUNTED = 20_000  # messages: more than one block, after which a publisher says how far it is


class RunningBench:
    """A benchmark that would last a minute; it has published when the constructor returns."""

    def __init__(self, broker: ServerProcess, *options: str, published: int = 1) -> None:
        with RawClient(broker.port, QUIET) as ear:
            ear.ask(b"SUB ends 1\r\n")
            self.process = subprocess.Popen(
                # Whoever runs the tests may ignore SIGHUP, as nohup does.
                [
                    "env",
                    "--default-signal=HUP",
                    COMMAND,
                    "bench",
                    "ends",
                    "--duration",
                    "60s",
                    "-s",
                    url(broker),
                    *options,
                ],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment(),
            )
            for _ in range(published):
                ear.operation()
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        self.workers = [int(word) for word in children.split()]
        self._ends = [os.pidfd_open(one) for one in self.workers]

    def end(self) -> tuple[int, bytes, str]:
        """Wait for its end, and for that of its workers: status, output, and what it said."""
        out, said = self.process.communicate(timeout=COMMAND_S)
        for end in self._ends:
            assert is_readable(end, COMMAND_S), "a worker stays"
            os.close(end)
        return self.process.returncode, out, said.decode()


@pytest.fixture(params=[SeriatimServer, NatsServer], ids=["seriatim", "nats-server"])
def broker(request: pytest.FixtureRequest) -> Iterator[ServerProcess]:
    with request.param() as server:
        yield server


@pytest.fixture(scope="module")
def ours() -> Iterator[SeriatimServer]:
    with SeriatimServer() as server:
        yield server


def test_given_no_broker_then_one_line_says_so() -> None:
    assert refusal("bench", "-s", "127.0.0.1:1") == (
        "nats://127.0.0.1:1: connection refused: no broker listens there"
    )


def test_given_a_broker_that_dies_then_one_line_says_how_far_it_came(broker: ServerProcess) -> None:
    bench = RunningBench(broker, published=COUNTED)
    broker.kill()
    status, out, said = bench.end()
    assert (status, out, said.count("\n")) == (1, b"", 1)
    assert said.startswith(f"seriatim: {url(broker)}: ")
    assert " published and " in said


@pytest.mark.parametrize("options", MODES, ids=IDS)
def test_given_our_broker_dies_then_every_kind_of_publisher_ends(options: tuple[str, ...]) -> None:
    with SeriatimServer() as server:
        bench = RunningBench(server, *options, "--subs", "0")
        server.kill()
        status, out, said = bench.end()
    assert (status, out, said.count("\n")) == (1, b"", 1), said


@pytest.mark.parametrize("options", MODES, ids=IDS)
def test_given_an_interrupt_then_it_prints_the_figures_so_far(
    ours: SeriatimServer, options: tuple[str, ...]
) -> None:
    bench = RunningBench(ours, *options, "--json")
    bench.process.send_signal(signal.SIGINT)
    status, out, said = bench.end()
    assert (status, said) == (130, "seriatim: interrupted: these are the figures so far\n")
    found = json.loads(out)
    assert found["interrupted"] is True
    assert found["missing"] is None
    assert found["published"]["processes"] == found["received"]["processes"] == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGHUP])
def test_given_a_signal_that_ends_the_command_then_its_workers_end_too(
    ours: SeriatimServer, number: signal.Signals
) -> None:
    bench = RunningBench(ours, "--pubs", "2", "--rate", "500")
    assert len(bench.workers) == 3
    bench.process.send_signal(number)
    assert bench.end() == (-number, b"", "")


def test_given_a_worker_that_is_killed_then_the_benchmark_says_which(ours: SeriatimServer) -> None:
    bench = RunningBench(ours, published=COUNTED)
    os.kill(bench.workers[0], signal.SIGKILL)
    status, out, said = bench.end()
    assert (status, out) == (1, b"")
    assert said.startswith("seriatim: subscriber 1 ended unexpectedly: Killed; ")


def test_given_a_slow_consumer_then_it_is_told_that_nats_server_cut_it_off() -> None:
    with NatsServer(more='max_pending: 1048576\nwrite_deadline: "100ms"\n') as server:
        bench = RunningBench(server)
        os.kill(bench.workers[0], signal.SIGSTOP)
        assert server.await_line("Slow Consumer")
        os.kill(bench.workers[0], signal.SIGCONT)
        status, out, said = bench.end()
    assert (status, out) == (1, b"")
    assert said.startswith(f"seriatim: {url(server)}: subscriber 1: ")


def test_given_a_publisher_without_the_right_then_the_broker_is_quoted() -> None:
    denied = ["--user", "me", "--pass", "secret", "--max_payload", "1000"]
    with SeriatimServer(arguments=denied) as server:
        anonymous = refusal("bench", "-s", url(server))
        assert "the broker requires authentication; give --user" in anonymous
        login = ("--user", "me", "--password", "secret", "-s", url(server))
        said = refusal("bench", "$SEQ.denied", "-n", "10", *login)
        assert "Permissions Violation" in said
        assert "at most 1000 bytes" in refusal("bench", "--size", "1001", *login)


def test_given_a_replay_without_a_line_then_memory_is_bounded_and_one_line_says_so() -> None:
    info = json.dumps({"last": 9}).encode()

    def talk(peer: Peer) -> None:
        peer.say(b'INFO {"headers":true,"max_payload":1024,"seriatim":"1"}\r\n')
        while line := peer.file.readline():
            words = line.split()
            if words[0] == b"PING":
                peer.say(b"PONG\r\n")
            elif words[0] == b"PUB":
                peer.file.read(int(words[-1]) + 2)
                peer.say(b"MSG %b 1 %d\r\n%b\r\n" % (words[2], len(info), info))
            elif words[0] == b"SUB" and words[1].startswith(b"$SEQ.RANGE."):
                while True:
                    peer.say(b"A" * (1 << 16))

    with Scripted(talk) as peer:
        said = refusal("bench", "--from", "1", "-s", f"nats://127.0.0.1:{peer.port}")
    assert said.endswith("this is not a NATS broker: a message has no end")


@pytest.mark.parametrize("answer", [b"[]", b"{}", b"[" * 100_000], ids=["list", "empty", "deep"])
def test_given_a_broker_that_talks_nonsense_then_one_line_says_so(answer: bytes) -> None:
    info = b'INFO {"server_id":"x","headers":true,"max_payload":1048576,"seriatim":"1"}\r\n'

    def talk(peer: Peer) -> None:
        peer.say(info)
        peer.answer_all(answer)

    with Scripted(talk) as peer:
        said = refusal("bench", "--from", "1", "-s", f"nats://127.0.0.1:{peer.port}")
    assert said.endswith("the answer to $SEQ.INFO is not a broker's")
