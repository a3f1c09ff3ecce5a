"""Clusters whose members speak TLS with each other: processes, certificates, a real etcd."""

import os
import signal
import ssl
import subprocess
import threading
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from tests.cluster.cluster_trial import ClusterTrial
from tests.crash.trial import SEED
from tests.support.cluster_start import ClusterOf
from tests.support.commands import run_command
from tests.support.depth import depth
from tests.support.member_certificates import Issued, MemberAuthority
from tests.support.processes import BIN, NotReadyError, SeriatimServer
from tests.support.raw import QUIET, RawClient
from tests.support.web import get, http_port

LOCAL = ("DNS:localhost", "IP:127.0.0.1")
WAIT_S = 60.0


def flags(folder: Path, ca: MemberAuthority, issued: Issued, use: str = "auto") -> list[str]:
    """The flags of a member with this certificate."""
    file = folder / f"{Path(issued.cert).stem}.toml"
    paths = {"cert_file": issued.cert, "key_file": issued.key, "ca_file": ca.pem}
    lines = [f'{key} = "{path}"' for key, path in paths.items()]
    file.write_text("\n".join(["[tls]", *lines, "handshake_first = true", ""]))
    return ["-c", str(file), "--cluster_tls", use]


class TlsCluster(ClusterOf):
    """Its clients shake hands first, as their members say."""

    def made(self, at: int, store: Path) -> SeriatimServer:
        member = super().made(at, store)
        member.tls = trusting(self.more)
        return member


def trusting(more: list[str]) -> ssl.SSLContext | None:
    """How clients of a member with these flags speak TLS; None: they do not."""
    if "-c" not in more:
        return None
    with open(more[more.index("-c") + 1], "rb") as file:
        ca = tomllib.load(file)["tls"]["ca_file"]
    return ssl.create_default_context(cafile=ca)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tls")


@pytest.fixture(scope="module")
def ca(folder: Path) -> MemberAuthority:
    return MemberAuthority(folder)


@pytest.fixture(scope="module")
def cluster(folder: Path, ca: MemberAuthority) -> Iterator[ClusterOf]:
    """One for the tests that leave all members alive, and for the one after them that stops it."""
    member = flags(folder, ca, ca.issue("shared", *LOCAL))
    with TlsCluster(3, more=[*member, "-m", "-1"]) as made:
        yield made


def test_given_tls_when_coordinators_are_killed_then_nothing_acknowledged_is_lost(
    cluster: ClusterOf,
) -> None:
    async def kill(trial: ClusterTrial) -> None:
        await trial.kill(trial.coordinator())

    ClusterTrial(cluster, SEED).play([kill] * depth(1, 20))
    assert all(member.said(", TLS") for member in cluster.members)


def test_given_a_member_with_a_wrong_certificate_then_it_or_the_others_say_why(
    cluster: ClusterOf, tmp_path: Path, ca: MemberAuthority
) -> None:
    def fourth(*words: str) -> SeriatimServer:
        usual = cluster.flags(4)
        at = usual.index("-c")
        del usual[at : at + 4]  # with --cluster_tls
        return SeriatimServer(arguments=[*usual, *words], store=tmp_path / "store")

    for issued, why in (
        (ca.issue("late", *LOCAL, days=-1), "the certificate has expired"),
        (ca.issue("named", "DNS:two.example"), r"is not for 127.0.0.1, where it was reached"),
        (ca.issue("client", *LOCAL, usage="clientAuth"), "both serverAuth and clientAuth"),
    ):
        with pytest.raises(NotReadyError, match="other members would refuse this one") as caught:
            fourth(*flags(tmp_path, ca, issued)).start()
        assert why in str(caught.value)

    other = MemberAuthority(tmp_path, "other")
    with stranger(fourth(*flags(tmp_path, other, other.issue("member", *LOCAL)))) as log:
        assert says(log, "no authority in tls.ca_file signed its certificate")
        coordinator = cluster.members[cluster.coordinator()]
        assert coordinator.await_line("refuses this member's certificate: its tls.ca_file has not")
    with stranger(fourth()) as log:
        assert says(log, "may be on at one side alone")


def test_given_tls_then_the_pages_show_it_and_the_commands_work(
    cluster: ClusterOf, ca: MemberAuthority
) -> None:
    coordinator = cluster.members[cluster.coordinator()]
    page = get(http_port(coordinator), "/varz").json["cluster"]
    assert (page["tls"], page["tls_required"], page["tls_verify"]) == ("on", True, True)
    routes = until(
        lambda: get(http_port(coordinator), "/routez").json["routes"],
        lambda found: len(found) == 2 and all(one["in_sync"] for one in found),
        "two routes",
    )
    for route in routes:
        assert route["tls_version"] == "TLSv1.3"
        assert route["tls_cipher_suite"].startswith("TLS_")
        assert route["tls_names"] == ["localhost", "127.0.0.1"]
    renewed = ca.issue("shared", *LOCAL, "DNS:renewed")  # in the same files
    config = cluster.more[cluster.more.index("-c") + 1]
    assert renewed.cert in Path(config).read_text()
    for member in cluster.members:
        member.signal(signal.SIGHUP)
        assert member.await_line("Reloaded")
    assert "in sync" in command(cluster, config, "status")
    # On a busy machine, both others may be out of sync for a moment.
    until(lambda: handed_over(cluster, config), bool, "a hand-over")
    coordinator = cluster.members[cluster.coordinator()]
    until(
        lambda: get(http_port(coordinator), "/routez").json["routes"],
        lambda found: [one.get("tls_names", [])[2:] for one in found] == [["renewed"]] * 2,
        "connections with the new certificate",
    )
    command(cluster, config, "stop")


def test_given_a_cluster_that_runs_when_it_changes_to_tls_then_it_goes_on(
    tmp_path: Path, ca: MemberAuthority
) -> None:
    issued = ca.issue("member", *LOCAL)
    with TlsCluster(3, more=["-m", "-1"]) as cluster:
        for use in ("optional", "on"):
            for at, member in enumerate(cluster.members):
                whole(cluster)
                cluster.more = ["-m", "-1", *flags(tmp_path, ca, issued, use)]
                member.stop()
                made = cluster.made(at, cluster.folder / f"store-{at}")
                member.command, member.tls = made.command, made.tls
                member.start()
                publish(member)
        whole(cluster)
        coordinator = cluster.members[cluster.coordinator()]
        routes = get(http_port(coordinator), "/routez").json["routes"]
        assert [one["tls_version"] for one in routes] == ["TLSv1.3"] * 2


def test_given_a_certificate_that_members_refuse_when_read_again_then_clients_get_the_old_one(
    tmp_path: Path, ca: MemberAuthority
) -> None:
    with TlsCluster(1, more=flags(tmp_path, ca, ca.issue("member", *LOCAL))) as cluster:
        (member,) = cluster.members
        before = shown_to_clients(member)
        ca.issue("member", "DNS:localhost")  # in the same files
        member.signal(signal.SIGHUP)
        assert member.await_line("other members would refuse this one")
        assert shown_to_clients(member) == before
        ca.issue("member", *LOCAL)
        begun = len(member.log)
        member.signal(signal.SIGHUP)
        assert member.await_lines(begun, ("Reloaded server configuration",))
        assert shown_to_clients(member) != before


def shown_to_clients(member: SeriatimServer) -> str:
    """The number of the certificate that a new client gets."""
    with RawClient(member.port, tls=member.tls) as client:
        assert isinstance(client.socket, ssl.SSLSocket)
        found = client.socket.getpeercert()
    assert found is not None
    return str(found["serialNumber"])


def run(cluster: ClusterOf, config: str, *words: str) -> subprocess.CompletedProcess[bytes]:
    """Run a command, which has the cluster's settings from the members' file."""
    given = ["-c", config, "--cluster", cluster.name, "--etcd", cluster.etcd.endpoint]
    return run_command([str(BIN / "seriatim"), "cluster", *words, *given], os.environ)


def command(cluster: ClusterOf, config: str, *words: str) -> str:
    """Run a command that must succeed; return its output."""
    done = run(cluster, config, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.decode()


def handed_over(cluster: ClusterOf, config: str) -> bool:
    """Hand over; False if no other member is in sync at this moment."""
    done = run(cluster, config, "handover")
    if b"no other member is in sync" in done.stderr:
        return False
    assert b"coordinates now" in done.stdout, done.stderr
    return True


def publish(member: SeriatimServer) -> None:
    with RawClient(member.port, QUIET, tls=member.tls) as client:
        assert client.ask(b"PUB a 1\r\nx\r\n") == []


def whole(cluster: ClusterOf) -> None:
    """Until all members are in sync."""
    until(lambda: cluster.view()["members"], lambda found: len(found) == 3, "three in sync")


def until(ask: Callable[[], Any], is_right: Callable[[Any], bool], wanted: str) -> Any:
    deadline = time.monotonic() + WAIT_S
    while not is_right(found := ask()):
        assert time.monotonic() < deadline, f"{wanted} did not come: {found}"
        time.sleep(0.02)  # another process: there is no event to await
    return found


@contextmanager
def stranger(member: SeriatimServer) -> Iterator[IO[str]]:
    """A process that never becomes ready: its log."""
    command = [*member.command, "-a", "127.0.0.1", "-p", "-1"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        watchdog = threading.Timer(WAIT_S, process.kill)
        watchdog.start()
        try:
            assert process.stderr is not None
            yield process.stderr
        finally:
            watchdog.cancel()
            process.kill()


def says(log: IO[str], text: str) -> bool:
    """Whether a line with this text comes, in time."""
    return any(text in line for line in log)
