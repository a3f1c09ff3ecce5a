"""Every input of the corpus, in both builds: what once broke something must never do so again.

Fuzzing itself needs clang and minutes (`make fuzz`). These are the inputs worth keeping, with the
same judges, without a sanitizer, and with the real sizes of buffers and tables.
"""

from pathlib import Path

import pytest

from fuzz.build import SHRUNK, passed_with, reached, sources
from fuzz.cases import CASES
from tests.support.places import ROOT

CORPUS = ROOT / "tests" / "corpus"
FILES = [file for target in CASES for file in sorted((CORPUS / target).iterdir())]
FILES_MAX, BYTES_MAX = 400, 300_000


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.name}")
def test_given_an_input_of_the_corpus_when_run_again_then_its_judge_agrees(file: Path) -> None:
    CASES[file.parent.name].check(file.read_bytes())


def test_given_the_corpus_when_weighed_then_it_is_small() -> None:
    assert len(FILES) <= FILES_MAX, "run: python -m fuzz.thin"
    assert sum(file.stat().st_size for file in FILES) <= BYTES_MAX, "run: python -m fuzz.thin"


def test_given_the_sizes_that_the_fuzzed_build_shrinks_when_looked_for_then_they_are_there() -> (
    None
):
    assert {path.as_posix() for path in sources()} >= SHRUNK.keys()
    for path, sizes in SHRUNK.items():
        text = (ROOT / path).read_text()
        for name in sizes:
            assert text.count(f" {name} = ") == 1, f"{path} has no {name}: see fuzz/build.py"


def test_given_a_target_then_what_it_reaches_decides_whether_its_corpus_is_run_again(
    tmp_path: Path,
) -> None:
    found = {path.as_posix() for path in reached(Path("fuzz/case_parser.py"))}
    assert {"parser/machine.py", "parser/machine.pxd", "fuzz/case_parser.py"} <= found
    assert not any(path.startswith("sequencer/") for path in found)
    assert Path("sublist/trie.pxd") in reached(Path("fuzz/case_sublist.py"))
    (tmp_path / "one").write_bytes(b"PING")
    before = passed_with("parser", tmp_path)
    assert passed_with("parser", tmp_path) == before
    (tmp_path / "two").write_bytes(b"PONG")
    assert passed_with("parser", tmp_path) != before
