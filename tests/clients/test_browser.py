"""The npm client's browser build (`nats.ws`) in a real browser."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nkeys
import pytest

from tests.clients.browsing import Page, browse, chromium, page_server
from tests.support.authority import Authority
from tests.support.depth import in_soak
from tests.support.processes import STAND_IN, SeriatimServer
from tests.support.raw_secured import Way, way

pytestmark = pytest.mark.skipif(STAND_IN, reason="nats-server has no such flags")
SEED = nkeys.encode_seed(bytes(range(32)), nkeys.PREFIX_BYTE_USER).decode()
USERS = """
[[authorization.users]]
user = "alice"
password = "wonderland"
permissions = { publish = { deny = ["secret"] } }

[[authorization.users]]
nkey = "KEY"
"""


@pytest.fixture(scope="module")
def program(node: str) -> str:
    """Chromium; `node` has installed the client."""
    return chromium()


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with page_server() as made:
        yield made


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    made = Authority(tmp_path_factory.mktemp("authority"))
    made.issue("server")
    return made


class Browsed:
    """One broker, one way in."""

    def __init__(self, program: str, page: Page, entry: Way, authority: Authority) -> None:
        self._program, self._page, self.entry = program, page, entry
        self._certificate = authority.folder / "server.pem"

    def says(self, broker: SeriatimServer, scenario: str, seed: str = "", **options: Any) -> str:
        url = f"{self.entry.name}://127.0.0.1:{self.entry.port(broker)}"
        given = {"servers": url, **options}
        return browse(
            self._program,
            self._page,
            self._certificate,
            scenario=scenario,
            options=given,
            seed=seed,
        )


@pytest.fixture(params=["ws", *in_soak("wss")])
def browsed(
    request: pytest.FixtureRequest, program: str, page: Page, authority: Authority
) -> Browsed:
    return Browsed(program, page, way(request.param, authority), authority)


@pytest.mark.parametrize("browsed", ["ws", "wss"], indirect=True)
def test_given_a_browser_then_all_that_the_client_does_works(browsed: Browsed) -> None:
    with browsed.entry.broker() as broker:
        assert browsed.says(broker, "everything") == "ok"


def test_given_users_then_a_browser_authenticates_in_every_way(
    browsed: Browsed, tmp_path: Path
) -> None:
    config = tmp_path / "broker.toml"
    public = nkeys.from_seed(SEED.encode()).public_key.decode()
    config.write_text(USERS.replace("KEY", public))
    with browsed.entry.broker("-c", str(config)) as broker:
        alice = {"user": "alice", "pass": "wonderland"}
        said = browsed.says(broker, "refused", **alice)
        assert said == "PERMISSIONS_VIOLATION secret", said
        assert browsed.says(broker, "everything", seed=SEED) == "ok"
        wrong = browsed.says(broker, "everything", **{**alice, "pass": "x"})
        assert "authorization violation" in wrong.lower(), wrong


def test_given_a_token_then_a_browser_needs_it(browsed: Browsed) -> None:
    with browsed.entry.broker("--auth", "s3cr3t") as broker:
        assert browsed.says(broker, "everything", token="s3cr3t") == "ok"
        wrong = browsed.says(broker, "everything")
        assert "authorization violation" in wrong.lower(), wrong


def test_given_origins_then_pages_of_others_are_refused(browsed: Browsed, page: Page) -> None:
    flags = ("--websocket_origins", page.origin)
    with browsed.entry.broker(*flags) as broker:
        assert browsed.says(broker, "everything") == "ok"
    with browsed.entry.broker("--websocket_origins", "https://app.example") as broker:
        assert browsed.says(broker, "everything") != "ok"
        assert broker.await_line("origin not allowed")
    with browsed.entry.broker("--websocket_same_origin") as broker:
        assert browsed.says(broker, "everything") != "ok", "the page has another port"
        assert broker.await_line("origin not allowed")
