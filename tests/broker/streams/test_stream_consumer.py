"""A consumer, step by step: the bytes that nats-server 2.15.1 was recorded to send."""

from array import array

import pytest

from broker.streams.api_errors import ApiError
from broker.streams.consumer_config import ConsumerConfig, StreamRules
from broker.streams.kept_consumer import KeptConsumer
from broker.streams.offer_outcomes import THEN
from broker.streams.stream_consumer import (
    Advice,
    Confirm,
    Count,
    Over,
    State,
    Status,
    StreamConsumer,
    StreamFacts,
    nak_delay,
    read_ack,
    read_request,
    starting_point,
)

MISMATCH = b"json: cannot unmarshal string into Go struct field .batch of type int"
NO_KEY = b"invalid character 'x' looking for beginning of object key string"
TOO_LONG = b"409 Exceeded MaxRequestExpires of 2s"
BAD = b"400 Bad Request - "
MS = 1_000_000
SECOND = 1_000 * MS
FIRST = 900_000_000_000
TIME = 1_795_709_001_693_184_725


def made(pending: int = 5, **fields: object) -> StreamConsumer:
    """A consumer at the beginning of a stream with so many messages."""
    config = ConsumerConfig(durable_name="C", **{"ack_policy": "explicit", **fields})  # type: ignore[arg-type]
    config.set_defaults(StreamRules())
    consumer = StreamConsumer("S", "C", config, SECOND, draw=lambda: b"abcd")
    consumer.start(FIRST, FIRST + pending - 1, SECOND)
    assert consumer.actions.pop() == Count(1, FIRST, FIRST + pending - 1)
    consumer.counted(1, pending, SECOND)
    return consumer


def deliver(consumer: StreamConsumer, size: int = 5, now: int = SECOND) -> bytes:
    """One message as the cursor gives it; its ack subject, or nothing."""
    deliverer = consumer.deliverer
    number = deliverer.wanted(now)
    outcome = deliverer.offer(number, TIME + number - FIRST, size, now) if number else 0
    if not outcome:
        consumer.decide(now)
        return b""
    consumer.take_endings()
    if outcome & THEN:
        consumer.follow(now)
    return bytes(deliverer.reply[: deliverer.reply_size])


def ask(consumer: StreamConsumer, text: bytes, now: int = SECOND, inbox: bytes = b"i") -> None:
    consumer.request(inbox, "client", text, now)


def said(consumer: StreamConsumer) -> list[bytes]:
    found = [action.headers for action in consumer.actions if isinstance(action, Status)]
    consumer.actions.clear()
    return found


def acked(
    consumer: StreamConsumer, subject: bytes, payload: bytes = b"", now: int = SECOND
) -> None:
    sequence, number, time = (int(token) for token in subject.split(b".")[5:8])
    consumer.ack(sequence, number, time, payload, b"r", "client", now)


def test_given_a_pull_consumer_when_asked_then_its_messages_count_down() -> None:
    consumer = made(8)
    ask(consumer, b"3")
    assert consumer.state == State.READING
    assert [deliver(consumer) for _ in range(4)] == [
        b"$JS.ACK.S.C.1.900000000000.1.1795709001693184725.7",
        b"$JS.ACK.S.C.1.900000000001.2.1795709001693184726.6",
        b"$JS.ACK.S.C.1.900000000002.3.1795709001693184727.5",
        b"",
    ]
    assert consumer.state == State.IDLE


@pytest.mark.parametrize(
    ("fields", "text", "status"),
    [
        ({}, b"{x", BAD + NO_KEY),
        ({}, b"{", BAD + b"unexpected end of JSON input"),
        ({}, b"{} x", BAD + b"invalid character 'x' after top-level value"),
        ({}, b'{"batch":"x"}', BAD + MISMATCH),
        ({}, b'{"idle_heartbeat":5}', BAD + b"heartbeat value too large"),
        ({}, b'{"id":"x"}', BAD + b"Not a Pinned Client Priority consumer"),
        ({}, b'{"min_pending":1}', BAD + b"Not a Overflow Priority consumer"),
        ({}, b'{"priority":10}', BAD + b"Priority must be between 0 and 9"),
        ({"max_batch": 3}, b"4", b"409 Exceeded MaxRequestBatch of 3"),
        ({"max_expires": 2 * SECOND}, b'{"expires":2000000001}', TOO_LONG),
        ({"max_bytes": 100}, b'{"max_bytes":101}', b"409 Exceeded MaxRequestMaxBytes of 100"),
        ({"deliver_subject": "d"}, b"", b"409 Consumer is push based"),
    ],
)  # fmt: skip
def test_given_a_request_that_is_refused_then_it_gets_nats_servers_words(
    fields: dict[str, object], text: bytes, status: bytes
) -> None:
    consumer = made(5, **fields)
    ask(consumer, text)
    assert said(consumer) == [b"NATS/1.0 " + status + b"\r\n\r\n"]


def test_given_nothing_to_deliver_when_a_client_does_not_wait_then_it_is_told_at_once() -> None:
    consumer = made(0)
    ask(consumer, b'{"no_wait":true}')
    assert said(consumer) == [b"NATS/1.0 404 No Messages\r\n\r\n"]


def test_given_less_than_it_wants_when_a_client_does_not_wait_then_it_gets_that_and_an_end() -> (
    None
):
    consumer = made(1)
    ask(consumer, b'{"no_wait":true,"batch":5}')
    assert deliver(consumer)
    consumer.decide(SECOND)
    assert said(consumer) == [b"NATS/1.0 404 No Messages\r\n\r\n"]


def test_given_others_that_wait_for_more_than_there_is_then_408() -> None:
    consumer = made(1)
    consumer.parked("client", True, SECOND)
    ask(consumer, b'{"batch":5}')
    ask(consumer, b'{"no_wait":true}', inbox=b"j")
    assert said(consumer) == [b"NATS/1.0 408 Requests Pending\r\n\r\n"]


def test_given_a_request_when_it_expires_then_it_hears_what_it_did_not_get() -> None:
    consumer = made(0)
    ask(consumer, b'{"expires":300000000,"batch":3,"max_bytes":43}')
    assert consumer.next_tick == SECOND + 300 * MS
    consumer.tick(consumer.next_tick)
    pending = b"Nats-Pending-Messages: 3\r\nNats-Pending-Bytes: 43\r\n\r\n"
    assert said(consumer) == [b"NATS/1.0 408 Request Timeout\r\n" + pending]
    assert consumer.numbers()["num_waiting"] == 0


def test_given_a_request_with_a_heartbeat_when_nothing_comes_then_it_beats() -> None:
    consumer = made(8)
    ask(consumer, b"8")
    for _ in range(8):
        deliver(consumer)
    ask(consumer, b'{"expires":900000000,"idle_heartbeat":400000000}')
    consumer.tick(SECOND + 400 * MS)
    numbers = b"Nats-Last-Consumer: 8\r\nNats-Last-Stream: 900000000007\r\n\r\n"
    assert said(consumer) == [b"NATS/1.0 100 Idle Heartbeat\r\n" + numbers]
    assert consumer.next_tick == SECOND + 800 * MS


def test_given_a_message_that_is_too_large_for_a_request_then_it_ends_and_the_next_gets_it() -> (
    None
):
    consumer = made()
    ask(consumer, b'{"batch":5,"max_bytes":10}', inbox=b"small")
    ask(consumer, b'{"batch":1}', inbox=b"other")
    assert deliver(consumer, 20)
    pending = b"Nats-Pending-Messages: 5\r\nNats-Pending-Bytes: 10\r\n\r\n"
    assert said(consumer) == [b"NATS/1.0 409 Message Size Exceeds MaxBytes\r\n" + pending]
    assert consumer.deliverer.target.inbox == b"other"  # type: ignore[attr-defined]


def test_given_a_batch_with_bytes_left_when_it_is_full_then_it_is_completed() -> None:
    consumer = made()
    ask(consumer, b'{"batch":1,"max_bytes":200}')
    reply = deliver(consumer, 20)
    left = 200 - 20 - len(reply)
    pending = b"Nats-Pending-Messages: 0\r\nNats-Pending-Bytes: %d\r\n\r\n" % left
    assert said(consumer) == [b"NATS/1.0 409 Batch Completed\r\n" + pending]


def test_given_several_requests_then_they_take_turns() -> None:
    consumer = made()
    for inbox in (b"a", b"b"):
        ask(consumer, b"2", inbox=inbox)
    inboxes = []
    while deliver(consumer):
        inboxes.append(consumer.deliverer.target.inbox)  # type: ignore[attr-defined]
    assert inboxes == [b"a", b"b", b"a", b"b"]


def test_given_a_client_that_takes_no_more_then_the_others_go_on() -> None:
    consumer = made()
    consumer.request(b"slow", "slow client", b"5", SECOND)
    ask(consumer, b"2")
    consumer.parked("slow client", True, SECOND)
    assert [bool(deliver(consumer)) for _ in range(3)] == [True, True, False]
    assert consumer.state == State.PARKED
    consumer.parked("slow client", False, SECOND)
    assert deliver(consumer).endswith(b".2")


def test_given_too_many_requests_then_only_those_without_a_heartbeat_are_told() -> None:
    consumer = made(0, max_waiting=1)
    ask(consumer, b"1")
    ask(consumer, b'{"expires":1000000000,"idle_heartbeat":100000000}')
    assert said(consumer) == []
    ask(consumer, b"1")
    assert said(consumer) == [b"NATS/1.0 409 Exceeded MaxWaiting\r\n\r\n"]


def test_given_a_consumer_when_deleted_then_those_that_wait_are_told() -> None:
    consumer = made(0)
    ask(consumer, b"1")
    consumer.delete(SECOND)
    assert said(consumer) == [b"NATS/1.0 409 Consumer Deleted\r\n\r\n"]
    assert (consumer.state, consumer.next_tick) == (State.ENDED, (1 << 63) - 1)


def test_given_acks_then_the_floor_follows_and_each_is_confirmed() -> None:
    consumer = made()
    ask(consumer, b"3")
    replies = [deliver(consumer) for _ in range(3)]
    acked(consumer, replies[0])
    acked(consumer, replies[0])
    acked(consumer, replies[2], b"+TERM why not")
    assert consumer.actions == [
        Confirm(b"r"),
        Confirm(b"r"),
        Advice("terminated", FIRST + 2, 3, 1, "why not"),
        Confirm(b"r"),
    ]
    numbers = consumer.numbers()
    assert numbers["ack_floor"] == {"consumer_seq": 1, "stream_seq": FIRST}
    assert (numbers["num_ack_pending"], numbers["num_pending"]) == (1, 2)


def test_given_an_ack_from_the_future_then_nothing_is_confirmed() -> None:
    consumer = made()
    consumer.ack(FIRST + 3, 4, TIME, b"", b"r", None, SECOND)
    assert consumer.actions == []


def test_given_an_ack_that_asks_for_more_then_it_is_a_request_too() -> None:
    consumer = made()
    ask(consumer, b"1")
    acked(consumer, deliver(consumer), b'+NXT {"batch":2}')
    assert consumer.numbers()["num_ack_pending"] == 0
    assert consumer.deliverer.waiting is not None
    assert [(one.inbox, one.left) for one in consumer.deliverer.waiting.queue] == [(b"r", 2)]


def test_given_max_deliver_when_it_is_reached_then_an_advisory_and_no_more() -> None:
    consumer = made(1, ack_wait=SECOND, max_deliver=2)
    ask(consumer, b"5")
    assert deliver(consumer).startswith(b"$JS.ACK.S.C.1.")
    consumer.tick(2 * SECOND)
    assert deliver(consumer, now=2 * SECOND).startswith(b"$JS.ACK.S.C.2.900000000000.2.")
    consumer.tick(3 * SECOND)
    assert consumer.actions == [Advice("max_deliveries", FIRST, 0, 2)]
    assert consumer.numbers()["ack_floor"] == {"consumer_seq": 2, "stream_seq": FIRST}


def test_given_a_push_consumer_when_flow_control_stalls_it_then_its_heartbeats_say_so() -> None:
    consumer = made(
        100, ack_policy="none", deliver_subject="d", flow_control=True, idle_heartbeat=SECOND
    )
    consumer.interest(True, SECOND)
    count = 0
    while deliver(consumer, 100_000):
        count += 1
    assert count == 21  # 2 MiB and what was above
    flow = Status(b"d", None, b"NATS/1.0 100 FlowControl Request\r\n\r\n", b"$JS.FC.S.C.abcd")
    assert consumer.actions == [flow]
    assert consumer.state == State.HELD
    consumer.actions.clear()
    consumer.tick(2 * SECOND)
    assert said(consumer) == [
        b"NATS/1.0 100 Idle Heartbeat\r\n"
        b"Nats-Last-Consumer: 21\r\nNats-Last-Stream: 900000000020\r\n"
        b"Nats-Consumer-Stalled: $JS.FC.S.C.abcd\r\n\r\n"
    ]
    consumer.flow(b"$JS.FC.S.C.abcd", 2 * SECOND)
    assert consumer.state == State.READING


def test_given_no_client_for_inactive_threshold_then_it_ends() -> None:
    consumer = made(1, inactive_threshold=5 * SECOND, ack_wait=30 * SECOND)
    assert consumer.next_tick == 6 * SECOND
    ask(consumer, b"1")
    deliver(consumer)
    consumer.tick(6 * SECOND)
    assert consumer.actions == []  # its client has half a minute for the ack
    consumer.tick(36 * SECOND)
    assert consumer.actions == [Over()]


def test_given_last_per_subject_then_only_these_and_what_is_new() -> None:
    config = ConsumerConfig(ack_policy="none", deliver_policy="last_per_subject")
    config.set_defaults(StreamRules())
    consumer = StreamConsumer("S", "C", config, SECOND)
    consumer.start_with(array("Q", [FIRST + 2, FIRST + 5]), FIRST + 9, SECOND)
    ask(consumer, b"9")
    assert deliver(consumer).endswith(b".1")
    consumer.unmatched(FIRST + 7, SECOND)
    assert deliver(consumer) == b"$JS.ACK.S.C.1.900000000005.2.1795709001693184730.0"
    consumer.deliverer.matched(FIRST + 20)
    assert deliver(consumer) == b"$JS.ACK.S.C.1.900000000020.3.1795709001693184745.0"


def test_given_a_note_of_before_when_restored_then_messages_come_again_and_none_is_left_out() -> (
    None
):
    consumer = made()
    ask(consumer, b"4")
    replies = [deliver(consumer) for _ in range(2)]
    kept = KeptConsumer()
    kept.apply(consumer.note())
    acked(consumer, replies[0])
    deliver(consumer)
    config = consumer.config
    again = StreamConsumer("S", "C", config, SECOND)
    again.restore(kept, FIRST + 4, SECOND)
    again.counted(1, 3, SECOND)
    assert again.numbers()["num_ack_pending"] == 2
    acked(again, replies[1])
    ask(again, b"4")
    assert deliver(again) == b"$JS.ACK.S.C.1.900000000002.3.1795709001693184727.2"
    again.tick(31 * SECOND)
    assert deliver(again, now=31 * SECOND).startswith(b"$JS.ACK.S.C.2.900000000000.4.")


def test_given_a_journal_that_lost_its_end_when_lowered_then_nothing_is_above_it() -> None:
    kept = KeptConsumer()
    kept.apply({"delivered": [3, 30], "floor": [0, 9], "new": [10, 1, 5, 1, 20, 2, 5, 1]})
    kept.lower(15)
    assert (kept.number, kept.delivered, kept.pending) == (3, 15, {10: (1, 5, 1)})


@pytest.mark.parametrize(
    ("policy", "fields", "sequence", "error"),
    [
        ("all", {}, 5, ""),
        ("by_start_sequence", {"opt_start_seq": 7}, 5, "invalid reset: below start seq"),
        ("by_start_time", {}, 5, "invalid reset: below start time"),
        ("new", {}, 5, "invalid reset: not allowed"),
        ("new", {}, 0, ""),
    ],
)
def test_given_a_reset_when_the_policy_forbids_it_then_refused(
    policy: str, fields: dict[str, object], sequence: int, error: str
) -> None:
    consumer = made(5, deliver_policy=policy, **fields)
    if error:
        with pytest.raises(ApiError, match=error):
            consumer.reset(sequence, 8, FIRST + 4, SECOND)
    else:
        assert consumer.reset(sequence, 8, FIRST + 4, SECOND) == (sequence or FIRST)
        assert consumer.state == State.COUNTING


def test_given_a_pause_then_nothing_goes_until_its_time() -> None:
    consumer = made()
    ask(consumer, b"1")
    consumer.pause(100 * SECOND, 90 * SECOND, SECOND)
    assert (consumer.state, deliver(consumer)) == (State.PAUSED, b"")
    assert consumer.next_tick == 11 * SECOND
    consumer.tick(11 * SECOND)
    assert consumer.state == State.READING
    assert consumer.actions == [Advice("pause"), Advice("pause")]


@pytest.mark.parametrize(
    ("policy", "fields", "position"),
    [
        ("all", {}, 3),
        ("new", {}, 11),
        ("last", {}, 9),
        ("by_start_sequence", {"opt_start_seq": 1}, 3),
        ("by_start_sequence", {"opt_start_seq": 50}, 50),
        ("by_start_time", {}, 6),
    ],
)
def test_given_a_policy_then_it_begins_there(
    policy: str, fields: dict[str, int], position: int
) -> None:
    config = ConsumerConfig(deliver_policy=policy, **fields)  # type: ignore[arg-type]
    assert starting_point(config, StreamFacts(3, 10, 9, 6)) == position


def test_given_what_clients_write_when_read_then_it_means_this() -> None:
    assert read_request(b"") == {"batch": 1} == read_request(b"word")
    assert read_request(b" 7 ") == {"batch": 7}
    assert read_request(b'{"batch":2,"no_wait":true,"frob":1}') == {"batch": 2, "no_wait": True}
    assert [read_ack(one) for one in (b"", b"+ACK", b"+OK")] == [("ack", "")] * 3
    assert read_ack(b"-NAK 1.5s") == ("nak", "1.5s")
    assert read_ack(b"+NXT 5") == ("next", "5")
    assert read_ack(b"+WPI") == ("progress", "")
    assert read_ack(b"+WPIx") == read_ack(b"what") == ("", "")
    assert nak_delay('{"delay": 300000000}') == 300 * MS
    assert (nak_delay("1.5s"), nak_delay(""), nak_delay("soon")) == (1_500 * MS, None, None)


def test_given_what_retention_deletes_then_what_it_had_not_got_or_acked_is_counted_as_lost() -> (
    None
):
    consumer = made(pending=10)
    ask(consumer, b"3")
    first, *_ = [deliver(consumer) for _ in range(3)]
    acked(consumer, first)
    last = FIRST + 9
    consumer.moved(FIRST + 6, 0, last, SECOND)
    assert consumer.lost == 2  # sent, and not acknowledged
    consumer.recount(last, SECOND, is_lost=True)
    consumer.recount(last, SECOND, is_lost=True)  # more is deleted before it is counted
    consumer.counted(2, 4, SECOND)  # too late
    consumer.counted(3, 3, SECOND)
    assert (consumer.lost, consumer.deliverer.ahead) == (2 + 7 - 3, 3)
    consumer.recount(last, SECOND)  # a purge loses nothing
    consumer.counted(4, 0, SECOND)
    assert consumer.lost == 6
