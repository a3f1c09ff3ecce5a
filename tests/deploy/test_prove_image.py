"""The proof's own judgement: it passes a broker that is right and fails one that is not.

The proof itself, with root's rights and an image, is deploy/docker/prove.sh.
"""

import signal
from importlib import util
from typing import Any

import pytest

from tests.support.places import ROOT
from tests.support.processes import SeriatimServer
from tests.support.web import http_port

SCRIPT = ROOT / "deploy/docker/prove_image.py"

INSPECTED: dict[str, Any] = {
    "Docker": {
        "config": {
            "User": "65532:65532",
            "WorkingDir": "/var/lib/seriatim",
            "Volumes": {"/var/lib/seriatim": {}},
            "Env": ["PATH=/usr/bin"],
            "Entrypoint": ["/opt/seriatim/bin/seriatim"],
            "Cmd": ["serve", "-m", "8222", "--http_host", "127.0.0.1"],
            "ExposedPorts": {"4222/tcp": {}},
            "Healthcheck": {"Test": ["CMD", "/usr/bin/python3", "check.py"]},
            "StopSignal": "SIGTERM",
        }
    }
}


@pytest.fixture
def proof() -> Any:
    spec = util.spec_from_file_location("prove_image", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_given_a_fresh_broker_when_talked_to_then_every_check_holds(
    proof: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    with SeriatimServer("netstring") as broker:
        with proof.conversation(broker.port) as wire:
            assert broker.stop() == 0
            assert wire.read().replace(proof.PING, b"") == b"", (
                "an orderly end, and nothing before it"
            )
        assert "ok: the subscriber receives MSG proof.b 1 10 7:1:2,0:,," in capsys.readouterr().out


def test_given_what_was_published_when_asked_for_again_then_it_is_replayed(proof: Any) -> None:
    with SeriatimServer("netstring") as broker:
        with proof.conversation(broker.port):
            pass
        with proof.replayed(broker.port) as wire:
            lines = [proof.line(wire) for _ in range(4)]
    assert lines == [b"MSG proof.a 1 16", b"12:1:1,5:hello,,", b"MSG proof.b 1 10", b"7:1:2,0:,,"]


def test_given_a_broker_that_frames_otherwise_when_talked_to_then_a_fault(proof: Any) -> None:
    with (
        SeriatimServer("none") as broker,
        pytest.raises(proof.Fault, match=r"MSG proof\.a 1 5 hello"),
        proof.conversation(broker.port),
    ):
        pass


@pytest.mark.parametrize(("host", "closed"), [("127.0.0.1", True), ("0.0.0.0", False)])
def test_given_monitoring_when_looked_for_from_elsewhere_then_only_loopback_is_right(
    proof: Any, host: str, closed: bool
) -> None:
    with SeriatimServer("netstring", arguments=["-m", "-1", "--http_host", host]) as broker:
        port = http_port(broker)
        assert proof.is_closed("127.0.0.2", port) is closed
        assert not proof.is_closed("127.0.0.1", port)


def test_given_what_buildah_says_of_an_image_when_read_then_it_would_run_like_that(
    proof: Any,
) -> None:
    image = proof.Image.inspected("/mounted", "/kept", INSPECTED)
    assert image.command[:4] == ("/opt/seriatim/bin/seriatim", "serve", "-m", "8222")
    assert image.health == ("/usr/bin/python3", "check.py")
    assert image.ports == {4222}
    assert image.stop_signal == signal.SIGTERM
    line = image.entering(("id", "-u"))
    assert line[-8:] == [
        "/mounted",
        "65532:65532",
        "/var/lib/seriatim",
        "/var/lib/seriatim",
        "/kept",
        "PATH=/usr/bin",
        "id",
        "-u",
    ]
