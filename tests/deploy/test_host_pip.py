"""How a proof build learns where this machine's pip gets packages: what is taken, what is moved."""

import configparser
import subprocess
import sys
from importlib import util
from pathlib import Path
from typing import Any

from tests.support.places import ROOT

SCRIPT = ROOT / "deploy/docker/host_pip.py"


def loaded() -> Any:
    spec = util.spec_from_file_location("host_pip", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_given_a_listing_when_read_then_the_environment_wins_and_only_ways_to_packages_count() -> (
    None
):
    listed = [
        ":env:.timeout='60'",
        "global.timeout='15'",
        "global.target='/somewhere'",
        "install.index-url='https://packages.example/simple'",
        "freeze.timeout='10'",
    ]
    assert loaded().settings(listed, {}) == {
        "timeout": "60",
        "index-url": "https://packages.example/simple",
    }


def test_given_certificates_only_in_the_environment_when_read_then_they_are_taken_too() -> None:
    host_pip = loaded()
    assert host_pip.settings([], {"REQUESTS_CA_BUNDLE": "/a"}) == {"cert": "/a"}
    assert host_pip.settings(["global.cert='/b'"], {"REQUESTS_CA_BUNDLE": "/a"}) == {"cert": "/b"}


def test_given_paths_in_settings_when_moved_then_the_build_sees_them_at_a_place_of_their_own(
    tmp_path: Path,
) -> None:
    index = tmp_path / "mirror/simple"
    index.mkdir(parents=True)
    bundle = tmp_path / "bundle.crt"
    bundle.touch()
    inside, paths = loaded().moved(
        {
            "cert": str(bundle),
            "extra-index-url": f"https://packages.example/simple\nfile://{index}",
            "find-links": f"{index.parent} /nowhere/at/all",
        }
    )
    assert inside == {
        "cert": f"/mnt/machine{bundle}",
        "extra-index-url": f"https://packages.example/simple file:///mnt/machine{index}",
        "find-links": f"/mnt/machine{index.parent} /nowhere/at/all",
    }
    assert paths == [bundle, index.parent], "an index links to files beside it; nothing twice"


def test_given_this_machine_when_asked_then_a_file_for_pip_and_what_to_mount(
    tmp_path: Path,
) -> None:
    target = tmp_path / "pip.conf"
    result = subprocess.run(
        [sys.executable, str(SCRIPT), str(target)], capture_output=True, text=True, check=True
    )
    config = configparser.RawConfigParser()
    config.read(target)
    assert config.sections() == ["global"]
    for mount in result.stdout.splitlines():
        outside, _, inside = mount.partition(":")
        assert Path(outside).exists()
        assert inside == f"/mnt/machine{outside}"
