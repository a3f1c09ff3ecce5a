"""`seriatim doctor`, run to its end: its findings, by what they are about.

`prefix` is a command that runs it in other surroundings, such as a namespace of its own:
`unshare --user` makes it an ordinary user, `alone(...)` gives it a network or mounts of its own.
"""

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import join

import pytest

from tests.seriatim.cli.command import COMMAND, environment
from tests.support.commands import COMMAND_S, run_command

ORDINARY = ("unshare", "--user")


@dataclass(frozen=True)
class Finding:
    """One thing that doctor has found."""

    level: str
    what: str
    text: str
    why: str = ""
    do: str = ""


@dataclass(frozen=True)
class Examined:
    """A run of doctor."""

    status: int
    found: list[Finding]

    def about(self, what: str) -> list[Finding]:
        return [one for one in self.found if one.what == what]

    def only(self, what: str) -> Finding:
        """The one finding about this. What is not well says why, and what to do."""
        (found,) = self.about(what)
        assert found.level == "ok" or (found.why and found.do), found
        return found


def doctor(
    *arguments: str,
    prefix: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    store: Path | None = None,
    command: Sequence[str] = (COMMAND,),
) -> Examined:
    """Run it, for a broker with a store that is nowhere else if none is given."""
    place = ("--store_dir", str(store)) if store else ("--no-journal",)
    full = [*prefix, *command, "doctor", "--json", "-a", "127.0.0.1", *place, *arguments]
    if full[0] == COMMAND:
        done = run_command(full, environment(env), cwd=cwd)
    else:
        done = subprocess.run(
            full, capture_output=True, env=environment(env), cwd=cwd, timeout=COMMAND_S
        )
    assert done.stderr == b"", done.stderr.decode()
    page = json.loads(done.stdout)
    return Examined(done.returncode, [Finding(**one) for one in page["checks"]])


def alone(*setup: str, kinds: Sequence[str] = ("--net",)) -> list[str]:
    """The prefix for namespaces of these kinds, made ready by lines of shell."""
    lines = "; ".join(["set -e", *setup, 'exec "$@"'])
    prefix = ["unshare", "--user", "--map-root-user", *kinds, "sh", "-c", lines, "sh"]
    tried = subprocess.run([*prefix, "true"], capture_output=True, text=True)
    if tried.returncode:
        pytest.skip(f"{join(prefix)}: {tried.stderr.strip()}")
    return prefix


def ordinary() -> tuple[str, ...]:
    """The prefix for a user without privileges, who owns our files."""
    tried = subprocess.run([*ORDINARY, "true"], capture_output=True, text=True)
    if tried.returncode:
        pytest.skip(f"no namespace for a user: {tried.stderr.strip()}")
    return ORDINARY
