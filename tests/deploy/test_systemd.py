"""The unit for systemd: systemd itself reads it, and its numbers are those of the settings.

What its notifications are is in tests/broker/runtime/test_notify.py.
"""

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from broker.addresses import BACKLOG
from broker.clients.acceptor import RESERVED
from broker.settings.resolve import resolve
from broker.settings.settings import Settings
from seriatim.settings.amounts import read_duration
from tests.seriatim.cli.command import COMMAND
from tests.support.places import ROOT

UNIT = ROOT / "deploy" / "systemd" / "seriatim.service"
SOCKET = UNIT.with_suffix(".socket")
EXPOSURE_MAX = 2.0  # of 10; `systemd-analyze security` calls it OK
TOOL_S = 60.0


def options(unit: Path = UNIT) -> dict[str, list[str]]:
    """The values of each option of a unit."""
    found: dict[str, list[str]] = {}
    for line in unit.read_text().splitlines():
        if re.match(r"\w+=", line):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


@pytest.fixture(scope="module")
def analyze() -> str:
    """The program, which comes with systemd; as root it is installed, and starts nothing."""
    if shutil.which("systemd-analyze") is None:
        done = subprocess.run(
            [ROOT / ".ci" / "need", "systemd"], capture_output=True, text=True, check=False
        )
        if done.returncode:
            pytest.skip(done.stderr.strip())
    found = shutil.which("systemd-analyze")
    assert found is not None
    return found


def test_given_the_unit_when_systemd_reads_it_then_it_has_nothing_to_say(
    analyze: str, tmp_path: Path
) -> None:
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/seriatim/bin/seriatim", COMMAND))
    door = tmp_path / SOCKET.name
    door.write_text(SOCKET.read_text())
    done = subprocess.run(
        [analyze, "verify", "--man=no", str(unit), str(door)],
        capture_output=True,
        text=True,
        timeout=TOOL_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert [line for line in done.stderr.splitlines() if UNIT.stem in line] == []


def test_given_the_unit_when_systemd_judges_it_then_little_is_exposed(analyze: str) -> None:
    done = subprocess.run(
        [analyze, "security", "--offline=true", "--json=short", str(UNIT)],
        capture_output=True,
        text=True,
        timeout=TOOL_S,
        check=False,
    )
    judged = subprocess.run(
        [analyze, "security", "--offline=true", "--no-pager", str(UNIT)],
        capture_output=True,
        text=True,
        timeout=TOOL_S,
        check=False,
    ).stdout
    exposure = re.search(r"Overall exposure level for \S+: ([\d.]+)", judged)
    assert exposure is not None, judged
    assert float(exposure[1]) <= EXPOSURE_MAX
    (users,) = (one for one in json.loads(done.stdout) if one["name"] == "User=/DynamicUser=")
    assert users["set"] is True, "it does not run as root"


def test_given_the_unit_then_its_command_is_one_that_serves(tmp_path: Path) -> None:
    (command,) = options()["ExecStart"]
    program, name, flag, file = shlex.split(command)
    assert (Path(program).name, name, flag) == ("seriatim", "serve", "--config")
    (tmp_path / Path(file).name).write_text('server_name = "x"\n')
    variables = dict(one.split("=", 1) for one in options()["Environment"])
    settings = resolve({}, variables, str(tmp_path / Path(file).name)).settings
    assert settings.store_dir == f"/var/lib/{options()['StateDirectory'][0]}"


def test_given_the_unit_then_its_limits_are_large_enough_for_the_settings() -> None:
    limits = Settings().limits
    (files,) = options()["LimitNOFILE"]
    assert int(files) >= limits.max_connections + RESERVED
    (seconds,) = options()["TimeoutStopSec"]
    assert read_duration(seconds) > limits.lame_duck + limits.drain_timeout
    assert options()["Type"] == ["notify"]
    assert options()["ExecReload"] == ["/bin/kill -HUP $MAINPID"]


def test_given_the_socket_unit_then_it_opens_the_port_of_the_settings() -> None:
    found = options(SOCKET)
    assert found["ListenStream"] == [str(Settings().port)]
    assert (found["BindIPv6Only"], Settings().host) == (["both"], "0.0.0.0")
    assert found["Backlog"] == [str(BACKLOG)]
    assert "Accept" not in found
