"""What is shown of a broker's address: no credentials, not even in an error."""

import asyncio

import pytest

from seriatim.client.server_address import without_credentials
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
def test_given_nobody_there_then_the_error_of_a_filler_shows_no_credentials(url: str) -> None:
    with pytest.raises(FillError) as told:
        asyncio.run(JournalFiller(url).open())
    assert "127.0.0.1:1" in str(told.value)
    assert "hunter2" not in str(told.value)
