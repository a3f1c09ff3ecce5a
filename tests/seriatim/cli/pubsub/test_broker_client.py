"""What the command line shows of a broker's address: no credentials."""

import pytest

from tests.seriatim.cli.command import refusal


@pytest.mark.parametrize("url", ["nats://u:hunter2@127.0.0.1:1", "http://u:hunter2@127.0.0.1:1"])
def test_given_no_server_then_the_error_shows_no_credentials(url: str) -> None:
    said = refusal("pub", "--url", url, "a", "x")
    assert "127.0.0.1:1" in said
    assert "hunter2" not in said
