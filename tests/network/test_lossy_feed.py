"""A feed over a network that loses, duplicates and reorders: every number arrives once, in order.

At 100 000 messages of 128 bytes a second (uncompiled: as many as both sides can handle). With
NETWORK_SECONDS=60 each publishes for so long.
"""

import os
import signal
from typing import Any

import pytest

from broker.version import is_compiled
from tests.network.hosts import Host
from tests.network.scene import Scene
from tests.network.wire import Counters

RATE = 100_000 if is_compiled() else 3_000
SECONDS = float(os.environ.get("NETWORK_SECONDS", "0.25"))
COUNT = int(RATE * SECONDS)
GROUP, SECOND = "239.77.0.1:5000", "239.77.0.2:5000"
BAD = "right udp loss 0.05 duplicate 0.01 reorder 0.02"
REREQUESTS = 6000
PATIENT = "patience=3"  # a second feed's wire may be held up for a while on a busy machine


def feed(codec: str, group: str = GROUP, interface: str = "eth0", more: str = "") -> str:
    return f"{group},codec={codec},interface={interface},heartbeat=0.2{more}"


def mold(group: str = GROUP) -> str:
    return feed("moldudp64", group, more=f",rerequest_port={REREQUESTS}")


def fill_of(scene: Scene, kind: str) -> str:
    port = scene.broker.port if kind == "nats" else REREQUESTS
    return f"{kind}://{scene.broker.host}:{port}"


def is_whole(report: dict[str, Any], count: int, first: int = 1) -> bool:
    """Whether it delivered numbers `first` to `count`, each once, as they were published."""
    assert report["wrong"] == [], report
    assert report["lost"] == [], report
    assert report["others"] == [], report
    assert (report["first"], report["last"]) == (first, count), report
    return bool(report["delivered"] == count - first + 1)


def in_haste(report: dict[str, Any], wires: list[Counters]) -> int:
    """How many datagrams a busy machine had no time for: the receiver's socket, and the wires'."""
    dropped: int = report["counters"]["kernel_drops"]
    return dropped + sum(wire.overrun for wire in wires)


@pytest.mark.parametrize(
    ("codec", "kind"),
    [("netstring", "nats"), ("moldudp64", "mold"), ("binary", "nats")],
)
def test_given_five_percent_loss_when_much_is_published_then_every_number_arrives_once(
    codec: str, kind: str
) -> None:
    with Scene(mold() if kind == "mold" else feed(codec)) as scene:
        far = scene.host("far", BAD)
        listener = scene.listen(far, codec, fill_of(scene, kind), "1", str(COUNT), GROUP)
        rate = scene.publisher().publish(COUNT, RATE)
        report = listener.report()
        wire = far.wires[0].count()
        counts = wire["right", "udp"]
    print(f"\n{codec}: {rate:.0f} messages/s; {counts}; {wire.overrun}; {report['counters']}")
    assert is_whole(report, COUNT)
    assert counts.seen + wire.overrun >= COUNT, "on a busy machine it has no time for some"
    assert counts.lost > counts.seen // 25, "the wire did lose what it was to lose"
    assert report["counters"]["filled"] > COUNT // 25


@pytest.mark.parametrize(
    ("codec", "kind"), [("netstring", "nats"), ("moldudp64", "mold"), ("binary", "nats")]
)
def test_given_a_feed_with_a_filter_then_what_it_lets_through_arrives_and_nothing_is_lost(
    codec: str, kind: str
) -> None:
    count = COUNT // 10
    options = f",subject=t.p,rerequest_port={REREQUESTS if kind == 'mold' else 0}"
    with Scene(feed(codec, more=options)) as scene:
        far, fill = scene.host("far", BAD), fill_of(scene, kind)
        listener = scene.listen(far, codec, fill, "1", str(2 * count + 1), GROUP, "subject=t.p")
        publishers = scene.publisher("p"), scene.publisher("q")
        for publisher in publishers:
            publisher.begin(count, RATE // 4)
        for publisher in publishers:
            publisher.finish()
        publishers[0].publish(1)
        report = listener.report()
    assert (report["wrong"], report["lost"], report["others"]) == ([], [], [])
    assert report["delivered"] == count + 1
    assert report["last"] == 2 * count + 1


def test_given_tcp_in_trouble_too_when_holes_are_filled_then_every_number_arrives_once() -> None:
    count = COUNT // 4
    with Scene(feed("netstring-subject")) as scene:
        far = scene.host("far", BAD, "both tcp loss 0.01 duplicate 0.005 reorder 0.01")
        listener = scene.listen(
            far, "netstring-subject", fill_of(scene, "nats"), "1", str(count), GROUP
        )
        scene.publisher().publish(count, RATE // 4)
        assert is_whole(listener.report(), count)


def test_given_two_feeds_of_independent_losses_then_little_is_left_to_fill() -> None:
    feeds = (feed("binary"), feed("binary", SECOND, "eth1"))
    count = COUNT // 10
    with Scene(*feeds, lans=2) as scene:
        far = scene.host("far", BAD)
        heard = (GROUP, f"{SECOND},eth1", PATIENT)
        listener = scene.listen(far, "binary", fill_of(scene, "nats"), "1", str(count), *heard)
        scene.publisher().publish(count, RATE // 10)
        report = listener.report()
        wires = [far.wires[lan].count() for lan in range(2)]
    lost = min(wire["right", "udp"].lost for wire in wires)
    assert is_whole(report, count)
    assert lost > min(wire["right", "udp"].seen for wire in wires) // 25
    assert report["counters"]["filled"] - in_haste(report, wires) < lost // 2, report


def test_given_no_filler_when_both_feeds_lose_it_then_it_is_reported_as_lost() -> None:
    feeds = (feed("moldudp64"), feed("moldudp64", SECOND, "eth1"))
    count = COUNT // 4
    with Scene(*feeds, lans=2) as scene:
        far = scene.host("far", "right udp loss 0.2")
        listener = scene.listen(
            far, "moldudp64", "-", "1", str(count), GROUP, f"{SECOND},eth1", PATIENT
        )
        scene.publisher().publish(count, RATE // 4)
        report = listener.report()
        late = in_haste(report, [far.wires[lan].count() for lan in range(2)])
    lost = sum(last - first + 1 for first, last in report["lost"])
    assert report["wrong"] == []
    assert report["delivered"] + lost == count
    assert 0 < lost < count // 8 + late, "a twenty-fifth, and what there was no time for"


def test_given_a_receiver_that_is_killed_when_another_starts_late_then_it_has_the_rest() -> None:
    half = COUNT // 2
    with Scene(feed("netstring")) as scene:
        far, fill = scene.host("far", BAD), fill_of(scene, "nats")
        publisher = scene.publisher()
        first = scene.listen(far, "netstring", fill, "1", "0", GROUP)
        publisher.begin(COUNT, RATE)
        first.await_number(half)
        first.kill()
        late = scene.listen(far, "netstring", fill, str(half), str(COUNT), GROUP)
        publisher.finish()
        assert is_whole(late.report(), COUNT, half)


@pytest.mark.parametrize(
    ("codec", "kind", "how"),
    [("netstring", "nats", signal.SIGKILL), ("moldudp64", "mold", signal.SIGTERM)],
    ids=["killed", "stopped"],
)
def test_given_a_broker_that_is_started_again_then_the_numbers_go_on(
    codec: str, kind: str, how: signal.Signals
) -> None:
    count = RATE // 10
    with Scene(mold() if kind == "mold" else feed(codec)) as scene:
        listener = scene.listen(
            scene.host("far", BAD), codec, fill_of(scene, kind), "1", str(2 * count), GROUP
        )
        scene.publisher().publish(count, RATE)
        scene.broker.signal(how)
        scene.broker.wait()
        scene.start()
        scene.publisher("q").publish(count, RATE)
        report = listener.report()
    ended = [f"ended {count + 1}"] if codec == "moldudp64" and how == signal.SIGTERM else []
    assert report["others"] in ([], ended)
    assert is_whole({**report, "others": []}, 2 * count)


@pytest.mark.parametrize("side", ["far", "home"])
def test_given_a_link_that_is_down_for_a_while_then_what_was_missed_is_fetched(side: str) -> None:
    """Publishers are on the broker's own host here, for its link is what goes down."""
    count = RATE // 10
    with Scene(feed("binary")) as scene:
        scene.desk = scene.home
        far = scene.host("far", BAD)
        listener = scene.listen(far, "binary", fill_of(scene, "nats"), "1", str(3 * count), GROUP)
        publisher = scene.publisher()
        publisher.publish(count, RATE)
        host: Host = far if side == "far" else scene.home
        host.link(False)
        publisher.publish(count, RATE)
        host.link(True)
        publisher.publish(count, RATE)
        assert is_whole(listener.report(), 3 * count)


@pytest.mark.parametrize(("codec", "kind"), [("netstring", "nats"), ("moldudp64", "mold")])
def test_given_that_the_last_ones_are_lost_when_nothing_follows_then_they_are_fetched(
    codec: str, kind: str
) -> None:
    with Scene(mold() if kind == "mold" else feed(codec)) as scene:
        far = scene.host("far")
        listener = scene.listen(far, codec, fill_of(scene, kind), "1", "150", GROUP)
        publisher = scene.publisher()
        publisher.publish(100)
        far.wires[0].set("right udp loss 1")
        publisher.publish(50)
        far.wires[0].set("right udp loss 0")
        assert is_whole(listener.report(), 150)
