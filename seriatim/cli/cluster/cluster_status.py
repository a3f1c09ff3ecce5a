"""`seriatim cluster status`: a cluster's state, by etcd and the members, and its problems.

etcd has the view and the list of running members. Each of these is asked for its status, through
etcd: a member may know a newer view than etcd, if etcd was restored to an older state.
"""

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

from broker.cluster.engine.etcd import EtcdAccess, EtcdGateway
from broker.cluster.engine.etcd_keeper import EtcdKeeper
from broker.cluster.engine.etcd_requests import Answers, EtcdRequests
from broker.cluster.engine.view_keeper import EngineError, KeptView, Presence
from sequencer.replica.clock_difference import clock_words
from sequencer.replica.view import View
from seriatim.cli.cluster.cluster_recover import no_view

ASK_S: Final = 5.0  # a member whose watch has stalled reads everything again after 3 s


@dataclass(frozen=True, slots=True)
class EndpointState:
    """One endpoint of etcd."""

    endpoint: str
    version: str
    problem: str  # empty: it answers


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """One member, by the view and by its own report, if it runs."""

    member: str
    in_sync: bool
    coordinates: bool
    present: bool
    name: str = ""
    state: str = ""
    epoch: int | None = None  # the highest that it knows; None: it has not answered
    fault: str = ""  # what is wrong, by its own report
    last: int | None = None  # up to a minute old if it has not answered
    lag: int | None = None  # numbers behind the coordinator, by the coordinator's report
    run: int | None = None
    cluster: str = ""
    clients: tuple[str, ...] = ()
    http: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """The output of the command, as data."""

    cluster: str
    problems: list[str]
    engine: str  # the id of the etcd cluster
    endpoints: list[EndpointState]
    revision: int
    view: View
    members: list[MemberStatus]


def read_status(access: EtcdAccess, cluster: str) -> ClusterStatus:
    """Ask etcd. Raises `CliError`, `EngineError` and `BadView`."""
    return asyncio.run(_ask(access, cluster))


async def _ask(access: EtcdAccess, cluster: str) -> ClusterStatus:
    gateway = EtcdGateway(access)
    keeper = EtcdKeeper(gateway, cluster)
    try:
        kept, present = await keeper.read(), await keeper.members()
        if kept.view is None:
            raise no_view(cluster, present)
        answers, problem = await _answers(EtcdRequests(gateway, cluster), set(present))
        # Read after the members have answered: they can then know nothing newer, if all is well.
        kept, present = await keeper.read(), await keeper.members()
        if kept.view is None:
            raise no_view(cluster, present)
        engine = keeper.engine_id
    finally:
        await keeper.close()
    states = (_endpoint(access, endpoint, engine) for endpoint in access.endpoints)
    endpoints = await asyncio.gather(*states)
    status = status_of(cluster, engine, list(endpoints), kept, present, answers)
    status.problems.extend([problem] if problem else [])
    return status


async def _answers(requests: EtcdRequests, present: set[str]) -> tuple[Answers | None, str]:
    """Return each member's report; or None, and why they were not asked."""

    def all_have(answers: Answers) -> bool:
        return present <= answers.keys()

    try:
        return await requests.post("status", "", all_have, ASK_S), ""
    except EngineError as error:  # perhaps this user may only read
        return None, f"the members could not be asked how they are: {error}"


async def _endpoint(access: EtcdAccess, endpoint: str, engine: str) -> EndpointState:
    gateway = EtcdGateway(access._replace(endpoints=(endpoint,)), engine)
    try:
        answer = await gateway.call("/v3/maintenance/status", {})
        return EndpointState(endpoint, str(answer.get("version", "")), "")
    except EngineError as error:
        return EndpointState(endpoint, "", str(error))
    finally:
        await gateway.close()


def status_of(
    cluster: str,
    engine: str,
    endpoints: list[EndpointState],
    kept: KeptView,
    present: dict[str, Presence],
    answers: Answers | None,
) -> ClusterStatus:
    """Build the status, with its problems. `answers` of members is None if they were not asked."""
    view = kept.view
    assert view is not None, "there is such a cluster"
    said = answers or {}
    known = [*view.members, *sorted(present.keys() - set(view.members))]
    levels = _levels(view, said)
    members = [
        _member(member, view, present.get(member), said.get(member, {}), levels) for member in known
    ]
    problems = [*_view_problems(view, present), *_clock_problems(view, present)]
    if answers is not None:
        problems += _member_problems(view, present, answers)
    problems += _engine_problems(endpoints)
    return ClusterStatus(cluster, problems, engine, endpoints, kept.revision, view, members)


def _levels(view: View, said: Answers) -> dict[str, int]:
    """Return how far each member is, all at one moment, by the coordinator's report."""
    reigns = [one for one in said.values() if one["levels"]]
    newest = max(reigns, key=lambda one: one["epoch"], default=None)
    return {} if newest is None else newest["levels"]


def _member(
    member: str,
    view: View,
    presence: Presence | None,
    said: dict[str, Any],
    levels: dict[str, int],
) -> MemberStatus:
    in_sync, coordinates = member in view.members, member == view.coordinator
    if presence is None:
        return MemberStatus(member, in_sync, coordinates, False)
    lag = None
    if member in levels and view.coordinator in levels:
        lag = max(levels[view.coordinator] - levels[member], 0)
    return MemberStatus(
        member,
        in_sync,
        coordinates,
        True,
        name=presence.name,
        state=said.get("role", presence.state),
        epoch=said.get("epoch"),
        fault=said.get("fault", ""),
        last=said.get("last", presence.last),
        lag=lag,
        run=presence.run,
        cluster=presence.cluster,
        clients=presence.clients,
        http=presence.http,
        version=presence.version,
    )


def _view_problems(view: View, present: dict[str, Presence]) -> Iterator[str]:
    leader = present.get(view.coordinator)
    if leader is None:
        yield (
            f"no coordinator: {view.coordinator} is not there; start it, or another member in"
            " sync, which then takes over"
        )
    elif leader.run != view.run:
        yield (
            f"no coordinator: {_called(view.coordinator, leader)} was started again, and has"
            " not taken over yet"
        )
    missing = [one for one in view.members if one not in present and one != view.coordinator]
    for member in missing:
        yield f"{member} is in sync, and is not there: publishing waits until it is removed"
    count = len(view.members)
    if count < view.min_in_sync:
        yield (
            f"{count} of {view.min_in_sync} members in sync: nothing is published; start more"
            " members"
        )
    elif count - len(missing) - (leader is None) < view.min_in_sync:
        there = count - len(missing) - (leader is None)
        yield (
            f"{there} of {view.min_in_sync} members in sync are there: nothing is published; start"
            " the others"
        )


def _clock_problems(view: View, present: dict[str, Presence]) -> Iterator[str]:
    leader = present.get(view.coordinator)
    for member, ahead in leader.clocks if leader is not None else ():
        presence = present.get(member)
        name = _called(member, presence) if presence is not None else member
        yield f"the clock of {name} is {clock_words(ahead)} the coordinator's: set it"


def _member_problems(view: View, present: dict[str, Presence], answers: Answers) -> Iterator[str]:
    """Yield the problems that the members report, and the members that do not answer."""
    ahead = {
        member: said["epoch"] for member, said in answers.items() if said["epoch"] > view.epoch
    }
    if ahead:
        names = ", ".join(_called(one, present.get(one)) for one in sorted(ahead))
        yield (
            f"etcd has a view of epoch {view.epoch}, and {names} "
            f"know{'s' * (len(ahead) == 1)} of epoch {max(ahead.values())}: etcd was put back to an"
            " older state, and no member can take over, join or leave; run `seriatim cluster"
            " recover`"
        )
    for member, presence in present.items():
        if member not in answers:
            yield f"{_called(member, presence)} is in the list, and does not answer"
        elif answers[member]["fault"]:
            yield f"{_called(member, presence)}: {answers[member]['fault']}"


def _engine_problems(endpoints: list[EndpointState]) -> Iterator[str]:
    for one in endpoints:
        if one.problem:
            yield one.problem
        elif one.version and _loses(one.version):
            yield (
                f"{one.endpoint} is etcd {one.version}, which may lose what it has answered;"
                " take 3.4.22 or later, or 3.5.6 or later"
            )


def _loses(version: str) -> bool:
    """True if this etcd has one of the known defects that lose transactions."""
    parts = tuple(int(word) for word in re.findall(r"\d+", version)[:3])
    return parts < (3, 4, 22) or (3, 5) <= parts < (3, 5, 6)


def _called(member: str, presence: Presence | None) -> str:
    is_named = presence is not None and presence.name not in ("", member)
    return f"{presence.name} ({member})" if presence is not None and is_named else member


def as_json(status: ClusterStatus) -> str:
    """All of it, indented."""
    return json.dumps({**asdict(status), "view": status.view._asdict()}, indent=2)


def print_status(status: ClusterStatus) -> None:
    """The status for a person."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = 200  # a pager or a file must not narrow it
    for name, value in _facts(status):
        console.print(f"[bold]{name:<13}[/bold]{escape(str(value))}")
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("member", "name", "in sync", "state", "clients", "members' port", "version"):
        table.add_column(name, no_wrap=True)
    for name in ("epoch", "last", "lag"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in status.members:
        state = one.state if one.present else "not there"
        style = "" if one.present else "bold red"
        words = (
            *(one.member, one.name, "yes" if one.in_sync else "no"),
            *("coordinates" if one.coordinates and one.present else state,),
            *(" ".join(one.clients), one.cluster, one.version),
            *(_number(one.epoch), _number(one.last), _number(one.lag)),
        )
        table.add_row(*(Text(word, style) for word in words))
    console.print()
    console.print(table)
    if status.problems:
        console.print()
    for problem in status.problems:
        console.print(f"[bold red]wrong:[/bold red] {escape(problem)}")


def _facts(status: ClusterStatus) -> list[tuple[str, Any]]:
    view = status.view
    answering = sum(not one.problem for one in status.endpoints)
    versions = sorted({one.version for one in status.endpoints if one.version})
    return [
        ("cluster", status.cluster),
        ("journal", f"{view.journal}, first number of the cluster {view.first}"),
        ("view", f"epoch {view.epoch}, revision {status.revision}, stream {view.stream}"),
        ("in sync", f"{len(view.members)}, at least {view.min_in_sync} to publish"),
        (
            "etcd",
            f"{answering} of {len(status.endpoints)} endpoints answer,"
            f" version {' and '.join(versions)}",
        ),
    ]


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value}"
