"""The guide to Spark: its options are the code's, its examples Python, its links lead somewhere."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.places import ROOT

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("spark*.md"))


def test_given_the_table_of_options_when_the_guide_is_read_then_each_line_of_it_is_there() -> None:
    made = subprocess.run(
        [sys.executable, "-m", "pyspark_seriatim.options"],
        cwd=DOCS.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line for line in made.stdout.splitlines() if line.startswith("| `")]
    guide = (DOCS / "spark.md").read_text().splitlines()
    assert len(lines) > 30
    assert [line for line in lines if line not in guide] == [], "python -m pyspark_seriatim.options"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_given_a_page_when_read_then_its_examples_are_python_and_its_links_lead_somewhere(
    page: Path,
) -> None:
    text = page.read_text()
    for example in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        ast.parse(example)
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        assert (DOCS / target).exists(), target


def test_given_the_pages_then_every_job_of_the_command_line_has_its_place_in_them() -> None:
    from seriatim.cli.spark import JOBS

    guide, jobs = ((DOCS / name).read_text() for name in ("spark.md", "spark-jobs.md"))
    assert [job for job in JOBS if f"\n| `{job}" not in guide] == []
    told = [job for job in JOBS if job != "bundle"]
    assert [job for job in told if not re.search(rf"^## `?{job}\b", jobs, re.M | re.I)] == []
