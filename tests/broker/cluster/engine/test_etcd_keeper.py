"""The view and the list of members in a real etcd: swaps, races, watches and leases."""

import asyncio
import base64

import pytest

from broker.cluster.engine.view_keeper import EngineDown, FateUnknown, KeptView, Presence
from tests.support.etcd_server import EtcdServer
from tests.support.keepers import (
    MEMBERS,
    WAIT_S,
    cluster_name,
    keeper_of,
    presence,
    running,
    swap_until_answered,
    view,
    watching,
)

SHORT_S = 0.5  # a time limit that a stopped etcd is to exceed


def test_given_no_view_when_read_then_its_revision_is_0_and_a_swap_at_0_creates_it_once(
    etcd: EtcdServer,
) -> None:
    async def work() -> None:
        async with keeper_of(etcd) as keeper:
            assert await keeper.read() == KeptView(0, None)
            made = await keeper.swap(0, view(1))
            assert made.done
            assert made.now.revision > 0
            assert await keeper.read() == made.now == KeptView(made.now.revision, view(1))
            again = await keeper.swap(0, view(2))
            assert not again.done
            assert again.now == made.now, "a refused swap brings the present view along"

    asyncio.run(work())


def test_given_a_view_when_members_race_then_one_swap_is_done_and_all_learn_which(
    etcd: EtcdServer,
) -> None:
    async def work() -> None:
        name = cluster_name()
        async with keeper_of(etcd, cluster=name) as keeper:
            revision = (await keeper.swap(0, view(1))).now.revision
            for epoch in range(10, 60, 10):
                racing = (keeper.swap(revision, view(epoch + run, run)) for run in range(5))
                swapped = await asyncio.gather(*racing)
                assert sum(one.done for one in swapped) == 1
                (now,) = {one.now for one in swapped}
                assert now.view is not None
                assert swapped[now.view.run].done
                assert now.revision > revision
                revision = now.revision

    asyncio.run(work())


def test_given_processes_of_a_member_when_registered_then_the_newest_outlives_them(
    etcd: EtcdServer,
) -> None:
    async def work() -> None:
        name = cluster_name()
        async with keeper_of(etcd, cluster=name) as one, keeper_of(etcd, cluster=name) as other:
            assert await one.newest_run(MEMBERS[0]) == (0, 0)
            assert await one.register_run(MEMBERS[0], 41, 0)
            assert not await other.register_run(MEMBERS[0], 42, 0), "it was faster"
            run, revision = await other.newest_run(MEMBERS[0])
            assert run == 41
            assert await other.register_run(MEMBERS[0], 42, revision)
            assert (await one.newest_run(MEMBERS[0]))[0] == 42
            assert await one.newest_run(MEMBERS[1]) == (0, 0)

    asyncio.run(work())


def test_given_many_processes_when_they_ask_for_a_run_then_none_is_given_twice(
    etcd: EtcdServer,
) -> None:
    async def work() -> None:
        name = cluster_name()
        async with keeper_of(etcd, cluster=name) as one, keeper_of(etcd, cluster=name) as other:
            runs = await asyncio.gather(*(k.next_run(0) for k in (one, other) * 10))
            assert len(set(runs)) == 20
            assert min(runs) == 1
            assert await one.next_run(1000) == 1001, "it is above what the member knows of"
            assert await other.next_run(0) == 1002

    asyncio.run(work())


def test_given_two_clusters_in_one_etcd_then_they_do_not_see_each_other(etcd: EtcdServer) -> None:
    async def work() -> None:
        name = cluster_name()
        async with (
            keeper_of(etcd, cluster=name) as one,
            keeper_of(etcd, cluster=f"{name}0") as other,
            watching(other) as reported,
        ):
            await one.swap(0, view(1))
            one.announce(MEMBERS[0], presence())
            async with running(one.keep_announced()):
                await other.swap(0, view(2))
                await reported.until(lambda: reported.epochs == [2])
            assert await other.members() == {}
            assert not any(reported.members)

    asyncio.run(work())


def test_given_a_watch_when_the_view_changes_then_each_change_is_reported_once(
    etcd: EtcdServer,
) -> None:
    async def work() -> None:
        async with keeper_of(etcd) as keeper, watching(keeper) as reported:
            await reported.until(lambda: reported.views == [KeptView(0, None)])
            revision = 0
            for epoch in range(1, 30):
                revision = (await keeper.swap(revision, view(epoch))).now.revision
            await reported.until(lambda: len(reported.epochs) >= 29)
            assert reported.epochs == list(range(1, 30))
            assert reported.views[-1] == KeptView(revision, view(29))

    asyncio.run(work())


def test_given_a_value_that_is_no_view_when_watched_then_the_next_view_is_reported(
    etcd: EtcdServer,
) -> None:
    async def work() -> None:
        async with keeper_of(etcd) as keeper, watching(keeper) as reported:
            made = await keeper.swap(0, view(1))
            await reported.until(lambda: reported.epochs == [1])
            bad = await keeper.swap(made.now.revision, view(2)._replace(members=()))
            await keeper.swap(bad.now.revision, view(3))
            await reported.until(lambda: reported.epochs == [1, 3])

    asyncio.run(work())


def test_given_etcd_killed_and_started_again_when_watched_then_no_change_is_missed() -> None:
    async def work() -> None:
        name = cluster_name()
        with EtcdServer() as etcd:
            async with (
                keeper_of(etcd, cluster=name) as keeper,
                keeper_of(etcd, cluster=name, reread=WAIT_S) as other,  # so only its stream tells
                watching(other) as reported,
            ):
                revision = (await keeper.swap(0, view(1))).now.revision
                await reported.until(lambda: reported.epochs == [1])
                etcd.kill()
                etcd.start()
                for epoch in range(2, 20):
                    swapped = await swap_until_answered(keeper, revision, view(epoch))
                    revision = swapped.now.revision
                await reported.until(lambda: len(reported.epochs) >= 19)
                assert reported.epochs == list(range(1, 20))
                assert keeper.problem == ""

    asyncio.run(work())


def test_given_a_history_that_etcd_has_compacted_when_watched_then_the_newest_is_reported() -> None:
    async def work() -> None:
        name = cluster_name()
        with EtcdServer() as etcd:
            async with keeper_of(etcd, cluster=name) as keeper, watching(keeper) as reported:
                await keeper.swap(0, view(1))
                await reported.until(lambda: reported.epochs == [1])
                # No await from here on: the watch goes on when its history is gone.
                etcd.kill()
                etcd.start()
                for epoch in range(2, 6):
                    revision = put(etcd, name, "view", view(epoch).to_json())
                etcd.call("/v3/kv/compaction", {"revision": revision})
                await reported.until(lambda: reported.epochs[-1] == 5)
                assert reported.epochs == [1, 5]
                await keeper.swap(revision, view(6))
                await reported.until(lambda: reported.epochs == [1, 5, 6])

    asyncio.run(work())


def put(etcd: EtcdServer, cluster: str, key: str, value: bytes) -> int:
    """Set a key as somebody else does, while the loop stands still; its revision."""
    name = base64.b64encode(f"/seriatim/{cluster}/{key}".encode()).decode()
    word = base64.b64encode(value).decode()
    return int(etcd.call("/v3/kv/put", {"key": name, "value": word})["header"]["revision"])


def test_given_a_stopped_etcd_when_a_swap_is_given_up_then_its_fate_is_unknown_until_asked() -> (
    None
):
    async def work() -> None:
        with EtcdServer() as etcd:
            async with keeper_of(etcd, timeout=SHORT_S) as keeper:
                revision = (await swap_until_answered(keeper, 0, view(1))).now.revision
                etcd.pause()
                try:
                    with pytest.raises(FateUnknown, match=r"unknown: .*no answer in 0\.5 s"):
                        await keeper.swap(revision, view(2))
                    assert "unknown" in keeper.problem
                    with pytest.raises(EngineDown):
                        await keeper.read()
                finally:
                    etcd.go_on()
                swapped = await swap_until_answered(keeper, revision, view(2))
                assert swapped.now.view == view(2), "the first one was carried out, or this one"
                assert swapped.now.revision > revision

    asyncio.run(work())


def test_given_an_endpoint_that_stops_without_a_word_when_watched_then_changes_still_come() -> None:
    async def work() -> None:
        name = cluster_name()
        with EtcdServer() as etcd:
            async with (
                keeper_of(etcd, cluster=name, timeout=SHORT_S, reread=SHORT_S) as other,
                watching(other) as reported,
            ):
                put(etcd, name, "view", view(1).to_json())
                await reported.until(lambda: reported.epochs == [1])
                etcd.pause()
                async with asyncio.timeout(WAIT_S):
                    while not other.problem:
                        await asyncio.sleep(0.01)  # no event to await
                etcd.go_on()
                put(etcd, name, "view", view(2).to_json())
                await reported.until(lambda: reported.epochs == [1, 2])

    asyncio.run(work())


def test_given_etcd_that_has_lost_its_data_when_watched_then_the_view_is_reported_gone() -> None:
    async def work() -> None:
        name = cluster_name()
        with EtcdServer() as etcd:
            async with keeper_of(etcd, cluster=name, reread=SHORT_S) as keeper:
                keeper.announce(MEMBERS[0], presence())
                async with watching(keeper) as reported, running(keeper.keep_announced()):
                    await keeper.swap(0, view(1))
                    run = await keeper.next_run(0)
                    await reported.until(lambda: reported.members[-1:] == [listed(7)])
                    await reported.until(lambda: reported.epochs == [1])
                    etcd.kill()
                    etcd.lose_data()
                    etcd.start()
                    await reported.until(lambda: reported.views[-1] == KeptView(0, None))
                    await reported.until(lambda: reported.members[-1] == listed(7))
                assert await keeper.next_run(run) > run, "a member knows which it has had"

    asyncio.run(work())


# The list of members


def test_given_a_member_when_announced_then_it_is_listed_until_it_leaves(etcd: EtcdServer) -> None:
    async def work() -> None:
        name = cluster_name()
        async with (
            keeper_of(etcd, cluster=name) as keeper,
            keeper_of(etcd, cluster=name) as other,
            watching(other) as reported,
        ):
            keeper.announce(MEMBERS[0], presence())
            async with running(keeper.keep_announced()):
                await reported.until(lambda: reported.members[-1:] == [{MEMBERS[0]: presence()}])
                assert await other.members() == {MEMBERS[0]: presence()}
                changed = presence(state="coordinator", last=70)
                keeper.announce(MEMBERS[0], changed)
                await reported.until(lambda: reported.members[-1] == {MEMBERS[0]: changed})
            await reported.until(lambda: reported.members[-1] == {})
            assert await keeper.members() == {}

    asyncio.run(work())


def test_given_only_a_newer_number_when_announced_then_etcd_is_not_written_for_it(
    etcd: EtcdServer,
) -> None:
    async def work() -> None:
        async with keeper_of(etcd, lease=3) as keeper, watching(keeper) as reported:
            keeper.announce(MEMBERS[0], presence(last=1))
            async with running(keeper.keep_announced()):
                await reported.until(lambda: reported.members[-1:] == [listed(last=1)])
                for last in range(2, 10):
                    keeper.announce(MEMBERS[0], presence(last=last))
                    await keeper.read()
                keeper.announce(MEMBERS[0], presence(last=10, state="learner"))
                await reported.until(lambda: reported.members[-1] == listed(10, state="learner"))
            assert [one[MEMBERS[0]].last for one in reported.members if one] == [1, 10]

    asyncio.run(work())


def listed(last: int, state: str = "follower") -> dict[str, Presence]:
    return {MEMBERS[0]: presence(last=last, state=state)}


def test_given_a_member_that_died_when_its_lease_ends_then_it_is_not_listed(
    etcd: EtcdServer,
) -> None:
    async def work() -> None:
        name = cluster_name()
        async with keeper_of(etcd, cluster=name) as other, watching(other) as reported:
            granted = etcd.call("/v3/lease/grant", {"TTL": 1})["ID"]
            key = base64.b64encode(f"/seriatim/{name}/member/{MEMBERS[1]}".encode()).decode()
            value = base64.b64encode(presence().to_json()).decode()
            etcd.call("/v3/kv/put", {"key": key, "value": value, "lease": granted})
            await reported.until(lambda: {MEMBERS[1]: presence()} in reported.members)
            await reported.until(lambda: reported.members[-1] == {})

    asyncio.run(work())


def test_given_a_lease_that_etcd_has_lost_when_renewed_then_the_member_is_listed_again(
    etcd: EtcdServer,
) -> None:
    async def work() -> None:
        name = cluster_name()
        async with keeper_of(etcd, cluster=name, lease=2) as keeper, watching(keeper) as reported:
            keeper.announce(MEMBERS[0], presence())
            async with running(keeper.keep_announced()):
                await reported.until(lambda: reported.members[-1:] == [{MEMBERS[0]: presence()}])
                (lease,) = leases_of(etcd, name)
                etcd.call("/v3/lease/revoke", {"ID": lease})
                await reported.until(
                    lambda: reported.members[-2:] == [{}, {MEMBERS[0]: presence()}]
                )

    asyncio.run(work())


def leases_of(etcd: EtcdServer, cluster: str) -> list[str]:
    """The leases of a cluster's members, as etcd has them."""
    first = base64.b64encode(f"/seriatim/{cluster}/".encode()).decode()
    end = base64.b64encode(f"/seriatim/{cluster}0".encode()).decode()
    found = etcd.call("/v3/kv/range", {"key": first, "range_end": end}).get("kvs", [])
    return [kept["lease"] for kept in found if kept.get("lease", "0") != "0"]


def test_given_etcd_down_for_longer_than_the_lease_when_it_is_back_then_the_member_is_listed() -> (
    None
):
    async def work() -> None:
        with EtcdServer() as etcd:
            async with keeper_of(etcd, lease=1) as keeper, watching(keeper) as reported:
                keeper.announce(MEMBERS[0], presence())
                async with running(keeper.keep_announced()):
                    await reported.until(lambda: {MEMBERS[0]: presence()} in reported.members)
                    etcd.kill()
                    keeper.announce(MEMBERS[0], presence(state="coordinator"))
                    async with asyncio.timeout(WAIT_S):
                        while not keeper.problem:
                            await asyncio.sleep(0.01)  # no event to await
                    etcd.start()
                    await reported.until(
                        lambda: reported.members[-1] == listed(7, state="coordinator")
                    )

    asyncio.run(work())


def test_given_a_member_of_a_version_we_cannot_read_when_listed_then_the_others_are(
    etcd: EtcdServer,
) -> None:
    async def work() -> None:
        name = cluster_name()
        put(etcd, name, f"member/{MEMBERS[0]}", b'{"format":9}')
        put(etcd, name, f"member/{MEMBERS[1]}", presence().to_json())
        async with keeper_of(etcd, cluster=name) as keeper:
            assert await keeper.members() == {MEMBERS[1]: presence()}

    asyncio.run(work())


def test_given_a_keeper_in_use_when_its_tasks_are_cancelled_then_nothing_of_it_goes_on(
    etcd: EtcdServer,
) -> None:
    async def work() -> None:
        async with keeper_of(etcd) as keeper:
            keeper.announce(MEMBERS[0], presence())
            async with watching(keeper) as reported, running(keeper.keep_announced()):
                await reported.until(lambda: {MEMBERS[0]: presence()} in reported.members)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(work())
