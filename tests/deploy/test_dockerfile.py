"""The Dockerfile agrees with the project: packages, version, ports, user, and nothing of a machine.

Whether it builds and runs is shown by deploy/docker/prove.sh; these tests keep it from drifting.
"""

import json
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from broker.version import VERSION
from tests.support.places import ROOT

RUN_S = 120.0
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def instructions() -> list[tuple[str, str]]:
    """Return (instruction, rest) of the Dockerfile, continued lines joined, comments dropped."""
    text = "\n".join(
        row for row in (ROOT / "Dockerfile").read_text().splitlines() if not row.startswith("#")
    )
    joined = re.sub(r"\\\n\s*", "", text)
    return [(row.split()[0], row.partition(" ")[2]) for row in joined.splitlines() if row.strip()]


def stages() -> list[list[tuple[str, str]]]:
    """Return the instructions of the stages: the first builds, one tests, the last is shipped."""
    rows = instructions()
    first, second, third = (at for at, (name, _) in enumerate(rows) if name == "FROM")
    return [rows[first:second], rows[second:third], rows[third:]]


def only(name: str) -> str:
    (rest,) = (rest for found, rest in stages()[-1] if found == name)
    return rest


def copied_from_the_tree() -> list[str]:
    copies = [shlex.split(rest) for name, rest in instructions() if name == "COPY"]
    own = [words for words in copies if not words[0].startswith("--from")]
    return [word for words in own for word in words[:-1] if not word.startswith("--")]


def test_given_the_packages_of_the_project_when_the_image_is_built_then_all_are_copied() -> None:
    packages = {name.partition(".")[0] for name in PROJECT["tool"]["setuptools"]["packages"]}
    assert packages <= set(copied_from_the_tree()), "add the new package to the Dockerfile"


def test_given_what_is_copied_when_the_context_is_sent_then_it_is_there_and_not_ignored() -> None:
    kept = (ROOT / ".dockerignore").read_text().splitlines()
    for source in copied_from_the_tree():
        assert (ROOT / source).exists(), f"the Dockerfile copies {source}, which does not exist"
        assert f"!{source}" in kept, f"name {source} in .dockerignore, or it will be missing"


def test_given_objects_built_in_place_when_the_context_is_sent_then_they_stay_here() -> None:
    assert "**/*.so" in (ROOT / ".dockerignore").read_text().splitlines()


def test_given_the_version_when_released_then_the_label_says_the_same() -> None:
    assert ("ARG", f"VERSION={VERSION}") in stages()[-1]


@pytest.mark.parametrize("name", ["ENTRYPOINT", "CMD"])
def test_given_a_command_when_run_then_no_shell_stands_between_it_and_the_signal(name: str) -> None:
    words = json.loads(only(name))
    assert all(isinstance(word, str) for word in words)


def test_given_the_image_when_run_then_it_is_not_root_by_number() -> None:
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", only("USER"))


def test_given_any_command_when_run_then_the_journal_is_in_the_volume() -> None:
    (volume,) = json.loads(only("VOLUME"))
    stores = [rest for name, rest in stages()[-1] if rest.startswith("SERIATIM_STORE_DIR=")]
    assert stores == [f"SERIATIM_STORE_DIR={volume}"]
    assert any(f"--mode=0750 {volume}" in rest for name, rest in stages()[-1] if name == "RUN")


def test_given_the_ports_when_exposed_then_command_and_healthcheck_use_them() -> None:
    (client,) = only("EXPOSE").split()
    command = json.loads(only("CMD"))
    assert command[command.index("-p") + 1] == client
    http = command[command.index("-m") + 1]
    assert command[command.index("--http_host") + 1] == "127.0.0.1", "nobody else may ask there"
    options, _, check = only("HEALTHCHECK").partition("CMD ")
    assert "--interval=" in options
    assert json.loads(check)[-1] == http


def test_given_stages_when_shipped_then_the_compiler_stayed_in_the_first() -> None:
    builder, _, shipped = stages()
    assert any("gcc" in rest for _, rest in builder)
    assert any("SERIATIM_REQUIRE_COMPILED=1" in rest for _, rest in builder)
    assert not any(re.search(r"\b(gcc|pip|dev)\b", rest) for name, rest in shipped if name == "RUN")


def test_given_tests_that_fail_when_built_then_there_is_no_image() -> None:
    _, tested, shipped = stages()
    assert tested[0] == ("FROM", "builder AS test"), "what is tested is what was built"
    (run,) = (rest for name, rest in tested if name == "RUN" and "run_tests.sh" in rest)
    assert not re.search(r"[|;&]", run), "nothing hides its status"
    copied = [shlex.split(rest) for name, rest in shipped if name == "COPY"]
    sources = [words for words in copied if words[0].startswith("--from")]
    # A stage that nothing is copied from is not built at all.
    assert sources == [["--from=test", "/opt/seriatim", "/opt/seriatim"]]
    written = [rest for name, rest in tested if name in ("RUN", "COPY")]
    assert not any("/opt/seriatim" in rest for rest in written), "tests leave no trace in the image"


@pytest.mark.parametrize(("test", "status"), [("assert True", 0), ("assert False", 1)])
def test_given_a_test_when_the_stage_runs_it_then_its_status_is_that_of_the_build(
    test: str, status: int, tmp_path: Path
) -> None:
    (tmp_path / "test_one.py").write_text(f"def test_one() -> None:\n    {test}\n")
    done = subprocess.run(
        ["sh", str(ROOT / "deploy/docker/run_tests.sh"), sys.executable, "test_one.py"],
        cwd=tmp_path,
        capture_output=True,
        timeout=RUN_S,
        check=False,
    )
    assert done.returncode == status, done.stdout


def named_by_the_script() -> tuple[list[str], list[str]]:
    """The patterns of what is tested in a build, and of what is left out."""
    script = (ROOT / "deploy/docker/run_tests.sh").read_text()
    named = re.findall(r"tests/[\w/*.]+", script.partition("set --")[2])
    return named, re.findall(r"'(\*[^']+)'", script)


def test_given_what_is_tested_in_a_build_then_it_is_there() -> None:
    named, _ = named_by_the_script()
    assert len(named) > 5
    for pattern in named:
        assert list(ROOT.glob(pattern)), f"{pattern} is nothing"


def test_given_what_is_tested_in_a_build_then_it_reads_no_document_or_source() -> None:
    named, left_out = named_by_the_script()
    found = [path for pattern in named for path in ROOT.glob(pattern)]
    files = {file for path in found for file in ([path] if path.is_file() else path.rglob("*.py"))}
    tested = [file for file in files if not any(file.match(glob) for glob in left_out)]
    assert len(tested) > 50
    readers = re.compile(r"parents\[2\]|parent\.parent\.parent|docs")
    for file in tested:
        if file.name.startswith("test_"):
            assert not readers.search(file.read_text()), f"leave {file.name} out in run_tests.sh"


def test_given_some_machine_when_it_builds_then_its_registries_are_not_in_the_dockerfile() -> None:
    text = (ROOT / "Dockerfile").read_text().lower()
    for word in ("index-url", "pip_", "trusted-host", "find-links", "proxy", ".crt", ".pem"):
        assert word not in text
