"""The broker without sockets: connections that are fed bytes and read as bytes.

stage = Stage()                        a plane, its sublist, its sequencer, its control
stage = Stage(journal=store)           the same with a journal; `stage.loop` advances it
peer = stage.join(b"CONNECT {...}")    a connection; `peer.ask(bytes)` is what it then receives
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from broker.auth.application_claims import ApplicationClaims
from broker.clients.control import Control
from broker.clients.inbox import Inbox
from broker.core import Core
from broker.dataplane.kinds import Classifier
from broker.dataplane.plane import Plane
from broker.replay.replays import Replays
from broker.settings.journal_settings import JournalSettings
from broker.settings.limits_settings import Limits
from broker.settings.settings import Settings
from broker.storage.keeper import Keeper
from sequencer.journal.ring import Ring
from sequencer.journal.store import Store
from sequencer.sequencer import Sequencer
from sublist.sublist import Sublist
from testkit.disk import Disk
from testkit.manual_loop import ManualLoop
from testkit.model_digest import SEED
from testkit.peer import Peer

QUIET = b'CONNECT {"verbose":false,"pedantic":false}\r\n'
HEADS = b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\n'
ASKER = b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true}\r\n'
UNLIMITED = Limits(
    **dict.fromkeys(("max_replays", "max_replays_total"), 0),
    max_subscriptions_total=0,
    max_matches_per_user=0,
)


class Stage:
    """A plane and its parts, assembled as in the server."""

    def __init__(
        self,
        *,
        number: int = 0,
        exclude: Sequence[bytes] = (),
        max_routes: int = 1 << 18,
        max_subscriptions: int = 0,
        max_matches: int = 0,
        hold_pending: int = 1 << 20,
        max_control_line: int = 4096,
        max_payload: int = 1 << 20,
        receive_buffer: int = 1 << 16,
        journal: Store | Ring | None = None,
        sync: Literal["never", "interval", "always"] = "never",
        catchup_pending: int = 1 << 20,
        answers_pending: int = 1 << 29,
    ) -> None:
        classifier = Classifier(exclude)
        self.sublist = Sublist(classifier, max_routes, SEED)
        self.sequencer = Sequencer(number)
        self.plane = Plane(self.sublist, self.sequencer, hold_pending)
        self.inbox = Inbox(receive_buffer, max_control_line, self.plane.gate.spare)
        self.limits = (max_control_line, max_payload)
        self.joined = 0  # connections so far
        self.flushed: list[Peer] = []  # in the order in which output was released
        self.loop = ManualLoop()
        self.replays: Replays | None = None
        self.keeper: Keeper | None = None
        if journal is not None:
            self._keep(journal, sync, catchup_pending, answers_pending)
        limits = replace(UNLIMITED, max_subscriptions=max_subscriptions, max_matches=max_matches)
        loop: Any = self.loop
        parts = (loop, self.plane, None, self.replays, self.keeper, ApplicationClaims())
        core = Core(Settings(limits=limits), *parts)
        self.control = Control(core, classifier, {})
        self.plane.attach(self.control)

    def _keep(
        self, journal: Store | Ring, sync: str, catchup_pending: int, answers_pending: int
    ) -> None:
        """Number and keep messages like a broker with this store; its loop is `self.loop`."""
        loop: Any = self.loop
        self.replays = Replays(self.plane, journal, loop, answers_pending)
        self.plane.gate.catchup_pending = catchup_pending
        if not isinstance(journal, Store | Disk):
            self.sequencer.keep(journal, False, lambda error: None)
            return
        settings = JournalSettings(sync=sync)
        self.keeper = Keeper(self.plane.gate, journal, self.replays, settings, loop)
        self.sequencer.keep(journal, sync == "always", self.keeper.trouble)

    @property
    def number(self) -> int:
        """The last number assigned."""
        return self.sequencer.number

    def join(
        self, connect: bytes = b"", *, frame: str = "netstring", max_pending: int = 1 << 26
    ) -> Peer:
        """Return a new connection on a listener with this frame, after its first operations."""
        peer = Peer(self, frame, max_pending)
        if connect:
            peer.send(connect)
            assert not peer.finished, peer.heard
            peer.heard.clear()
        return peer
