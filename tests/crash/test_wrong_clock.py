"""The time of day of a broker jumps: ids and messages get neither older nor younger by it."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.crash.shim import COMPILER, WHY_NOT
from tests.support.processes import STAND_IN, SeriatimServer
from tests.support.set_clock import BOUND_S, Asker, SetClock

Asking = Callable[[SeriatimServer], Asker]
pytestmark = [
    pytest.mark.skipif(STAND_IN, reason="nats-server has no numbers"),
    pytest.mark.skipif(COMPILER is None, reason=WHY_NOT),
]
DAY = 86_400


@pytest.fixture
def clock(tmp_path: Path) -> SetClock:
    return SetClock(tmp_path / "clock")


def broker(tmp_path: Path, clock: SetClock, *flags: str) -> SeriatimServer:
    made = SeriatimServer(arguments=list(flags), store=tmp_path / "store")
    made.env.update(clock.env)
    return made


@pytest.fixture
def asking() -> Iterator[Asking]:
    with ExitStack() as stack:

        def made(server: SeriatimServer) -> Asker:
            asker = Asker(server.port)
            stack.callback(asker.client.close)
            return asker

        yield made


@pytest.mark.parametrize("ahead", [DAY, -DAY])
def test_given_a_clock_that_jumps_and_comes_back_then_ids_count_for_their_window(
    tmp_path: Path, clock: SetClock, asking: Asking, ahead: int
) -> None:
    with broker(tmp_path, clock, "--dedupe_window", "1.5s") as server:
        asker = asking(server)
        begun = time.monotonic()
        first = asker.number("a")
        clock.ahead(ahead)
        again, other = asker.number("a"), asker.number("b")
        clock.ahead(0)
        still = asker.number("a"), asker.number("b")
        if time.monotonic() - begun < 1.5:  # else this machine was too slow to see it
            assert (first, again, other, *still) == (1, 1, 2, 1, 2)
        asker.until_forgotten("a", first)
        assert time.monotonic() - begun >= 1.5


def test_given_a_clock_that_was_ahead_when_the_broker_starts_again_then_ids_are_as_old_as_they_are(
    tmp_path: Path, clock: SetClock, asking: Asking
) -> None:
    """It is killed, so what it had no time to write is not known."""
    flags = "--dedupe_window", "1.5s", "--sync_interval", "20ms"
    with broker(tmp_path, clock, *flags) as server:
        clock.ahead(DAY)
        asker = asking(server.restart())
        old = asker.number("old")
        clock.ahead(0)
        asker.until_forgotten("old", old)
        new = asker.number("new")
        assert server.await_line("the newest message is dated 86")
        asker.until_forgotten("new", new)  # so that all is written by now
        newer, begun = asker.number("newer"), time.monotonic()
        server.kill()
        asker = asking(server.start())
        again = asker.number("newer")
        if time.monotonic() - begun < 1.5:
            assert again == newer
        assert server.await_line("the newest message is dated 86"), "said at the start, too"
        asker.until_forgotten("newer", newer)
        server.kill()
        asker = asking(server.start())
        assert asker.number("new") > newer, "it is too old, whatever its record's time says"


def test_given_a_clock_that_was_ahead_then_retention_goes_by_when_messages_came(
    tmp_path: Path, clock: SetClock, asking: Asking
) -> None:
    flags = "--retain_age", "1s", "--segment_age", "1s", "--sync_interval", "20ms"
    with broker(tmp_path, clock, *flags) as server:
        clock.ahead(DAY)
        asker = asking(server.restart())
        asker.number("a")
        clock.ahead(0)
        asker.number("b")
        asker.until("first", 3)
        asker.number("c")
        server.restart()
        asker = asking(server)
        asker.until("first", 4)


def test_given_a_clock_that_jumps_ahead_then_retention_deletes_nothing_for_it(
    tmp_path: Path, clock: SetClock, asking: Asking
) -> None:
    flags = "--retain_age", "1h", "--segment_age", "1s", "--sync_interval", "20ms"
    with broker(tmp_path, clock, *flags) as server:
        asker = asking(server)
        asker.number("a")
        clock.ahead(10 * DAY)
        end = time.monotonic() + BOUND_S
        while len(list((tmp_path / "store").glob("*.segment"))) < 3:
            assert time.monotonic() < end, "segments are of a second"
            asker.number(f"b{time.monotonic()}")
            time.sleep(0.02)  # no event to await
        clock.ahead(0)
        asker.number("c")
        assert server.await_line("the newest message is dated")
        assert asker.info()["first"] == 1


def test_given_ids_whose_messages_are_deleted_when_the_broker_is_killed_then_they_count_still(
    tmp_path: Path, clock: SetClock, asking: Asking
) -> None:
    flags = "--retain_bytes", "256KiB", "--segment_bytes", "64KiB", "--sync_interval", "20ms"
    with broker(tmp_path, clock, *flags) as server:
        asker = asking(server)
        kept = {name: asker.number(name) for name in ("a", "b" * 100, "c")}
        for turn in range(60):
            asker.number(f"more-{turn}", 20_000)
        asker.until("first", 10)
        for _ in range(2):  # the second process has not seen these messages, either
            server.kill()
            asker = asking(server.start())
            assert {name: asker.number(name) for name in kept} == kept
            assert list((tmp_path / "store").glob("*.ids"))
