"""The sublist against a naive matcher, for any order of changes and lookups."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from sublist.subject import has_wildcard
from sublist.sublist import Sublist
from sublist.subscription import Subscription
from tests.sublist.naive import answered, expected, literals, patterns, published, subscription
from tests.support.depth import examples

queues = st.sampled_from([None, None, b"q", b"r"])
wanted = st.one_of(patterns(), literals)


class SublistModel(RuleBasedStateMachine):
    """Subscriptions come and go; a route must always say what asking each of them says."""

    @initialize(most=st.sampled_from([16, 1 << 18]))
    def begin(self, most: int) -> None:
        self.sublist = Sublist(max_routes=most)
        self.subs: list[Subscription] = []
        self.asked: list[bytes] = []

    @rule(pattern=wanted, queue=queues)
    def insert(self, pattern: bytes, queue: bytes | None) -> None:
        self.subs.append(subscription(pattern, queue))
        self.sublist.insert(self.subs[-1])

    @rule(choice=st.integers(0, 1 << 16))
    def remove(self, choice: int) -> None:
        if self.subs:
            self.sublist.remove(self.subs.pop(choice % len(self.subs)))

    @rule(pattern=patterns(), turns=st.integers(1, 80))
    def churn(self, pattern: bytes, turns: int) -> None:
        """The same wildcard comes and goes: the log of changes runs over."""
        sub = subscription(pattern)
        for _ in range(turns):
            self.sublist.insert(sub)
            self.sublist.remove(sub)

    @rule(subject=published())
    def ask(self, subject: bytes) -> None:
        self.asked.append(subject)
        assert answered(self.sublist.route(subject)) == expected(self.subs, subject)

    @rule(choice=st.integers(0, 1 << 16))
    def ask_again(self, choice: int) -> None:
        if self.asked:
            self.ask(self.asked[choice % len(self.asked)])

    @rule(first=st.integers(0, 1000))
    def ask_many(self, first: int) -> None:
        """Enough subjects to push others out of a small table."""
        for number in range(first, first + 20):
            subject = b"n.%d" % number
            assert answered(self.sublist.route(subject)) == expected(self.subs, subject)

    @invariant()
    def counts(self) -> None:
        if not hasattr(self, "sublist"):
            return
        figures = self.sublist.statistics()
        assert figures["subscriptions"] == len(self.subs)
        assert figures["patterns"] == sum(has_wildcard(sub.subject) for sub in self.subs)
        assert figures["routes"] == figures["misses"] - figures["passed"] - figures["evictions"]
        assert figures["routes"] <= figures["max_routes"] + 8


TestSublistModel = SublistModel.TestCase
TestSublistModel.settings = settings(max_examples=examples(80), stateful_step_count=40)
