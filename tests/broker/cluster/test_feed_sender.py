"""A member's feeds: who sends, and where it begins."""

import socket

from broker.cluster.feed_sender import FeedSender
from sequencer.feed.codecs import codec_named
from sequencer.feed.feed import Feed
from sequencer.journal.record import RecordBatch
from sequencer.replica.view import View
from sequencer.sequencer import Sequencer
from tests.support.receiving import JOURNAL


def records(first: int, last: int) -> bytes:
    batch = RecordBatch(0, 1, False)
    for number in range(first, last + 1):
        batch.append_message(number, 0, b"orders", b"", b"", b"%d" % number)
    return bytes(batch.view())


def test_given_a_reign_then_what_is_delivered_in_it_is_sent_and_nothing_else() -> None:
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with near, far:
        far.setblocking(False)
        codec, sequencer = codec_named("binary"), Sequencer()
        codec.open(JOURNAL, 1)
        feed = Feed(codec, near, datagram_max=1000, packing=1000, segment=False)
        sequencer.feeds.append(feed)
        sender = FeedSender(sequencer, lambda stream: None)

        def deliver(first: int, last: int, until: int) -> None:
            sequencer.skip_to(until)
            sender.send(records(first, last))

        deliver(1, 3, 3)
        sender.set_role(True)
        deliver(4, 9, 6)
        sender.set_role(False)
        deliver(7, 8, 8)
        sender.set_role(True)
        deliver(9, 9, 9)
        packets = [codec.decode(far.recv(2000)) for _ in range(2)]
    heard = [(one.previous, [found.number for found in one.messages]) for one in packets]
    assert heard == [(3, [4, 5, 6]), (8, [9])]
    assert feed.sent.datagrams == 2


def test_given_another_stream_in_a_later_view_then_it_begins_before_anything_is_sent() -> None:
    begun: list[tuple[int, bool]] = []
    sender = FeedSender(Sequencer(), lambda stream: begun.append((stream, sender.coordinates)))
    view = View("aa", 1, "one", 1, ("one",), 1, stream=4)
    sender.set_role(False, view)
    sender.set_role(False, view._replace(epoch=2))
    sender.set_role(False)
    sender.set_role(True, view._replace(epoch=3, stream=5))
    assert begun == [(4, False), (5, False)]
