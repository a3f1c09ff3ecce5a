"""Any loss, disorder and repetition of datagrams: every number once and in order, or lost.

The judge is a list: what was published, and what of it nobody had.
"""

import random
from math import inf
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sequencer.feed.codecs import CODECS
from sequencer.feed.feed_codec import DATA, END, HEARTBEAT, Packet
from sequencer.feed.feed_message import FeedMessage
from seriatim.receiver.events import Ended, MessagesLost, NewStream
from seriatim.receiver.order import Order
from tests.support.depth import examples
from tests.support.receiving import Fate, Run, codec_of, datagrams_of, message_of

PATIENCE = 0.005
HOLE_BYTES = 256


def packet(*numbers: int, session: bytes = b"") -> Packet:
    """As netstrings bring it."""
    return Packet(DATA, [message_of(n) for n in numbers], -1, numbers[-1] + 1, session)


def spans(previous: int, after: int, *numbers: int, session: bytes = b"s") -> Packet:
    """As codecs bring it that say what a filter has left out."""
    return Packet(DATA, [message_of(n) for n in numbers], previous, after, session)


def numbers_of(events: list[object]) -> list[int]:
    return [one.number for one in events if isinstance(one, FeedMessage)]


def told(order: Order) -> list[object]:
    """Events, a message as its number."""
    return [one.number if isinstance(one, FeedMessage) else one for one in order.drain()]


def judge(events: list[object], published: list[FeedMessage], start: int) -> set[int]:
    """Every number from `start` on is delivered once, in order, or lost, or was left out."""
    kept = {one.number: one for one in published if one.subject == message_of(1).subject}
    reached, lost = start - 1, set()
    for event in events:
        if isinstance(event, FeedMessage):
            assert event.payload == kept[event.number].payload
            passed = range(reached + 1, event.number)
            reached = event.number
        elif isinstance(event, MessagesLost):
            passed = range(reached + 1, event.first)
            lost |= set(range(event.first, event.last + 1))
            assert reached < event.first <= event.last
            reached = event.last
        else:
            assert isinstance(event, Ended)
            passed = range(reached + 1, event.after)
            reached = max(reached, event.after - 1)
        assert not kept.keys() & set(passed), "a number was passed over in silence"
    assert not kept.keys() & set(range(reached + 1, published[-1].number + 1))
    return lost


def make_run(
    draw: st.DataObject, fate: Fate, codec_name: str, filtered: bool, **options: Any
) -> tuple[Run, list[FeedMessage], list[bytes]]:
    """An order with who fills, and some messages on their way; the last datagram arrives."""
    seed = fate.random
    count = draw.draw(st.integers(1, 60), "messages")
    first = draw.draw(st.sampled_from([1, 7, 2**62]), "first")
    messages = [
        message_of(n, filtered and seed.random() < 0.4, seed.choice([0, 9, 300]))
        for n in range(first, first + count)
    ]
    if filtered and codec_name == "moldudp64":  # there an empty message reads as one left out
        messages = [message_of(m.number, m.subject != message_of(1).subject) for m in messages]
    codec = codec_of(codec_name, filtered)
    packing = draw.draw(st.sampled_from([0, 100, 1000]), "packing")
    datagrams = datagrams_of(codec, messages, packing, draw.draw(st.integers(1, 8)), first - 1)
    start = draw.draw(st.sampled_from([first, max(1, first - 3)]), "start")
    order = Order(start, patience=PATIENCE, filtered=filtered, chance=seed.random, **options)
    have = {one.number: one for one in messages if one.subject == message_of(1).subject}
    run = Run(order, codec, have, fate)
    feeds = draw.draw(st.integers(1, 2), "feeds")
    for feed in range(feeds):
        run.send(feed, datagrams)
    # The tail: heartbeats, or who fills, tell of it in the end.
    run.at(run.now + 1.0, lambda: order.expect(first + count, run.now))
    return run, messages, datagrams


EVERY = pytest.mark.parametrize("codec_name", CODECS)
FILTERED = pytest.mark.parametrize("filtered", [False, True], ids=["all", "filtered"])
seeds = st.integers(0, 2**32)
QUICK = settings(max_examples=examples(40))


@EVERY
@FILTERED
@QUICK
@given(draw=st.data(), seed=seeds)
def test_given_a_bad_network_and_somebody_who_answers_then_nothing_is_lost(
    codec_name: str, filtered: bool, draw: st.DataObject, seed: int
) -> None:
    fate = Fate(random.Random(seed), 0.3, 0.2, 0.02, silent=0.3, partly=0.3, twice=0.2)
    bridge = draw.draw(st.sampled_from([0, 3, 100]), "bridge")
    piece = draw.draw(st.sampled_from([1, 5, 1000]), "piece")
    run, messages, _ = make_run(
        draw, fate, codec_name, filtered, fills=True, tries=60, piece=piece, bridge=bridge
    )
    run.run(400)
    lost = judge(run.events, messages, run.order.start)
    assert all(number < messages[0].number for number in lost)
    assert all(one.last - one.first < piece for one in run.questions)
    assert (run.order.due, run.order.holes.held, run.order.holes.all) == (inf, 0, [])


@EVERY
@FILTERED
@QUICK
@given(draw=st.data(), seed=seeds)
def test_given_numbers_that_nobody_has_then_these_and_no_others_are_lost(
    codec_name: str, filtered: bool, draw: st.DataObject, seed: int
) -> None:
    fate = Fate(random.Random(seed), 0.3, 0.2, 0.02, silent=0.2, partly=0.3, denied=0.3)
    run, messages, _ = make_run(draw, fate, codec_name, filtered, fills=True, tries=60)
    run.run(400)
    lost = judge(run.events, messages, run.order.start)
    assert all(number < messages[0].number for number in lost - run.denied)
    assert run.order.holes.lost <= len(run.denied) + 3


@EVERY
@FILTERED
@QUICK
@given(draw=st.data(), seed=seeds)
def test_given_no_filler_then_what_comes_in_time_is_delivered_and_the_rest_is_lost(
    codec_name: str, filtered: bool, draw: st.DataObject, seed: int
) -> None:
    fate = Fate(random.Random(seed), 0.3, 0.2, PATIENCE / 2)
    run, messages, _ = make_run(draw, fate, codec_name, filtered)
    run.run(10)
    assert numbers_of(run.events) == sorted(run.arrived)
    assert run.questions == []
    if filtered and "netstring" in codec_name:  # it does not tell what a filter left out
        assert not run.arrived or not any(isinstance(event, MessagesLost) for event in run.events)
    else:
        judge(run.events, messages, run.order.start)


@EVERY
@QUICK
@given(draw=st.data(), seed=seeds, held_max=st.sampled_from([0, 1000, 3000]))
def test_given_little_memory_then_it_is_kept_to_and_all_is_delivered_later(
    codec_name: str, draw: st.DataObject, seed: int, held_max: int
) -> None:
    fate = Fate(random.Random(seed), 0.3, 0.1, 0.02, silent=0.2, partly=0.3)
    run, messages, _ = make_run(
        draw, fate, codec_name, False, fills=True, tries=60, piece=8, held_max=held_max
    )

    def check(order: Order) -> None:
        behind = [event for hole in order.holes.all for event in hole.behind]
        sizes = [
            128 + len(m.payload) + len(m.subject) for m in behind if isinstance(m, FeedMessage)
        ]
        losses = 64 * sum(isinstance(event, MessagesLost) for event in behind)
        assert order.holes.held == sum(sizes) + losses + HOLE_BYTES * len(order.holes.all)
        assert order.holes.held <= held_max + 3 * HOLE_BYTES

    run.check = check
    run.run(400)
    judge(run.events, messages, run.order.start)
    assert numbers_of(run.events) == [one.number for one in messages]


# By example


def test_given_a_missing_one_then_those_after_it_wait_and_it_is_asked_for_after_a_while() -> None:
    order = Order(1, fills=True, patience=PATIENCE)
    order.offer(packet(1), 0.0)
    order.offer(packet(3), 0.0)
    order.offer(packet(4, 5), 0.001)
    assert told(order) == [1]
    assert (order.due, order.due_requests(0.004, 9), order.next) == (PATIENCE, [], 2)
    (wanted,) = order.due_requests(PATIENCE, 9)
    assert (wanted.first, wanted.last) == (2, 2)
    order.filled(wanted.stream, 2, 2, [message_of(2)], 0.006)
    assert told(order) == [2, 3, 4, 5]
    assert order.due == inf


def test_given_what_is_late_but_within_patience_then_nobody_is_asked() -> None:
    order = Order(1, fills=True, patience=PATIENCE)
    for numbers in ((1,), (4,), (3,), (2,)):
        order.offer(packet(*numbers), 0.0)
    assert told(order) == [1, 2, 3, 4]
    assert (order.due, order.holes.late, order.holes.found) == (inf, 2, 1)


def test_given_two_feeds_then_the_first_that_brings_a_number_counts() -> None:
    order = Order(1)
    for number in (1, 3, 4):
        order.offer(packet(number), 0.0, 0, 11)
    for number in (1, 2, 4):
        order.offer(packet(number), 0.0, 1, 22)
    assert told(order) == [1, 2, 3, 4]
    assert (order.holes.duplicates, order.holes.late) == (2, 1)


def test_given_holes_near_each_other_then_one_question_takes_them_in() -> None:
    order = Order(1, fills=True, patience=0, piece=100, bridge=3)
    for number in (2, 6, 11, 13, 300):
        order.offer(packet(number), 0.0)
    asked = [(one.first, one.last) for one in order.due_requests(1.0, 3)]
    assert asked == [(1, 12), (14, 113), (114, 213)]
    assert order.missing(1, 20) == [(1, 1), (3, 5), (7, 10), (12, 12), (14, 20)]
    assert [(one.first, one.last) for one in order.due_requests(1.0, 3)] == [(214, 299)]


def test_given_no_room_for_an_answer_then_it_is_asked_for_again_as_soon_as_there_is() -> None:
    order = Order(1, fills=True, patience=0, held_max=1000, answer=1.0)
    order.offer(packet(2), 0.0)
    order.offer(packet(4), 0.0)
    assert [one.first for one in order.due_requests(0.0, 9)] == [1, 3]
    large = message_of(3, size=900)
    order.filled(0, 3, 3, [large], 0.1)
    order.answered(0, 3, 3, 0.1)
    assert (order.holes.dropped, order.due_requests(0.1, 9)) == (1, [])
    order.filled(0, 1, 1, [message_of(1)], 0.2)
    assert told(order) == [1, 2]
    assert [one.first for one in order.due_requests(0.2, 9)] == [3]
    order.filled(0, 3, 3, [large], 0.3)
    assert told(order) == [3, 4]


def test_given_no_answer_then_each_question_waits_longer_and_the_last_is_a_loss() -> None:
    order = Order(1, fills=True, patience=0, answer=0.1, tries=6, chance=lambda: 0.5)
    order.offer(packet(4), 0.0)
    moments, now = [], 0.0
    while order.due < inf:
        now = order.due
        if order.due_requests(now, 1):
            moments.append(now)
    assert moments == pytest.approx([0, 0.1, 0.3, 0.7, 1.5, 3.1])
    assert now == pytest.approx(5.1)
    assert told(order) == [MessagesLost(1, 3), 4]
    assert order.holes.lost == 3


def test_given_an_answer_to_a_part_then_the_rest_is_asked_for_at_once_and_from_the_start() -> None:
    order = Order(1, fills=True, patience=0, answer=1.0, tries=2)
    order.offer(packet(9), 0.0)
    for last in range(1, 9):
        (wanted,) = order.due_requests(float(last), 1)
        order.filled(wanted.stream, wanted.first, last, [message_of(last)], float(last))
        order.answered(wanted.stream, wanted.first, wanted.last, float(last))
        assert order.due == (inf if last == 8 else last)
    assert told(order) == [*range(1, 10)]


@pytest.mark.parametrize("previous", [True, False], ids=["spans", "blind"])
def test_given_a_heartbeat_then_what_is_missing_at_the_tail_is_known(previous: bool) -> None:
    order = Order(0, fills=True, patience=0)
    order.offer(spans(0, 3, 1, 2) if previous else packet(1, 2), 0.0)
    order.offer(Packet(HEARTBEAT, [], 4 if previous else -1, 6, b"s" if previous else b""), 0.0)
    (wanted,) = order.due_requests(0.0, 1)
    # Behind a heartbeat that says where its feed stood, the rest was left out by its filter.
    assert (wanted.first, wanted.last) == (3, 4 if previous else 5)
    order.lose(0, 3, 5)
    order.offer(spans(5, 7, 6) if previous else packet(6), 0.0)
    assert told(order) == [1, 2, MessagesLost(3, 4 if previous else 5), 6]


def test_given_numbers_that_a_filter_left_out_then_they_are_no_hole() -> None:
    order = Order(0)
    order.offer(spans(0, 8, 3, 7), 0.0)
    order.offer(Packet(HEARTBEAT, [], 7, 100, b"s"), 0.0)
    order.offer(spans(99, 101, 100), 0.0)
    assert told(order) == [3, 7, 100]
    assert order.due == inf


def test_given_the_end_then_it_is_reported_once_after_all_messages_and_the_stream_may_go_on() -> (
    None
):
    order = Order(0)
    order.offer(packet(1), 0.0)
    order.offer(packet(3), 0.0)
    for _ in range(3):
        order.offer(Packet(END, [], -1, 4), 0.0)
    assert told(order) == [1]
    order.offer(packet(2), 0.0)
    assert told(order) == [2, 3, Ended(4)]
    order.offer(Packet(END, [], -1, 4), 0.0)
    order.offer(packet(4), 0.0)
    order.offer(Packet(END, [], -1, 5), 0.0)
    assert told(order) == [4, Ended(5)]


@pytest.mark.parametrize("start", [0, 5, 12])
def test_given_any_start_then_the_first_delivered_is_that_number_or_whatever_comes(
    start: int,
) -> None:
    order = Order(start, fills=True, patience=0)
    for number in (10, 11, 12, 13):
        order.offer(packet(number), 0.0)
    asked = [(one.first, one.last) for one in order.due_requests(0.0, 1)]
    assert asked == ([(5, 9)] if start == 5 else [])
    order.filled(0, 5, 9, [message_of(n) for n in range(5, 10)], 0.0)
    assert told(order) == [*range(start or 10, 14)]


def test_given_a_later_epoch_of_the_journal_then_the_order_goes_on() -> None:
    for first, then in (
        (b"00c0ffee00c0ffee-1", b"00c0ffee00c0ffee-2"),
        (b"ABCDEFGHAA", b"ABCDEFGHAB"),
    ):
        order = Order(0)
        order.offer(spans(0, 3, 1, 2, session=first), 0.0)
        order.offer(spans(2, 4, 3, session=then), 0.0)
        order.offer(spans(0, 2, 1, session=first), 0.0)
        order.offer(spans(3, 5, 4, session=then), 0.0)
        assert told(order) == [1, 2, 3, 4]
        assert order.session == then


@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize(
    ("first", "then"),
    [(b"00c0ffee00c0ffee-1", b"00c0ffee00c0ff11-1"), (b"ABCDEFGHAA", b"ABCDEFGHAB")],
    ids=["another journal", "numbers begin again"],
)
def test_given_another_stream_then_it_waits_for_silence_and_the_order_starts_again(
    first: bytes, then: bytes, start: int
) -> None:
    order = Order(start)
    order.offer(spans(0, 2, 1, session=first), 0.0)
    order.offer(spans(0, 2, 1, session=then), 0.1)
    order.offer(spans(2, 4, 3, session=first), 1.0)
    order.offer(spans(0, 2, 1, session=then), 3.9)
    assert told(order) == [1], "a stranger, while the one before is heard"
    order.offer(spans(1, 3, 2, session=then), 4.1)
    order.offer(spans(3, 5, 4, session=first), 4.2)
    so_far = told(order)
    assert so_far[:3] == [MessagesLost(2, 2), 3, NewStream(then)]
    order.due_requests(9.0, 1)
    assert so_far[3:] + told(order) == ([MessagesLost(1, 1), 2] if start else [2])
    assert (order.strangers, order.stream, order.holes.lost) == (3, 1, 1 + start)
    order.filled(0, 1, 3, [message_of(3)], 9.0)
    assert told(order) == [], "an answer about the stream before"


def test_given_the_end_then_another_stream_begins_at_once() -> None:
    order = Order(0)
    order.offer(spans(0, 2, 1, session=b"one-1"), 0.0)
    order.offer(Packet(END, [], 1, 2, b"one-1"), 0.0)
    order.offer(spans(0, 2, 1, session=b"two-1"), 0.1)
    assert told(order) == [1, Ended(2), NewStream(b"two-1"), 1]


def test_given_senders_that_the_codec_does_not_name_then_one_that_begins_again_is_another() -> None:
    order = Order(0)
    for now, source, number in (
        *((0, 11, 1), (0, 11, 2), (1, 22, 3), (1, 11, 2), (1, 22, 4)),
        *((2, 33, 1), (3, 22, 5), (5, 33, 1), (7, 33, 2), (7, 33, 3), (7, 22, 6)),
    ):
        order.offer(packet(number), float(now), 0, source)
    # Sender 22 goes on where 11 was; 33 is not heard until 22 has been silent for a while.
    assert told(order) == [1, 2, 3, 4, 5, NewStream(), 2, 3]
    assert order.strangers == 3


def test_given_two_feeds_of_a_sender_that_begins_again_then_both_go_over() -> None:
    order = Order(0)
    for now, feed, source, number in (
        *((0, 0, 1, 8), (0, 1, 2, 8), (0, 0, 1, 9)),
        *((4, 0, 3, 1), (2, 1, 2, 9), (4, 1, 4, 1), (4, 1, 4, 2), (4, 0, 3, 2), (4, 0, 3, 3)),
    ):
        order.offer(packet(number), float(now), feed, source)
    assert told(order) == [8, 9, NewStream(), 1, 2, 3]


def test_given_somebody_who_knows_the_stream_then_no_other_is_ever_heard() -> None:
    order = Order(1)
    order.follow(b"one-7")
    order.offer(spans(0, 2, 1, session=b"two-1"), 0.0)
    order.offer(spans(0, 2, 1, session=b"one-7"), 1.0)
    order.offer(spans(0, 2, 1, session=b"two-1"), 99.0)
    assert (told(order), order.strangers) == ([1], 2)
    order.follow(b"one-8")
    order.offer(spans(1, 3, 2, session=b"one-8"), 100.0)
    order.follow(b"two-2")
    order.offer(spans(0, 2, 1, session=b"two-2"), 100.0)
    assert told(order) == [2, NewStream(b"two-2"), 1]


@pytest.mark.parametrize("lie", [3, 4, 900, 2**20])
@pytest.mark.parametrize("beat", [True, False], ids=["heartbeat", "message"])
def test_given_numbers_that_were_never_given_then_they_are_forgotten(lie: int, beat: bool) -> None:
    order = Order(1, fills=True, patience=0)
    order.offer(packet(2), 0.0)
    order.offer(Packet(HEARTBEAT, [], -1, lie + 1) if beat else packet(lie + 1), 0.0)
    heard = order.holes.top
    order.expect(3, 0.0, heard)
    assert (order.holes.top, order.missing(1, 2**62)) == (3, [(1, 1)])
    order.offer(packet(3), 0.0)
    order.filled(0, 1, 1, [message_of(1)], 0.0)
    assert told(order) == [1, 2, 3]
    assert (order.holes.held, order.due) == (0, inf)


@pytest.mark.parametrize("beat", [True, False], ids=["heartbeat", "message"])
def test_given_a_number_far_ahead_then_it_is_believed_when_another_bears_it_out(beat: bool) -> None:
    order, far = Order(1, fills=True, patience=0), 5_000_000
    order.offer(packet(1), 0.0)
    order.offer(Packet(HEARTBEAT, [], -1, 2**62) if beat else packet(2**62), 0.0)
    order.offer(packet(2), 0.0)
    assert (told(order), order.due) == ([1, 2], inf)
    order.offer(packet(far), 0.0)
    order.offer(packet(far), 0.0)
    assert order.due == inf, "a repetition bears out nothing"
    order.offer(Packet(HEARTBEAT, [], -1, far + 1) if beat else packet(far + 1), 0.0)
    assert order.missing(1, 2**62) == [(3, far - 1)]
    order.filled(0, 3, far - 1, [], 0.0)
    assert told(order) == ([far] if beat else [far, far + 1])


def test_given_what_came_after_the_question_was_asked_then_it_is_no_lie() -> None:
    order = Order(1, fills=True, patience=0)
    order.offer(packet(2), 0.0)
    heard = order.holes.top
    order.offer(packet(5), 0.0)
    order.expect(4, 0.0, heard)
    assert order.missing(1, 9) == [(1, 1), (3, 4)]


@pytest.mark.parametrize(
    "wrong",
    [
        packet(5, 4),
        packet(5, 5),
        packet(0),
        spans(3, 5, 3),
        spans(3, 5, 5),
        spans(5, 5),
        Packet(DATA, [], -2, 4),
        Packet(HEARTBEAT, [], -1, 0),
        Packet(DATA, [FeedMessage(2**63, b"")], -1, 4),
        Packet(DATA, [FeedMessage(2**63 - 1, b"")], -1, 2**63),
    ],
    ids=repr,
)
def test_given_a_packet_that_contradicts_itself_then_it_is_counted_and_nothing_more(
    wrong: Packet,
) -> None:
    order = Order(1)
    order.offer(wrong, 0.0)
    order.filled(0, 1, 1, [message_of(2)], 0.0)
    assert (told(order), order.malformed, order.next) == ([], 2, 1)
