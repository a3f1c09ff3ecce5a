"""The program in docs/multicast.md: run unchanged, except for its group and its broker."""

import re
import subprocess
import sys
from pathlib import Path

from tests.support.multicast import new_group
from tests.support.places import ROOT
from tests.support.processes import SeriatimServer
from tests.support.raw import QUIET, RawClient

RUN_S = 90.0


def test_given_the_program_of_the_docs_then_it_prints_what_was_published(tmp_path: Path) -> None:
    section = (ROOT / "docs/multicast.md").read_text().split("## Receiving\n")[1].split("\n## ")[0]
    (program,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    group, port = new_group()
    flag = f"{group}:{port},interface=127.0.0.1,codec=binary"
    with SeriatimServer("netstring", arguments=["--feed", flag]) as server:
        with RawClient(server.port, QUIET) as client:
            assert client.ask(b"PUB a.b 3\r\none\r\nPUB a.c 3\r\ntwo\r\n") == []
        for written, here in (
            ('"239.0.0.1", 1234', f'"{group}", {port}'),
            ("127.0.0.1:4222", f"127.0.0.1:{server.port}"),
            ("import asyncio\n", "import asyncio\nimport functools\n"),
            ("print(", "say("),
        ):
            assert written in program
            program = program.replace(written, here)
        say = "say = functools.partial(print, flush=True)"
        program = program.replace("\n\nasync def", f"\n{say}\n\nasync def", 1)
        (tmp_path / "listen.py").write_text(program)
        with subprocess.Popen(
            [sys.executable, str(tmp_path / "listen.py")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        ) as listening:
            assert listening.stdout is not None
            assert listening.stdout.readline() == "1 a.b one\n"
            assert listening.stdout.readline() == "2 a.c two\n"
            server.stop()
            out, said = listening.communicate(timeout=RUN_S)
    assert out == "the broker has stopped before number 3\n2 messages, 2 fetched\n"
    assert said == ""
    assert listening.returncode == 0
