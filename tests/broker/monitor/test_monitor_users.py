"""Monitoring of a broker with users: who each client is, and no secret anywhere.

A real process, with the most talkative log; every secret begins with the same word.
"""

import json
from pathlib import Path
from typing import Any

import bcrypt
import pytest

from tests.support.processes import STAND_IN
from tests.support.raw import RawClient
from tests.support.twin_users import TwinUsers
from tests.support.web import get, http_port, metrics

pytestmark = pytest.mark.skipif(STAND_IN, reason="of our own process")

HASH = bcrypt.hashpw(b"SecretHashed", bcrypt.gensalt(4)).decode()
USERS = TwinUsers(
    {
        "max_attempts": 0,
        "users": [
            {"user": "plain", "password": "SecretPlain"},
            {"user": "hashed", "password": HASH, "permissions": {"publish": "x"}},
        ],
    }
)
WRONG: tuple[dict[str, Any], ...] = (
    {"user": "plain", "pass": "SecretWrong"},
    {"user": "hashed", "pass": "SecretWrong"},
    {"user": "nobody", "pass": "SecretUnknown"},
    {"user": "plain", "pass": "SecretLong" * 100},
    {"user": "plain", "pass": ["SecretList"]},
    {"auth_token": "SecretToken"},
    {"nkey": "SecretKey", "sig": "SecretSignature"},
    {"jwt": "SecretJwt"},
    {"pass": "SecretHalf\ud800"},
)
PAGES = ("/varz", "/connz?auth=1&subs=detail", "/subsz?subs=1", "/healthz", "/metrics", "/")


def claim(**options: Any) -> bytes:
    return f"CONNECT {json.dumps({'verbose': False, **options})}\r\n".encode()


def test_given_users_when_monitored_then_each_is_named_and_no_secret_is_shown(
    tmp_path: Path,
) -> None:
    with USERS.ours(tmp_path, "-m", "-1", "-DV") as broker:
        infos = []
        for wrong in WRONG:
            with RawClient(broker.port) as client:
                infos.append(client.info)
                client.send(claim(**wrong))
                said = client.until_closed()
                assert said in (b"-ERR 'Authorization Violation'\r\n", b""), wrong
        with (
            RawClient(broker.port, claim(**{"user": "plain", "pass": "SecretPlain"})) as first,
            RawClient(broker.port, claim(**{"user": "hashed", "pass": "SecretHashed"})) as second,
        ):
            first.ask(b"SUB a 1\r\n")
            second.ask(b"PUB a 1\r\nx\r\n")
            port = http_port(broker)
            users = [one.get("authorized_user") for one in get(port, PAGES[1]).json["connections"]]
            assert users == ["plain", "hashed"]
            plain = get(port, "/connz").json["connections"]
            assert not any("authorized_user" in one for one in plain), "only if asked for"
            varz = get(port, "/varz").json
            assert varz["auth_required"] is True
            failed = len(WRONG) - 1  # a password that is a list is no attempt
            assert varz["auth_failures"] == failed
            assert metrics(port)["seriatim_auth_failures_total"] == failed
            shown = [get(port, page).body.decode() for page in PAGES] + list(map(json.dumps, infos))
    shown += broker.log
    assert any("CONNECT" in line for line in broker.log), "the log is talkative"
    assert [one for one in shown if "Secret" in one or HASH in one] == []
