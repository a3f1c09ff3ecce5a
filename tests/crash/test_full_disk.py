"""A disk that fills up: publishers are refused, nobody else notices, and it recovers on its own."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.crash.disks import fill, mounted, why_not
from tests.crash.talk import heard, lives, pub, refusals, replay
from tests.support.processes import STAND_IN, SeriatimServer
from tests.support.raw import HEADERS, QUIET, RawClient

pytestmark = pytest.mark.skipif(STAND_IN, reason="nats-server has no journal")
VERBOSE = b'CONNECT {"verbose":true,"pedantic":false}\r\n'
MEBIBYTE = 1 << 20
BODY = b"x" * 8000
FULL = b"No space left on device"
AGAIN = "messages can be written again"


@pytest.fixture(params=["tmpfs", "ext4"])
def disk(request: pytest.FixtureRequest) -> Iterator[Path]:
    if why_not(request.param):
        pytest.skip(why_not(request.param))
    with mounted(request.param, 24 * MEBIBYTE) as folder:
        yield folder


def broker_on(disk: Path, *arguments: str) -> SeriatimServer:
    return SeriatimServer("netstring", None, list(arguments), store=disk / "store")


def publish_until_full(port: int) -> int:
    """Messages of one connection until one is refused; how many were taken."""
    with RawClient(port, QUIET) as client:
        for at in range(10_000):
            said = client.ask(pub(b"%d " % at + BODY))
            if said:
                assert refusals(said) == [(b"a", FULL)]
                return at
    raise AssertionError("this disk is never full")


def info(port: int) -> dict[str, Any]:
    with RawClient(port, HEADERS) as client:
        client.send(b"SUB _INBOX.1 1\r\nPUB $SEQ.INFO _INBOX.1 0\r\n\r\n")
        answer: dict[str, Any] = json.loads(client.operation().payload)
        return answer


@pytest.mark.parametrize("sync", ["interval", "always"])
def test_given_a_full_disk_then_publishers_are_refused_and_all_else_goes_on(
    disk: Path, sync: str
) -> None:
    with broker_on(disk, "--sync", sync) as broker, RawClient(broker.port, QUIET) as ear:
        ear.ask(b"SUB a 1\r\n")
        filler = fill(disk, 2 * MEBIBYTE)
        taken = publish_until_full(broker.port)
        assert broker.await_line("publishers are refused")
        assert taken > 20, "what was there was used"
        told = heard(ear.ask(b""))
        assert [number for number, _ in told] == list(range(1, taken + 1))
        big = pub(BODY)
        with (
            RawClient(broker.port, QUIET) as quiet,
            RawClient(broker.port, VERBOSE) as loud,
            RawClient(broker.port, HEADERS + b"SUB _INBOX.h 1\r\n") as asker,
            RawClient(broker.port, QUIET + b"SUB _INBOX.q 1\r\n") as plain,
        ):
            loud.ask(b"")
            assert refusals(quiet.ask(big)) == [(b"a", FULL)]
            assert refusals(quiet.ask(big * 3)), "at least once for all of them"
            assert refusals(loud.ask(big * 3)) == [(b"a", FULL)] * 3
            status = asker.ask(pub(BODY, b"$SEQ.PUB.a", b"_INBOX.h"))
            assert [one.header for one in status] == [b"NATS/1.0 507 Journal Full\r\n\r\n"]
            errors = plain.ask(pub(BODY, b"$SEQ.PUB.a", b"_INBOX.q"))
            assert refusals(errors) == [(b"$SEQ.PUB.a", FULL)]
            assert refusals(asker.ask(pub(BODY, b"$SEQ.PUB.a"))) == [(b"$SEQ.PUB.a", FULL)]
            assert lives(broker.port)
            assert heard(ear.ask(b"")) == [], "nothing refused was delivered"
            assert replay(broker.port) == told
            now = info(broker.port)
            assert (now["full"], now["last"]) == (True, taken)
            filler.unlink()
            assert broker.await_line(AGAIN)
            answers = asker.ask(pub(BODY, b"$SEQ.PUB.a", b"_INBOX.h"))
            number = b"%d" % (taken + 1)
            assert [one.payload for one in answers] == [b"%d:%b," % (len(number), number)]
            assert quiet.ask(big) == []
        told += heard(ear.ask(b""))
        assert [number for number, _ in told] == list(range(1, taken + 3)), "no number was burnt"
        assert info(broker.port)["full"] is False
        broker.kill()
        broker.start(broker.port)
        assert replay(broker.port) == told


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_given_a_full_disk_when_the_broker_starts_then_it_serves_and_takes_more_later(
    disk: Path, how: str
) -> None:
    filler = fill(disk, 4 * MEBIBYTE)
    with broker_on(disk) as broker:
        taken = publish_until_full(broker.port)
        told = replay(broker.port)
        broker.kill() if how == "killed" else broker.stop()
        fill(disk, 0, "rest")  # not one block is free
        broker.start(broker.port)
        assert replay(broker.port) == told
        assert taken == len(told)
        with RawClient(broker.port, QUIET) as client:
            said = client.ask(pub(b"x" * (MEBIBYTE // 2)) * 2)
            assert refusals(said), "there is no room for both"
        filler.unlink()
        assert broker.await_line(AGAIN)
        last = len(replay(broker.port))
        with RawClient(broker.port, QUIET) as client:
            assert heard(client.ask(b"SUB a 1\r\n" + pub(b"new"))) == [(last + 1, b"new")]


def test_given_a_full_disk_when_retention_makes_room_then_it_goes_on_by_itself(
    disk: Path,
) -> None:
    keep = ["--segment_bytes", "1MiB", "--retain_age", "2s"]
    with broker_on(disk, *keep) as broker:
        fill(disk, 4 * MEBIBYTE)
        taken = publish_until_full(broker.port)
        assert broker.await_line(AGAIN)
        with RawClient(broker.port, QUIET) as client:
            said = client.ask(b"SUB a 1\r\n" + pub(b"new"))
        assert heard(said) == [(taken + 1, b"new")]
