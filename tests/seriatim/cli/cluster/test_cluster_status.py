"""`seriatim cluster status`: who is there, who coordinates, and what is wrong."""

import asyncio
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from broker.cluster.engine.etcd_requests import Answers
from broker.cluster.engine.view_keeper import KeptView, Presence
from sequencer.replica.view import View
from seriatim.cli.cluster.cluster_status import EndpointState, status_of
from seriatim.client.bulk_connection import BulkConnection
from tests.seriatim.cli.command import refusal, seriatim
from tests.support.cluster_start import ClusterOf
from tests.support.etcd_server import EtcdServer, kept_port
from tests.support.keepers import MEMBERS, cluster_name, keeper_of, presence, view
from tests.support.processes import url

LEARNER = "e" * 16
RUN = 40
COUNT = 30
TRIES = 60
THERE = {
    MEMBERS[0]: presence(RUN, name="one", state="coordinator", last=100),
    MEMBERS[1]: presence(RUN + 1, name="two", last=90),
    MEMBERS[2]: presence(RUN + 2, name="three", last=101),
}
GOOD = [EndpointState("http://e:1", "3.5.21", "")]


def problems(
    present: dict[str, Presence],
    wanted: View | None = None,
    endpoints: Sequence[Any] = GOOD,
    answers: Answers | None = None,
) -> list[str]:
    kept = KeptView(9, wanted or view(7, RUN))
    return status_of("orders", "0" * 16, list(endpoints), kept, present, answers).problems


def answer(role: str, last: int, **more: Any) -> dict[str, Any]:
    return {"epoch": 7, "role": role, "last": last, "fault": "", "levels": {}, **more}


def without(*members: str) -> dict[str, Presence]:
    return {member: one for member, one in THERE.items() if member not in members}


def test_given_all_members_there_then_nothing_is_wrong_and_lag_is_what_is_missing() -> None:
    kept = KeptView(9, view(7, RUN))
    there = {**THERE, LEARNER: presence(50, state="learner", last=20)}
    levels = {MEMBERS[0]: 400, MEMBERS[1]: 390, MEMBERS[2]: 400, LEARNER: 20}
    answers = {
        MEMBERS[0]: answer("coordinator", 401, levels=levels),
        MEMBERS[1]: answer("follower", 395),
        MEMBERS[2]: answer("follower", 401),
        LEARNER: answer("learner", 25),
    }
    found = status_of("orders", "0" * 16, GOOD, kept, there, answers)
    assert found.problems == []
    assert [one.last for one in found.members] == [401, 395, 401, 25]
    assert [one.lag for one in found.members] == [0, 10, 0, 380]
    assert [one.in_sync for one in found.members] == [True, True, True, False]
    assert [one.coordinates for one in found.members] == [True, False, False, False]


@pytest.mark.parametrize(
    ("present", "said"),
    [
        (without(MEMBERS[0]), [f"no coordinator: {MEMBERS[0]} is not there"]),
        (
            {**THERE, MEMBERS[0]: presence(RUN + 9, name="one")},
            [f"no coordinator: one ({MEMBERS[0]}) was started again"],
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


def test_given_a_list_that_is_a_minute_old_when_members_do_not_answer_then_no_lag_is_reported() -> (
    None
):
    found = status_of("orders", "0" * 16, GOOD, KeptView(9, view(7, RUN)), THERE, None)
    assert [one.lag for one in found.members] == [None, None, None]
    assert found.problems == []


def test_given_members_that_know_a_later_epoch_then_etcd_was_put_back() -> None:
    answers = {
        MEMBERS[0]: answer("coordinator", 400, epoch=9, fault="engine's epoch is older than ours"),
        MEMBERS[1]: answer("follower", 400, epoch=9),
    }
    found = problems(THERE, answers=answers)
    assert found[0].startswith(
        f"etcd has a view of epoch 7, and one ({MEMBERS[0]}), two ({MEMBERS[1]}) know of epoch 9:"
        " etcd was put back to an older state"
    )
    assert "`seriatim cluster recover`" in found[0]
    assert found[1:] == [
        f"one ({MEMBERS[0]}): engine's epoch is older than ours",
        f"three ({MEMBERS[2]}) is in the list, and does not answer",
    ]


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


@pytest.fixture
def cluster() -> Iterator[ClusterOf]:
    with ClusterOf(2) as made:
        yield made


def test_given_a_cluster_when_asked_then_the_command_shows_it_and_says_what_is_wrong(
    cluster: ClusterOf,
) -> None:
    given = ("cluster", "status", "--cluster", cluster.name)
    with BulkConnection.connect(url(cluster.members[1])) as client:
        for _ in range(COUNT):
            client.request("$SEQ.PUB.trial", b"x").check("trial")
    done = seriatim(*given, "--etcd", cluster.etcd.endpoint)
    shown = done.stdout.decode()
    assert done.returncode == 0, shown
    assert f"epoch {cluster.view()['epoch']}, revision " in shown
    assert "1 of 1 endpoints answer" in shown
    rows = {line.split()[0]: line.split() for line in shown.splitlines() if line.strip()}
    first, second = cluster.view()["members"]
    assert rows[first][2:4] == ["yes", "coordinates"]
    assert rows[second][2:4] == ["yes", "follower"]
    for member in (first, second):
        assert rows[member][-3:] == [str(cluster.view()["epoch"]), str(COUNT), "0"], "as it is now"
    with kept_port() as dead:
        place = f"http://127.0.0.1:{dead.getsockname()[1]}"
        done = seriatim(*given, "--etcd", f"{cluster.etcd.endpoint},{place}", "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 1
    assert done.stderr == b""
    (problem,) = found["problems"]
    assert place in problem
    assert [(one["last"], one["lag"]) for one in found["members"]] == [(COUNT, 0), (COUNT, 0)]
    follower = cluster.number_of(second)
    cluster.members[follower].suspend()
    for _ in range(TRIES):
        done = seriatim(*given, "--etcd", cluster.etcd.endpoint)
        shown = done.stdout.decode()
        if f"wrong: {first}: 1 of 2 members in sync" in shown:  # it says so itself
            break
    assert done.returncode == 1
    # It stays in the list until its lease ends.
    assert re.search(f"wrong: {second} is in .*(does not answer|is not there)", shown)
    cluster.members[follower].kill()


def test_given_no_such_cluster_or_no_view_when_asked_then_one_line_says_so(
    etcd: EtcdServer,
) -> None:
    name = cluster_name()
    given = ("cluster", "status", "--cluster", name, "--etcd", etcd.endpoint)
    said = refusal(*given)
    assert said.startswith(f"etcd knows no cluster {name}. If there was one, etcd has lost it")
    assert "`seriatim cluster recover -sd DIR` brings it back" in said

    async def work() -> None:
        async with keeper_of(etcd, cluster=name) as keeper:
            await keeper.swap(0, view()._replace(members=()))

    asyncio.run(work())
    assert "view that this version of Seriatim cannot read: its members are ()" in refusal(*given)
