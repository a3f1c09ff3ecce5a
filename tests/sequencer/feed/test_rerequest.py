"""Re-requests: what is answered from any journal, what is skipped, and what stays unanswered."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sequencer.feed import rerequest
from sequencer.feed.feed_codec import DATA, HEARTBEAT, Packet
from sequencer.feed.feed_message import FeedMessage
from sequencer.feed.moldudp64 import MoldUDP64Codec, request, session_name
from sequencer.feed.rerequest import PEERS_MAX, REQUEST_COST, PeerBuckets, Rerequests
from sequencer.journal.record import RecordBatch
from sequencer.journal.ring import Ring
from sequencer.journal.segment import Segment
from sequencer.journal.store import Store
from sequencer.journal.window_file import FILE
from tests.sequencer.stores import BEGIN
from tests.support.depth import examples
from tests.support.stores import abandon, give, in_memory, open_store, payload_of, put

JOURNAL = "00c0ffee00c0ffee"
SESSION = session_name(JOURNAL, 7)
MIB = 1 << 20
KINDS = pytest.mark.parametrize("kind", ["store", "ring"])
LONG = 300_000  # longer than the buffer
COLD = pytest.mark.parametrize("lengths", [[0], [1], [56], [700, 0, 9]])


@pytest.fixture
def path() -> Iterator[Path]:
    with in_memory() as path:
        yield path / "store"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    opened = open_store(path, segment_bytes=20_000)
    yield opened
    opened.close()


def made(kind: str, store: Store) -> Store | Ring:
    return store if kind == "store" else Ring(MIB)


def server(store: Store | Ring, **how: Any) -> Rerequests:
    given = {"datagram_bytes": 1472, "datagram_max": 65507, "rate": 1 << 30, "total_rate": 1 << 30}
    return Rerequests(store, SESSION, **(given | how))


def answer_to(
    asked: Rerequests, first: int, count: int = 100, session: bytes = SESSION, now: float = 0.0
) -> bytes | None:
    """The datagram that answers a request; None where there is none."""
    datagram = request(session, first, count)
    search = asked.begin_search(datagram, "10.0.0.1", now, asked.journal.last)
    if search is None:
        return None
    while (answer := search.run()) is None:
        search.fetch()
    asked.sent(search, answer, now)
    return answer


def packet(asked: Rerequests, first: int, count: int = 100, filtered: bool = False) -> Packet:
    answer = answer_to(asked, first, count)
    assert answer is not None
    return MoldUDP64Codec(filtered).decode(answer)


def numbers(found: Packet) -> list[int]:
    return [one.number for one in found.messages]


def write(store: Store | Ring, messages: list[FeedMessage]) -> None:
    """Messages of any kind, each in a batch of its own."""
    for one in messages:
        batch = RecordBatch(store.salt, store.epoch)
        fields = (one.subject, b"", one.headers, one.payload)
        batch.append_message(one.number, BEGIN + one.number, *fields)
        give(store, batch)


@KINDS
def test_given_messages_when_asked_for_again_and_again_then_all_come_in_full_datagrams(
    kind: str, store: Store
) -> None:
    source = made(kind, store)
    put(source, 300)
    put(source, 200, size=90)
    asked = server(source)
    wanted, sizes, found = 3, [], []
    while wanted <= 500:
        answer = answer_to(asked, wanted, 0xFFFF)
        assert answer is not None
        sizes.append(len(answer))
        part = MoldUDP64Codec().decode(answer)
        assert (part.kind, part.session, part.previous) == (DATA, SESSION, wanted - 1)
        found += part.messages
        wanted = part.after
    assert found == [
        FeedMessage(number, payload_of(number, 0 if number <= 300 else 90))
        for number in range(3, 501)
    ]
    assert all(1472 - 92 < size <= 1472 for size in sizes[:-1]), "as many as fit"
    assert (asked.requests, asked.answered, asked.messages) == (len(sizes), len(sizes), 498)
    assert asked.bytes == sum(sizes)


@KINDS
@pytest.mark.parametrize(("first", "count"), [(1, 1), (100, 1), (7, 5), (98, 50), (42, 0xFFFF)])
def test_given_a_count_then_no_more_come_nor_what_is_not_there_yet(
    kind: str, store: Store, first: int, count: int
) -> None:
    source = made(kind, store)
    put(source, 100)
    found = packet(server(source, datagram_bytes=9000), first, count)
    assert numbers(found) == list(range(first, min(first + count, 101)))


def test_given_messages_longer_than_what_packing_fills_then_each_comes_alone(store: Store) -> None:
    write(store, [FeedMessage(at, bytes(size)) for at, size in enumerate([9, 5000, 65_485, 9], 1)])
    asked = server(store)
    assert [numbers(packet(asked, first)) for first in range(1, 5)] == [[1], [2], [3], [4]]


@KINDS
@pytest.mark.parametrize("size", [65_486, 70_000, LONG])
@pytest.mark.parametrize("matches", [None, lambda subject: True], ids=["all", "filter"])
def test_given_messages_too_long_for_a_datagram_then_the_answer_begins_after_them(
    kind: str, store: Store, size: int, matches: Callable[[bytes], bool] | None
) -> None:
    source = Ring(8 * MIB) if kind == "ring" else store
    sizes = [5, 5, size, size, 5, 5, size]
    write(source, [FeedMessage(at, bytes(one), b"a") for at, one in enumerate(sizes, 1)])
    asked = server(source, matches=matches)
    assert numbers(packet(asked, 1)) == [1, 2]
    for first in (3, 4):
        found = packet(asked, first)
        assert (found.previous, numbers(found)) == (4, [5, 6]), "3 and 4 cannot be had here"
    assert numbers(packet(asked, 6)) == [6]
    last = packet(asked, 7)
    assert (last.kind, last.after, last.messages) == (HEARTBEAT, 8, [])


@KINDS
@pytest.mark.parametrize("size", [0, 100, LONG])
def test_given_a_filter_then_what_it_leaves_out_is_a_block_of_length_0(
    kind: str, store: Store, size: int
) -> None:
    source = Ring(8 * MIB) if kind == "ring" else store
    messages = [FeedMessage(at, b"x", b"in") for at in range(1, 10)]
    messages[3] = FeedMessage(4, bytes(size), b"out")
    messages[4] = FeedMessage(5, b"", b"in")
    write(source, messages)
    asked = server(source, matches=lambda subject: subject == b"in")
    for first in (1, 3, 4):
        found = packet(asked, first, filtered=True)
        assert (found.previous, found.after) == (first - 1, 10)
        assert numbers(found) == [at for at in range(first, 10) if at not in (4, 5)]
    found = packet(asked, 4, count=2, filtered=True)
    assert (found.kind, found.previous, found.after, found.messages) == (DATA, 3, 6, [])


def test_given_messages_that_are_not_retained_then_the_answer_begins_with_the_first_that_is(
    store: Store,
) -> None:
    for _ in range(20):
        put(store, size=9000)
    store.retain_count = 5
    store.retain(0)
    assert 10 < store.first < 17
    found = packet(server(store, datagram_bytes=65_507), 2, count=3)
    assert (found.previous, numbers(found)) == (
        store.first - 1,
        list(range(store.first, store.first + 3)),
    )


def test_given_a_ring_that_has_forgotten_then_the_answer_begins_with_what_it_has() -> None:
    ring = Ring(MIB)
    for _ in range(200):
        put(ring, size=9000)
    assert ring.first > 1
    assert packet(server(ring), 1).previous == ring.first - 1


def test_given_a_segment_that_is_deleted_while_it_is_searched_then_its_end_is_read(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, 30, size=900)
    for _ in range(3):
        put(store, 30, size=900)
    asked = server(store, datagram_bytes=65_507)
    chill(monkeypatch, [0])
    search = asked.begin_search(request(SESSION, 1, 100), "peer", 0.0, store.last)
    assert search is not None
    assert search.run() is None
    store.retain_count = 1
    store.retain(0)
    assert store.first > 30
    search.fetch()
    while (answer := search.run()) is None:
        search.fetch()
    found = MoldUDP64Codec().decode(answer)
    assert found.previous == 0
    assert numbers(found) == list(range(1, found.after)), "it was held: all of it is there"
    assert found.after - 1 < store.first


def spoil(store: Store, spoiled: set[int], at: int = 60) -> None:
    """Flip a bit of these records on the disk; the window has them no more."""
    store.sync()
    store._window.finish()
    for piece in store.segments():
        piece.leave_window()
        data = bytearray(Path(piece.file).read_bytes())
        good = bytes(data)
        offset = piece.start
        while offset < piece.size:
            if int.from_bytes(good[offset + 8 : offset + 16], "little") in spoiled:
                data[offset + at] ^= 1
            offset += (int.from_bytes(good[offset + 4 : offset + 8], "little") + 7) & ~7
        with open(piece.file, "r+b") as file:
            os.pwrite(file.fileno(), data, 0)


@pytest.mark.parametrize("at", [0, 4, 5, 8, 60])
def test_given_damage_then_the_answer_ends_before_it_or_begins_after_it(
    store: Store, at: int
) -> None:
    put(store, 50)
    spoil(store, {10, 11, 20, 50}, at)
    asked = server(store)
    for _ in range(2):  # the second time it knows where damage ends
        assert numbers(packet(asked, 5)) == [5, 6, 7, 8, 9]
        for first in (10, 11):
            found = packet(asked, first)
            assert (found.previous, numbers(found)) == (11, list(range(12, 20)))
        assert numbers(packet(asked, 15, count=3)) == [15, 16, 17]
        assert numbers(packet(asked, 20)) == list(range(21, 50))
        last = packet(asked, 50)
        assert (last.kind, last.after) == (HEARTBEAT, 51)


def test_given_damage_up_to_the_end_of_a_segment_then_the_next_one_is_gone_on_with(
    store: Store,
) -> None:
    put(store, 3)
    store.roll(0)
    put(store, 3)
    spoil(store, {3})
    for _ in range(2):
        assert packet(server(store), 3).previous == 3


def test_given_much_that_cannot_be_used_then_one_request_walks_so_far_and_the_next_goes_on(
    path: Path,
) -> None:
    store = open_store(path)
    write(store, [FeedMessage(at, bytes(70_000), b"a") for at in range(1, 41)])
    write(store, [FeedMessage(41, b"x", b"a")])
    asked = server(store)
    wanted, answers = 1, 0
    while (found := packet(asked, wanted)).kind == HEARTBEAT:
        assert wanted + 10 < found.after <= 41
        wanted, answers = found.after, answers + 1
    assert answers == 2
    assert (found.previous, numbers(found)) == (40, [41])
    store.close()


@KINDS
def test_given_what_is_not_given_or_not_safe_yet_then_nobody_is_informed(
    kind: str, store: Store
) -> None:
    source = made(kind, store)
    put(source, 10)
    asked = server(source)
    assert asked.begin_search(request(SESSION, 11, 1), "peer", 0.0, 10) is None
    assert asked.begin_search(request(SESSION, 9, 1), "peer", 0.0, 8) is None, (
        "written, and not safe"
    )
    assert asked.ahead == 2
    search = asked.begin_search(request(SESSION, 7, 5), "peer", 0.0, 8)
    assert search is not None
    answer = search.run()
    assert answer is not None
    assert numbers(MoldUDP64Codec().decode(answer)) == [7, 8]


def test_given_an_empty_store_that_begins_later_then_what_was_before_is_lost(path: Path) -> None:
    store = open_store(path)
    put(store, 5)
    store.roll(0)
    store.retain_age_ns = 1
    store.retain(1 << 62)
    assert store.first == 6
    found = packet(server(store), 3)
    assert (found.kind, found.after) == (HEARTBEAT, 6)
    store.close()


def test_given_a_session_of_another_epoch_then_it_is_answered_under_its_own_name(
    store: Store,
) -> None:
    put(store, 3)
    asked = server(store)
    for epoch in (1, 6, 8):
        name = session_name(JOURNAL, epoch)
        answer = answer_to(asked, 1, session=name)
        assert answer is not None
        found = MoldUDP64Codec().decode(answer)
        assert (found.session, numbers(found)) == (name, [1, 2, 3])
    assert answer_to(asked, 1, session=session_name("00c0ffee00c0ffef", 7)) is None
    assert answer_to(asked, 1, session=b" " * 10) is None
    assert (asked.answered, asked.unknown_session) == (3, 2)


@pytest.mark.parametrize("datagram", [b"", b"x" * 19, b"x" * 21, SESSION + bytes(10)])
def test_given_input_that_is_no_request_then_it_is_counted(store: Store, datagram: bytes) -> None:
    put(store)
    asked = server(store)
    assert asked.begin_search(datagram, "peer", 0.0, 1) is None
    assert (asked.requests, asked.malformed, asked.answered) == (1, 1, 0)


# Not in memory


def chill(patch: pytest.MonkeyPatch, lengths: list[int]) -> list[int]:
    """Let reads find nothing, or only a few bytes, in the system's memory; those that waited."""
    read, waited, asked = Segment.read, list[int](), iter(range(1 << 30))

    def cold(piece: Segment, offset: int, into: memoryview, wait: bool) -> int:
        if wait:
            waited.append(offset)
            return read(piece, offset, into, wait)
        length = lengths[next(asked) % len(lengths)]
        if length == 0:
            raise BlockingIOError
        return read(piece, offset, into[:length], True)

    patch.setattr(Segment, "read", cold)
    return waited


@COLD
@pytest.mark.parametrize("size", [0, 100, LONG])
def test_given_a_cold_cache_when_reads_are_short_then_nothing_is_taken_for_damage(
    store: Store, monkeypatch: pytest.MonkeyPatch, lengths: list[int], size: int
) -> None:
    messages = [FeedMessage(at, b"%d" % at, b"in") for at in range(1, 31)]
    for at in range(9, 30, 10):
        messages[at] = FeedMessage(at + 1, bytes(size), b"out")
    write(store, messages)
    asked = server(store, matches=lambda subject: subject == b"in")
    waited = chill(monkeypatch, lengths)
    found = packet(asked, 5, count=20, filtered=True)
    assert (found.previous, found.after) == (4, 25)
    assert found.messages == [
        FeedMessage(at, b"%d" % at) for at in range(5, 25) if at not in (10, 20)
    ]
    assert waited


@COLD
def test_given_a_window_that_is_lost_then_what_is_on_the_disk_is_answered_to_its_end(
    path: Path, monkeypatch: pytest.MonkeyPatch, lengths: list[int]
) -> None:
    store = open_store(path)
    put(store, 300)
    store.sync()
    put(store, 20)
    os.truncate(path / FILE, 0)
    with pytest.raises(OSError, match="the journal window"):
        store.sync()
    asked = server(store)
    chill(monkeypatch, lengths)
    found, wanted = [], 1
    while wanted <= 300:
        answer = packet(asked, wanted, 301 - wanted)
        assert answer.after > wanted
        found += numbers(answer)
        wanted = answer.after
    assert found == list(range(1, 301))
    abandon(store)


def test_given_a_disk_that_fails_then_it_is_an_error_and_nothing_is_held(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, 10)
    asked = server(store)

    def fail(piece: Segment, offset: int, into: memoryview, wait: bool) -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Segment, "read", fail)
    search = asked.begin_search(request(SESSION, 1, 1), "peer", 0.0, 10)
    assert search is not None
    with pytest.raises(OSError, match="Input/output error"):
        search.run()
    assert [piece.holders for piece in store.segments()] == [0]


@KINDS
def test_given_answers_then_nothing_is_held_on_to(kind: str, store: Store) -> None:
    source = made(kind, store)
    for _ in range(5):
        put(source, 10, size=1000)
    asked = server(source)
    for first in range(1, 51):
        packet(asked, first)
    assert {piece.holders for piece in source.segments()} == {0}


# Limits


def asked_often(asked: Rerequests, peer: str, now: float, times: int) -> int:
    """How many of so many requests at one moment were answered."""
    answered = 0
    for _ in range(times):
        search = asked.begin_search(request(SESSION, 1, 1), peer, now, asked.journal.last)
        if search is not None:
            answer = search.run()
            assert answer is not None
            asked.sent(search, answer, now)
            answered += 1
    return answered


def test_given_a_peer_that_asks_too_much_then_it_waits_and_others_do_not(store: Store) -> None:
    write(store, [FeedMessage(1, bytes(1000), b"a")])
    cost = 1022 + REQUEST_COST
    asked = server(store, rate=40 * cost)
    assert asked_often(asked, "a", 0.0, 100) == 10, "a quarter of a second's"
    assert asked.limited == 90
    assert asked_often(asked, "b", 0.0, 100) == 10
    assert asked_often(asked, "a", 0.05, 100) in (2, 3)
    assert asked_often(asked, "a", 100.0, 100) == 10, "silence saves up no more than that"


def test_given_many_peers_then_they_have_a_limit_together(store: Store) -> None:
    write(store, [FeedMessage(1, bytes(1000), b"a")])
    asked = server(store, rate=MIB, total_rate=40 * (1022 + REQUEST_COST))
    assert sum(asked_often(asked, f"peer {at}", 0.0, 1) for at in range(100)) == 10


def test_given_what_a_disk_had_to_bring_then_it_is_paid_for(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, 3, size=3000)
    chill(monkeypatch, [0])
    asked = server(store, rate=40_000)
    assert answer_to(asked, 1, now=0.0) is not None, "3 kB, and 9 kB read: more than a quarter"
    assert answer_to(asked, 1, now=0.0) is None
    assert answer_to(asked, 1, now=1.0) is not None


def test_given_more_peers_than_are_remembered_then_the_one_silent_longest_is_forgotten() -> None:
    peers = PeerBuckets(400)
    peers.draw("old", 1000, 0.0)
    assert peers.of("old").level(1.0) <= 0
    for at in range(PEERS_MAX - 1):
        peers.draw(at, 1, 0.0)
    peers.draw("old", 1, 1.0)
    peers.draw("new", 1000, 1.0)
    assert peers.of("old").level(1.0) <= 0
    assert peers.of("new").level(1.0) <= 0
    for at in range(PEERS_MAX):
        peers.draw(f"flood {at}", 1, 1.0)
    assert peers.of("old").level(1.0) > 0
    assert len(peers._buckets) == PEERS_MAX


def test_given_more_damage_than_is_remembered_then_it_is_searched_for_again(store: Store) -> None:
    asked = server(store)
    for at in range(rerequest.KNOWN_MAX + 5):
        asked.remember((1, at), None)
    assert len(asked.known) == 5


@settings(max_examples=examples(60))
@given(
    sizes=st.lists(st.sampled_from([0, 1, 30, 400, 3000, 70_000]), min_size=1, max_size=40),
    out=st.sets(st.integers(1, 40)),
    datagram_bytes=st.sampled_from([256, 1472, 9000]),
    ring=st.booleans(),
)
def test_given_any_messages_then_each_is_delivered_or_reported_lost_once(
    sizes: list[int], out: set[int], datagram_bytes: int, ring: bool
) -> None:
    """Whoever asks on, from 1 to the end, has heard of every number exactly once."""
    with in_memory() as path:
        source = Ring(16 * MIB) if ring else open_store(path / "store", segment_bytes=10_000)
        messages = [
            FeedMessage(at, bytes([at]) * size, b"out" if at in out else b"in")
            for at, size in enumerate(sizes, 1)
        ]
        write(source, messages)
        asked = server(source, datagram_bytes=datagram_bytes, matches=lambda one: one == b"in")
        wanted, lost, found = 1, list[int](), list[FeedMessage]()
        while wanted <= len(sizes):
            part = packet(asked, wanted, filtered=True)
            lost += range(wanted, part.previous + 1)
            found += part.messages
            assert part.after > wanted
            wanted = part.after
        had = [one for one in messages if one.number not in out]
        assert lost == [one.number for one in had if len(one.payload) > 65_485]
        assert found == [
            FeedMessage(m.number, m.payload) for m in had if 0 < len(m.payload) < 65_485
        ]
        if isinstance(source, Store):
            source.close()
