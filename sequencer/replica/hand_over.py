"""Handing over: another member becomes coordinator, and publishing stands for some milliseconds.

    stop taking --> wait until the chosen one has everything --> swap --> the engine has said so
         ^                          |                              |               |
         '--- not soon enough ------'---------- not answered ------'          HandOver to it

While it lasts, messages wait: those of this member's clients in the forward table, those of others
in `MemberLink.held`. If nobody answers, this member takes them, and goes on as coordinator. That
is safe: its commits need the chosen member, which has moved on if the swap was done after all.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sequencer.replica.reign import Reign


class HandingOver:
    """Of one reign, which writes it."""

    def __init__(self, reign: "Reign") -> None:
        self.reign = reign
        self.to = ""  # the chosen member; "": none
        self._until = 0.0
        self._is_proposed = False

    def begin(self, to: str) -> str:
        """Stop taking messages; return "", or why this member cannot be chosen."""
        reign = self.reign
        if self.to:
            return f"this member hands over to {self.to} already"
        if not reign.is_begun:
            return "this member's reign has only begun"
        if to == reign.member.id:
            return "this member coordinates already"
        if to not in reign.in_sync.view.members:
            return f"{to} is not in sync"
        if reign.link_of(to) is None:
            return f"{to} is not connected"
        if reign.in_sync.proposals:
            return "the engine has not yet answered about a change of the view"
        self.to = to
        self._until = reign.member.now + reign.member.settings.hand_over
        self._is_proposed = False
        reign.stop_taking()
        return ""

    def go_on(self) -> None:
        """Propose the chosen member as soon as it has everything; give up after some time."""
        if not self.to:
            return
        reign, member = self.reign, self.reign.member
        link = reign.link_of(self.to)
        if member.now >= self._until:
            self.to = ""
            reign.take_again()
        elif link is not None and not self._is_proposed and self.has_everything():
            self._is_proposed = True
            view = reign.in_sync.view
            reign.in_sync.propose(
                view._replace(epoch=reign.epoch + 1, coordinator=self.to, run=link.run)
            )

    def has_everything(self) -> bool:
        """Whether the chosen member has all that this one has."""
        member = self.reign.member
        return self.reign.level(self.to) == (member.log.last, member.notes.last)
