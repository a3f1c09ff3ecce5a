"""A feed: which datagram has what, what waits until it is safe, and what a failed send costs."""

import errno
import signal
import socket
import time
from itertools import pairwise

import pytest

from sequencer.feed.feed import Feed
from sequencer.feed.feed_codec import Codec
from sequencer.feed.feed_message import FeedMessage
from sequencer.feed.netstrings import NetstringCodec, NetstringSubjectCodec
from sequencer.netstring import encode_frame
from tests.sequencer.feed.test_codec import batch_of
from tests.support.multicast import Ear, mouth, new_group

SEGMENT = pytest.mark.parametrize("segment", [True, False], ids=["segmented", "one by one"])
ALL = 2**63 - 1


def messages(first: int, sizes: list[int], subject: bytes = b"a.b") -> list[FeedMessage]:
    return [
        FeedMessage(first + at, bytes([65 + (first + at) % 26]) * size, subject)
        for at, size in enumerate(sizes)
    ]


def frames(sent: list[FeedMessage]) -> list[bytes]:
    return [encode_frame(one.number, one.payload) for one in sent]


def give(feed: Feed, sent: list[FeedMessage]) -> None:
    batch = batch_of(*sent)
    feed.add_records(bytearray(batch.view()), batch.end)


@SEGMENT
@pytest.mark.parametrize(
    "sizes",
    [
        [128] * 300,
        [0],
        [0] * 200,
        [9, 9, 9, 5, 9, 9, 20, 1, 1],
        [1400] * 100,
        [60_000, 60_000, 3, 65_480, 3],
        list(range(1, 150)),
        [*range(150, 1, -1)],
        [7] * 64 + [8] * 65 + [7] * 63,
    ],
    ids=lambda sizes: f"{len(sizes)} from {sizes[0]}",
)
def test_given_messages_of_any_sizes_then_each_is_a_datagram_in_order(
    sizes: list[int], segment: bool
) -> None:
    group = new_group()
    with Ear(group, 16 << 20) as ear, mouth(group) as speaker:
        feed = Feed(NetstringCodec(), speaker, datagram_max=65507, segment=segment)
        sent = messages(9_990, sizes)
        for start in range(0, len(sent), 100):  # or they would not fit into the ear's buffer
            part = sent[start : start + 100]
            give(feed, part)
            assert feed.flush(ALL) == len(part)
            assert ear.take(len(part)) == frames(part)
        assert ear.rest() == []
        assert (feed.messages, feed.sent.datagrams) == (len(sizes), len(sizes))
        assert feed.sent.bytes == sum(map(len, frames(sent)))
        assert (feed.sent.errors, feed.too_long, feed.previous) == (0, 0, sent[-1].number)


@SEGMENT
def test_given_packing_then_datagrams_are_filled_and_no_fuller(segment: bool) -> None:
    group = new_group()
    with Ear(group) as ear, mouth(group) as speaker:
        feed = Feed(NetstringCodec(), speaker, datagram_max=65507, packing=500, segment=segment)
        sent = messages(1, [100] * 20 + [600] + [10] * 5 + [480] * 2)
        give(feed, sent)
        feed.flush(ALL)
        found = ear.rest()
        assert b"".join(found) == b"".join(frames(sent))
        assert max(map(len, found)) == len(frames(sent)[20]), "it is alone, for it fits nowhere"
        for one, following in pairwise(found):
            head = following[: following.index(b":")]
            assert len(one) + len(head) + 2 + int(head) > 500, "the next one did not fit"
        give(feed, sent[:1])
        give(feed, sent[1:2])
        assert feed.flush(ALL) == 2, "what comes together is packed, and nothing waits for more"


def test_given_a_datagram_half_built_when_the_store_grows_then_nothing_of_it_is_lost() -> None:
    group = new_group()
    with Ear(group) as ear, mouth(group) as speaker:
        feed = Feed(NetstringCodec(), speaker, datagram_max=65507, packing=1472)
        sent = messages(1, [128] * 1500)  # three times what the store holds at first
        give(feed, sent)
        count = feed.flush(ALL)
        assert b"".join(ear.take(count)) == b"".join(frames(sent))


def test_given_a_message_too_long_for_a_datagram_then_it_is_counted_and_spoken_of() -> None:
    group = new_group()
    with Ear(group) as ear, mouth(group) as speaker:
        feed = Feed(NetstringCodec(), speaker, datagram_max=65507)
        sent = messages(1, [5, 65_507, 70_000, 6])
        give(feed, sent)
        feed.flush(ALL)
        assert ear.rest() == [frames(sent)[0], frames(sent)[3]]
        give(feed, messages(5, [80_000]))
        assert (feed.too_long, feed.messages, feed.previous) == (3, 2, 5)


def test_given_a_filter_then_only_what_it_takes_goes_out() -> None:
    group = new_group()
    asked = []

    def matches(subject: bytes) -> bool:
        asked.append(subject)
        return subject.startswith(b"a")

    with Ear(group) as ear, mouth(group) as speaker:
        feed = Feed(NetstringSubjectCodec(), speaker, datagram_max=65507, matches=matches)
        sent = [FeedMessage(n, b"x", (b"a.1", b"b", b"a.2")[n % 3]) for n in range(1, 31)]
        give(feed, sent)
        feed.flush(ALL)
        codec = NetstringSubjectCodec()
        heard = [message for one in ear.rest() for message in codec.decode(one).messages]
        assert heard == [one for one in sent if one.subject != b"b"]
        assert (feed.messages, feed.skipped) == (20, 10)
        assert sorted(asked) == [b"a.1", b"a.2", b"b"], "once each"


def test_given_numbers_that_are_not_safe_then_their_datagrams_wait() -> None:
    group = new_group()
    with Ear(group) as ear, mouth(group) as speaker:
        feed = Feed(NetstringCodec(), speaker, datagram_max=65507)
        sent = messages(1, [10, 20, 30, 40, 50, 60])
        give(feed, sent[:3])
        give(feed, sent[3:])
        assert feed.flush(0) == 0
        assert feed.flush(2) == 2
        assert ear.rest() == frames(sent)[:2]
        assert not feed.heartbeat(3), "there is more to say than that"
        assert feed.flush(5) == 3
        assert feed.flush(6) == 1
        assert feed.flush(6) == 0
        assert ear.rest() == frames(sent)[2:]


def test_given_more_than_may_wait_then_the_newest_are_given_up_and_counted() -> None:
    group = new_group()
    with Ear(group) as ear, mouth(group) as speaker:
        feed = Feed(NetstringCodec(), speaker, datagram_max=65507, pending_max=1000)
        sent = messages(1, [90] * 30)
        give(feed, sent)
        assert feed.flush(30) == 9
        assert ear.rest() == frames(sent)[:9]
        assert (feed.sent.errors, feed.sent.error) == (21, errno.ENOBUFS)
        give(feed, messages(31, [5]))
        assert feed.flush(31) == 1, "and it goes on"


class Mute(Codec):
    """A user's codec that says nothing at all."""

    def encode(self, message: FeedMessage) -> bytes:
        return b""


def test_given_empty_datagrams_when_too_many_wait_then_the_newest_are_given_up_and_counted() -> (
    None
):
    group = new_group()
    with Ear(group) as ear, mouth(group) as speaker:
        feed = Feed(Mute(), speaker, datagram_max=65507, pending_max=1600)
        for one in messages(1, [9] * 130):
            give(feed, [one])
        assert (feed.sent.errors, feed.sent.error) == (30, errno.ENOBUFS)
        assert feed.flush(130) == 100
        assert ear.rest() == [b""] * 100
        give(feed, messages(131, [9]))
        assert feed.flush(131) == 1, "and it goes on"


def test_given_a_backlog_of_many_datagrams_then_its_places_are_given_back() -> None:
    with mouth(new_group()) as speaker:
        feed = Feed(Mute(), speaker, datagram_max=65507)
        batch = batch_of(*messages(1, [9]))
        store = bytearray(batch.view())
        for _ in range(2):  # they can be had again
            for _ in range(70_000):
                feed.add_records(store, batch.end)
            assert feed.sent.count == 70_000
            assert feed.flush(ALL) == 70_000
            assert feed.sent.count == feed.sent.errors == 0


def test_given_a_backlog_of_megabytes_then_all_of_it_is_sent_when_it_is_safe() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours, theirs:
        theirs.settimeout(10)
        ours.settimeout(0.0)
        feed = Feed(NetstringCodec(), ours, datagram_max=65507, segment=False)
        sent = messages(1, [50_000] * 60)
        for one in sent:
            give(feed, [one])
        for number, frame in enumerate(frames(sent), 1):
            assert feed.flush(number) == 1
            assert theirs.recv(1 << 16) == frame


def test_given_a_socket_that_takes_no_more_then_the_rest_is_given_up_after_a_wait() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours, theirs:
        theirs.settimeout(10)
        ours.settimeout(0.01)
        feed = Feed(NetstringCodec(), ours, datagram_max=65507, segment=False)
        sent = messages(1, [100] * 500)
        give(feed, sent)
        assert feed.flush(ALL) == 500, "nothing waits any more"
        taken = feed.sent.datagrams
        assert 0 < taken < 500
        assert (feed.sent.errors, feed.sent.error) == (500 - taken, errno.EAGAIN)
        assert [theirs.recv(1 << 16) for _ in range(taken)] == frames(sent)[:taken]
        give(feed, messages(501, [7]))
        feed.flush(ALL)
        assert theirs.recv(1 << 16) == encode_frame(501, messages(501, [7])[0].payload)


def test_given_a_signal_while_a_full_socket_is_waited_for_then_the_wait_goes_on() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    try:
        with ours, theirs:
            ours.settimeout(0.03)
            feed = Feed(NetstringCodec(), ours, datagram_max=65507, segment=False)
            give(feed, messages(1, [100] * 500))
            begun = time.monotonic()
            signal.setitimer(signal.ITIMER_REAL, 0.005)
            assert feed.flush(ALL) == 500
            assert time.monotonic() - begun >= 0.03
    finally:
        signal.signal(signal.SIGALRM, before)


def test_given_a_receiver_that_is_gone_then_every_datagram_is_counted_and_none_is_fatal() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours:
        ours.settimeout(0.01)
        theirs.close()
        feed = Feed(NetstringCodec(), ours, datagram_max=65507, segment=False)
        give(feed, messages(1, [100] * 20))
        assert feed.flush(ALL) == 20
        assert feed.sent.errors == 20
        assert feed.sent.error in (errno.ECONNREFUSED, errno.ENOTCONN)
        assert feed.sent.datagrams == feed.sent.bytes == 0


@SEGMENT
def test_given_a_heartbeat_and_an_end_then_they_are_datagrams_of_their_own(segment: bool) -> None:
    group = new_group()
    with Ear(group) as ear, mouth(group) as speaker:
        codec = NetstringSubjectCodec()
        feed = Feed(codec, speaker, datagram_max=65507, segment=segment)
        assert feed.heartbeat(5)
        assert feed.finish(5)
        assert ear.rest() == [codec.heartbeat(0, 5), codec.end(0, 5)]
        plain = Feed(NetstringCodec(), speaker, datagram_max=65507, segment=segment)
        assert not plain.heartbeat(5)
        assert not plain.finish(5)
        assert ear.rest() == []
