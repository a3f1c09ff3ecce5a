"""What is shown of a broker's address: no credentials, not even in an error."""

import asyncio

import pytest

from seriatim.client.server_address import (
    read_addresses,
    with_announced,
    without_credentials,
)
from seriatim.receiver.errors import FillError
from seriatim.receiver.journal_filler import JournalFiller


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("nats://user:hunter2@host:4222", "nats://host:4222"),
        ("nats://hunter2@host", "nats://host"),
        ("nats://u:hun@ter2@[::1]:4222", "nats://[::1]:4222"),
        ("user:hunter2@host:4222", "host:4222"),
        ("nats://host:4222", "nats://host:4222"),
        ("host", "host"),
    ],
)
def test_given_an_address_then_what_is_shown_has_no_credentials(url: str, shown: str) -> None:
    assert without_credentials(url) == shown


@pytest.mark.parametrize("url", ["nats://u:hunter2@127.0.0.1:1", "http://u:hunter2@127.0.0.1:1"])
def test_given_no_server_then_the_error_of_a_filler_shows_no_credentials(url: str) -> None:
    with pytest.raises(FillError) as told:
        asyncio.run(JournalFiller(url).open())
    assert "127.0.0.1:1" in str(told.value)
    assert "hunter2" not in str(told.value)


def test_given_announced_brokers_when_asked_where_to_go_then_after_those_given() -> None:
    given = read_addresses("nats://me:word@one:4222,two:4223")
    info = {"connect_urls": ["two:4223", "[::1]:4224", "one:4222", 7, "?:", "three:4222"]}
    found = with_announced(given, given[0], info)
    assert [str(one) for one in found] == ["one:4222", "two:4223", "[::1]:4224", "three:4222"]
    assert [one.password for one in found] == ["word", "", "word", "word"]
    assert with_announced(given, None, {"connect_urls": "one"}) == list(given)


def test_given_a_broker_that_sends_its_clients_away_when_asked_then_it_comes_last() -> None:
    given = read_addresses("one,two")
    info = {"connect_urls": ["three:4222"], "ldm": True}
    found = with_announced(given, given[0], info)
    assert [one.host for one in found] == ["two", "three", "one"]
    found = with_announced(given, found[1], info)
    assert [one.host for one in found] == ["one", "two", "three"]
