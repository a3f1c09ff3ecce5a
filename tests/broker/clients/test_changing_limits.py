"""Limits that change while the broker runs: what is there stays, what comes meets the new ones."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from broker.reloading.reloadable import RELOADABLE
from broker.server import Server
from tests.support.processes import STAND_IN, SeriatimServer
from tests.support.raw import HEADERS, QUIET, RawClient
from tests.support.serving import Client, serving

pytestmark = pytest.mark.skipif(STAND_IN, reason="of our own process")


def change(server: Server, **limits: Any) -> None:
    """As a reload does."""
    wanted = dataclasses.replace(server.settings.limits, **limits)
    server.core.change(dataclasses.replace(server.settings, limits=wanted))
    for apply in dict.fromkeys(RELOADABLE[f"limits.{name}"] for name in limits):
        apply(server, server.settings)


def errors_of(client: Client, line: bytes) -> list[bytes]:
    return [one.text for one in client.ask(line) if one.verb == "-ERR"]


CHANGES: dict[str, tuple[Any, bytes, bytes]] = {
    "max_subscriptions": (1, b"SUB a %d\r\n", b"'maximum subscriptions exceeded'"),
    "max_subscriptions_total": (1, b"SUB a %d\r\n", b"'maximum subscriptions exceeded'"),
    "max_replays": (1, b"SUB $SEQ.FROM.9.a %d\r\n", b"replays open (limits.max_replays)"),
    "max_replays_total": (1, b"SUB $SEQ.FROM.9.a %d\r\n", b"(limits.max_replays_total)"),
    "max_subject_tokens": (2, b"SUB a.b.c %d\r\n", b'"a.b.c", too many tokens'),
}


@pytest.mark.parametrize("name", CHANGES)
def test_given_a_lowered_limit_then_what_comes_is_refused_and_what_is_there_stays(
    tmp_path: Path, name: str
) -> None:
    most, line, why = CHANGES[name]
    with serving(tmp_path) as broker:
        client = broker.client()
        assert errors_of(client, line % 1 + line % 2) == []
        change(broker.server, **{name: most})
        (said,) = errors_of(client, line % 3)
        assert why in said
        assert len(client.ask(b"UNSUB 1\r\nUNSUB 2\r\n")) == 0
        change(broker.server, **{name: 0})
        assert errors_of(client, line % 3 + line % 4) == []


def test_given_fewer_tokens_then_known_subjects_are_judged_again(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:
        client = broker.client()
        assert errors_of(client, b"SUB a.> 1\r\nPUB a.b.c 1\r\nx\r\n") == []
        change(broker.server, max_subject_tokens=2)
        (said,) = errors_of(client, b"PUB a.b.c 1\r\nx\r\n")
        assert said == b"'Permissions Violation for Publish to \"a.b.c\": too many tokens'"
        change(broker.server, max_subject_tokens=3)
        assert errors_of(client, b"PUB a.b.c 1\r\nx\r\n") == []


def test_given_fewer_connections_of_an_address_then_its_clients_stay(
    tmp_path: Path,
) -> None:
    with serving(tmp_path) as broker:
        clients = [broker.client() for _ in range(3)]
        change(broker.server, max_connections_per_address=1)
        for client in clients:
            assert client.ask(b"") == []
        one = next(iter(broker.server.sessions.values()))
        assert not broker.server.roster.reserve_slot("127.0.0.1", one), "one more"
        change(broker.server, max_connections_per_address=0)
        broker.client()


def test_given_a_rate_then_it_holds_for_those_that_are_connected_and_ends_again(
    tmp_path: Path,
) -> None:
    publish = b"PUB a 1\r\nx\r\n" * 300
    with serving(tmp_path) as broker:
        client, pauses = broker.client(), broker.server.roster.metering.pauses
        client.ask(publish)
        assert pauses.begun == 0
        change(broker.server, publish_rate=10_000, publish_burst=0.01)
        client.ask(publish)
        client.ask(publish)
        assert pauses.begun > 0
        begun = pauses.begun
        change(broker.server, publish_rate=0)
        client.ask(publish)
        client.ask(publish)
        assert (pauses.begun, pauses.now) == (begun, 0)


def test_given_a_client_that_waits_when_the_rate_is_lifted_then_it_goes_on(tmp_path: Path) -> None:
    with serving(tmp_path, flags={"limits.publish_rate": "1"}) as broker:
        client, pauses = broker.client(), broker.server.roster.metering.pauses
        client.send(b"PUB a 1\r\nx\r\n" * 500)  # ten minutes' worth
        broker.until(lambda: pauses.now == 1)
        change(broker.server, publish_rate=0)
        assert client.ask(b"") == []
        assert pauses.now == 0


def test_given_a_limit_of_tokens_then_every_way_to_publish_is_refused_and_the_client_stays() -> (
    None
):
    with (
        SeriatimServer("none", arguments=["--max_subject_tokens", "3"]) as broker,
        RawClient(broker.port, HEADERS) as client,
        RawClient(broker.port, QUIET) as plain,
    ):
        client.ask(b"SUB > 1\r\nSUB in 2\r\n")
        for line in (b"PUB a.b.c.d 1\r\nx\r\n", b"HPUB a.b.c.d 12 13\r\nNATS/1.0\r\n\r\nx\r\n"):
            (refused,) = client.ask(line)
            assert refused.text.endswith(b'Publish to "a.b.c.d": too many tokens\'')
        answers = [one.header for one in client.ask(b"PUB $SEQ.PUB.a.b.c.d in 1\r\nx\r\n")]
        assert answers == [b"NATS/1.0 400 Too Many Tokens\r\n\r\n"] * 2
        (refused,) = plain.ask(b"PUB $SEQ.PUB.a.b.c.d 1\r\nx\r\n")
        assert refused.text.startswith(b"'Permissions Violation for Publish to")
        assert client.ask(b"PUB $SEQ.PUB.a.b.c in 1\r\nx\r\n")[0].subject == b"a.b.c"
        for subject in (b"a.b.c.d", b"a.*.c.>", b"$SEQ.FROM.1.a.b.c.d", b"$SEQ.RANGE.1.2.a.b.c.d"):
            (refused,) = plain.ask(b"SUB %b 1\r\n" % subject)
            assert refused.text == (
                b"'Permissions Violation for Subscription to \"%b\", too many tokens'" % subject
            )
        assert plain.ask(b"SUB a.b.c 1\r\nSUB $SEQ.FROM.99.a.b.c 2\r\n") == []


def test_given_a_limit_of_tokens_then_a_row_with_more_is_refused() -> None:
    head = (
        b"NATS/1.0\r\nSeriatim-Application: app\r\nSeriatim-Batch: 1\r\n"
        b"Seriatim-Stage: s\r\nSeriatim-Offset: 0\r\n\r\n"
    )
    rows = b"PUB a.b.c 1\r\nx\r\nPUB a.b.c.d 1\r\nx\r\n"
    sizes = (len(head), len(head) + len(rows))
    with (
        SeriatimServer(arguments=["--max_subject_tokens", "3"]) as broker,
        RawClient(broker.port, HEADERS) as client,
    ):
        client.ask(b"SUB in 1\r\n")
        client.send(b"HPUB $SEQ.STAGE in %d %d\r\n%b%b\r\n" % (*sizes, head, rows))
        said = client.operation().header
        assert b"400 Row 2 of stage s" in said
        assert b"too many tokens (limits.max_subject_tokens)" in said
