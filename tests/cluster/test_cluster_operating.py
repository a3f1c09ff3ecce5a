"""What an operator and the clients of a cluster see: health, metrics, INFO, lame duck."""

import asyncio
import json
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import nats
import pytest
from nats.aio.client import Client
from playwright.sync_api import expect

import seriatim
from seriatim import ClientEvent
from tests.support.browser import Visit, browser
from tests.support.cluster_start import ClusterOf
from tests.support.places import ROOT
from tests.support.processes import SeriatimServer, url
from tests.support.raw import Operation, RawClient, WireError
from tests.support.web import Page, get, http_port, metrics

WAIT_S = 60.0
METRIC = re.compile(r"\b(seriatim_cluster_[a-z_]+)")
T = TypeVar("T")
MODERN = b'CONNECT {"verbose":false,"protocol":1}\r\n'


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterOf]:
    more = ["-m", "-1", "--cluster_stranded", "3", "--lame_duck", "4", "--cluster_patience", "2s"]
    with ClusterOf(3, more=more) as made:
        yield made


def health(member: SeriatimServer) -> Page:
    return get(http_port(member), "/healthz")


def varz(member: SeriatimServer) -> dict[str, Any]:
    return get(http_port(member), "/varz").json


def await_health(member: SeriatimServer, wanted: str) -> str:
    """Ask until the health is as wanted; "ok" or a pattern of the reason."""
    return until(
        lambda: said_of(health(member)), lambda said: bool(re.fullmatch(wanted, said)), wanted
    )


def said_of(page: Page) -> str:
    answer = page.json
    assert page.status == (200 if answer["status"] == "ok" else 503)
    return str(answer.get("error", "ok"))


def until(ask: Callable[[], T], is_right: Callable[[T], bool], wanted: str) -> T:
    deadline = time.monotonic() + WAIT_S
    while not is_right(found := ask()):
        assert time.monotonic() < deadline, f"{wanted} did not come: {found}"
        time.sleep(0.02)  # another process: there is no event to await
    return found


def in_role(cluster: ClusterOf) -> tuple[SeriatimServer, list[SeriatimServer]]:
    """The coordinator, and the others."""
    at = cluster.coordinator()
    return cluster.members[at], [one for one in cluster.members if one is not cluster.members[at]]


def await_all_in_sync(cluster: ClusterOf) -> None:
    until(lambda: len(cluster.view()["members"]), lambda count: count == 3, "three in sync")


def test_given_the_live_page_of_a_member_then_it_shows_the_others(cluster: ClusterOf) -> None:
    coordinator, _ = in_role(cluster)
    await_all_in_sync(cluster)
    with browser() as started:
        visiting = Visit(started)
        page = visiting.page
        page.goto(f"http://127.0.0.1:{http_port(coordinator)}/")
        page.get_by_role("link", name="Cluster").click()
        expect(page.locator("tbody tr")).to_have_count(2)
        expect(page.locator("tbody tr").first).to_contain_text("yes")
        expect(page.locator(".facts-list")).to_contain_text("coordinator")
        assert visiting.complaints == []
        visiting.close()


def modern(member: SeriatimServer) -> RawClient:
    """A client that understands a new INFO. It has got the one that follows the first PING."""
    client = RawClient(member.port, MODERN)
    client.send(b"PING\r\n")
    assert [client.operation().verb for _ in range(2)] == ["PONG", "INFO"]
    return client


def next_info(client: RawClient, is_right: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Read until an INFO is as wanted."""
    while True:
        operation = client.operation()
        assert operation.verb == "INFO"
        info: dict[str, Any] = json.loads(operation.text)
        if is_right(info):
            return info


def urls_of(*members: SeriatimServer) -> set[str]:
    return {f"127.0.0.1:{member.port}" for member in members}


def test_given_members_in_sync_when_asked_then_healthy_and_each_shows_all(
    cluster: ClusterOf,
) -> None:
    coordinator, others = in_role(cluster)
    for member in cluster.members:
        assert await_health(member, "ok") == "ok"
        page = until(
            partial(varz, member),
            lambda page: page["cluster"]["status"] == "ok",
            "a member in sync",
        )
        assert page["cluster"]["name"] == "orders"
        assert page["routes"] == (2 if member is coordinator else 1)
    page = until(
        lambda: get(http_port(coordinator), "/routez").json,
        lambda page: page["num_routes"] == 2 and all(one["in_sync"] for one in page["routes"]),
        "two routes in sync",
    )
    found = {one["clients"][0]: one for one in page["routes"]}
    assert set(found) == urls_of(*others)
    for one in page["routes"]:
        assert one["in_sync"]
        assert one["connected"]
        assert (one["role"], one["lag_bytes"]) == ("follower", 0)
        assert one["pulse_seconds"] < WAIT_S
    page = get(http_port(others[0]), "/routez").json
    assert [one["role"] for one in page["routes"] if one["connected"]] == ["coordinator"]


def test_given_messages_of_a_follower_when_committed_then_the_metrics_say_so(
    cluster: ClusterOf,
) -> None:
    coordinator, (follower, _) = in_role(cluster)
    before = metrics(http_port(follower))
    with RawClient(follower.port, MODERN) as client:
        client.ask(b"PUB a 3\r\nabc\r\n" * 100)
        (entry,) = get(http_port(follower), "/connz").json["connections"]
        assert entry["awaits_commit"] is False
    now, of_coordinator = metrics(http_port(follower)), metrics(http_port(coordinator))
    name = "seriatim_cluster_forwarded_total"
    assert now[name] == before[name] + 100
    assert now["seriatim_cluster_watermark"] == of_coordinator["seriatim_cluster_log_last"]
    assert now["seriatim_cluster_is_coordinator"] == 0
    assert of_coordinator["seriatim_cluster_is_coordinator"] == 1
    assert of_coordinator["seriatim_cluster_takeovers_total"] == 1
    assert of_coordinator["seriatim_cluster_members_answering"] == 3
    swaps = of_coordinator['seriatim_cluster_engine_swaps_total{result="done"}']
    assert swaps >= 2  # for itself, and for the two others together or one by one
    lags = [name for name in of_coordinator if name.startswith("seriatim_cluster_lag_bytes{")]
    assert len(lags) == 2


def test_given_the_metrics_of_a_cluster_when_looked_up_then_docs_dashboard_and_alerts_have_them(
    cluster: ClusterOf,
) -> None:
    coordinator, _ = in_role(cluster)
    names = {
        name.partition("{")[0]
        for name in metrics(http_port(coordinator))
        if name.startswith("seriatim_cluster_")
    }
    used = {
        path: METRIC.findall((ROOT / path).read_text())
        for path in ("docs/monitoring.md", "deploy/grafana/seriatim.json")
    }
    assert set(used["docs/monitoring.md"]) == names
    assert set(used["deploy/grafana/seriatim.json"]) == names - {"seriatim_cluster_info"}
    alerts = set(METRIC.findall((ROOT / "deploy" / "prometheus" / "alerts.yml").read_text()))
    assert alerts <= names


def test_given_a_member_asked_to_retire_when_it_goes_then_its_clients_and_others_are_informed(
    cluster: ClusterOf,
) -> None:
    coordinator, (stays, goes) = in_role(cluster)
    with modern(stays) as watcher, RawClient(goes.port) as old, modern(goes) as client:
        client.ask(b"SUB a 1\r\n")
        assert watcher.info["connect_urls"][-1] in urls_of(coordinator)
        goes.signal(signal.SIGUSR2)
        info = next_info(client, lambda info: "ldm" in info)
        assert set(info["connect_urls"]) == urls_of(coordinator, stays)
        info = next_info(watcher, lambda info: len(info["connect_urls"]) == 2)
        assert set(info["connect_urls"]) == urls_of(coordinator, stays)
        assert "ldm" not in info
        # It has left the view, and still serves those that are connected.
        with RawClient(stays.port, MODERN) as publisher:
            publisher.ask(b"PUB a 4\r\nlast\r\n")
        assert without_info(client).payload.endswith(b"4:last,,")
        assert without_info(old).verb == "END"
        assert without_info(client).verb == "END"
        assert goes.wait() == 0
        goes.start(goes.port)
        next_info(watcher, lambda info: len(info["connect_urls"]) == 3)


def without_info(client: RawClient) -> Operation:
    """The next operation that is not INFO; END if there is none."""
    while True:
        try:
            operation = client.operation()
        except WireError:
            return Operation("END")
        if operation.verb != "INFO":
            return operation


@contextmanager
def moving_client(member: SeriatimServer) -> Iterator[Callable[[], int | None]]:
    """A client of nats-py that knows one member only; call it for the port to which it moves."""
    with asyncio.Runner() as runner:
        moved = asyncio.Event()

        async def reconnected() -> None:
            moved.set()

        async def connect() -> Client:
            return await nats.connect(
                url(member), reconnected_cb=reconnected, reconnect_time_wait=0.01
            )

        async def moved_to() -> int | None:
            async with asyncio.timeout(WAIT_S):
                await moved.wait()
            assert client.connected_url is not None
            return client.connected_url.port

        client = runner.run(connect())
        try:
            yield lambda: runner.run(moved_to())
        finally:
            runner.run(client.close())


@contextmanager
def our_moving_client(member: SeriatimServer) -> Iterator[Callable[[], int]]:
    """The same with Seriatim's own client."""
    with asyncio.Runner() as runner:
        moved = asyncio.Event()
        connections: list[str] = []

        def told(event: ClientEvent) -> None:
            if event.kind == "connected":
                connections.append(event.server)
            if len(connections) == 2:
                moved.set()

        async def join() -> seriatim.Client:
            return await seriatim.connect(url(member), on_event=told)

        async def moved_to() -> int:
            async with asyncio.timeout(WAIT_S):
                await moved.wait()
            assert connections[1].endswith(f":{client.server['port']}")
            return int(client.server["port"])

        client = runner.run(join())
        try:
            yield lambda: runner.run(moved_to())
        finally:
            runner.run(client.close())


def test_given_a_coordinator_when_terminated_then_it_hands_over_and_then_closes_its_clients(
    cluster: ClusterOf,
) -> None:
    await_all_in_sync(cluster)
    coordinator, others = in_role(cluster)
    with (
        moving_client(coordinator) as moved_to,
        our_moving_client(coordinator) as ours_moved_to,
        RawClient(coordinator.port),
        modern(coordinator) as client,
    ):
        coordinator.signal(signal.SIGTERM)
        next_info(client, lambda info: "ldm" in info)
        until(cluster.coordinator, lambda at: cluster.members[at] in others, "a hand-over")
        assert coordinator.await_line("this member is learner")
        client.send(b"PUB a 3\r\nabc\r\nPING\r\n")  # it is forwarded
        assert without_info(client).verb == "PONG"
        assert without_info(client).verb == "END"
        assert moved_to() in {one.port for one in others}
        assert ours_moved_to() in {one.port for one in others}
    assert coordinator.wait() == 0
    coordinator.start(coordinator.port)


def test_given_a_member_that_copies_when_asked_then_http_answers_and_says_that_it_learns(
    cluster: ClusterOf,
) -> None:
    await_all_in_sync(cluster)
    coordinator, (member, other) = in_role(cluster)
    member.kill()
    for one in (coordinator, other):
        one.suspend()  # nobody lets it join
    starting = threading.Thread(target=member.start, args=(member.port,))
    starting.start()
    try:
        until(lambda: member.said("Starting http monitor"), bool, "a monitor")
        assert await_health(member, "learning, .* behind|no coordinator .*|the cluster has no view")
        assert get(http_port(member), "/healthz?alive=1").status == 200
    finally:
        for one in (coordinator, other):
            one.signal(signal.SIGCONT)
        starting.join()
    assert await_health(member, "ok") == "ok"


def test_given_members_cut_off_when_nobody_coordinates_then_they_say_so_and_clients_may_move(
    cluster: ClusterOf,
) -> None:
    await_all_in_sync(cluster)
    coordinator, followers = in_role(cluster)
    follower = followers[0]
    with modern(follower) as client:
        cluster.etcd.kill()
        coordinator.suspend()
        assert await_health(follower, r"no coordinator for ([2-9]|\d\d+) s")
        assert get(http_port(follower), "/healthz?alive=1").status == 200
        info = next_info(client, lambda info: "ldm" in info)
        assert f"127.0.0.1:{follower.port}" not in info["connect_urls"]
        assert follower.await_line("clients are sent to other members")
        assert without_info(client).verb == "END"
    assert metrics(http_port(follower))["seriatim_cluster_engine_up"] == 0
    with modern(follower) as late:  # nobody else may be there: it is served
        coordinator.signal(signal.SIGCONT)
        assert await_health(follower, "ok") == "ok"
        assert follower.await_line("Leaving lame duck mode")
        next_info(late, lambda info: len(info["connect_urls"]) == 3 and "ldm" not in info)
    cluster.etcd.start()
    name = "seriatim_cluster_engine_up"
    until(lambda: metrics(http_port(follower))[name], bool, "etcd")
    assert follower.await_line("is heard again")


def test_given_one_member_left_when_asked_then_it_is_not_healthy(cluster: ClusterOf) -> None:
    await_all_in_sync(cluster)
    coordinator, followers = in_role(cluster)
    for member in followers:
        member.kill()
    assert await_health(coordinator, "1 of 2 members in sync")
    assert coordinator.await_line("1 of 2 members in sync: nothing is published")
    found = metrics(http_port(coordinator))
    assert found["seriatim_cluster_members_answering"] == 1
    assert found["seriatim_cluster_healthy"] == 0
    followers[0].start(followers[0].port)
    assert await_health(coordinator, "ok") == "ok"
    assert coordinator.await_line("publishing goes on")
