"""`seriatim cluster recover`: for a view that etcd has lost, or whose members cannot come back.

A view is made by force: one member, the one with the longest journal. Its epoch is above all that
members know, so they all follow it, and `stream` rises: numbers may be lost, and be given to other
messages. So receivers of feeds begin a new session.

    of members that run     each says how long its journal is; the longest one is taken
    of one store (-sd)      the store's member is stopped; for an etcd that is new
"""

import asyncio
import json
import os
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from broker.cluster.engine.etcd import EtcdAccess, EtcdGateway
from broker.cluster.engine.etcd_keeper import EtcdKeeper
from broker.cluster.engine.etcd_requests import Answers, EtcdRequests
from broker.cluster.engine.view_keeper import (
    EngineError,
    EngineRefused,
    KeptView,
    Presence,
    WrongEngine,
)
from broker.cluster.storage.membership import open_membership, read_member
from sequencer.journal.replica_store import ReplicaStore
from sequencer.replica.replicated_log import NEW
from sequencer.replica.view import View, view_from_json
from seriatim.cli.errors import CliError

REPORT_S: Final = 5.0
TRIES: Final = 10
RETRY_S: Final = 0.5
# Other stores, which cannot be asked, may know epochs up to this far ahead.
EPOCHS_AHEAD: Final = 1000

Confirm = Callable[[list[str], int], None]  # the lines to show, and the number of members seen


class MemberReport(NamedTuple):
    """A member's report about itself."""

    member: str
    last: int
    log_epoch: int
    journal: str
    epoch: int
    revision: int  # etcd's, of the newest view that it knows
    run: int
    role: str
    view: View | None

    def line(self) -> str:
        """Describe the member in one line for the user."""
        what = f"up to number {self.last}, of epoch {self.log_epoch}" if self.last else "empty"
        return f"  {self.member}  {what}, {self.role}"


def recover(access: EtcdAccess, cluster: str, store: str, confirm: Confirm) -> list[str]:
    """Make the view; return what to print. `store`: of a stopped member; empty: ask the running.

    Raises `CliError`, `EngineError`, `BadView`, `StoreError`.
    """
    return asyncio.run(_recover(access, cluster, store, confirm))


async def _recover(access: EtcdAccess, cluster: str, store: str, confirm: Confirm) -> list[str]:
    gateway = EtcdGateway(access)
    keeper = EtcdKeeper(gateway, cluster)
    try:
        if store:
            return await _of_store(keeper, cluster, os.path.abspath(store), confirm)
        return await _of_present(keeper, EtcdRequests(gateway, cluster), cluster, confirm)
    finally:
        await keeper.close()


def no_view(cluster: str, present: dict[str, Presence]) -> CliError:
    """Return the error with advice for a cluster that etcd does not know, or has lost."""
    if present:
        count = f"{len(present)} members are" if len(present) > 1 else "1 member is"
        return CliError(
            f"etcd has lost the view of {cluster}: {count} there and go on, but none can take over,"
            " join or leave. Give etcd its data back, or run `seriatim cluster recover`"
        )
    return CliError(
        f"etcd knows no cluster {cluster}. If there was one, etcd has lost it:"
        " `seriatim cluster recover -sd DIR` brings it back from the store of a member."
        " `seriatim cluster init` is for a cluster that there never was"
    )


# Members that run


async def _of_present(
    keeper: EtcdKeeper, requests: EtcdRequests, cluster: str, confirm: Confirm
) -> list[str]:
    kept, present = await keeper.read(), set(await keeper.members())
    if not present:
        raise CliError(
            f"no member of {cluster} is there; start all that you have, and wait some seconds; for"
            " an etcd that is new, stop them, and give the store of one with -sd"
        )

    def all_have(answers: Answers) -> bool:
        return present <= answers.keys()

    answers = await requests.post("report", "", all_have, REPORT_S)
    reports = [_report(member, fields) for member, fields in sorted(answers.items())]
    silent = sorted(present - answers.keys())
    chosen = _longest(reports, kept, cluster)
    lines = [f"{len(reports)} members of {cluster} are there:", *map(MemberReport.line, reports)]
    lines += [f"  {member}  is in the list, and does not answer" for member in silent]
    lines += _costs(chosen.member, chosen.last)
    confirm(lines, len(reports))
    base = kept.view or chosen.view
    known = [one.view for one in reports if one.view is not None]
    known += [kept.view] if kept.view is not None else []
    epochs = [0, *(view.epoch for view in known)]
    epochs += [max(one.epoch, one.log_epoch) for one in reports]
    wanted = View(
        journal=chosen.journal,
        epoch=max(epochs) + 1,
        coordinator=chosen.member,
        run=chosen.run,
        members=(chosen.member,),
        min_in_sync=base.min_in_sync if base else 2,
        stream=max([0, *(view.stream for view in known)]) + 1,
        first=base.first if base else chosen.last + 1,
        protocol=base.protocol if base else 1,
    )
    await _put(keeper, kept, wanted)
    return _done(wanted, "The other members follow it by themselves.")


def _report(member: str, fields: dict[str, Any]) -> MemberReport:
    text = fields["view"]
    view = view_from_json(text.encode()) if text else None
    known = {name: fields[name] for name in MemberReport._fields if name in fields}
    return MemberReport(**{**known, "member": member, "view": view})


def _longest(reports: list[MemberReport], kept: KeptView, cluster: str) -> MemberReport:
    """The member with the longest log. Raises `CliError` if recovery is unneeded or impossible."""
    if not reports:
        raise CliError(
            f"no member of {cluster} answers: those in the list may have been killed just now;"
            " start all that you have, and wait some seconds"
        )
    view = kept.view
    newest = max(((one.epoch, one.revision) for one in reports), default=(0, 0))
    # Otherwise etcd was restored to an old state, and no member follows its view.
    if view is not None and (view.epoch, kept.revision) >= newest:
        able = [one for one in reports if one.member in view.members]
        if able:
            raise CliError(
                f"{able[0].member} is in sync and is there: it coordinates by itself, so nothing"
                f" is to be recovered. {view.min_in_sync} members must be in sync to publish: start"
                " others"
            )
    found = [one for one in reports if one.journal != NEW and one.last]
    found = [one for one in found if view is None or one.journal == view.journal]
    if not found:
        raise CliError(f"none of the members that are there has a journal of {cluster}")
    if len({one.journal for one in found}) > 1:
        raise CliError("the members have different journals; stop those of another cluster")
    # A member that coordinates without etcd has everything that was committed.
    return max(found, key=lambda one: (one.role == "coordinator", one.log_epoch, one.last))


# One store, of a member that is stopped


async def _of_store(keeper: EtcdKeeper, cluster: str, path: str, confirm: Confirm) -> list[str]:
    kept = await keeper.read()
    found = read_member(path)
    if found is None or found.cluster != cluster:
        what = f"of {found.cluster}" if found else "of no cluster"
        raise CliError(f"{path}: this store is a member {what}; `seriatim cluster init` makes one")
    if await keeper.members():
        raise CliError("members are there: run this without -sd, or stop them first")
    if kept.view is not None and kept.view.epoch > found.epoch:
        raise CliError(
            f"etcd has a view of {cluster} with epoch {kept.view.epoch}, and this store knows"
            f" {found.epoch}: nothing is to be recovered here; start the member"
        )
    store = ReplicaStore.open(path, time.time_ns())
    try:
        membership, _ = open_membership(path, cluster, found.sync)
        lines = [f"The store {path} of {cluster} goes up to number {store.last}."]
        lines += _costs(membership.member, store.last)
        lines += [
            "Look at the stores of all members (`seriatim journal info`) first: take the one with"
            " the highest epoch, and of these the one with the highest number."
        ]
        confirm(lines, 1)
        run = await keeper.next_run(membership.newest_run)
        base = found.view
        wanted = View(
            journal=store.id,
            epoch=max(store.epoch, found.epoch) + EPOCHS_AHEAD,
            coordinator=membership.member,
            run=run,
            members=(membership.member,),
            min_in_sync=base.min_in_sync if base else 2,
            stream=(base.stream if base else 0) + 1,
            first=base.first if base else store.last + 1,
            protocol=base.protocol if base else 1,
        )
        now = await _put(keeper, kept, wanted)
        membership.start_run(run)
        membership.learn_engine(keeper.engine_id)
        membership.learn(wanted.epoch, now.revision, wanted)
        membership.close()
    finally:
        store.close()
    return _done(wanted, "Start this member first, then the others with their own directories.")


# Both


def _costs(member: str, last: int) -> list[str]:
    return [
        f"{member} becomes the only member in sync. The others copy what it has, and lose what it"
        " has not.",
        f"Numbers above {last} that clients were shown are lost, if there are any. They will be"
        " given to other messages.",
    ]


def _done(view: View, then: str) -> list[str]:
    return [
        f"{view.coordinator} coordinates, epoch {view.epoch}, stream {view.stream}.",
        then,
        f"Nothing is published until {view.min_in_sync} members are in sync."
        if view.min_in_sync > 1
        else "It publishes alone.",
    ]


async def _put(keeper: EtcdKeeper, kept: KeptView, wanted: View) -> KeptView:
    """Replace the view that was read. Raises `CliError` if another one came meanwhile."""
    problem: EngineError | None = None
    for _ in range(TRIES):
        try:
            now = (await keeper.swap(kept.revision, wanted)).now
        except (EngineRefused, WrongEngine):
            raise
        except EngineError as error:
            problem = error
            await asyncio.sleep(RETRY_S)
            continue
        if now.view != wanted:
            there = json.dumps(now.view._asdict()) if now.view else "none"
            raise CliError(f"the view has changed meanwhile; look again: {there}")
        return now
    raise CliError(f"{problem}; when etcd answers, run this again")
