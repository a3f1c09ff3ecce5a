"""Pieces of stages on their way to the other members, and which members have written them.

Stages are not a log. A piece has an offset, and bytes that are there already are skipped. A piece
is answered when every member in sync has written it. If one of them cannot, the client must ask
again: that member comes back, or leaves the view. If a part is still missing, because a member has
lost it or came later, that is found when a PREPARE promises it, and the part is fetched then.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sequencer.replica import member_messages as m
from sequencer.replica.coordinator_state import MemberLink
from sequencer.replica.in_sync import InSync
from sequencer.replica.notes.held_notes import REST_BYTES
from sequencer.replica.replicated_log import StageStore

PIECE_BYTES: Final = 1 << 18

# Key and connection of a request, status, and facts: the answer.
Reply = Callable[[int, int, int, dict[str, int] | None], None]


@dataclass
class StagedReply:
    """A piece that is written here, but not yet everywhere."""

    key: int
    connection: int
    facts: dict[str, int]  # the answer
    needs: dict[int, int]  # connection -> pieces sent there, with this one


class StagePieces:
    """The pieces that a coordinator has sent in its epoch."""

    def __init__(self, in_sync: InSync, reply: Reply) -> None:
        self.in_sync = in_sync
        self.coordinator = in_sync.coordinator
        self._reply_to = reply
        self._sent: dict[int, int] = {}  # pieces, by connection
        self._staged: list[StagedReply] = []

    def send_to_all(
        self, piece: m.StagePiece, key: int, connection: int, facts: dict[str, int]
    ) -> None:
        """Send a piece that is written here; answer the request when it is written everywhere."""
        required = self.in_sync.required() - {self.coordinator.member.id}
        needs = {}
        for other, link in self.coordinator.links.items():
            self._send(other, piece)
            if link.member in required:
                needs[other] = self._sent[other]
        missing = len(required) - len(needs)
        if self.must_wait(missing) or not self.in_sync.is_enough():
            self._reply_to(key, connection, m.RETRY, None)
            return
        self._staged.append(StagedReply(key, connection, facts, needs))
        self._reply()

    def send_rest(self, link: MemberLink, fetch: m.StageFetch, stages: StageStore) -> None:
        """Send a member some of what it lacks of a stage. It asks for more when it has that."""
        key, offset = (fetch.application, fetch.batch, fetch.name), fetch.offset
        end = offset + REST_BYTES
        while offset < end:
            data = stages.read(key, offset, PIECE_BYTES)
            if not data:
                break
            self._send(link.connection, m.StagePiece(fetch.epoch, *key, offset, data))
            offset += len(data)

    def _send(self, connection: int, piece: m.StagePiece) -> None:
        self._sent[connection] = self._sent.get(connection, 0) + 1
        self.coordinator.member.send(connection, piece)

    def written(self, link: MemberLink, count: int) -> None:
        """Count the pieces that a member has written, and answer what is written everywhere."""
        for staged in self._staged:
            if staged.needs.get(link.connection, count + 1) <= count:
                del staged.needs[link.connection]
        self._reply()

    def link_lost(self, connection: int) -> None:
        """Forget a connection that is gone: whether it has written its pieces is unknown."""
        self._sent.pop(connection, None)
        staged = [one for one in self._staged if one.connection != connection]
        self._staged = [one for one in staged if connection not in one.needs]
        for one in staged:
            if connection in one.needs:
                self._reply_to(one.key, one.connection, m.RETRY, None)

    def _reply(self) -> None:
        rest = []
        for staged in self._staged:
            if self.must_wait(len(staged.needs)):
                rest.append(staged)
            else:
                self._reply_to(staged.key, staged.connection, m.OK, staged.facts)
        self._staged = rest

    def must_wait(self, missing: int) -> bool:
        """Return whether a piece is unanswered while `missing` members have not written it."""
        return missing > 0

    def waiting(self) -> list[tuple[int, int]]:
        """Return key and connection of the requests that are not answered."""
        return [(one.key, one.connection) for one in self._staged]
