"""A feed that has nothing to send: heartbeats, and the end-of-stream when the broker stops."""

import errno
import threading
from pathlib import Path
from typing import Any

import pytest

from broker.feeds.outlet import Outlet
from sequencer.feed.feed_codec import DATA, END, HEARTBEAT
from sequencer.feed.moldudp64 import request, session_name
from sequencer.journal.store import Store
from testkit.model_frame import netstring_frame
from tests.support.feeding import asking, decoded, numbers, turns
from tests.support.multicast import WAIT_S, Ear, new_group
from tests.support.readable import is_readable
from tests.support.serving import feed_text, serving


def _no_sync(store: Store) -> int:
    raise OSError(errno.EIO, "Input/output error")


def test_given_silence_then_heartbeats_say_which_number_comes_next(tmp_path: Path) -> None:
    group, quiet = new_group(), new_group()
    texts = [feed_text(group, codec="binary", heartbeat="20ms"), feed_text(quiet, heartbeat="20ms")]
    with Ear(group) as ear, Ear(quiet) as silent, serving(tmp_path, *texts) as broker:
        client, outlet = broker.client(), broker.outlets[0]
        client.publish(b"orders", b"one")
        begun = outlet.heartbeats
        broker.until(lambda: outlet.heartbeats >= begun + 3)
        client.publish(b"orders", b"two")
        begun = outlet.heartbeats
        broker.until(lambda: outlet.heartbeats > begun)
        packets = decoded("binary", ear.rest())
        assert silent.rest() == [netstring_frame(1, b"one"), netstring_frame(2, b"two")]
        assert broker.outlets[1].heartbeats == 0
    after = [packet.after for packet in packets]
    assert after == sorted(after), "numbers never go back"
    assert numbers(packets) == [1, 2]
    beats = [packet for packet in packets if packet.kind == HEARTBEAT]
    assert {packet.after for packet in beats} >= {2, 3}
    assert all(packet.messages == [] for packet in beats)


def test_given_messages_when_looked_at_then_a_heartbeat_comes_only_after_a_silence(
    tmp_path: Path,
) -> None:
    group = new_group()
    with Ear(group) as ear, serving(tmp_path, feed_text(group, codec="binary")) as broker:
        client, outlet = broker.client(), broker.outlets[0]
        assert broker.server.feeds._timer is not None
        broker.server.feeds._timer.cancel()  # here the test says what time it is
        assert decoded("binary", ear.rest())[0].kind == HEARTBEAT, "at the start, of a new epoch"
        now = 1e9  # in decades; over a power of two, as 65536, tenths would be rounded otherwise
        kinds = []
        for tenth in range(40):
            if tenth < 10 or tenth == 25:
                client.publish(b"orders", b"x")
            outlet.check(now + tenth / 10, broker.server.last_number)
            kinds.append([packet.kind for packet in decoded("binary", ear.rest())])
    beats = [tenth for tenth, found in enumerate(kinds) if HEARTBEAT in found]
    assert beats == [19, 35], "a second after the last message of each run"


@pytest.mark.parametrize("codec", ["binary", "moldudp64", "netstring-subject"])
def test_given_a_stop_then_the_end_is_announced_three_times_after_all_that_was_accepted(
    tmp_path: Path, codec: str
) -> None:
    group = new_group()
    with Ear(group) as ear, serving(tmp_path, feed_text(group, codec=codec)) as broker:
        client = broker.client()
        client.send(b"PUB orders 3\r\none\r\n" * 200)  # what any kernel holds unread
        client.publish(b"orders", b"last")
        broker.stop()
        packets = decoded(codec, ear.rest())
    data = [packet for packet in packets if packet.kind == DATA]
    ends = [packet for packet in packets if packet.kind == END]
    assert numbers(data) == list(range(1, 202))
    assert packets[-3:] == ends, "nothing comes behind it"
    assert [packet.after for packet in ends] == [202] * 3


def test_given_a_stop_when_the_disk_is_slow_then_the_end_waits_for_what_is_not_safe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group, go_on = new_group(), threading.Event()
    sync = Store.sync

    def slow_sync(store: Store) -> int:
        assert go_on.wait(WAIT_S)
        return sync(store)

    text = feed_text(group, codec="binary")
    flags = {"journal.sync": "always", "limits.drain_timeout": "20s"}
    with Ear(group) as ear, serving(tmp_path, text, flags=flags) as broker:
        client = broker.client()
        monkeypatch.setattr(Store, "sync", slow_sync)
        client.publish(b"orders", b"one")
        broker.server.loop.call_later(0.2, go_on.set)
        broker.stop()
        packets = decoded("binary", ear.rest())
    assert [packet.kind for packet in packets if packet.kind != HEARTBEAT] == [DATA] + [END] * 3
    assert [packet.after for packet in packets if packet.kind == END] == [2] * 3


def test_given_a_disk_that_fails_when_stopped_then_nothing_unsafe_and_no_end_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = new_group()
    flags = {"journal.sync": "always", "limits.drain_timeout": "50ms"}
    text = feed_text(group, codec="binary")
    with Ear(group) as ear, serving(tmp_path, text, flags=flags) as broker:
        client = broker.client()
        client.publish(b"orders", b"one")
        broker.until(lambda: broker.server.plane.sequencer.safe == 1)
        with monkeypatch.context() as patch:
            patch.setattr(Store, "sync", _no_sync)
            client.publish(b"orders", b"two")
            broker.stop()
        packets = decoded("binary", ear.rest())
    assert numbers(packets) == [1]
    assert END not in {packet.kind for packet in packets}


def test_given_a_stop_when_the_end_is_said_then_re_requests_are_still_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = new_group()
    text = feed_text(group, codec="moldudp64", rerequest_port=-1)
    say, close, ends = Outlet.say, Store.close, []
    closed: list[Store] = []
    with Ear(group) as ear, serving(tmp_path, text) as broker:
        broker.client().publish(b"orders", b"one", b"two")
        store = broker.server.journal
        answers: Any = broker.outlets[0].rerequests
        wanted = request(session_name(store.id, store.epoch), 1, 2)

        def ask_at_the_end(outlet: Outlet, what: Any, after: int) -> bool:
            if what == outlet.feed.finish:
                ends.append(asker.send(wanted))
                assert is_readable(answers._socket, WAIT_S), "it is there"
                assert not closed, "it is open until the end is said"
            return say(outlet, what, after)

        def note(store: Store) -> None:
            closed.append(store)
            close(store)

        with asking(broker) as asker:
            monkeypatch.setattr(Outlet, "say", ask_at_the_end)
            monkeypatch.setattr(Store, "close", note)
            broker.stop()
            packets = decoded("moldudp64", [asker.recv(1 << 16) for _ in ends])
        assert [one.kind for one in decoded("moldudp64", ear.rest())][-3:] == [END] * 3
    assert len(ends) == 3
    assert closed == [store]
    assert numbers(packets) == [1, 2] * 3


def test_given_a_message_too_long_and_not_safe_then_no_heartbeat_and_no_end_speaks_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = new_group()
    flags = {"journal.sync": "always", "limits.drain_timeout": "50ms"}
    text = feed_text(group, codec="binary", heartbeat="20ms")
    with Ear(group) as ear, serving(tmp_path, text, flags=flags) as broker:
        client = broker.client()
        with monkeypatch.context() as patch:
            patch.setattr(Store, "sync", _no_sync)
            client.publish(b"orders", b"x" * 70_000)
            broker.run(turns(50))
            broker.stop()
        packets = decoded("binary", ear.rest())
    assert packets
    assert all(packet.kind == HEARTBEAT for packet in packets)
    assert all((packet.previous, packet.after) == (0, 1) for packet in packets)
