"""One broker for each frame mode, shared by the tests of real clients; node, for the npm client.

Node is taken from the machine, or installed with apt-get where permitted; the client's modules are
installed once, from the lock file. Without either the tests are skipped, with the reason.
"""

import fcntl
import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.clients.served import Served
from tests.support.processes import FRAMES, server

FOLDER = Path(__file__).parent / "npm"
INSTALL_S = 300
NPM_PACKAGES = (
    *("nats", "nats.ws", "@nats-io/jetstream", "@nats-io/nats-core", "@nats-io/transport-node"),
    *("typescript", "@types/node"),
)
DENO, BUN = "@deno/linux-x64-glibc", "@oven/bun-linux-x64-baseline"  # npm leaves them out elsewhere
IS_FOR_BOTH = platform.machine() == "x86_64" and platform.libc_ver()[0] == "glibc"


@pytest.fixture(scope="session")
def started() -> Iterator[dict[str, Served]]:
    with ExitStack() as stack:
        yield {frame: Served(stack.enter_context(server(frame)), frame) for frame in FRAMES}


@pytest.fixture(params=FRAMES)
def served(request: pytest.FixtureRequest, started: dict[str, Served]) -> Served:
    """The running broker in each frame mode in turn. Tests keep to subjects of their own."""
    return started[request.param]


def _run(command: list[str], seconds: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=FOLDER, capture_output=True, text=True, timeout=seconds, check=False
    )


def _install_node() -> None:
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        pytest.skip("node and npm are not installed, and we may not install them with apt-get")
    command = ["apt-get", "install", "-y", "--no-install-recommends", "nodejs", "npm"]
    done = _run(["apt-get", "update"], INSTALL_S)
    if done.returncode == 0:
        done = _run(command, INSTALL_S)
    if done.returncode != 0:
        pytest.skip(f"node and npm could not be installed with apt-get: {done.stderr[-500:]}")


@pytest.fixture(scope="session")
def node() -> str:
    """Where node is, after its modules have been made ready."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        _install_node()
    with open(FOLDER / "package.json") as package:
        fcntl.flock(package, fcntl.LOCK_EX)  # until it is closed: one installs, others wait
        modules = FOLDER / "node_modules"
        names = (*NPM_PACKAGES, *((DENO, BUN) if IS_FOR_BOTH else ()))
        if not all((modules / name / "package.json").exists() for name in names):
            done = _run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], INSTALL_S)
            if done.returncode != 0:
                pytest.skip(f"the npm packages could not be installed: {done.stderr[-500:]}")
    found = shutil.which("node")
    assert found is not None
    return found
