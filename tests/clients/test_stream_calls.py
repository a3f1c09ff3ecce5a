"""Clients of JetStream make every call they have, of nats-server and of the broker: all end alike.

What differs by intention is in `DIFFERENT`, and in docs/streams.md.
"""

import fcntl
import glob
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.clients.conftest import FOLDER
from tests.support.places import ROOT
from tests.support.processes import STAND_IN, NatsServer, SeriatimServer, ServerProcess, url

pytestmark = pytest.mark.skipif(STAND_IN, reason="it starts both servers")
RUN_S = 240.0
INSTALL_S = 300.0
CALLS = ROOT / "tests" / "clients" / "calls"
SECOND_CLIENT = ("nats-jetstream==0.3.0", "nats-core==0.2.0", "nkeys")  # for Python 3.13
DIFFERENT = {
    "streams: info then": "holes of purged messages are not counted as deleted",
    "later: a limit": "limits of a stream are refused",
    "later: a work queue": "work queues are refused",
    "later: a bucket": "key-value stores are refused",
    "later: an object store": "object stores are refused",
    "subscriptions: a bucket": "key-value stores are refused",
    "subscriptions: an object store": "object stores are refused",
}


def outcomes(command: list[str], server: ServerProcess) -> list[tuple[str, Any]]:
    """What the calls of a client came to, by section and name."""
    done = subprocess.run(
        [*command, url(server)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found, section = [], ""
    for name, outcome in json.loads(done.stdout.splitlines()[-1]):
        if name == "section":
            section = outcome
        else:
            found.append((f"{section}: {name}", outcome))
    return found


def assert_alike(command: list[str], folder: Path) -> None:
    with NatsServer(more=f'jetstream {{store_dir: "{folder / "nats"}"}}\n') as other:
        expected = outcomes(command, other)
    ours = ["--jetstream", "--exclude", "_INBOX.>"]
    with SeriatimServer(arguments=ours, store=folder / "store") as broker:
        found = outcomes(command, broker)
    assert [name for name, _ in found] == [name for name, _ in expected]
    for (name, outcome), (_, theirs) in zip(found, expected, strict=True):
        if name in DIFFERENT:
            assert outcome != theirs, f"{name}: {DIFFERENT[name]} - but no more"
        else:
            assert outcome == theirs, name
    assert not [line for line in broker.log if "[ERR]" in line or "Traceback" in line]


def test_given_nats_py_when_it_makes_every_call_then_all_end_as_with_nats_server(
    tmp_path: Path,
) -> None:
    assert_alike([sys.executable, "-m", "tests.clients.calls.nats_py"], tmp_path)


@pytest.mark.parametrize("package", ["nats", "@nats-io"])
def test_given_an_npm_client_when_it_makes_every_call_then_all_end_as_with_nats_server(
    package: str, node: str, tmp_path: Path
) -> None:
    assert_alike([node, str(FOLDER / "calls.mjs"), package], tmp_path)


def newer_python() -> str:
    """A Python that the second client runs with: 3.13 or later."""
    if sys.version_info >= (3, 13):
        return sys.executable
    for name in ("python3.13", "python3.14", "python3.15"):
        kept = glob.glob(os.path.expanduser(f"~/.pyenv/versions/{name[6:]}.*/bin/{name}"))
        for path in [*sorted(kept), shutil.which(name)]:
            if path and subprocess.run([path, "-V"], capture_output=True).returncode == 0:
                return path
    pytest.skip("nats-jetstream needs Python 3.13 or later, which is not installed")


@pytest.fixture(scope="session")
def second_python() -> str:
    """A Python with nats-py's second client, which does not live beside the first."""
    place = ROOT / "build" / "nats_jetstream_client"
    place.parent.mkdir(exist_ok=True)
    with open(place.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until it is closed: one installs, others wait
        python = str(place / "bin" / "python")
        ready = place / "ready"
        if not ready.exists():
            for command in (
                [newer_python(), "-m", "venv", "--clear", str(place)],
                [python, "-m", "pip", "install", "-q", *SECOND_CLIENT],
            ):
                done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S)
                if done.returncode != 0:
                    pytest.skip(f"nats-jetstream could not be installed: {done.stderr[-500:]}")
            ready.touch()
    return python


def test_given_nats_jetstream_when_it_makes_every_call_then_all_end_as_with_nats_server(
    second_python: str, tmp_path: Path
) -> None:
    """In strict mode: a field that it does not know is an error."""
    assert_alike([second_python, str(CALLS / "nats_jetstream.py")], tmp_path)
