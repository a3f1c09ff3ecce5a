"""Pieces of stages on their way to the other members, and who has written them.

Stages are not a log. A piece says its offset, and what is there already is passed over. A piece is
answered when every member in sync has written it; one that is not connected is not waited for. What
is missing somewhere is found when a PREPARE promises it, and is fetched then.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sequencer.replica import member_messages as m

if TYPE_CHECKING:
    from sequencer.replica.member_link import MemberLink
    from sequencer.replica.promises import Promises

PIECE_BYTES: Final = 1 << 18


@dataclass
class StagedReply:
    """A piece that is written here, and not everywhere."""

    key: int
    connection: int
    size: int
    needs: dict[int, int]  # connection -> pieces sent there, with this one


class StagePieces:
    """Of one reign; a member that does not coordinate has an idle one."""

    def __init__(self, promises: "Promises") -> None:
        self.promises = promises
        self._sent: dict[int, int] = {}  # pieces, by connection
        self._staged: list[StagedReply] = []

    def send_to_all(self, piece: m.StagePiece, key: int, connection: int, size: int) -> None:
        """Send a piece that is written here; answer the request when it is written everywhere."""
        reign = self.promises.reign
        required = reign.in_sync.required()
        needs = {}
        for other, link in reign.links.items():
            self._send(other, piece)
            if link.member in required:
                needs[other] = self._sent[other]
        self._staged.append(StagedReply(key, connection, size, needs))
        self._reply()

    def send_rest(self, link: "MemberLink", fetch: m.StageFetch) -> None:
        """Send a member what it lacks of a stage."""
        stages = self.promises.stages
        key, offset = (fetch.application, fetch.batch, fetch.name), fetch.offset
        while stages is not None and (data := stages.read(key, offset, PIECE_BYTES)):
            self._send(link.connection, m.StagePiece(fetch.epoch, *key, offset, data))
            offset += len(data)

    def _send(self, connection: int, piece: m.StagePiece) -> None:
        self._sent[connection] = self._sent.get(connection, 0) + 1
        self.promises.member.actions.append(m.Send(connection, piece))

    def written(self, link: "MemberLink", count: int) -> None:
        """A member says how many pieces it has written."""
        for staged in self._staged:
            if staged.needs.get(link.connection, count + 1) <= count:
                del staged.needs[link.connection]
        self._reply()

    def link_lost(self, connection: int) -> None:
        """A connection is gone: it waits for nothing, and nobody waits for it."""
        self._sent.pop(connection, None)
        self._staged = [one for one in self._staged if one.connection != connection]
        for staged in self._staged:
            staged.needs.pop(connection, None)
        self._reply()

    def _reply(self) -> None:
        rest = []
        for staged in self._staged:
            if self.is_everywhere(staged):
                self.promises.reply(staged.key, staged.connection, m.OK, {"size": staged.size})
            else:
                rest.append(staged)
        self._staged = rest

    def is_everywhere(self, staged: StagedReply) -> bool:
        """Whether a piece is written by all that it must be written by."""
        return not staged.needs

    def waiting(self) -> list[tuple[int, int]]:
        """Key and connection of requests that are not answered."""
        return [(one.key, one.connection) for one in self._staged]
