"""docs/quickstarts.md: its programs are run; Java's is only read by the compiler.

Go, nats.go and the JDK are Debian's, and are installed if they are missing. Debian has no jnats,
and the tests use no registry of Java's.
"""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packages.laid import lay, packed
from tests.support.debian import need
from tests.support.debian import program as debian_program
from tests.support.pages import PLACE, blocks, steps, whole
from tests.support.processes import STAND_IN, SeriatimServer, ServerProcess

pytestmark = pytest.mark.skipif(STAND_IN, reason="nats-server gives no numbers")
PAGE = "docs/quickstarts.md"
((_, PRINTED),) = steps(PAGE, "python")
END_S = 300.0  # a bound for what hangs: Go compiles a client
GO_PACKAGES = Path("/usr/share/gocode")
NATS_GO = "github.com/nats-io/nats.go"
# What a compiler says that reads a program without jnats.
WITHOUT_JNATS = re.compile(r"package io\.nats\.client does not exist|cannot find symbol")


@pytest.fixture
def broker() -> Iterator[ServerProcess]:
    with SeriatimServer("header") as process:
        yield process


def program(language: str, port: int) -> str:
    """The page's program in a language, for the broker at this port."""
    (found,) = [text for kind, text in blocks(PAGE) if kind == language]
    assert PLACE in found
    return found.replace(PLACE, f"nats://127.0.0.1:{port}")


def said(command: list[str], folder: Path, more: dict[str, str] | None = None) -> str:
    """What a program prints that ends by itself."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **(more or {})},
        capture_output=True,
        text=True,
        timeout=END_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout


def test_given_the_page_then_its_broker_is_the_one_of_the_tests() -> None:
    (serve,) = [text for kind, text in blocks(PAGE) if kind == "sh"]
    assert serve == "seriatim serve -a 127.0.0.1 --frame header\n"


def test_given_the_program_in_python_then_it_publishes_and_reads(
    broker: ServerProcess, tmp_path: Path
) -> None:
    assert whole(program("python", broker.port), broker.port, tmp_path) == PRINTED


def test_given_the_program_in_javascript_then_it_publishes_and_reads(
    node: str, broker: ServerProcess, tmp_path: Path
) -> None:
    archive, _ = packed(tmp_path)
    lay(archive, tmp_path)
    (tmp_path / "orders.mjs").write_text(program("javascript", broker.port))
    assert said([node, "orders.mjs"], tmp_path) == PRINTED


def test_given_the_program_in_go_then_it_publishes_and_reads(
    broker: ServerProcess, tmp_path: Path
) -> None:
    go = debian_program("go", "golang-go")
    need((GO_PACKAGES / "src" / NATS_GO).exists, "golang-github-nats-io-go-nats-dev")
    # No modules and no module proxy: Go takes the sources that Debian's packages have laid out.
    places = {"GO111MODULE": "off", "GOPATH": str(GO_PACKAGES), "GOCACHE": str(tmp_path / "cache")}
    (tmp_path / "orders.go").write_text(program("go", broker.port))
    assert said([go, "run", "orders.go"], tmp_path, places) == PRINTED


def test_given_the_program_in_java_then_the_compiler_misses_nothing_but_jnats(
    tmp_path: Path,
) -> None:
    javac = debian_program("javac", "default-jdk-headless")
    (tmp_path / "Orders.java").write_text(program("java", 4222))
    done = subprocess.run(
        [javac, "Orders.java"], cwd=tmp_path, capture_output=True, text=True, timeout=END_S
    )
    errors = re.findall(r"^Orders\.java:\d+: error: (.*)$", done.stderr, re.MULTILINE)
    assert errors, "a program that lacks a library cannot be compiled"
    assert [one for one in errors if not WITHOUT_JNATS.fullmatch(one)] == []
