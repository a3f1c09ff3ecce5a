"""A client of a member reads the same bytes, in the same order, as a client of a single broker.

So does a client of a broker that syncs each message (`--sync always`).

Each dialogue is sent in one piece, so that much of it arrives while earlier publishes are not
committed yet. Numbers differ, so they are told apart from the last one before the dialogue.
"""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from sequencer.netstring import NetstringError, decode_number
from tests.support.cluster_start import ClusterOf
from tests.support.processes import SeriatimServer
from tests.support.raw import RawClient, operations
from tests.wire.normal import Plain, normal, normal_bytes
from tests.wire.test_differential import CASES, answer

HEADERS = b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\n'
VERBOSE_HEADERS = b'CONNECT {"verbose":true,"pedantic":false,"headers":true}\r\n'
GROUP = re.compile(rb"^sub[ \t]+\S+[ \t]+\S+[ \t]+\S", re.IGNORECASE | re.MULTILINE)
# What follows a queue group waits for the other members; and nobody learns of no responders.
TABLE = [
    case
    for case in CASES
    if case.limits == "default" and not GROUP.search(case.script) and b"no_resp" not in case.script
]
PUB = b"PUB a 1\r\nx\r\n"
SYNCED = ["--sync", "always"]
TRACED = b"NATS/1.0\r\nNats-Trace-Dest: t\r\nNats-Trace-Only: true\r\n\r\n"
DIALOGUES = {
    "a request for nothing": PUB + b"PUB $SEQ.bad 1\r\nx\r\n" + PUB,
    "a reserved subject": PUB + b"PUB _GR_.x 1\r\nx\r\nPUB a _R_.x 1\r\nx\r\n" + PUB,
    "a subject that nobody can want": PUB + b"PUB a..b 1\r\nx\r\n" + PUB,
    "subjects that a pedantic client hears of": b"CONNECT {}\r\n" + PUB + b"PUB a.* 1\r\nx\r\n",
    "a bad SUB, a good one, an UNSUB": PUB + b"SUB a..b 1\r\nSUB b 2\r\n" + PUB + b"UNSUB 2\r\n",
    "a bad replay, and a good one": PUB + b"SUB $SEQ.FROM.0.> 1\r\n" + PUB + b"SUB $SEQ.x 2\r\n",
    "a SUB behind a PUB": PUB + b"SUB a 1\r\n" + PUB,
    "an UNSUB behind a PUB": b"SUB a 1\r\n" + PUB + b"UNSUB 1\r\n" + PUB,
    "a sid that is used again": b"SUB a 1\r\n" + PUB + b"UNSUB 1\r\nSUB > 1\r\n" + PUB,
    "a CONNECT behind a PUB": PUB
    + b'CONNECT {"verbose":false}\r\n'
    + PUB
    + b"PUB $SEQ.b 0\r\n\r\n",
    "headers from the second CONNECT on": PUB + HEADERS + b"SUB a 1\r\nHPUB a 2 3\r\nabc\r\n",
    "a bad CONNECT behind a PUB": PUB + b'CONNECT {"protocol":9}\r\n' + PUB,
    "an end by a wrong verb": PUB + PUB + b"HUGO\r\n" + PUB,
    "an end by a long payload": PUB + b"PUB a 9999999\r\n" + PUB,
    "an end without an error": PUB + b"SUB\ta b c d\r\n",
    "numbers, and a refusal": VERBOSE_HEADERS
    + b"SUB r 1\r\nPUB $SEQ.PUB.a r 1\r\nx\r\nPUB $SEQ.PUB.a.* r 1\r\nx\r\n"
    + b"PUB $SEQ.PUB.a r 1\r\nx\r\n",
    "the newest number behind a PUB": HEADERS
    + b"SUB r 1\r\n"
    + PUB
    + b"PUB $SEQ.PUB.a r 0\r\n\r\n",
    "the last message behind a PUB": HEADERS + b"SUB r 1\r\n" + PUB + b"PUB $SEQ.GET.0 r 0\r\n\r\n",
    "a request before its SUB": HEADERS + PUB + b"SUB r 1\r\nPUB $SEQ.GET.0 r 0\r\n\r\n",
    "a batch": VERBOSE_HEADERS + PUB + b"PUB $SEQ.COMMIT r 2\r\n{}\r\nPUB $SEQ.COMMIT 2\r\n{}\r\n",
    "a trace": VERBOSE_HEADERS
    + PUB
    + b"HPUB a %d %d\r\n%b\r\n" % (*2 * (len(TRACED),), TRACED)
    + PUB,
    "many refusals": (PUB + b"PUB $SEQ.bad 1\r\nx\r\n") * 200,
    "many of all kinds": (PUB + b"SUB b 1\r\nPING\r\nUNSUB 1\r\n") * 100,
}


class PlainCluster(ClusterOf):
    """Two members whose subscribers get payloads as they are."""

    def made(self, at: int, store: Path) -> SeriatimServer:
        return SeriatimServer(arguments=self.flags(at), store=store, frame="none")


SIZE_ZEROS = re.compile(rb"\b0+(?=[0-9])")
Ports = Callable[[str], int]


@pytest.fixture(scope="module")
def ports() -> Iterator[Ports]:
    with ExitStack() as stack:
        cluster = stack.enter_context(PlainCluster(2))
        alone = stack.enter_context(SeriatimServer("none"))
        coordinator = cluster.coordinator()
        found = {
            "alone": alone.port,
            "synced": stack.enter_context(SeriatimServer("none", arguments=SYNCED)).port,
            "coordinator": cluster.members[coordinator].port,
            "follower": cluster.members[1 - coordinator].port,
        }
        yield found.__getitem__


def newest(port: int) -> int:
    with RawClient(port, HEADERS + b"SUB r 1\r\n") as client:
        (found,) = client.ask(b"PUB $SEQ.INFO r 0\r\n\r\n")
    last: int = json.loads(found.payload)["last"]
    return last


def said(port: int, script: bytes, half_close: bool) -> list[Plain]:
    """All that the server says, with numbers counted from the newest one before."""
    before = newest(port)
    with RawClient(port) as client:
        client.send(script if half_close else script + b"PING\r\nBYE\r\n")
        if half_close:
            client.half_close()
        heard = client.until_closed()
    plain = []
    for one in normal_bytes(heard):
        words = list(one)
        if one[0] == "MSG" and one[2] == b"r" and isinstance(one[6], bytes):
            with suppress(NetstringError):
                number = decode_number(one[6]) - before
                words[4], words[6] = "", str(number)
        plain.append(tuple(words))
    return plain


@pytest.mark.parametrize("role", ["coordinator", "follower", "synced"])
@pytest.mark.parametrize("half_close", [False, True], ids=["", "half-closed"])
@pytest.mark.parametrize("name", DIALOGUES)
def test_given_a_dialogue_in_one_piece_then_a_member_answers_as_a_broker_alone(
    name: str, half_close: bool, role: str, ports: Ports
) -> None:
    expected = said(ports("alone"), DIALOGUES[name], half_close)
    assert said(ports(role), DIALOGUES[name], half_close) == expected


@pytest.mark.parametrize("role", ["coordinator", "follower", "synced"])
def test_given_the_table_of_scripts_then_a_member_answers_as_a_broker_alone(
    role: str, ports: Ports
) -> None:
    for case in TABLE:
        expected = without_zeros(answer(ports("alone"), case))
        assert without_zeros(answer(ports(role), case)) == expected, case.name


def without_zeros(found: tuple[bytes, bool]) -> tuple[list[Plain], bool]:
    """What was said, and whether that was all; sizes are not as the publisher wrote them."""
    said, closed = found
    plain = [replace(one, sizes=SIZE_ZEROS.sub(b"", one.sizes)) for one in operations(said)]
    return normal(plain), closed
