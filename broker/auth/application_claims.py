"""Which user may use which name of an application of exactly-once publishing.

A name that users claim (`applications` of the user) belongs to them; any other is open to all who
may stage. So nobody can add to, abort or commit the batches of another user's application.

It also knows whether who has staged something still has the rights by which it was judged.
"""

from collections.abc import Callable, Iterable

from broker.dataplane.guard import Guard
from broker.dataplane.user import User
from sublist.pattern_set import PatternSet


class ApplicationClaims:
    """One per broker, for its one thread; a reload changes what it knows."""

    def __init__(self) -> None:
        self._claimed: PatternSet | None = None
        self._named: Callable[[str], User | None] | None = None

    def learn(
        self, patterns: Iterable[bytes], named: Callable[[str], User | None] | None = None
    ) -> None:
        """These are the patterns of all users' applications from now on.

        `named` finds a user by its name; None: everybody may do everything.
        """
        self._named = named
        patterns = tuple(patterns)
        self._claimed = PatternSet(patterns) if patterns else None

    def has_still(self, name: str | None, guard: Guard | None) -> bool:
        """Whether the user of this name, or who had none, still has these rights, or all."""
        if self._named is None:
            return True
        user = None if name is None else self._named(name)
        return user is not None and user.guard in (None, guard)

    def may_use(self, user: User | None, application: str) -> bool:
        """Whether this user may stage, commit and abort batches of this application."""
        if self._claimed is None:
            return True
        name = application.encode()
        if user is not None and PatternSet(user.applications).takes(name):
            return True
        return not self._claimed.takes(name)
