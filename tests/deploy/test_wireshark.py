"""tshark reads our feeds: with our dissector in Lua, and MoldUDP64 with its own."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sequencer.feed.binary import BinaryCodec
from sequencer.feed.feed import Feed
from sequencer.feed.feed_codec import Codec
from sequencer.feed.feed_message import FeedMessage
from sequencer.feed.moldudp64 import MoldUDP64Codec, request
from sequencer.feed.netstrings import NetstringCodec, NetstringSubjectCodec
from sequencer.feed.rerequest import Rerequests
from sequencer.journal.ring import Ring
from tests.sequencer.feed.test_codec import batch_of
from tests.support.capture import captured, dissect, require_tshark
from tests.support.multicast import mouth, new_group
from tests.support.places import ROOT
from tests.support.stores import give

LUA = ("-X", f"lua_script:{ROOT / 'deploy' / 'wireshark' / 'seriatim.lua'}")
JOURNAL = "00c0ffee00c0ffee"
ALL = 2**63 - 1
TIME = 1_700_000_000_123_456_789
HEADERS = b"NATS/1.0\r\nA: b\r\n\r\n"
MESSAGES = [
    FeedMessage(88_484, b"hello world", b"orders.eu", b"", TIME),
    FeedMessage(88_485, b"", b"a", HEADERS, TIME),
    FeedMessage(88_486, b"\0,\xff:9", b"orders.us", b"", TIME),
]
NUMBERS = ["88484", "88485", "88486"]
PAYLOADS = ["68:65:6c:6c:6f:20:77:6f:72:6c:64", "", "00:2c:ff:3a:39"]


@pytest.fixture(scope="module", autouse=True)
def tshark() -> None:
    require_tshark()


class Speaker:
    """Feeds on loopback, one after the other on a port of its own, for one capture."""

    def __init__(self) -> None:
        self.groups: list[tuple[str, int]] = []
        self.sockets: list[socket.socket] = []

    def feed(self, codec: Codec, **how: Any) -> Feed:
        codec.open(JOURNAL, 3)
        self.groups.append(new_group())
        self.sockets.append(mouth(self.groups[-1]))
        previous = MESSAGES[0].number - 1
        # A run of datagrams that the system is to cut up shows as one where it is captured.
        return Feed(
            codec,
            self.sockets[-1],
            datagram_max=65_507,
            segment=False,
            previous=previous,
            **how,
        )

    def close(self) -> None:
        for one in self.sockets:
            one.close()


@pytest.fixture
def speaker() -> Iterator[Speaker]:
    made = Speaker()
    yield made
    made.close()


def say(feed: Feed, packed: bool = False) -> None:
    """The three messages, each alone or in one datagram."""
    for part in [MESSAGES] if packed else [[one] for one in MESSAGES]:
        batch = batch_of(*part)
        feed.add_records(bytearray(batch.view()), batch.end)
    feed.flush(ALL)


def to(*groups: tuple[str, int]) -> str:
    """A capture filter: by the group, too, for tests beside this one may have its port."""
    return " or ".join(f"(dst host {host} and udp dst port {port})" for host, port in groups)


def test_given_a_feed_of_frames_when_captured_then_the_dissector_shows_each_message(
    speaker: Speaker, tmp_path: Path
) -> None:
    feed = speaker.feed(NetstringCodec(), packing=1472)
    (port,) = [port for _, port in speaker.groups]
    file = tmp_path / "feed.pcapng"
    with captured(file, 4, to(*speaker.groups)):
        say(feed)
        say(feed, packed=True)
    found = dissect(file, *LUA, "-o", f"seriatim.ports:{port}")
    assert [one["seriatim.number"] for one in found] == [*([n] for n in NUMBERS), NUMBERS]
    assert [one["seriatim.payload"] for one in found] == [*([n] for n in PAYLOADS), PAYLOADS]
    assert found[3]["seriatim.length"] == ["23", "11", "16"]
    assert not any("seriatim.malformed" in one or "seriatim.subject" in one for one in found)
    by_hand = dissect(file, *LUA, "-d", f"udp.port=={port},seriatim", show="seriatim.number==88485")
    assert [one["frame.number"] for one in by_hand] == [["2"], ["4"]]
    guessed = dissect(file, *LUA)
    assert [one["seriatim.number"] for one in guessed] == [one["seriatim.number"] for one in found]


def test_given_a_feed_with_subjects_when_captured_then_they_are_shown_and_what_comes_next(
    speaker: Speaker, tmp_path: Path
) -> None:
    feed = speaker.feed(NetstringSubjectCodec(), packing=1472)
    file = tmp_path / "feed.pcapng"
    with captured(file, 3, to(*speaker.groups)):
        say(feed, packed=True)
        assert feed.heartbeat(88_487)
        assert feed.finish(88_487)
    data, beat, end = dissect(file, *LUA, "-o", f"seriatim.ports:{speaker.groups[0][1]}")
    assert data["seriatim.number"] == NUMBERS
    assert data["seriatim.payload"] == PAYLOADS
    assert data["seriatim.subject"] == ["orders.eu", "a", "orders.us"]
    assert data["seriatim.kind"] == ["0", "0", "0"]
    for one, kind in ((beat, "1"), (end, "2")):
        assert (one["seriatim.next"], one["seriatim.kind"]) == (["88487"], [kind])
        assert "seriatim.number" not in one


def test_given_a_binary_feed_when_captured_then_all_of_a_message_is_shown(
    speaker: Speaker, tmp_path: Path
) -> None:
    feed = speaker.feed(BinaryCodec(), packing=1472)
    file = tmp_path / "feed.pcapng"
    with captured(file, 3, to(*speaker.groups)):
        say(feed, packed=True)
        assert feed.heartbeat(88_490)
        assert feed.finish(88_490)
    found = dissect(file, *LUA, "-o", f"seriatim.ports:{speaker.groups[0][1]}")
    data = found[0]
    assert data["seriatim.number"] == NUMBERS
    assert data["seriatim.payload"] == PAYLOADS
    assert data["seriatim.subject"] == ["orders.eu", "a", "orders.us"]
    assert data["seriatim.headers"] == ["", HEADERS.decode(), ""]
    assert data["seriatim.time"] == ["Nov 14, 2023 22:13:20.123456789 UTC"] * 3
    assert data["seriatim.count"] == ["3"]
    assert [one["seriatim.kind"] for one in found] == [["0"], ["1"], ["2"]]
    assert [one["seriatim.previous"] for one in found] == [["88483"], ["88486"], ["88486"]]
    assert [one["seriatim.next"] for one in found] == [["88487"], ["88490"], ["88490"]]
    for one in found:
        assert one["seriatim.journal"] == ["0x00c0ffee00c0ffee"]
        assert one["seriatim.epoch"] == ["3"]
        assert "seriatim.malformed" not in one


WRONG = {
    b"23:5:88485,11:hello world,": "at byte 0: the netstring ends 1 bytes later: cut off?",
    b"23:5:88485,11:hello world,,x": "at byte 27: no length where a netstring begins",
    b"023:5:88485,11:hello world,,": "at byte 0: a length begins with 0",
    b"23:5:08485,11:hello world,,": "at byte 5: a number is 1 to 2^63-1, in decimal digits",
    b"14:1:0,5:hello,,": "cut off?",
    b"12:1:0,5:hello,,": "at byte 5: a number is 1 to 2^63-1, in decimal digits",
    b"31:19:9223372036854775808,5:hello,,": "at byte 6: a number is 1 to 2^63-1",
    b"12:1:5,5:hello;,": "no ',' where a netstring ends",
    b"13:1:5,5:hello,x,": "at byte 15: no length where a netstring begins",
    b"21:1:5,5:hello,1:a,2:bc,,": "the frame continues after its last child",
    b"999999:": "cut off?",
    b"9999999:": "longer than a datagram",
    b"20:1:5,1:x,9:$SEQ.NEXT,,": "$SEQ.NEXT is not valid here",
    b"SERI": "at byte 4: the head has 36 bytes: cut off?",
    b"SERI\2" + bytes(31): "an unknown version",
    b"SERI\1\3" + bytes(30): "an unknown kind",
    b"SERI\1\0" + bytes(30): "data must have messages, and other kinds must not",
    b"SERI\1\1" + bytes(30): "next is not a valid number after previous",
    b"SERI\1\0\0\1" + bytes(15) + b"\1" + bytes(7) + b"\2" + bytes(4): "no whole head of a record",
    b"SERI\1\1" + bytes(25) + b"\1" + bytes(5): "at byte 36: bytes after the last record",
    b"SERI\1\0\0\1" + bytes(23) + b"\2" + bytes(5) + b"\0\0\x1a" + bytes(22): "26 bytes: cut off?",
    b"SERI\1\0\0\1" + bytes(23) + b"\2" + bytes(4) + b"\0\0\0\x1b" + bytes(22): "1 bytes later",
    b"SERI\1\0\0\1" + bytes(23) + b"\2" + bytes(4) + b"\0\0\0\x19" + bytes(22): "than what it says",
    b"SERI\1\0\0\1" + bytes(23) + b"\2" + bytes(4) + b"\0\0\0\x1a" + bytes(22): "in order",
}


def test_given_wrong_datagrams_when_captured_then_each_is_malformed_where_we_say_so(
    speaker: Speaker, tmp_path: Path
) -> None:
    speaker.feed(NetstringCodec())
    file = tmp_path / "feed.pcapng"
    with captured(file, len(WRONG), to(*speaker.groups)):
        for datagram in WRONG:
            speaker.sockets[0].send(datagram)
    port = speaker.groups[0][1]
    found = dissect(file, *LUA, "-o", f"seriatim.ports:{port}", show="seriatim.malformed")
    assert len(found) == len(WRONG)
    for (datagram, words), one in zip(WRONG.items(), found, strict=True):
        (said,) = one["_ws.expert.message"]
        assert words in said, datagram
    assert not dissect(file, *LUA, show="seriatim"), "nothing wrong is taken for ours unasked"


def test_given_cquencers_port_when_captured_then_messages_and_their_numbers_are_shown(
    tmp_path: Path,
) -> None:
    said = [
        (b"5:hello,", b"5:88484,"),
        (b"0:,", b"5:88484,"),
        (b"1:a,2:bc,10:cut", b"5:88485,5:88486,"),
        (b" in two,1", b"5:884"),
        (b"0:its length,", b"87,5:88488,"),
        (b"nonsense", b"1:0,"),
    ]
    file = tmp_path / "port.pcapng"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        pushed = f"tcp port {port} and tcp[tcpflags] & tcp-push != 0"
        with (
            socket.create_connection(listener.getsockname()) as client,
            listener.accept()[0] as served,
            captured(file, 2 * len(said), pushed),
        ):
            for there, back in said:
                client.sendall(there)
                assert served.recv(100) == there
                served.sendall(back)
                assert client.recv(100) == back
    found = dissect(file, *LUA, "-o", f"cquencer.ports:{port}")
    messages = [text for one in found for text in one.get("cquencer.message", [])]
    texts = [bytes.fromhex(text.replace(":", "")) for text in messages]
    assert texts == [b"hello", b"a", b"bc", b"cut in two", b"its length"]
    numbers = [number for one in found for number in one.get("cquencer.number", [])]
    assert numbers == ["88484", "88484", "88485", "88486", "88487", "88488", "0"]
    assert [one["frame.number"] for one in found if "cquencer.query" in one] == [["3"]]
    (wrong,) = [one for one in found if "cquencer.malformed" in one]
    assert wrong["_ws.expert.message"] == ["at byte 0: no netstring"]


def test_given_a_moldudp64_feed_when_captured_then_an_independent_dissector_reads_all_of_it(
    speaker: Speaker, tmp_path: Path
) -> None:
    def matches(subject: bytes) -> bool:
        return subject != b"a"

    feed = speaker.feed(MoldUDP64Codec(), packing=1472, matches=matches)
    codec = feed.codec
    assert isinstance(codec, MoldUDP64Codec)
    session = codec.session
    asked = server_of(session, matches)
    (group,) = speaker.groups
    file = tmp_path / "mold.pcapng"
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver,
    ):
        server.bind(("127.0.0.1", 0))
        receiver.bind(("127.0.0.1", 0))
        back = server.getsockname()[1]
        with captured(file, 9, f"{to(group)} or udp port {back}"):
            say(feed)
            say(feed, packed=True)
            assert feed.heartbeat(88_487)
            assert feed.finish(88_487)
            receiver.connect(("127.0.0.1", back))
            receiver.send(request(session, 88_485, 10))
            datagram, peer = server.recvfrom(100)
            search = asked.begin_search(datagram, peer, 0.0, 88_486)
            assert search is not None
            answer = search.run()
            assert answer is not None
            server.sendto(answer, peer)
            server.sendto(request(session, 88_490, 0), peer)  # nothing before it can be had
    options = [f"-dudp.port=={port},moldudp64" for port in (group[1], back)]
    assert dissect(file, *options, show="_ws.malformed or _ws.expert.severity >= 0x600000") == []
    found = dissect(file, *options)
    assert {one["moldudp64.session"][0] for one in found} == {session.decode()}
    heads = [(one["moldudp64.sequence"][0], one["moldudp64.count"][0]) for one in found]
    assert heads == [
        *(("88484", "1"), ("88485", "1"), ("88486", "1"), ("88484", "3")),
        *(("88487", "0"), ("88487", "65535")),
        *(("88485", "10"), ("88485", "2"), ("88490", "0")),
    ]
    packed, answered = found[3], found[7]
    assert packed["moldudp64.msgseq"] == NUMBERS
    assert packed["moldudp64.msglen"] == ["11", "0", "5"]
    assert packed["moldudp64.msgdata"] == PAYLOADS
    assert answered["moldudp64.msgseq"] == ["88485", "88486"]
    assert answered["moldudp64.msglen"] == ["0", "5"]


def server_of(session: bytes, matches: Any) -> Rerequests:
    """Answers from a ring with the three messages, and many before."""
    ring = Ring(64 << 20)
    for start in range(1, MESSAGES[0].number, 1000):
        stop = min(start + 1000, MESSAGES[0].number)
        give(ring, batch_of(*(FeedMessage(number, b"", b"x") for number in range(start, stop))))
    give(ring, batch_of(*MESSAGES))
    limits: dict[str, Any] = {"datagram_bytes": 1472, "datagram_max": 65_507, "rate": 1 << 20}
    return Rerequests(ring, session, total_rate=1 << 20, matches=matches, **limits)
