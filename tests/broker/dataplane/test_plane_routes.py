"""How the data plane finds routes for spans of the receive buffer, as the sublist finds them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testkit.model_digest import TWINS
from testkit.model_subject import tokens_match
from testkit.peer import Peer
from testkit.stage import QUIET, Stage
from tests.sublist.naive import TOKENS, literals, patterns
from tests.support.depth import examples
from tests.support.raw import operations

CROWD = 8192  # routes: from here on the next one is fetched ahead
COUNTERS = ("misses", "rechecks", "resolves", "evictions")


def counts(stage: Stage) -> tuple[int, ...]:
    figures = stage.sublist.statistics()
    return tuple(figures[name] for name in COUNTERS)


def wire(subjects: list[bytes]) -> bytes:
    return b"".join(b"PUB %b 1\r\nx\r\n" % subject for subject in subjects)


def heard(peer: Peer) -> list[tuple[bytes, bytes]]:
    return [(one.subject, one.sid) for one in operations(peer.take())]


changes = st.lists(
    st.one_of(
        st.tuples(st.just("SUB"), st.one_of(patterns(), literals)),
        st.tuples(st.just("UNSUB"), st.sampled_from([b"0", b"1", b"2", b"3"])),
        st.tuples(st.just("PUB"), literals),
        st.tuples(st.just("PUB"), st.sampled_from([b".".join(TOKENS), b"a" * 16, b"a" * 17])),
    ),
    max_size=40,
)


@settings(max_examples=examples(200))
@given(played=changes, most=st.sampled_from([16, 1 << 18]))
def test_given_any_changes_between_messages_then_a_naive_matcher_finds_the_same(
    played: list[tuple[str, bytes]], most: int
) -> None:
    stage = Stage(max_routes=most)
    ear, publisher = stage.join(QUIET, frame="none"), stage.join(QUIET)
    wanted: dict[bytes, bytes] = {}
    latest = b"none"
    for turn, (kind, word) in enumerate(played):
        if kind == "SUB":
            sid = b"%d" % turn
            wanted[sid] = word
            ear.send(b"SUB %b %b\r\n" % (word, sid))
        elif kind == "UNSUB":
            wanted.pop(word, None)
            ear.send(b"UNSUB %b\r\n" % word)
        else:
            latest = word
        publisher.send(wire([latest, latest]))  # again after each change
        expected = sorted((latest, sid) for sid, p in wanted.items() if tokens_match(p, latest))
        assert sorted(heard(ear)) == sorted(2 * expected)


def test_given_known_subjects_then_no_message_looks_in_the_trie() -> None:
    stage = Stage()
    subjects = [b"t.%d" % number for number in range(500)]
    publisher = stage.join(QUIET)
    publisher.send(wire(subjects))
    assert counts(stage) == (500, 0, 500, 0)
    publisher.send(wire(subjects) * 3)
    assert counts(stage) == (500, 0, 500, 0)


def test_given_a_literal_sub_and_unsub_then_only_its_own_route_is_looked_up_again() -> None:
    stage = Stage()
    subjects = [b"t.%d" % number for number in range(500)]
    ear, publisher = stage.join(QUIET), stage.join(QUIET)
    publisher.send(wire(subjects))
    for line in (b"SUB t.7 1\r\n", b"UNSUB 1\r\n"):
        misses, rechecks, resolves, _ = counts(stage)
        ear.send(line)
        publisher.send(wire(subjects))
        assert counts(stage) == (misses, rechecks + 1, resolves + 1, 0)


def test_given_a_wildcard_sub_and_unsub_then_routes_are_compared_and_only_its_own_looked_up() -> (
    None
):
    stage = Stage()
    subjects = [b"t.%d.x" % number for number in range(500)]
    ear, publisher = stage.join(QUIET), stage.join(QUIET)
    publisher.send(wire(subjects))
    for line in (b"SUB t.7.* 1\r\n", b"UNSUB 1\r\n"):
        misses, rechecks, resolves, _ = counts(stage)
        ear.send(line)
        publisher.send(wire(subjects) * 2)
        assert counts(stage) == (misses, rechecks + 500, resolves + 1, 0)


@pytest.mark.parametrize("size", [1, 15, 16, 17, 200])
def test_given_subjects_that_differ_in_their_last_byte_then_each_has_its_own_subscribers(
    size: int,
) -> None:
    stage = Stage()
    subjects = [b"s" * (size - 1) + bytes([letter]) for letter in b"abcxyz"]
    ear = stage.join(QUIET, frame="none")
    for number, subject in enumerate(subjects):
        ear.send(b"SUB %b %d\r\n" % (subject, number))
    stage.join(QUIET).send(wire(subjects * 2))
    assert heard(ear) == [(subject, b"%d" % n) for n, subject in enumerate(subjects)] * 2


@pytest.mark.parametrize("pair", TWINS)
def test_given_two_subjects_with_one_digest_then_neither_gets_the_others_messages(
    pair: tuple[bytes, bytes],
) -> None:
    stage = Stage()
    assert len({stage.sublist.digest_of(subject) for subject in pair}) == 1
    ear = stage.join(QUIET + b"SUB %b 1\r\nSUB %b 2\r\n" % pair, frame="none")
    stage.join(QUIET).send(wire([*pair, *reversed(pair)]))
    assert heard(ear) == [(pair[0], b"1"), (pair[1], b"2"), (pair[1], b"2"), (pair[0], b"1")]


def test_given_more_routes_than_a_cache_holds_then_fetching_ahead_changes_nothing() -> None:
    stage = Stage()
    subjects = [b"far.%d" % number for number in range(CROWD + 500)]
    ear = stage.join(QUIET + b"SUB far.* 1\r\n", frame="none")
    publisher = stage.join(QUIET)
    for _ in range(2):
        publisher.send(wire(subjects))
        assert [subject for subject, _ in heard(ear)] == subjects
    assert counts(stage)[0] == len(subjects), "each was looked up once"
    # What comes next is not always a plain PUB, and not always whole.
    publisher.send(
        b"PING\r\nPUB far.1 1\r\nx\r\npub far.2 r 1\r\nx\r\nPUB\tfar.3 1\r\nx\r\nPUB far"
    )
    publisher.send(
        b".4 1\r\nx\r\nPUB nowhere 1\r\nx\r\nPUB far.5 1\r\n", b"x\r\nPUB far.6 1\r\nx\r\n"
    )
    assert [subject for subject, _ in heard(ear)] == [b"far.%d" % n for n in range(1, 7)]


def test_given_fewer_routes_than_subjects_then_the_table_stays_bounded_and_right() -> None:
    stage = Stage(max_routes=64)
    subjects = [b"m.%d" % number for number in range(1000)]
    ear = stage.join(QUIET + b"SUB m.* 1\r\nSUB m.500 2\r\n", frame="none")
    stage.join(QUIET).send(wire(subjects))
    found = heard(ear)
    assert [subject for subject, sid in found if sid == b"1"] == subjects
    assert [subject for subject, sid in found if sid == b"2"] == [b"m.500"]
    assert stage.sublist.routes <= 64 + 8
