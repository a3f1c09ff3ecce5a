"""`seriatim cluster status`: who is there, who coordinates, and what is wrong."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from broker.cluster.view_keeper import KeptView, Presence
from sequencer.replica.view import View
from seriatim.cli.cluster.cluster_status import EndpointState, status_of
from tests.seriatim.cli.command import refusal, seriatim
from tests.support.etcd_server import EtcdServer, kept_port
from tests.support.keepers import MEMBERS, cluster_name, keeper_of, presence, running, view

LEARNER = "e" * 16
RUN = 40
THERE = {
    MEMBERS[0]: presence(RUN, name="one", state="coordinator", last=100),
    MEMBERS[1]: presence(RUN + 1, name="two", last=90),
    MEMBERS[2]: presence(RUN + 2, name="three", last=101),
}
GOOD = [EndpointState("http://e:1", "3.5.21", "")]


def problems(
    present: dict[str, Presence], wanted: View | None = None, endpoints: Sequence[Any] = GOOD
) -> list[str]:
    kept = KeptView(9, wanted or view(7, RUN))
    return status_of("orders", "0" * 16, list(endpoints), kept, present).problems


def without(*members: str) -> dict[str, Presence]:
    return {member: one for member, one in THERE.items() if member not in members}


def test_given_all_members_there_then_nothing_is_wrong_and_lag_is_what_is_missing() -> None:
    kept = KeptView(9, view(7, RUN))
    there = {**THERE, LEARNER: presence(50, state="learner", last=20)}
    found = status_of("orders", "0" * 16, GOOD, kept, there)
    assert found.problems == []
    assert [one.lag for one in found.members] == [0, 10, 0, 80]
    assert [one.in_sync for one in found.members] == [True, True, True, False]
    assert [one.coordinates for one in found.members] == [True, False, False, False]


@pytest.mark.parametrize(
    ("present", "said"),
    [
        (without(MEMBERS[0]), [f"nobody coordinates: {MEMBERS[0]} is not there"]),
        (
            {**THERE, MEMBERS[0]: presence(RUN + 9, name="one")},
            [f"nobody coordinates: one ({MEMBERS[0]}) was started again"],
        ),
        (without(MEMBERS[2]), [f"{MEMBERS[2]} is in sync, and is not there: publishing waits"]),
        (
            without(MEMBERS[1], MEMBERS[2]),
            [
                f"{MEMBERS[1]} is in sync, and is not there",
                f"{MEMBERS[2]} is in sync, and is not there",
                "1 of 2 members in sync are there: nothing is published",
            ],
        ),
    ],
)
def test_given_members_that_are_not_there_then_it_says_what_that_means(
    present: dict[str, Presence], said: list[str]
) -> None:
    found = problems(present)
    assert len(found) == len(said)
    assert all(found[at].startswith(words) for at, words in enumerate(said)), found


def test_given_too_few_members_in_the_view_then_nothing_is_published() -> None:
    alone = view(7, RUN)._replace(members=MEMBERS[:1])
    (said,) = problems(THERE, alone)
    assert said.startswith("1 of 2 members in sync: nothing is published")
    assert problems(THERE, alone._replace(min_in_sync=1)) == []


@pytest.mark.parametrize(
    ("version", "good"),
    [
        *(("3.4.21", False), ("3.4.22", True), ("3.4.23", True), ("3.5.0", False)),
        *(("3.5.5", False), ("3.5.6", True), ("3.6.0", True), ("3.3.27", False), ("", True)),
    ],
)
def test_given_an_etcd_that_may_lose_answers_then_it_says_which_to_take(
    version: str, good: bool
) -> None:
    found = problems(THERE, endpoints=[EndpointState("http://e:1", version, "")])
    assert found == [] if good else "take 3.4.22 or later, or 3.5.6 or later" in found[0]


def test_given_a_cluster_when_asked_then_the_command_shows_it_and_says_what_is_wrong(
    etcd: EtcdServer, tmp_path: Path
) -> None:
    name = cluster_name()
    wanted = view(7, RUN)._replace(members=MEMBERS[:2])

    async def work() -> None:
        async with (
            keeper_of(etcd, cluster=name) as one,
            keeper_of(etcd, cluster=name) as two,
        ):
            await one.swap(0, wanted)
            one.announce(MEMBERS[0], THERE[MEMBERS[0]])
            two.announce(MEMBERS[1], THERE[MEMBERS[1]])
            async with running(one.keep_announced()):
                async with running(two.keep_announced()):
                    async with asyncio.timeout(60):
                        while len(await one.members()) < 2:
                            await asyncio.sleep(0.01)  # no event to await
                    await asyncio.to_thread(both_there, etcd, name)
                await asyncio.to_thread(one_there, etcd, name)

    asyncio.run(work())


def both_there(etcd: EtcdServer, name: str) -> None:
    given = ("cluster", "status", "--cluster", name)
    done = seriatim(*given, "--etcd", etcd.endpoint)
    shown = done.stdout.decode()
    assert done.returncode == 0, shown
    assert "epoch 7, revision " in shown
    assert "1 of 1 endpoints answer" in shown
    rows = {line.split()[0]: line.split() for line in shown.splitlines() if line.strip()}
    assert rows[MEMBERS[0]][1:4] == ["one", "yes", "coordinates"]
    assert rows[MEMBERS[1]][1:4] == ["two", "yes", "follower"]
    assert rows[MEMBERS[1]][-2:] == ["90", "10"]
    with kept_port() as dead:
        place = f"http://127.0.0.1:{dead.getsockname()[1]}"
        done = seriatim(*given, "--etcd", f"{etcd.endpoint},{place}", "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 1
    assert done.stderr == b""
    (problem,) = found["problems"]
    assert place in problem
    assert found["view"]["epoch"] == 7
    assert [one["lag"] for one in found["members"]] == [0, 10]


def one_there(etcd: EtcdServer, name: str) -> None:
    done = seriatim("cluster", "status", "--cluster", name, "--etcd", etcd.endpoint)
    assert done.returncode == 1
    shown = done.stdout.decode()
    assert "not there" in shown
    assert "wrong: 1 of 2 members in sync are there: nothing is published" in shown


def test_given_no_such_cluster_or_no_view_when_asked_then_one_line_says_so(
    etcd: EtcdServer,
) -> None:
    name = cluster_name()
    given = ("cluster", "status", "--cluster", name, "--etcd", etcd.endpoint)
    assert f"there is no cluster {name} in this etcd; `seriatim cluster init`" in refusal(*given)

    async def work() -> None:
        async with keeper_of(etcd, cluster=name) as keeper:
            await keeper.swap(0, view()._replace(members=()))

    asyncio.run(work())
    assert "is not a view that this Seriatim knows: its members are ()" in refusal(*given)
