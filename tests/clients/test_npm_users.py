"""The npm client with every way to authenticate; the tests themselves are JavaScript, in npm/."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.clients.test_nats_py_users import SEED, SEVERAL, TOKEN, started
from tests.clients.test_npm import FOLDER, TESTS_S
from tests.support.authority import Authority
from tests.support.processes import STAND_IN

WAYS = ["plain", "tls", "mutual"]  # with TLS, and with certificates of both sides


@pytest.fixture(params=WAYS)
def urls(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    if request.param != "plain" and STAND_IN:
        pytest.skip("nats-server has no such flags")
    flags: list[str] = []
    told = {"USER_SEED": SEED}
    if request.param != "plain":
        authority = Authority(tmp_path_factory.mktemp("authority"))
        flags += authority.flags()
        told["TLS_CA"] = str(authority.certificate)
    if request.param == "mutual":
        own = authority.issue("client", "/CN=client")
        flags += authority.verifying()
        told |= {"TLS_CERT": str(own), "TLS_KEY": str(own.with_suffix(".key"))}
    with ExitStack() as stack:
        for name, users in (("BROKER_URL", SEVERAL), ("TOKEN_URL", TOKEN)):
            broker = stack.enter_context(started(users, tmp_path_factory.mktemp("users"), *flags))
            told[name] = f"127.0.0.1:{broker.port}"
        yield told


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
