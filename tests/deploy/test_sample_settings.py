"""deploy/broker.toml: a broker runs with it, with users and monitoring, once it has a user."""

import tomllib
from pathlib import Path

import pytest

from tests.seriatim.cli.command import seriatim
from tests.support.places import ROOT
from tests.support.processes import STAND_IN, SeriatimServer
from tests.support.web import get, http_port

SAMPLE = ROOT / "deploy" / "broker.toml"


@pytest.mark.skipif(STAND_IN, reason="of our own settings")
def test_given_the_sample_when_it_has_a_user_then_a_broker_serves_with_it(tmp_path: Path) -> None:
    users, file = tmp_path / "users.toml", tmp_path / "broker.toml"
    text = SAMPLE.read_text()
    file.write_text(text.replace(tomllib.loads(text)["authorization"]["users_file"], str(users)))
    assert "users.toml: cannot be read" in seriatim("check", str(file)).stdout.decode()
    words = ("user", "add", "alice", "-f", str(users), "--generate")
    password = seriatim(*words).stdout.decode().split()[-1]
    # More time than the sample's for a login: on a busy machine a hash may take seconds.
    given = ["-c", str(file), "-m", "-1", "--auth_timeout", "60s"]
    with SeriatimServer("netstring", arguments=given) as broker:
        at = f"127.0.0.1:{broker.port}"
        refused = seriatim("pub", "a", "x", "-s", at)
        assert refused.returncode == 1
        assert b"requires authentication" in refused.stderr
        who = ("--user", "alice", "--password", password)
        done = seriatim("pub", "a", "x", "--ack", "-s", at, *who)
        assert (done.stdout, done.stderr) == (b"1\n", b"")
        assert get(http_port(broker), "/healthz").status == 200
