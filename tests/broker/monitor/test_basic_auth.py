"""Monitoring with a user: who gets in, and that a hash costs one check."""

import base64

import bcrypt
import pytest

from broker.monitor.basic_auth import BasicAuth
from tests.seriatim.cli.command import refusal
from tests.support.processes import STAND_IN
from tests.support.web import get, http_port, monitored

pytestmark = pytest.mark.skipif(STAND_IN, reason="of our own process")

HASH = bcrypt.hashpw(b"sesame", bcrypt.gensalt(4)).decode()


def basic(user: str, password: str) -> dict[str, str]:
    plain = base64.b64encode(f"{user}:{password}".encode()).decode()
    return {"Authorization": f"Basic {plain}"}


@pytest.mark.parametrize("password", ["sesame", HASH], ids=["plain", "hash"])
def test_given_a_user_then_all_pages_but_healthz_need_it(password: str) -> None:
    with monitored("none", "--http_user", "ops", "--http_pass", password) as broker:
        port = http_port(broker)
        for path in ("/", "/varz", "/connz", "/metrics", "/nowhere"):
            page = get(port, path)
            assert page.status == 401
            assert page.headers["WWW-Authenticate"].startswith('Basic realm="Seriatim')
            assert get(port, path, "HEAD").status == 401
            assert get(port, path, headers=basic("ops", "wrong")).status == 401
            assert get(port, path, headers=basic("other", "sesame")).status == 401
        assert get(port, "/varz", headers=basic("ops", "sesame")).status == 200
        assert get(port, "/metrics", headers=basic("ops", "sesame")).status == 200
        assert get(port, "/nowhere", headers=basic("ops", "sesame")).status == 404
        assert get(port, "/healthz").status == 200
        assert get(port, "/healthz?alive=1").status == 200
        assert "sesame" not in get(port, "/varz", headers=basic("ops", "sesame")).body.decode()


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Basic",
        "Basic !!!",
        "Bearer b3BzOnNlc2FtZQ==",
        "Basic " + base64.b64encode(b"opssesame").decode(),
        "Basic " + base64.b64encode(b"ops:" + b"s" * 4000).decode(),
        "Basic " + base64.b64encode(b"ops:\xff").decode(),
    ],
)
@pytest.mark.parametrize("password", ["sesame", HASH], ids=["plain", "hash"])
def test_given_another_header_then_it_is_refused(header: str, password: str) -> None:
    assert not BasicAuth().admits("ops", password, header)


def test_given_right_credentials_then_they_count_until_the_password_changes() -> None:
    auth = BasicAuth()
    header = basic("ops", "sesame")["Authorization"]
    assert auth.admits("ops", HASH, header)
    assert auth.admits("ops", HASH, header)
    assert not auth.admits("other", HASH, header)
    assert not auth.admits("ops", bcrypt.hashpw(b"other", bcrypt.gensalt(4)).decode(), header)
    assert auth.admits("ops", "sesame", header.replace("Basic", "basic"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--http_user", "ops"], "has no password; give --http_pass"),
        (["--http_pass", "sesame"], "there is no user for it; give --http_user"),
        (["--http_user", "o:s", "--http_pass", "sesame"], "has a colon"),
        (["--http_user", "ops", "--http_pass", "$2b$11$short"], "is not a bcrypt hash"),
    ],
)
def test_given_half_a_user_then_the_broker_does_not_start(arguments: list[str], said: str) -> None:
    told = refusal("serve", *arguments)
    assert said in told
    assert "sesame" not in told
