"""The npm client `nats` against the broker; the tests themselves are JavaScript, in npm/."""

import os
import subprocess
from pathlib import Path

from tests.clients.served import Served
from tests.support.processes import STAND_IN, server

FOLDER = Path(__file__).parent / "npm"
TESTS_S = 600  # what hangs is told by name, within a minute
END_S = 60


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
