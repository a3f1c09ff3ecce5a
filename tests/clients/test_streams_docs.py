"""docs/streams.md: its programs are run."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients.conftest import FOLDER
from tests.support.places import ROOT
from tests.support.processes import STAND_IN, SeriatimServer, url

pytestmark = pytest.mark.skipif(STAND_IN, reason="the page is about ours")
PAGE = (ROOT / "docs" / "streams.md").read_text()
RUN_S = 120.0


@pytest.mark.parametrize("language", ["python", "javascript"])
def test_given_the_page_when_its_program_runs_then_it_prints_what_it_says(
    language: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    (program,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    if language == "python":
        command = [sys.executable, str(tmp_path / "program.py")]
        expected = ["the same message: True True", "not published: wrong last sequence: 2"]
        expected += ["1 12 apples", "1 10 apples", "2 12 apples"]
    else:
        (tmp_path / "node_modules").symlink_to(FOLDER / "node_modules")
        command = [request.getfixturevalue("node"), str(tmp_path / "program.mjs")]
        expected = ["1 true 43"]
    Path(command[1]).write_text(program)
    with SeriatimServer(arguments=["--jetstream"], store=tmp_path / "store") as broker:
        done = subprocess.run(
            [*command, url(broker)], capture_output=True, text=True, timeout=RUN_S, check=False
        )
    assert done.stdout.splitlines() == expected, done.stdout + done.stderr
