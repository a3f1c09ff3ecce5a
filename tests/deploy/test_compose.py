"""deploy/compose.yaml: valid, and what it names is there: files, ports, services, settings."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from compose_spec import PyCompose

from tests.support.broker_start import settings_of
from tests.support.places import ROOT
from tests.support.prometheus import run, tools_of_debian

FILE = ROOT / "deploy" / "compose.yaml"
GRAFANA = ROOT / "deploy" / "grafana"
DEFAULT = re.compile(r"\$\{\w+:-(.*?)\}")
TEXT = DEFAULT.sub(r"\1", FILE.read_text())  # as without variables
SERVICES: dict[str, Any] = yaml.safe_load(TEXT)["services"]


def mounts(service: str) -> dict[str, Path]:
    """The files and folders that a service gets, by their places in the container."""
    found = {}
    for mount in SERVICES[service]["volumes"]:
        source, place, *_ = mount.split(":")
        if source.startswith("."):
            found[place] = FILE.parent / source
    return found


def in_container(service: str, place: str) -> Path:
    """The file of the repository that is at this place of a container."""
    for at, source in mounts(service).items():
        if place == at or place.startswith(f"{at}/"):
            return source / place.removeprefix(at).strip("/")
    raise AssertionError(f"{service} has no {place}")


def published(service: str) -> set[str]:
    """The ports of the container that are published, to loopback alone."""
    ports = [port.split(":") for port in SERVICES[service]["ports"]]
    assert {host for host, _, _ in ports} == {"127.0.0.1"}
    return {inner for _, _, inner in ports}


def test_given_the_file_when_judged_by_the_specification_then_it_is_valid() -> None:
    compose = PyCompose.from_yaml(TEXT)
    compose.validate()
    compose.validate_volumes()
    assert set(compose.service_names()) == {"broker", "prometheus", "grafana"}


@pytest.mark.parametrize("service", ["prometheus", "grafana"])
def test_given_the_mounts_then_each_is_in_the_repository(service: str) -> None:
    assert mounts(service)
    for source in mounts(service).values():
        assert source.exists()


def test_given_the_command_of_the_broker_then_its_settings_are_those_that_the_others_use() -> None:
    words = shlex.split(SERVICES["broker"]["command"])
    assert words.pop(0) == "serve"
    effective = settings_of(words, {})
    assert effective is not None
    settings = effective.settings
    assert published("broker") == {str(settings.port)}, "monitoring has no user: nobody gets it"
    assert (settings.host, settings.http_host) == ("0.0.0.0", "0.0.0.0")
    target = re.search(
        r"targets: \[\"(.*)\"\]",
        in_container("prometheus", "/etc/prometheus/compose.yml").read_text(),
    )
    assert target is not None
    assert target[1] == f"broker:{settings.http_port}"
    (volume,) = SERVICES["broker"]["volumes"]
    assert f'VOLUME ["{volume.partition(":")[2]}"]' in (ROOT / "Dockerfile").read_text()


def test_given_prometheus_then_its_files_are_there_and_differ_in_the_broker_alone() -> None:
    flags = dict(word.removeprefix("--").split("=") for word in SERVICES["prometheus"]["command"])
    config = in_container("prometheus", flags["config.file"])
    consoles = in_container("prometheus", flags["web.console.templates"])
    assert [file.name for file in consoles.iterdir()] == ["seriatim.html"]
    plain = (ROOT / "deploy" / "prometheus" / "prometheus.yml").read_text().splitlines()[1:]
    changed = [line.replace("127.0.0.1:8222", "broker:8222") for line in plain]
    assert config.read_text().splitlines()[1:] == changed
    assert "SUCCESS" in run(tools_of_debian()["promtool"], "check", "config", str(config))


def test_given_grafana_then_its_data_source_and_its_dashboard_are_found() -> None:
    provisioning = "/etc/grafana/provisioning"
    (source,) = yaml.safe_load(
        in_container("grafana", f"{provisioning}/datasources/prometheus.yml").read_text()
    )["datasources"]
    (port,) = published("prometheus")
    assert source["url"] == f"http://prometheus:{port}"
    dashboard = json.loads((GRAFANA / "seriatim.json").read_text())
    (chosen, *_) = dashboard["templating"]["list"]
    assert chosen["query"] == source["type"], "the dashboard asks for a data source of this kind"
    (provider,) = yaml.safe_load(
        in_container("grafana", f"{provisioning}/dashboards/seriatim.yml").read_text()
    )["providers"]
    home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert home.startswith(f"{provider['options']['path']}/")
    assert in_container("grafana", home) == GRAFANA / "seriatim.json"
