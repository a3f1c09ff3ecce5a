"""Doctor's findings about limits of a process: its own, or those of a running broker."""

import re
import resource
from pathlib import Path

import pytest

from tests.seriatim.cli.doctor.doctor_runs import doctor, ordinary
from tests.support.processes import STAND_IN, SeriatimServer


def limited(*lines: str) -> list[str]:
    return ["sh", "-c", "; ".join(["set -e", *lines, 'exec "$@"']), "sh"]


def test_given_too_few_open_files_then_it_says_how_many_clients_fit() -> None:
    found = doctor("--max_connections", "1000", prefix=limited("ulimit -n 300")).only("open files")
    assert found.level == "warning"
    assert found.text.startswith("soft 300, hard 300; limits.max_connections 1000 and 64 for the")
    assert found.why.startswith("more than 236 clients do not fit")
    assert "LimitNOFILE=1064" in found.do
    assert "--max_connections 236" in found.do


def test_given_a_low_soft_limit_alone_then_all_is_well() -> None:
    found = doctor("--max_connections", "200", prefix=limited("ulimit -Sn 100")).only("open files")
    assert found.level == "ok"
    assert found.text.startswith("soft 100, hard ")


def test_given_a_running_broker_then_its_limits_count(tmp_path: Path) -> None:
    if STAND_IN:
        pytest.skip("of our own process")
    with SeriatimServer(store=tmp_path) as broker:
        resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (777, 777))
        found = doctor("--max_connections", "1000", store=tmp_path).only("open files")
    assert f"hard 777 (of the running broker, process {broker_pid(found.text)})" in found.text
    assert found.level == "warning"


def broker_pid(text: str) -> str:
    return text.partition("process ")[2].partition(")")[0]


def test_given_little_locked_memory_then_the_window_may_leave_memory(tmp_path: Path) -> None:
    prefix = [*ordinary(), *limited("ulimit -l 64")]
    found = doctor(prefix=prefix, store=tmp_path).only("locked memory")
    assert (found.level, found.text) == ("hint", "64KiB; journal.window_bytes is 64MiB")
    assert "LimitMEMLOCK=65M" in found.do


def test_given_enough_locked_memory_or_no_journal_then_all_is_well(tmp_path: Path) -> None:
    prefix = [*ordinary(), *limited("ulimit -l 1024")]
    small = ("--journal_window_bytes", "512KiB")
    assert doctor(*small, prefix=prefix, store=tmp_path).only("locked memory").level == "ok"
    assert doctor(prefix=prefix).about("locked memory") == []


@pytest.mark.parametrize(("most", "level"), [(1, "warning"), (50_000, "ok")])
def test_given_a_limit_of_processes_then_the_threads_of_a_broker_must_fit(
    most: int, level: str
) -> None:
    found = doctor(prefix=["prlimit", f"--nproc={most}:{most}", *ordinary()]).only("threads")
    assert found.level == level
    assert re.fullmatch(rf"user \d+ has [1-9]\d* of {most} processes and threads", found.text)
