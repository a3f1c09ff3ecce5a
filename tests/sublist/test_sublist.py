"""The table of routes: selective invalidation, its bounds, and its counters."""

import weakref
from collections.abc import Callable
from itertools import count, islice, product

import pytest

from sublist.route import Kinds
from sublist.sublist import Sublist
from testkit.model_digest import SEED, TWINS
from tests.sublist.naive import answered, expected, sids, subscription

CHANGES = 64  # wildcard changes that are remembered
CHAIN = 16
SLOTS = 1024
NEAR = 131_072  # routes that are made at the first use
SEEN, WAYS = 65536, 4  # digests of subjects without a route, and how many share their places
ENTRIES = 1 << 20  # of all fan-outs that are kept
Counts = tuple[int, int, int]


NODE_WORK = 8  # offers that visiting a node counts as


def counts(sublist: Sublist) -> Counts:
    """How often a route was made, compared with changes, and found in the trie."""
    return sublist.misses, sublist.rechecks, sublist.resolves


def spent(sublist: Sublist, work: Callable[[], object]) -> Counts:
    """What some work added to the counts."""
    before = counts(sublist)
    work()
    misses, rechecks, resolves = (
        now - then for now, then in zip(counts(sublist), before, strict=True)
    )
    return misses, rechecks, resolves


@pytest.fixture
def thousand() -> tuple[Sublist, list[bytes]]:
    """A sublist that knows the routes of a thousand subjects, which nobody wants."""
    sublist = Sublist()
    subjects = [b"t.%d.x" % number for number in range(1000)]
    for subject in subjects:
        sublist.route(subject)
    assert counts(sublist) == (1000, 0, 1000)
    return sublist, subjects


def ask(sublist: Sublist, subjects: list[bytes]) -> list[list[bytes]]:
    return [sids(sublist.route(subject).fanout.plain) for subject in subjects]


def test_given_known_routes_when_asked_again_then_nothing_is_compared_or_looked_up_again(
    thousand: tuple[Sublist, list[bytes]],
) -> None:
    sublist, subjects = thousand
    assert spent(sublist, lambda: ask(sublist, subjects)) == (0, 0, 0)


@pytest.mark.parametrize("gone", [False, True], ids=["SUB", "UNSUB"])
def test_given_a_literal_change_then_only_its_own_route_is_looked_up_again(
    thousand: tuple[Sublist, list[bytes]], gone: bool
) -> None:
    sublist, subjects = thousand
    sub = subscription(subjects[7])
    sublist.insert(sub)
    if gone:
        ask(sublist, subjects)
        sublist.remove(sub)
    assert spent(sublist, lambda: ask(sublist, subjects[:7] + subjects[8:])) == (0, 0, 0)
    assert spent(sublist, lambda: ask(sublist, subjects)) == (0, 1, 1)
    assert ask(sublist, subjects)[7] == ([] if gone else [sub.sid])


def test_given_a_literal_change_of_an_unknown_subject_then_no_route_is_touched(
    thousand: tuple[Sublist, list[bytes]],
) -> None:
    sublist, subjects = thousand
    sublist.insert(subscription(b"elsewhere"))
    assert spent(sublist, lambda: ask(sublist, subjects)) == (0, 0, 0)


@pytest.mark.parametrize("gone", [False, True], ids=["SUB", "UNSUB"])
def test_given_a_wildcard_change_then_only_the_routes_it_takes_in_are_looked_up_again(
    thousand: tuple[Sublist, list[bytes]], gone: bool
) -> None:
    sublist, subjects = thousand
    sub = subscription(b"t.7.*")
    sublist.insert(sub)
    if gone:
        ask(sublist, subjects)
        sublist.remove(sub)
    assert spent(sublist, lambda: ask(sublist, subjects)) == (0, 1000, 1)
    assert spent(sublist, lambda: ask(sublist, subjects)) == (0, 0, 0)
    assert ask(sublist, subjects)[7] == ([] if gone else [sub.sid])


def test_given_a_change_then_it_costs_nothing_until_a_route_is_used(
    thousand: tuple[Sublist, list[bytes]],
) -> None:
    sublist, _ = thousand

    def change() -> None:
        for pattern in (b">", b"t.*.x", b"t.5.x"):
            sublist.insert(subscription(pattern))

    assert spent(sublist, change) == (0, 0, 0)


@pytest.mark.parametrize(
    ("changes", "resolves"), [(CHANGES, 0), (CHANGES + 1, 1), (3 * CHANGES, 1)]
)
def test_given_more_wildcard_changes_than_are_remembered_then_a_route_is_looked_up_again(
    changes: int, resolves: int
) -> None:
    sublist = Sublist()
    sublist.route(b"a.b")
    subs = [subscription(b"other.*") for _ in range(changes)]
    for sub in subs:
        sublist.insert(sub)
    assert spent(sublist, lambda: sublist.route(b"a.b")) == (0, 1, resolves)
    assert spent(sublist, lambda: sublist.route(b"a.b")) == (0, 0, 0)


@pytest.mark.parametrize("at", [0, 1, 31, 32, 33, 62, 63, 64, 65, 100])
def test_given_a_match_anywhere_among_many_changes_then_the_route_has_it(at: int) -> None:
    for known_after in range(0, 130, 13):
        sublist = Sublist()
        match = subscription(b"a.*")
        for number in range(130):
            if number == known_after:
                sublist.route(b"a.b")
            sublist.insert(match if number == at else subscription(b"other.*"))
        assert sids(sublist.route(b"a.b").fanout.plain) == [match.sid]


def test_given_a_new_subject_when_it_is_asked_for_then_it_is_classified_once() -> None:
    seen: list[bytes] = []

    class Threes(Kinds):
        """Remembers what it was asked."""

        def kind_of(self, subject: bytes) -> int:
            seen.append(subject)
            return 3

    sublist = Sublist(Threes())
    for _ in range(2):
        route = sublist.route(b"a.b")
        assert (route.kind, route.subject) == (3, b"a.b")
        assert route.digest == sublist.digest_of(b"a.b")
    assert seen == [b"a.b"]


def test_given_subjects_that_only_wildcards_take_in_then_they_share_one_fan_out() -> None:
    sublist = Sublist()
    sublist.insert(subscription(b"a.*"))
    sublist.insert(subscription(b"a.>", b"q"))
    literal = subscription(b"a.3")
    sublist.insert(literal)
    assert sublist.route(b"a.1").fanout is sublist.route(b"a.2").fanout
    assert sublist.route(b"a.3").fanout is not sublist.route(b"a.1").fanout
    assert sublist.route(b"b.1").fanout is sublist.route(b"c").fanout


def test_given_queue_groups_then_one_name_is_one_group_whatever_the_patterns() -> None:
    sublist = Sublist()
    subs = [
        subscription(b"a.b", b"q"),
        subscription(b"a.*", b"q"),
        subscription(b">", b"q"),
        subscription(b"a.b", b"r"),
        subscription(b"*.b"),
    ]
    for sub in subs:
        sublist.insert(sub)
    plain, groups = answered(sublist.route(b"a.b"))
    assert plain == [subs[4].sid]
    assert groups == [(b"q", sids(subs[:3])), (b"r", [subs[3].sid])]


def colliding(sublist: Sublist, wanted: int) -> list[bytes]:
    """Subjects whose digests fall into one slot of this table while it is small."""
    numbered = (b"c.%d" % number for number in count())
    return list(islice((s for s in numbered if sublist.digest_of(s) % SLOTS == 5), wanted))


def test_given_a_slot_that_is_too_full_then_its_routes_push_each_other_out_and_all_stay_right() -> (
    None
):
    sublist = Sublist()
    subjects = colliding(sublist, 3 * CHAIN + 1)
    subs = [subscription(subject) for subject in subjects]
    for sub in subs:
        sublist.insert(sub)
    for _ in range(2):
        assert ask(sublist, subjects) == [[sub.sid] for sub in subs]
    assert sublist.routes <= CHAIN
    assert sublist.evictions >= 5 * CHAIN
    before = sublist.evictions
    assert spent(sublist, lambda: ask(sublist, subjects[-1:] * 10)) == (0, 0, 0)
    assert sublist.evictions == before


@pytest.mark.parametrize(("one", "other"), TWINS)
def test_given_two_subjects_with_one_digest_then_each_has_its_own_route(
    one: bytes, other: bytes
) -> None:
    sublist = Sublist(seed=SEED)
    assert sublist.digest_of(one) == sublist.digest_of(other)
    for subject in (one, other):
        sublist.route(subject)
    sub = subscription(other)
    sublist.insert(sub)
    assert ask(sublist, [one, other, one]) == [[], [sub.sid], []]
    assert counts(sublist) == (2, 1, 3)
    sublist.remove(sub)
    assert ask(sublist, [one, other]) == [[], []]


@pytest.mark.parametrize("most", [16, 100, 2000])
def test_given_more_subjects_than_routes_may_be_then_the_oldest_go_and_all_stay_right(
    most: int,
) -> None:
    sublist = Sublist(max_routes=most)
    subs = [subscription(b"t.*"), subscription(b"t.5"), subscription(b"*.*", b"q")]
    for sub in subs:
        sublist.insert(sub)
    for _ in range(2):
        for number in range(3 * most):
            subject = b"t.%d" % number
            for _ in range(2):
                assert answered(sublist.route(subject)) == expected(subs, subject)
            assert sublist.routes <= most + 8, "the hand clears an eighth of the slots at a time"
    assert sublist.misses == sublist.routes + sublist.evictions + sublist.passed
    assert sublist.evictions >= 2 * most
    assert sublist.statistics()["max_routes"] == most


def test_given_many_subjects_in_use_then_each_is_learned_and_found_again() -> None:
    sublist = Sublist(seed=SEED)
    subs = [subscription(b"s.%d" % number) for number in range(0, 150_000, 5)]
    wide = subscription(b"s.*")
    for sub in [*subs, wide]:
        sublist.insert(sub)
    subjects = [b"s.%d" % number for number in range(150_000)]
    twice = [subject for subject in subjects for _ in range(2)]
    misses = spent(sublist, lambda: [sublist.route(subject) for subject in twice])[0]
    assert misses == 2 * 150_000 - NEAR
    assert sublist.routes == 150_000
    assert sublist.evictions == 0, "no chain gets long by chance"
    assert spent(sublist, lambda: [sublist.route(subject) for subject in subjects]) == (0, 0, 0)
    for at in (0, 1, 25_000, 49_999):
        assert answered(sublist.route(subjects[at])) == expected([*subs, wide], subjects[at])


def test_given_new_subjects_without_end_then_no_routes_are_made_for_them() -> None:
    sublist = Sublist(seed=SEED)  # no two of these subjects share a digest of 32 bits
    subs = [subscription(b"s.*"), subscription(b"s.140000"), subscription(b"*.*", b"q")]
    for sub in subs:
        sublist.insert(sub)
    for number in range(NEAR):
        sublist.route(b"s.%d" % number)
    before = sublist.statistics()["route_bytes"]
    for number in range(NEAR, NEAR + 22_000):
        subject = b"s.%d" % number
        route = sublist.route(subject)
        assert (route.subject, route.digest) == (subject, sublist.digest_of(subject))
        if number % 1000 == 0:
            assert answered(route) == expected(subs, subject)
    figures = sublist.statistics()
    assert figures["routes"] == NEAR
    assert figures["passed"] == 22_000
    assert figures["route_bytes"] < before + (300 << 10), "no more than the digests seen lately"


def test_given_a_large_table_when_a_subject_comes_again_then_it_gets_a_route() -> None:
    sublist = Sublist()
    for number in range(NEAR):
        sublist.route(b"s.%d" % number)
    assert [spent(sublist, lambda: sublist.route(b"often"))[0] for _ in range(4)] == [1, 1, 0, 0]
    assert sublist.routes == NEAR + 1


def test_given_more_subjects_in_turn_than_are_remembered_then_all_get_routes_in_the_end() -> None:
    sublist = Sublist(seed=SEED)
    for number in range(NEAR):
        sublist.route(b"known.%d" % number)
    by_place: dict[int, list[bytes]] = {}
    for number in range(60_000):
        subject = b"s.%d" % number
        by_place.setdefault(sublist.digest_of(subject) & (SEEN - WAYS), []).append(subject)
    crowded = sorted(by_place.values(), key=len)[-50:]
    subjects = [subject for sharing in crowded for subject in sharing]
    assert len(crowded[0]) > 2 * WAYS, "they share their places"
    rounds = [spent(sublist, lambda: ask(sublist, subjects))[0] for _ in range(50)]
    assert rounds[0] == rounds[1] == len(subjects), "the second use makes the route"
    assert rounds[-1] == 0
    assert sublist.routes == NEAR + len(subjects)


def test_given_routes_then_the_figure_of_their_memory_rises_and_falls_with_them() -> None:
    sublist = Sublist()
    empty = sublist.statistics()["route_bytes"]
    for number in range(500):
        sublist.route(b"%0200d" % number)
    full = sublist.statistics()["route_bytes"]
    assert 500 * 300 < full - empty < 500 * 400
    sublist.forget_routes()
    assert sublist.statistics()["route_bytes"] == empty


def test_given_long_fan_outs_of_subjects_in_passing_then_the_known_routes_stay() -> None:
    sublist = Sublist(max_routes=16)
    for _ in range(2000):
        sublist.insert(subscription(b">"))
    for number in range(16):
        sublist.route(b"known.%d" % number)
    subs = [subscription(b"passing.%d" % number) for number in range(1500)]
    for sub in subs:
        sublist.insert(sub)
        assert len(sublist.route(sub.subject).fanout.plain) == 2001
    assert sublist.evictions == 0


def test_given_thousands_of_sets_of_patterns_then_those_they_share_stay_bounded_and_right() -> None:
    sublist = Sublist()
    subs = [subscription(b"p.%d.*" % number) for number in range(4200)]
    for sub in subs:
        sublist.insert(sub)
    for turn in range(2):
        for number, sub in enumerate(subs):
            assert sublist.route(b"p.%d.x%d" % (number, turn)).fanout.plain == (sub,)


def churn(sublist: Sublist, turns: int, between: Callable[[], object] = lambda: None) -> None:
    """Wildcards that come and go, and that no known subject is taken in by."""
    for number in range(turns):
        sub = subscription(b"passing.%d.*" % number)
        sublist.insert(sub)
        sublist.remove(sub)
        between()


def test_given_routes_in_use_when_thousands_of_wildcards_come_and_go_then_they_stay_known() -> None:
    sublist = Sublist()
    subjects = [b"used.%d" % number for number in range(50)]
    ask(sublist, subjects)
    churn(sublist, 3 * SLOTS, lambda: ask(sublist, subjects))
    assert sublist.misses == 50
    assert sublist.resolves == 50


def test_given_routes_out_of_use_when_thousands_of_wildcards_come_and_go_then_they_go_too() -> None:
    sublist = Sublist()
    for number in range(300):
        sub = subscription(b"box.%d.*" % number)
        sublist.insert(sub)
        sublist.route(b"box.%d.x" % number)
        sublist.remove(sub)
    assert sublist.routes == 300
    churn(sublist, 2 * SLOTS)
    assert sublist.routes == 0
    assert sublist.evictions == 300
    assert ask(sublist, [b"box.7.x"]) == [[]]


def test_given_fan_outs_of_thousands_each_then_what_routes_lead_to_stays_bounded() -> None:
    sublist = Sublist()
    for _ in range(2000):
        sublist.insert(subscription(b">"))
    for number in range(1500):
        subject = b"wide.%d" % number
        sublist.insert(subscription(subject))
        assert len(sublist.route(subject).fanout.plain) == 2001
        assert sublist.routes * 2001 <= ENTRIES + 2 * 2001
    assert sublist.misses == sublist.routes + sublist.evictions == 1500
    assert sublist.evictions > 0


@pytest.mark.parametrize(("size", "kept"), [(254, True), (255, True), (256, False), (4000, False)])
def test_given_a_long_subject_then_its_route_is_right_and_not_kept(size: int, kept: bool) -> None:
    sublist = Sublist()
    sub = subscription(b"s" * size)
    sublist.insert(sub)
    for _ in range(2):
        assert ask(sublist, [sub.subject]) == [[sub.sid]]
    assert sublist.routes == int(kept)
    sublist.remove(sub)
    assert ask(sublist, [sub.subject]) == [[]]


def test_given_a_route_that_is_found_then_the_effort_counts_nodes_and_subscriptions() -> None:
    sublist = Sublist()
    for pattern in (b"a.*.c", b"a.b.*", b"a.b.c", b"a.b.c", b">"):
        sublist.insert(subscription(pattern))
    before = sublist.work
    sublist.route(b"a.b.c")
    # Visited: the root, `a`, below it `b` and `*`. Found: all five.
    assert sublist.work - before == 4 * NODE_WORK + 5
    sublist.route(b"a.b.c")
    assert sublist.work - before == 4 * NODE_WORK + 5, "a route that is known costs none"
    sublist.route(b"x..y")
    assert sublist.work - before == 4 * NODE_WORK + 5


class Owner:
    """Somebody whose end can be seen."""


def test_given_a_literal_subscription_that_has_gone_then_its_route_does_not_keep_its_owner() -> (
    None
):
    sublist, owner = Sublist(), Owner()
    end = weakref.ref(owner)
    sub = subscription(b"a", owner=owner)
    sublist.insert(sub)
    sublist.route(b"a")
    sublist.remove(sub)
    del sub, owner
    assert end() is None


def test_given_inserts_and_removes_then_the_statistics_count_them() -> None:
    sublist = Sublist()
    subs = [subscription(pattern) for pattern in (b"a", b"a.*", b">")]
    for sub in subs:
        sublist.insert(sub)
    sublist.remove(subs[1])
    sublist.route(b"a")
    figures = sublist.statistics()
    assert figures["inserts"] == 3
    assert figures["removes"] == 1
    assert figures["subscriptions"] == 2
    assert figures["patterns"] == 1
    assert figures["routes"] == figures["misses"] == 1


def test_given_patterns_in_all_combinations_then_what_a_message_visits_stays_bounded() -> None:
    sublist = Sublist()
    sublist.max_match_nodes = 1000
    refused = 0
    for tokens in product((b"a", b"*"), repeat=13):
        pattern = b".".join((*tokens, b"b"))
        if sublist.admits(pattern):
            sublist.insert(subscription(pattern))
        else:
            refused += 1
    assert refused > 1000
    before = sublist.work
    sublist.route(b".".join((b"a",) * 13 + (b"b",)))
    assert NODE_WORK * 500 < sublist.work - before < NODE_WORK * 1000 + 1000
    assert sublist.admits(b"x.*.c"), "short patterns are never refused"
    assert sublist.admits(b"*.*.*.*.*.*.*.*.*.y")
    assert sublist.admits(b"orders.eu.a.b.c.d.e.f.g.h.i.*"), "nor those beside what is dear"
    assert not sublist.admits(b"*." * 13 + b"a.a.a.a.a.a.a.>")


def test_given_no_limit_or_no_wildcard_then_every_pattern_is_admitted() -> None:
    sublist = Sublist()
    assert sublist.admits(b"*." * 2000 + b"a")
    sublist.max_match_nodes = 1
    assert not sublist.admits(b"*." * 2000 + b"a")
    assert sublist.admits(b"a." * 2000 + b"a")
