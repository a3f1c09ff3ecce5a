"""The window of message ids: exact by time and by count, the same as a naive one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequencer import msgids
from sequencer.msgids import (
    DIGEST_SIZE,
    FORGET_MAX,
    PLAIN_MAX,
    Window,
    id_of,
    kept_form,
    key_of,
    rebuild,
)

SECOND = 1_000_000_000


class NaiveWindow:
    """All that was ever added, looked through from the newest."""

    def __init__(self, window_ns: int, count_max: int) -> None:
        self.window_ns, self.count_max = window_ns, count_max
        self.added: list[tuple[bytes, int, int]] = []

    def find(self, message_id: bytes, now: int) -> int:
        for known, number, time in reversed(self.added[-self.count_max :]):
            if known == message_id and now - time < self.window_ns:
                return number
        return 0


ids = st.sampled_from([b"a", b"b", b"c", b"d" * 63, b"d" * 64, b"d" * 65, b"\xff\0"])
steps = st.lists(st.tuples(ids, st.sampled_from([0, 0, 1, 2, 5, 50])), max_size=60)


@given(steps=steps, window_ns=st.integers(1, 12), count_max=st.integers(1, 5), keep=st.booleans())
def test_given_any_messages_when_looked_up_then_the_window_is_as_a_naive_one(
    steps: list[tuple[bytes, int]], window_ns: int, count_max: int, keep: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(msgids, "KEPT_MIN", 4096 if keep else 1)
        patch.setattr(msgids, "FORGET_MAX", 2)
        window, naive = Window(window_ns, count_max), NaiveWindow(window_ns, count_max)
        now = number = duplicates = 0
        for message_id, passed in steps:
            now += passed
            found = window.find(message_id, now)
            assert found == naive.find(message_id, now)
            duplicates += found > 0
            if not found:
                number += 1
                window.add(message_id, number, now)
                naive.added.append((message_id, number, now))
            assert len(window) <= count_max
        assert window.duplicates == duplicates


@given(
    steps=st.lists(st.tuples(ids, st.sampled_from([0, 0, 1, 2]), st.integers(0, 20)), max_size=60),
    window_ns=st.integers(5, 30),
)
def test_given_cuts_when_looked_up_then_what_was_cut_has_never_come(
    steps: list[tuple[bytes, int, int]], window_ns: int
) -> None:
    window, naive = Window(window_ns, 1000), NaiveWindow(window_ns, 1000)
    now = number = 0
    for message_id, passed, cut in steps:
        now += passed
        if cut < 4:
            number = max(number - cut, 0)
            window.forget_above(number)
            naive.added = [one for one in naive.added if one[1] <= number]
        if not window.find(message_id, now):
            number += 1
            window.add(message_id, number, now)
            naive.added.append((message_id, number, now))
        assert window.newest == number
        for one in (b"a", b"b", b"d" * 65):
            assert window.find(one, now) == naive.find(one, now)


def test_given_an_id_that_was_added_twice_when_cut_then_the_window_goes_on() -> None:
    window = Window(10, 100)
    assert window.newest == 0
    window.add(b"a", 1, 0)
    window.add(b"a", 2, 0)  # by a coordinator whose own window had forgotten it
    window.forget_above(1)
    assert (len(window), window.newest, window.find(b"a", 0)) == (1, 1, 0)
    window.forget_above(0)
    assert (len(window), window.newest) == (0, 0)
    window.add(b"a", 1, 5)
    assert window.find(b"a", 5) == 1


def test_given_an_id_when_its_time_is_over_then_it_is_new_again() -> None:
    window = Window(120 * SECOND, 1000)
    window.add(b"order-7", 88485, 5 * SECOND)
    assert window.find(b"order-7", 125 * SECOND - 1) == 88485
    assert window.find(b"order-7", 125 * SECOND) == 0
    window.add(b"order-7", 88500, 125 * SECOND)
    window.add(b"order-8", 88501, 126 * SECOND)  # forgets the first entry, not the id
    assert window.find(b"order-7", 126 * SECOND) == 88500


def test_given_many_old_ids_when_one_is_added_then_only_some_are_forgotten_at_once() -> None:
    window = Window(SECOND, 10_000)
    for number in range(1, 1001):
        window.add(b"%d" % number, number, 0)
    window.add(b"late", 1001, 9 * SECOND)
    assert len(window) == 1001 - FORGET_MAX
    assert window.find(b"1000", 9 * SECOND) == 0, "what is still kept is not found"
    assert window.find(b"late", 9 * SECOND) == 1001


def test_given_ever_new_ids_when_added_then_what_is_kept_stays_bounded() -> None:
    window = Window(SECOND, 100)
    for number in range(1, 50_001):
        window.add(b"%d" % number, number, number)
    assert len(window) == len(window._positions) == 100
    assert len(window._keys) <= 100 + msgids.KEPT_MIN


def test_given_ids_of_any_length_when_kept_then_none_is_long_and_none_is_another() -> None:
    window = Window(SECOND, 100)
    longest = [b"x" * size for size in (PLAIN_MAX, PLAIN_MAX + 1, DIGEST_SIZE, 100_000)]
    for number, message_id in enumerate(dict.fromkeys(longest), 1):
        window.add(message_id, number, 0)
    digest = window._keys[1]
    assert len(digest) == DIGEST_SIZE
    assert window.find(digest, 0) == 0, "an id that is a digest is digested itself"
    assert [window.find(message_id, 0) for message_id in dict.fromkeys(longest)] == [1, 2, 3]


@pytest.mark.parametrize(
    ("headers", "message_id"),
    [
        (b"NATS/1.0\r\nNats-Msg-Id: order-7\r\n\r\n", b"order-7"),
        (b"NATS/1.0\r\nNats-Msg-Id:order-7\r\n\r\n", b"order-7"),
        (b"NATS/1.0\r\nNats-Msg-Id:   a b \r\n\r\n", b"a b "),
        (b"NATS/1.0\r\nNats-Msg-Id:\ta\r\n\r\n", b"\ta"),
        (b"NATS/1.0\r\nA: b\r\nNats-Msg-Id: 1\r\nNats-Msg-Id: 2\r\n\r\n", b"1"),
        (b"NATS/1.0\r\nX-Nats-Msg-Id: 1\r\nNats-Msg-Id: 2\r\n\r\n", b"2"),
        (b"NATS/1.0\r\nA: Nats-Msg-Id: 1\r\n\r\n", b""),
        (b"NATS/1.0\r\nNats-Msg-Ids: 1\r\n\r\n", b""),
        (b"NATS/1.0\r\nNats-Msg-Id : 1\r\n\r\n", b""),
        (b"NATS/1.0\r\nnats-msg-id: 1\r\n\r\n", b""),
        (b"NATS/1.0\r\nNats-Msg-Id:\r\n\r\n", b""),
        (b"NATS/1.0\r\nNats-Msg-Id: cut", b"cut"),
        (b"NATS/1.0\r\nNats-Msg-Id: a\nb\rc\r\n\r\n", b"a\nb\rc"),
        (b"Nats-Msg-Id: 1\r\n\r\n", b""),
        (b"NATS/1.0\r\n\r\n", b""),
        (b"", b""),
    ],
)
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_given_headers_when_read_then_the_id_is_what_nats_server_takes(
    headers: bytes, message_id: bytes, kind: type
) -> None:
    assert id_of(kind(headers)) == message_id


def test_given_the_tail_of_a_store_when_rebuilt_then_its_ids_are_known() -> None:
    window = Window(120 * SECOND, 2)
    headers = b"NATS/1.0\r\nNats-Msg-Id: %b\r\n\r\n"
    ids = [
        (1, 1 * SECOND, key_of(b"", headers % b"a")),
        (3, 3 * SECOND, key_of(b"orders", headers % b"b")),
        (5, 2 * SECOND, key_of(b"", headers % b"d")),
    ]
    rebuild(window, [(number, received, kept_form(key)) for number, received, key in ids])
    found = [
        window.find(key_of(scope, headers % one), 6 * SECOND)
        for one in (b"a", b"b", b"c", b"d")
        for scope in (b"", b"orders")
    ]
    assert found == [0, 0, 0, 3, 0, 0, 5, 0]


def test_given_a_scope_and_an_id_then_no_other_two_have_the_same_key() -> None:
    headers = b"NATS/1.0\r\nNats-Msg-Id: %b\r\n\r\n"
    pairs = [(b"", b"a b"), (b"a", b"b"), (b"", b"b"), (b"a", b"a b"), (b"a.b", b"b"), (b"b", b"b")]
    assert len({key_of(scope, headers % one) for scope, one in pairs}) == len(pairs)
    assert key_of(b"a", b"NATS/1.0\r\n\r\n") == b"", "it has no id"


def test_given_a_time_or_a_number_then_what_is_older_does_not_count() -> None:
    window = Window(10, 100)
    assert window.oldest_counting(0) == 0
    for number in range(1, 9):
        window.add(b"%d" % number, 10 * number, number)
    assert [window.oldest_counting(now) for now in (8, 11, 12, 17, 18)] == [10, 20, 30, 80, 0]
    window.forget_before(55)
    assert (len(window), window.oldest_counting(8)) == (3, 60)
    assert (window.find(b"5", 8), window.find(b"6", 8)) == (0, 60)


def test_given_what_a_window_knows_when_another_is_filled_with_it_then_it_knows_the_same() -> None:
    before = Window(100, 50)
    for at in range(200):
        before.add(b"id-%d" % (at % 70), at + 1, at)
    after, fewer = Window(100, 50), Window(100, 10)
    after.refill(*before.known())
    fewer.refill(*before.known())
    for now in (200, 240, 260):
        ids = [b"id-%d" % at for at in range(70)]
        assert [after.find(one, now) for one in ids] == [before.find(one, now) for one in ids]
    assert len(fewer) == 10
    assert fewer.newest == after.newest == 200
    for window in (before, after):
        window.add(b"next", 201, 260)
    assert after.oldest_counting(260) == before.oldest_counting(260)
    assert after.find(b"next", 261) == 201
