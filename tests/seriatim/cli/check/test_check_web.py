"""`seriatim check http://...`: monitoring, with and without its user."""

import pytest

from tests.seriatim.cli.check.test_check_broker import checked
from tests.seriatim.cli.command import refusal
from tests.support.processes import STAND_IN
from tests.support.raw import QUIET, RawClient
from tests.support.web import http_port, monitored

pytestmark = pytest.mark.skipif(STAND_IN, reason="of our own process")


def test_given_monitoring_then_it_says_that_the_broker_is_well() -> None:
    with monitored() as broker:
        status, found = checked(f"http://127.0.0.1:{http_port(broker)}")
    assert status == 0
    assert found["healthz"] == ("ok", "ok")
    assert found["varz"][1].endswith("0 of 65536 connections")


def test_given_a_user_then_credentials_are_needed() -> None:
    with monitored("none", "--http_user", "ops", "--http_pass", "sesame") as broker:
        place = f"127.0.0.1:{http_port(broker)}"
        assert checked(f"http://ops:sesame@{place}")[0] == 0
        assert checked(f"http://{place}", "--user", "ops", "--password", "sesame")[0] == 0
        status, found = checked(f"http://ops:wrong@{place}")
        assert status == 1
        assert found["healthz"] == ("ok", "ok")
        assert found["varz"] == ("failed", "401 give http_user's password")


def test_given_few_places_left_then_it_is_a_warning() -> None:
    with (
        monitored("none", "--max_connections", "1") as broker,
        RawClient(broker.port, QUIET) as client,
    ):
        client.ask(b"")
        status, found = checked(f"http://127.0.0.1:{http_port(broker)}")
    assert status == 2
    assert found["varz"][1].endswith("1 of 1 connections: soon clients are refused")


def test_given_a_port_that_speaks_something_else_then_it_failed() -> None:
    with monitored() as broker:
        status, found = checked(f"http://127.0.0.1:{broker.port}")
    assert status == 1
    assert "does not speak HTTP" in found["connection"][1]


@pytest.mark.parametrize("address", ["http://", "http://x:y", "http://x/varz", "https://x?a=b"])
def test_given_what_is_not_the_address_of_monitoring_then_it_says_so(address: str) -> None:
    assert "is not the address of monitoring; give http://HOST:PORT" in refusal("check", address)
