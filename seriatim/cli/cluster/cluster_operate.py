"""`seriatim cluster handover`, `remove` and `stop`: requests to the members through etcd."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Any, Final, NamedTuple

from broker.cluster.engine.etcd import EtcdAccess, EtcdGateway
from broker.cluster.engine.etcd_keeper import EtcdKeeper
from broker.cluster.engine.etcd_requests import Answers, EtcdRequests
from broker.cluster.engine.view_keeper import Presence
from sequencer.replica.view import View
from seriatim.cli.cluster.cluster_recover import no_view
from seriatim.cli.errors import CliError

TAKEN_S: Final = 3.0  # for a present coordinator to confirm that it has taken a request
ANSWER_S: Final = 15.0  # for the result: the coordinator waits for the others itself
STOP_S: Final = 45.0  # members let their clients go first
POLL_S: Final = 0.1


class Operated(NamedTuple):
    """The known state of the cluster to operate on."""

    cluster: str
    view: View
    present: dict[str, Presence]
    keeper: EtcdKeeper
    requests: EtcdRequests

    def called(self, member: str) -> str:
        """A member's name for the user."""
        name = self.present[member].name if member in self.present else ""
        return member if name in ("", member) else f"{name} ({member})"

    def find(self, wanted: str) -> str:
        """The member with this id or name. Raises `CliError`."""
        names = {member: one.name for member, one in self.present.items()}
        known = [*self.view.members, *(one for one in names if one not in self.view.members)]
        found = [one for one in known if wanted in (one, names.get(one))]
        if len(found) == 1:
            return found[0]
        listed = ", ".join(map(self.called, known))
        how = "several members are" if found else "no member is"
        raise CliError(f"{how} called {wanted}; there are {listed}: give an id")


def operate(
    access: EtcdAccess, cluster: str, command: Callable[[Operated], Awaitable[list[str]]]
) -> list[str]:
    """Do a command; return what to print. Raises `CliError`, `EngineError` and `BadView`."""
    return asyncio.run(_operate(access, cluster, command))


async def _operate(
    access: EtcdAccess, cluster: str, command: Callable[[Operated], Awaitable[list[str]]]
) -> list[str]:
    gateway = EtcdGateway(access)
    keeper = EtcdKeeper(gateway, cluster)
    try:
        kept = await keeper.read()
        present = await keeper.members()
        if kept.view is None:
            raise no_view(cluster, present)
        requests = EtcdRequests(gateway, cluster)
        return await command(Operated(cluster, kept.view, present, keeper, requests))
    finally:
        await keeper.close()


async def hand_over(found: Operated, to: str) -> list[str]:
    """Make another member coordinator: the given one, or the one with the longest log."""
    chosen = found.find(to) if to else ""
    answer = await _of_coordinator(found, "hand over", chosen)
    if not answer["done"]:
        raise CliError(f"not handed over: {answer['why']}")
    return [
        f"{found.called(answer['to'])} coordinates now. Publishing paused for"
        f" {answer['stood'] * 1000:.0f} ms."
    ]


async def remove(found: Operated, wanted: str) -> list[str]:
    """Remove a member from the view."""
    member = found.find(wanted)
    answer = await _of_coordinator(found, "remove", member)
    if not answer["done"]:
        raise CliError(f"not removed: {answer['why']}")
    lines = [f"{found.called(member)} is removed: nothing waits for it."]
    if answer["connected"]:
        lines.append("It runs, so it comes back when it has caught up, unless you stop it.")
    return lines


async def _of_coordinator(found: Operated, command: str, to: str) -> dict[str, Any]:
    """Return the coordinator's answer. Raises `CliError` once it is clear that none will come."""
    end = time.monotonic() + TAKEN_S
    while found.view.coordinator in found.present:
        is_settled = partial(_is_settled, found.present, end)
        answers = await found.requests.post(command, to, is_settled, TAKEN_S + ANSWER_S)
        for answer in answers.values():
            if "done" in answer:
                return answer
        name = found.called(found.view.coordinator)
        if any(answer["taken"] for answer in answers.values()):
            raise CliError(
                f"{name} has taken this, and did not answer in {ANSWER_S:.0f} s; look at"
                " `seriatim cluster status` before you ask again"
            )
        known = found.view.coordinator
        found = await _look_again(found)
        if found.view.coordinator != known:
            end = time.monotonic() + TAKEN_S  # the new coordinator was not asked yet
        elif time.monotonic() >= end:
            raise CliError(
                f"{name} is to coordinate, and did not take this in {TAKEN_S:.0f} s. If it is dead,"
                " another member takes over: ask again. If none does, see `seriatim cluster"
                " status`"
            )
        else:
            await asyncio.sleep(POLL_S)
    raise CliError(
        f"{found.called(found.view.coordinator)} is to coordinate, and is not in etcd's list: it is"
        " dead, or cannot reach etcd. Start it, or another member that is in sync; see `seriatim"
        " cluster status`"
    )


def _is_settled(present: Collection[str], end: float, answers: Answers) -> bool:
    """True once the answer has come, or none will: no member has taken the request by `end`."""
    if any("done" in answer for answer in answers.values()):
        return True
    if any(answer["taken"] for answer in answers.values()):
        return False
    return time.monotonic() >= end or answers.keys() >= set(present)


async def _look_again(found: Operated) -> Operated:
    """Read the view and the list of members again."""
    kept = await found.keeper.read()
    view = kept.view or found.view
    return found._replace(view=view, present=await found.keeper.members())


async def stop(found: Operated) -> list[str]:
    """Stop all members, with the same log; the view stays."""
    if not found.present:
        raise CliError("no member is there: nothing is to be stopped")
    everybody = set(found.present)

    def have_ended(answers: Answers) -> bool:
        return all(answers.get(one, {}).get("done") for one in everybody)

    answers = await found.requests.post("stop", "", have_ended, STOP_S)
    late = [one for one in everybody if not answers.get(one, {}).get("done")]
    if late:
        names = ", ".join(map(found.called, sorted(late)))
        raise CliError(f"{names} did not stop in {STOP_S:.0f} s; see the log there")
    ends = {answers[one]["last"] for one in found.view.members if one in answers}
    await _wait_until_gone(found)
    if len(ends) > 1:
        numbers = ", ".join(map(str, sorted(ends)))
        raise CliError(
            f"all stopped, at numbers {numbers}: those that are behind copy the rest when they"
            " start again; start all of them"
        )
    count = len(everybody)
    return [
        f"{count} member{'s' * (count > 1)} stopped, at number {max(ends, default=0)}.",
        "Start them again in any order: the cluster goes on where it was.",
    ]


async def _wait_until_gone(found: Operated) -> None:
    """Wait until the list of members is empty: their processes end then."""
    for _ in range(round(ANSWER_S / POLL_S)):
        if not await found.keeper.members():
            return
        await asyncio.sleep(POLL_S)
