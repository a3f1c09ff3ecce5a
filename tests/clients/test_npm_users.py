"""The npm client with every way to authenticate; the tests themselves are JavaScript, in npm/."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.clients.test_nats_py_users import SEED, SEVERAL, TOKEN, started
from tests.clients.test_npm import FOLDER, TESTS_S
from tests.support.processes import ServerProcess


@pytest.fixture
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    def place(broker: ServerProcess) -> str:
        return f"127.0.0.1:{broker.port}"

    def folder() -> Path:
        return tmp_path_factory.mktemp("users")

    with ExitStack() as stack:
        several, token = (
            stack.enter_context(started(users, folder())) for users in (SEVERAL, TOKEN)
        )
        yield {"BROKER_URL": place(several), "TOKEN_URL": place(token), "USER_SEED": SEED}


def test_given_the_npm_client_then_it_authenticates_and_reports_what_is_refused(
    node: str, urls: dict[str, str]
) -> None:
    done = subprocess.run(
        [node, "--test", "--test-reporter=spec", "users.test.mjs"],
        cwd=FOLDER,
        env={**os.environ, **urls},
        capture_output=True,
        text=True,
        timeout=TESTS_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "pass 0" not in done.stdout, done.stdout
