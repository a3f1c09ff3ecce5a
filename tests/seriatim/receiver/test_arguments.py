"""The arguments of a receiver: names of codecs, and invalid values, reported before it begins."""

import asyncio
from typing import Any

import pytest

from sequencer.feed.moldudp64 import MoldUDP64Codec
from seriatim.receiver import FeedMessage, Group, GroupError, Receiver, ReceiverError, codec_named
from seriatim.receiver.filler import Filler, JournalHead
from tests.support.codecs import Closed, Nothing
from tests.support.multicast import mouth, new_group
from tests.support.receiving import JOURNAL, message_of

GROUP = Group("239.0.0.1", 4666)
TEST_S = 60.0


@pytest.mark.parametrize("name", ["netstring", "netstring-subject", "binary", "moldudp64"])
def test_given_the_name_of_a_codec_then_it_is_that_codec(name: str) -> None:
    async def listen() -> None:
        address = new_group()
        codec = codec_named(name)
        codec.open(JOURNAL, 1)
        group = Group(*address, interface="127.0.0.1")
        async with Receiver([group], codec=name) as receiver:
            with mouth(address) as speaker:
                speaker.send(codec.datagram([message_of(5)], 4))
            async with asyncio.timeout(TEST_S):
                event = await anext(receiver)
        assert isinstance(event, FeedMessage)
        assert event.number == 5

    asyncio.run(listen())


def test_given_a_filter_then_a_codec_by_its_name_knows_of_it() -> None:
    for subject, filtered in (("a.>", True), (">", False)):
        codec = Receiver([GROUP], codec="moldudp64", subject=subject).codec
        assert isinstance(codec, MoldUDP64Codec)
        assert codec.filtered == filtered
    named = Receiver([GROUP], codec="tests.support.codecs:Nothing").codec
    assert isinstance(named, Nothing)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"codec": "morse"}, "'morse' is not a codec; give netstring, "),
        ({"codec": "tests.support.codecs:Morse"}, "'tests.support.codecs:Morse': AttributeError"),
        ({"codec": 5}, "5 is not a codec; give one's name, or an object of its class"),
        ({"codec": Nothing}, "is not a codec; give one's name, or an object of its class"),
        (
            {"fill": 3},
            "3 is not a valid fill; give nats://HOST:PORT, mold://HOST:PORT, or None",
        ),
        ({"start": True}, "True is not a valid start"),
        ({"start": "1"}, "'1' is not a valid start"),
        (
            {"start": 2**63 - 1},
            "is not a valid start; give a number from 1 to 9223372036854775806, or",
        ),
        ({"start": 2**63}, "is not a valid start"),
        ({"subject": None}, "None is not a valid subject"),
        ({"patience": -1}, "patience is -1; give seconds, 0 or more"),
        ({"patience": "5 ms"}, "patience is '5 ms'; give seconds"),
        ({"answer": None}, "answer is None; give seconds"),
        ({"away": float("nan")}, "away is nan; give seconds"),
        ({"idle": 0}, "idle is 0; give seconds, more than 0"),
        ({"tries": 1.5}, "tries is 1.5; give a whole number"),
        ({"tries": 2**31}, "tries is 2147483648; give a whole number, 0 to 2147483647"),
        ({"held_bytes": 2**63}, "held_bytes is 9223372036854775808; give a whole number"),
        ({"pending_bytes": "1 MiB"}, "pending_bytes is '1 MiB'; give a whole number"),
        ({"feeds": GROUP}, r"feeds must be a list of groups, even of a single one: give \[group\]"),
        ({"feeds": "239.0.0.1:4666"}, "'239.0.0.1:4666' is not a list of groups"),
        ({"feeds": [("239.0.0.1", 4666)]}, "is not a list of groups"),
        ({"feeds": None}, "None is not a list of groups"),
    ],
)
def test_given_an_argument_that_cannot_be_then_it_is_refused(
    arguments: dict[str, Any], why: str
) -> None:
    with pytest.raises(ReceiverError, match=why):
        Receiver(**{"feeds": [GROUP], **arguments})


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("239.0.0.1", "4666"), "a group's port must be a number, not '4666'"),
        (("239.0.0.1", True), "a group's port must be a number, not True"),
        (("239.0.0.1", 4666.0), "a group's port must be a number, not 4666.0"),
        ((4009754625, 4666), "a group's group must be a string, not 4009754625"),
        (("239.0.0.1", 4666, None), "a group's interface must be a string, not None"),
        (("239.0.0.1", 4666, "", "4 MiB"), "a group's buffer_bytes must be a number, not"),
        (("239.0.0.1", 4666, "", 0), "buffer_bytes is 0; give 1 to 2147483647"),
        (("239.0.0.1", 4666, "", 2**31), "buffer_bytes is 2147483648; give 1 to 2147483647"),
    ],
)
def test_given_a_group_of_wrong_types_then_it_is_refused(
    arguments: tuple[Any, ...], why: str
) -> None:
    with pytest.raises(GroupError, match=why):
        Group(*arguments)


class Knowing(Filler):
    """Somebody who knows what there is, and has nothing to tell of it."""

    def __init__(self, silent: int = 0) -> None:
        super().__init__()
        self.silent = silent  # so often there is no answer at first
        self.asked_twice = asyncio.Event()

    async def head(self) -> JournalHead | None:
        self.silent -= 1
        if self.silent == -2:
            self.asked_twice.set()
        return None if self.silent >= 0 else JournalHead(JOURNAL, 1, 0)

    def room(self) -> int:
        return 0


def test_given_a_codec_that_cannot_be_opened_then_the_receiver_does_not_begin() -> None:
    async def listen() -> None:
        group = Group(*new_group(), interface="127.0.0.1")
        with pytest.raises(ReceiverError, match="the codec's open failed: ValueError: no such str"):
            async with Receiver([group], codec=Closed(), fill=Knowing()):
                pass

    asyncio.run(listen())


def test_given_a_codec_that_cannot_be_opened_for_the_next_stream_then_it_is_reported() -> None:
    async def listen() -> None:
        group = Group(*new_group(), interface="127.0.0.1")
        filler = Knowing(silent=1)
        async with Receiver([group], codec=Closed(), fill=filler, idle=0.01) as receiver:
            assert receiver.troubles == []
            async with asyncio.timeout(TEST_S):
                await filler.asked_twice.wait()
                await asyncio.sleep(0)
            assert receiver.troubles == ["the codec's open failed: ValueError: no such stream"]

    asyncio.run(listen())
