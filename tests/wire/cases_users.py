"""Dialogues of users with permissions: the same users, the same bytes, on both brokers.

`CASES` are those to which our answer is nats-server's, to the byte. In `STRICTER` and `KINDER` we
differ on purpose, and say why.
"""

import base64
import json
from dataclasses import dataclass
from typing import Any

import bcrypt
import nkeys

from tests.support.twin_users import Send, Step, TwinUsers, connect

USER, OTHER = (
    nkeys.from_seed(nkeys.encode_seed(bytes([seed]) * 32, nkeys.PREFIX_BYTE_USER))
    for seed in (1, 2)
)
KEY = USER.public_key.decode()


@dataclass(frozen=True, slots=True)
class UserCase:
    name: str
    users: str  # of USERS
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        return self.name


def _hash(password: bytes) -> str:
    return bcrypt.hashpw(password, bcrypt.gensalt(4, b"2a")).decode()


ROOT = {"user": "root", "password": "root"}
ALICE = {
    "publish": {"allow": ["orders.>", "a.*.c"], "deny": ["orders.bad", "orders.*.no"]},
    "subscribe": {
        "allow": ["orders.>", "q q1", "w wild.*", "_INBOX.>", "part.*"],
        "deny": ["orders.*.secret", "orders.hidden", "orders.g grp", "part.x"],
    },
}
GROUPS = {"allow": ["z v*.x", "z v.*", "y >", "x"], "deny": ["z v.1", "x g.*", "y.a h"]}
TABLE: list[dict[str, Any]] = [
    ROOT,
    {"user": "alice", "password": "alice", "permissions": ALICE},
    {
        "user": "svc",
        "password": "svc",
        "permissions": {"subscribe": "req.>", "allow_responses": True},
    },
    {
        "user": "two",
        "password": "two",
        "permissions": {
            "subscribe": "req.>",
            "publish": {"deny": "nope"},
            "allow_responses": {"max": 2, "expires": "1m"},
        },
    },
    {
        "user": "brief",
        "password": "brief",
        "permissions": {
            "subscribe": "req.>",
            "publish": "p.>",
            "allow_responses": {"max": -1, "expires": "1ms"},
        },
    },
    {"user": "hid", "password": "hid", "permissions": {"subscribe": {"deny": ["*.b", "s.>"]}}},
    {
        "user": "none",
        "password": "none",
        "permissions": {"publish": {"deny": ">"}, "subscribe": {"deny": ">"}},
    },
    {"user": "mute", "password": "mute", "permissions": {"publish": [], "subscribe": []}},
    {"user": "qs", "password": "qs", "permissions": {"subscribe": GROUPS}},
]
USERS = {
    "several": TwinUsers({"users": TABLE}),
    "user": TwinUsers({"user": "u", "password": "p"}),
    "user, hashed": TwinUsers({"user": "u", "password": _hash(b"p")}),
    "token": TwinUsers({"token": "t"}),
    "token, hashed": TwinUsers({"token": _hash(b"t")}),
    "key": TwinUsers(
        {
            "users": [
                {"nkey": KEY, "permissions": {"publish": "ok"}},
                {"user": "u", "password": "p"},
                ROOT,
            ]
        }
    ),
    "nobody": TwinUsers(
        {
            "users": [
                {
                    "user": "nob",
                    "password": "nob",
                    "permissions": {"publish": "ok", "subscribe": ["in", "out.*"]},
                },
                {"user": "u", "password": "p", "permissions": {"subscribe": ["in2", "out.a"]}},
                {"user": "d", "password": "d", "permissions": {"subscribe": {"deny": "*.a"}}},
                ROOT,
            ]
        },
        no_auth_user="nob",
    ),
    "default": TwinUsers(
        {
            "default_permissions": {"publish": "d.*", "subscribe": "d.*"},
            "users": [
                {"user": "a", "password": "a"},
                {"user": "b", "password": "b", "permissions": {"publish": "b"}},
                {"user": "e", "password": "e", "permissions": {}},
            ],
        }
    ),
    "default, token": TwinUsers({"token": "t", "default_permissions": {"publish": "d.*"}}),
}


def pub(*subjects: str, reply: str = "") -> bytes:
    more = f"{reply} " if reply else ""
    return "".join(f"PUB {subject} {more}1\r\nx\r\n" for subject in subjects).encode()


def sub(*subjects: str, first: int = 1) -> bytes:
    """SUBs with sids from `first` on; an entry may be a subject and a queue."""
    return "".join(f"SUB {one} {sid}\r\n" for sid, one in enumerate(subjects, first)).encode()


def loud(user: str, **options: Any) -> bytes:
    return connect(user, verbose=True, **options)


def signed(by: nkeys.KeyPair = USER, key: str = KEY, nonce: str = "", **claims: Any) -> Send:
    """CONNECT with a key, and a signature of the nonce of INFO, or of another."""

    def send(info: dict[str, Any]) -> bytes:
        signature = by.sign((nonce or info["nonce"]).encode())
        encoded = base64.urlsafe_b64encode(signature).decode().rstrip("=")
        return connect(verbose=True, nkey=key, sig=encoded, **claims)

    return send


def case(name: str, users: str, *steps: bytes | Send | Step) -> UserCase:
    """Steps without a client's name are of the first client."""
    full = tuple(step if isinstance(step, tuple) else ("a", step) for step in steps)
    return UserCase(f"{users}: {name}", users, full)


def each(users: str, *sends: bytes | Send, about: str = "", then: bytes = b"") -> list[UserCase]:
    """A dialogue of one client for each of these."""
    found = []
    for at, send in enumerate(sends):
        name = repr(send)[2:-1] if isinstance(send, bytes) else str(at)
        name = f"{about}: {name}" if about else name
        found.append(case(name, users, send, *([then] if then else [])))
    return found


FIRST = [
    *(
        b"PING\r\n",
        b"P",
        b"+OK\r\n",
        b"\r\n",
        b" CONNECT {}\r\n",
        b"CX",
        b"cO",
        b"c",
        b"INFO {}\r\n",
    ),
    *(b"CONNECT\r\n", b"CONNECT {\r\n", b"connect {}\r\n", b"CONNECT {}\r\n", b"SUB a 1\r\n"),
    *(b"-ERR 'x'\r\n", b"PUB a 0\r\n\r\n", b"\0", b'CONNECT {"user":1}\r\n', b"CONNECT null\r\n"),
]
CLAIMS = [
    *(
        {"user": "u", "pass": "p"},
        {"user": "u"},
        {"user": "u", "pass": "bad"},
        {"user": "", "pass": ""},
    ),
    *({"user": "x", "pass": "p"}, {"user": "U", "pass": "p"}, {"pass": "p"}, {"pass": "t"}),
    *({"user": "u", "pass": "p "}, {"user": "u", "pass": "P"}, {"user": "t"}, {"auth_token": "t"}),
    *({"auth_token": "bad"}, {"auth_token": "t", "user": "u"}, {"auth_token": "p"}, {"jwt": "x"}),
    *({"auth_token": "bad", "user": "u", "pass": "p"}, {"sig": "x"}, {"nkey": "x"}),
    *({"auth_token": "t", "user": "u", "pass": "bad"}, {"nkey": "x", "sig": "y"}),
    *({"nkey": "x", "sig": "y", "user": "u", "pass": "p"}, {"jwt": "x", "user": "u", "pass": "p"}),
    *({"sig": "x", "user": "u", "pass": "p"}, {"USER": "u", "Pass": "p"}),
    *({"user": "u", "pass": "bad", "protocol": 7}, {"user": "u", "pass": "p", "protocol": 7}),
    *(
        {"user": "u", "pass": "bad", "no_responders": True},
        {"user": "u", "pass": "p", "account": "x"},
    ),
    *({"user": "u", "pass": "p", "no_responders": True}, {"user": "u", "pass": "\ud800"}),
    *(
        {"user": "u", "pass": "p\0"},
        {"user": "u\0", "pass": "p"},
        {"user": "u", "pass": "p" * 3000},
    ),
]
R = connect("root")

CASES = [
    *(one for users in USERS for one in each(users, *FIRST)),
    *(
        one
        for users in USERS
        for one in each(users, *(f"CONNECT {json.dumps(claim)}\r\n".encode() for claim in CLAIMS))
    ),
    # Keys
    *each(
        "key",
        *(signed(), signed(OTHER), signed(OTHER, OTHER.public_key.decode())),
        *(signed(key=KEY.lower()), signed(nonce="old"), signed(user="u")),
        signed(user="u", **{"pass": "p"}),
        *(signed(user="u", **{"pass": "bad"}), signed(auth_token="x"), signed(jwt="x")),
        about="signed",
        then=pub("ok", "no"),
    ),
    case("the same signature again", "key", signed(), signed(), pub("no")),
    case("a password, then a key", "key", connect("root"), signed(), pub("no")),
    # Publishing
    case(
        "publish",
        "several",
        loud("alice"),
        *map(pub, ("orders.1", "other", "orders.bad", "orders.x.no", "orders..x")),
        *map(pub, ("a.b.c", "a.b.d", "orders", ">", "*")),
        pub("orders.1", reply="foo"),
        pub("orders.1", reply="$JS.ACK.x"),
        pub("orders.bad", reply="$JS.ACK.x"),
        pub("_GR_.x"),
        b"PUB orders.bad 005\r\nhello\r\n",
        pub("orders.1", "bad", "orders.2", "orders.bad", "orders.3"),
    ),
    case(
        "publish, pedantic",
        "several",
        loud("alice", pedantic=True),
        *map(pub, ["orders.*", "orders..x", "other..x", "other.*", "orders.bad"]),
        sub("a..b"),
        sub("orders..b"),
    ),
    case(
        "publish with headers",
        "several",
        loud("alice", headers=True),
        b"HPUB orders.bad 12 13\r\nNATS/1.0\r\n\r\nx\r\n",
        b"HPUB orders.ok 12 13\r\nNATS/1.0\r\n\r\nx\r\n",
        b"HPUB orders.bad r 12 13\r\nNATS/1.0\r\n\r\nx\r\n",
    ),
    case("a refused publish reaches nobody", "several", ("r", R), ("r", sub(">")), R, loud("alice"),
         pub("other", "orders.bad", "orders.ok")),
    # Subscribing
    case(
        "subscribe",
        "several",
        loud("alice"),
        *(
            sub(one, first=sid)
            for sid, one in enumerate(
                [
                    *("orders.*", "orders.>", ">", "orders", "*", "*.a", "orders.hidden", "q"),
                    *("orders.a.secret", "orders.*.secret", "orders.x.secret2", "_INBOX.>"),
                    *("_INBOX.a.>", "part.*.>", "orders.>.x", "orders..x", "orders..>", "orders*"),
                    *("part.*", "part.x", "q q1", "q q2", "q Q1", "w wild.a", "w wild.a.b"),
                    *("w wild", "orders.* qq"),
                    *("orders.g grp", "orders.g other", "orders.> grp", "orders.hidden grp"),
                ]
            )
        ),
        sub(">", first=0),  # a known sid
        ("r", R),
        *(
            ("r", pub(one))
            for one in ("orders.hidden", "orders.a.secret", "orders.b", "part.x", "part.y", "q")
        ),
        ("r", pub("orders.a.secret.b", "orders.g", "orders.", "orders")),
    ),
    case("all is denied", "several", connect("none"), pub("x"), sub("x"), sub(">"), sub("*")),
    case(
        "subjects are cut out",
        "several",
        connect("hid"),
        sub(">", "a.*", "a.b", "*.*", "s.*", "s.>", "s.a", "a.>", "*.b"),
        ("r", R),
        *(("r", pub(one)) for one in ["a.b", "a.c", "s.a", "s.a.b", "c"]),
        b"UNSUB 1\r\nUNSUB 4\r\n",
        ("r", pub("a.b", "a.c", "s.a")),
    ),
    case(
        "a member that may not have it is passed over",
        "several",
        connect("hid"),
        b"SUB a.* g q1a\r\nSUB a.* g q1b\r\n",
        ("r", R),
        ("r", b"SUB a.b g q1c\r\n"),
        ("r", pub("a.b") * 10),
        ("b", connect("hid")),
        ("b", b"SUB a.* h 1\r\n"),
        ("r", pub("a.b", "a.c")),
    ),
    case(
        "the limit of an UNSUB counts what is heard",
        "several",
        connect("hid"),
        sub("a.*") + b"UNSUB 1 2\r\n",
        ("r", R),
        ("r", pub("a.b", "a.b", "a.c", "a.b", "a.d", "a.e")),
    ),
    case(
        "groups",
        "several",
        connect("qs"),
        *(
            sub(one, first=sid)
            for sid, one in enumerate(
                [
                    *("z", "z v1.x", "z v2.x", "z w.x", "z x", "z v.1", "z v.2", "z v*.x"),
                    *("z v.1.x", "y", "y g.a", "y g", "y.a h", "x", "x g.1", "x g", "x h"),
                    *("z >", "z *", "y >"),
                ]
            )
        ),
    ),
    # Responses
    *(
        case(
            f"responses of {user}",
            "several",
            ("s", connect(user)),
            ("r", R),
            ("s", pub("x")),
            ("s", sub("req.a", "req.b q")),
            ("r", sub("rep.>", "nope", "q.>")),
            ("s", pub("rep.1")),
            *(
                step
                for reply in ("rep.1", "nope", "q.b.c")
                for step in (("r", pub("req.a", reply=reply)), *[("s", pub(reply))] * 3)
            ),
            ("r", pub("req.b", reply="rep.3")),
            ("s", pub("rep.3") * 4),
            ("r", pub("req.c", reply="rep.4")),
            ("s", pub("rep.4")),
        )
        for user in ("svc", "two")
    ),
    case(
        "responses are counted for each client",
        "several",
        ("s", connect("svc")),
        ("t", connect("svc")),
        ("r", R),
        ("s", sub("req.a")),
        ("r", sub("rep.>")),
        ("r", pub("req.a", reply="rep.1")),
        ("t", pub("rep.1")),
        ("s", pub("rep.1")),
    ),
    case("too late", "several", ("s", connect("brief")), ("r", R), ("s", sub("req.a")),
         ("r", sub(">")), ("s", pub("p.x")), ("s", pub("q.x"))),
    # Headers, no responders, echo
    case(
        "no responders",
        "several",
        connect("hid", headers=True, no_responders=True),
        sub("s2.*"),
        pub("nobody", reply="s.reply"),
        pub("nobody", reply="s2.reply"),
        pub("a.b", reply="s2.reply"),
    ),
    case(
        "no responders to a refused publish",
        "several",
        connect("alice", headers=True, no_responders=True),
        sub("_INBOX.>"),
        pub("other", reply="_INBOX.1"),
        pub("orders.1", reply="_INBOX.2"),
    ),
    case("echo is off", "several", connect("hid", echo=False), sub("a.*"), pub("a.c"), ("r", R),
         ("r", pub("a.c", "a.b"))),
    # CONNECT again
    case("another user", "several", loud("alice"), sub("orders.x"), loud("svc"),
         sub("orders.x", first=5), sub("req.x", first=6), ("r", R),
         ("r", pub("orders.x", "req.x"))),
    case("again without credentials", "several", loud("alice"), connect(verbose=True), sub("x"),
         sub("orders.x")),
    case("another user, wrong", "several", loud("alice"), connect("svc", "bad")),
    case("another name alone", "several", loud("alice"), b'CONNECT {"user":"svc"}\r\n'),
    case("another password alone", "several", loud("alice"), b'CONNECT {"pass":"bad"}\r\n'),
    # Nobody
    *each("nobody", b"PING\r\n", b"CONNECT {}\r\n", connect(), b"+OK\r\n", about="nobody",
          then=pub("ok", "no") + sub("in", "x")),
    case("nobody, then a user", "nobody", sub("in", "in2"), connect("u", "p"),
         sub("in", first=4) + sub("in2", first=5), ("r", R), ("r", pub("in", "in2"))),
    case("nobody, then nobody again", "nobody", sub("in"), connect(), ("r", R), ("r", pub("in"))),
    case("nobody, then wrong", "nobody", sub("in"), connect("u", "bad")),
    case("nobody, then one with less", "nobody", sub("out.*"), connect("d"), ("r", R),
         ("r", pub("out.a", "out.b"))),
    case("a user, then no credentials", "nobody", connect("u", "p"), connect(), sub("in", "in2")),
    # Default permissions
    *(
        case(f"permissions of {user}", "default", connect(user), pub("d.x"), pub("b"), sub("d.x"),
             sub("b", first=2))
        for user in "abe"
    ),
]  # fmt: skip

STRICTER = [
    # What would bring messages that are not allowed is refused.
    case("a SUB wider than allowed by its last token", "several", connect("alice"), sub("part.>")),
    # An empty list allows nothing; there it allows everything.
    case("nothing is allowed", "several", connect("mute"), pub("x"), sub("x")),
    # The defaults are of everybody without permissions, not only of users in a list.
    case("defaults of a token", "default, token", b'CONNECT {"auth_token":"t"}\r\n', pub("x")),
    # Whoever gives other credentials is judged by these alone; there, by the earlier ones too.
    case("then a token", "several", connect("alice"), b'CONNECT {"auth_token":"bad"}\r\n'),
    # The broker's own message to a denied subject is not delivered either.
    case(
        "no responders, to a denied reply",
        "several",
        connect("hid", headers=True, no_responders=True),
        sub("s2.*"),
        pub("nobody", reply="s2.b"),
    ),
]
KINDER = [
    # A request that comes again, or over two subscriptions, may be answered as if it were new.
    case(
        "a request that comes twice",
        "several",
        ("s", connect("svc")),
        ("r", R),
        ("s", sub("req.a")),
        ("r", sub("rep.1")),
        ("r", pub("req.a", "req.a", reply="rep.1")),
        ("s", pub("rep.1")),
    ),
    case(
        "a request over two subscriptions",
        "several",
        ("s", connect("svc")),
        ("r", R),
        ("s", sub("req.a", "req.*")),
        ("r", sub("rep.1")),
        ("r", pub("req.a", reply="rep.1")),
        ("s", pub("rep.1")),
    ),
]
