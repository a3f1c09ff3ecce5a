"""A user's rights: the rules of nats-server, what the guard remembers, and what it forgets."""

import gc
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.dataplane.guard import Guard, OpenRequests, SubjectRights
from sublist.sublist import Sublist
from testkit.model_subject import tokens_match

ALL = SubjectRights(None, ())
WORDS = [b"a", b"b", b"*", b"a.*", b"a.b", b"*.b", b"a.>", b">", b"b.a.b"]
SUBJECTS = [b"a", b"b", b"c", b"a.a", b"a.b", b"c.b", b"b.a", b"b.a.b", b"a.b.c"]
SECOND = 1_000_000_000


def guard(
    allow: list[bytes] | None = None, deny: tuple[bytes, ...] = (), **responses: int
) -> Guard:
    """A guard with the same rights for both."""
    return Guard(SubjectRights(allow, deny), SubjectRights(allow, deny), **responses)


# Publishing


@given(
    st.none() | st.lists(st.sampled_from(WORDS), max_size=3),
    st.lists(st.sampled_from(WORDS), max_size=3),
    st.lists(st.sampled_from(SUBJECTS), max_size=20),
)
def test_given_any_rights_when_published_over_and_over_then_allowed_is_what_is_not_denied(
    allow: list[bytes] | None, deny: list[bytes], published: list[bytes]
) -> None:
    ours, sublist = Guard(SubjectRights(allow, deny), ALL), Sublist()
    for subject in published:
        allowed = allow is None or any(tokens_match(one, subject) for one in allow)
        expected = allowed and not any(tokens_match(one, subject) for one in deny)
        assert ours.may_publish(sublist.route(subject)) == expected
        assert ours.may_publish_to(subject) == expected


def test_given_more_subjects_than_slots_then_none_is_taken_for_another() -> None:
    ours, sublist = guard([b"*.even"]), Sublist(max_routes=20_000)
    for _ in range(2):
        for number in range(10_000):
            assert ours.may_publish(sublist.route(b"%d.even" % number))
            assert not ours.may_publish(sublist.route(b"%d.odd" % number))


def test_given_routes_that_are_forgotten_and_made_again_then_no_old_right_is_taken_for_theirs() -> (
    None
):
    ours, sublist = guard([b"good.*"]), Sublist(max_routes=64)
    serials = set()
    for number in range(5000):  # each sweep forgets routes, whose places others take
        for subject, right in ((b"good.%d" % (number % 300), True), (b"bad.%d" % number, False)):
            route = sublist.route(subject)
            if route.serial:
                serials.add((route.subject, route.serial))
            assert ours.may_publish(route) == right
    assert len({serial for _, serial in serials}) == len(serials), "a serial is of one route only"
    assert sublist.statistics()["evictions"] > 1000


def test_given_a_subject_too_long_for_the_table_then_it_is_judged_each_time() -> None:
    ours, sublist = guard([b"long.>"]), Sublist()
    for _ in range(3):
        assert ours.may_publish(sublist.route(b"long." + b"x" * 300))
        assert not ours.may_publish(sublist.route(b"lang." + b"x" * 300))


def test_given_several_users_with_the_same_subjects_then_none_has_the_rights_of_another() -> None:
    sublist = Sublist(max_routes=1024)
    guards = {b"a.*": guard([b"a.*"]), b"*.1": guard([b"*.1"]), b"*.*": guard(None, (b"b.*",))}
    for turn in range(3000):
        subject = b"%b.%d" % (b"abc"[turn % 3 : turn % 3 + 1], turn * 7 % 500)
        for name, ours in guards.items():
            right = tokens_match(name, subject) and not (name == b"*.*" and subject[:1] == b"b")
            for _ in range(2):
                assert ours.may_publish(sublist.route(subject)) == right


def test_given_a_guard_in_place_of_another_then_no_route_remembers_the_other_for_it() -> None:
    sublist = Sublist()
    for allowed in (True, False) * 5:  # as reloads make and drop them
        ours = guard([b"a"] if allowed else [b"b"])
        assert ours.may_publish(sublist.route(b"a")) == allowed
        del ours


def test_given_any_number_of_subjects_then_a_guard_takes_the_memory_of_its_slots() -> None:
    ours, sublist = guard([b">"]), Sublist(max_routes=1024)
    ours.may_publish(sublist.route(b"first"))
    gc.collect()
    tracemalloc.start()
    for number in range(2000):
        ours.may_publish(sublist.route(b"warm.%d" % number))
    before = tracemalloc.get_traced_memory()[0]
    for number in range(20_000):
        ours.may_publish(sublist.route(b"s.%d" % number))
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert after - before < 256 << 10


# Subscribing


@pytest.mark.parametrize(
    ("pattern", "allow", "deny", "right"),
    [
        (b"a.*", [b"a.>"], (), True),
        (b"a.>", [b"a.*"], (), False),  # nats-server lets it pass
        (b">", [b"a.>", b"b.>"], (), False),
        (b"a", [], (), False),
        (b"a", None, (b">",), False),
        (b"a.secret", None, (b"*.secret",), False),
        (b"a.*", None, (b"*.secret",), True),  # and `a.secret` is cut out of it
        (b"a.secret.x", None, (b"*.secret",), True),
        (b"a..b", [b">"], (), False),
        (b"a..b", None, (), True),  # it is not a pattern; that is another error
        (b"a..*", [b"a.>"], (), False),
    ],
)
def test_given_rights_when_subscribed_then_what_is_wider_or_denied_is_refused(
    pattern: bytes, allow: list[bytes] | None, deny: tuple[bytes, ...], right: bool
) -> None:
    assert guard(allow, deny).may_subscribe(pattern) == right


@pytest.mark.parametrize(
    ("queue", "allow", "deny", "right"),
    [
        (b"q1", [b"s q1"], (), True),
        (b"q2", [b"s q1"], (), False),
        (None, [b"s q1"], (), False),
        (b"q1", [b"s"], (), True),
        (b"q2", [b"s", b"s q1"], (), False),  # an entry with a group decides
        (None, [b"s", b"s q1"], (), True),
        (b"v1.x", [b"s v1.*"], (), True),
        (b"v1.x.y", [b"s v1.*"], (), False),
        (b"anything.at.all", [b"s >"], (), True),
        (b"q1", None, (b"s q1",), False),
        (b"q2", None, (b"s q1",), True),
        (None, None, (b"s q1",), True),
        (b"q2", None, (b"s", b"s q1"), True),  # as in nats-server
        (b"q1", [b"s q1"], (b"s q1",), False),
        (b"q1", [b"* q1"], (), True),
        (b"q1", [b"t q1"], (), False),
    ],
)
def test_given_rights_of_groups_when_subscribed_then_the_name_decides(
    queue: bytes | None, allow: list[bytes] | None, deny: tuple[bytes, ...], right: bool
) -> None:
    assert guard(allow, deny).may_subscribe(b"s", queue) == right


def test_given_a_wider_subscription_then_what_is_denied_is_cut_out_of_it() -> None:
    ours = guard(None, (b"*.secret", b"s.>"))
    cut = ours.denied_to(b"a.*")
    assert cut is not None
    assert cut.takes(b"a.secret")
    assert not cut.takes(b"a.open")
    assert ours.denied_to(b"a.*.c") is None, "it never meets what is denied"
    assert ours.denied_to(b"a.open") is None
    assert guard([b"a.*"]).denied_to(b"a.*") is None


def test_given_a_denied_group_then_only_its_members_miss_those_subjects() -> None:
    ours = guard(None, (b"a.b red", b"a.c"))
    for queue, heard in ((b"red", {b"a.d"}), (b"blue", {b"a.b", b"a.d"}), (None, {b"a.b", b"a.d"})):
        cut = ours.denied_to(b"a.*", queue)
        assert cut is not None
        assert {subject for subject in (b"a.b", b"a.c", b"a.d") if not cut.takes(subject)} == heard


def test_given_groups_of_any_names_then_what_is_kept_of_them_is_bounded() -> None:
    ours = guard(None, (b"a.b >",))
    gc.collect()
    tracemalloc.start()
    for number in range(5000):
        assert ours.denied_to(b"a.*", b"q%d" % number) is not None
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert kept < 512 << 10


@given(
    st.none() | st.lists(st.sampled_from(WORDS), max_size=3),
    st.lists(st.sampled_from(WORDS), max_size=3),
    st.sampled_from(WORDS),
)
def test_given_any_rights_when_a_subscription_is_allowed_then_it_never_brings_what_is_not(
    allow: list[bytes] | None, deny: list[bytes], pattern: bytes
) -> None:
    ours = guard(allow, tuple(deny))
    if not ours.may_subscribe(pattern):
        return
    cut = ours.denied_to(pattern)
    for subject in SUBJECTS:
        heard = tokens_match(pattern, subject) and not (cut is not None and cut.takes(subject))
        assert not heard or ours.may_receive(subject), subject


# Responses


def test_given_requests_then_as_many_responses_are_allowed_to_each() -> None:
    ours = OpenRequests(2, 0)
    ours.note(b"r1", 1)
    ours.note(b"r2", 1)
    assert [ours.allow(b"r1", 2) for _ in range(3)] == [True, True, False]
    assert [ours.allow(b"r2", 2) for _ in range(3)] == [True, True, False]
    assert not ours.allow(b"r3", 2)
    assert ours.noted == {}, "nothing is kept of what was answered"


def test_given_a_request_that_comes_again_then_it_may_be_answered_again() -> None:
    ours = OpenRequests(1, 0)
    for _ in range(3):
        ours.note(b"r", 1)
        ours.note(b"r", 1)
        assert [ours.allow(b"r", 2) for _ in range(2)] == [True, False]


def test_given_an_end_then_a_response_is_allowed_until_then() -> None:
    ours = OpenRequests(-1, 5 * SECOND)
    ours.note(b"r", SECOND)
    assert ours.allow(b"r", 6 * SECOND)
    assert not ours.allow(b"r", 6 * SECOND + 1)
    assert ours.noted == {}


def test_given_no_limits_then_responses_are_allowed_for_ever() -> None:
    ours = OpenRequests(-1, 0)
    ours.note(b"r", 0)
    assert all(ours.allow(b"r", turn * 1000 * SECOND) for turn in range(1000))


def test_given_a_flood_of_requests_then_the_newest_are_known_and_the_rest_is_forgotten() -> None:
    ours = OpenRequests(1, 0)
    for number in range(100_000):
        ours.note(b"r%d" % number, number)
    assert len(ours.noted) == 4096
    assert ours.allow(b"r99999", 100_000)
    assert ours.allow(b"r%d" % (100_000 - 4096), 100_000)
    assert not ours.allow(b"r%d" % (100_000 - 4097), 100_000)


def test_given_requests_with_long_reply_subjects_then_fewer_of_them_are_known() -> None:
    """A control line has room for 4 KiB: all of 4096 would take 16 MiB."""
    ours = OpenRequests(1, 0)
    long = [b"%04d." % number + b"x" * 4091 for number in range(4096)]
    for at, reply in enumerate(long):
        ours.note(reply, at)
    assert list(ours.noted) == long[-128:]
    assert ours.text == 128 * 4096
    assert ours.allow(long[-1], 5000)
    ours.note(long[-2], 5000)
    assert ours.text == 127 * 4096
    for number in range(4096):
        ours.note(b"r%d" % number, 5000)
    assert ours.text == sum(map(len, ours.noted)) < 4096 * 5
