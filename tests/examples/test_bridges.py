"""The bridges: nothing that NATS keeps, or delivers to one of them, is missing or there twice."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random

import nats
import pytest
from nats.js.api import StreamConfig

import seriatim
from tests.crash.trial import SEED
from tests.examples.services import (
    KILLS,
    WAIT_S,
    Service,
    assert_equal,
    broker,
    journal_of,
    storm,
    until,
)
from tests.support.processes import STAND_IN, NatsServer, ServerProcess, url

pytestmark = pytest.mark.skipif(STAND_IN, reason="nats-server gives no numbers")
READY = "Bridging"


class Source(threading.Thread):
    """A publisher to a plain nats-server, which may give ids to its messages."""

    def __init__(self, server: ServerProcess, has_ids: bool) -> None:
        super().__init__(daemon=True)
        self.begun = 0  # of messages that the server may have taken
        self.count = 0  # of those that it has taken
        self.over = False
        self._url = url(server)
        self._has_ids = has_ids

    def run(self) -> None:
        asyncio.run(self.publish())

    async def publish(self) -> None:
        client = await nats.connect(self._url)
        while not self.over:
            self.begun += 20
            for at in range(self.count, self.begun):
                headers = {"Desk": f"{at % 3}", "Nats-Expected-Last-Sequence": "1"}
                headers |= {"Nats-Msg-Id": f"{at // 5}"} if self._has_ids else {}
                await client.publish(f"orders.{at % 5}", b"%d" % at, headers=headers)
            await client.flush()
            self.count = self.begun
            await asyncio.sleep(0.005)  # no event to await: a rate that all can follow
        await client.close()

    def end(self) -> int:
        self.over = True
        self.join(WAIT_S)
        return self.count


def bridge(source: ServerProcess, target: ServerProcess) -> Service:
    return Service("bridge.py", url(source), "orders.>", url(target), ready=READY)


def judge(target: ServerProcess, count: int, in_order: bool) -> None:
    """Each message is there once, as it was published."""
    kept = journal_of(target, "orders.>")
    found = [int(one.payload) for one in kept]
    assert_equal(found if in_order else sorted(found), range(count))
    for at, one in zip(found, kept, strict=True):
        assert one.subject == f"orders.{at % 5}"
        assert one.headers["Desk"] == f"{at % 3}"


def has_all(target: ServerProcess, count: int) -> bool:
    """True if messages 0 to `count - 1` are there; two bridges do not publish them in order."""
    try:
        found = {int(one.payload) for one in journal_of(target, "orders.>")}
    except seriatim.BrokerError:
        return False
    return found.issuperset(range(count))


def last_of(target: ServerProcess) -> int:
    """How many messages are there."""
    try:
        with seriatim.connect(url(target)) as stream:
            return stream.info().last
    except seriatim.BrokerError:
        return 0


def test_given_kills_of_seriatim_then_one_bridge_publishes_all_once_and_in_order() -> None:
    with NatsServer() as source, broker() as target, bridge(source, target) as service:
        orders = Source(source, has_ids=False)
        orders.start()
        storm(target, "bridge", lambda: last_of(target), [])
        count = orders.end()
        assert service.stop() == 0, service.log
        judge(target, count, in_order=True)


def test_given_a_bridge_when_it_is_stopped_then_what_the_source_has_sent_is_published() -> None:
    count = 50_000

    async def burst(address: str) -> None:
        client = await nats.connect(address)
        for at in range(count):
            await client.publish(f"orders.{at % 5}", b"%d" % at, headers={"Desk": f"{at % 3}"})
        await client.flush()
        await client.close()

    with NatsServer() as source, broker() as target, bridge(source, target) as service:
        asyncio.run(burst(url(source)))
        assert service.stop() == 0, service.log
        judge(target, count, in_order=True)


def test_given_two_bridges_and_kills_of_one_then_all_with_ids_are_published_once() -> None:
    chance = Random(SEED)
    with (
        NatsServer() as source,
        broker() as target,
        bridge(source, target) as one,
        bridge(source, target) as other,
    ):
        orders = Source(source, has_ids=True)
        orders.start()
        for _ in range(KILLS):
            victim = chance.choice((one, other))
            born = victim.lives.count
            victim.kill()
            if chance.random() < 0.5:
                target.kill()
                target.start(target.port)
            victim.lives.reach(born + 1)
            # What came before it was there again, the other one alone has had.
            until(partial(has_all, target, orders.begun), [one, other])
        count = orders.end()
        until(partial(has_all, target, count))
        assert (one.stop(), other.stop()) == (0, 0)
        judge(target, count, in_order=False)


@contextmanager
def jetstream(folder: Path) -> Iterator[NatsServer]:
    with NatsServer(more=f'jetstream {{ store_dir: "{folder}" }}\n') as server:
        yield server


class StreamSource(threading.Thread):
    """A publisher to a stream of JetStream, each message until it is acknowledged."""

    def __init__(self, server: ServerProcess) -> None:
        super().__init__(daemon=True)
        self.count = 0
        self.over = False
        self._url = url(server)

    def run(self) -> None:
        asyncio.run(self.publish())

    async def publish(self) -> None:
        client = await nats.connect(
            self._url, max_reconnect_attempts=-1, reconnect_time_wait=0.05, error_cb=nothing
        )
        stream = client.jetstream(timeout=1)
        is_known = True
        while not (self.over and is_known):  # what has no ack may be there, or not
            headers = {"Nats-Msg-Id": f"{self.count}", "Desk": f"{self.count % 3}"}
            try:
                await stream.publish(
                    f"orders.{self.count % 5}", b"%d" % self.count, headers=headers
                )
                is_known = True
                self.count += 1
            except (TimeoutError, nats.errors.Error):
                is_known = False
        await client.close()

    def end(self) -> int:
        self.over = True
        self.join(WAIT_S)
        return self.count


async def nothing(error: Exception) -> None:
    """The server is killed: the client says so."""


async def make_stream(server: ServerProcess) -> None:
    client = await nats.connect(url(server))
    await client.jetstream().add_stream(StreamConfig(name="ORDERS", subjects=["orders.>"]))
    await client.close()


@pytest.mark.parametrize("window", ["2m", "0s"], ids=["ids", "no ids"])
def test_given_kills_of_everything_then_a_stream_is_bridged_once_and_in_order(
    tmp_path: Path, window: str
) -> None:
    """Without ids the bridge's own look at the target is all there is, as after a long break."""
    with jetstream(tmp_path) as source, broker("--dedupe_window", window) as target:
        asyncio.run(make_stream(source))

        def kill_source() -> None:
            source.kill()
            source.start(source.port)

        arguments = ("bridge_jetstream.py", url(source), "ORDERS", url(target))
        with Service(*arguments, may_end=True) as service:
            orders = StreamSource(source)
            orders.start()
            storm(target, f"jetstream {window}", lambda: last_of(target), [service], kill_source)
            count = orders.end()
            until(lambda: len(journal_of(target, "orders.>")) >= count)
            judge(target, count, in_order=True)
