"""The application names of exactly-once publishing, and the users that they belong to.

A name that users claim (`applications` of the user) belongs to them; any other is open to all
clients that may stage. So a client cannot add to, abort or commit the batches of another user's
application.

`has_still` tells if the user that staged a batch still has the rights that it was checked against.
"""

from collections.abc import Callable, Iterable

from broker.dataplane.guard import Guard
from broker.dataplane.user import User
from sublist.pattern_set import PatternSet


class ApplicationClaims:
    """The claimed application names. One per broker, for its one thread; a reload replaces them."""

    def __init__(self) -> None:
        self._claimed: PatternSet | None = None
        self._named: Callable[[str], User | None] | None = None

    def learn(
        self, patterns: Iterable[bytes], named: Callable[[str], User | None] | None = None
    ) -> None:
        """Set the patterns of all users' applications.

        `named` finds a user by its name; None: there are no users, and everything is allowed.
        """
        self._named = named
        patterns = tuple(patterns)
        self._claimed = PatternSet(patterns) if patterns else None

    def user_named(self, name: str) -> User | None:
        """Return the user of this name; None if there is none, or no users at all."""
        return None if self._named is None else self._named(name)

    def has_still(self, name: str | None, guard: Guard | None) -> bool:
        """True if the user of this name still has this guard, or all rights.

        Always True if there are no users; otherwise False without a name.
        """
        if self._named is None:
            return True
        user = None if name is None else self._named(name)
        return user is not None and user.guard in (None, guard)

    def may_use(self, user: User | None, application: str) -> bool:
        """True if this user may stage, commit and abort batches of this application."""
        if self._claimed is None:
            return True
        name = application.encode()
        if user is not None and PatternSet(user.applications).takes(name):
            return True
        return not self._claimed.takes(name)
