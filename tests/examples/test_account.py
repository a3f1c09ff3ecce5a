"""examples/account.py: never negative, and each command once, whatever is killed."""

import contextlib
import subprocess
from random import Random

import pytest

from tests.crash.trial import SEED
from tests.examples.services import (
    WAIT_S,
    Progress,
    Service,
    assert_equal,
    broker,
    journal_of,
    program,
    storm,
)
from tests.support.processes import STAND_IN, ServerProcess, url
from tests.support.relay import Relay

pytestmark = pytest.mark.skipif(STAND_IN, reason="nats-server gives no numbers")
AHEAD = 10  # commands that are given before the first of them is answered


class Teller(Service):
    """The program, with somebody who gives it commands, again until each is answered."""

    def __init__(self, server: ServerProcess, account: str, name: str, progress: Progress) -> None:
        super().__init__("account.py", url(server), account)
        self.account = account
        self.name = name
        self.commands: list[int] = []  # the amount of each
        self.answers: list[str] = []
        self.is_closing = False
        self.strange: list[str] = []
        self._progress = progress
        self._chance = Random(f"{SEED} {name}")

    def _talk(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        given = len(self.answers)
        with process.stdout, contextlib.suppress(BrokenPipeError), process.stdin:
            while not self.is_closing or len(self.answers) < len(self.commands):
                if not self.is_closing:
                    missing = len(self.answers) + AHEAD - len(self.commands)
                    self.commands += [self._chance.randint(-60, 50) for _ in range(missing)]
                last = len(self.commands)
                lines = [f"{self.name}{at} {self.commands[at]}\n" for at in range(given, last)]
                given = last
                process.stdin.write("".join(lines).encode())
                process.stdin.flush()
                answer = process.stdout.readline().decode()
                if not answer.endswith("\n"):
                    return
                id, _, said = answer.rstrip().partition(" ")
                if id != f"{self.name}{len(self.answers)}":
                    self.strange.append(answer)
                self.answers.append(said)
                self._progress.step()
            self._over = True

    def close(self) -> None:
        """Give no more commands, and let it end when all are answered."""
        self.is_closing = True
        self._keeper.join(WAIT_S)
        assert not self._keeper.is_alive(), self.log
        assert not self.strange, self.strange


def judge(server: ServerProcess, account: str, tellers: list[Teller]) -> None:
    """The events are what the tellers were told, each once; no balance is negative."""
    events = journal_of(server, f"accounts.{account}")
    balance, numbers = 0, {}
    for event in events:
        balance += int(event.payload)
        assert balance >= 0, f"after {event.number}"
        numbers[event.headers["Nats-Msg-Id"]] = (event.number, int(event.payload))
    assert len(numbers) == len(events), "no command has two events"
    told = {
        f"{account}/{one.name}{at}": (int(answer.removeprefix("done ")), one.commands[at])
        for one in tellers
        for at, answer in enumerate(one.answers)
        if answer.startswith("done ")
    }
    assert_equal(sorted(told.items()), sorted(numbers.items()))
    refused = [
        (amount, answer)
        for one in tellers
        for amount, answer in zip(one.commands, one.answers, strict=True)
        if not answer.startswith("done ")
    ]
    assert refused, "some wanted more than there was"
    for amount, answer in refused:
        left = int(answer.removeprefix("refused, ").removesuffix(" left"))
        assert 0 <= left < -amount, (amount, answer)


def test_given_kills_and_rivals_then_no_balance_is_negative_and_each_command_is_done_once() -> None:
    progress = Progress()
    with broker("-js") as server, contextlib.ExitStack() as stack:
        tellers = [
            stack.enter_context(Teller(server, account, name, progress))
            for account, name in (("anna", "a"), ("anna", "b"), ("anna", "c"), ("bob", "a"))
        ]
        storm(server, "account", lambda: progress.count, list(tellers))
        for one in tellers:
            one.close()
        judge(server, "anna", tellers[:3])
        judge(server, "bob", tellers[3:])


def test_given_a_connection_that_breaks_as_the_stream_is_made_then_it_is_made_on_the_next() -> None:
    with broker("-js") as server, Relay(server.port) as relay:

        def hang_up() -> None:
            relay.sever()
            relay.heal()

        relay.when(b"$JS.API.STREAM.CREATE", before=hang_up)
        with program("account.py", f"nats://127.0.0.1:{relay.port}", "anna") as account:
            out, said = account.communicate(b"c-1 30\n", WAIT_S)
        assert out == b"c-1 done 1\n", said.decode()
        assert relay.connections > 1
