"""Doctor's findings about the clock: against the journal, and against other brokers."""

import re
from pathlib import Path

import pytest

from tests.seriatim.cli.doctor.doctor_runs import Finding, doctor
from tests.support.processes import STAND_IN, SeriatimServer
from tests.support.raw import QUIET, RawClient
from tests.support.set_clock import SetClock

pytestmark = pytest.mark.skipif(STAND_IN, reason="of our own journal and monitoring")


def broker_with_clock(tmp_path: Path, *arguments: str) -> tuple[SeriatimServer, SetClock]:
    clock = SetClock(tmp_path / "clock")
    server = SeriatimServer(store=tmp_path / "store", arguments=list(arguments))
    server.env.update(clock.env)
    return server, clock


def test_given_a_message_from_the_future_then_it_warns_and_says_by_how_much(
    tmp_path: Path,
) -> None:
    server, clock = broker_with_clock(tmp_path)
    clock.ahead(86_400)
    with server as broker, RawClient(broker.port, QUIET) as client:
        client.ask(b"PUB a 1\r\nx\r\n" * 3)
    found = doctor(store=tmp_path / "store").only("journal time")
    assert found.level == "warning"
    ahead = re.fullmatch(r"message 3 is of \S+: the clock is ([\d.]+) s behind it", found.text)
    assert ahead
    assert 86_000 < float(ahead[1]) < 86_401


def test_given_a_message_of_now_while_the_broker_runs_then_all_is_well(tmp_path: Path) -> None:
    with SeriatimServer(store=tmp_path) as broker, RawClient(broker.port, QUIET) as client:
        client.ask(b"PUB a 1\r\nx\r\n")
        found = doctor(store=tmp_path).only("journal time")
    assert found.level == "ok"
    assert re.fullmatch(r"message 1 is of \S+, not after the clock", found.text)


def test_given_an_empty_store_or_none_then_there_is_no_time_to_compare(tmp_path: Path) -> None:
    assert doctor(store=tmp_path).about("journal time") == []
    with SeriatimServer(store=tmp_path):
        assert doctor(store=tmp_path).about("journal time") == []


def compared(broker: SeriatimServer) -> Finding:
    (port,) = re.findall(r"monitor\S* on \S+?:(\d+)", "\n".join(broker.log), re.IGNORECASE)
    return doctor("--compare", f"http://ops:sesame@127.0.0.1:{port}").only("clock of others")


def test_given_brokers_whose_clocks_differ_then_it_says_by_how_much(tmp_path: Path) -> None:
    server, clock = broker_with_clock(
        tmp_path, *("-m", "-1", "--http_user", "ops", "--http_pass", "sesame")
    )
    with server as broker:
        same = compared(broker)
        clock.ahead(-3600)
        behind = compared(broker)
        clock.ahead(5)
        ahead = compared(broker)
    assert same.level == "ok"
    assert " agrees, within " in same.text or " this one, within " in same.text
    assert behind.level == ahead.level == "warning"
    assert re.search(r"127\.0\.0\.1:\d+ is 3(600\.0|599\.9) s behind this one", behind.text)
    assert re.search(r"127\.0\.0\.1:\d+ is (5\.0|4\.9) s ahead of this one", ahead.text)
    assert "sesame" not in behind.text + behind.do


def test_given_no_broker_there_then_it_cannot_be_compared() -> None:
    found = doctor("--compare", "http://127.0.0.1:1").only("clock of others")
    assert found.level == "warning"
    assert found.text.startswith("cannot compare: 127.0.0.1:1: connection refused")


def test_given_this_machine_then_its_clock_source_is_named() -> None:
    examined = doctor()
    place = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
    assert examined.only("clock source").text.startswith(place.read_text().strip())
    assert "synchronise" in examined.only("clock").text
