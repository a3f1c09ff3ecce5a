"""The npm client `nats` against the broker; the tests themselves are JavaScript, in npm/.

Node is taken from the machine, or installed with apt-get where we may; the client's modules are
installed once, from the lock file. Without either the tests are skipped, and say why.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.clients.served import Served
from tests.support.processes import STAND_IN, server

FOLDER = Path(__file__).parent / "npm"
INSTALL_S = 300
TESTS_S = 600  # what hangs is told by name, within a minute
END_S = 60


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
    if not (FOLDER / "node_modules" / "nats" / "package.json").exists():
        done = _run(["npm", "ci", "--no-audit", "--no-fund"], INSTALL_S)
        if done.returncode != 0:
            pytest.skip(f"the npm package nats could not be installed: {done.stderr[-500:]}")
    found = shutil.which("node")
    assert found is not None
    return found


def environment(served: Served) -> dict[str, str]:
    return {
        **os.environ,
        "BROKER_URL": f"127.0.0.1:{served.port}",
        "BROKER_FRAME": served.frame,
        "BROKER_NUMBERED": "0" if STAND_IN else "1",
    }


def test_given_the_npm_client_then_all_it_does_works(node: str, served: Served) -> None:
    done = subprocess.run(
        [node, "--test", "--test-reporter=spec", "features.test.mjs"],
        cwd=FOLDER,
        env=environment(served),
        capture_output=True,
        text=True,
        timeout=TESTS_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "pass 0" not in done.stdout, done.stdout


def test_given_the_npm_client_when_the_broker_restarts_then_it_comes_back(
    node: str, served: Served
) -> None:
    with server(served.frame) as process:
        script = subprocess.Popen(
            [node, "restart.mjs"],
            cwd=FOLDER,
            env=environment(Served(process, served.frame)),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert script.stdout is not None
        try:
            said = script.stdout.readline()
            assert said == "connected\n", said + script.stdout.read()
            process.stop()
            said = script.stdout.readline()
            assert said == "disconnected\n", said
            process.start(process.port)
            rest = script.stdout.read()
            assert rest.endswith("reconnected\ndone\n"), rest
            assert script.wait(END_S) == 0
        finally:
            script.kill()
            script.wait()
            script.stdout.close()


def test_given_the_lock_file_then_it_names_no_registry() -> None:
    assert "resolved" not in (FOLDER / "package-lock.json").read_text()
