"""The byte machine, verb by verb: what each operation's spans hold, and what waits for more."""

import pytest

from parser.machine import Parser
from parser.ops import MORE, PING, PUB
from parser.table import PUB_ARGUMENT, START
from tests.parser.reading import Said, read, read_bytes, read_whole


@pytest.mark.parametrize(
    ("wire", "operation"),
    [
        (b"PUB a 1\r\nx\r\n", Said("PUB", (b"a", b"", b"1"), b"x")),
        (b"PUB a 0\r\n\r\n", Said("PUB", (b"a", b"", b"0"), b"")),
        (b"PUB a 005\r\nhello\r\n", Said("PUB", (b"a", b"", b"005"), b"hello")),
        (b"PUB a 4\r\n\r\n\r\n\r\n", Said("PUB", (b"a", b"", b"4"), b"\r\n\r\n")),
        (b"PUB a r.1 1\r\nx\r\n", Said("PUB", (b"a", b"r.1", b"1"), b"x")),
        (b"pUb\t a \tr\t 1 \t\r\nx\r\n", Said("PUB", (b"a", b"r", b"1"), b"x")),
        (b"PUB a 1\nx\r\n", Said("PUB", (b"a", b"", b"1"), b"x")),
        (b"PUB a 000000001\r\nx\r\n", Said("PUB", (b"a", b"", b"000000001"), b"x")),
        (b"PUB a\r1 1\r\nx\r\n", Said("PUB", (b"a\r1", b"", b"1"), b"x")),
        (b"PUB \n a 1\r\nx\r\n", Said("PUB", (b"\n", b"a", b"1"), b"x")),
        (b"PUB \xff 1\r\n\x00\r\n", Said("PUB", (b"\xff", b"", b"1"), b"\0")),
        (b"HPUB a 2 3\r\nhhx\r\n", Said("HPUB", (b"a", b"", b"2", b"3"), b"hhx", 2)),
        (b"HPUB a r 2 3\r\nhhx\r\n", Said("HPUB", (b"a", b"r", b"2", b"3"), b"hhx", 2)),
        (b"hpub a 0 00\r\n\r\n", Said("HPUB", (b"a", b"", b"0", b"00"), b"")),
        (b"SUB a 1\r\n", Said("SUB", (b"a", b"", b"1"))),
        (b"sub\ta.*\tq\tsid\r\n", Said("SUB", (b"a.*", b"q", b"sid"))),
        (b"SUB a\r1\r\r\n", Said("SUB", (b"a", b"", b"1"))),
        (b"SUB \na 1\r\n", Said("SUB", (b"a", b"", b"1"))),
        (b"UNSUB 1\n", Said("UNSUB", (b"1", b"", b""))),
        (b"UNSUB 1 5\r\n", Said("UNSUB", (b"1", b"", b"5"))),
        (b"UNSUB 1 -5\r\n", Said("UNSUB", (b"1", b"", b"-5"))),
        (b"UNSUB \nPING\r\n", Said("UNSUB", (b"PING", b"", b""))),
        (b"CONNECT {}\r\n", Said("CONNECT", (b"{}",))),
        (b"connect{ }\n", Said("CONNECT", (b"{ }",))),
        (b"CONNECT \t {} \r\n", Said("CONNECT", (b"{} ",))),
        (b"CONNECT\r\r\n", Said("CONNECT", (b"\r",))),
        (b"CONNECT \n{}\r\n", Said("CONNECT", (b"\n{}",))),
        (b"CONNECTx\r\n", Said("CONNECT", (b"x",))),
        (b"INFO {}\r\n", Said("INFO", (b"{}",))),
        (b"info{}\r\n", Said("INFO", (b"{}",))),
        (b"PING\r\n", Said("PING")),
        (b"ping\n", Said("PING")),
        (b"PINGxyz \x00\r\n", Said("PING")),
        (b"PONG\r\n", Said("PONG")),
        (b"+OK\r\n", Said("IGNORED")),
        (b"+ok whatever\n", Said("IGNORED")),
    ],
    ids=lambda value: repr(value)[2:-1] if isinstance(value, bytes) else "",
)
def test_given_one_operation_when_read_then_its_spans_are_these(
    wire: bytes, operation: Said
) -> None:
    assert read_whole(wire) == [operation]
    assert read_bytes(wire) == [operation]
    assert read_whole(wire * 3) == [operation] * 3


def test_given_operations_in_one_read_then_they_come_in_order_and_nothing_is_kept() -> None:
    parser = Parser()
    wire = b"PUB a 1\r\n1\r\nPING\r\nSUB b 2\r\nPUB a 1\r\n2\r\n+OK\r\n"
    found = read(parser, [wire])
    assert [one.op for one in found] == ["PUB", "PING", "SUB", "PUB", "IGNORED"]
    assert [one.body for one in found if one.op == "PUB"] == [b"1", b"2"]


@pytest.mark.parametrize(
    "wire",
    [
        b"",
        b"P",
        b"PUB",
        b"PUB ",
        b"PUB a",
        b"PUB a 5",
        b"PUB a 5\r",
        b"PUB a 5\r\n",
        b"PUB a 5\r\nhell",
        b"PUB a 5\r\nhello",
        b"PUB a 5\r\nhello\r",
        b"HPUB a 5",
        b"HPUB a 1 5\r\nhello\r",
        b"SUB a 1",
        b"SUB a 1\r",
        b"-ERR x",
        b"PING",
        b"PING never mind",
        b"CONNECT {}",
        b"SUB" + b" " * 9000,
    ],
    ids=lambda wire: repr(wire[:20])[2:-1],
)
def test_given_an_unfinished_operation_when_read_then_it_waits(wire: bytes) -> None:
    assert read_whole(wire) == []
    assert read_bytes(wire) == []


def test_given_a_verb_in_pieces_when_waiting_then_no_byte_need_be_kept() -> None:
    parser = Parser()
    buffer = bytearray(b"PING and what follows without a line feed")
    parser.attach(buffer, 0, len(buffer))
    assert parser.next() == MORE
    assert parser.at == len(buffer), "the state remembers it"
    assert parser.need == 0
    parser.attach(bytearray(b"\n"), 0, 1)
    assert parser.next() == PING


@pytest.mark.parametrize("here", range(len(b"PUB a r 11\r\nhello world\r\n")))
def test_given_a_publish_in_two_pieces_then_need_says_how_long_it_is_once_that_is_known(
    here: int,
) -> None:
    wire = b"PUB a r 11\r\nhello world\r\n"
    kept_from = len(b"PUB ")
    parser = Parser()
    parser.attach(bytearray(wire[:here]), 0, here)
    assert parser.next() == MORE
    assert parser.at == min(here, kept_from), "its arguments are kept, its verb is not"
    line_end = wire.index(b"\n") + 1
    assert parser.need == (len(wire) - kept_from if here >= line_end else 0)
    assert parser.state == (PUB_ARGUMENT if here > kept_from else parser.state)
    kept = wire[parser.at :]
    parser.attach(bytearray(kept), 0, len(kept))
    assert parser.next() == PUB
    assert (parser.state, parser.at) == (START, len(kept))
    assert kept[parser.body : parser.body + parser.size] == b"hello world"


def test_given_a_finished_publish_when_read_on_then_its_reply_is_not_the_next_ones() -> None:
    lines = (b"PUB a r 1", b"PUB a 1", b"HPUB a 0 1", b"hpub a r 0 1", b"pub a 1")
    replies = [one.words[1] for one in read_whole(b"".join(b"%b\r\nx\r\n" % x for x in lines))]
    assert replies == [b"r", b"", b"", b"r", b""]


def test_given_a_sub_with_a_queue_then_the_next_subs_queue_and_the_next_unsubs_max_are_empty() -> (
    None
):
    words = [one.words for one in read_whole(b"SUB a q 1\r\nSUB a 2\r\nUNSUB 1 4\r\nUNSUB 1\r\n")]
    assert words == [
        (b"a", b"q", b"1"),
        (b"a", b"", b"2"),
        (b"1", b"", b"4"),
        (b"1", b"", b""),
    ]


def test_given_a_span_outside_the_buffer_when_begun_then_it_is_refused() -> None:
    parser = Parser()
    for start, stop in ((-1, 2), (0, 5), (3, 2)):
        with pytest.raises(AssertionError, match="the span must lie in the buffer"):
            parser.attach(bytearray(4), start, stop)


@pytest.mark.parametrize(
    ("wire", "size_seen"),
    [
        (b"PUB a 1\r\nx\r\n", 1),
        (b"PUB abc 10\r", 3),
        (b"PING\r\nPING\r\n", 0),
        (b"pub a 1\r\nx\r\n", 0),
        (b"SUB abcdef 1\r\n", 0),
        (b"PUB a 1\r", 0),  # too short to be whole
        (b"", 0),
    ],
)
def test_given_what_comes_next_when_peeked_at_then_only_a_plain_pub_has_a_subject(
    wire: bytes, size_seen: int
) -> None:
    parser = Parser()
    parser.attach(bytearray(wire), 0, len(wire))
    assert parser.peek() == size_seen


def test_given_a_peeked_subject_when_the_buffer_changes_then_it_is_scanned_again() -> None:
    parser = Parser()
    parser.attach(bytearray(b"PUB aaaa 1\r\nx\r\n"), 0, 15)
    assert (parser.peek(), parser.peeked) == (4, 4)
    parser.attach(bytearray(b"PUB bbb 1\r\nx\r\n"), 0, 14)
    assert parser.next() == PUB
    assert (parser.subject, parser.subject_end) == (4, 7)
