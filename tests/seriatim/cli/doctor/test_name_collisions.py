"""Doctor's findings about other modules with the names of our packages."""

import subprocess
import sys
from pathlib import Path

import pytest

import parser
from tests.seriatim.cli.command import environment, refusal
from tests.seriatim.cli.doctor.doctor_runs import doctor
from tests.support.places import ROOT

MAIN = "from seriatim.cli import main; raise SystemExit(main())"


def module(folder: Path, name: str) -> Path:
    path = folder / f"{name}.py"
    path.write_text("mine = True\n")
    return path


def test_given_no_other_module_then_all_is_well(tmp_path: Path) -> None:
    assert doctor(cwd=tmp_path).only("names").level == "ok"


def test_given_a_parser_in_the_working_directory_then_it_says_which_wins_and_python_agrees(
    tmp_path: Path,
) -> None:
    path = module(tmp_path, "parser")
    found = doctor(cwd=tmp_path).only("names")
    assert found.level == "warning"
    assert found.text == f"{path} is in the working directory"
    assert f"gets this parser instead of Seriatim's, {ROOT / 'parser'}" in found.why
    for flags, wins in (([], str(path)), (["-P"], parser.__file__)):
        command = [sys.executable, *flags, "-c", "import parser; print(parser.__file__)"]
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=tmp_path, env=environment(), check=True
        )
        assert done.stdout.strip() == wins


def test_given_a_module_before_ours_on_the_path_then_it_failed_and_nothing_else_is_tried(
    tmp_path: Path,
) -> None:
    path = module(tmp_path, "sequencer")
    examined = doctor(env={"PYTHONPATH": str(tmp_path)})
    assert examined.status == 1
    (found,) = examined.found
    assert found.text == f"{path} hides Seriatim's sequencer, {ROOT / 'sequencer'}"
    assert found.do == f"rename it, or take {tmp_path} out of PYTHONPATH"


@pytest.mark.parametrize("place", ["broker.py", "broker/__init__.py"])
def test_given_another_broker_before_ours_then_every_command_says_which(
    tmp_path: Path, place: str
) -> None:
    path = tmp_path / place
    path.parent.mkdir(exist_ok=True)
    path.write_text("")
    for command in ("doctor", "version"):
        told = refusal(command, env={"PYTHONPATH": str(tmp_path)})
        assert told.startswith(f"{path} hides Seriatim's package broker: rename it, or take its")


def test_given_a_module_after_ours_on_the_path_then_ours_wins(tmp_path: Path) -> None:
    path = module(tmp_path, "sublist")
    code = f"import sys; sys.path.append({str(tmp_path)!r}); {MAIN}"
    found = doctor(command=[sys.executable, "-P", "-c", code]).only("names")
    assert found.level == "warning"
    assert found.text == f"Seriatim's sublist, {ROOT / 'sublist'}, hides {path}"


def test_given_a_folder_without_init_then_it_hides_nothing(tmp_path: Path) -> None:
    (tmp_path / "broker").mkdir()
    (tmp_path / "broker" / "notes.txt").write_text("")
    assert doctor(cwd=tmp_path).only("names").level == "ok"
    assert doctor(env={"PYTHONPATH": str(tmp_path)}).only("names").level == "ok"


def test_given_another_distribution_with_our_name_then_it_is_named(tmp_path: Path) -> None:
    info = tmp_path / "other_parser-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other-parser\nVersion: 1.0\n")
    (info / "top_level.txt").write_text("parser\n")
    found = doctor(env={"PYTHONPATH": str(tmp_path)}).only("names")
    assert found.level == "warning"
    assert found.text == "the distribution other-parser has a package parser, too"
