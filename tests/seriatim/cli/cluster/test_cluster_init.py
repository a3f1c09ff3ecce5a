"""`seriatim cluster init`: a store becomes the first member, once, and never by mistake."""

import asyncio
import shutil
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from broker.cluster.engine.view_keeper import KeptView
from broker.cluster.storage.membership import open_membership, read_member
from broker.storage.member_store import FOLDER
from sequencer.journal.reader import Reader
from tests.seriatim.cli.command import refusal, seriatim
from tests.support.etcd_server import EtcdServer, kept_port
from tests.support.keepers import cluster_name, keeper_of, view
from tests.support.processes import NotReadyError, SeriatimServer
from tests.support.raw import QUIET, RawClient
from tests.support.stores import open_store, put


@pytest.fixture
def name() -> str:
    return cluster_name()


def init(etcd: EtcdServer, name: str, store: Path, *more: str) -> str:
    """Make a cluster; what the command prints."""
    done = seriatim(
        *("cluster", "init", "--cluster", name, "--etcd", etcd.endpoint, "-sd", str(store)), *more
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr == b""
    return done.stdout.decode()


def refused(etcd: EtcdServer, name: str, store: Path) -> str:
    """What the command says when it does not make one."""
    given = ("--cluster", name, "--etcd", etcd.endpoint, "-sd", str(store))
    return refusal("cluster", "init", *given)


def kept_view(etcd: EtcdServer, name: str) -> KeptView:
    async def read() -> KeptView:
        async with keeper_of(etcd, cluster=name) as keeper:
            return await keeper.read()

    return asyncio.run(read())


def test_given_a_store_with_messages_when_made_a_member_then_all_of_it_counts(
    etcd: EtcdServer, name: str, tmp_path: Path
) -> None:
    store = open_store(tmp_path / "store")
    put(store, 5)
    journal, epoch = store.id, store.epoch
    store.close()
    said = init(etcd, name, tmp_path / "store", "--min_in_sync", "3")
    kept = kept_view(etcd, name)
    found = read_member(str(tmp_path / "store"))
    assert found is not None
    assert kept.view is not None
    assert kept.view.members == (found.member,) == (kept.view.coordinator,)
    assert (kept.view.journal, kept.view.first, kept.view.min_in_sync) == (journal, 6, 3)
    assert (kept.view.stream, kept.view.protocol) == (1, 1)
    assert kept.view.epoch > epoch + 1  # that of the opening by `init`
    assert (found.view, found.revision, found.epoch) == (kept.view, kept.revision, kept.view.epoch)
    assert found.run == kept.view.run < found.reserve
    assert len(found.engine) == 16
    assert f"is made from journal {journal}, numbers 1 to 5." in said
    assert f"seriatim serve --cluster {name} --etcd {etcd.endpoint} --advertise HOST:PORT" in said
    assert "Nothing is published until 3 members are in sync." in said
    assert Reader(str(tmp_path / "store")).bounds() == (1, 5)
    member, why = open_membership(str(tmp_path / "store"), name, "interval")
    assert (member.member, why) == (found.member, "")


def test_given_no_store_when_made_then_the_cluster_begins_empty_at_1(
    etcd: EtcdServer, name: str, tmp_path: Path
) -> None:
    said = init(etcd, name, tmp_path / "new", "--min_in_sync", "1")
    kept = kept_view(etcd, name)
    assert kept.view is not None
    assert kept.view.first == 1
    assert "empty" in said
    assert "Nothing is published" not in said


def test_given_a_cluster_when_made_again_then_only_its_own_store_hears_that_it_exists(
    etcd: EtcdServer, name: str, tmp_path: Path
) -> None:
    init(etcd, name, tmp_path / "one")
    kept = kept_view(etcd, name)
    assert "exists, made before from" in init(etcd, name, tmp_path / "one")
    said = refused(etcd, name, tmp_path / "two")
    assert f"the cluster {name} exists already, with 1 member in sync" in said
    assert f"start it with --cluster {name} and an empty directory" in said
    assert not (tmp_path / "two").exists()
    shutil.copytree(tmp_path / "one", tmp_path / "copy")
    assert "exists already" in refused(etcd, name, tmp_path / "copy")
    assert kept_view(etcd, name) == kept


def test_given_a_member_of_a_cluster_that_etcd_has_lost_when_made_then_refused(
    etcd: EtcdServer, name: str, tmp_path: Path
) -> None:
    init(etcd, name, tmp_path / "one")
    said = refused(etcd, f"{name}-other", tmp_path / "one")
    assert f"this store is a member of the cluster {name} already" in said
    assert f"delete {tmp_path / 'one' / FOLDER}" in said
    assert kept_view(etcd, f"{name}-other") == KeptView(0, None)


def test_given_an_init_that_died_before_the_view_when_run_again_then_it_goes_on(
    etcd: EtcdServer, name: str, tmp_path: Path
) -> None:
    member, _ = open_membership(str(tmp_path / "one"), name, "interval")
    member.close()
    init(etcd, name, tmp_path / "one")
    kept = kept_view(etcd, name)
    assert kept.view is not None
    assert kept.view.members == (member.member,)


def test_given_a_running_broker_when_its_store_is_to_be_made_a_member_then_refused(
    etcd: EtcdServer, name: str, tmp_path: Path
) -> None:
    broker = SeriatimServer("none", arguments=["-sd", str(tmp_path / "one")])
    with broker.start(), RawClient(broker.port, QUIET) as client:
        client.ask(b"PUB a 5\r\nhello\r\n")
        said = refused(etcd, name, tmp_path / "one")
    assert "writes this store; stop it first" in said
    assert kept_view(etcd, name) == KeptView(0, None)
    assert not (tmp_path / "one" / FOLDER).exists()
    init(etcd, name, tmp_path / "one")


def test_given_no_etcd_when_made_then_the_error_says_so_and_nothing_is_made(
    name: str, tmp_path: Path
) -> None:
    with kept_port() as dead:
        place = f"http://127.0.0.1:{dead.getsockname()[1]}"
        given = ("--cluster", name, "--etcd", place, "-sd", str(tmp_path / "one"))
        said = refusal("cluster", "init", *given)
    assert "etcd does not answer" in said
    assert place in said
    assert not (tmp_path / "one").exists()


def test_given_a_view_that_another_made_meanwhile_when_made_then_the_first_one_stays(
    etcd: EtcdServer, name: str, tmp_path: Path
) -> None:
    async def work() -> None:
        async with keeper_of(etcd, cluster=name) as keeper:
            await keeper.swap(0, view())

    asyncio.run(work())
    assert "with 3 members in sync" in refused(etcd, name, tmp_path / "one")


def test_given_a_member_that_starts_before_its_cluster_is_made_then_it_says_so_and_waits(
    etcd: EtcdServer, name: str, tmp_path: Path
) -> None:
    given = ["--cluster", name, "--etcd", etcd.endpoint, "--cluster_port", "-1"]
    early = SeriatimServer(arguments=given, store=tmp_path / "two")
    first = SeriatimServer(arguments=given, store=tmp_path / "one")
    with ThreadPoolExecutor() as pool:
        starting = pool.submit(early.start)
        try:
            assert early.await_line(f"Cluster {name}: etcd knows no cluster of this name")
            init(etcd, name, tmp_path / "one")
            first.start()
            starting.result()
        finally:
            early.kill()
            first.kill()


def test_given_a_member_whose_start_fails_then_it_has_left_the_view_when_it_ends(
    etcd: EtcdServer, name: str, tmp_path: Path
) -> None:
    given = ["--cluster", name, "--etcd", etcd.endpoint, "--cluster_port", "-1"]
    init(etcd, name, tmp_path / "one", "--min_in_sync", "1")
    with SeriatimServer(arguments=given, store=tmp_path / "one") as first:
        assert first.port
        second = SeriatimServer(arguments=given, store=tmp_path / "two")
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        with ThreadPoolExecutor() as pool:
            starting = pool.submit(second.start, port)
            assert second.await_line("Journal ")  # it has tried its ports, and has its store
            second.suspend()
            with socket.create_server(("127.0.0.1", port)):
                second.signal(signal.SIGCONT)
                with pytest.raises(NotReadyError, match=r"cannot listen on .*: Address already in"):
                    starting.result()
        assert second.said("caught up"), "it was a member"
        assert not second.said("Unclosed")
        kept = kept_view(etcd, name)
        assert kept.view is not None
        assert len(kept.view.members) == 1


def test_given_a_member_that_the_others_refuse_then_its_log_says_why(
    etcd: EtcdServer, name: str, tmp_path: Path
) -> None:
    given = ["--cluster", name, "--etcd", etcd.endpoint, "--cluster_port", "-1"]
    init(etcd, name, tmp_path / "one", "--min_in_sync", "1")
    other = SeriatimServer(arguments=[*given, "--sync", "always"], store=tmp_path / "two")
    with SeriatimServer(arguments=given, store=tmp_path / "one"), ThreadPoolExecutor() as pool:
        starting = pool.submit(other.start)
        words = "the coordinator refuses this member: journal.sync is interval in this cluster"
        assert other.await_line(words)
        other.signal(signal.SIGTERM)
        assert isinstance(starting.exception(), NotReadyError), "it took no clients"
