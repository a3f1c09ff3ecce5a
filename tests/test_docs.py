"""The pages as a whole: the index has every one, and links and anchors lead somewhere."""

import re
from pathlib import Path

from tests.support.places import ROOT

DOCS = ROOT / "docs"
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted(DOCS.rglob("*.md")),
    *(ROOT / folder / "README.md" for folder in ("benchmarks", "fuzz")),
]
OUTSIDE = ("http://", "https://")


def anchors(page: Path) -> set[str]:
    """The names that headings have in a link, as forges make them."""
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return {
        re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    }


def broken(page: Path) -> list[str]:
    """The links of a page to files or headings that do not exist."""
    found = []
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        target, _, anchor = link.partition("#")
        file = page.parent / target if target else page
        if not link.startswith(OUTSIDE) and (
            not file.exists() or (anchor and anchor not in anchors(file))
        ):
            found.append(link)
    return found


def test_given_all_pages_when_their_links_are_followed_then_they_lead_somewhere() -> None:
    assert {str(page.relative_to(ROOT)): links for page in PAGES if (links := broken(page))} == {}


def test_given_the_index_when_read_then_it_has_every_page_once() -> None:
    index = DOCS / "README.md"
    listed = re.findall(r"^\* \[[^]]+\]\(([^)#]+\.md)\)", index.read_text(), re.MULTILINE)
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if page != index}
    assert sorted(listed) == sorted(pages)


def test_given_the_glossary_when_read_then_its_words_are_sorted_and_each_has_a_link() -> None:
    text = (DOCS / "glossary.md").read_text()
    entries = re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    words = [word for word, _ in entries]
    assert words == sorted(words, key=str.lower)
    assert [word for word, said in entries if "](" not in said] == []
