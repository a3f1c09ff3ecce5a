"""`$SEQ.STAGE`, `$SEQ.COMMIT`, `$SEQ.ABORT` and `$SEQ.BATCH`, as a client sees them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from tests.support.raw import HEADERS, QUIET
from tests.support.serving import Broker, serving
from tests.support.staging import ALONE, LISTEN, Batch, Publisher, Refused, piece, request

ROW = b"PUB orders 5\r\nhello\r\n"
MILLION = 1_000_000


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    flags = {"sequencer.exclude": "open.>", "staging.max_bytes": "5MB", "staging.max_stages": "5"}
    flags |= ALONE
    with serving(tmp_path / "store", flags=flags) as broker:
        yield broker


@pytest.fixture
def publisher(broker: Broker) -> Publisher:
    return Publisher(broker)


def commit_of(stages: dict[str, bytes], batch: int = 1, **other: Any) -> bytes:
    named = [{"stage": k, "bytes": len(v), "crc32": crc32(v)} for k, v in stages.items()]
    return request("COMMIT", {"application": "app", "batch": batch, "stages": named, **other})


def test_given_a_batch_when_committed_then_it_is_published_in_the_order_of_its_stages(
    broker: Broker, publisher: Publisher
) -> None:
    reader = broker.client(HEADERS + b"SUB > 1\r\n")
    publisher.client.publish(b"before", b"x")
    headed = b"HPUB orders.eu answers 18 23\r\nNATS/1.0\r\nA: b\r\n\r\nhello\r\n"
    assert publisher.one(piece("app", 1, "b", 0, ROW + headed)) == {"bytes": 76, "rows": 2}
    assert publisher.one(piece("app", 1, "a", 0, ROW * 3)) == {"bytes": 63, "rows": 3}
    reader.ask(b"")
    answer = publisher.one(commit_of({"a": ROW * 3, "b": ROW + headed}))
    assert answer == {
        **{"application": "app", "batch": 1, "first": 2, "last": 6, "rows": 5},
        "repeated": False,
    }
    heard = [one for one in reader.ask(b"") if one.subject.startswith(b"orders")]
    assert [one.payload for one in heard] == [b"12:1:%d,5:hello,," % at for at in range(2, 7)]
    assert (heard[-1].subject, heard[-1].reply) == (b"orders.eu", b"answers")
    assert heard[-1].header == b"NATS/1.0\r\nA: b\r\n\r\n"


def test_given_a_batch_that_was_committed_when_committed_again_then_nothing_is_published(
    broker: Broker, publisher: Publisher
) -> None:
    first = publisher.publish(Batch("app", 3, 40, stages=2))
    replayed = Batch("app", 3, 40, stages=3, attempt=1)
    assert publisher.publish(replayed) == first | {"repeated": True}
    assert publisher.one(Batch("app", 2, 9).commit()) == {
        **{"application": "app", "batch": 2, "first": 0, "last": 0, "rows": 0},
        "repeated": True,
    }
    assert broker.server.last_number == 40
    asked = publisher.one(request("BATCH", {"application": "app"}))
    assert isinstance(asked, dict)
    assert asked.pop("time") > 1_700_000_000_000
    assert asked == {
        **{"application": "app", "batch": 3, "first": 1, "last": 40, "rows": 40},
        "committing": None,
    }
    assert broker.server.staging is not None
    assert len(broker.server.staging.stages) == 0, "what the replay has staged is dropped"


def test_given_one_batch_asked_for_by_several_then_all_of_them_hear_of_its_end(
    broker: Broker, publisher: Publisher
) -> None:
    batch, other = Batch("app", 1, 2000, stages=2), Batch("app", 1, 2000, attempt=1)
    publisher.stage(batch)
    publisher.stage(other)
    later = Batch("app", 2, 1)
    publisher.stage(later)
    told = publisher.ask(batch.commit(), batch.commit(), other.commit(), later.commit())
    assert told[0] == Refused(409, "Batch 1 of it is being committed")
    repeated = [one["repeated"] for one in told[1:] if isinstance(one, dict)]
    assert repeated == [False, False, True]
    assert broker.server.last_number == 2000


def test_given_an_unknown_application_when_asked_for_its_batch_then_there_is_none(
    publisher: Publisher,
) -> None:
    assert publisher.one(request("BATCH", {"application": "new"})) == {
        **{"application": "new", "batch": None, "first": 0, "last": 0, "rows": 0, "time": 0},
        "committing": None,
    }


def test_given_no_rows_when_committed_then_the_batch_counts_all_the_same(
    broker: Broker, publisher: Publisher
) -> None:
    assert publisher.one(piece("app", 1, "s", 0, b"")) == {"bytes": 0, "rows": 0}
    wanted = {"application": "app", "first": 0, "last": 0, "rows": 0, "repeated": False}
    assert publisher.one(commit_of({"s": b""})) == wanted | {"batch": 1}
    assert publisher.one(commit_of({}, 2)) == wanted | {"batch": 2}
    assert broker.server.last_number == 0


@pytest.mark.parametrize("size", [1, 3, 20, 21, 22, 50])
def test_given_pieces_cut_anywhere_when_staged_then_whole_rows_are_counted(
    publisher: Publisher, size: int
) -> None:
    data = ROW * 4
    for at in range(0, len(data), size):
        end = min(at + size, len(data))
        asked = piece("app", 1, "s", at, data[at:end])
        assert publisher.one(asked) == {"bytes": end, "rows": end // len(ROW)}
    assert publisher.one(commit_of({"s": data})) == {
        **{"application": "app", "batch": 1, "first": 1, "last": 4, "rows": 4, "repeated": False}
    }


def test_given_a_row_of_the_largest_size_when_staged_in_pieces_then_it_is_published(
    broker: Broker, publisher: Publisher
) -> None:
    size = broker.server.settings.limits.max_payload
    row = b"PUB large %d\r\n%b\r\n" % (size, b"x" * size)
    data = ROW + row + ROW
    step = 300_000
    told = publisher.ask(
        *(piece("app", 1, "s", at, data[at : at + step]) for at in range(0, len(data), step))
    )
    assert [one["rows"] for one in told if isinstance(one, dict)] == [1, 1, 1, 3]
    answer = publisher.one(commit_of({"s": data}))
    assert isinstance(answer, dict)
    assert (answer["rows"], broker.server.last_number) == (3, 3)


def test_given_a_piece_that_is_there_when_sent_again_then_it_is_answered_the_same(
    publisher: Publisher,
) -> None:
    data = ROW * 10
    publisher.one(piece("app", 1, "s", 0, data[:100]))
    assert publisher.one(piece("app", 1, "s", 0, data[:100])) == {"bytes": 100, "rows": 4}
    assert publisher.one(piece("app", 1, "s", 50, data[50:60])) == {"bytes": 100, "rows": 4}
    assert publisher.one(piece("app", 1, "s", 90, data[90:])) == {"bytes": 210, "rows": 10}
    told = publisher.one(piece("app", 1, "s", 300, ROW))
    assert told == Refused(409, "This stage has 210 bytes", 210)
    assert publisher.one(piece("app", 1, "t", 5, ROW)) == Refused(409, "This stage has 0 bytes", 0)
    assert isinstance(publisher.one(commit_of({"s": data})), dict)


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (b"PUB $SEQ.INFO 1\r\nx\r\n", '"$SEQ.INFO" cannot be published to'),
        (b"PUB $SEQ.PUB.a 1\r\nx\r\n", '"$SEQ.PUB.a" cannot be published to'),
        (b"PUB $SEQ.PUB.a..b 1\r\nx\r\n", '"$SEQ.PUB.a..b" cannot be published to'),
        (b"PUB $NRG.a 1\r\nx\r\n", '"$NRG.a" cannot be published to'),
        (b"PUB open.a 1\r\nx\r\n", '"open.a" is excluded from sequencing'),
        (b"PUB a _R_.b 1\r\nx\r\n", 'the reply "_R_.b" is a reserved subject'),
        (b"PUB a 1000000000\r\n", "the size is not a number of 1 to 9 digits"),
        (b"PUB a 2000000\r\n", "2000000 bytes announced; max_payload is 1048576"),
        (
            b"PUB %b 1\r\n" % (b"a" * 5000),
            "5002 bytes of arguments; max_control_line is 4096",
        ),
        (b"PUB a 1\r\nxyz", "a payload does not end with CR LF"),
        (b"SUB a 1\r\n", "is not a PUB or an HPUB"),
        (b"+OK\r\n", "is not a PUB or an HPUB"),
        (b"HPUB a 9 1\r\n", "the headers are larger than the whole"),
    ],
)
def test_given_a_row_that_cannot_be_published_when_staged_then_it_is_named_and_the_stage_goes(
    publisher: Publisher, row: bytes, why: str
) -> None:
    publisher.one(piece("app", 1, "s", 0, ROW * 2))
    told = publisher.one(piece("app", 1, "s", 2 * len(ROW), ROW + row))
    assert told == Refused(400, f"Row 4 of stage s: {why}")
    assert publisher.one(commit_of({"s": ROW * 2})) == Refused(
        404, "Stage s is not here: it expired, or never was"
    )
    assert publisher.one(piece("app", 1, "s", 0, ROW)) == {"bytes": 21, "rows": 1}


def test_given_any_subject_that_pub_numbers_when_staged_then_it_gets_a_number(
    broker: Broker, publisher: Publisher
) -> None:
    subjects = [b"a.*", b"*", b">", b">.a", b"a.>"]
    subjects += [b"$SEQ", b"_GR_", b"$GR", b"$SYS.x", b"a\x00\r\x7f", b"\xff", b"\na"]
    data = b"".join(b"PUB %b 1\r\nx\r\n" % subject for subject in subjects)
    told = publisher.one(piece("app", 1, "s", 0, data))
    assert told == {"bytes": len(data), "rows": len(subjects)}
    assert isinstance(publisher.one(commit_of({"s": data})), dict)
    assert broker.server.last_number == len(subjects)
    assert publisher.client.ask(data) == []
    assert broker.server.last_number == 2 * len(subjects), "PUB numbers them all"


@pytest.mark.parametrize("subject", [b"a..x", b"..", b".", b".a", b"a.", b"_GR_.", b"$GR."])
def test_given_a_row_that_no_subscription_could_match_then_it_is_refused_as_pub_gives_no_number(
    broker: Broker, publisher: Publisher, subject: bytes
) -> None:
    row = b"PUB %b 1\r\nx\r\n" % subject
    told = publisher.one(piece("app", 1, "s", 0, ROW + row))
    why = f'"{subject.decode()}" cannot be published to: it has an empty token, so no subscription'
    assert told == Refused(400, f"Row 2 of stage s: {why} could match it")
    assert publisher.client.ask(row) == []
    assert broker.server.last_number == 0


def test_given_stages_that_are_not_as_they_are_asked_for_then_the_commit_is_refused(
    broker: Broker, publisher: Publisher
) -> None:
    publisher.one(piece("app", 1, "s", 0, ROW))
    publisher.one(piece("app", 1, "cut", 0, ROW[:-1]))
    publisher.one(piece("app", 1, "verb", 0, ROW + b"PU"))
    for stages, refused in (
        ({"x": ROW}, (404, "Stage x is not here: it expired, or never was")),
        ({"s": ROW + b"x"}, (409, "Stage s has 21 bytes, not 22")),
        ({"s": ROW.upper()}, (409, "Stage s has another checksum")),
        ({"cut": ROW[:-1]}, (409, "Stage cut ends in the middle of a row")),
        ({"s": ROW, "verb": ROW + b"PU"}, (409, "Stage verb ends in the middle of a row")),
    ):
        assert publisher.one(commit_of(stages)) == Refused(*refused)
    assert broker.server.last_number == 0
    assert isinstance(publisher.one(commit_of({"s": ROW})), dict)


def test_given_stages_when_aborted_then_those_are_dropped_and_no_others(
    publisher: Publisher,
) -> None:
    for batch, name in ((1, "a"), (1, "b"), (1, "c"), (2, "a")):
        publisher.one(piece("app", batch, name, 0, ROW))
    abort = {"application": "app", "batch": 1, "stages": ["a", "none"]}
    assert publisher.one(request("ABORT", abort)) == {"dropped": 1}
    assert publisher.one(request("ABORT", {"application": "app", "batch": 1})) == {"dropped": 2}
    assert publisher.one(request("ABORT", {"application": "app", "batch": 1})) == {"dropped": 0}
    assert isinstance(publisher.one(commit_of({"a": ROW}, 2)), dict)


def test_given_a_batch_that_is_being_committed_then_it_is_neither_aborted_nor_added_to(
    publisher: Publisher,
) -> None:
    batch = Batch("app", 1, 500)
    publisher.stage(batch)
    told = publisher.ask(
        batch.commit(),
        request("ABORT", {"application": "app", "batch": 1}),
        piece("app", 1, "0-0", len(batch.parts["0-0"]), ROW),
        request("BATCH", {"application": "app"}),
    )
    assert told[0] == Refused(409, "Batch 1 of it is being committed")
    size = len(batch.parts["0-0"])
    assert told[1] == Refused(409, "This stage is being committed", size)
    assert isinstance(told[2], dict)
    assert (told[2]["batch"], told[2]["committing"]) == (None, 1)
    assert isinstance(told[3], dict)
    assert told[3]["rows"] == 500


def test_given_ids_that_are_known_when_committed_then_every_row_is_published(
    broker: Broker, publisher: Publisher
) -> None:
    headed = b"HPUB orders 27 32\r\nNATS/1.0\r\nNats-Msg-Id:7\r\n\r\nhello\r\n"
    publisher.client.ask(headed * 2)
    assert broker.server.last_number == 1
    publisher.one(piece("app", 1, "s", 0, headed * 2))
    publisher.one(commit_of({"s": headed * 2}))
    assert broker.server.last_number == 3


def test_given_more_than_may_be_staged_then_it_is_refused_and_what_is_there_stays(
    publisher: Publisher,
) -> None:
    large = b"PUB a %d\r\n%b\r\n" % (MILLION, b"x" * MILLION)
    half = len(large) // 2
    for name in "abcd":
        publisher.ask(
            piece("app", 1, name, 0, large[:half]), piece("app", 1, name, half, large[half:])
        )
    publisher.one(piece("app", 1, "e", 0, large[:half]))
    told = publisher.one(piece("app", 1, "e", half, large[half:] + large[:half]))
    assert told == Refused(413, "5000000 bytes are staged at most (staging.max_bytes)")
    assert publisher.one(piece("app", 1, "f", 0, ROW)) == Refused(
        429, "There are 5 stages (staging.max_stages)"
    )
    publisher.one(request("ABORT", {"application": "app", "batch": 1, "stages": ["a"]}))
    told = publisher.one(piece("app", 1, "e", half, large[half:]))
    assert told == {"bytes": len(large), "rows": 1}
    assert isinstance(publisher.one(commit_of(dict.fromkeys("be", large))), dict)


def test_given_more_applications_than_are_remembered_then_a_new_one_is_refused(
    tmp_path: Path,
) -> None:
    with serving(tmp_path, flags={"staging.max_applications": "2", **ALONE}) as broker:
        publisher = Publisher(broker)
        for name in ("a", "b"):
            publisher.publish(Batch(name, 1, 1))
        publisher.stage(Batch("c", 1, 1))
        assert publisher.one(Batch("c", 1, 1).commit()) == Refused(
            429, "2 applications are known, the maximum (staging.max_applications)"
        )
        assert publisher.publish(Batch("a", 2, 1))["first"] == 3


def test_given_a_client_without_headers_then_the_error_says_what_to_send(broker: Broker) -> None:
    client = broker.client(QUIET + LISTEN)
    (told,) = client.ask(request("BATCH", {"application": "a"}))
    assert b"send headers:true in CONNECT" in told.text


def test_given_no_reply_then_it_is_refused(broker: Broker) -> None:
    client = broker.client(HEADERS)
    (told,) = client.ask(b"PUB $SEQ.COMMIT 2\r\n{}\r\n")
    assert b'Publish to "$SEQ.COMMIT": a reply subject is needed' in told.text
    (told,) = client.ask(b"PUB $SEQ.COMMIT.x a 2\r\n{}\r\n")
    assert told.text == b"'Permissions Violation for Publish to \"$SEQ.COMMIT.x\"'"


def test_given_a_verbose_client_then_it_gets_ok_and_the_answer(broker: Broker) -> None:
    client = broker.client(b'CONNECT {"verbose":true,"pedantic":false,"headers":true}\r\n')
    client.ask(LISTEN)
    told = client.ask(piece("app", 1, "s", 0, ROW))
    while len(told) < 2:
        told += client.ask(b"")
    assert [one.verb for one in told] == ["+OK", "MSG"]
    assert json.loads(told[1].payload) == {"bytes": 21, "rows": 1}


def test_given_staging_that_is_switched_off_then_it_is_forbidden(tmp_path: Path) -> None:
    with serving(tmp_path, flags={"staging.max_bytes": "0"}) as broker:
        client = broker.client(HEADERS + LISTEN)
        (told,) = client.ask(piece("app", 1, "s", 0, ROW))
        assert b'for Publish to "$SEQ.STAGE": staging is turned off (staging.max_b' in told.text
        assert not (tmp_path / "staging").exists()


def test_given_no_staging_then_nothing_of_it_is_there(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:
        broker.client().publish(b"a", b"b")
        assert broker.server.staging is None
    assert not (tmp_path / "staging").exists()
