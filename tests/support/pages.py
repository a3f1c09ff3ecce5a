"""What pages of docs/ tell their readers to type: their commands and programs, run as they are.

A block of ```sh is a script; the block of ```text behind it is what it prints, with `...` for what
differs each time. A block of ```python that imports something is a whole program.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.seriatim.cli.command import environment
from tests.support.places import ROOT
from tests.support.processes import SeriatimServer
from tests.support.raw import QUIET, RawClient

PLACE = "nats://localhost:4222"
END_S = 120.0  # a bound for what hangs
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PATHS = os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(ROOT)])


def blocks(page: str) -> list[tuple[str, str]]:
    """The language and the text of each block of code, in their order."""
    return BLOCK.findall((ROOT / page).read_text())


def steps(page: str, language: str = "sh") -> Iterator[tuple[str, str]]:
    """Each script or program, and what the page says that it prints."""
    found = blocks(page)
    for (kind, script), (next_kind, printed) in zip(found, [*found[1:], ("", "")], strict=True):
        if kind == language:
            yield script, printed if next_kind == "text" else ""


def programs(page: str) -> list[str]:
    """The whole programs of a page that use our client."""
    whole = [text for kind, text in blocks(page) if kind == "python"]
    return [
        text
        for text in whole
        if text.startswith(("import", "from")) and "seriatim.connect(" in text
    ]


def is_what(page: str, printed: str) -> bool:
    """Whether this was printed, according to a page."""
    return re.fullmatch(re.escape(page).replace(r"\.\.\.", ".+"), printed) is not None


def in_shell(port: int, more: dict[str, str] | None = None) -> dict[str, str]:
    """The environment of a reader's shell, with our command, and the broker at this port."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    url = f"nats://127.0.0.1:{port}"
    return environment({"PATH": path, "PYTHONPATH": PATHS, "SERIATIM_URL": url, **(more or {})})


def shell(script: str, port: int, folder: Path) -> str:
    """What a shell prints that runs the script; each command must succeed."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        cwd=folder,
        env=in_shell(port),
        text=True,
        timeout=END_S,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def put(port: int, count: int) -> None:
    with RawClient(port, QUIET) as client:
        assert (
            client.ask(b"".join(b"PUB orders.eu 3\r\n%03d\r\n" % at for at in range(count))) == []
        )


def start(
    program: str, port: int, folder: Path, arguments: Sequence[str] = ()
) -> "subprocess.Popen[str]":
    """A page's program for our client, which speaks to the broker at this port."""
    path = folder / "program.py"
    path.write_text(program.replace(PLACE, f"nats://127.0.0.1:{port}"))
    return subprocess.Popen(
        [sys.executable, "-u", "-W", "error", str(path), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": PATHS},
    )


def whole(program: str, port: int, folder: Path) -> str:
    """What a program prints that ends by itself."""
    with start(program, port, folder) as process:
        out, said = process.communicate(timeout=END_S)
    assert (process.returncode, said) == (0, ""), said
    return out


def played(page: str, folder: Path) -> None:
    """Do all that a page tells to do, in its order: what it prints must be what the page says.

    `seriatim serve ...` is a broker from there on; a page that has none means the default.
    """
    found = blocks(page)
    (folder / "examples").symlink_to(ROOT / "examples")  # a reader's shell is in a checkout
    with ExitStack() as stack:
        broker: SeriatimServer | None = None
        for (kind, text), (after, printed) in zip(found, [*found[1:], ("", "")], strict=True):
            is_server = kind == "sh" and text.startswith("seriatim serve")
            is_program = kind == "python" and PLACE in text
            if is_server or (broker is None and (kind == "sh" or is_program)):
                given = shlex.split(text, comments=True)[2:] if is_server else []
                broker = stack.enter_context(SeriatimServer("netstring", arguments=given))
            if broker is None or is_server or not (kind == "sh" or is_program):
                continue
            text = text.replace(PLACE, f"nats://127.0.0.1:{broker.port}")
            said = (shell if kind == "sh" else whole)(text, broker.port, folder)
            assert after != "text" or is_what(printed, said), f"{text}\nprints\n{said}"
