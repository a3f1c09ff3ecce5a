"""The objects that all parts of a broker share. Parts get this, and do not know the server.

The server makes it once, before the first client comes. Only `settings` are replaced later, when
they are read again: a part that needs one reads it here each time.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from broker.auth.application_claims import ApplicationClaims
from broker.dataplane.backpressure import hold
from broker.dataplane.client_session import HeldPublisher
from broker.dataplane.plane import Plane
from broker.replay.replays import Replays
from broker.settings.settings import Settings
from broker.storage.keeper import Keeper
from sequencer.journal.ring import Ring
from sequencer.journal.store import Store


@dataclass(slots=True)
class Core:
    """The shared objects of one broker, for its one thread."""

    settings: Settings
    loop: asyncio.AbstractEventLoop
    plane: Plane
    journal: Store | Ring | None  # None: messages are not kept
    replays: Replays | None  # if there is a journal
    keeper: Keeper | None  # if the journal is on disk
    claims: ApplicationClaims
    cluster_facts: Callable[[], dict[str, object]] | None = None  # for `$SEQ.INFO` of a member
    # Of a member: run the action when this number may be shown; False: it is not there either.
    await_number: Callable[[int, Callable[[], None]], bool] | None = None
    stalls: int = 0  # times that a publisher waited for subscribers

    def change(self, settings: Settings) -> None:
        """Put other settings into effect."""
        self.settings = settings

    def hold(self, publisher: HeldPublisher) -> None:
        """Make a publisher wait for the subscribers that it has outrun in this event."""
        before = publisher.held_by
        hold(publisher, self.plane.gate, self.settings.limits.hold_ms / 1000)
        self.stalls += publisher.held_by > before

    def advance(self) -> None:
        """Serve those that wait for numbers: some were given."""
        if self.replays is not None and self.replays.waits:
            self.replays.advance()
