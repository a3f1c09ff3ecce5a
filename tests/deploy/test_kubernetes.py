"""deploy/kubernetes/broker.yaml: valid, and a broker runs, is probed and stops as it says."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.support.places import ROOT
from tests.support.processes import BIN, STAND_IN, SeriatimServer
from tests.support.raw import QUIET, RawClient
from tests.support.web import get, http_port

FILE = ROOT / "deploy" / "kubernetes" / "broker.yaml"
OBJECTS: list[dict[str, Any]] = list(yaml.safe_load_all(FILE.read_text()))
DOCKERFILE = (ROOT / "Dockerfile").read_text()
VERSIONS = ("1.27", "1.37")  # one that is long out of support, and the newest
SECRET = "sesame"
WAIT_S = 60.0


def one(kind: str, name: str = "seriatim") -> dict[str, Any]:
    (found,) = (of for of in OBJECTS if (of["kind"], of["metadata"]["name"]) == (kind, name))
    return found


POD: dict[str, Any] = one("StatefulSet")["spec"]["template"]
(CONTAINER,) = POD["spec"]["containers"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("at", range(len(OBJECTS)))
def test_given_an_object_when_judged_by_the_schema_then_it_is_valid(at: int, version: str) -> None:
    kubernetes_validate.validate(OBJECTS[at], version, strict=True)


def test_given_the_selectors_then_each_finds_the_pod() -> None:
    labels = POD["metadata"]["labels"]
    services = [of["spec"]["selector"] for of in OBJECTS if of["kind"] == "Service"]
    others = [
        one(kind)["spec"]["selector"]["matchLabels"]
        for kind in ("StatefulSet", "PodDisruptionBudget")
    ]
    assert all(selector.items() <= labels.items() for selector in services + others)
    assert one("Service", one("StatefulSet")["spec"]["serviceName"])["spec"]["clusterIP"] == "None"


def test_given_the_image_then_user_and_volume_are_those_of_the_dockerfile() -> None:
    context = POD["spec"]["securityContext"]
    assert f"USER {context['runAsUser']}:{context['runAsGroup']}" in DOCKERFILE
    assert context["fsGroup"] == context["runAsGroup"]
    places = {mount["name"]: mount["mountPath"] for mount in CONTAINER["volumeMounts"]}
    assert f'VOLUME ["{places["journal"]}"]' in DOCKERFILE
    assert places["settings"] == str(Path(CONTAINER["args"][-1]).parent)
    names = {
        name["metadata"]["name"] for name in one("StatefulSet")["spec"]["volumeClaimTemplates"]
    }
    assert names | {volume["name"] for volume in POD["spec"]["volumes"]} == set(places)
    assert POD["spec"]["enableServiceLinks"] is False


def run_with(folder: Path) -> SeriatimServer:
    """A broker with the settings of the ConfigMap, on other ports; not started yet."""
    file = folder / Path(CONTAINER["args"][-1]).name
    file.write_text(one("ConfigMap")["data"][file.name])
    (secret,) = CONTAINER["env"]
    reference = secret["valueFrom"]["secretKeyRef"]
    assert (
        f"secret generic {reference['name']} --from-literal={reference['key']}=" in FILE.read_text()
    )
    assert CONTAINER["args"][:2] == ["serve", "-c"]
    broker = SeriatimServer("none", arguments=["-c", str(file), "-m", "-1", "--log_format", "text"])
    broker.env = {**broker.env, secret["name"]: SECRET}
    return broker


@pytest.mark.skipif(STAND_IN, reason="of our own settings")
def test_given_the_settings_when_a_broker_runs_with_them_then_probes_and_users_are_served(
    tmp_path: Path,
) -> None:
    ports = {port["name"]: port["containerPort"] for port in CONTAINER["ports"]}
    text = one("ConfigMap")["data"]["broker.toml"]
    assert f"\nport = {ports['client']}\n" in text
    assert f"\nhttp_port = {ports['monitor']}\n" in text
    assert POD["metadata"]["annotations"]["prometheus.io/port"] == str(ports["monitor"])
    with run_with(tmp_path) as broker:
        for name in ("startupProbe", "livenessProbe", "readinessProbe"):
            probe = CONTAINER[name]["httpGet"]
            assert probe["port"] == "monitor"
            assert get(http_port(broker), probe["path"]).json == {"status": "ok"}
        metrics = POD["metadata"]["annotations"]["prometheus.io/path"]
        assert get(http_port(broker), metrics).status == 200
        with RawClient(broker.port, QUIET) as client:
            assert b"Authorization Violation" in client.until_closed()


@pytest.mark.skipif(STAND_IN, reason="of our own settings")
def test_given_the_hook_before_a_stop_then_clients_are_told_and_the_broker_ends_in_time(
    tmp_path: Path,
) -> None:
    text = one("ConfigMap")["data"]["broker.toml"]
    (lasts,) = re.findall(r'lame_duck = "(\d+)s"', text)
    assert POD["spec"]["terminationGracePeriodSeconds"] >= int(lasts) + 20
    program, *words = CONTAINER["lifecycle"]["preStop"]["exec"]["command"]
    assert program == "seriatim", "the image has it in PATH"
    with run_with(tmp_path) as broker:
        connect = {"user": "app", "pass": SECRET, "protocol": 1, "verbose": False}
        with RawClient(broker.port, b"CONNECT %b\r\n" % json.dumps(connect).encode()) as client:
            client.ask(b"")
            hook = [word.replace("ldm=1", f"ldm={broker.pid}") for word in words]
            subprocess.run([BIN / program, *hook], check=True, timeout=WAIT_S)
            while b'"ldm":true' not in client.operation().text:
                pass
        assert broker.wait() == 0
