"""A codec of a user's own, in plain Python, from the first record to what a receiver decodes."""

import struct
from typing import Any

import pytest

from sequencer.feed.errors import CodecError
from sequencer.feed.feed import Feed
from sequencer.feed.feed_codec import DATA, END, HEARTBEAT, Codec, Packet
from sequencer.feed.feed_message import FeedMessage
from sequencer.journal.record import RecordBatch
from tests.support.multicast import Ear, mouth, new_group

HEAD = struct.Struct(">4sQQHI")  # journal's first digits, previous, after, count, epoch


class Lines(Codec):
    """A head, then a line a message; headers and time too."""

    def __init__(self) -> None:
        super().__init__(head_size=HEAD.size)

    def encode(self, message: FeedMessage) -> bytes:
        words = b"%d %d %b" % (message.number, message.time, message.subject)
        return b"%b|%b|%b\n" % (words, message.headers.hex().encode(), message.payload)

    def head(self, previous: int, first: int, last: int, count: int) -> bytes:
        assert previous < first <= last
        return HEAD.pack(self.journal[:4].encode(), previous, last + 1, count, self.epoch)

    def decode(self, datagram: bytes) -> Packet:
        journal, previous, after, count, epoch = HEAD.unpack_from(datagram)
        session = b"%b/%d" % (journal, epoch)
        messages = []
        for line in datagram[HEAD.size :].splitlines():
            words, headers, payload = line.split(b"|")
            number, time, subject = words.split(b" ")
            fields = (payload, subject, bytes.fromhex(headers.decode()), int(time))
            messages.append(FeedMessage(int(number), *fields))
        if len(messages) != count:
            raise CodecError(HEAD.size, f"{count} messages were said")
        return Packet(DATA if count else HEARTBEAT, messages, previous, after, session)

    def heartbeat(self, previous: int, after: int) -> bytes:
        return HEAD.pack(self.journal[:4].encode(), previous, after, 0, self.epoch)


def batch_of(*messages: FeedMessage) -> RecordBatch:
    batch = RecordBatch(0, 1, False)
    for one in messages:
        batch.append_message(one.number, one.time, one.subject, b"", one.headers, one.payload)
    return batch


def test_given_a_codec_of_ones_own_then_a_feed_speaks_it_and_a_receiver_reads_it() -> None:
    codec = Lines()
    codec.open("cafe0123456789ab", 7)
    sent = [
        FeedMessage(11, b"one", b"a.b", b"", 5),
        FeedMessage(12, b"", b"c", b"NATS/1.0\r\nA: b\r\n\r\n", 6),
        FeedMessage(13, b"three", b"a.b", b"", 7),
    ]
    group = new_group()
    with Ear(group) as ear, mouth(group) as socket:
        feed = Feed(codec, socket, datagram_max=65507, packing=1472, previous=10)
        batch = batch_of(*sent)
        feed.add_records(bytearray(batch.view()), batch.end)
        feed.flush(13)
        assert feed.heartbeat(14)
        data, beat = (codec.decode(datagram) for datagram in ear.take(2))
        assert not feed.finish(14), "it has no way to say the end"
    assert data.messages == sent
    assert (data.kind, data.previous, data.after, data.session) == (DATA, 10, 14, b"cafe/7")
    assert (beat.kind, beat.previous, beat.after, beat.messages) == (HEARTBEAT, 13, 14, [])


def test_given_the_messages_of_a_packet_when_shown_then_all_of_them_is_there() -> None:
    message = FeedMessage(1, b"x", b"a", b"h", 5)
    assert repr(message) == "FeedMessage(1, b'x', b'a', b'h', 5)"
    assert hash(message) == hash(FeedMessage(1, b"x", b"a", b"h", 5))
    assert message != FeedMessage(1, b"x", b"a", b"h", 6)
    assert message != 1
    assert repr(Packet(END, [message], 0, 2, b"s")) == f"Packet(END, [{message!r}], 0, 2, b's')"


def test_given_a_codec_without_its_methods_then_it_says_which_is_missing() -> None:
    class Nothing(Codec):
        """No method at all."""

    with pytest.raises(NotImplementedError, match=r"Nothing has no encode\(message\)"):
        Nothing().datagram([FeedMessage(1, b"")], 0)
    with pytest.raises(NotImplementedError, match=r"Nothing has no decode\(datagram\)"):
        Nothing().decode(b"x")


def test_given_parts_that_are_no_bytes_then_they_are_counted_and_the_others_go_out() -> None:
    class Texts(Codec):
        """One message of its is text."""

        def encode(self, message: FeedMessage) -> bytes:
            text: Any = message.payload.decode()
            return text if message.number == 2 else message.payload

    group = new_group()
    with Ear(group) as ear, mouth(group) as socket:
        feed = Feed(Texts(), socket, datagram_max=65507)
        batch = batch_of(FeedMessage(1, b"one"), FeedMessage(2, b"two"), FeedMessage(3, b"three"))
        feed.add_records(bytearray(batch.view()), batch.end)
        feed.flush(3)
        assert ear.rest() == [b"one", b"three"]
    assert (feed.messages, feed.broken, feed.previous) == (2, 1, 3)
    assert feed.fault.startswith("TypeError")


@pytest.mark.parametrize("sizes", [(-1, 0), (0, -1)], ids=["head", "skip"])
def test_given_a_size_below_0_then_the_codec_cannot_be_made(sizes: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="must be 0 or more"):
        Codec(*sizes)


def test_given_a_head_of_another_size_than_was_said_then_it_is_refused() -> None:
    class Long(Lines):
        """Its head is longer than it says."""

        def head(self, previous: int, first: int, last: int, count: int) -> bytes:
            return b"x" * (HEAD.size + 1)

    with pytest.raises(CodecError, match=f"the head has {HEAD.size + 1} bytes; head_size is"):
        Long().datagram([FeedMessage(1, b"")], 0)
