"""docs/security.md: its configurations can be used, and a broker with them does what it says."""

import asyncio
import os
import re
import shlex
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import nkeys
import pytest
from nats.aio.client import Client
from nats.errors import Error as NatsError
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect as web_connect
from websockets.typing import Origin

from broker.settings.limits_settings import Limits
from broker.settings.resolve import resolve
from broker.settings.security_warnings import insecure
from seriatim import decode_number
from tests.seriatim.cli.command import seriatim
from tests.support.authority import Authority
from tests.support.places import ROOT
from tests.support.processes import SeriatimServer

PAGE = (ROOT / "docs" / "security.md").read_text()
BLOCKS = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
KEY = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"
WAIT_S = 60.0


@dataclass(frozen=True)
class Place:
    """A folder that stands for /etc/seriatim, with all files that the page names."""

    folder: Path
    authority: Authority

    def config(self, containing: str) -> str:
        """The page's one block with these words, with its files in this folder and free ports."""
        (block,) = (one for one in BLOCKS if containing in one)
        return self.here(block)

    def here(self, block: str) -> str:
        block = block.replace("/etc/seriatim", str(self.folder))
        block = block.replace("/var/lib/seriatim", str(self.folder / "store"))
        return re.sub(r"^((?:https_)?port) = \d+", r"\1 = -1", block, flags=re.MULTILINE)

    def broker(self, config: str) -> SeriatimServer:
        file = self.folder / "broker.toml"
        file.write_text(config)
        return SeriatimServer("header", arguments=["-c", str(file)])


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("etc")
    authority = Authority(folder)
    authority.issue("broker")
    (folder / "token").write_text("a secret token\n")
    (folder / "monitoring").write_text("a secret for monitoring\n")
    (folder / "users.toml").write_text('[[users]]\nuser = "one"\npassword = "of one"\n')
    return Place(folder, authority)


class Asking:
    """A client, and what the broker has refused it since it was last asked."""

    def __init__(self) -> None:
        self.errors: list[str] = []
        self.nats = Client()

    async def enter(self, server: SeriatimServer, **options: Any) -> "Asking":
        async def note(error: Exception) -> None:
            self.errors.append(str(error))

        scheme = "tls" if "tls" in options else "nats"
        given = {"allow_reconnect": False, "error_cb": note, **options}
        url = f"{scheme}://127.0.0.1:{server.port}"
        try:
            await self.nats.connect(url, **given)
        except (NatsError, OSError):
            await self._hang_up()
            raise
        return self

    async def _hang_up(self) -> None:
        """What nats-py leaves open when it is refused."""
        transport: Any = self.nats._transport
        if transport is not None:
            transport.close()
            with suppress(OSError):
                await transport.wait_closed()

    async def refused(self) -> list[str]:
        """The errors so far. The first PING may overtake what the client has not written yet."""
        await self.nats.flush()
        await self.nats.flush()
        found, self.errors = self.errors, []
        return found

    async def publish(self, subject: str, payload: bytes = b"x") -> list[str]:
        await self.nats.publish(subject, payload)
        return await self.refused()

    async def subscribe(self, subject: str) -> list[str]:
        await self.nats.subscribe(subject)
        return await self.refused()

    async def status(self, subject: str, payload: bytes = b"") -> str:
        """The status of an answer; empty if it has none."""
        answer = await self.nats.request(subject, payload, timeout=WAIT_S)
        return (answer.headers or {}).get("Status", "")

    async def got(self, subject: str, count: int) -> list[str]:
        """The subjects of the first messages."""
        subscription = await self.nats.subscribe(subject)
        return [(await subscription.next_msg(timeout=WAIT_S)).subject for _ in range(count)]


def violation(kind: str, subject: str) -> str:
    return f'nats: permissions violation for {kind} to "{subject}"'.lower()


def is_refused(errors: list[str], kind: str, subject: str) -> bool:
    return len(errors) == 1 and violation(kind, subject) in errors[0].lower().replace("'", "")


def test_given_every_configuration_of_the_page_then_it_can_be_used(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GUEST_PASSWORD", "unused")
    assert len(BLOCKS) >= 6
    for block in BLOCKS:
        tomllib.loads(block)
        file = place.folder / "one.toml"
        file.write_text(place.here(block))
        settings = resolve({}, {"HOME": "/root"}, str(file)).settings
        assert settings.authorization.is_required or settings.tls.is_on


@pytest.fixture(scope="module")
def example(place: Place) -> Iterator[SeriatimServer]:
    with place.broker(place.config("publish_rate = 50000")) as broker:
        yield broker


def run(place: Place, server: SeriatimServer, work: Any) -> None:
    async def all_users() -> None:
        users = {}
        for name in ("publisher", "subscriber", "operator"):
            secret = f"a{'n' if name == 'operator' else ''} {name}'s secret"
            users[name] = await Asking().enter(
                server,
                user=name,
                password=secret,
                tls=place.authority.context(),
                inbox_prefix=f"_INBOX.{name}".encode(),
            )
        await work(users["publisher"], users["subscriber"], users["operator"])
        for one in users.values():
            await one.nats.close()

    asyncio.run(asyncio.wait_for(all_users(), WAIT_S))


def test_given_the_example_when_somebody_has_no_credentials_then_it_is_refused(
    place: Place, example: SeriatimServer
) -> None:
    with pytest.raises(NatsError, match=r"(?i)authorization violation"):
        asyncio.run(Asking().enter(example, tls=place.authority.context()))


def test_given_the_example_when_the_publisher_asks_then_it_may_what_the_page_says(
    place: Place, example: SeriatimServer
) -> None:
    async def work(publisher: Asking, subscriber: Asking, operator: Asking) -> None:
        assert await publisher.publish("orders.eu") == []
        answer = await publisher.nats.request("$SEQ.PUB.orders.eu", b"x", timeout=WAIT_S)
        assert decode_number(answer.data) > 0
        refused = await publisher.publish("prices.eu")
        assert is_refused(refused, "publish", "prices.eu")
        assert await publisher.status("$SEQ.PUB.prices.eu", b"x") == "403"
        assert (await publisher.refused()) != []
        assert is_refused(await publisher.subscribe("orders.>"), "subscription", "orders.>")
        assert await publisher.status("$SEQ.BATCH", b'{"application":"orders"}') == ""
        assert await operator.status("$SEQ.BATCH", b'{"application":"orders"}') == "403"
        assert await operator.status("$SEQ.BATCH", b'{"application":"others"}') == ""

    run(place, example, work)


def test_given_the_example_when_the_subscriber_asks_then_it_may_what_the_page_says(
    place: Place, example: SeriatimServer
) -> None:
    async def work(publisher: Asking, subscriber: Asking, operator: Asking) -> None:
        async def number_of(subject: str) -> int:
            answer = await operator.nats.request(f"$SEQ.PUB.{subject}", b"x", timeout=WAIT_S)
            return decode_number(answer.data)

        first = await number_of("orders.one")
        secret = await number_of("orders.internal.two")
        await number_of("prices.three")
        last = await number_of("orders.four")
        past = await subscriber.got(f"$SEQ.FROM.{first}.orders.>", 2)
        assert past == ["orders.one", "orders.four"]
        assert await subscriber.subscribe("orders.>") == []
        wide = ("orders.internal.>", ">", "$SEQ.FROM.1.>", "$SEQ.FROM.1.prices.>")
        for subject in wide:
            assert is_refused(await subscriber.subscribe(subject), "subscription", subject)
        assert await subscriber.status(f"$SEQ.GET.{last}") == ""
        assert await subscriber.status(f"$SEQ.GET.{secret}") == "403"
        assert await subscriber.status("$SEQ.LAST.orders.internal.two") == "403"
        assert await subscriber.status("$SEQ.READ", b'{"from":%d}' % first) == "403"
        answer = await subscriber.nats.request(
            "$SEQ.READ", b'{"from":%d,"subject":"orders.>","max_bytes":4096}' % first
        )
        assert answer.headers is not None
        assert answer.headers["Seriatim-Rows"] == "2"
        assert await subscriber.status("$SEQ.INFO") == ""
        assert is_refused(await subscriber.publish("orders.eu"), "publish", "orders.eu")

    run(place, example, work)


def test_given_the_command_of_the_page_when_run_then_it_shows_what_the_subscriber_may_see(
    place: Place, example: SeriatimServer
) -> None:
    async def work(publisher: Asking, subscriber: Asking, operator: Asking) -> None:
        for subject in ("orders.seen", "orders.internal.hidden"):
            await operator.nats.request(f"$SEQ.PUB.{subject}", b"x", timeout=WAIT_S)

    run(place, example, work)
    (place.folder / "secret").write_text("a subscriber's secret\n")
    (line,) = re.findall(r"^seriatim sub .*", PAGE, re.MULTILINE)
    line = line.replace("broker.example.com", f"localhost:{example.port}")
    done = seriatim(*shlex.split(line)[1:], cwd=place.folder)
    assert done.returncode == 0, done.stderr
    assert b"orders.seen" in done.stdout
    assert b"orders.internal" not in done.stdout


def test_given_the_example_when_the_operator_asks_then_it_may_do_anything(
    place: Place, example: SeriatimServer
) -> None:
    async def work(publisher: Asking, subscriber: Asking, operator: Asking) -> None:
        assert await operator.subscribe(">") == []
        assert await operator.publish("anything") == []
        assert "anything" in await operator.got("$SEQ.FROM.1.>", 1) + await operator.got(
            "$SEQ.LAST.anything", 1
        )

    run(place, example, work)


def test_given_the_users_of_the_page_then_a_guest_and_a_key_may_what_it_says(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GUEST_PASSWORD", "unused")
    seed = nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER)
    (place.folder / "backup.nk").write_bytes(seed)
    config = place.config(KEY).replace(KEY, nkeys.from_seed(seed).public_key.decode())
    server = place.broker(config)

    async def work() -> None:
        guest = await Asking().enter(server)
        assert await guest.subscribe("public.>") == []
        assert is_refused(await guest.subscribe("orders.>"), "subscription", "orders.>")
        assert is_refused(await guest.publish("public.a"), "publish", "public.a")
        backup = await Asking().enter(server, nkeys_seed=str(place.folder / "backup.nk"))
        assert await backup.publish("orders.a") == []
        assert is_refused(await backup.publish("public.a"), "publish", "public.a")
        one = await Asking().enter(server, user="one", password="of one")
        assert await one.publish("anything") == []
        with pytest.raises(NatsError, match=r"(?i)authorization violation"):
            await Asking().enter(server, user="one", password="of two")
        for client in (guest, backup, one):
            await client.nats.close()

    with server:
        asyncio.run(asyncio.wait_for(work(), WAIT_S))


def test_given_the_commands_for_users_when_run_then_a_broker_knows_these_users(
    tmp_path: Path,
) -> None:
    fenced = re.findall(r"^```\w*\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (block,) = (one for one in fenced if "seriatim user nkey" in one)
    *prepare, start = (shlex.split(line)[1:] for line in block.splitlines())
    done = [seriatim(*words, cwd=tmp_path) for words in prepare]
    assert [one.returncode for one in done] == [0, 0, 0]
    password = done[0].stdout.decode().strip()
    assert password
    assert password not in (tmp_path / "users.toml").read_text()
    assert all(name in done[2].stdout.decode() for name in ("alice", "backup"))
    start[start.index("users.toml")] = str(tmp_path / "users.toml")
    server = SeriatimServer("header", arguments=start[1:])

    async def work() -> None:
        alice = await Asking().enter(server, user="alice", password=password)
        assert await alice.subscribe("orders.>") == []
        assert is_refused(await alice.subscribe("prices.>"), "subscription", "prices.>")
        backup = await Asking().enter(server, nkeys_seed=str(tmp_path / "backup.nk"))
        assert await backup.subscribe(">") == []
        for client in (alice, backup):
            await client.nats.close()

    with server:
        asyncio.run(asyncio.wait_for(work(), WAIT_S))


def test_given_certificates_as_on_the_page_then_the_name_in_one_is_the_user(place: Place) -> None:
    for name in ("publisher", "other"):
        place.authority.issue(name, names=f"DNS:{name}.example.com")

    async def work(server: SeriatimServer) -> None:
        client = await Asking().enter(server, tls=place.authority.context("publisher"))
        assert await client.publish("orders.eu") == []
        assert is_refused(await client.publish("prices.eu"), "publish", "prices.eu")
        await client.nats.close()
        with pytest.raises(NatsError, match=r"(?i)authorization violation"):
            await Asking().enter(server, tls=place.authority.context("other"))
        with pytest.raises((NatsError, OSError)):
            await Asking().enter(server, tls=place.authority.context())

    with place.broker(place.config("verify_and_map = true")) as server:
        asyncio.run(asyncio.wait_for(work(server), WAIT_S))


def test_given_the_origins_of_the_page_then_other_pages_are_refused(place: Place) -> None:
    with place.broker(place.config("allowed_origins")) as server:
        said = [line for line in server.log if "Listening for websocket clients" in line]
        port = int(said[0].rpartition(":")[2])

        def hear(origin: str) -> bytes:
            url = f"wss://127.0.0.1:{port}"
            with web_connect(
                url, origin=Origin(origin), ssl=place.authority.context(), proxy=None
            ) as client:
                return client.recv(WAIT_S, decode=False)

        assert hear("https://app.example.com").startswith(b"INFO {")
        with pytest.raises(InvalidStatus) as refused:
            hear("https://evil.example.com")
        assert refused.value.response.status_code == 403


def test_given_the_table_of_limits_then_it_has_all_of_them_with_their_defaults() -> None:
    section = PAGE.split("\n## Limits\n")[1].split("\n## ")[0]
    listed = re.findall(r"^\| `(\w+)` \| (\S+) \|", section, re.MULTILINE)
    settings = (ROOT / "docs" / "configuration.md").read_text()
    known = re.findall(
        r"^### `limits\.(\w+)`\n.*?^- Default: `([^`]+)`", settings, re.MULTILINE | re.DOTALL
    )
    assert listed == known
    assert [name for name, _ in listed] == [field.name for field in fields(Limits)]


def test_given_the_table_of_rights_then_it_has_every_subject_of_the_protocol() -> None:
    protocol = (ROOT / "docs" / "protocol.md").read_text()
    asked = re.findall(r"^\| `H?(?:SUB|PUB) (\$SEQ\.[A-Z]+)", protocol, re.MULTILINE)
    section = PAGE.split("### The broker's own subjects")[1].split("\n## ")[0]
    listed = re.findall(r"^\| (?:SUB|PUB) `(\$SEQ\.[A-Z]+)", section, re.MULTILINE)
    assert set(listed) == {*asked, "$SEQ.PUB", "$SEQ.ORDERED"}


def test_given_the_table_of_warnings_then_the_broker_says_each() -> None:
    section = PAGE.split("## What the broker says at the start")[1]
    texts = re.findall(r"^\| .* \| (.*) \|$", section, re.MULTILINE)[1:]
    closed = {"authorization.user": "a", "authorization.password": "b"}
    monitored = {"host": "127.0.0.1", "http_host": "0.0.0.0", "http_port": "8222"}
    cases: list[dict[str, Any]] = [
        {},
        closed,
        {"host": "127.0.0.1", "sequencer.host": "0.0.0.0", "sequencer.port": "3001"},
        monitored,
        {**monitored, "http_user": "a", "http_password": "b"},
        {"host": "127.0.0.1", **closed},
    ]
    for text, flags in zip(texts, cases, strict=True):
        settings = resolve({"store_dir": "/tmp/none", **flags}, {}).settings
        said = insecure(settings)
        words = [word for word in text.split() if word != "it"]
        pattern = ".*".join(map(re.escape, words))
        assert any(re.search(pattern, line) for line in said), (text, said)


def test_given_the_checklist_then_its_alerts_exist() -> None:
    alerts = (ROOT / "deploy" / "prometheus" / "alerts.yml").read_text()
    for name in re.findall(r"`(Seriatim[A-Z]\w+)`", PAGE):
        assert f"- alert: {name}\n" in alerts
