"""Several connections on one server: what one does and what the others then get, as nats-server.

A scene is a list of lines (who, bytes). Each is sent with a PING and answered up to the PONG before
the next begins; at the end every connection is asked once more, so nothing can still be in flight.
"""

from dataclasses import dataclass
from functools import cached_property

import pytest

from tests.support.raw import Operation, RawClient, operations
from tests.wire.cases import ASKER, DEAF, DEAF_ASKER, HEADS, LOUD, QUIET
from tests.wire.conftest import Choose
from tests.wire.normal import Plain, normal

TEN = b"".join(b"PUB t 1\r\n%d\r\n" % digit for digit in range(10))


@dataclass(frozen=True)
class Scene:
    name: str
    lines: list[tuple[str, bytes]]
    closing: frozenset[str] = frozenset()  # whom the server closes on their last line

    @cached_property
    def people(self) -> list[str]:
        return sorted({name for name, _ in self.lines})


SCENES = [
    Scene(
        "headers reach who wants them",
        [
            ("plain", QUIET + b"SUB t 1\r\n"),
            ("heads", HEADS + b"SUB t 1\r\n"),
            (
                "pub",
                HEADS + b"HPUB t 3 5\r\nabcde\r\nHPUB t r 3 05\r\nabcde\r\nHPUB t 3 3\r\nabc\r\n"
                b"HPUB t 003 0005\r\nabcde\r\nHPUB t 0 2\r\nde\r\nPUB t r 02\r\nde\r\n",
            ),
        ],
    ),
    Scene(
        "a queue group over two connections gets each message once",
        [
            ("one", QUIET + b"SUB t q 1\r\n"),
            ("other", QUIET + b"SUB t q 1\r\nUNSUB 1\r\n"),
            ("pub", QUIET + TEN),
        ],
    ),
    Scene(
        "echo off: another member of the group gets all",
        [("other", QUIET + b"SUB t q 1\r\n"), ("pub", DEAF + b"SUB t q 1\r\nSUB t 2\r\n" + TEN)],
    ),
    Scene(
        "echo off: a plain subscription of another connection gets all",
        [("other", QUIET + b"SUB t 1\r\n"), ("pub", DEAF + b"SUB t 1\r\n" + TEN)],
    ),
    Scene(
        "somebody answers: no 503",
        [
            ("server", QUIET + b"SUB ask 1\r\n"),
            ("asker", ASKER + b"SUB box.* 9\r\nPUB ask box.1 2\r\nhi\r\n"),
            ("server", b"PUB box.1 2\r\nho\r\n"),
            ("server", b"UNSUB 1\r\n"),
            ("asker", b"PUB ask box.2 2\r\nhi\r\n"),
        ],
    ),
    Scene(
        "only echo-less ears: 503",
        [("asker", DEAF_ASKER + b"SUB ask 1\r\nSUB box 9\r\nPUB ask box 2\r\nhi\r\n")],
    ),
    Scene(
        "the reply is somebody else's: no 503",
        [("other", HEADS + b"SUB box 1\r\n"), ("asker", ASKER + b"PUB ask box 2\r\nhi\r\n")],
    ),
    Scene(
        "what was whole before a mistake is delivered, what stood after is not",
        [
            ("ear", QUIET + b"SUB > 1\r\n"),
            ("pub", LOUD + b"PUB t 1\r\n1\r\nPUB t x\r\nPUB t 1\r\n2\r\n"),
            ("ear", b"PUB own 2\r\nok\r\n"),
        ],
        closing=frozenset({"pub"}),
    ),
    Scene(
        "a payload with a wrong end is not delivered",
        [("ear", QUIET + b"SUB > 1\r\n"), ("pub", QUIET + b"PUB t 1\r\n1\r\nPUB t 1\r\n2x")],
        closing=frozenset({"pub"}),
    ),
    Scene(
        "a closed subscriber is forgotten",
        [
            ("gone", QUIET + b"SUB t 1\r\nSUB t q 2\r\n"),
            ("ear", QUIET + b"SUB t q 2\r\n"),
            ("gone", b"PUB t x\r\n"),
            ("pub", ASKER + b"SUB r 1\r\n" + TEN + b"PUB u r 0\r\n\r\n"),
        ],
        closing=frozenset({"gone"}),
    ),
    Scene(
        "a limit ends one subscription, not its neighbours",
        [
            ("ear", QUIET + b"SUB t 1\r\nSUB t 2\r\nUNSUB 1 3\r\nSUB * 3\r\nUNSUB 3 5\r\n"),
            ("pub", QUIET + TEN),
            ("ear", b"SUB t 1\r\n"),
            ("pub", TEN),
        ],
    ),
    Scene(
        "a refused publish reaches nobody",
        [
            ("ear", QUIET + b"SUB > 1\r\n"),
            ("pub", LOUD + b"PUB _GR_.x 1\r\nx\r\nPUB t _R_.x 1\r\nx\r\nPUB a..b 1\r\nx\r\n"),
        ],
    ),
    Scene(
        "a second CONNECT drops what its connection has subscribed, and nobody else's",
        [
            ("ear", QUIET + b"SUB t 1\r\nSUB t q 2\r\n"),
            ("other", QUIET + b"SUB t 1\r\nSUB t q 2\r\n"),
            ("ear", QUIET),
            ("pub", QUIET + TEN),
            ("ear", b"SUB t 1\r\n"),
            ("pub", TEN),
        ],
    ),
    Scene(
        "subscriptions made and dropped while messages pass",
        [
            ("pub", QUIET + TEN),
            ("ear", QUIET + b"SUB t 1\r\n"),
            ("pub", TEN),
            ("ear", b"SUB * 2\r\nUNSUB 1\r\n"),
            ("pub", TEN),
            ("ear", b"SUB > 3\r\nSUB t 1\r\nUNSUB 2\r\n"),
            ("pub", TEN + b"PUB t.u 1\r\nx\r\n"),
            ("ear", b"UNSUB 1\r\nUNSUB 3\r\n"),
            ("pub", TEN),
        ],
    ),
]


def play(port: int, scene: Scene) -> dict[str, list[Plain]]:
    """Everything each of the people heard, in order, and whether it ended with a close."""
    clients: dict[str, RawClient] = {}
    heard: dict[str, list[Operation]] = {name: [] for name in scene.people}
    last_line = {name: at for at, (name, _) in enumerate(scene.lines)}
    try:
        for at, (name, data) in enumerate(scene.lines):
            if name not in clients:
                clients[name] = RawClient(port)
            client = clients[name]
            if name in scene.closing and at == last_line[name]:
                client.send_split(data, [])
                heard[name] += operations_until_closed(client)
            else:
                heard[name] += client.ask(data)
        for name in sorted(set(scene.people) - scene.closing):
            heard[name] += clients[name].ask(b"")
        for client in clients.values():
            client.leave()  # or its members of queue groups would take what the next scene sends
    finally:
        for client in clients.values():
            client.close()
    return {name: normal(said) for name, said in heard.items()}


def operations_until_closed(client: RawClient) -> list[Operation]:
    data, closed = client.answer(b"", 1 << 30)
    assert closed
    return operations(data)


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_given_a_scene_when_played_then_everyone_hears_what_nats_server_says(
    scene: Scene, oracle: Choose, tested: Choose
) -> None:
    assert play(tested("default").port, scene) == play(oracle("default").port, scene)
