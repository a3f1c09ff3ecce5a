"""A program of one client that logs in, with right and wrong credentials, and any bytes before.

    settings step step ...

Settings: the users, and the default user for clients without credentials. A step: a CONNECT with
some of the known names and secrets, an operation, any bytes, or a passing of time; and its cut. The
model knows the client's user. A rejected client gets no answer but an error, publishes nothing, and
is closed; an accepted client has the model's user.
"""

import base64
import json
from functools import cache
from types import SimpleNamespace
from typing import Any, cast

import bcrypt
from nacl.signing import SigningKey

from broker.auth.application_claims import ApplicationClaims
from broker.clients.admission import Admission
from broker.clients.session import Session
from broker.dataplane.connection import Connection
from broker.settings.authorization_settings import AuthorizationSettings, UserSettings
from broker.settings.settings import Settings
from fuzz.supply import Supply
from testkit.peer import Peer
from testkit.stage import QUIET, Stage

MAX_LEN = 300
STEPS_MAX = 12
NONCE = "a-nonce-of-INFO"
KEY = SigningKey(bytes(range(32)))
TOKEN = "t0k3n"
TIMEOUT_S = 2.0
NAMES = ("", "alice", "bob", "hashed", "carol", "Alice", "alice\0", "\u00e4")
SECRETS = ("", "secret", "pw", "t0k3n", "Secret", "secret\0", "$2b$04$", "\ud800")
PASSWORDS = {"alice": "secret", "bob": "pw", "hashed": "t0k3n"}
OPERATIONS = (
    b"PING\r\n",
    b"PUB stolen 1\r\nx\r\n",
    b"SUB > 1\r\n",
    b"UNSUB 1\r\n",
    b"INFO {}\r\n",
    b"PONG\r\n",
    b"\r\n",
    b"+OK\r\n",
    b"C",
    b"CONNECT\r\n",
    b"CONNECT {}",
    b"CONNECTION {}\r\n",
    b"PUB $SEQ.PUB.stolen r 1\r\nx\r\n",
    b"HPUB stolen 12 13\r\nNATS/1.0\r\n\r\nx\r\n",
    b"-ERR 'no'\r\n",
)


@cache
def public_key() -> str:
    import nkeys

    raw = bytes([nkeys.PREFIX_BYTE_USER]) + bytes(KEY.verify_key)
    return base64.b32encode(raw + nkeys.crc16(raw).to_bytes(2, "little")).decode().rstrip("=")


@cache
def hashed() -> str:
    return bcrypt.hashpw(b"t0k3n", b"$2b$04$" + b"." * 22).decode()


class Guest(Peer):
    """A peer with the interface of a session, for the admission."""

    nonce = NONCE
    certificate_names = ()
    opening_timeout = 0.0

    def measure(self) -> None:
        """Do nothing: rates are not tested here."""

    def depart(self) -> None:
        self.finished = True
        self.close()

    def proceed(self) -> None:
        super().proceed()
        if self.waits == 0:
            self.go_on()

    def go_on(self) -> None:
        if self.waits == 0:
            super().go_on()


class Desk(Admission):
    """An admission for guests."""

    def _session(self, connection: Connection) -> Session:
        return cast(Session, connection.session)


def settings_of(choice: int) -> Settings:
    if choice & 8:  # a token instead of users
        chosen = AuthorizationSettings(token=TOKEN, timeout=TIMEOUT_S, max_attempts=0)
        return Settings(authorization=chosen)
    users = [UserSettings(user="bob", password="pw")]
    if choice & 1:
        users.append(UserSettings(nkey=public_key()))
    if choice & 2:
        users.append(UserSettings(user="hashed", password=hashed()))
    if choice & 4:
        users.append(UserSettings(user="alice", password="secret"))
    chosen = AuthorizationSettings(
        no_auth_user="bob" if choice & 16 else "",
        users=tuple(users),
        timeout=TIMEOUT_S,
        max_attempts=0,
    )
    return Settings(authorization=chosen)


class World:
    """The broker, a listening client, and a client that logs in."""

    def __init__(self, taken: Supply) -> None:
        self.taken = taken
        self.choice = taken.take()
        self.stage = stage = Stage()
        self.listener = stage.join(QUIET + b"SUB > 1\r\n", frame="none")
        core: Any = SimpleNamespace(
            settings=settings_of(self.choice),
            plane=stage.plane,
            loop=stage.loop,
            claims=ApplicationClaims(),
        )
        self.desk = stage.control.admission = Desk(core)
        self.guest = Guest(stage, "none", 1 << 20)
        session = cast(Session, self.guest)
        self.desk.start_timeout(session)
        self.guest.nonce = NONCE
        self.known: str | None = None  # the client's user, by the model
        self.is_rude = False  # it may have sent bytes that close any connection
        self.is_sure = True  # whether the model still knows the state

    def run(self) -> None:
        for _ in range(STEPS_MAX):
            if not self.taken or self.guest.gone:
                return
            what = self.taken.take()
            if what < 0x60:
                self.connect(what)
            elif what < 0xC0:
                self.operate(OPERATIONS[what % len(OPERATIONS)])
            elif what < 0xF0:
                self.operate(bytes(self.taken.take() for _ in range(what & 15)))
            else:
                self.stage.loop.later(TIMEOUT_S * (what & 3) / 2)
            self.judge()

    def connect(self, what: int) -> None:
        """Send a CONNECT with credentials chosen by `what`; its keys may be in upper case."""
        taken = self.taken
        options: dict[str, Any] = {"verbose": bool(what & 1)}
        if what & 2:
            options["user"] = NAMES[taken.take() % len(NAMES)]
        if what & 4:
            options["pass"] = SECRETS[taken.take() % len(SECRETS)]
        if what & 8:
            options["auth_token"] = SECRETS[taken.take() % len(SECRETS)]
        if what & 16:
            kind = taken.take()
            options["nkey"] = public_key() if kind & 1 else public_key()[::-1]
            text = NONCE if kind & 2 else NONCE[1:]
            signature = bytearray(KEY.sign(text.encode()).signature)
            if kind & 4:
                signature[kind >> 3] ^= 1
            options["sig"] = base64.urlsafe_b64encode(signature).decode().rstrip("=")
        if what & 32:
            options = {key.upper(): one for key, one in options.items()}
        self.send(b"CONNECT %b\r\n" % json.dumps(options).encode())
        if self.is_rude:
            self.is_sure = False
        if self.is_sure:
            claims = {key.lower(): one for key, one in options.items()}
            self.introduce(claims)

    def introduce(self, claims: dict[str, Any]) -> None:
        """Update the model's user after a CONNECT; a known client may omit credentials."""
        says = any(claims.get(key) for key in ("user", "pass", "auth_token", "nkey", "sig"))
        if self.known is not None and not says:
            return
        self.known = self.identify(claims)
        self.is_sure = self.known is not None

    def identify(self, claims: dict[str, Any]) -> str | None:
        """Return the proven user, or None. If a user has a key, a given key overrides all else."""
        choice = self.choice
        if choice & 8:
            return "" if claims.get("auth_token") == TOKEN else None
        if choice & 1 and claims.get("nkey"):
            raw = base64.urlsafe_b64decode(claims["sig"] + "==")
            good = KEY.sign(NONCE.encode()).signature == raw and claims["nkey"] == public_key()
            return public_key() if good else None
        there = {"bob": 1, "hashed": choice & 2, "alice": choice & 4}
        user, secret = claims.get("user", ""), claims.get("pass", "")
        if there.get(user):
            return user if PASSWORDS[user] == secret else None
        nothing = not (user or secret or claims.get("auth_token"))
        return "bob" if choice & 16 and nothing else None

    def operate(self, data: bytes) -> None:
        """Send other bytes: without a default user, they close a stranger's connection."""
        if not data:
            return
        self.is_rude = True
        self.send(data)
        if self.known is None:
            self.is_sure = False
            if self.choice & 16:
                self.known = "bob"  # at most

    def send(self, data: bytes) -> None:
        size = self.taken.take()
        step = size if 0 < size < len(data) else len(data)
        for at in range(0, len(data), step):
            if self.guest.connection.closed:
                break
            self.guest.send(data[at : at + step])
        self.stage.loop.run()
        self.guest.go_on()
        self.stage.loop.run()

    def judge(self) -> None:
        """Compare the client with the model, if that is sure. A stranger never has an effect."""
        guest = self.guest
        inside = guest.user is not None
        assert inside != guest.connection.stranger or guest.connection.closed
        if self.known is None:
            assert not inside or guest.connection.closed, "let in, and should not be"
        elif self.is_sure:
            assert self.is_rude or not guest.connection.closed, guest.why
            assert guest.user is not None
            assert guest.user.name == self.known
        heard = guest.take()
        stolen = self.listener.take()
        if not inside:
            assert not stolen, stolen
            lines = heard.split(b"\r\n")
            assert all(not line or line.startswith(b"-ERR '") for line in lines), heard


def check(data: bytes) -> None:
    """Run one program."""
    world = World(Supply(data))
    world.run()
    for peer in (world.guest, world.listener):  # the garbage collector does not track subscriptions
        peer.leave()
    world.stage.loop.run()
