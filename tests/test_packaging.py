"""A wheel made without a C compiler: its contents, and that it runs."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.settings.settings import Settings, settings_to_json
from broker.version import VERSION, hot_modules
from tests.conftest import ROOMS
from tests.support.places import ROOT
from tests.support.raw import QUIET, RawClient

BUILD_S, STOP_S = 600.0, 60.0  # bounds for what hangs
LEFT_OUT = shutil.ignore_patterns("*.so", "__pycache__", "*.pyc")
TRANSLATED = ROOT / "build" / "cython"
NEEDED = ("pyproject.toml", "setup.py", "README.md", "LICENSE")


@pytest.fixture(scope="module")
def wheel() -> Iterator[Path]:
    """What `pip wheel` makes of a copy of the sources, without a compiler and without network."""
    with tempfile.TemporaryDirectory(prefix="seriatim-wheel-") as folder:
        sources, out = Path(folder, "sources"), Path(folder, "out")
        sources.mkdir()
        for room in ROOMS:
            shutil.copytree(ROOT / room, sources / room, ignore=LEFT_OUT)
        for file in NEEDED:
            shutil.copy2(ROOT / file, sources / file)
        if TRANSLATED.exists():  # Cython does not do again what has not changed
            shutil.copytree(TRANSLATED, sources / TRANSLATED.relative_to(ROOT))
        without = {"SERIATIM_REQUIRE_COMPILED", "SERIATIM_PURE", "PYTHONPATH"}
        environment = {key: value for key, value in os.environ.items() if key not in without}
        command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
        done = subprocess.run(
            [*command, "--no-build-isolation", "--wheel-dir", str(out), str(sources)],
            env={**environment, "CC": "/nonexistent", "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=BUILD_S,
            check=False,
        )
        assert done.returncode == 0, "\n".join((done.stdout + done.stderr).splitlines()[-12:])
        (made,) = out.iterdir()
        yield made


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    """The files in the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_given_no_compiler_when_a_wheel_is_made_then_it_holds_our_names_and_no_other(
    names: set[str],
) -> None:
    top = {one.split("/")[0] for one in names}
    data = f"seriatim-{VERSION}.data"
    assert top == {*ROOMS, f"seriatim-{VERSION}.dist-info", data}
    assert [one for one in names if one.startswith(data)] == [
        f"{data}/data/share/man/man1/seriatim.1"
    ]


def test_given_no_compiler_when_a_wheel_is_made_then_nothing_in_it_is_compiled(
    names: set[str],
) -> None:
    assert not [one for one in names if one.endswith((".so", ".c", ".pyc"))]


def test_given_the_wheel_then_its_contents_are_what_pip_expects(wheel: Path) -> None:
    command = [Path(sys.executable).with_name("check-wheel-contents"), wheel]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_given_the_wheel_then_every_module_and_its_types_are_in_it(names: set[str]) -> None:
    ours = {str(p.relative_to(ROOT)) for room in ROOMS for p in (ROOT / room).rglob("*.py")}
    ours |= {f"{module.replace('.', '/')}.pxd" for module in hot_modules()}
    assert ours <= names
    assert not [one for one in names if one.startswith("tests")]


def test_given_the_wheel_then_its_metadata_names_command_licence_and_extras(
    wheel: Path, names: set[str]
) -> None:
    folder = f"seriatim-{VERSION}.dist-info"
    assert f"{folder}/licenses/LICENSE" in names
    with zipfile.ZipFile(wheel) as archive:
        commands = archive.read(f"{folder}/entry_points.txt").decode()
        metadata = archive.read(f"{folder}/METADATA").decode()
    assert "seriatim = seriatim.cli:main" in commands
    assert "License-Expression: Apache-2.0" in metadata
    assert "Requires-Python: >=3.11" in metadata
    assert set(re.findall(r"Provides-Extra: (\w+)", metadata)) >= {"uvloop", "test", "bench"}


def test_given_the_wheel_when_it_is_installed_then_a_users_mypy_sees_types(
    wheel: Path, tmp_path: Path
) -> None:
    venv.create(tmp_path / "venv", symlinks=True)
    (installed,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    program = tmp_path / "program.py"
    program.write_text("from seriatim import decode_frame\nreveal_type(decode_frame(b''))\n")
    python = tmp_path / "venv" / "bin" / "python"
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--python-executable", python, program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=BUILD_S,
        check=False,
    )
    assert 'Revealed type is "tuple[int, bytes]"' in done.stdout, done.stdout
    assert done.returncode == 0, done.stdout


def test_given_the_wheel_when_it_is_unpacked_then_its_broker_serves_and_says_it_is_uncompiled(
    wheel: Path, tmp_path: Path
) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    settings = Settings(host="127.0.0.1", port=-1, frame="none", loop="asyncio")
    reading, writing = os.pipe()
    os.write(writing, settings_to_json(settings).encode())
    os.close(writing)
    process = subprocess.Popen(
        [sys.executable, "-m", "broker", "--settings-fd", str(reading)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stderr=subprocess.PIPE,
        pass_fds=[reading],
        text=True,
    )
    os.close(reading)
    try:
        assert process.stderr is not None
        said: list[str] = []
        for line in process.stderr:
            said.append(line)
            if "Server is ready" in line:
                break
        log = "".join(said)
        assert f"Starting seriatim {VERSION} (uncompiled, asyncio)" in log
        assert "[WRN] Running uncompiled" in log
        port = re.search(r"connections on 127\.0\.0\.1:(\d+)", log)
        assert port is not None, log
        with RawClient(int(port[1]), QUIET) as client:
            (heard,) = client.ask(b"SUB a 1\r\nPUB a 5\r\nhello\r\n")
        assert heard.payload == b"hello"
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_S) == 0
    finally:
        process.kill()
        process.communicate()
