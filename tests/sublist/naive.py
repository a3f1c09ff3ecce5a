"""Who gets a message, by a scan of all subscriptions: the judge of the trie and its routes."""

from collections.abc import Iterable
from itertools import count

from hypothesis import strategies as st

from sublist.route import Route
from sublist.subscription import Subscription
from testkit.model_subject import tokens_match

TOKENS = [b"a", b"b", b"c", b"ab", b"*a", b"a*", b">a", b"**"]

_sids = count(1)


def subscription(pattern: bytes, queue: bytes | None = None, owner: object = None) -> Subscription:
    """A subscription with a sid of its own."""
    return Subscription(pattern, b"%d" % next(_sids), queue, owner)


def sids(subs: Iterable[Subscription]) -> list[bytes]:
    """Their sids, sorted: the order of a fan-out is free."""
    return sorted(sub.sid for sub in subs)


Who = tuple[list[bytes], list[tuple[bytes, list[bytes]]]]


def expected(subs: Iterable[Subscription], subject: bytes) -> Who:
    """Sids of plain subscriptions, and of each queue group's members."""
    found = [sub for sub in subs if tokens_match(sub.subject, subject)]
    queues = sorted({sub.queue for sub in found if sub.queue is not None})
    plain = sids(sub for sub in found if sub.queue is None)
    return plain, [(queue, sids(sub for sub in found if sub.queue == queue)) for queue in queues]


def answered(route: Route) -> Who:
    """What a route says, in the form of `expected`."""
    fanout = route.fanout
    groups = [(str_of(members), sids(members)) for members in fanout.groups or ()]
    assert fanout.groups is None or fanout.groups, "no groups are None, which is quick to see"
    return sids(fanout.plain), sorted(groups)


def str_of(members: tuple[Subscription, ...]) -> bytes:
    """The one queue name of a group."""
    (queue,) = {sub.queue for sub in members}
    assert queue is not None
    return queue


tokens = st.sampled_from(TOKENS)
literal_tokens = st.lists(tokens, min_size=1, max_size=4)
literals = literal_tokens.map(b".".join)


@st.composite
def patterns(draw: st.DrawFn) -> bytes:
    """A valid pattern, more often than not with a wildcard."""
    found = [draw(st.one_of(st.just(b"*"), tokens)) for _ in range(draw(st.integers(1, 4)))]
    if draw(st.booleans()):
        found[-1] = b">"
    return b".".join(found)


@st.composite
def published(draw: st.DrawFn) -> bytes:
    """A subject as publishers may send it: wildcards and empty tokens too are just bytes."""
    odd = st.sampled_from([b"*", b">", b""])
    found = draw(st.lists(st.one_of(tokens, tokens, tokens, odd), min_size=1, max_size=5))
    return b".".join(found) or b"."
