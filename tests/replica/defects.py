"""Defects, planted one at a time: what a hurried developer might write. Each must be caught.

A defect is a member (or an engine) of which one rule is another; the core knows nothing of them.
"""

import dataclasses
from typing import Any, NamedTuple, cast

from sequencer.replica import member_messages as m
from sequencer.replica.coordinator_role import CoordinatorRole
from sequencer.replica.follower_role import FollowerRole
from sequencer.replica.in_sync import InSync
from sequencer.replica.member import Member
from sequencer.replica.view import View
from tests.replica.batch_defects import BATCH_DEFECTS, defective
from tests.replica.world import Engine

DEFECTS: dict[str, dict[str, Any]] = {**BATCH_DEFECTS}


def planted(name: str, **parts: Any) -> None:
    DEFECTS[name] = defective(**parts)


# Delivered when the coordinator has it, as JGroups' SEQUENCER does


class Eager(InSync):
    def required(self) -> set[str]:
        return {self.member.id}


planted("deliver before all have it", in_sync_kind=Eager)


# Delivered by members when it comes, before the watermark says so


class Hasty(FollowerRole):
    def _take(self, message: Any) -> None:
        if isinstance(message, m.Data) and message.records is not None:
            message = message._replace(watermark=max(message.records.last, message.watermark))
        super()._take(message)


planted("deliver when it comes", follower_kind=Hasty)


# No fencing: an old coordinator is heard on as long as its connection is there


class Unfenced(FollowerRole):
    def is_of_epoch(self, connection: int, epoch: int) -> bool:
        return connection == self.connection and bool(self.epoch)

    def view_is_new(self, view: View) -> None:
        self.heard = self.member.now

    def tick(self) -> None:
        if not self.connection:
            super().tick()

    def acknowledge(self) -> None:
        member, log = self.member, self.member.log
        if self.epoch and self._welcome is None:
            number = log.synced if member.settings.is_always else log.last
            notes, pieces = member.notes.last, self._written
            ack = m.Ack(self.epoch, number, notes, pieces, self._echo)
            member.actions.append(m.Send(self.connection, ack))


class Believing(CoordinatorRole):
    def _acknowledged(self, link: Any, message: m.Ack) -> None:
        super()._acknowledged(link, message._replace(number=min(message.number, link.sent)))


class Obedient(Member):
    """Answers its old coordinator even when it coordinates itself."""

    def flush(self) -> None:
        super().flush()
        if self.coordinator is not None:
            self.follower.flush()


DEFECTS["no fencing by epoch"] = {
    "member": type(
        "Defective", (Obedient,), {"follower_kind": Unfenced, "coordinator_kind": Believing}
    )
}


# The epoch is not written down: a restart believes an older view


class Forgetful(Member):
    def __init__(self, memory: Any, *args: Any, **more: Any) -> None:
        old = getattr(memory, "first_heard", None)
        memory.epoch = memory.revision = 0
        memory.view = None
        super().__init__(memory, *args, **more)
        if old is not None:
            self.on_view(*old)

    def on_view(self, revision: int, view: View) -> None:
        memory: Any = self.memory
        if view.epoch > memory.epoch:  # what is on the disk is one behind
            memory.first_heard = getattr(memory, "heard", None)
            memory.heard = (revision, view)
        super().on_view(revision, view)


DEFECTS["epoch not on the disk"] = {"member": Forgetful}


# A new coordinator drops what it does not know to be committed, and numbers from there


class Hurried(Member):
    def _begin_epoch(self) -> None:
        self.follower.cut(self.watermark)
        super()._begin_epoch()


DEFECTS["no collect before assign"] = {"member": Hurried}


# Forwarded again at once; the coordinator drops duplicates by a window


class Resending(FollowerRole):
    """Does not wait until the log has what was taken."""

    def _look_whether_ready(self) -> None:
        base, self.base = self.base, 0
        super()._look_whether_ready()
        self.base = base


class Windowed(CoordinatorRole):
    SIZE = 20

    def _take(self, link: Any, message: Any) -> None:
        if isinstance(message, m.Forward):
            message = message._replace(data=self._unknown(bytes(message.data)))
        super()._take(link, message)

    def _unknown(self, data: bytes) -> bytes:
        from tests.replica.machine_disk import split

        log: Any = self.member.log
        known = {
            log.at(number)[24:40]
            for number in range(max(log.last - self.SIZE, log.first), log.last + 1)
        }
        return b"".join(one for one in split(data) if one[24:40] not in known)


planted("forwards deduplicated by a window", follower_kind=Resending, coordinator_kind=Windowed)
planted("forward before the base is here", follower_kind=Resending)


# What a deposed coordinator had numbered, and loses, is not given back


class Losing(FollowerRole):
    def cut(self, number: int) -> bool:
        member, last = self.member, self.member.log.last
        done = super().cut(number)
        if done and last > number:
            member.table.drop(member.table.sent_origins())
        return done


planted("cut records are not forwarded again", follower_kind=Losing)


# Members cut their logs to what the coordinator knows to be committed, not to what is common


class Cutting(FollowerRole):
    def cut(self, number: int) -> bool:
        member = self.member
        member.watermark = min(member.watermark, number)
        member.delivered = min(member.delivered, number)
        return super().cut(number)


class Marked(CoordinatorRole):
    def _match(self, message: m.Hello) -> tuple[m.Welcome, int]:
        last = min(message.last, max(self.member.watermark, self.member.log.first - 1))
        table = tuple(one for one in message.epochs if one[1] <= last)
        return super()._match(message._replace(epochs=table, last=last))


planted("cut to the coordinator's watermark", follower_kind=Cutting, coordinator_kind=Marked)


# Logs are compared by number alone


class Numbered(CoordinatorRole):
    def _match(self, message: m.Hello) -> tuple[m.Welcome, int]:
        log = self.member.log
        last = min(message.last, log.last)
        table = tuple(one for one in log.epochs() if one[1] <= last)
        return super()._match(message._replace(epochs=table, last=last))


planted("logs compared by number alone", coordinator_kind=Numbered)


# The view is set, and not compared


class Blind(Engine):
    def swap(self, revision: int, view: View) -> bool:
        return super().swap(self.revision, view)


DEFECTS["swap without compare"] = {"engine": Blind}


# Two coordinators: a member that hears nothing begins an epoch without asking


class Usurper(Member):
    def propose(self, view: View) -> None:
        if view.coordinator == self.id and self.coordinator is None:
            self.on_view(self.revision + 1, view)
        else:
            super().propose(view)


DEFECTS["takes over without the engine"] = {"member": Usurper}


# A new member counts when the view has it, and not before


class Lax(InSync):
    def required(self) -> set[str]:
        return set(self.view.members)

    def _joiner(self, view: View) -> tuple[str, ...]:
        for link in self.coordinator.links.values():
            known = link.member in self.coordinator.acked and not self.is_silent(link.member)
            is_near = self.coordinator.level(link.member)[0] + 64 >= self.member.log.last
            if link.member not in view.members and known and is_near:
                return (link.member,)
        return ()


planted("a joiner does not count before the swap", in_sync_kind=Lax)


# A silent member does not count any more as soon as that is proposed


class Rash(InSync):
    def required(self) -> set[str]:
        names = super().required()
        for proposal in self.proposals:
            names &= set(proposal.members)
        return names


planted("who is to go does not count before the swap", in_sync_kind=Rash)


# A member whose machine refuses connections does not count any more, before any swap


class Disowning(InSync):
    def required(self) -> set[str]:
        return super().required() - self.gone


planted("who refuses connections does not count", in_sync_kind=Disowning)


# The view may shrink below what is to be in sync


class Shrinking(InSync):
    def least(self, view: View) -> int:
        return 1

    def is_enough(self) -> bool:
        return True


planted("the view shrinks below min_in_sync", in_sync_kind=Shrinking)


# Acknowledged before the disk has it, with sync = always


class Unsynced(FollowerRole):
    def acknowledge(self) -> None:
        settings = self.member.settings
        self.member.settings = dataclasses.replace(settings, sync="interval")
        super().acknowledge()
        self.member.settings = settings


planted("acknowledged before it is synced", follower_kind=Unsynced)


# An old connection of a member is read on after it has made a new one


class Hearing(CoordinatorRole):
    def replace(self, name: str) -> None:
        pass


planted("an old connection is read on", coordinator_kind=Hearing)


# A duplicate is answered before the first one is committed


class Blurting(FollowerRole):
    def _answered(self, message: m.AlreadyNumbered) -> None:
        if self.epoch:
            self.member.actions.append(
                cast(Any, Blurted(message.origin, message.sequence, message.number))
            )
        super()._answered(message)


class Blurted(NamedTuple):
    """An answer that is given at once."""

    origin: int
    sequence: int
    number: int


planted("a duplicate is answered at once", follower_kind=Blurting)


# A restarted process goes on with the epoch of the one before


class Undead(Member):
    def on_view(self, revision: int, view: View) -> None:
        is_fresh = revision > self.revision and self.coordinator is None
        super().on_view(revision, view)
        is_own = view.coordinator == self.id and view.epoch == self.memory.epoch
        if is_fresh and is_own and self.coordinator is None:
            self._begin_epoch()


DEFECTS["a restarted process goes on with its epoch"] = {"member": Undead}


# A member whose disk lost what it had acknowledged keeps its id

DEFECTS["a member that lost its tail keeps its place"] = {"keeps_name": True}


# Views are ordered by the engine's revision alone, also after it was put back


class Revised(Member):
    def on_view(self, revision: int, view: View) -> None:
        if revision > self.revision:
            super().on_view(revision, view)


DEFECTS["views are ordered by revision alone"] = {"member": Revised}


# A process trusts the revision that it remembers


class Trusting(Member):
    engine_has_answered = property(lambda self: True, lambda self, _: None)


DEFECTS["proposes before the engine has answered"] = {"member": Trusting}


# A joiner is measured by this coordinator's watermark: others may know a higher one


class Nearsighted(CoordinatorRole):
    def begin(self) -> None:
        self.inherited = 0, 0
        super().begin()


planted("a joiner is measured by the watermark alone", coordinator_kind=Nearsighted)


# What waited for longer than ids are remembered is forwarded all the same


class Patient(Member):
    def drop_expired(self) -> None:
        pass


class Unhurried(CoordinatorRole):
    def _drop_silent(self) -> None:
        pass


DEFECTS["forwarded after its id is forgotten"] = {
    "member": type("Defective", (Patient,), {"coordinator_kind": Unhurried})
}


# A coordinator takes messages however much waits to be committed


class Greedy(CoordinatorRole):
    is_behind = False


planted("no bound on what is not committed", coordinator_kind=Greedy)


# What the disk has refused is not counted in what was taken


class Short(CoordinatorRole):
    def _match(self, message: m.Hello) -> tuple[m.Welcome, int]:
        welcome, notes = super()._match(message)
        return welcome._replace(base=self.member.log.last), notes


planted("the base is the log's end", coordinator_kind=Short)


# A coordinator whose disk is full gives up what others have forwarded, and does not say so


class Silent(CoordinatorRole):
    def stop_taking(self) -> None:
        self.member.numbering.sequencer.release()
        self.member.numbering.stop()
        self.batches.forget_above(self.member.log.last)


planted("what could not be written is forgotten", coordinator_kind=Silent)


# A subscription begins after what is delivered: what is in the log is new to it


class Delivering(Member):
    @property
    def published(self) -> int:
        return self.delivered


DEFECTS["a subscription begins after what is delivered"] = {"member": Delivering}


# A member that hears no coordinator goes by its own log


class Secluded(FollowerRole):
    @property
    def published(self) -> int:
        return max(self.member.log.last, self._watermark)


planted("what is published is known without a coordinator", follower_kind=Secluded)


# A subscription waits for numbers that were cut, while others get them


class Unforgiving(FollowerRole):
    def cut(self, number: int) -> bool:
        member, done = self.member, super().cut(number)
        member.actions = [one for one in member.actions if not isinstance(one, m.LogCut)]
        return done


planted("a subscription begins after what was cut", follower_kind=Unforgiving)


# A process knows what was committed, and not which notes must be, too


class Halfway(Member):
    def know_committed(self, watermark: int) -> None:
        self.advance(watermark)


DEFECTS["a watermark is known without its notes"] = {"member": Halfway}


# A store that an earlier process has left is taken for the newest one

DEFECTS["a copy of the past keeps its id"] = {"keeps_copies": True}


# A coordinator takes a member that has less than it had acknowledged


class Trustful(CoordinatorRole):
    def loss(self, hello: m.Hello) -> str:
        return ""


planted("a member may have less than it acknowledged", coordinator_kind=Trustful)


# What a member's clock once said stays with it: a follower that was ahead takes over


class Ratcheted(Member):
    """Its time never goes back, as if all that it ever said were in a record."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "wall":
            value = max(value, self.__dict__.get("wall", 0))
        super().__setattr__(name, value)


DEFECTS["a follower's clock never goes back"] = {"member": Ratcheted}


# Ages are measured by the time of day: a jump makes ids old


class Dated(Member):
    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, self.__dict__["wall"] if name == "steady" and value else value)


DEFECTS["ages are measured by the time of day"] = {"member": Dated}
