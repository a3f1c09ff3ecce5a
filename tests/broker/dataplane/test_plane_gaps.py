"""No gap for `>`: a subscriber of everything sees every number, or gets it reported as lost.

Publishers send arbitrary bytes. One subscriber reads as they come, one lags and is served from the
journal, one asks for the whole past at the end: all three must have every number.
"""

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sequencer.journal.store import Store
from testkit.messages import Message
from testkit.model_frame import split_frame
from testkit.peer import Peer
from testkit.stage import HEADS, QUIET, Stage
from tests.support.depth import examples
from tests.support.raw import operations
from tests.support.stores import WINDOW, in_memory

LOUD = b'CONNECT {"verbose":true,"pedantic":true,"headers":true,"no_responders":true}\r\n'
WORDS = [b"a", b"b", b"*", b">", b"$SEQ", b"PUB", b"END", b"_GR_", b"_R_", b"$NRG", b"ex", b"\0"]
parts = st.sampled_from([*WORDS, b".", b".", b"..", b"\xff", b"x" * 300, b".t" * 600])
subjects = st.lists(parts, min_size=1, max_size=6).map(b"".join)
subjects = subjects | subjects.map(b"$SEQ.PUB.".__add__)
header_blocks = st.sampled_from([b"", b"junk", b"NATS/1.0\r\nNats-Msg-Id: 1\r\n\r\n"])
messages = st.builds(
    Message,
    subjects,
    st.sampled_from([b"", b"x", b"y" * 900]),
    header_blocks,
    st.just(b"") | subjects,
)
noise = st.binary(max_size=40) | st.lists(
    st.sampled_from([b"PUB ", b"HPUB ", b"\r\n", b"1", b" ", b"a..b", b".", b"SUB > 1", b"\0"]),
    max_size=8,
).map(b"".join)
wires = messages.map(lambda one: one.wire) | noise


def numbers(peer_heard: bytes) -> list[int]:
    """What was seen, and what was told as lost."""
    found: list[int] = []
    for one in operations(peer_heard):
        if one.verb == "MSG" and one.subject.startswith(b"$SEQ.LOST."):
            first, last = map(int, one.subject.split(b".")[2:])
            found += range(first, last + 1)
        elif one.verb in ("MSG", "HMSG") and not one.subject.startswith(b"ex."):
            found.append(split_frame(one.payload)[0])
    return found


def catch_up(stage: Stage, peer: Peer) -> bytes:
    heard = peer.resume()
    stage.loop.run()
    return heard + peer.resume()


@settings(max_examples=examples(150))
@given(sends=st.lists(st.tuples(st.booleans(), wires), min_size=1, max_size=12))
@example(sends=[(True, Message(b, b"x").wire) for b in (b"a..b", b".a", b"a.", b".", b"a")])
def test_given_any_bytes_of_publishers_then_who_has_everything_misses_no_number(
    sends: list[tuple[bool, bytes]],
) -> None:
    with in_memory() as path:
        store = Store.open(str(path), 1, window_bytes=WINDOW)
        stage = Stage(journal=store, exclude=[b"ex.>"], catchup_pending=1500)
        live, late = stage.join(HEADS), stage.join(HEADS)
        for peer in (live, late):
            peer.send(b"SUB > 1\r\n")
        late.stall()
        for loud, wire in sends:
            publisher = stage.join(LOUD if loud else HEADS)
            publisher.send(wire)
            publisher.leave()
        last = stage.number
        every = list(range(1, last + 1))
        assert numbers(live.take()) == every
        assert numbers(catch_up(stage, late)) == every
        past = stage.join(HEADS)
        past.send(b"SUB $SEQ.FROM.1.> 1\r\n")
        assert numbers(catch_up(stage, past)) == every
        store.close()


@pytest.mark.parametrize("subject", [b"a..b", b".a", b"a.", b".", b"..", b"a.b.", b"\0..", b"*..>"])
@pytest.mark.parametrize("head", [b"", b"NATS/1.0\r\nNats-Msg-Id: 1\r\n\r\n"])
def test_given_a_subject_that_nothing_can_match_then_it_has_no_number_and_no_record(
    tmp_path: Path, subject: bytes, head: bytes
) -> None:
    store = Store.open(str(tmp_path), 1, window_bytes=WINDOW)
    stage = Stage(journal=store)
    ear = stage.join(QUIET + b"SUB > 1\r\n")
    quiet, loud = stage.join(HEADS), stage.join(LOUD)
    sent = Message(subject, b"x", head)
    assert quiet.ask(sent.wire) == b""
    assert loud.ask(sent.wire) == b"-ERR 'Invalid Publish Subject'\r\n+OK\r\n"
    assert (stage.number, store.last, ear.take()) == (0, 0, b"")
    quiet.send(Message(b"a", b"x", head).wire)
    assert stage.number == 1, "nor was its id remembered"
    store.close()
