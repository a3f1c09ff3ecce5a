"""Others who send to the group: their packets are not accepted, and cost us nothing."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sequencer.feed.codecs import codec_named
from sequencer.feed.feed_codec import Codec
from sequencer.feed.feed_message import FeedMessage
from tests.network.hosts import Host
from tests.network.publisher import payload
from tests.network.scene import Scene
from tests.network.test_hostile_network import journal_of, sender
from tests.network.test_lossy_feed import BAD, GROUP, feed, fill_of, is_whole, mold

COUNT = 2000
WAYS = [("netstring", "nats"), ("moldudp64", "mold")]
HASTY = ("answer=0.5", "tries=2")  # gives up within 2 s what it believes to miss
FEW = 200  # as many as any socket holds: none is lost, however long nobody reads
BEAT_S = 0.05


def scene_for(codec: str, kind: str) -> Scene:
    return Scene(mold() if kind == "mold" else feed(codec))


def coded(name: str, journal: str) -> Codec:
    codec = codec_named(name)
    codec.open(journal, 1)
    return codec


def said(codec: Codec, number: int) -> bytes:
    """One message of a stranger."""
    return codec.datagram([FeedMessage(number, payload("evil", number, 60), b"evil")], number - 1)


@contextmanager
def talking(host: Host, strange: Codec) -> Iterator[None]:
    """Meanwhile a stranger publishes on the group, a message and a heartbeat at a time.

    The first ones are sent when the context begins.
    """
    stop = threading.Event()

    def say(evil: socket.socket, number: int) -> None:
        evil.send(said(strange, number))
        evil.send(strange.heartbeat(number, number + 1) or said(strange, number))

    def talk(evil: socket.socket) -> None:
        number = 1
        while not stop.wait(BEAT_S):
            number += 1
            say(evil, number)

    with sender(host) as evil:
        say(evil, 1)
        thread = threading.Thread(target=talk, args=[evil])
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


@pytest.mark.parametrize(("codec", "kind"), WAYS)
def test_given_a_stream_of_another_journal_on_the_group_then_the_first_one_goes_on(
    codec: str, kind: str
) -> None:
    with scene_for(codec, kind) as scene:
        fill = fill_of(scene, kind)
        listener = scene.listen(scene.host("far"), codec, fill, "1", str(2 * COUNT), GROUP)
        publisher, evil = scene.publisher(), scene.network.host("evil")
        publisher.publish(COUNT)
        listener.await_number(COUNT)  # a stranger is one until 3 s of silence have passed
        with talking(evil, coded(codec, "00000000deadbeef")):
            publisher.publish(COUNT, COUNT)
            report = listener.report()
    assert is_whole(report, 2 * COUNT)
    assert report["counters"]["strangers"] > 0


@pytest.mark.parametrize(
    ("codec", "beat"), [("netstring", False), ("binary", True)], ids=["message", "heartbeat"]
)
def test_given_a_huge_number_when_the_broker_has_not_given_it_then_nothing_is_lost_for_it(
    codec: str, beat: bool
) -> None:
    """It says the same journal: who listens can read that off the wire."""
    huge = 1 << 62
    with scene_for(codec, "nats") as scene:
        fill = fill_of(scene, "nats")
        listener = scene.listen(scene.host("far"), codec, fill, "1", str(FEW), GROUP, *HASTY)
        publisher = scene.publisher()
        publisher.publish(FEW // 2)
        liar = coded(codec, journal_of(scene))
        with sender(scene.network.host("evil")) as evil:
            evil.send((beat and liar.heartbeat(huge - 1, huge)) or said(liar, huge))
        publisher.publish(FEW // 2, 30)
        report = listener.report()
    assert is_whole(report, FEW)
    assert report["counters"]["requests"] < 200, "nobody is asked again and again"


@pytest.mark.parametrize(("codec", "kind"), WAYS)
def test_given_two_brokers_on_one_group_then_a_receiver_has_all_of_the_one_it_asks(
    codec: str, kind: str
) -> None:
    with scene_for(codec, kind) as scene:
        fill = fill_of(scene, kind)
        listener = scene.listen(scene.host("far", BAD), codec, fill, "1", str(2 * COUNT), GROUP)
        ours = scene.publisher()
        ours.publish(COUNT)
        listener.await_number(COUNT)  # the first stream that it hears is the one it follows
        theirs = scene.publisher("q", broker=scene.another("other", feed(codec)))
        for publisher in (ours, theirs):
            publisher.begin(COUNT, COUNT)
        for publisher in (ours, theirs):
            publisher.finish()
        report = listener.report()
    assert is_whole(report, 2 * COUNT)


@pytest.mark.parametrize(("codec", "kind"), WAYS)
def test_given_a_broker_that_is_away_when_holes_wait_for_it_then_they_are_not_lost(
    codec: str, kind: str
) -> None:
    """The far end misses the last ones; the broker is gone before it can be asked for them."""
    with scene_for(codec, kind) as scene:
        far = scene.host("far", BAD)
        listener = scene.listen(far, codec, fill_of(scene, kind), "1", str(COUNT + 100), GROUP)
        scene.publisher().publish(COUNT)
        scene.broker.kill()
        scene.start()
        scene.publisher("q").publish(100, 50)
        assert is_whole(listener.report(), COUNT + 100)
