"""`seriatim completion`, in the shells themselves."""

import contextlib
import os
import pty
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.seriatim.cli.command import COMMAND, environment, refusal
from tests.support.commands import COMMAND_S
from tests.support.debian import program
from tests.support.jetstream import Dialogue, Step
from tests.support.processes import STAND_IN, SeriatimServer
from tests.support.readable import is_readable

pytestmark = pytest.mark.skipif(STAND_IN, reason="of our own process")

PROMPT = b"ready> "


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder of settings with two contexts, and one whose name a shell would run."""
    folder = tmp_path / "nats" / "context"
    folder.mkdir(parents=True)
    for name in ("prod", "proto", "pro$(touch hacked)"):
        (folder / f"{name}.json").write_text("{}")
    return tmp_path


def shell_environment(home: Path) -> dict[str, str]:
    path = f"{Path(COMMAND).parent}:{os.environ['PATH']}"
    return environment({"XDG_CONFIG_HOME": str(home), "PATH": path, "HOME": str(home)})


def in_bash(home: Path, line: str) -> list[str]:
    """What bash would show for a line, at its end."""
    script = (
        "source <(seriatim completion bash); COMP_WORDS=($LINE); [[ $LINE == *' ' ]] &&"
        ' COMP_WORDS+=(""); COMP_CWORD=$((${#COMP_WORDS[@]} - 1));'
        ' _seriatim_completion seriatim; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    return run(["bash", "--norc", "-c", script], home, {"LINE": line})


def in_fish(home: Path, line: str) -> list[str]:
    script = 'seriatim completion fish | source; complete -C "$LINE"'
    found = run([program("fish"), "--no-config", "-c", script], home, {"LINE": line})
    return [one.partition("\t")[0] for one in found]


def run(command: list[str], home: Path, more: dict[str, str]) -> list[str]:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env={**shell_environment(home), **more},
        cwd=home,
        timeout=COMMAND_S,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.parametrize("complete", [in_bash, in_fish])
@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("seriatim jour", {"journal"}),
        ("seriatim journal veri", {"verify"}),
        ("seriatim help str", {"stream"}),
        ("seriatim help stream ", {"ls", "info", "consumers", "rm"}),
        ("seriatim sub a --until", {"--until-now"}),
        ("seriatim sub a --context pro", {"prod", "proto"}),
        ("seriatim context show pro", {"prod", "proto"}),
        ("seriatim serve --frame ", {"none", "netstring", "header", "stamp"}),
        ("seriatim serve -sd /x --retain_b", {"--retain_bytes"}),
        ("seriatim config --journal_win", {"--journal_window_bytes"}),
        ("seriatim config --format t", {"table", "toml"}),
        ("seriatim completion ", {"bash", "zsh", "fish"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_given_a_line_when_completed_then_the_shell_has_the_words(
    home: Path, complete: Callable[[Path, str], list[str]], line: str, found: set[str]
) -> None:
    assert set(complete(home, line)) == found
    assert not (home / "hacked").exists()


class ZshSession:
    """A zsh on a terminal, with our completion; lines and keys are typed into it."""

    def __init__(self, home: Path) -> None:
        (home / ".zshrc").write_text(
            f"PS1={PROMPT.decode()!r}; unsetopt zle_bracketed_paste; autoload -U compinit;"
            " compinit -u; source <(seriatim completion zsh)\n"
        )
        env = {**shell_environment(home), "ZDOTDIR": str(home)}
        self._terminal, its = pty.openpty()
        self._process = subprocess.Popen(
            [program("zsh"), "--no-globalrcs", "-i"],
            stdin=its,
            stdout=its,
            stderr=its,
            env=env,
            cwd=home,
            start_new_session=True,
        )
        os.close(its)
        self._read_until(PROMPT)

    def type(self, keys: bytes, until: bytes) -> bytes:
        """Type keys; what the terminal shows up to `until`."""
        os.write(self._terminal, keys)
        return self._read_until(until)

    def _read_until(self, wanted: bytes) -> bytes:
        shown, end = b"", time.monotonic() + COMMAND_S
        while wanted not in shown:
            left = end - time.monotonic()
            assert left > 0, shown
            if is_readable(self._terminal, left):
                shown += os.read(self._terminal, 1 << 16)
                shown = re.sub(rb"\x1b\[\??[0-9;]*[A-Za-z]", b"", shown)
        return shown

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._terminal)


@pytest.fixture
def zsh(home: Path) -> Iterator[ZshSession]:
    with contextlib.closing(ZshSession(home)) as session:
        yield session


def test_given_zsh_when_a_key_is_pressed_then_the_word_is_completed(
    zsh: ZshSession, home: Path
) -> None:
    zsh.type(b"seriatim jour\t", b"journal ")
    zsh.type(b"veri\t", b"verify ")
    zsh.type(b"\x15seriatim context show prot\t", b"proto ")
    zsh.type(b"\x15seriatim serve --frame sta\t", b"stamp ")
    assert not (home / "hacked").exists()


def test_given_a_broker_with_streams_when_completed_then_they_are_there(home: Path) -> None:
    with SeriatimServer("netstring", arguments=["-js"]) as broker:
        dialogue = Dialogue(broker.port)
        for name in ("ORDERS", "TRADES"):
            body = {"name": name, "subjects": [name.lower()]}
            dialogue.ask(Step(f"$JS.API.STREAM.CREATE.{name}", body))
        of_desk = {"stream_name": "ORDERS", "config": {"durable_name": "desk", "name": "desk"}}
        dialogue.ask(Step("$JS.API.CONSUMER.CREATE.ORDERS.desk", of_desk))
        dialogue.close()
        where = f"seriatim stream info -s 127.0.0.1:{broker.port}"
        found: set[str] = set()
        while not found:  # a machine may be too slow for a person, now and then
            found = set(in_fish(home, f"{where} "))
        assert found == {"ORDERS", "TRADES"}
        found = set()
        while not found:
            found = set(in_fish(home, f"{where} ORDERS "))
        assert found == {"desk"}
    assert not set(in_fish(home, f"{where} OR")) & {"ORDERS"}


def test_given_another_shell_when_asked_for_then_the_known_ones_are_named() -> None:
    assert refusal("completion", "tcsh") == "'tcsh' is not one of bash, zsh, fish"
