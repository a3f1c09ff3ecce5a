"""The same users on nats-server and on ours, and dialogues of several clients with both.

Users are plain tables, as both read them: TOML for ours, JSON for nats-server. A dialogue is a list
of steps. Each is what one client sends; after it, every client sends PING, and what it gets before
the PONG is noted. So who gets what in which step is known, and nothing is waited for.
"""

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.processes import NatsServer, SeriatimServer
from tests.support.raw import RawClient
from tests.wire.normal import Plain, normal_bytes

Table = dict[str, Any]
Send = bytes | Callable[[dict[str, Any]], bytes]  # which may depend on the client's INFO
# Unless a test says how long one may take: 2 s, the default, may be over on a busy machine before a
# client has signed what it is given, or a slow hash was checked.
PATIENT = {"timeout": 60}
Step = tuple[str, Send]  # the client's name, and what it sends
Heard = dict[str, tuple[list[Plain], bool]]  # by client; and whether it was closed


@dataclass(frozen=True, slots=True)
class TwinUsers:
    """What `[authorization]` holds; nats-server has `no_auth_user` elsewhere."""

    table: Table
    no_auth_user: str = ""

    def nats_server(self) -> NatsServer:
        """nats-server with these users."""
        more = {"no_auth_user": self.no_auth_user} if self.no_auth_user else {}
        return NatsServer(more, f"authorization: {json.dumps(PATIENT | self.table)}\n")

    def ours(self, folder: Path, *arguments: str) -> SeriatimServer:
        """Our broker with these users, its payloads unframed."""
        path = folder / "users.toml"
        path.write_text(self.toml())
        return SeriatimServer("none", arguments=["-c", str(path), *arguments])

    def toml(self) -> str:
        """The same as our configuration."""
        more = {"no_auth_user": self.no_auth_user} if self.no_auth_user else {}
        given = PATIENT | self.table | more
        lines = [f"{key} = {_toml(value)}\n" for key, value in given.items()]
        return "[authorization]\n" + "".join(lines)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(one)}" for key, one in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)


def connect(user: str = "", password: str = "", **options: Any) -> bytes:
    """A CONNECT, quiet unless the options say otherwise; a user's password is its name."""
    given: Table = {"verbose": False, "pedantic": False}
    if user:
        given |= {"user": user, "pass": password or user}
    return f"CONNECT {json.dumps(given | options)}\r\n".encode()


def hold(port: int, *steps: Step) -> list[Heard]:
    """Have a dialogue, and return what each client heard in each step."""
    heard: list[Heard] = []
    clients: dict[str, RawClient] = {}
    open_ones: set[str] = set()
    with ExitStack() as stack:
        for name, send in steps:
            if name not in clients:
                clients[name] = stack.enter_context(RawClient(port))
                open_ones.add(name)
            data = send if isinstance(send, bytes) else send(clients[name].info)
            step: Heard = {}
            # The one that sends is first: then all that this causes is on its way to the others.
            for one in (name, *sorted(open_ones - {name})):
                sent = data if one == name else b""
                pongs = sent.upper().count(b"PING\r\n") + 1
                said, closed = clients[one].answer(sent + b"PING\r\n", pongs)
                step[one] = (normal_bytes(said), closed)
                if closed:
                    open_ones.discard(one)
            heard.append(step)
        for one in sorted(open_ones):
            clients[one].leave()
    return heard
