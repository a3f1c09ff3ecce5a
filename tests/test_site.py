"""The site of docs/: built strictly, loads nothing from elsewhere, shows what forges show."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import markdown
import pytest
from markdown_it import MarkdownIt
from mkdocs.config import load_config

from tests.support.places import ROOT
from tests.test_docs import PAGES

BUILD_S = 600.0  # a bound for what hangs
ELEMENTS = (
    *("h1", "h2", "h3", "h4", "li", "ul", "ol", "table", "tr", "td", "th", "pre", "blockquote"),
    *("strong", "em", "code", "a", "img"),
)
LOADED = re.compile(
    r'<(?:script|link|img|iframe|source)\b[^>]*\b(?:src|href)="?(?:https?:)?//[^>]*>'
)
HEADING = re.compile(r"^#{1,6} ", re.MULTILINE)
CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=BUILD_S,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    return folder


def test_given_the_pages_when_the_site_is_built_then_each_is_there_and_can_be_found(
    built: Path,
) -> None:
    found = json.loads((built / "search" / "search_index.json").read_text())["docs"]
    places = {entry["location"].partition("#")[0] for entry in found}
    for page in (ROOT / "docs").rglob("*.md"):
        place = page.relative_to(ROOT / "docs").with_suffix("")
        assert (f"{place}/" if place.name != "README" else "") in places, page


def test_given_the_site_then_nothing_in_it_is_loaded_from_elsewhere(built: Path) -> None:
    found = {
        str(page.relative_to(built)): loaded
        for page in built.rglob("*.html")
        if (loaded := LOADED.findall(page.read_text()))
    }
    assert found == {}
    for sheet in built.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import\s)[\"']?(?:https?:)?//", sheet.read_text()), sheet


def test_given_a_link_to_a_program_when_followed_then_the_site_shows_the_program(
    built: Path,
) -> None:
    page = (built / "examples" / "index.html").read_text()
    (link,) = set(re.findall(r'href="([^"]*account\.py[^"]*)"', page))
    shown = (built / "examples" / link / "index.html").read_text()
    assert "WrongLastNumber" in shown


def test_given_a_bar_within_code_in_a_table_then_the_site_shows_it_alone(built: Path) -> None:
    assert r"`--engine fold\|state`" in (ROOT / "docs" / "spark-jobs.md").read_text()
    assert "<code>--engine fold|state</code>" in (built / "spark-jobs" / "index.html").read_text()


def counted(html: str) -> dict[str, int]:
    """How many of each element a page has; code is not looked into."""
    outside = re.sub(r"<pre\b.*?</pre>", "<pre></pre>", html, flags=re.DOTALL)
    return {one: len(re.findall(rf"<{one}[ >]", outside)) for one in ELEMENTS}


def test_given_all_pages_when_drawn_by_the_site_and_by_a_forge_then_they_have_the_same_parts() -> (
    None
):
    # Python's Markdown knows no nested list of two blanks, and needs an empty line before a list.
    config = load_config(str(ROOT / "mkdocs.yml"))
    site = markdown.Markdown(
        extensions=config["markdown_extensions"], extension_configs=config["mdx_configs"]
    )
    forge = MarkdownIt("commonmark").enable("table")
    different = {}
    for page in PAGES:
        text = re.sub(r"</?div[^>]*>\n", "", page.read_text())
        ours, theirs = counted(site.reset().convert(text)), counted(forge.render(text))
        ours["a"] -= len(HEADING.findall(CODE.sub("", text)))  # each has a link to itself
        parts = [one for one in ELEMENTS if ours[one] != theirs[one]]
        if parts:
            different[str(page.relative_to(ROOT))] = {
                one: (ours[one], theirs[one]) for one in parts
            }
    assert different == {}
