"""Which user may use which name of an application of exactly-once publishing.

A name that users claim (`applications` of the user) belongs to them; any other is open to all who
may stage. So nobody can add to, abort or commit the batches of another user's application.
"""

from collections.abc import Iterable

from broker.dataplane.user import User
from sublist.pattern_set import PatternSet


class ApplicationClaims:
    """One per broker, for its one thread; a reload changes what it knows."""

    def __init__(self) -> None:
        self._claimed: PatternSet | None = None

    def learn(self, patterns: Iterable[bytes]) -> None:
        """These are the patterns of all users' applications from now on."""
        patterns = tuple(patterns)
        self._claimed = PatternSet(patterns) if patterns else None

    def may_use(self, user: User | None, application: str) -> bool:
        """Whether this user may stage, commit and abort batches of this application."""
        if self._claimed is None:
            return True
        name = application.encode()
        if user is not None and PatternSet(user.applications).takes(name):
            return True
        return not self._claimed.takes(name)
