"""Monitoring with a user: who gets in, and that a hash costs one check."""

import base64
import time
from http.client import HTTPConnection

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


def test_given_an_address_that_guesses_then_it_waits_and_another_does_not() -> None:
    flags = ("--http_user", "ops", "--http_pass", "sesame", "--auth_attempts", "3")
    with monitored("none", *flags) as broker:
        port = http_port(broker)
        right = basic("ops", "sesame")
        assert get(port, "/varz").status == 401  # a browser asks without a password first
        told = [get(port, "/varz", headers=basic("ops", f"wrong{at}")) for at in range(40)]
        refused = [one for one in told if one.status == 429]
        assert [one.status for one in told[:4]] == [401] * 4
        assert len(refused) >= 30
        assert {one.headers["Retry-After"] for one in refused} == {"1"}
        other = HTTPConnection("127.0.0.1", port, source_address=("127.0.0.9", 0))
        other.request("GET", "/varz", headers=right)
        assert other.getresponse().status == 200
        other.close()
        assert get(port, "/healthz").status == 200
        end = time.monotonic() + 30
        while get(port, "/varz", headers=right).status != 200:  # it may try again
            assert time.monotonic() < end


def test_given_a_scraper_with_an_old_password_then_one_with_the_new_one_there_is_served() -> None:
    flags = ("--http_user", "ops", "--http_pass", HASH, "--auth_attempts", "3")
    with monitored("none", *flags) as broker:
        port = http_port(broker)
        for _ in range(20):
            assert get(port, "/varz", headers=basic("ops", "old")).status == 401
        assert get(port, "/varz", headers=basic("ops", "sesame")).status == 200
        guesses = [get(port, "/varz", headers=basic("ops", f"x{at}")).status for at in range(20)]
        assert guesses.count(429) > 10, "who guesses is slowed down"
        assert get(port, "/varz", headers=basic("ops", "sesame")).status == 200, "known from there"


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
