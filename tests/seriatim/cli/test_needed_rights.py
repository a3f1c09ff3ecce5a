"""The rights that docs/security.md lists for each command are enough for it."""

from collections.abc import Iterator

import pytest

from tests.seriatim.cli.command import seriatim
from tests.support.processes import STAND_IN, SeriatimServer

pytestmark = pytest.mark.skipif(STAND_IN, reason="of our own process")

INBOX = "_INBOX.mine.>"
FROM, INFO = "$SEQ.FROM.*.orders.>", "$SEQ.INFO"
# By a user's name: a command; what it needs to publish to, and to subscribe to.
COMMANDS = {
    "pub": ("pub orders.new x", ["orders.>"], []),
    "ack": ("pub orders.new x --ack", ["orders.>", "$SEQ.PUB.orders.>"], [INBOX]),
    "from": ("sub orders.> --from 1 -n 1", [INFO], ["orders.>", FROM, INBOX]),
    "range": (
        "sub orders.> --from 1 --to 1",
        [INFO],
        ["orders.>", FROM, "$SEQ.RANGE.*.*.orders.>", INBOX],
    ),
    "now": (
        "sub orders.> --from 1 --until-now",
        [INFO],
        ["orders.>", FROM, "$SEQ.RANGE.*.*.orders.>", INBOX],
    ),
    "since": (
        "sub orders.> --since 1h -n 1",
        [INFO],
        ["orders.>", FROM, "$SEQ.SINCE.*.orders.>", INBOX],
    ),
    "since now": ("sub orders.> --since 1h --until-now", [INFO], [">"]),
    "last": (
        "sub orders.> --last -n 1",
        [INFO],
        ["orders.>", FROM, "$SEQ.LAST.orders.>", INBOX],
    ),
    "json": (
        "sub orders.> --from 1 -n 1 --json",
        [INFO],
        ["orders.>", FROM, INBOX],
    ),
    "produce": (
        "cardinal simulate --blocks 2",
        ["cardinal.chain.>", "$SEQ.PUB.cardinal.chain.>"],
        [INBOX],
    ),
    "consume": (
        "cardinal consume --once",
        [INFO],
        ["cardinal.chain.>", "$SEQ.RANGE.*.*.cardinal.chain.>", INBOX],
    ),
    "follow": (
        "cardinal consume --count 1",
        [INFO],
        ["cardinal.chain.>", "$SEQ.FROM.*.cardinal.chain.>", INBOX],
    ),
}


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A broker with a user for each command, and with messages."""
    config = tmp_path_factory.mktemp("rights") / "broker.toml"
    lines = ["[authorization]", '[[authorization.users]]\nuser = "all"\npassword = "all"']
    for name, (_, publish, subscribe) in COMMANDS.items():
        lines.append(f'[[authorization.users]]\nuser = "{name}"\npassword = "x"')
        lines.append(f"permissions = {{ publish = {publish}, subscribe = {subscribe} }}")
    config.write_text("\n".join(lines))
    with SeriatimServer("netstring", arguments=["-c", str(config)]) as broker:
        known = ("-s", f"all:all@127.0.0.1:{broker.port}")
        assert seriatim("pub", "orders.old", "x", *known).returncode == 0
        assert seriatim("cardinal", "simulate", "--blocks", "2", *known).returncode == 0
        yield broker.port


def run(port: int, command: str, user: str) -> tuple[int, str]:
    who = ("--user", user, "--password", "x", "--inbox-prefix", "_INBOX.mine")
    done = seriatim(*command.split(), "-s", f"127.0.0.1:{port}", *who)
    return done.returncode, done.stderr.decode()


@pytest.mark.parametrize("name", COMMANDS)
def test_given_just_the_rights_that_are_listed_then_the_command_works(port: int, name: str) -> None:
    status, said = run(port, COMMANDS[name][0], name)
    assert (status, "Violation" in said) == (0, False), said


def test_given_the_rights_of_another_command_then_it_is_refused(port: int) -> None:
    assert run(port, COMMANDS["now"][0], "from")[0] == 1
    assert run(port, COMMANDS["since now"][0], "since")[0] == 1
    assert run(port, COMMANDS["ack"][0], "pub")[0] == 1


def test_given_a_missing_right_to_a_request_then_the_error_names_its_subject(port: int) -> None:
    status, said = run(port, COMMANDS["from"][0], "ack")
    assert status == 1
    assert said.endswith(': Permissions Violation for Publish to "$SEQ.INFO"\n')
