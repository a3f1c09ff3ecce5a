"""The installed command `seriatim`, run as a user runs it."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from seriatim.cli.errors import FAILED
from seriatim.settings.usage import USAGE
from tests.support.commands import COMMAND_S, Forked, run_command

COMMAND = str(Path(sys.executable).parent / "seriatim")


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This environment without settings of ours, and with a wide terminal without colours."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("SERIATIM_")}
    clean.pop("NATS_CONTEXT", None)
    ours = {"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb", "XDG_CONFIG_HOME": "/nowhere"}
    return {**clean, **ours, **(extra or {})}


def seriatim(
    *arguments: str,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> "subprocess.CompletedProcess[bytes]":
    """Run the command to its end. A journal that it makes is its own, and goes with it."""
    with tempfile.TemporaryDirectory(prefix="seriatim-state-") as state:
        full = environment({"XDG_STATE_HOME": state, **(env or {})})
        return run_command([COMMAND, *arguments], full, stdin, cwd)


def refusal(*arguments: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> str:
    """What the command says when it refuses: status 1 or 64, nothing printed, no traceback."""
    done = seriatim(*arguments, stdin=stdin, env=env)
    said = done.stderr.decode()
    assert done.returncode in (FAILED, USAGE), said
    assert done.stdout == b""
    assert "Traceback" not in said
    assert said.startswith("seriatim: ")
    return said.removeprefix("seriatim: ").rstrip("\n")


class Listener:
    """A command that shows what comes; it listens when the constructor returns."""

    greets = "seriatim: listening to "

    def __init__(self, *arguments: str, stdout: int = subprocess.PIPE) -> None:
        colourful = environment({"TERM": "xterm-256color"})
        del colourful["NO_COLOR"]
        self.process = Forked(
            [COMMAND, *arguments], stdin=subprocess.DEVNULL, stdout=stdout, env=colourful
        )
        assert self.process.stderr is not None
        self.greeting = self.process.stderr.readline().decode()
        if not self.greeting.startswith(self.greets):
            self.__exit__(None, None, None)
            raise AssertionError(self.greeting)

    def end(self) -> tuple[int, bytes, str]:
        """Wait for its end: status, standard output, and what else it said."""
        out, said = self.process.communicate(timeout=COMMAND_S)
        return self.process.wait(), out, said.decode()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


class Subscriber(Listener):
    """`seriatim sub`."""

    def __init__(self, *arguments: str, stdout: int = subprocess.PIPE) -> None:
        super().__init__("sub", *arguments, stdout=stdout)
