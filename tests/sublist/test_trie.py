"""The trie and the chains in it: who is found, and that removed ones leave nothing."""

import gc
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.version import is_compiled
from sublist.subscription import Subscription
from sublist.trie import Trie
from testkit.model_subject import has_wildcard, tokens_match
from tests.sublist.naive import literals, patterns, published, sids, subscription
from tests.support.depth import examples

many = settings(max_examples=examples(200))


def found(trie: Trie, subject: bytes) -> list[bytes]:
    return sids([*trie.literal(subject), *trie.wild(subject)])


@many
@given(
    wanted=st.lists(st.one_of(patterns(), literals), max_size=12),
    gone=st.lists(st.integers(0, 11), max_size=12),
    subjects=st.lists(published(), min_size=1, max_size=8),
)
def test_given_any_subscriptions_then_a_naive_matcher_finds_the_same(
    wanted: list[bytes], gone: list[int], subjects: list[bytes]
) -> None:
    trie = Trie()
    subs = [subscription(pattern) for pattern in wanted]
    for sub in subs:
        trie.insert(sub)
    for at in gone:
        if at < len(subs):
            trie.remove(subs.pop(at))
    for subject in subjects:
        expected = [sub for sub in subs if tokens_match(sub.subject, subject)]
        assert found(trie, subject) == sids(expected)
    assert trie.subscriptions == len(subs)
    assert trie.patterns == sum(has_wildcard(sub.subject) for sub in subs)


def naive_worst(wanted: list[bytes]) -> int:
    """The most nodes that any subject leads through, the root and the last ones included."""
    tree: dict[bytes, Any] = {}
    for pattern in wanted:
        node = tree
        for token in pattern.split(b"."):
            if has_wildcard(pattern) and token != b">":
                node = node.setdefault(token, {})

    def cost(node: dict[bytes, Any]) -> int:
        costs = {token: cost(below) for token, below in node.items()}
        star = costs.pop(b"*", 0)
        return 1 + star + max(costs.values(), default=0)

    return cost(tree)


@many
@given(
    wanted=st.lists(patterns(), min_size=1, max_size=12),
    gone=st.lists(st.integers(0, 11), max_size=12),
)
def test_given_any_patterns_then_the_worst_subject_is_known_before_and_after(
    wanted: list[bytes], gone: list[int]
) -> None:
    trie = Trie()
    subs = [subscription(pattern) for pattern in wanted]
    for at, sub in enumerate(subs):
        foreseen = trie.cost_with(sub.subject)
        trie.insert(sub)
        assert trie.worst() == foreseen == naive_worst(wanted[: at + 1])
    for at in gone:
        if at < len(subs):
            trie.remove(subs.pop(at))
            assert trie.worst() == naive_worst([sub.subject for sub in subs])


def test_given_many_beside_each_other_when_the_dear_ones_go_then_the_bound_comes_down() -> None:
    trie = Trie()
    cheap = [subscription(b"x%d.*" % at) for at in range(300)]
    dear = [subscription(b"a%d.*.b.*.c" % at) for at in range(2000)]
    for sub in [*cheap, *dear]:
        trie.insert(sub)
    assert trie.worst() == 6
    for sub in dear:
        trie.remove(sub)
    for sub in cheap[:150]:
        trie.remove(sub)
    assert trie.worst() == 3


@pytest.mark.parametrize("pattern", [b"a.b", b"a.*", b"a.>"])
@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 0, 2], [1, 2, 0]])
def test_given_a_chain_when_its_members_go_in_any_order_then_the_others_stay(
    pattern: bytes, order: list[int]
) -> None:
    trie = Trie()
    subs = [subscription(pattern) for _ in order]
    for sub in subs:
        trie.insert(sub)
    left = list(subs)
    for at in order:
        trie.remove(subs[at])
        left.remove(subs[at])
        assert found(trie, b"a.b") == sids(left)


def test_given_one_that_was_removed_when_inserted_again_then_it_is_found_once() -> None:
    trie = Trie()
    one, other = subscription(b"a.*"), subscription(b"a.*")
    trie.insert(one)
    trie.insert(other)
    trie.remove(one)
    trie.insert(one)
    assert found(trie, b"a.b") == sids([one, other])


def test_given_no_pattern_then_wild_finds_nothing_and_looks_nowhere() -> None:
    trie = Trie()
    trie.insert(subscription(b"a"))
    assert trie.wild(b"a") == []
    assert len(trie.literal(b"a")) == 1


@pytest.mark.parametrize("subject", [b"", b".", b"a..b", b".a", b"a."])
def test_given_a_subject_with_an_empty_token_then_not_even_the_widest_pattern_takes_it_in(
    subject: bytes,
) -> None:
    trie = Trie()
    for pattern in (b">", b"*", b"*.*", b"a.>", b"*.*.*"):
        trie.insert(subscription(pattern))
    assert found(trie, subject) == []


def test_given_a_subject_of_thousands_of_tokens_then_it_is_found_without_recursion() -> None:
    trie = Trie()
    deep = b".".join([b"a"] * 20_000)
    for pattern in (deep[:-1] + b"*", b"a.>", b".".join([b"*"] * 20_000)):
        trie.insert(subscription(pattern))
    assert len(found(trie, deep)) == 3
    assert len(found(trie, deep + b".a")) == 1


def churn(count: int) -> list[Subscription]:
    """Patterns that share nodes in every way: prefixes, `*`, `>` and literal tokens."""
    kinds = (b"a.%d.*", b"a.*.%d", b"a.%d.>", b"*.%d.b.>", b"a.%d.b.*.c", b"%d.>", b"lit.%d")
    return [subscription(kind % number) for number in range(count) for kind in kinds]


def test_given_many_patterns_when_all_have_gone_then_no_node_is_left() -> None:
    trie = Trie()
    for sub in churn(3):  # whatever is made once is made now
        trie.insert(sub)
        trie.remove(sub)
    subs = churn(2000)
    gc.collect()
    before = sys.getallocatedblocks()
    for sub in subs:
        trie.insert(sub)
    assert sys.getallocatedblocks() > before + len(subs)
    for sub in reversed(subs) if len(subs) % 2 else subs:
        trie.remove(sub)
    gc.collect()
    assert sys.getallocatedblocks() < before + 100
    assert (trie.subscriptions, trie.patterns) == (0, 0)


@pytest.mark.skipif(is_compiled(), reason="the compiled trie shows its nodes to nobody")
def test_given_the_uncompiled_trie_when_all_have_gone_then_its_root_is_bare() -> None:
    trie = Trie()
    subs = churn(5)
    for sub in subs:
        trie.insert(sub)
    for sub in subs:
        trie.remove(sub)
    root = trie.root
    assert (root.below, root.star, root.tail, root.first) == (None, None, None, None)
    assert trie.literals == {}


def test_given_a_pattern_above_another_when_the_lower_goes_then_the_upper_stays() -> None:
    trie = Trie()
    upper, lower = subscription(b"a.*"), subscription(b"a.*.b.>")
    trie.insert(upper)
    trie.insert(lower)
    trie.remove(lower)
    assert found(trie, b"a.b") == [upper.sid]
    trie.insert(lower)
    trie.remove(upper)
    assert found(trie, b"a.b.b.c") == [lower.sid]
    assert found(trie, b"a.b") == []


def test_given_a_pattern_with_new_nodes_then_making_them_counts_as_work() -> None:
    trie, deep = Trie(), b".".join([b"a"] * 999 + [b"*"])
    trie.insert(subscription(deep))
    made = trie.handled
    assert made > 4 * 1000
    trie.insert(subscription(deep))
    assert trie.handled - made == 1000, "they were there"
