"""What passes the loopback interface, captured by dumpcap and dissected by tshark (Debian's)."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.places import ROOT

WAIT_S = 60


def require_tshark() -> None:
    """Install tshark where it misses; skip what cannot be had, or cannot capture."""
    if shutil.which("tshark") is None:
        subprocess.run([ROOT / ".ci" / "need", "tshark"], check=False, capture_output=True)
    if shutil.which("tshark") is None:
        pytest.skip("tshark is not installed, and cannot be fetched")
    if os.geteuid() != 0:
        pytest.skip("capturing needs root")


@contextmanager
def captured(file: Path, packets: int, where: str) -> Iterator[None]:
    """Capture so many packets that `where` (a capture filter) takes in, sent in the block."""
    command = ["dumpcap", "-q", "-i", "lo", "-f", where, "-w", str(file)]
    limits = ["-c", str(packets), "-a", f"duration:{WAIT_S}"]
    process = subprocess.Popen([*command, *limits], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    with process, process.stderr as said:
        try:
            for line in said:
                if line.startswith("File:"):  # it listens
                    break
            else:
                pytest.fail("dumpcap has not begun")
            yield
            rest = said.read()
        except BaseException:
            process.kill()
            raise
    assert f"Packets captured: {packets}" in rest, f"not all has passed: {rest}"


def dissect(file: Path, *options: str, show: str = "") -> list[dict[str, list[str]]]:
    """The fields that tshark finds in each packet that `show` (a display filter) lets through."""
    command = ["tshark", "-r", str(file), "-T", "json", "--no-duplicate-keys", *options]
    if show:
        command += ["-Y", show]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.returncode == 0, done.stderr
    return [fields_of(one["_source"]["layers"]) for one in json.loads(done.stdout)]


def fields_of(layers: Any) -> dict[str, list[str]]:
    """Every field of a packet by its name, with its values in their order."""
    found: dict[str, list[str]] = {}

    def add(name: str, value: Any) -> None:
        if isinstance(value, dict):
            found.setdefault(name, [])
            for inner, what in value.items():
                add(inner, what)
        elif isinstance(value, list):
            for one in value:
                add(name, one)
        else:
            found.setdefault(name, []).append(str(value))

    add("", layers)
    return found
