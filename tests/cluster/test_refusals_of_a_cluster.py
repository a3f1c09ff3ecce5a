"""A cluster that cannot order messages refuses them, and every kind of client learns why."""

import asyncio
import json
import os
import re
import subprocess
from collections.abc import Iterator

import nats
import pytest

from tests.cluster.test_cluster_batches import eventually
from tests.crash.disks import mounted, why_not
from tests.support.cluster_start import ClusterOf
from tests.support.commands import run_command
from tests.support.processes import BIN, SeriatimServer
from tests.support.raw import HEADERS, QUIET, RawClient

PAGE = 4096
ORDERED = b"PUB $SEQ.ORDERED 0\r\n\r\n"
WHY = "cluster has 1 of 2 members in sync"


@pytest.fixture(scope="module")
def lonely() -> Iterator[SeriatimServer]:
    """The last of two members, which refuses messages by now; none was published."""
    with ClusterOf(2, more=["--cluster_patience", "1s"]) as cluster:
        member = cluster.members[cluster.coordinator()]
        with RawClient(member.port, QUIET + b"SUB r 1\r\n") as client:

            def is_refusing() -> bool:
                (found,) = client.ask(b"PUB $SEQ.INFO r 0\r\n\r\n")
                return bool(json.loads(found.payload)["full"])

            eventually(lambda: len(cluster.view()["members"]) == 2 and not is_refusing())
            cluster.members[1 - cluster.coordinator()].kill()
            eventually(is_refusing)
        yield member


def test_given_one_of_two_members_then_the_first_message_is_refused_with_the_count(
    lonely: SeriatimServer,
) -> None:
    with RawClient(lonely.port, QUIET) as client:
        (error,) = client.ask(b"PUB a 1\r\nx\r\n")
    assert error.text == b"'Permissions Violation for Publish to \"a\": the %b'" % WHY.encode()


def test_given_a_nats_library_when_a_request_is_refused_then_it_gets_the_reason(
    lonely: SeriatimServer,
) -> None:
    async def ask(subject: str, payload: bytes) -> dict[str, str]:
        client = await nats.connect(f"127.0.0.1:{lonely.port}")
        try:
            answer = await client.request(subject, payload, timeout=30)
        finally:
            await client.close()
        assert answer.headers is not None
        return dict(answer.headers)

    headers = asyncio.run(ask("$SEQ.PUB.a", b"x"))
    assert (headers["Status"], headers["Description"]) == ("504", f"The {WHY}")


def test_given_a_refusal_when_the_cluster_recovers_then_nothing_overtakes_it() -> None:
    """A client that keeps the order has all refused until it says that it repeats them."""
    with ClusterOf(2, more=["--cluster_patience", "1s"]) as cluster:
        member = cluster.members[cluster.coordinator()]
        other = cluster.members[1 - cluster.coordinator()]
        with (
            RawClient(member.port, HEADERS + b"SUB r 1\r\n") as client,
            RawClient(member.port, HEADERS + b"SUB r 1\r\n") as careless,
        ):

            def publish(asker: RawClient, before: bytes = b"") -> tuple[bytes, bytes]:
                (found,) = asker.ask(before + b"PUB $SEQ.PUB.a r 1\r\nx\r\n")
                return found.header, found.payload

            def is_refusing() -> bool:
                (found,) = careless.ask(b"PUB $SEQ.INFO r 0\r\n\r\n")
                return bool(json.loads(found.payload)["full"])

            eventually(lambda: len(cluster.view()["members"]) == 2 and not is_refusing())
            assert publish(client, ORDERED) == (b"", b"1:1,")
            other.kill()
            eventually(is_refusing)
            refusal = (b"NATS/1.0 504 The %b\r\n\r\n" % WHY.encode(), b"")
            assert publish(client) == publish(careless) == refusal
            other.start(other.port)
            eventually(lambda: not is_refusing())
            assert publish(client) == refusal
            (error,) = client.ask(b"PUB $SEQ.PUB.a 1\r\nx\r\n")
            assert WHY.encode() in error.text
            assert publish(careless) == (b"", b"1:2,")
            (plain,) = client.ask(b"PUB r 1\r\nx\r\n")
            assert plain.payload == b"8:1:3,1:x,,"
            assert publish(client, ORDERED) == (b"", b"1:4,")
            assert publish(client) == (b"", b"1:5,")


def test_given_a_refused_message_then_the_command_says_why(lonely: SeriatimServer) -> None:
    command = [str(BIN / "seriatim"), "pub", "-s", f"127.0.0.1:{lonely.port}", "--ack", "a", "x"]
    done = run_command(command, os.environ)
    assert done.returncode == 1
    assert f"the broker refused: The {WHY}" in done.stderr.decode().replace("\n", " ")


@pytest.mark.skipif(bool(why_not("tmpfs")), reason=why_not("tmpfs"))
def test_given_a_full_disk_when_a_member_starts_then_it_names_the_file_and_nothing_else() -> None:
    """Whichever of its files finds no room first."""
    named = set()
    with ClusterOf(1) as cluster:
        for pages in (2, 8):
            with mounted("tmpfs", pages * PAGE) as folder:
                command = [
                    str(BIN / "seriatim"),
                    "serve",
                    *cluster.flags(1),
                    "-sd",
                    str(folder / "store"),
                ]
                done = subprocess.run(
                    [*command, "-a", "127.0.0.1", "-p", "-1", "-m", "-1"],
                    capture_output=True,
                    text=True,
                    timeout=60,
                    check=False,
                )
            *_, last = done.stderr.splitlines()
            found = re.search(r"\[FTL\] (\S+): (.*)", last)
            assert found is not None, done.stderr
            assert "No space left on device; make room on that disk" in found[2], done.stderr
            named.add(found[1].removeprefix(str(folder)))
    assert len(named) == 2, named
