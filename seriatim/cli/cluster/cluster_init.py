"""`seriatim cluster init`: a store becomes the first member of a new cluster.

First the store records its member id, then etcd gets the view that names it. So an interrupted
`init` can be run again. The view is only created, never replaced.
"""

import asyncio
import os
import time
from typing import Final, NamedTuple

from broker.cluster.engine.etcd import EtcdAccess, EtcdGateway
from broker.cluster.engine.etcd_keeper import EtcdKeeper
from broker.cluster.engine.view_keeper import EngineError, EngineRefused, KeptView, WrongEngine
from broker.cluster.storage.first_notes import first_notes, write_notes
from broker.cluster.storage.membership import Membership, Remembered, read_member
from broker.storage.member_store import FILE, FOLDER
from broker.storage.note_file import FILE as NOTES
from sequencer.journal.disk import remove
from sequencer.journal.store import Store
from sequencer.replica.view import View
from seriatim.cli.errors import CliError

TRIES: Final = 10  # to learn whether the view was created
RETRY_S: Final = 0.5


class MadeCluster(NamedTuple):
    """A cluster that `init` has made, or found from an earlier run."""

    cluster: str
    path: str
    first: int  # numbers of the store
    last: int
    view: View
    again: bool  # it had been made before


def make(access: EtcdAccess, cluster: str, path: str, min_in_sync: int) -> MadeCluster:
    """Make the cluster. Raises `CliError`, `EngineError`, `BadView` and `StoreError`."""
    return asyncio.run(_make(access, cluster, os.path.abspath(path), min_in_sync))


async def _make(access: EtcdAccess, cluster: str, path: str, min_in_sync: int) -> MadeCluster:
    keeper = EtcdKeeper(EtcdGateway(access), cluster)
    try:
        kept = await keeper.read()
        found = read_member(path)
        ours = found is not None and kept.view is not None and kept.view.members == (found.member,)
        if kept.view is not None and not ours:
            raise CliError(_exists(cluster, kept.view, found))
        if found is not None and found.view is not None and not ours:
            raise CliError(_is_member(path, found, cluster))
        store = Store.open(path, time.time_ns())
        try:
            return await _first_member(keeper, cluster, store, kept, min_in_sync)
        finally:
            store.close()
    finally:
        await keeper.close()


async def _first_member(
    keeper: EtcdKeeper, cluster: str, store: Store, kept: KeptView, min_in_sync: int
) -> MadeCluster:
    """Write member.json, and create the view. The open store keeps any broker out."""
    notes = first_notes(store.path, store.epoch)
    found = read_member(store.path)
    place = os.path.join(store.path, FOLDER)
    if found is not None and found.cluster == cluster and found.place == os.stat(place).st_ino:
        membership = Membership(store.path, found)
    else:
        membership = Membership.create(store.path, cluster)
    again = kept.view is not None and kept.view.members == (membership.member,)
    if not again:
        if kept.view is not None:
            raise CliError(_exists(cluster, kept.view, found))
        write_notes(place, notes)
        run = await keeper.next_run(membership.newest_run)
        wanted = View(
            journal=store.id,
            # Above every epoch that the store has records of, or has used for this opening.
            epoch=max(store.epoch, membership.epoch) + 1,
            coordinator=membership.member,
            run=run,
            members=(membership.member,),
            min_in_sync=min_in_sync,
            first=store.last + 1,
        )
        membership.start_run(run)
        kept = await _create(keeper, wanted)
        if kept.view != wanted:
            for name in (FILE, NOTES):
                remove(os.path.join(place, name))
            assert kept.view is not None, "it is the one that was there first"
            raise CliError(_exists(cluster, kept.view, None))
        membership.put_reserve(await keeper.next_run(run))
    assert kept.view is not None, "it was created now, or before"
    membership.learn_engine(keeper.engine_id)
    membership.learn(kept.view.epoch, kept.revision, kept.view)
    return MadeCluster(cluster, store.path, store.first, store.last, kept.view, again)


async def _create(keeper: EtcdKeeper, wanted: View) -> KeptView:
    """Create the view; return the one in etcd then: this one, or another that was created first.

    A retry for revision 0 does no harm: it can succeed once at most.
    """
    problem: EngineError | None = None
    for _ in range(TRIES):
        try:
            return (await keeper.swap(0, wanted)).now
        except (EngineRefused, WrongEngine):
            raise
        except EngineError as error:
            problem = error
            await asyncio.sleep(RETRY_S)
    raise CliError(f"{problem}; when etcd answers, run this again: it goes on where it was")


def _exists(cluster: str, view: View, found: Remembered | None) -> str:
    count = len(view.members)
    members = "1 member" if count == 1 else f"{count} members"
    exists = f"the cluster {cluster} exists already, with {members} in sync, epoch {view.epoch}"
    if found is not None and found.cluster == cluster:
        return (
            f"{exists}, and this store is its member {found.member}: start it with --cluster"
            f" {cluster}"
        )
    return (
        f"{exists}; to add this broker, start it with --cluster {cluster} and an empty directory;"
        " for a new cluster, choose another name"
    )


def _is_member(path: str, found: Remembered, cluster: str) -> str:
    """Explain why the store of a member cannot begin a cluster that etcd does not know."""
    said = f"{path}: this store is a member of the cluster {found.cluster} already"
    if found.cluster == cluster:
        return f"{said}, which etcd has lost; `seriatim cluster recover -sd {path}` brings it back"
    return (
        f"{said}. If etcd has lost that one, `seriatim cluster recover --cluster {found.cluster}"
        f" -sd {path}` brings it back; to begin {cluster} with its messages, delete"
        f" {os.path.join(path, FOLDER)} first"
    )


def lines(made: MadeCluster, etcd: str) -> list[str]:
    """Return the command's output for the user."""
    view, what = made.view, "exists, made before from" if made.again else "is made from"
    numbers = f"numbers {made.first} to {made.last}" if made.last >= made.first else "empty"
    serve = f"seriatim serve --cluster {made.cluster} --etcd {etcd} --advertise HOST:PORT"
    said = [
        f"The cluster {made.cluster} {what} journal {view.journal}, {numbers}.",
        f"Its first member is {view.coordinator}, in {made.path}.",
        f"Start it:        {serve} -sd {made.path}",
        f"Start the others: {serve} -sd DIR",
        "with an empty DIR on their machines; all need the same --cluster_secret FILE.",
    ]
    if view.min_in_sync > 1:
        said.append(f"Nothing is published until {view.min_in_sync} members are in sync.")
    return said
