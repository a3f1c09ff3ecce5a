"""Doctor's findings about what is installed."""

import platform
import re
import sys
import sysconfig
from pathlib import Path

import pytest

from broker.version import VERSION, is_compiled
from tests.seriatim.cli.doctor.doctor_runs import Examined, doctor
from tests.support.places import ROOT

MAIN = "from seriatim.cli import main; raise SystemExit(main())"


def without(folder: Path, names: tuple[str, ...], *arguments: str) -> Examined:
    """Examine in an environment that has all packages of ours but these."""
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not entry.name.startswith(names) and entry.suffix != ".pth":
            (folder / entry.name).symlink_to(entry)
    command = [sys.executable, "-P", "-S", "-c", MAIN]
    env = {"PYTHONPATH": f"{folder}:{ROOT}"}
    return doctor(*arguments, env=env, command=command, store=folder / "store")


def test_given_this_installation_then_versions_and_build_are_told() -> None:
    examined = doctor()
    seriatim = examined.only("seriatim")
    build = "compiled" if is_compiled() else "uncompiled"
    assert seriatim.text.startswith(f"{VERSION}, {build}, on CPython {platform.python_version()}")
    assert seriatim.level == ("ok" if is_compiled() else "warning")
    assert f"Linux {platform.release()}, OpenSSL " in examined.only("system").text
    needed, optional = examined.about("packages")
    assert re.fullmatch(r"needed: bcrypt \d\S+, cython .*, orjson \d.*", needed.text)
    assert "aiohttp " in optional.text


@pytest.mark.parametrize(
    ("arguments", "level", "remedy"),
    [
        ((), "", ""),
        (("--loop", "uvloop"), "hint", "pip install 'seriatim[uvloop]'"),
        (
            ("--cluster", "c", "--etcd", "http://127.0.0.1:2379", "--advertise", "127.0.0.1:4222"),
            "failed",
            "pip install 'seriatim[cluster]'",
        ),
    ],
    ids=["not needed", "uvloop", "a cluster"],
)
def test_given_packages_that_are_not_installed_then_it_matters_if_settings_need_them(
    tmp_path: Path, arguments: tuple[str, ...], level: str, remedy: str
) -> None:
    _, told, *needed = without(tmp_path, ("aiohttp", "uvloop"), *arguments).about("packages")
    assert "not installed: uvloop (--loop uvloop), aiohttp (a member of a cluster)" in told.text
    assert [one.level for one in needed] == ([level] if level else [])
    assert all(one.do.startswith(remedy) for one in needed)


def test_given_a_needed_package_that_is_not_installed_then_it_failed(tmp_path: Path) -> None:
    examined = without(tmp_path, ("bcrypt",))
    (found,) = [one for one in examined.about("packages") if one.level == "failed"]
    assert (found.text, found.do) == ("bcrypt is not installed", "pip install bcrypt")
    assert examined.status == 1


def test_given_assertions_are_off_then_the_broker_does_not_start() -> None:
    found = doctor(env={"PYTHONOPTIMIZE": "1"}).only("python")
    assert (found.level, found.text) == ("failed", "optimises (-O, PYTHONOPTIMIZE=1)")
