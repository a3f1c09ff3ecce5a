"""deploy/spark/demo.sh: that it fails loudly and cleans up. What it shows, `make spark-demo` shows.

A whole run starts Spark five times, which is too long for a suite; see it before a release.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.support.places import ROOT

DEMO = ROOT / "deploy" / "spark" / "demo.sh"
BIN = Path(sys.executable).parent
RUN_S = 300.0  # a bound for what hangs


def run(path: str, place: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [str(DEMO)],
        env={**os.environ, "PATH": path, "TMPDIR": str(place)},
        capture_output=True,
        text=True,
        timeout=RUN_S,
    )


def test_given_no_seriatim_on_the_path_when_the_demo_is_run_then_it_says_so(tmp_path: Path) -> None:
    done = run("/usr/bin:/bin", tmp_path)
    assert done.returncode == 1
    assert "no seriatim on the PATH" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_given_a_job_that_fails_when_the_demo_is_run_then_it_ends_so_and_leaves_nothing(
    tmp_path: Path,
) -> None:
    bin_, place = tmp_path / "bin", tmp_path / "place"
    bin_.mkdir()
    place.mkdir()
    wrapper = bin_ / "seriatim"
    began = tmp_path / "began"
    note = f'[ "$1" = serve ] && echo $$ >{began}'
    wrapper.write_text(f'#!/bin/sh\n[ "$1" = spark ] && exit 3\n{note}\nexec {BIN}/seriatim "$@"\n')
    wrapper.chmod(0o755)
    done = run(f"{bin_}:{BIN}:/usr/bin:/bin", place)
    assert done.returncode == 3, done.stderr
    assert "demo.sh: failed with status 3" in done.stderr
    assert "published 20000 messages of 27 bytes to orders.eu" in done.stdout
    assert re.search(r"on nats://127\.0\.0\.1:\d+", done.stdout)
    assert not Path("/proc", began.read_text().strip()).exists(), "the broker is still there"
    assert list(place.iterdir()) == []
