"""The command as a user calls it: tables and JSON; errors in one line."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import chosen_scenarios, main
from benchmarks.scenarios import ALL
from tests.support.places import ROOT


def test_given_nats_server_on_both_sides_when_run_then_tables_and_json_are_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ours = "seriatim-bare"
    twin = f"{ours}:none={{bin}}/nats-server -a 127.0.0.1 -p {{port}}"
    names = ["1:1-16", "round-trip", "idle-10000"]
    only = [word for name in names for word in ("--only", name)]
    target = tmp_path / "deep" / "result.json"
    options = ["--scale", "0.002", "--runs", "1", "--json", str(target)]

    assert main([*only, "--server-cmd", twin, *options]) == 0

    said = capsys.readouterr().out
    assert "CPU us/message" in said
    assert all(name in said for name in names)
    assert "1:1-16, seriatim-bare: CPU per message" in said
    judged = re.findall(r"(\S+) times better than nats-server, goal 7.5: (reached|MISSED)", said)
    written = json.loads(target.read_text())
    reached = [goal["reached"] for goal in written["goals"] if goal["scenario"] == "1:1-16"]
    # So short a run says nothing of the two, which are the same: what is said must be consistent.
    assert [(float(times) >= 7.5, word == "reached") for times, word in judged] == [
        (one, one) for one in reached
    ]
    assert len(reached) == 1
    rows = written["results"]
    assert [(row["scenario"]["name"], row["server"]["name"]) for row in rows] == [
        (name, server) for name in names for server in (ours, "nats-server")
    ]
    assert all(len(row["runs"]) == 1 and not row["errors"] for row in rows)
    assert rows[0]["ratio"] > 0
    assert rows[1]["ratio"] == 0
    assert rows[2]["figures"]["p50_us"]["median"] > 0


def test_given_a_server_that_fails_when_run_then_the_others_count_and_the_status_is_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "result.json"
    broken = "--server-cmd=seriatim-bare=/nonexistent/server {port}"
    options = ["--only", "1:0-16", "--scale", "0.0001", "--runs", "1", "--json", str(target)]

    assert main([broken, *options]) == 1

    assert "seriatim-bare cannot be started" in capsys.readouterr().out
    rows = json.loads(target.read_text())["results"]
    assert [len(row["runs"]) for row in rows] == [0, 1]


def test_given_a_server_that_keeps_nothing_when_kept_messages_are_wanted_then_it_is_left_out(
    tmp_path: Path,
) -> None:
    target = tmp_path / "result.json"
    options = ["--scale", "0.001", "--runs", "1", "--json", str(target)]
    servers = ["--server", "jetstream", "--server", "nats-server"]

    assert main(["--only", "store-acked-128", "--only", "read-128", *servers, *options]) == 0

    rows = json.loads(target.read_text())["results"]
    assert [(row["scenario"]["name"], row["server"]["name"]) for row in rows] == [
        ("store-acked-128", "jetstream")
    ]


def test_given_no_original_when_it_is_compared_with_then_ours_runs_alone(tmp_path: Path) -> None:
    target = tmp_path / "result.json"
    options = ["--scale", "0.001", "--runs", "1", "--json", str(target)]

    assert main(["--only", "cq-8", *options]) == 0

    rows = json.loads(target.read_text())["results"]
    assert [row["server"]["name"] for row in rows] == ["seriatim-cq"]
    assert rows[0]["ratio"] == 0


def test_given_an_original_when_multicast_stays_here_then_ours_is_compared_with_it(
    tmp_path: Path,
) -> None:
    network = ["unshare", "-rn", "sh", "-c", "ip link set lo up && ip route add 239.0.0.0/8 dev lo"]
    tried = subprocess.run(network, capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"needs a network of its own: {tried.stderr.strip()}")
    stub = Path(__file__).with_name("stub_sequencer.py")
    program, target = tmp_path / "a {cq}", tmp_path / "result.json"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{stub}" "$@" recv none\n')
    program.chmod(0o755)
    network[-1] += ' && exec "$@"'
    command = [sys.executable, "-m", "benchmarks", "--only", "cq-8", "--only", "feed-128"]
    options = ["--cq", str(program), "--scale", "0.001", "--runs", "1", "--json", str(target)]

    ran = subprocess.run(
        [*network, "-", *command, *options], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert ran.returncode == 0, ran.stdout
    assert "cq-8, seriatim-cq: messages per second" in ran.stdout
    assert "feed-128, seriatim-feed: CPU per message" in ran.stdout
    rows = json.loads(target.read_text())["results"]
    assert [row["server"]["name"] for row in rows if row["scenario"]["name"] == "cq-8"] == [
        "seriatim-cq",
        "cq",
    ]
    assert rows[0]["ratio"] > 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--server", "cq"], "--cq PATH"),
        (["--server", "redis"], "no redis-server on the PATH"),
        (["--cq", "/nonexistent/cq"], "is no program"),
        (["--cq", "/"], "is no program"),
    ],
)
def test_given_an_original_that_is_not_there_when_run_then_the_remedy_is_shown(
    options: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert main(options) == 1
    assert said in capsys.readouterr().out


def test_given_a_pattern_when_scenarios_are_chosen_then_it_is_those_it_fits_each_once() -> None:
    chosen = chosen_scenarios(["kept-many-*", "kept-many-small-1", "idle-10000"])
    assert [one.name for one in chosen] == ["kept-many-small-1", "kept-many-small-10", "idle-10000"]


@pytest.mark.parametrize("option", ["--only", "--server"])
def test_given_an_unknown_name_when_run_then_one_line_names_the_known_ones(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([option, "nothing"]) == 1
    assert "there are" in capsys.readouterr().out


def test_given_the_list_option_when_run_then_every_scenario_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--list"]) == 0
    said = capsys.readouterr().out
    assert all(scenario.name in said for scenario in ALL)
